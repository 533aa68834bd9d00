"""Linear models: the loss of a record (a, b) depends on θ through the margins aᵀθ alone.

LogisticRegression   l = (1−b) aᵀθ − log s(aᵀθ),  s(x) = 1/(1+e^−x),  b ∈ {0, 1}      (the paper's, bracket mended)
SoftmaxRegression    l = log Σ_k exp(aᵀθ_k) − aᵀθ_b,                   b ∈ {0, …, K−1}
RidgeRegression      l = ½ (aᵀθ − b)²
each plus l2/2 ‖θ‖², where an intercept, the last column, is left out. Gradients are closed forms:
∇l = a ⊗ w(margins, b) + l2 θ. A memory's gradient is the data's part, without l2 θ: that is no record's, so it is
added where the noise has been.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, cast

import numpy as np
import scipy

from gossamer.arrays import NUMPY, Kind
from gossamer.errors import Argument, BadValue, GossamerError, NotProvable
from gossamer.models.base import Gradient
from gossamer.models.bounds import LOGISTIC_ERROR, MOST, UNIT, Clip, Norm, Reach, Sizes, Weights, reach
from gossamer.models.memory import LinearMemory
from gossamer.models.standard import Standardise, StandardMemory
from gossamer.models.statistics import MOST_COLUMNS, MOST_NUMBERS, StatisticsMemory
from gossamer.models.tensor_statistics import TensorStatistics
from gossamer.models.tensors import TensorMemory
from gossamer.records import FeatureBounds, Table
from gossamer.types import Array, Integers

LOGISTIC, SQUARED = 0, 1  # kinds of loss, as the kernels know them


class LinearModel(ABC):
    """What all linear models share.

    A model is a frozen dataclass with fields l2, clip, intercept, standardise, remember and arrays. It says which
    margins it has (`outputs`), which of the kernels its gradient is, and for margins of shape (records, learners, K)
    its losses, their derivatives and the quality of its predictions; `known_weights` is what bounds them.
    """

    l2: float
    clip: Clip | None
    intercept: bool  # whether the last column is one, which the ridge leaves alone
    standardise: Standardise | None  # which numbers are seen from their middle, in units of their spread
    score: str
    kernel: int | None  # which of gossamer.models.kernels finds the gradient; None: softmax's
    arrays: Kind = NUMPY  # what θ is made of: see gossamer.models.tensors
    remember: int | None = None  # over how many rounds' records a history is the mean; None: over all

    def __post_init__(self) -> None:
        if not 0 <= self.l2 < np.inf:
            python = f"{type(self).__name__}(l2={self.l2!r})"
            raise BadValue("l2", self.l2, "expected a finite number ≥ 0", python=python)
        rounds = self.remember
        if rounds is not None and (isinstance(rounds, bool) or not isinstance(rounds, int | np.integer) or rounds < 1):
            python = f"{type(self).__name__}(remember={rounds!r})"
            raise BadValue("remember", rounds, "expected a whole number of rounds ≥ 1, or None for all", python=python)

    def __repr__(self) -> str:
        known = [f for f in fields(cast("Any", self)) if f.repr]
        shown = [f for f in known if f.name != "remember" or self.remember is not None]
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

    @property
    @abstractmethod
    def outputs(self) -> int:
        """K: how many margins a record has."""

    @abstractmethod
    def check_labels(self, labels: Array) -> None: ...
    @abstractmethod
    def losses(self, margins: Array, labels: Array) -> Array: ...
    @abstractmethod
    def weights(self, margins: Array, labels: Array) -> Array:
        """dl/dmargins."""

    @abstractmethod
    def curve(self, margins: Array, moved: Array) -> Array:
        """How the weights move when the margins do."""

    @abstractmethod
    def quality(self, margins: Array, labels: Array, share: Array) -> Array:
        """The share predicted right, or R²."""

    @abstractmethod
    def known_weights(self, norm: Norm) -> Weights:
        """What is known of the weights, in this norm."""

    @property
    def bounded(self) -> bool:
        return math.isfinite(self.known_weights(1).most)

    def theta_size(self, columns: int) -> int:
        return columns * self.outputs + (0 if self.standardise is None else self.standardise.extra)

    def parameters(self, theta: Array, columns: int) -> Array:
        """What predicts, of an algorithm's θ: behind it may lie what the learners know of their records' moments."""
        return theta[..., : columns * self.outputs]

    def ridge(self, columns: int) -> Array:
        """l2 for every parameter, 0 for an intercept's."""
        each = np.full(columns * self.outputs, self.l2)
        if self.intercept:
            each[-self.outputs :] = 0.0
        return each

    def start(self, m: int, seed: int, columns: int) -> Array:
        zeros: Array = self.arrays.make(np.zeros((m, 1))) + self.arrays.make(np.zeros((1, self.theta_size(columns))))
        return zeros

    def reach(self, features: FeatureBounds | None, norm: Norm, sizes: Sizes = MOST) -> Reach:
        if self.arrays.tensors:
            raise NotProvable(
                "what is proved of a linear model's gradients is proved of NumPy's arrays, and these are tensors: use ",
                Argument("device", "cpu", python=f"{type(self).__name__} without arrays="), ".",
            )  # fmt: skip
        if self.standardise is not None:
            features = None  # of records as they are seen nothing is declared: the clipper bounds them
        return reach(self.known_weights(norm), features, self.clip, norm, type(self).__name__, sizes)

    def memory(
        self, table: Table, keep: Gradient, room: Integers, alone: bool = False
    ) -> LinearMemory | StatisticsMemory | StandardMemory | TensorMemory | TensorStatistics:
        """What k learners remember; `alone`: of one learner, whose process has no other use for numba."""
        if self.arrays.tensors:
            for name, given in (
                ("standardise", None if self.standardise is None else True),
                ("remember", self.remember),
            ):
                if given is not None:
                    raise GossamerError(
                        Argument(name, given), " is for ", Argument("device", "cpu"), ": leave one of them out."
                    )
            return self._tensors(table, keep, room)
        if self.standardise is not None and keep != "history":
            raise GossamerError(
                Argument("standardise", True), " needs ", Argument("gradient", "history"), ": use it, or leave it out."
            )
        inner = self._records(table, keep, room, alone)
        return inner if self.standardise is None else StandardMemory(self, table, inner)

    def _records(self, table: Table, keep: Gradient, room: Integers, alone: bool) -> LinearMemory | StatisticsMemory:
        return LinearMemory(self, table, keep, room, alone)

    def _tensors(self, table: Table, keep: Gradient, room: Integers) -> TensorMemory | TensorStatistics:
        return TensorMemory(self, table, keep, room)

    def to_record(self, value: Array) -> Array:
        return self.arrays.to_numpy(value)

    def from_record(self, stored: Array) -> Array:
        value: Array = self.arrays.make(stored)
        return value


@dataclass(frozen=True, repr=False)
class LogisticRegression(LinearModel):
    """Two classes, labelled 0 and 1."""

    l2: float = 0.0
    clip: Clip | None = None
    intercept: bool = False
    standardise: Standardise | None = None
    remember: int | None = None
    arrays: Kind = field(default=NUMPY, repr=False)
    outputs = 1
    score = "accuracy"
    kernel = LOGISTIC

    def check_labels(self, labels: Array) -> None:
        _check_classes(self, labels, 2)

    def losses(self, margins: Array, labels: Array) -> Array:
        x = margins[..., 0]
        return np.asarray((1 - labels)[:, None] * x + np.logaddexp(0, -x))

    def weights(self, margins: Array, labels: Array) -> Array:
        return np.asarray(scipy.special.expit(margins) - labels[:, None, None])

    def curve(self, margins: Array, moved: Array) -> Array:
        p = scipy.special.expit(margins)
        return np.asarray(p * (1 - p) * moved)

    def quality(self, margins: Array, labels: Array, share: Array) -> Array:
        return np.asarray(share @ ((margins[..., 0] > 0) == labels[:, None]))

    def known_weights(self, norm: Norm) -> Weights:
        return Weights(most=1.0, slope=0.25, sway=0.25, error=LOGISTIC_ERROR, outputs=1)


@dataclass(frozen=True, repr=False)
class RidgeRegression(LinearModel):
    """Least squares; real labels."""

    l2: float = 0.0
    clip: Clip | None = None
    intercept: bool = False
    standardise: Standardise | None = None
    remember: int | None = None
    arrays: Kind = field(default=NUMPY, repr=False)
    outputs = 1
    score = "R²"
    kernel = SQUARED

    def check_labels(self, labels: Array) -> None:
        """Any number will do: were labels refused that are all alike, one record would decide whether a run starts."""

    def losses(self, margins: Array, labels: Array) -> Array:
        return np.asarray(0.5 * (margins[..., 0] - labels[:, None]) ** 2)

    def weights(self, margins: Array, labels: Array) -> Array:
        return np.asarray(margins - labels[:, None, None])

    def curve(self, margins: Array, moved: Array) -> Array:
        return moved

    def quality(self, margins: Array, labels: Array, share: Array) -> Array:
        spread = share @ (labels - share @ labels) ** 2 if np.ptp(labels) else np.nan  # labels all alike: no R²
        return np.asarray(1 - share @ (margins[..., 0] - labels[:, None]) ** 2 / spread)

    def known_weights(self, norm: Norm) -> Weights:
        return Weights(most=math.inf, slope=1.0, sway=1.0, error=0.0, outputs=1)

    def _records(self, table: Table, keep: Gradient, room: Integers, alone: bool) -> LinearMemory | StatisticsMemory:
        return (
            StatisticsMemory(self, table, room, alone)
            if self._sums(table, keep, room)
            else super()._records(table, keep, room, alone)
        )

    def _tensors(self, table: Table, keep: Gradient, room: Integers) -> TensorMemory | TensorStatistics:
        return (
            TensorStatistics(self, table, room)
            if self._sums(table, keep, room)
            else super()._tensors(table, keep, room)
        )

    def _sums(self, table: Table, keep: Gradient, room: Integers) -> bool:
        """Whether sums do in place of records, all of which have to weigh alike, and are not too large."""
        alike = keep == "history" and self.clip is None and self.remember is None
        return alike and table.columns <= MOST_COLUMNS and len(room) * table.columns**2 <= MOST_NUMBERS


@dataclass(frozen=True, repr=False)
class SoftmaxRegression(LinearModel):
    """K classes, labelled 0 to K−1; θ is the (features, K) matrix laid flat."""

    classes: int
    l2: float = 0.0
    clip: Clip | None = None
    intercept: bool = False
    standardise: Standardise | None = None
    remember: int | None = None
    arrays: Kind = field(default=NUMPY, repr=False)
    score = "accuracy"
    kernel = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes < 2:
            python = f"SoftmaxRegression(classes={self.classes})"
            raise BadValue("classes", self.classes, "expected at least 2 classes", python=python)

    @property
    def outputs(self) -> int:
        return self.classes

    def check_labels(self, labels: Array) -> None:
        _check_classes(self, labels, self.classes)

    def losses(self, margins: Array, labels: Array) -> Array:
        own = np.take_along_axis(margins, labels.astype(int)[:, None, None], axis=2)[..., 0]
        return np.asarray(scipy.special.logsumexp(margins, axis=2) - own)

    def weights(self, margins: Array, labels: Array) -> Array:
        value: Array = scipy.special.softmax(margins, axis=2)
        value[np.arange(len(labels)), :, labels.astype(int)] -= 1
        return value

    def curve(self, margins: Array, moved: Array) -> Array:
        p = scipy.special.softmax(margins, axis=2)
        return np.asarray(p * (moved - (p * moved).sum(axis=2, keepdims=True)))

    def quality(self, margins: Array, labels: Array, share: Array) -> Array:
        return np.asarray(share @ (margins.argmax(axis=2) == labels[:, None]))

    def known_weights(self, norm: Norm) -> Weights:
        error = (2 * self.classes + 20) * UNIT
        most = (2.0 if norm == 1 else math.sqrt(2)) + error
        return Weights(most, slope=0.5, sway=1.0, error=error, outputs=self.classes)


def _check_classes(model: LinearModel, labels: Array, classes: int) -> None:
    """Refuse what is no class of the model; that all are of one class is no reason, since one record would decide."""
    strange = np.setdiff1d(labels, np.arange(classes))  # sorted
    if len(strange):
        raise GossamerError(
            f"{type(model).__name__} found the label {strange[0]:g}, expected 0 to {classes - 1}: "
            "number the classes from 0, or use another model."
        )
