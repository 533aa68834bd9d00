"""A column as it is read, some cells at a time: numbers as long as all cells are, else words.

Text is not kept where numbers are, so that a large file needs little more memory than its numbers. Where a word comes
after many numbers the column is `late`: it has to be read again, as words from the beginning.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Literal

import numpy as np

from gossamer.streams.cells import is_missing, number
from gossamer.streams.columns import Column, Numbers, Words
from gossamer.types import Array

Wanted = Literal["any", "labels", "words"]
LABELS_AT_MOST = 10_000  # a target with more unlike values than this is no class, if all are numbers


class Growing:
    """`wanted`: numbers if all are ("any"), words ("words"), or words unless there are very many ("labels").

    With `comma`, 1,5 is a number, if no other of the column is like 1.5.
    """

    def __init__(self, wanted: Wanted = "any", comma: bool = False) -> None:
        self.wanted, self._comma = wanted, comma
        self.late = False
        self._known: dict[str, int] | None = None if wanted == "any" else {}
        self._values, self._codes = array("d"), array("i")  # they grow in place: no second copy is made of them
        self._points = self._commas = False

    def add(self, cells: Sequence[str]) -> None:
        if self.late:
            return
        if self._known is None:
            self._add_numbers(cells)
        else:
            self._add_words(cells)

    def _add_numbers(self, cells: Sequence[str]) -> None:
        values = self._parse(cells)
        if values is not None:
            self._values.frombytes(values.tobytes())
        elif self._values:
            self.late = True
        else:
            self._known = {}
            self._add_words(cells)

    def _parse(self, cells: Sequence[str]) -> Array | None:
        """The numbers that the cells hold, NaN where one says that it holds none; None where one holds a word."""
        if self._comma and not self._points:
            self._points = any("." in cell for cell in cells)
        try:
            values = np.fromiter(map(float, cells), dtype=float, count=len(cells))
        except ValueError:
            return self._parse_one_by_one(cells)
        return None if np.isinf(values).any() else values

    def _parse_one_by_one(self, cells: Sequence[str]) -> Array | None:
        values = np.empty(len(cells))
        for k, cell in enumerate(cells):
            value = number(cell, self._comma)
            if value is None and not is_missing(cell.strip()):
                return None
            values[k] = np.nan if value is None else value
        if self._comma and not self._commas:
            self._commas = any("," in cell for cell in cells)
        return None if self._commas and self._points else values

    def _add_words(self, cells: Sequence[str]) -> None:
        known = self._known
        assert known is not None
        self._codes.extend([known.setdefault(cell, len(known)) for cell in map(str.strip, cells)])
        if self.wanted == "labels" and len(known) > LABELS_AT_MOST:
            values = self._parse(list(known))
            self.wanted = "any" if values is not None else "words"
            if values is not None:
                self._values.frombytes(values[np.frombuffer(self._codes, dtype=np.int32)].tobytes())
                self._known, self._codes = None, array("i")

    def end(self) -> Column:
        """The whole column, without copying it."""
        if self._known is not None:
            return Words(np.frombuffer(self._codes, dtype=np.int32), list(self._known), self._comma)
        return Numbers(np.frombuffer(self._values))
