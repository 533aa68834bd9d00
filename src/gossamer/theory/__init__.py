"""What the paper's theorems promise before a run: assumptions, rates and bounds, from the problem alone."""

from gossamer.theory.best import Best, best_schedule
from gossamer.theory.bounds import Bounds, bounds
from gossamer.theory.last_iterate import LastIterate, last_iterate
from gossamer.theory.problem import Problem
from gossamer.theory.rates import Rates, rates

__all__ = ["Best", "Bounds", "LastIterate", "Problem", "Rates", "best_schedule", "bounds", "last_iterate", "rates"]
