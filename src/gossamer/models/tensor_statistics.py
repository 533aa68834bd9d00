"""Least squares' sums on torch's tensors: what gossamer.models.statistics keeps in place of records, where θ lies.

Sums are in float64 whatever θ is in: in float32 the millionth record would be lost in what came before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.models.tensors import OnTensors, Tensor, features_on
from gossamer.records import Batch, Table
from gossamer.types import Integers

if TYPE_CHECKING:
    from gossamer.models.linear import LinearModel


class TensorStatistics(OnTensors):
    """A = Σ a aᵀ and Σ b a of m learners' records."""

    def __init__(self, model: LinearModel, table: Table, room: Integers) -> None:
        torch: Any = importlib.import_module("torch")
        super().__init__(model, table, room, torch.float64)
        self.squares: Tensor = torch.zeros(len(room), table.columns, table.columns, **self._on)
        self.products: Tensor = torch.zeros(len(room), table.columns, **self._on)

    def observe(self, batch: Batch) -> None:
        """Add a round's records, those of all learners who have as many at once."""
        rows = features_on(self._table, batch, self._on)
        labels = self._torch.as_tensor(batch.labels).to(**self._on)
        first = np.cumsum(batch.counts) - batch.counts
        for count in np.unique(batch.counts[batch.counts > 0]):
            some = np.flatnonzero(batch.counts == count)
            owners = self._kind.make_indices(some)
            places = self._kind.make_indices(first[some][:, None] + np.arange(count))
            self._add(slice(None) if len(some) == len(first) else owners, rows[places], labels[places])
        self.filled = self.filled + batch.counts

    def _add(self, owners: Any, rows: Tensor, labels: Tensor) -> None:
        """(k, count, n) and (k, count) records of these learners to their sums."""
        turned = rows.transpose(1, 2)
        self.squares[owners] += self._torch.bmm(turned, rows)
        self.products[owners] += self._torch.bmm(turned, labels[:, :, None])[:, :, 0]

    def gradient(self, theta: Tensor) -> Tensor:
        """The mean over each learner's records so far; a learner without any has 0."""
        point = theta.to(self._torch.float64)
        total = self._torch.bmm(self.squares, point[:, :, None])[:, :, 0] - self.products
        counts = self._torch.as_tensor(np.maximum(self.filled, 1)[:, None], **self._on)
        mean: Tensor = (total / counts).to(theta.dtype)
        return mean
