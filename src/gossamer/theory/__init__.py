"""What the paper's theorems promise before a run: assumptions, rates and bounds, from the problem alone."""

from gossamer.theory.best import Best, best_schedule
from gossamer.theory.bounds import Bounds, bounds
from gossamer.theory.budget import Theorem4, budget_bound
from gossamer.theory.eigenvector import lemma2
from gossamer.theory.last_iterate import LastIterate, last_iterate
from gossamer.theory.problem import Problem
from gossamer.theory.rates import Rates, rates
from gossamer.theory.sequences import lemma6, lemma12

__all__ = [
    "Best",
    "Bounds",
    "LastIterate",
    "Problem",
    "Rates",
    "Theorem4",
    "best_schedule",
    "bounds",
    "budget_bound",
    "last_iterate",
    "lemma2",
    "lemma6",
    "lemma12",
    "rates",
]
