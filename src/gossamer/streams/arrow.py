"""Columns of an Arrow table, and of a Parquet file, which holds one."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.errors import GossamerError
from gossamer.streams.columns import Column, Columns, Numbers, Words, text_of, words_of

BUFFER = 1 << 18  # bytes of each column that are read at a time, instead of a whole row group


def read_parquet(path: Path, words: Collection[str | None] = ()) -> Columns:
    """The columns of one file."""
    with _opened(path) as file:
        return columns_of_arrow(str(path), file.read(), words)


def parquet_batches(
    path: Path, rows: int, words: Collection[str | None], only: Sequence[str], start: int = 0
) -> Iterator[Columns]:
    """Some columns of one file, so many records at a time, from record `start` on; other columns may hold anything.

    A piece never has records of two row groups, so that the pieces are the same wherever reading begins at one.
    """
    with _opened(path) as file:
        missing = [name for name in only if name not in file.schema_arrow.names]
        if missing:
            raise GossamerError(f"{path} has no column {missing[0]!r}: add it, or change what is declared.")
        before = 0
        for group in range(file.num_row_groups):
            after = before + file.metadata.row_group(group).num_rows
            if after > start:
                # in this thread: Arrow's own take 90 MB and read no faster where a round waits for few records
                for batch in file.iter_batches(rows, row_groups=[group], columns=list(only), use_threads=False):
                    if before >= start:
                        yield _columns_of_batch(str(path), batch, words, before)
                    before += len(batch)
            before = after


def _columns_of_batch(source: str, batch: Any, words: Collection[str | None], before: int) -> Columns:
    table = importlib.import_module("pyarrow").Table.from_batches([batch])
    columns = columns_of_arrow(source, table, words)
    return replace(columns, lines=columns.lines + before)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """One file, read row by row: in a folder of files, names that hold values would decide the order."""
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise GossamerError(
            f"{path}: reading Parquet needs pyarrow; install gossamer-learning[parquet], or give a CSV or JSONL file."
        ) from None
    try:
        with parquet.ParquetFile(path, buffer_size=BUFFER) as file:
            yield file
    except GossamerError:
        raise
    except FileNotFoundError:
        raise GossamerError(f"no file {path}: give the path of a Parquet file.") from None
    except Exception as error:  # pyarrow's errors have no common class
        raise GossamerError(f"{path} cannot be read as Parquet ({error}).") from None


def columns_of_arrow(source: str, table: Any, words: Collection[str | None] = ()) -> Columns:
    columns = {name: _column(table[name], name in words) for name in table.column_names}
    return Columns(source, columns, np.arange(1, len(table) + 1), unit="record")


def _column(column: Any, words: bool) -> Column:
    arrow = importlib.import_module("pyarrow")
    kinds = arrow.types
    if kinds.is_date(column.type) or kinds.is_timestamp(column.type):
        micro = column.cast(arrow.timestamp("us")).cast(arrow.int64())
        return Numbers(_floats(arrow, micro) / 86_400e6, dates=True)
    if not words and (kinds.is_integer(column.type) or kinds.is_floating(column.type) or kinds.is_decimal(column.type)):
        return Numbers(_floats(arrow, column))
    return _words(column)


def _floats(arrow: Any, column: Any) -> np.ndarray:
    values = np.asarray(column.cast(arrow.float64(), safe=False).to_numpy(), dtype=float)
    return np.where(np.isfinite(values), values, np.nan)


def _words(column: Any) -> Words:
    """As text, null as nothing. Values that read alike are one word."""
    if not str(column.type).startswith("dictionary"):
        try:
            column = column.dictionary_encode()
        except Exception:  # lists and structs have no dictionary
            return words_of(column.to_pylist())
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    parts = column.chunks if hasattr(column, "chunks") else [column]
    known: dict[str, int] = {}
    blocks = []
    for part in parts:
        place = [known.setdefault(text_of(one), len(known)) for one in part.dictionary.to_pylist()]
        codes = part.indices.fill_null(len(place)).to_numpy(zero_copy_only=False)
        place.append(known.setdefault("", len(known)) if part.null_count else -1)
        blocks.append(np.array(place, dtype=np.int32)[codes])
    return Words(np.concatenate([np.empty(0, dtype=np.int32), *blocks]), list(known))
