"""Linear models: the loss of a record (a, b) depends on θ through the margins aᵀθ alone.

LogisticRegression   l = (1−b) aᵀθ − log s(aᵀθ),  s(x) = 1/(1+e^−x),  b ∈ {0, 1}      (the paper's, bracket mended)
SoftmaxRegression    l = log Σ_k exp(aᵀθ_k) − aᵀθ_b,                   b ∈ {0, …, K−1}
RidgeRegression      l = ½ (aᵀθ − b)²
each plus l2/2 ‖θ‖². Gradients are closed forms: ∇l = a ⊗ w(margins, b) + l2 θ. A memory's gradient is the data's
part, without l2 θ: that is no record's, so it is added where the noise has been.

Every model answers, for margins of shape (records, learners, K), its `losses`, `weights` dl/dmargin, `curve`: how the
weights move when the margins do, and `quality`: the share predicted right, or R².
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.models.bounds import (
    LARGEST,
    LOGISTIC_ERROR,
    MOST_COLUMNS,
    MOST_RECORDS,
    UNIT,
    Clip,
    Norm,
    Reach,
    Weights,
    reach,
)
from gossamer.models.memory import Gradient, Memory
from gossamer.records import FeatureBounds, Table
from gossamer.types import Array, Integers

LOGISTIC, SQUARED = 0, 1  # kinds of loss, as the kernels know them


class Model(Protocol):
    """What the engines and the evaluation ask of a model."""

    @property
    def l2(self) -> float: ...
    @property
    def clip(self) -> Clip | None: ...
    @property
    def outputs(self) -> int: ...
    @property
    def score(self) -> str: ...
    def check_labels(self, labels: Array) -> None: ...
    def losses(self, margins: Array, labels: Array) -> Array: ...
    def weights(self, margins: Array, labels: Array) -> Array: ...
    def curve(self, margins: Array, moved: Array) -> Array: ...
    def quality(self, margins: Array, labels: Array, share: Array) -> Array: ...
    def reach(
        self,
        features: FeatureBounds | None,
        norm: Norm,
        *,
        columns: int = MOST_COLUMNS,
        records: int = MOST_RECORDS,
    ) -> Reach: ...
    def memory(self, table: Table, keep: Gradient, room: Integers) -> Memory: ...


@dataclass(frozen=True)
class LogisticRegression:
    """Two classes, labelled 0 and 1."""

    l2: float = 0.0
    clip: Clip | None = None
    outputs = 1
    score = "accuracy"

    def __post_init__(self) -> None:
        _check_l2(self)

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

    def reach(
        self,
        features: FeatureBounds | None,
        norm: Norm,
        *,
        columns: int = MOST_COLUMNS,
        records: int = MOST_RECORDS,
    ) -> Reach:
        weights = Weights(most=1.0, slope=0.25, sway=0.25, error=LOGISTIC_ERROR, outputs=1)
        return reach(weights, features, self.clip, norm, "LogisticRegression", columns, records)

    def memory(self, table: Table, keep: Gradient, room: Integers) -> Memory:
        return _memory(self, table, keep, room, kind=LOGISTIC)


@dataclass(frozen=True)
class RidgeRegression:
    """Least squares; real labels."""

    l2: float = 0.0
    clip: Clip | None = None
    outputs = 1
    score = "R²"

    def __post_init__(self) -> None:
        _check_l2(self)

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

    def reach(
        self,
        features: FeatureBounds | None,
        norm: Norm,
        *,
        columns: int = MOST_COLUMNS,
        records: int = MOST_RECORDS,
    ) -> Reach:
        weights = Weights(most=math.inf, slope=1.0, sway=1.0, error=0.0, outputs=1)
        return reach(weights, features, self.clip, norm, "RidgeRegression", columns, records)

    def memory(self, table: Table, keep: Gradient, room: Integers) -> Memory:
        return _memory(self, table, keep, room, kind=SQUARED)


@dataclass(frozen=True)
class SoftmaxRegression:
    """K classes, labelled 0 to K−1; θ is the (features, K) matrix laid flat."""

    classes: int
    l2: float = 0.0
    clip: Clip | None = None
    score = "accuracy"

    def __post_init__(self) -> None:
        _check_l2(self)
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

    def reach(
        self,
        features: FeatureBounds | None,
        norm: Norm,
        *,
        columns: int = MOST_COLUMNS,
        records: int = MOST_RECORDS,
    ) -> Reach:
        error = (2 * self.classes + 20) * UNIT
        most = (2.0 if norm == 1 else math.sqrt(2)) + error
        weights = Weights(most, slope=0.5, sway=1.0, error=error, outputs=self.classes)
        return reach(weights, features, self.clip, norm, "SoftmaxRegression", columns, records)

    def memory(self, table: Table, keep: Gradient, room: Integers) -> Memory:
        return _memory(self, table, keep, room, kind=None)


def _memory(model: Model, table: Table, keep: Gradient, room: Integers, kind: int | None) -> Memory:
    """A memory whose gradient is the kernel for this kind of rows; `kind` None is softmax."""
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
    }[table.codebook is not None, kind is None]
    book = () if table.codebook is None else (table.codebook,)
    clip, scale = model.clip, table.scale
    if clip is not None and clip.per == "round" and keep == "history":
        raise GossamerError(
            "clipping per round needs ", Argument("gradient", "latest"), ": use it, or clip per record."
        )
    each = clip is not None and clip.per == "record"
    order = clip.norm if clip is not None else 2

    def gradient(memory: Memory, theta: Array) -> Array:
        # Coded features are 0 or 1 to the kernel; with features 0 or σ, f(σθ) has the gradient σ f'(σθ).
        point = theta * scale if scale != 1 else theta
        grad = np.empty_like(theta)
        records = (memory.rows, memory.labels, memory.limits, *book, memory.start, memory.filled)
        if kind is None:
            kernel(*records, _by_class(point, model), order, _by_class(grad, model))
        else:
            kernel(*records, point, kind, grad)
        if scale != 1:
            grad *= scale
        if clip is not None and clip.per == "round":
            grad = clipped(grad, clip)
        return grad

    def limits(rows: NDArray[Any]) -> Array:
        assert clip is not None
        return limits_of(replace(table, rows=rows, labels=np.zeros(len(rows))), clip, model.outputs)

    shape = (table.rows.shape[1], table.rows.dtype)
    return Memory(keep, room, *shape, table.codebook, gradient, limits if each else None)


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


def _by_class(theta: Array, model: Model) -> Array:
    return theta.reshape(len(theta), -1, model.outputs)


def _check_l2(model: Model) -> None:
    if not 0 <= model.l2 < np.inf:
        python = f"{type(model).__name__}(l2={model.l2!r})"
        raise BadValue("l2", model.l2, "expected a finite number ≥ 0", python=python)


def _check_classes(model: Model, labels: Array, classes: int) -> None:
    """Refuse what is no class of the model; that all are of one class is no reason, since one record would decide."""
    found = np.unique(labels)
    strange = found[~np.isin(found, np.arange(classes))]
    if len(strange):
        raise GossamerError(
            f"{type(model).__name__} found the label {strange[0]:g}, expected 0 to {classes - 1}: "
            "number the classes from 0, or use another model."
        )
