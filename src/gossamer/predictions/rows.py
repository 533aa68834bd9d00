"""New rows in whatever form somebody has them, as columns: a file, a DataFrame, rows as dicts, columns, an array."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.errors import GossamerError, near
from gossamer.quoting import typed
from gossamer.streams.columns import Column, Columns, Numbers, words_of
from gossamer.streams.files import Reading, read_file
from gossamer.streams.frames import columns_of_frame
from gossamer.streams.schema import Schema, few

SOURCE = "the rows"
REMEDY = ("correct that row, or leave it out",)  # whoever predicts can declare nothing else


def columns_of(rows: Any, schema: Schema, keep: Sequence[str] = ()) -> Columns:
    """The rows as columns that have all features; `keep` are columns whose text is wanted as it stands."""
    words = {*schema.categories, *keep, *([schema.target] if schema.classes else [])}
    columns = _read(rows, schema, words)
    for name in schema.features:
        if name not in columns.columns:
            perhaps = near(name, columns.header)
            there = few(list(map(typed, columns.header)), 8)
            raise GossamerError(
                f"{columns.source}: no column {name!r}, which the model needs, only {there}: add it"
                + (f", {perhaps}." if perhaps else ".")
            )
    return replace(columns, remedy=REMEDY)


def _read(rows: Any, schema: Schema, words: Collection[str]) -> Columns:
    if isinstance(rows, Columns):
        return rows
    if isinstance(rows, str | Path):
        return read_file(Reading(Path(rows), words=tuple(sorted(words))))
    if isinstance(rows, Mapping):
        return _from_columns(rows, words)
    if isinstance(rows, list | tuple) and rows and isinstance(rows[0], Mapping):
        return _from_dicts(rows, words)
    if isinstance(rows, np.ndarray | list | tuple):
        return _from_array(rows, schema.features, words)
    return columns_of_frame(SOURCE, rows, words)


def _from_dicts(rows: Sequence[Any], words: Collection[str]) -> Columns:
    """A name that only some rows have is missing in the others."""
    for k, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise GossamerError(f"{SOURCE}: row {k + 1} is {row!r:.40}, expected a dict as the others are.")
    names = dict.fromkeys(name for row in rows for name in row)
    return _from_columns({name: [row.get(name) for row in rows] for name in names}, words)


def _from_columns(given: Mapping[Any, Any], words: Collection[str]) -> Columns:
    for name, values in given.items():
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise GossamerError(
                f"column {name!r} is {values!r:.40}, expected a list of values: of one row give [{{name: value, …}}]."
            )
    lengths = {str(name): len(values) for name, values in given.items()}
    if len(set(lengths.values())) > 1:
        short, long = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise GossamerError(
            f"column {short!r} has {lengths[short]} values and {long!r} {lengths[long]}: give all the same."
        )
    columns = {str(name): _column(values, str(name) in words) for name, values in given.items()}
    return Columns(SOURCE, columns, np.arange(1, max(lengths.values(), default=0) + 1), unit="row")


def _from_array(rows: Any, features: Sequence[str], words: Collection[str]) -> Columns:
    table = rows if isinstance(rows, np.ndarray) else np.array(rows, dtype=object)
    if table.ndim != 2 or table.shape[1] != len(features):
        raise GossamerError(
            f"{SOURCE} have shape {table.shape}, expected (rows, {len(features)}), the columns being "
            f"{few(list(map(typed, features)), 8)}: put them in this order, or give rows with names."
        )
    return _from_columns(dict(zip(features, table.T, strict=True)), words)


def _column(values: Any, words: bool) -> Column:
    """An array of numbers as such, all else by its words."""
    given = values if isinstance(values, np.ndarray) else None
    if given is not None and given.dtype.kind in "iuf" and not words:
        numbers = given.astype(float)
        return Numbers(np.where(np.isfinite(numbers), numbers, np.nan))
    return words_of(values.tolist() if given is not None else values)
