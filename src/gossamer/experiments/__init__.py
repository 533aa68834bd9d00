"""Comparisons that are fair: every method at the same ε, tuned by one rule, on seeds it was not tuned on."""

from gossamer.experiments import words
from gossamer.experiments.catalogue import METHODS, Method
from gossamer.experiments.compare import Comparison, compare
from gossamer.experiments.frontier import Frontier, frontier
from gossamer.experiments.problems import Problem
from gossamer.experiments.runs import Runs

__all__ = ["METHODS", "Comparison", "Frontier", "Method", "Problem", "Runs", "compare", "frontier", "words"]
