"""What the paper's theorems promise before a run: assumptions, rates and bounds, from the problem alone."""

from gossamer.theory.best import Best, best_schedule
from gossamer.theory.last_iterate import LastIterate, last_iterate
from gossamer.theory.problem import Problem
from gossamer.theory.rates import Rates, rates

__all__ = ["Best", "LastIterate", "Problem", "Rates", "best_schedule", "last_iterate", "rates"]
