"""A stream from a DataFrame: of pandas, polars, or whatever else narwhals knows; or a table of pyarrow."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.errors import GossamerError
from gossamer.streams.arrow import columns_of_arrow
from gossamer.streams.cells import check_header
from gossamer.streams.columns import Column, Columns, Numbers, words_of
from gossamer.streams.own import Dealing, Declared, stream_of
from gossamer.streams.schema import End, Missing, Outside
from gossamer.streams.stream import OnePass


def from_frame(
    frame: Any,
    target: str,
    learners: int = 10,
    *,
    split_by: str | None = None,
    per_round: int | Sequence[int] = 1,
    categorical: Sequence[str] = (),
    categories: Mapping[str, Sequence[str]] | None = None,
    classes: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    ranges: Mapping[str, tuple[End, End]] | None = None,
    outside: Outside = "clip",
    missing: Missing = "refuse",
    test: Any = None,
    test_fraction: float | None = None,
    seed: int = 0,
    intercept: bool = True,
    regression: bool = False,
) -> OnePass:
    """Records from a DataFrame of pandas or polars, or a table of pyarrow; all else as for `from_csv`.

    Rows are records. Booleans are the words True and False, and values that are null are missing. `test` is another
    frame. pandas and polars need the extra `frames`.
    """
    words = {*categorical, *(categories or {}), *([] if split_by is None else [split_by])}
    words |= set() if regression else {target}
    declared = Declared(target, categorical, categories, classes, drop, ranges, outside, missing, intercept, regression)
    columns = columns_of_frame("the frame", frame, words)
    other = None if test is None else columns_of_frame("the test's frame", test, words)
    dealing = Dealing(learners, split_by, per_round, other, test_fraction, seed)
    return stream_of(columns, declared, dealing, {"frame": type(frame).__module__.partition(".")[0]})


def columns_of_frame(source: str, frame: Any, words: Collection[str] = ()) -> Columns:
    """The frame's columns, those of `words` as text even if they are numbers."""
    arrow = sys.modules.get("pyarrow")  # whoever has a table of it has imported it
    if arrow is not None and isinstance(frame, arrow.Table):
        check_header(source, frame.column_names)
        return _with_records(columns_of_arrow(source, frame, words))
    if isinstance(frame, str | Path):
        raise GossamerError(f"{str(frame)!r} is a path: read a file with from_csv().")
    try:
        narwhals = importlib.import_module("narwhals")
    except ImportError:
        raise GossamerError(
            f"{source} is a {type(frame).__name__}, which needs narwhals: install gossamer-learning[frames], or give a "
            "table of pyarrow."
        ) from None
    try:
        known = narwhals.from_native(frame, eager_only=True)
    except TypeError:
        raise GossamerError(
            f"{source} is a {type(frame).__name__}, expected a DataFrame of pandas or polars, or a table of pyarrow."
        ) from None
    check_header(source, [str(name) for name in known.columns])
    columns = {str(name): _column(narwhals, known.get_column(name), name in words) for name in known.columns}
    return _with_records(Columns(source, columns, np.arange(1, len(known) + 1), unit="row"))


def _with_records(columns: Columns) -> Columns:
    if not len(columns):
        raise GossamerError(f"{columns.source} has no rows: give at least one record for each learner.")
    return columns


def _column(narwhals: Any, series: Any, words: bool) -> Column:
    kind = series.dtype
    absent = series.is_null().to_numpy().astype(bool)
    if kind in (narwhals.Date, narwhals.Datetime):
        micro = series.dt.timestamp("us").cast(narwhals.Float64).to_numpy()
        return Numbers(np.where(absent, np.nan, micro / 86_400e6), dates=True)
    if kind.is_numeric() and not words:
        values = np.array(series.cast(narwhals.Float64).to_numpy(), dtype=float)
        return Numbers(np.where(absent | ~np.isfinite(values), np.nan, values))
    return words_of(series.to_list())
