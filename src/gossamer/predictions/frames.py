"""New rows in whatever form somebody has them, as columns by name: a file, a DataFrame, lists, an array."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import GossamerError, near
from gossamer.streams.cells import lines_of, read_cells
from gossamer.streams.schema import few

Column = NDArray[Any]  # (rows,): numbers where the source has numbers, else objects; a missing one is None or NaN
FORMS = "a file's path, a DataFrame, a list of rows as dicts, a dict of columns, or a 2-D array"


@dataclass(frozen=True)
class Frame:
    """Some rows, column by column."""

    source: str  # what an error calls them: a file's path, or "the rows"
    columns: Mapping[str, Column]
    lines: Sequence[int] | None = None  # where in a file each row is; None: rows are counted from 0

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> Column:
        if name not in self.columns:
            there, perhaps = few(list(self.columns), 8), near(name, self.columns)
            raise GossamerError(
                f"{self.source}: no column {name!r}, which the model needs, among {there}: add it"
                + (f", {perhaps}." if perhaps else ".")
            )
        return self.columns[name]

    def mistake(self, k: int, what: str, remedy: str) -> GossamerError:
        """What is wrong with row k, and what to do about it."""
        place = f"row {k}" if self.lines is None else f"line {self.lines[k]}"
        return GossamerError(f"{self.source}, {place}: {what}; {remedy}.")


def frame_of(rows: Any, features: Sequence[str]) -> Frame:
    """The rows as columns by name; those of an array are `features`, in this order."""
    if isinstance(rows, str | Path):
        return read_frame(Path(rows))
    if isinstance(rows, Mapping):
        return _from_columns(rows)
    if isinstance(rows, list | tuple) and rows and isinstance(rows[0], Mapping):
        return _from_dicts("the rows", rows, None)
    if isinstance(rows, np.ndarray | list | tuple):
        return _from_array(rows, features)
    return _from_dataframe(rows)


def read_frame(path: Path) -> Frame:
    """A file's rows: .parquet, .jsonl (an object a line), else CSV with a header line."""
    if path.suffix == ".parquet":
        return _read_parquet(path)
    if path.suffix in (".jsonl", ".ndjson"):
        return _read_jsonl(path)
    cells = read_cells(path)
    columns = {name: np.array(cells.column(name), dtype=object) for name in cells.header}
    return Frame(str(path), columns, cells.lines)


def _read_parquet(path: Path) -> Frame:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise GossamerError(
            f"{path}: reading Parquet needs pyarrow; install gossamer-learning[parquet], or give a CSV or JSONL file."
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            return _from_arrow(str(path), file.read())
    except FileNotFoundError:
        raise GossamerError(f"no file {path}: give the path of a Parquet file.") from None
    except Exception as error:  # pyarrow's errors have no common class
        raise GossamerError(f"{path} cannot be read as Parquet ({error}): give another file.") from None


def _read_jsonl(path: Path) -> Frame:
    try:
        numbered = lines_of(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise GossamerError(f"no file {path}: give the path of a JSONL file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise GossamerError(f"{path} cannot be read as JSONL ({error}): give a UTF-8 text file.") from None
    rows = []
    for k, line in numbered:
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise GossamerError(f"{path}, line {k}: not read as JSON ({error}); correct that line.") from None
        if not isinstance(rows[-1], dict):
            raise GossamerError(f'{path}, line {k}: expected an object such as {{"age": 50}}; correct that line.')
    if not rows:
        raise GossamerError(f"{path} is empty: expected at least one row.")
    return _from_dicts(str(path), rows, [k for k, _ in numbered])


def _from_dicts(source: str, rows: Sequence[Any], lines: Sequence[int] | None) -> Frame:
    """A column that only some rows have is missing in the others."""
    for k, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise GossamerError(f"{source}: row {k} is {row!r:.40}, expected a dict as the others are.")
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return Frame(source, {name: _objects([row.get(name) for row in rows]) for name in names}, lines)


def _from_columns(given: Mapping[Any, Any]) -> Frame:
    columns = {}
    for name, values in given.items():
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise GossamerError(
                f"column {name!r} is {values!r:.40}, expected a list of values: of one row give [{{name: value, …}}]."
            )
        columns[str(name)] = values if isinstance(values, np.ndarray) else _objects(list(values))
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        shortest, longest = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise GossamerError(
            f"column {shortest!r} has {lengths[shortest]} values and {longest!r} {lengths[longest]}: give all the same."
        )
    return Frame("the rows", columns)


def _from_array(rows: Any, features: Sequence[str]) -> Frame:
    table = rows if isinstance(rows, np.ndarray) else np.array(rows, dtype=object)
    if table.ndim != 2 or table.shape[1] != len(features):
        raise GossamerError(
            f"the rows have shape {table.shape}, expected (rows, {len(features)}), the columns being "
            f"{few(features, 8)}: put them in this order, or give rows with names."
        )
    return Frame("the rows", dict(zip(features, table.T, strict=True)))


def _from_dataframe(rows: Any) -> Frame:
    arrow = sys.modules.get("pyarrow")  # whoever has a table of it has imported it
    if arrow is not None and isinstance(rows, arrow.Table):
        return _from_arrow("the rows", rows)
    try:
        narwhals = importlib.import_module("narwhals")
    except ImportError:
        raise GossamerError(
            f"the rows are a {type(rows).__name__}, and DataFrames need narwhals: install gossamer-learning[frames], "
            f"or give {FORMS}."
        ) from None
    try:
        frame = narwhals.from_native(rows, eager_only=True)
    except TypeError:
        raise GossamerError(f"the rows are a {type(rows).__name__}: give {FORMS}.") from None
    columns = {
        str(name): _with_missing(frame[name].to_numpy(), frame[name].is_null().to_numpy()) for name in frame.columns
    }
    return Frame("the rows", columns)


def _from_arrow(source: str, table: Any) -> Frame:
    columns = {}
    for name in table.column_names:
        column = table[name]
        columns[name] = _with_missing(column.to_numpy(), column.is_null().to_numpy())
    return Frame(source, columns, None)


def _with_missing(values: Column, missing: NDArray[Any]) -> Column:
    """The values with None for what is missing, however their library says so; numbers stay numbers."""
    if values.dtype.kind == "f" or not missing.any():
        return values
    values = values.astype(object)
    values[missing.astype(bool)] = None
    return values


def _objects(values: list[Any]) -> Column:
    return np.fromiter(values, dtype=object, count=len(values))
