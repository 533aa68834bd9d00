"""Plain lines of numbers, parsed by numpy in C: faster than cell by cell, and the same floats.

Only what is beyond doubt is read so: lines without quotes, with as many values as there are columns, all of the wanted
ones numbers. Whatever else there is, is read cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gossamer.types import Array


def plain_numbers(lines: Sequence[str], width: int, columns: Sequence[int]) -> Array | None:
    """(lines, columns) the numbers in these columns of lines separated by commas; None where any is not a number."""
    if not columns or not _all_have(lines, width):
        return None
    try:
        values = np.loadtxt(lines, delimiter=",", usecols=columns, comments=None, ndmin=2)
    except ValueError:
        return None
    return values if len(values) == len(lines) and np.isfinite(values).all() else None


def plain_cells(lines: Sequence[str], width: int, column: int) -> list[str]:
    """The values of one column of such lines."""
    if 2 * column < width:
        return [line.split(",", column + 1)[column] for line in lines]
    behind = width - column
    return [line.rsplit(",", behind)[-behind] for line in lines]


def _all_have(lines: Sequence[str], width: int) -> bool:
    return all(line.count(",") == width - 1 for line in lines)
