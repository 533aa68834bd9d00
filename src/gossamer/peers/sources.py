"""A file of records, some at a time, and any of them again: so that a feed need not keep what it has seen.

CSV files have a header line, JSONL files an object a line; of Parquet files only the declared columns are read. A place
is where some records lie: bytes of a text, or rows of a Parquet file. What is read at a place once more is the same, or
the file is no longer what it was, which the feed finds out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np

from gossamer.errors import GossamerError
from gossamer.peers.replaced import Used
from gossamer.streams.arrow import parquet_batches
from gossamer.streams.cells import cells_of, lines_of, separator_in
from gossamer.streams.columns import Column, Columns
from gossamer.streams.growing import Growing, columns_of_rows
from gossamer.streams.schema import Schema
from gossamer.types import Array

Format = Literal["csv", "jsonl", "parquet"]
CHUNK = 1 << 17  # bytes of text that are read at a time
ROWS = 1 << 12  # of a Parquet file


class Place(NamedTuple):
    """Where some records lie: from `start` up to `end`; before them are so many lines."""

    start: int
    end: int
    line: int

    def to(self, later: Place) -> Place:
        """The place of these records and of those after them."""
        return Place(self.start, later.end, self.line)


class Source(Protocol):
    def news(self) -> Iterator[tuple[Place, Columns]]:
        """All records that have come since, some at a time, each once."""

    def again(self, place: Place) -> Columns:
        """Records that were news before."""

    def check(self) -> None:
        """Refuse a file that is followed, and was replaced."""


def source_of(path: Path, format_: Format, schema: Schema, follow: bool) -> Source:
    if format_ != "parquet":
        return TextSource(path, format_, schema, follow)
    if follow:
        raise GossamerError(f"{path}: a Parquet file does not grow; follow a CSV or JSONL file.")
    return ParquetSource(path, schema)


class TextSource:
    """Lines of a CSV or JSONL file. Where it is followed, a line counts once it has ended."""

    def __init__(self, path: Path, format_: Format, schema: Schema, follow: bool) -> None:
        self._path, self._format, self._follow = path, format_, follow
        self._names = [schema.target, *schema.features]
        self._numbers = {name for name in schema.ranges if name not in schema.dates}
        self._at = self._line = 0
        self._partial = b""
        self._header, self._header_line, self._separator = list[str](), 0, ","
        self._used = Used(path)
        self._written: dict[str, set[str]] = {name: set() for name in self._numbers}  # with a point, a comma, or both

    def news(self) -> Iterator[tuple[Place, Columns]]:
        self.check()
        if self._used.in_doubt:
            return
        while data := self._read(self._at, CHUNK):
            self._at += len(data)
            if self._follow:
                self._used.add(data)
            whole, ended, self._partial = (self._partial + data).rpartition(b"\n")
            if ended:
                yield self._taken(whole + ended)
        if self._partial and not self._follow:
            rest, self._partial = self._partial, b""
            yield self._taken(rest)

    def again(self, place: Place) -> Columns:
        return self._columns(self._read(place.start, place.end - place.start), place)

    def check(self) -> None:
        if self._follow:
            self._used.check()

    def _taken(self, data: bytes) -> tuple[Place, Columns]:
        end = self._at - len(self._partial)
        place = Place(end - len(data), end, self._line)
        columns = self._columns(data, place)
        self._line += data.count(b"\n")
        return place, columns

    def _read(self, start: int, count: int) -> bytes:
        try:
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < start:
                    raise GossamerError(f"{self._path} has become shorter: records may only be added.")
                file.seek(start)
                return file.read(count)
        except FileNotFoundError:
            if self._follow:
                return b""  # it is to come
            raise GossamerError(f"no file {self._path}: put the records there, or change [data] path.") from None
        except OSError as error:
            raise GossamerError(f"{self._path} cannot be read ({error.strerror}).") from None

    def _columns(self, data: bytes, place: Place) -> Columns:
        try:
            text = data.decode("utf-8-sig" if not place.start else "utf-8")
        except UnicodeDecodeError as error:
            raise GossamerError(f"{self._path} is not UTF-8 text ({error.reason}): convert it.") from None
        numbered = lines_of(text, place.line)
        if self._format == "jsonl":
            return self._columns_of_objects([(k, self._object(k, line)) for k, line in numbered])
        if not self._header and numbered:
            self._header_line, line = numbered[0]
            self._separator = separator_in(line)
            self._header = self._cells(self._header_line, line)
        if numbered and numbered[0][0] == self._header_line:
            del numbered[0]
        rows = [self._cells(k, line) for k, line in numbered]
        comma = self._separator != ","
        if comma and place.line >= self._line:
            self._check_points([k for k, _ in numbered], rows)
        lines = [k for k, _ in numbered]
        return columns_of_rows(str(self._path), self._header, lines, rows, self._numbers, comma=comma)

    def _cells(self, k: int, line: str) -> list[str]:
        if '"' in line or "\r" in line:
            return cells_of(f"{self._path}, line {k}", line, self._separator)
        return [cell.strip() for cell in line.split(self._separator)]  # as csv has it, in a third of its time

    def _check_points(self, lines: Sequence[int], rows: Sequence[Sequence[str]]) -> None:
        """Refuse a column in which a comma is a decimal comma here and a point was one before, or the other way round.

        What comes at a time is refused by itself; what came before must not depend on how much came together.
        """
        for at, name in enumerate(self._header):
            before = self._written.get(name)
            if before is None:
                continue
            here = {mark for mark in ".," if any(mark in row[at] for row in rows if at < len(row))}
            if len(here) == 1 and before and here != before:
                raise GossamerError(
                    f"{self._path}: column {name!r} has a decimal comma in some records and a point in others, before "
                    f"and after line {lines[0]}: write all of them alike."
                )
            before |= here

    def _object(self, k: int, line: str) -> list[str | int | float]:
        try:
            given = DECODER.decode(line)
            values = [given[name] for name in self._names]
            if not KINDS.issuperset(map(type, values)):
                odd = next(value for value in values if type(value) not in KINDS)
                raise TypeError(f"{odd!r} is neither a number nor a word")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            names = ", ".join(self._names)
            why = f"{self._path}, line {k}: expected an object with {names} ({error!r}); correct that line."
            raise GossamerError(why) from None
        return values

    def _columns_of_objects(self, numbered: Sequence[tuple[int, Sequence[str | int | float]]]) -> Columns:
        """As if the values were text, but numbers stay numbers where a column has nothing else."""
        by_name = list(zip(*[values for _, values in numbered], strict=True)) if numbered else [()] * len(self._names)
        columns: dict[str, Column] = {}
        for name, values in zip(self._names, by_name, strict=True):
            numbers = _numbers(values) if name in self._numbers else None
            growing = Growing("words" if name not in self._numbers else "any")
            if numbers is not None:
                growing.add_numbers(numbers)
            else:
                growing.add([str(value) for value in values])
            columns[name] = growing.end()
        return Columns(str(self._path), columns, np.array([k for k, _ in numbered], dtype=np.int64))


class ParquetSource:
    """Rows of one Parquet file, which does not grow: read on from where the last ones ended, if that is asked for."""

    def __init__(self, path: Path, schema: Schema) -> None:
        self._path, self._names = path, [schema.target, *schema.features]
        self._words = {*schema.categories, *([schema.target] if schema.classes else [])}
        self._seen = False
        self._at = -1  # the row at which the next ones begin; none yet
        self._next: Iterator[Columns] = iter(())

    def news(self) -> Iterator[tuple[Place, Columns]]:
        if self._seen:
            return
        self._seen, at = True, 0
        for columns in self._from(0):
            yield Place(at, at + len(columns), 0), columns
            at += len(columns)

    def again(self, place: Place) -> Columns:
        if place.start != self._at:
            self._next = self._from(place.start)
        columns = next(self._next, None)
        if columns is None or len(columns) != place.end - place.start:
            raise GossamerError(f"{self._path} was changed since it was first read: put back the file that was there.")
        self._at = place.end
        return columns

    def check(self) -> None:
        """It is not followed: what is read again is compared then."""

    def _from(self, start: int) -> Iterator[Columns]:
        return parquet_batches(self._path, ROWS, self._words, self._names, start)


def _parse_whole(digits: str) -> int | float:
    """A whole number of any length. Python refuses to read thousands of digits, even in fields that nobody uses."""
    return int(digits) if len(digits) <= 400 else float(digits)


DECODER = json.JSONDecoder(parse_int=_parse_whole)
KINDS = {str, int, float}  # of values that a record may have; true and null are none


def _numbers(values: Sequence[str | int | float]) -> Array | None:
    """The values, where all are finite numbers, or NaN, which says that there is none."""
    if str in set(map(type, values)):
        return None
    try:
        numbers = np.array(values, dtype=float)
    except OverflowError:
        return None
    return None if np.isinf(numbers).any() else numbers
