"""What the paper's theorems promise before a run: assumptions, rates and bounds, from the problem alone."""

from gossamer.theory.bounds import Bounds, bounds
from gossamer.theory.budget import Theorem4, budget_bound
from gossamer.theory.eigenvector import lemma2
from gossamer.theory.problem import Problem
from gossamer.theory.sequences import lemma6, lemma12

__all__ = ["Bounds", "Problem", "Theorem4", "bounds", "budget_bound", "lemma2", "lemma6", "lemma12"]
