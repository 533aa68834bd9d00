"""What the paper's theorems promise before a run: assumptions, rates and bounds, from the problem alone."""

from gossamer.theory.assumptions import assumptions
from gossamer.theory.best import Best, best_schedule
from gossamer.theory.constants import Constants, constants
from gossamer.theory.findings import Finding, Report
from gossamer.theory.last_iterate import LastIterate, last_iterate
from gossamer.theory.problem import Problem
from gossamer.theory.rates import Rates, rates

__all__ = [
    "Best", "Constants", "Finding", "LastIterate", "Problem", "Rates", "Report", "assumptions", "best_schedule",
    "constants", "last_iterate", "rates",
]  # fmt: skip
