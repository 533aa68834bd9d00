"""What the paper's theorems promise before a run: assumptions, rates and bounds, from the problem alone."""

from gossamer.theory.assumptions import assumptions
from gossamer.theory.best import Best, best_schedule
from gossamer.theory.bounds import Bounds, bounds
from gossamer.theory.budget import Theorem4, budget_bound
from gossamer.theory.constants import Constants, constants
from gossamer.theory.eigenvector import lemma2
from gossamer.theory.findings import Finding, Report
from gossamer.theory.last_iterate import LastIterate, last_iterate
from gossamer.theory.problem import Problem
from gossamer.theory.rates import Rates, rates
from gossamer.theory.sequences import lemma6, lemma12

__all__ = [
    "Best", "Bounds", "Constants", "Finding", "LastIterate", "Problem", "Rates", "Report", "Theorem4", "assumptions",
    "best_schedule", "bounds", "budget_bound", "constants", "last_iterate", "lemma2", "lemma6", "lemma12", "rates",
]  # fmt: skip
