"""What each learner remembers of its records, and the gradient over it.

history   ∇f_{i,t}(θ) = 1/(records so far) Σ_k ∇l(θ, ξ_{i,k}), recomputed at the current θ (Chen & Wang, Alg. 1 line 2)
latest    the same mean over the newest round's records only

A learner's records lie side by side in one piece of a shared array, so that one kernel call serves all learners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.models.base import Gradient
from gossamer.models.bounds import MOST_RECORDS
from gossamer.records import Batch, Codebook, Table, runs
from gossamer.types import Array, Integers

RECORDS_AT_FIRST = 2**22  # a run may be asked for more rounds than memory holds records: grow when they come


class LinearMemory:
    """Records of k learners and a linear model's gradients over them.

    `gradient(memory, theta)` is the model's, `limits(rows)` how large a record's weights may get where it clips each,
    `quality(theta, table)` how well it predicts; `room` says how many records of each learner to expect.
    """

    def __init__(
        self,
        keep: Gradient,
        room: Integers,
        width: int,
        dtype: Any,
        codebook: Codebook | None,
        gradient: Callable[[LinearMemory, Array], Array],
        limits: Callable[[NDArray[Any]], Array] | None,
        quality: Callable[[Array, Table], Array],
    ) -> None:
        if keep not in ("history", "latest"):
            raise BadValue("gradient", keep, "expected 'history' (all records so far) or 'latest'")
        self.keep, self.codebook = keep, codebook
        self._gradient, self._limits_of, self._quality = gradient, limits, quality
        self.filled = np.zeros(len(room), dtype=np.int64)
        self._width, self._dtype = width, dtype
        most = max(1, RECORDS_AT_FIRST // len(room))
        self._make_room(np.clip(room, 1, most))

    def observe(self, batch: Batch) -> None:
        """Take in a round's records; with 'latest' they replace the ones before."""
        if self.keep == "latest":
            self.filled = np.zeros_like(self.filled)
        elif not len(batch.labels):
            return
        if (self.filled + batch.counts > self._room).any():
            self._grow(self.filled + batch.counts)
        place = runs(self.start + self.filled, batch.counts)
        if self.codebook is None:
            self.rows[place] = batch.rows
        else:
            self.rows[:, place] = batch.rows.T
        self.labels[place] = batch.labels
        if self._limits_of is not None:
            self.limits[place] = self._limits_of(batch.rows)
        self.filled = self.filled + batch.counts

    def gradient(self, theta: Array) -> Array:
        """The mean over each learner's remembered records, by the model's own kernel."""
        return self._gradient(self, np.asarray(theta, dtype=np.float64))

    def quality(self, theta: Array, table: Table) -> Array:
        return self._quality(theta, table)

    def kept(self) -> dict[str, Array]:
        """Nothing: the records themselves are observed again."""
        return {}

    def go_on(self, kept: Mapping[str, Array]) -> None:
        pass

    def _make_room(self, room: Integers) -> None:
        self._room = room
        self.start = np.cumsum(room) - room
        total = int(room.sum())
        shape = (total, self._width) if self.codebook is None else (self._width, total)
        self.rows = np.empty(shape, dtype=self._dtype)
        self.labels = np.empty(total)
        self.limits = np.empty(total if self._limits_of is not None else 0)

    def _grow(self, needed: Integers) -> None:
        if needed.max() > MOST_RECORDS:
            raise GossamerError(
                f"{needed.max()} records of a learner in one gradient: expected at most 2^25, up to which its rounding "
                "is proved; use ", Argument("gradient", "latest"), ", or fewer records a round.",
            )  # fmt: skip
        rows, labels, limits, start = self.rows, self.labels, self.limits, self.start
        self._make_room(np.maximum(2 * self._room, needed))
        for i, count in enumerate(self.filled):
            old, new = slice(start[i], start[i] + count), slice(self.start[i], self.start[i] + count)
            self.labels[new] = labels[old]
            if self._limits_of is not None:
                self.limits[new] = limits[old]
            if self.codebook is None:
                self.rows[new] = rows[old]
            else:
                self.rows[:, new] = rows[:, old]
