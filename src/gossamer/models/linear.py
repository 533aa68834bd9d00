"""Linear models: the loss of a record (a, b) depends on θ through the margins aᵀθ alone.

LogisticRegression   l = (1−b) aᵀθ − log s(aᵀθ),  s(x) = 1/(1+e^−x),  b ∈ {0, 1}      (the paper's, bracket mended)
SoftmaxRegression    l = log Σ_k exp(aᵀθ_k) − aᵀθ_b,                   b ∈ {0, …, K−1}
RidgeRegression      l = ½ (aᵀθ − b)²
each plus l2/2 ‖θ‖². Gradients are closed forms: ∇l = a ⊗ w(margins, b) + l2 θ. A memory's gradient is the data's
part, without l2 θ: that is no record's, so it is added where the noise has been.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from gossamer.arrays import NUMPY, Kind
from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.models.base import Gradient
from gossamer.models.bounds import LARGEST, LOGISTIC_ERROR, MOST, UNIT, Clip, Norm, Reach, Sizes, Weights, reach
from gossamer.models.memory import LinearMemory
from gossamer.models.objective import Objective
from gossamer.records import FeatureBounds, Population, Table
from gossamer.types import Array, Integers

LOGISTIC, SQUARED = 0, 1  # kinds of loss, as the kernels know them


class LinearModel(ABC):
    """What all linear models share.

    A model is a frozen dataclass with the fields l2 and clip. It says which margins it has (`outputs`), which of the
    kernels its gradient is, and for margins of shape (records, learners, K) its losses, their derivatives and the
    quality of its predictions; `known_weights` is what bounds them.
    """

    l2: float
    clip: Clip | None
    score: str
    kernel: int | None  # which of gossamer.models.kernels finds the gradient; None: softmax's
    arrays: Kind = NUMPY
    remember: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.l2 < np.inf:
            python = f"{type(self).__name__}(l2={self.l2!r})"
            raise BadValue("l2", self.l2, "expected a finite number ≥ 0", python=python)

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
        return columns * self.outputs

    def start(self, m: int, seed: int, columns: int) -> Array:
        return np.zeros((m, self.theta_size(columns)))

    def reach(self, features: FeatureBounds | None, norm: Norm, sizes: Sizes = MOST) -> Reach:
        return reach(self.known_weights(norm), features, self.clip, norm, type(self).__name__, sizes)

    def memory(self, table: Table, keep: Gradient, room: Integers) -> LinearMemory:
        return _memory(self, table, keep, room)

    def to_record(self, value: Array) -> Array:
        return np.asarray(value)

    def from_record(self, stored: Array) -> Array:
        return stored


@dataclass(frozen=True)
class LogisticRegression(LinearModel):
    """Two classes, labelled 0 and 1."""

    l2: float = 0.0
    clip: Clip | None = None
    outputs = 1
    score = "accuracy"
    kernel = LOGISTIC

    def check_labels(self, labels: Array) -> None:
        _check_classes(self, labels, 2)

    def losses(self, margins: Array, labels: Array) -> Array:
        x = margins[..., 0]
        value: Array = (1 - labels)[:, None] * x + np.logaddexp(0, -x)
        return value

    def weights(self, margins: Array, labels: Array) -> Array:
        value: Array = scipy.special.expit(margins) - labels[:, None, None]
        return value

    def curve(self, margins: Array, moved: Array) -> Array:
        p = scipy.special.expit(margins)
        value: Array = p * (1 - p) * moved
        return value

    def quality(self, margins: Array, labels: Array, share: Array) -> Array:
        value: Array = share @ ((margins[..., 0] > 0) == labels[:, None])
        return value

    def known_weights(self, norm: Norm) -> Weights:
        return Weights(most=1.0, slope=0.25, sway=0.25, error=LOGISTIC_ERROR, outputs=1)


@dataclass(frozen=True)
class RidgeRegression(LinearModel):
    """Least squares; real labels."""

    l2: float = 0.0
    clip: Clip | None = None
    outputs = 1
    score = "R²"
    kernel = SQUARED

    def check_labels(self, labels: Array) -> None:
        """Any number will do: were labels refused that are all alike, one record would decide whether a run starts."""

    def losses(self, margins: Array, labels: Array) -> Array:
        value: Array = 0.5 * (margins[..., 0] - labels[:, None]) ** 2
        return value

    def weights(self, margins: Array, labels: Array) -> Array:
        value: Array = margins - labels[:, None, None]
        return value

    def curve(self, margins: Array, moved: Array) -> Array:
        return moved

    def quality(self, margins: Array, labels: Array, share: Array) -> Array:
        spread = share @ (labels - share @ labels) ** 2 if np.ptp(labels) else np.nan  # labels all alike: no R²
        value: Array = 1 - share @ (margins[..., 0] - labels[:, None]) ** 2 / spread
        return value

    def known_weights(self, norm: Norm) -> Weights:
        return Weights(most=math.inf, slope=1.0, sway=1.0, error=0.0, outputs=1)


@dataclass(frozen=True)
class SoftmaxRegression(LinearModel):
    """K classes, labelled 0 to K−1; θ is the (features, K) matrix laid flat."""

    classes: int
    l2: float = 0.0
    clip: Clip | None = None
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
        value: Array = scipy.special.logsumexp(margins, axis=2) - own
        return value

    def weights(self, margins: Array, labels: Array) -> Array:
        value: Array = scipy.special.softmax(margins, axis=2)
        value[np.arange(len(labels)), :, labels.astype(int)] -= 1
        return value

    def curve(self, margins: Array, moved: Array) -> Array:
        p = scipy.special.softmax(margins, axis=2)
        value: Array = p * (moved - (p * moved).sum(axis=2, keepdims=True))
        return value

    def quality(self, margins: Array, labels: Array, share: Array) -> Array:
        value: Array = share @ (margins.argmax(axis=2) == labels[:, None])
        return value

    def known_weights(self, norm: Norm) -> Weights:
        error = (2 * self.classes + 20) * UNIT
        most = (2.0 if norm == 1 else math.sqrt(2)) + error
        return Weights(most, slope=0.5, sway=1.0, error=error, outputs=self.classes)


def _memory(model: LinearModel, table: Table, keep: Gradient, room: Integers) -> LinearMemory:
    """A memory whose gradient is the kernel for this kind of rows."""
    from gossamer.models import kernels

    if table.classes:  # whatever the records hold, a model is refused or not
        model.check_labels(np.arange(float(table.classes)))
        _check_declared(table)
    else:
        model.check_labels(table.labels)
    kernel = {
        (False, False): kernels.dense_scalar,
        (False, True): kernels.dense_softmax,
        (True, False): kernels.coded_scalar,
        (True, True): kernels.coded_softmax,
    }[table.codebook is not None, model.kernel is None]
    book = () if table.codebook is None else (table.codebook,)
    clip, scale = model.clip, table.scale
    if clip is not None and clip.per == "round" and keep == "history":
        raise GossamerError(
            "clipping per round needs ", Argument("gradient", "latest"), ": use it, or clip per record."
        )
    each = clip is not None and clip.per == "record"
    order = clip.norm if clip is not None else 2

    def gradient(memory: LinearMemory, theta: Array) -> Array:
        # Coded features are 0 or 1 to the kernel; with features 0 or σ, f(σθ) has the gradient σ f'(σθ).
        point = theta * scale if scale != 1 else theta
        grad = np.empty_like(theta)
        records = (memory.rows, memory.labels, memory.limits, *book, memory.start, memory.filled)
        if model.kernel is None:
            kernel(*records, _by_class(point, model), order, _by_class(grad, model))
        else:
            kernel(*records, point, model.kernel, grad)
        if scale != 1:
            grad *= scale
        if clip is not None and clip.per == "round":
            grad = clipped(grad, clip)
        return grad

    def limits(rows: NDArray[Any]) -> Array:
        assert clip is not None
        return limits_of(replace(table, rows=rows, labels=np.zeros(len(rows))), clip, model.outputs)

    shape = (table.rows.shape[1], table.rows.dtype)
    quality = partial(quality_of, model)
    return LinearMemory(keep, room, *shape, table.codebook, gradient, limits if each else None, quality)


def quality_of(model: LinearModel, theta: Array, table: Table) -> Array:
    """How well every row of θ predicts a table's records, each of which counts as much as another."""
    everyone = Population(table, np.full(len(table), 1 / len(table)))
    return Objective(model, everyone).evaluate(theta)[1]


def _check_declared(table: Table) -> None:
    strange = table.labels[~np.isin(table.labels, np.arange(table.classes))]
    if len(strange):
        raise GossamerError(
            f"a record has the label {strange[0]:g}, expected one of the {table.classes} declared: correct it."
        )


def limits_of(table: Table, clip: Clip, outputs: int) -> Array:
    """How large each record's ‖w‖ may be for ‖a‖ ‖w‖ ≤ c, in exact arithmetic, after all rounding of w and w a.

    With u = 2^-53, n columns and K outputs: a norm of n numbers is found to (n + 2) u, or to 1e-150 where squares
    underflow. A scalar weight is never above its limit. Softmax's are scaled by limit/norm, where the norm of K
    numbers is found to (K + 1) u, and the quotient and the product are rounded: ‖w‖ ≤ limit (1 + (K + 4) u). The
    product w a is rounded by u in each coordinate. Together that is less than (n + K + 16) u, and the limit is smaller
    than c/‖a‖ by twice that. A record with ‖a‖ > 1e100, whose margins may overflow, gets the limit 0, and no weight.
    """
    norms = row_norms(table, clip.norm)
    beyond = ~(norms <= LARGEST)
    limits: Array = clip.c / ((norms + 1e-150) * (1 + 2 * (table.columns + outputs + 16) * UNIT))
    limits[beyond] = 0.0
    return limits


def clipped(grad: Array, clip: Clip) -> Array:
    """Every row scaled back to norm ≤ c in exact arithmetic; a row that is not finite, or above 1e100, becomes 0.

    With u = 2^-53, a norm of n numbers is found to (n + 2) u, the factor and the products are rounded by 5u at most,
    and the row is scaled to c less twice that. Squares that underflow hide 1e-150, which is nothing beside u c.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.linalg.norm(grad, clip.norm, axis=1, keepdims=True)
    near = norms <= LARGEST  # beyond it c/norm may lose digits, as it does below 2^-1022
    shrinks = np.minimum(1.0, clip.c / np.maximum(norms * (1 + 2 * (grad.shape[1] + 16) * UNIT), 1e-150))
    return np.where(near, grad, 0.0) * np.where(near, shrinks, 0.0)


def row_norms(table: Table, norm: Norm) -> Array:
    """‖a‖ of every record, in float64 whatever the features are in; ∞ where it overflows."""
    book = table.codebook
    if book is None:
        with np.errstate(over="ignore"):
            return np.asarray(np.linalg.norm(table.rows.astype(np.float64, copy=False), norm, axis=1))
    value = table.rows.astype(np.int64) + book.offset
    ones = (book.first[value + 1] - book.first[value]).sum(axis=1)
    return np.asarray(table.scale * (ones if norm == 1 else np.sqrt(ones)))


def _by_class(theta: Array, model: LinearModel) -> Array:
    return theta.reshape(len(theta), -1, model.outputs)


def _check_classes(model: LinearModel, labels: Array, classes: int) -> None:
    """Refuse what is no class of the model; that all are of one class is no reason, since one record would decide."""
    found = np.unique(labels)
    strange = found[~np.isin(found, np.arange(classes))]
    if len(strange):
        raise GossamerError(
            f"{type(model).__name__} found the label {strange[0]:g}, expected 0 to {classes - 1}: "
            "number the classes from 0, or use another model."
        )
