"""Records as text: the lines of a CSV file, and the cells of each.

Every record is read from its own line alone, so that no record can take another one in.
"""

from __future__ import annotations

import csv
import math
import string
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gossamer.errors import Argument, GossamerError, Part
from gossamer.types import Array

MISSING = {"", "?", "na", "n/a", "nan", "null", "none"}


@dataclass(frozen=True)
class Cells:
    """Some records of a file, with its header."""

    path: Path
    header: Sequence[str]
    lines: Sequence[int]  # where in the file each record is, for errors
    rows: Sequence[Sequence[str]]
    remedy: tuple[Part, ...] = ()  # for any record that is not as declared; (): each mistake has its own

    def __post_init__(self) -> None:
        if len(set(self.header)) < len(self.header):
            twice = next(name for name in self.header if self.header.count(name) > 1)
            raise GossamerError(f"{self.path} has two columns called {twice!r}: rename one.")
        for line, row in zip(self.lines, self.rows, strict=True):
            if len(row) != len(self.header):
                raise GossamerError(
                    f"{self.path}, line {line}: {len(row)} values for {len(self.header)} columns; correct that line."
                )

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[str]:
        if name not in self.header:
            raise GossamerError(f"{self.path} has no column {name!r}: expected one of {', '.join(self.header)}.")
        k = self.header.index(name)
        return [row[k] for row in self.rows]

    def numbers(self, name: str) -> Array:
        column = self.column(name)
        values = [number(cell) for cell in column]
        if None in values:
            k = values.index(None)
            raise self.mistake(
                k, f"{column[k]!r} in column {name!r} is not a finite number",
                "correct it, use ", Argument("categorical", [name]), " if the column holds categories, ",
                Argument("split_by", name), " if it names the learners, or ", Argument("drop", [name]),
            )  # fmt: skip
        return np.array(values, dtype=float)

    def refuse_missing(self, names: Sequence[str], known: Mapping[str, Sequence[str]]) -> None:
        """Refuse an empty cell, or one that says that it is; where 'none' is a declared name it means itself."""
        for name in names:
            missing = [cell.lower() in MISSING and cell not in known.get(name, ()) for cell in self.column(name)]
            if any(missing):
                raise self.mistake(
                    missing.index(True), f"no value in column {name!r} ({sum(missing)} such in all)",
                    "fill or remove these records, or leave the column out with ", Argument("drop", [name]),
                )  # fmt: skip

    def mistake(self, k: int, what: str, *remedy: Part) -> GossamerError:
        """What is wrong with record k, and what to do about it."""
        return GossamerError(f"{self.path}, line {self.lines[k]}: {what}; ", *(self.remedy or remedy), ".")


def number(cell: str) -> float | None:
    """The finite number that a cell holds, if it holds one."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def lines_of(text: str, before: int = 0) -> list[tuple[int, str]]:
    """The lines that are not empty, numbered from `before` + 1; a line feed ends a line, and nothing else does.

    An empty line is no record, whatever is declared, so that leaving it out favours none: a CSV record has a target and
    a feature, with a comma in between, and a JSONL record has braces.
    """
    numbered = ((k, line.removesuffix("\r")) for k, line in enumerate(text.split("\n"), before + 1))
    return [(k, line) for k, line in numbered if line.strip(string.whitespace)]


def cells_of(place: str, line: str) -> list[str]:
    """The values of one line, from that line alone: a quote that is not closed takes no other record in."""
    try:
        csv.field_size_limit(sys.maxsize)  # no value is too long to be one
        return [cell.strip() for cell in next(csv.reader([line], strict=True), [])]
    except csv.Error as error:
        raise GossamerError(
            f"{place}: not read as CSV ({error}); correct that line, a record is one line with all its quotes closed."
        ) from None


def read_cells(path: Path) -> Cells:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise GossamerError(f"no file {path}: give the path of a CSV file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise GossamerError(
            f"{path} cannot be read as CSV ({error}): give a UTF-8 text file with a header line."
        ) from None
    rows = [(k, cells_of(f"{path}, line {k}", line)) for k, line in lines_of(text)]
    if len(rows) < 2:
        what = "is empty" if not rows else "has a header but no records"
        raise GossamerError(f"{path} {what}: expected a header line and at least one record.")
    header = rows[0][1]
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        raise GossamerError(f"{path} has the one column {header[0]!r}: its values must be separated by commas.")
    return Cells(path, header, [line for line, _ in rows[1:]], [row for _, row in rows[1:]])
