"""Progressive validation: every record is predicted by its learner's θ in the round in which it arrives, before it is
learned from. That is the habit of streaming: all records test, and all are learned from.

Of classes it is the share predicted right; of a quantity R² = 1 − Σ(y − ŷ)²/Σ(y − ȳ)², ȳ the mean of the labels before.
Both are over all records so far, whoever had them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from gossamer.models import LinearModel
from gossamer.records import Batch, Table, features_of
from gossamer.types import Array, Integers

NUMBERS_AT_ONCE = 2**17  # of the records' own θ: rounds are looked at together, which costs less than each by itself
FIELDS = ("records", "informed", "missed", "spread", "labels")


class Progressive:
    """How well arriving records were predicted so far."""

    def __init__(self, model: LinearModel, table: Table, start: Array) -> None:
        self._model, self._table, self._start = model, table, start
        self._at_once = NUMBERS_AT_ONCE // start.shape[1]  # records
        self._waiting: list[tuple[Array, Batch]] = []
        self._came = 0
        self._totals = dict.fromkeys(FIELDS, 0.0)

    def see(self, theta: Array, batch: Batch) -> None:
        """A round's records, and the θ that has not learned from them."""
        if len(batch.labels):
            self._waiting.append((theta, batch))
            self._came += len(batch.labels)
            if self._came >= self._at_once:
                self._count()

    @property
    def value(self) -> float:
        """The share predicted right, or R²; NaN where most records came before anything had been learnt."""
        self._count()
        told = self._totals
        if 2 * told["informed"] <= told["records"]:
            return float("nan")
        return 1 - told["missed"] / told["spread"] if told["spread"] else float("nan")

    def notes(self) -> list[str]:
        if not np.isnan(self.value):
            return []
        return ["Progressive validation says nothing here: most records came before anything had been learnt."]

    def kept(self) -> dict[str, Array]:
        """What is needed to go on."""
        self._count()
        return {"progressive": np.array(list(self._totals.values()))}

    def go_on(self, kept: Mapping[str, Array]) -> None:
        self._totals = dict(zip(FIELDS, map(float, kept["progressive"]), strict=True))

    def _count(self) -> None:
        """Take in the rounds that wait."""
        if not self._waiting:
            return
        batches = [batch for _, batch in self._waiting]
        theta = np.concatenate([point for point, _ in self._waiting])
        owner = np.repeat(np.arange(len(theta)), np.concatenate([batch.counts for batch in batches]))
        labels = np.concatenate([batch.labels for batch in batches])
        rows = np.concatenate([batch.rows for batch in batches])
        margins = self._margins(replace(self._table, rows=rows, labels=labels), theta, owner)
        told, informed = self._totals, (theta != np.tile(self._start, (len(batches), 1))).any(axis=1)
        if self._model.bounded:
            right = float(self._model.quality(margins[:, None], labels, np.ones(len(labels)))[0])
            told["missed"] += len(labels) - right
            told["spread"] += len(labels)
        else:
            before = told["labels"] + np.cumsum(labels) - labels
            mean = before / np.maximum(told["records"] + np.arange(len(labels)), 1)
            told["missed"] += float(((margins[:, 0] - labels) ** 2).sum())
            told["spread"] += float(((labels - mean) ** 2).sum())
        told["labels"] += float(labels.sum())
        told["records"] += len(labels)
        told["informed"] += int(informed[owner].sum())
        self._waiting, self._came = [], 0

    def _margins(self, table: Table, theta: Array, owner: Integers) -> Array:
        """(records, K) of aᵀθ, each record's with its own owner's θ."""
        points, features = theta.reshape(len(theta), -1, self._model.outputs), features_of(table)
        if not scipy.sparse.issparse(features):
            return np.asarray(np.einsum("rn,rnk->rk", features, points[owner]))
        ones: Any = features.tocoo()  # type: ignore[attr-defined]
        terms = ones.data[:, None] * points[owner[ones.row], ones.col]
        columns = [np.bincount(ones.row, weights=part, minlength=len(table)) for part in terms.T]
        return np.stack(columns, axis=1)
