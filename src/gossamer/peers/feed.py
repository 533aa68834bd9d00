"""One party's records as they come: from a file, from a file that grows, or from standard input.

A followed file is read to its end again and again; a line counts once it has been ended. What comes on standard input
is first written to a file of the party's own, because a learner that starts again must see the same records.

A record's place decides its round, and no record's value does: the first line is the header because it is the first,
and every later line is a record, or is refused, whatever it says. Otherwise one record could move all that follow.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from gossamer.errors import GossamerError
from gossamer.peers.blocks import Blocks, bytes_of
from gossamer.peers.logs import log
from gossamer.peers.sources import Format, Place, source_of
from gossamer.records import Batch
from gossamer.streams.cells import cells_of, separator_in
from gossamer.streams.columns import Columns
from gossamer.streams.schema import Schema
from gossamer.types import Array

MARK = b"\xef\xbb\xbf"  # with which some begin UTF-8 text
REMEDY = ("correct the record, or let all parties declare more",)  # one party alone can declare nothing else
DIGESTED = 1 << 12  # records at a time


class Records:
    """A party's feed: `per_round` records a round; a file that does not grow runs out, and then nothing new comes.

    `most` is how many records are used at all, where that was declared. All records are looked at when they come, and
    read again when their round does: only some are kept, see gossamer.peers.blocks.
    """

    def __init__(
        self, path: Path, format_: Format, schema: Schema, per_round: int, follow: bool, most: int | None = None
    ) -> None:
        self.path, self._schema = path, schema
        self._per_round, self._follow, self._most = per_round, follow, most
        self.clipped = Counter[str]()  # values outside of their ranges, by column: for the owner alone
        self._source = source_of(path, format_, schema, follow)
        self._blocks = Blocks(str(path), self._read_again, schema.columns, joins=follow)
        self._digest, self._digested = hashlib.blake2b(digest_size=16), 0
        self.poll()

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def rounds(self) -> int | None:
        """How many full rounds there are; None where more may come."""
        return None if self._follow else len(self) // self._per_round

    def here(self, t: int) -> bool:
        if self._follow and len(self) < self._upto(t):
            self.poll()
        return not self._follow or len(self) >= self._upto(t)

    def arrivals(self, t: int) -> Batch:
        rows, labels = self._blocks.take(t * self._per_round, self._upto(t))
        return Batch(rows, labels, np.array([len(labels)]))

    def _upto(self, t: int) -> int:
        """How many records there are after round t, where all are there in time."""
        booked = (t + 1) * self._per_round
        return booked if self._most is None else min(booked, self._most)

    def newest(self, most: int) -> tuple[Array, Array]:
        """Some of the newest records, for the owner's eyes; up to NEWEST of them cost nothing."""
        return self._blocks.some(max(0, len(self) - most), len(self))

    def read(self, t: int) -> str:
        """How many records were used after round t, and their digest."""
        upto = min(self._upto(t), len(self))
        while self._digested < upto:
            some = min(upto, self._digested + DIGESTED)
            self._digest.update(bytes_of(*self._blocks.some(self._digested, some)))
            self._digested = some
        return f"{self._digested} records {self._digest.hexdigest()}"

    def check(self) -> None:
        """Refuse to go on with a followed file that was replaced; to be asked now and then."""
        self._source.check()

    def poll(self) -> None:
        """Take in what has come since."""
        for place, columns in self._source.news():
            if not len(columns):
                continue
            known = set(self.clipped)
            X, y = self._encoded(columns, self.clipped)
            for name in sorted(set(self.clipped) - known):  # once a column; how many there are is in the status
                log.warning("values outside of their range are clipped", extra={"column": name})
            self._blocks.add(place, X, y)

    def _read_again(self, place: Place) -> tuple[Array, Array]:
        return self._encoded(self._source.again(place), None)

    def _encoded(self, columns: Columns, clipped: Counter[str] | None) -> tuple[Array, Array]:
        return self._schema.encode(replace(columns, remedy=REMEDY), clipped=clipped)


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
        try:
            self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        except (IsADirectoryError, PermissionError) as error:
            raise GossamerError(
                f"{path}, where what comes on standard input is kept, cannot be opened ({error.strerror}): let it be a "
                "file that the party's own user may write."
            ) from None
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
            self._error.__cause__ = error
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
