"""Linear models: the loss of a record (a, b) depends on θ through the margins aᵀθ alone.

LogisticRegression   l = (1−b) aᵀθ − log s(aᵀθ),  s(x) = 1/(1+e^−x),  b ∈ {0, 1}      (the paper's, bracket mended)
SoftmaxRegression    l = log Σ_k exp(aᵀθ_k) − aᵀθ_b,                   b ∈ {0, …, K−1}
RidgeRegression      l = ½ (aᵀθ − b)²
each plus l2/2 ‖θ‖². Gradients are closed forms: ∇l = a ⊗ w(margins, b) + l2 θ.

Every model answers, for margins of shape (records, learners, K), its `losses`, `weights` dl/dmargin, `curve`: how the
weights move when the margins do, and `quality`: the share predicted right, or R².
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

from gossamer.models import kernels
from gossamer.models.bounds import Clip, Norm, Reach, reach
from gossamer.models.memory import Gradient, Memory
from gossamer.records import FeatureBounds, Table
from gossamer.types import Array, GossamerError, Integers


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
    def reach(self, features: FeatureBounds | None, norm: Norm) -> Reach: ...
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
        value: Array = expit(margins) - labels[:, None, None]
        return value

    def curve(self, margins: Array, moved: Array) -> Array:
        p = expit(margins)
        value: Array = p * (1 - p) * moved
        return value

    def quality(self, margins: Array, labels: Array, share: Array) -> Array:
        value: Array = share @ ((margins[..., 0] > 0) == labels[:, None])
        return value

    def reach(self, features: FeatureBounds | None, norm: Norm) -> Reach:
        return reach(1.0, 0.25, features, self.clip, norm, "LogisticRegression")

    def memory(self, table: Table, keep: Gradient, room: Integers) -> Memory:
        return _memory(self, table, keep, room, kind=kernels.LOGISTIC)


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
        if len(labels) and np.ptp(labels) == 0:
            raise GossamerError(f"every label is {labels[0]:g}: a regression needs labels that differ.")

    def losses(self, margins: Array, labels: Array) -> Array:
        value: Array = 0.5 * (margins[..., 0] - labels[:, None]) ** 2
        return value

    def weights(self, margins: Array, labels: Array) -> Array:
        value: Array = margins - labels[:, None, None]
        return value

    def curve(self, margins: Array, moved: Array) -> Array:
        return moved

    def quality(self, margins: Array, labels: Array, share: Array) -> Array:
        spread = share @ (labels - share @ labels) ** 2
        value: Array = 1 - share @ (margins[..., 0] - labels[:, None]) ** 2 / spread
        return value

    def reach(self, features: FeatureBounds | None, norm: Norm) -> Reach:
        return reach(math.inf, 1.0, features, self.clip, norm, "RidgeRegression")

    def memory(self, table: Table, keep: Gradient, room: Integers) -> Memory:
        return _memory(self, table, keep, room, kind=kernels.SQUARED)


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
            raise GossamerError(f"SoftmaxRegression(classes={self.classes}): expected at least 2 classes.")

    @property
    def outputs(self) -> int:
        return self.classes

    def check_labels(self, labels: Array) -> None:
        _check_classes(self, labels, self.classes)

    def losses(self, margins: Array, labels: Array) -> Array:
        own = np.take_along_axis(margins, labels.astype(int)[:, None, None], axis=2)[..., 0]
        value: Array = logsumexp(margins, axis=2) - own
        return value

    def weights(self, margins: Array, labels: Array) -> Array:
        value: Array = softmax(margins, axis=2)
        value[np.arange(len(labels)), :, labels.astype(int)] -= 1
        return value

    def curve(self, margins: Array, moved: Array) -> Array:
        p = softmax(margins, axis=2)
        value: Array = p * (moved - (p * moved).sum(axis=2, keepdims=True))
        return value

    def quality(self, margins: Array, labels: Array, share: Array) -> Array:
        value: Array = share @ (margins.argmax(axis=2) == labels[:, None])
        return value

    def reach(self, features: FeatureBounds | None, norm: Norm) -> Reach:
        return reach(2.0 if norm == 1 else math.sqrt(2), 0.5, features, self.clip, norm, "SoftmaxRegression")

    def memory(self, table: Table, keep: Gradient, room: Integers) -> Memory:
        return _memory(self, table, keep, room, kind=None)


def _memory(model: Model, table: Table, keep: Gradient, room: Integers, kind: int | None) -> Memory:
    """A memory whose gradient is the kernel for this kind of rows; `kind` None is softmax."""
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
        raise GossamerError("clipping per round needs gradient='latest': use it, or clip per record.")
    each = clip is not None and clip.per == "record"
    order = clip.norm if clip is not None else 2

    def gradient(memory: Memory, theta: Array) -> Array:
        # Coded features are 0 or 1 to the kernel; with features 0 or σ, f(σθ) has the gradient σ f'(σθ).
        point = theta * scale if scale != 1 else theta
        l2 = 0.0 if clip is not None and clip.per == "round" else model.l2 / scale**2
        grad = np.empty_like(theta)
        records = (memory.rows, memory.labels, memory.limits, *book, memory.start, memory.filled)
        if kind is None:
            kernel(*records, _by_class(point, model), order, l2, _by_class(grad, model))
        else:
            kernel(*records, point, kind, l2, grad)
        if scale != 1:
            grad *= scale
        if clip is not None and clip.per == "round":
            norms = np.linalg.norm(grad, clip.norm, axis=1, keepdims=True)
            grad = grad * np.minimum(1.0, clip.c / np.maximum(norms, 1e-300)) + model.l2 * theta
        return grad

    def limits(rows: NDArray[Any]) -> Array:
        """How large the weights' norm may be for ‖a‖ ‖w‖ ≤ c."""
        assert clip is not None
        norms = row_norms(replace(table, rows=rows, labels=np.zeros(len(rows))), clip.norm)
        return clip.c / np.maximum(norms, 1e-300)

    shape = (table.rows.shape[1], table.rows.dtype)
    return Memory(keep, room, *shape, table.codebook, gradient, limits if each else None)


def row_norms(table: Table, norm: Norm) -> Array:
    """‖a‖ of every record."""
    book = table.codebook
    if book is None:
        return np.asarray(np.linalg.norm(table.rows, norm, axis=1))
    value = table.rows.astype(np.int64) + book.offset
    ones = (book.first[value + 1] - book.first[value]).sum(axis=1)
    return np.asarray(table.scale * ones ** (1 / norm))


def _by_class(theta: Array, model: Model) -> Array:
    return theta.reshape(len(theta), -1, model.outputs)


def _check_l2(model: Model) -> None:
    if not 0 <= model.l2 < np.inf:
        raise GossamerError(f"{type(model).__name__}(l2={model.l2!r}): expected a finite number ≥ 0.")


def _check_classes(model: Model, labels: Array, classes: int) -> None:
    found = np.unique(labels)
    strange = found[~np.isin(found, np.arange(classes))]
    if len(strange):
        raise GossamerError(
            f"{type(model).__name__} found the label {strange[0]:g}, expected 0 to {classes - 1}: "
            "number the classes from 0, or use another model."
        )
    if len(found) == 1:  # none: records are yet to come
        raise GossamerError(f"every label is {found[0]:g}: a classifier needs records of at least two classes.")
