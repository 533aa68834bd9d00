"""New rows as a schema has features: numbers on their scale, categories by their place.

The same as learners did with their records, but for two things: rows need no target, and what lies outside a range is
always clipped to it, and counted: a row has to be predicted whatever it holds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.predictions.frames import Frame
from gossamer.streams.cells import MISSING, number
from gossamer.streams.schema import SCALED_TO, Schema, few, label
from gossamer.types import Array, Integers


class Encoded(NamedTuple):
    """Rows as a model takes them."""

    features: Mapping[str, NDArray[Any]]  # (rows,) each: numbers as scaled, or the places of categories
    outside: Mapping[str, int]  # how many values of a column were clipped to its range; only columns that have some
    frame: Frame  # the rows as they came

    def __len__(self) -> int:
        return len(next(iter(self.features.values())))


class Slope(NamedTuple):
    """How a column is scaled: scaled = a · value + b."""

    a: float
    b: float


def slope_of(ends: tuple[float, float]) -> Slope:
    """The line that takes a range to where scaled numbers lie."""
    low, high = ends
    bottom, top = SCALED_TO
    a = (top - bottom) / (high - low)
    return Slope(a, bottom - a * low)


def encode(schema: Schema, frame: Frame) -> Encoded:
    """Every feature of every row; refuses a column that is not there, a value that is none, an unknown category."""
    features: dict[str, NDArray[Any]] = {}
    outside: dict[str, int] = {}
    for name in schema.features:
        if name in schema.categories:
            features[name] = _places(frame, name, schema.categories[name])
        else:
            features[name], beyond = _scaled(frame, name, schema.ranges[name])
            outside |= {name: beyond} if beyond else {}
    return Encoded(features, outside, frame)


def targets(schema: Schema, frame: Frame) -> Array:
    """(rows,) what the rows say themselves: the class's place, −1 where it is an unknown one, or the quantity as it is.

    NaN where a row has none. That is no mistake here: nobody learns from these rows.
    """
    column = frame.column(schema.target)
    if not schema.classes:
        values = _parsed(column)
        return np.where(np.isfinite(values), values, np.nan)
    place = {label(one): float(k) for k, one in enumerate(schema.classes)}
    return np.array(
        [np.nan if is_missing(one, schema.classes) else place.get(label(str(one)), -1.0) for one in column.tolist()]
    )


def numbers(frame: Frame, name: str) -> Array:
    """A column as finite numbers."""
    column = frame.column(name)
    values = _parsed(column)
    odd = np.flatnonzero(~np.isfinite(values))
    if len(odd):
        k, missing = int(odd[0]), [is_missing(one) for one in column[odd].tolist()]
        if missing[0]:
            raise _no_value(frame, name, k, sum(missing))
        raise frame.mistake(k, f"{column[k]!r} in column {name!r} is not a finite number", "correct it")
    return values


def is_missing(value: Any, known: Collection[str] = ()) -> bool:
    """Whether a value says that there is none; where 'none' is a declared name it means itself."""
    text = str(value).strip()
    return value is None or (text.lower() in MISSING and text not in known)


def _no_value(frame: Frame, name: str, k: int, such: int) -> Exception:
    return frame.mistake(k, f"no value in column {name!r} ({such} such in all)", "fill it, or leave these rows out")


def _parsed(column: NDArray[Any]) -> Array:
    """Numbers, NaN for whatever is none."""
    try:
        return column.astype(float)
    except (TypeError, ValueError):
        read = [number(str(one)) for one in column.tolist()]
        return np.array([np.nan if one is None else one for one in read])


def _scaled(frame: Frame, name: str, ends: tuple[float, float]) -> tuple[Array, int]:
    """A column of numbers on its scale, and how many lay outside its range."""
    values, (low, high) = numbers(frame, name), ends
    a, b = slope_of(ends)
    outside = int(((values < low) | (values > high)).sum())
    return (a * values + b).clip(*SCALED_TO), outside


def _places(frame: Frame, name: str, listed: Sequence[str]) -> Integers:
    """Every value's place among the categories; a number is the category that is written like it, 1.0 also like 1."""
    column = frame.column(name).tolist()
    place = {one: k for k, one in enumerate(listed)}
    alike = {label(one): k for k, one in enumerate(listed)}

    def find(value: Any) -> int:
        text = str(value).strip()
        exact = place.get(text, -1)
        return alike.get(label(text), -1) if exact < 0 and not isinstance(value, str) else exact

    places = np.array([find(value) for value in column], dtype=np.int64)
    if (places < 0).any():
        k = int((places < 0).argmax())
        missing = [is_missing(value, listed) for value in column]
        if missing[k]:
            raise _no_value(frame, name, k, sum(missing))
        raise frame.mistake(
            k, f"{column[k]!r} in column {name!r} is none of the categories {few(listed, 6)} that the model knows",
            "correct it, or leave the row out",
        )  # fmt: skip
    return places
