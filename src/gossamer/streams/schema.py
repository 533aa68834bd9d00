"""What a record may look like, declared before any is seen: for parties that never see each other's records.

Everything is declared, so that the features of one party mean the same as another's, and no record can move how
others are seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gossamer.errors import GossamerError
from gossamer.records import FeatureBounds, Table
from gossamer.streams.csv import Cells, amounts, label, labels_of, one_hot_block, scaled
from gossamer.types import Array


@dataclass(frozen=True)
class Schema:
    """Features in the order of ranges, then of categories; `classes` of the target, or () for a quantity."""

    target: str
    classes: Sequence[str]
    ranges: Mapping[str, tuple[float, float]]
    categories: Mapping[str, Sequence[str]]
    intercept: bool = True

    def __post_init__(self) -> None:
        twice = set(self.ranges) & set(self.categories)
        if twice:
            raise GossamerError(f"column {min(twice)!r} has a range and categories: declare one of the two.")
        if not self.features:
            raise GossamerError(f"no feature is declared besides {self.target!r}: give at least one.")
        if not self.classes and self.target not in self.ranges:
            raise GossamerError(f"the target {self.target!r} has neither classes nor a range: declare one.")
        for name, (low, high) in self.ranges.items():
            if not 0 < high - low < np.inf:
                raise GossamerError(
                    f"range {low:g}:{high:g} of column {name!r}: expected finite ends, the lower below the upper."
                )
        for name, listed in [*self.categories.items(), *([(self.target, self.classes)] if self.classes else [])]:
            odd = next((one for one in listed if one != one.strip() or "\n" in one or "\r" in one), None)
            if odd is not None:
                raise GossamerError(
                    f"column {name!r} may hold {odd!r}: expected names without line breaks, or spaces at their ends."
                )
            if len({label(one) for one in listed}) < max(2, len(listed)):
                raise GossamerError(f"column {name!r} may hold {', '.join(listed)}: expected two or more, all unlike.")

    @property
    def features(self) -> list[str]:
        return [name for name in [*self.ranges, *self.categories] if name != self.target]

    @property
    def columns(self) -> int:
        return sum(len(self.categories.get(name, "1")) for name in self.features) + self.intercept

    def table(self, X: Array | None = None, y: Array | None = None) -> Table:
        """Records as a table that carries what was declared; without any, an empty one."""
        width = len(self.features) + self.intercept  # a number is at most 1, one column of a one-hot block is 1
        rows = np.empty((0, self.columns)) if X is None else X
        bounds = FeatureBounds(width, width**0.5, 1.0)
        labels = np.empty(0) if y is None else y
        return Table(rows, labels, None, self.columns, bounds=bounds, classes=len(self.classes))

    def encode(
        self, place: Path, header: Sequence[str], lines: Sequence[int], rows: Sequence[Sequence[str]]
    ) -> tuple[Array, Array]:
        """Features and labels of some records; `lines` says where in `place` each is, for errors."""
        cells = Cells(place, list(header), list(lines), np.array(rows, dtype=object).reshape(len(rows), len(header)))
        cells.refuse_missing([self.target, *self.features], {**self.categories, self.target: self.classes})
        blocks = [
            one_hot_block(cells, name, self.categories[name])
            if name in self.categories
            else scaled(cells, name, self.ranges[name])
            for name in self.features
        ]
        if self.intercept:
            blocks.append(np.ones((len(rows), 1)))
        labels = (
            labels_of(cells, self.target, self.classes)
            if self.classes
            else amounts(cells, self.target, self.ranges[self.target])
        )
        return np.hstack(blocks), labels
