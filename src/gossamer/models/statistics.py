"""What least squares remembers of records without keeping any: A = Σ a aᵀ, Σ a b and how many there were.

    1/n Σ_r (a_rᵀθ − b_r) a_r = (A θ − Σ_r b_r a_r)/n

is the mean gradient over all records so far, exactly but for rounding. It takes n² numbers and n² work a round however
many records there were, where records take ever more of both. It is for a history without a clipper: a clipper treats
each record by itself, at the current θ.

Each number is the sum over records one after another, in float64, in the order in which they came. So it does not
depend on how many came at a time, nor on who else is in the block: a learner that starts again and reads its records
once more goes on with the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gossamer.models.memory import check_labels, kernels_for
from gossamer.models.objective import quality_of
from gossamer.records import Batch, Table
from gossamer.types import Array, Integers

if TYPE_CHECKING:
    from gossamer.models.linear import LinearModel

# By columns and learners alone, so that runs of any length round alike: 8 MiB a learner, and 2 GiB for all.
MOST_COLUMNS, MOST_NUMBERS = 1024, 2**28
FEW_COLUMNS = 256  # of which NumPy adds a record's n² products in a tenth of a millisecond


class StatisticsMemory:
    """The sufficient statistics of k learners' records; of A the upper triangle."""

    def __init__(self, model: LinearModel, table: Table, room: Integers, alone: bool = False) -> None:
        check_labels(model, table)
        self._kernels = kernels_for(table, room, alone and table.columns <= FEW_COLUMNS)
        self._model, self._table = model, table
        self.filled = np.zeros(len(room), dtype=np.int64)
        self.squares = np.zeros((len(room), table.columns, table.columns))
        self.products = np.zeros((len(room), table.columns))

    def observe(self, batch: Batch) -> None:
        """Add a round's records."""
        first = np.cumsum(batch.counts) - batch.counts
        given = (batch.rows, batch.labels, first, batch.counts, self.squares, self.products)
        if self._table.codebook is None:
            self._kernels.add_dense(*given)
        else:
            self._kernels.add_coded(*given, self._table.codebook)
        self.filled = self.filled + batch.counts

    def gradient(self, theta: Array) -> Array:
        """The mean over each learner's records so far."""
        theta, scale = np.asarray(theta, dtype=np.float64), self._table.scale
        # Coded features are counted as 0 or 1; with features 0 or σ, f(σθ) has the gradient σ f'(σθ).
        point = theta * scale if scale != 1 else theta
        grad = np.empty_like(theta)
        self._kernels.squared_gradient(self.squares, self.products, self.filled, point, grad)
        if scale != 1:
            grad *= scale
        return grad

    def quality(self, theta: Array, table: Table) -> Array:
        """How well every row of θ predicts a table's records, each of which counts as much as another."""
        return quality_of(self._model, theta, table)

    def kept(self) -> dict[str, Array]:
        """Nothing: the records themselves are observed again."""
        return {}

    def go_on(self, kept: Mapping[str, Array]) -> None:
        pass
