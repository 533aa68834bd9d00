"""One party's records as they come: from a file, from a file that grows, or from standard input.

CSV files have a header line, JSONL files an object a line; of Parquet files all columns are read at once. A followed
file is read to its end again and again; a line counts once it has been ended. What comes on standard input is first
written to a file of the party's own, because a learner that starts again must see the same records.

A record's place decides its round, and no record's value does: the first line is the header because it is the first,
and every later line is a record, or is refused, whatever it says. Otherwise one record could move all that follow.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from gossamer.errors import GossamerError
from gossamer.peers.logs import log
from gossamer.records import Batch
from gossamer.streams.arrow import read_parquet
from gossamer.streams.cells import cells_of, lines_of, separator_in
from gossamer.streams.columns import Columns
from gossamer.streams.growing import columns_of_rows
from gossamer.streams.schema import Schema
from gossamer.types import Array

Format = Literal["csv", "jsonl", "parquet"]
MARK = b"\xef\xbb\xbf"  # with which some begin UTF-8 text
REMEDY = ("correct the record, or let all parties declare more",)  # one party alone can declare nothing else


class Records:
    """A party's feed: `per_round` records a round; a file that does not grow runs out, and then nothing new comes.

    `most` is how many records are used at all, where that was declared.
    """

    def __init__(
        self, path: Path, format_: Format, schema: Schema, per_round: int, follow: bool, most: int | None = None
    ) -> None:
        if follow and format_ == "parquet":
            raise GossamerError(f"{path}: a Parquet file does not grow; follow a CSV or JSONL file.")
        self._path, self._format, self._schema = path, format_, schema
        self._per_round, self._follow, self._most = per_round, follow, most
        self._names = [schema.target, *schema.features]
        self._rows: list[Array] = []
        self._labels: list[float] = []
        self._at, self._line, self._header, self._separator = 0, 0, list[str](), ","
        self.clipped = Counter[str]()  # values outside of their ranges, by column: for the owner alone
        self._partial = b""
        self._digest, self._digested = hashlib.blake2b(digest_size=16), 0
        self.poll()

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def rounds(self) -> int | None:
        """How many full rounds there are; None where more may come."""
        return None if self._follow else len(self) // self._per_round

    def here(self, t: int) -> bool:
        if self._follow and len(self) < (t + 1) * self._per_round:
            self.poll()
        return not self._follow or len(self) >= (t + 1) * self._per_round

    def arrivals(self, t: int) -> Batch:
        rows, labels = self._some(slice(t * self._per_round, self._upto(t)))
        return Batch(rows, labels, np.array([len(labels)]))

    def _upto(self, t: int) -> int:
        """How many records there are after round t, where all are there in time."""
        booked = (t + 1) * self._per_round
        return booked if self._most is None else min(booked, self._most)

    def newest(self, most: int) -> tuple[Array, Array]:
        """Some of the newest records, for the owner's eyes."""
        return self._some(slice(-most, None))

    def _some(self, which: slice) -> tuple[Array, Array]:
        return np.array(self._rows[which]).reshape(-1, self._schema.columns), np.array(self._labels[which])

    def read(self, t: int) -> str:
        upto = min(self._upto(t), len(self))
        for k in range(self._digested, upto):
            self._digest.update(self._rows[k].tobytes())
            self._digest.update(np.float64(self._labels[k]).tobytes())
        self._digested = max(self._digested, upto)
        return f"{self._digested} records {self._digest.hexdigest()}"

    def poll(self) -> None:
        """Take in what has come since."""
        if self._format == "parquet":
            words = {*self._schema.categories, *([self._schema.target] if self._schema.classes else [])}
            self._take(read_parquet(self._path, words, self._names))
            return
        try:
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self._at:
                    raise GossamerError(f"{self._path} has become shorter: records may only be added.")
                file.seek(self._at)
                data = file.read()
        except FileNotFoundError:
            if self._follow:
                return  # it is to come
            raise GossamerError(f"no file {self._path}: put the records there, or change [data] path.") from None
        except OSError as error:
            raise GossamerError(f"{self._path} cannot be read ({error.strerror}).") from None
        self._at += len(data)
        whole, ended, rest = (self._partial + data).rpartition(b"\n")
        self._partial = rest
        if not self._follow and rest:
            whole, self._partial = whole + ended + rest, b""
        if whole or ended:
            self._take_text(whole)

    def _take_text(self, data: bytes) -> None:
        try:
            text = data.decode("utf-8-sig" if not self._line else "utf-8")
        except UnicodeDecodeError as error:
            raise GossamerError(f"{self._path} is not UTF-8 text ({error.reason}): convert it.") from None
        numbered = lines_of(text, self._line)
        self._line += 1 + text.count("\n")
        if self._format == "jsonl":
            self._take_rows(self._names, [k for k, _ in numbered], [self._object(k, line) for k, line in numbered])
            return
        if not self._header and numbered:
            self._separator = separator_in(numbered[0][1])
        rows = [(k, cells_of(f"{self._path}, line {k}", line, self._separator)) for k, line in numbered]
        if not self._header and rows:
            self._header = rows.pop(0)[1]
        self._take_rows(self._header, [k for k, _ in rows], [cells for _, cells in rows])

    def _object(self, k: int, line: str) -> list[str]:
        try:
            given = json.loads(line, parse_int=_parse_whole)
            return [_to_text(given[name]) for name in self._names]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            names = ", ".join(self._names)
            why = f"{self._path}, line {k}: expected an object with {names} ({error!r}); correct that line."
            raise GossamerError(why) from None

    def _take_rows(self, header: Sequence[str], lines: Sequence[int], rows: Sequence[Sequence[str]]) -> None:
        numbers = {name for name in self._schema.ranges if name not in self._schema.dates}
        self._take(columns_of_rows(str(self._path), header, lines, rows, numbers, comma=self._separator != ","))

    def _take(self, columns: Columns) -> None:
        if len(columns):
            known = set(self.clipped)
            X, y = self._schema.encode(replace(columns, remedy=REMEDY), clipped=self.clipped)
            for name in sorted(set(self.clipped) - known):  # once a column; how many there are is in the status
                log.warning("values outside of their range are clipped", extra={"column": name})
            self._rows.extend(X)
            self._labels.extend(y.tolist())


class Spool:
    """Writes what comes on `source` to the end of a file, whole lines at a time, from a thread of its own.

    Whatever brings CSV sends the header first, whenever it starts. So the first line of a start is a header by its
    place, and no other is, whatever it says. A file that is new gets it; one that has a header already must have the
    same, and is not given it again. Where a start ends before it has ended its first line, it has brought nothing.
    """

    def __init__(self, source: BinaryIO, path: Path, format_: Format = "csv", power: bool = False) -> None:
        self._source, self._path, self._format, self._power = source, path, format_, power
        self._error: GossamerError | None = None
        self.ended = False
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        _cut_unended_line(self._file)
        threading.Thread(target=self._copy, name="records from standard input", daemon=True).start()

    def check(self) -> None:
        """Refuse to go on where records could not be kept."""
        if self._error is not None:
            raise self._error

    def _copy(self) -> None:
        try:
            first = _first_line(self._source)
            if self._format != "csv" or self._is_new_header(first):
                self._write(first)
            for line in iter(self._source.readline, b""):
                self._write(line)
            self.ended = True
        except OSError as error:
            why = f"{self._path} cannot be written ({error.strerror}): free the disk, start again."
            self._error = GossamerError(why)
        except GossamerError as error:
            self._error = error

    def _is_new_header(self, first: bytes) -> bool:
        """Whether the first line of this start is to be written; refuses one that is not the file's header."""
        if not first.endswith(b"\n"):
            return False
        with self._path.open("rb") as file:
            header = _first_line(file)
        if header and _split_header(first) != _split_header(header):
            raise GossamerError(
                f"standard input begins with {first[:60]!r}, expected the header of {self._path} again: let what feeds "
                "the learner send its header first, whenever it starts."
            )
        return not header

    def _write(self, line: bytes) -> None:
        whole = memoryview(line if line.endswith(b"\n") or not line else line + b"\n")
        while whole:
            whole = whole[os.write(self._file, whole) :]
        if self._power:
            os.fsync(self._file)


def _first_line(source: BinaryIO) -> bytes:
    """The first line that is not empty; no bytes where all are."""
    line = source.readline().removeprefix(MARK)
    while line and not line.strip():
        line = source.readline()
    return line


def _split_header(header: bytes) -> list[str]:
    line = header.decode("utf-8", "replace").rstrip("\r\n")
    return cells_of("the header", line, separator_in(line))


def _cut_unended_line(file: int) -> None:
    """Cut off what a full disk or a crash has left of a line: it would be read as the beginning of the next."""
    size = os.fstat(file).st_size
    end = size
    while end and (block := os.pread(file, 1, end - 1)) != b"\n":
        end -= len(block)
    if end < size:
        os.ftruncate(file, end)


def _parse_whole(digits: str) -> int | float:
    """A whole number of any length. Python refuses to read thousands of digits, even in fields that nobody uses."""
    return int(digits) if len(digits) <= 400 else float(digits)


def _to_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"{value!r} is neither a number nor a word")
    return str(value)
