"""Linear models on torch's tensors: records and gradients lie where θ does, such as on a GPU, in float32 or float64.

    model = gs.LogisticRegression(l2=0.01, arrays=gs.tensors("cuda", "float32"))

Every learner's records have the same room, (m, room, n) numbers in all, and what is not filled is 0: a record of zeros
adds nothing to a gradient, whatever its weight is. So margins and gradients of all learners are two batched products.
Learners with far fewer records than others take as much room as these.

What is proved of a gradient's rounding is proved of the kernels for NumPy's arrays alone: nothing here is private.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.arrays import Tensors
from gossamer.errors import Argument, BadValue
from gossamer.models.base import Gradient
from gossamer.models.memory import check_keep, check_labels, row_norms
from gossamer.models.objective import quality_of
from gossamer.records import Batch, Table, dense_rows, runs
from gossamer.types import Array, Integers

if TYPE_CHECKING:
    from gossamer.models.bounds import Clip
    from gossamer.models.linear import LinearModel

Tensor = Any
LOGISTIC = 0  # a model's kernel, as gossamer.models.linear numbers them; None is softmax


def tensors(device: str = "cpu", dtype: str = "float32") -> Tensors:
    """Torch's tensors on a device, in "float32" or "float64": what a linear model's `arrays` may be."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        remedy = "install the extra, pip install 'gossamer-learning[nn]'"
        raise BadValue("device", device, "tensors need torch", remedy) from None
    if dtype not in ("float32", "float64"):
        raise BadValue("dtype", dtype, "expected float32 or float64")
    try:
        place = torch.device(device)
    except RuntimeError:
        raise BadValue("device", device, "expected cpu, cuda, or one such as cuda:1") from None
    if place.type == "cuda" and not torch.cuda.is_available():
        raise BadValue("device", device, "torch sees no GPU here", ("use ", Argument("device", "cpu")))
    return Tensors(getattr(torch, dtype), place)


class OnTensors:
    """What every memory on tensors has: a place, how many records each learner has, and nothing that a record keeps."""

    def __init__(self, model: LinearModel, table: Table, room: Integers, dtype: Any = None) -> None:
        check_labels(model, table)
        kind: Any = model.arrays
        self._torch: Any = importlib.import_module("torch")
        self._model, self._table, self._kind = model, table, kind
        self._on = {"dtype": dtype or kind.dtype, "device": kind.device}
        self.filled: Integers = np.zeros(len(room), dtype=np.int64)

    def quality(self, theta: Tensor, table: Table) -> Array:
        """How well every row of θ predicts a table's records, each of which counts as much as another."""
        return quality_of(self._model, self._kind.to_numpy(theta).astype(np.float64), table)

    def kept(self) -> dict[str, Array]:
        """Nothing: the records themselves are observed again."""
        return {}

    def go_on(self, kept: Mapping[str, Array]) -> None:
        pass


class TensorMemory(OnTensors):
    """Records of m learners as tensors, and a linear model's gradients over them."""

    def __init__(self, model: LinearModel, table: Table, keep: Gradient, room: Integers) -> None:
        super().__init__(model, table, room)
        check_keep(model, keep)
        self.keep = keep
        self._counted: tuple[Integers, Tensor] | None = None
        self._alike: tuple[Integers, int] | None = None
        self.rows, self.labels, self.limits = self._empty(0)

    def observe(self, batch: Batch) -> None:
        """Take in a round's records; with 'latest' they replace the ones before."""
        if self.keep == "history" and not len(batch.labels):
            return
        rows, labels = self._features(batch), self._torch.as_tensor(batch.labels).to(**self._on)
        limits = self._limits(batch)
        if self.keep == "latest":
            each = self._all_have(batch.counts)
            if each:  # then they lie as they are wanted
                shape = (len(batch.counts), each)
                self.rows, self.labels = rows.reshape(*shape, -1), labels.reshape(shape)
                self.limits = limits if limits is None else limits.reshape(shape)
                self.filled = batch.counts
                return
            self.filled = np.zeros_like(self.filled)
            self.rows, self.labels, self.limits = self._empty(int(batch.counts.max()))
        needed = int((self.filled + batch.counts).max())
        if needed > self.rows.shape[1]:
            self._grow(max(2 * self.rows.shape[1], needed))
        room = self.rows.shape[1]
        place = self._kind.make_indices(runs(np.arange(len(self.filled)) * room + self.filled, batch.counts))
        self.rows.view(-1, self.rows.shape[2])[place] = rows
        self.labels.view(-1)[place] = labels
        if self.limits is not None:
            self.limits.view(-1)[place] = limits
        self.filled = self.filled + batch.counts

    def gradient(self, theta: Tensor) -> Tensor:
        """The mean over each learner's remembered records; a learner without any has 0."""
        torch, clip, most = self._torch, self._model.clip, int(self.filled.max(initial=0))
        rows, point = self.rows[:, :most], theta.reshape(*theta.shape[:1], -1, self._model.outputs)
        weights = self._weights(torch.bmm(rows, point), self.labels[:, :most])
        if self.limits is not None:
            assert clip is not None
            length = torch.linalg.vector_norm(weights, clip.norm, dim=2).clamp_min(1e-30)
            weights = weights * (self.limits[:, :most] / length).clamp_max(1.0)[:, :, None]
        grad = torch.bmm(rows.transpose(1, 2), weights).reshape(theta.shape) / self.counts.clamp_min(1)[:, None]
        if clip is not None and clip.per == "round":
            grad = grad * (clip.c / torch.linalg.vector_norm(grad, clip.norm, dim=1, keepdim=True)).clamp_max(1.0)
        return grad

    @property
    def counts(self) -> Tensor:
        """(m,) how many records each learner has, where the records are."""
        if self._counted is None or self._counted[0] is not self.filled:
            self._counted = self.filled, self._kind.make_indices(self.filled.astype(np.int32))
        return self._counted[1]

    def _all_have(self, counts: Integers) -> int:
        """How many records all learners have; 0 where they have unlike numbers, or none."""
        if self._alike is None or self._alike[0] is not counts:  # streams give the same array in every round
            self._alike = counts, int(counts[0]) if np.ptp(counts) == 0 else 0
        return self._alike[1]

    def _weights(self, margins: Tensor, labels: Tensor) -> Tensor:
        """dl/dmargins."""
        if self._model.kernel is None:
            own = self._torch.nn.functional.one_hot(labels.long(), self._model.outputs)
            return margins.softmax(dim=2) - own
        return (margins.sigmoid() if self._model.kernel == LOGISTIC else margins) - labels[:, :, None]

    def _features(self, batch: Batch) -> Tensor:
        return features_on(self._table, batch, self._on)

    def _limits(self, batch: Batch) -> Tensor | None:
        """How long each record's weights may be, so that its gradient is no longer than the clipper's c."""
        clip: Clip | None = self._model.clip
        if clip is None or clip.per == "round":
            return None
        norms = row_norms(replace(self._table, rows=batch.rows, labels=batch.labels), clip.norm)
        return self._kind.make(clip.c / (norms + 1e-30))

    def _empty(self, room: int) -> tuple[Tensor, Tensor, Tensor | None]:
        shape, clip = (len(self.filled), room), self._model.clip
        rows = self._torch.zeros(*shape, self._table.columns, **self._on)
        limits = self._torch.zeros(shape, **self._on) if clip is not None and clip.per == "record" else None
        return rows, self._torch.zeros(shape, **self._on), limits

    def _grow(self, room: int) -> None:
        old = self.rows, self.labels, self.limits
        self.rows, self.labels, self.limits = self._empty(room)
        for now, then in zip((self.rows, self.labels, self.limits), old, strict=True):
            if then is not None:
                now[:, : then.shape[1]] = then


def features_on(table: Table, batch: Batch, on: Mapping[str, Any]) -> Tensor:
    """A batch's features as a tensor; what lies on the device already stays there."""
    rows = batch.rows
    if table.codebook is not None:
        rows = dense_rows(replace(table, rows=rows, labels=batch.labels))
    return importlib.import_module("torch").as_tensor(rows).to(**on)
