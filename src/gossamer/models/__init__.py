"""Models: losses with closed-form gradients."""

from gossamer.models.base import Gradient, Memory, Model
from gossamer.models.bounds import Clip, Sizes, clip_l1, clip_l2
from gossamer.models.linear import LinearModel, LogisticRegression, RidgeRegression, SoftmaxRegression
from gossamer.models.objective import Objective

__all__ = [
    "Clip", "Gradient", "LinearModel", "LogisticRegression", "Memory", "Model", "Objective", "RidgeRegression", "Sizes",
    "SoftmaxRegression", "clip_l1", "clip_l2",
]  # fmt: skip
