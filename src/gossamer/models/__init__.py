"""Models: losses with closed-form gradients."""

from gossamer.models.bounds import Clip, clip_l1, clip_l2
from gossamer.models.linear import LogisticRegression, Model, RidgeRegression, SoftmaxRegression
from gossamer.models.memory import Gradient, Memory
from gossamer.models.objective import Objective

__all__ = [
    "Clip",
    "Gradient",
    "LogisticRegression",
    "Memory",
    "Model",
    "Objective",
    "RidgeRegression",
    "SoftmaxRegression",
    "clip_l1",
    "clip_l2",
]
