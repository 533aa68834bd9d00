"""Models: losses with closed-form gradients."""

from gossamer.models.linear import LogisticRegression, Model, RidgeRegression, SoftmaxRegression
from gossamer.models.memory import Gradient, Memory
from gossamer.models.objective import Objective

__all__ = [
    "Gradient",
    "LogisticRegression",
    "Memory",
    "Model",
    "Objective",
    "RidgeRegression",
    "SoftmaxRegression",
]
