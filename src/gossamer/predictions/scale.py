"""How numbers are scaled by their ranges: a straight line, so that it can be taken back."""

from __future__ import annotations

from typing import NamedTuple

from gossamer.streams.schema import SCALED_TO


class Line(NamedTuple):
    """How a column is scaled: scaled = a · value + b."""

    a: float
    b: float


def stretched(ends: tuple[float, float], by: float) -> tuple[float, float]:
    """A range `by` times as wide, about the same middle."""
    low, high = ends
    more = (by - 1) * (high - low) / 2
    return low - more, high + more


def line_of(ends: tuple[float, float]) -> Line:
    """The line that takes a range to where scaled numbers lie."""
    low, high = ends
    bottom, top = SCALED_TO
    a = (top - bottom) / (high - low)
    return Line(a, bottom - a * low)
