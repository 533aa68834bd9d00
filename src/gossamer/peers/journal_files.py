"""The files beside a journal's database, in which the vectors of its rounds lie, and the row that names them.

    JOURNAL.slot    head: tag, run, round │ vectors, one after the other │ tag │ length of about, about, checksum

A file is written whole, then its row; it is used again when the row's round is needed no more. `about` says which
vectors lie there, and the small things of the round. Why vectors lie beside the database, and what a file says that
its database does not know of: gossamer.peers.journal.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gossamer.errors import GossamerError
from gossamer.peers.journal_place import Place, file_at
from gossamer.peers.journal_sums import checksum_of, sum_of_messages
from gossamer.peers.wire import Dtype

HEAD = struct.Struct("<16s16sq")  # tag, run, round
LENGTH = struct.Struct("<I")
TAG = 16
AT_ONCE = 512  # pieces that a system takes in one call
SYNC = getattr(os, "fdatasync", os.fsync)  # which not every system has


class Same(NamedTuple):
    """A message that is a field of the state, in the numbers in which it travels: it is not written a second time."""

    field: str
    dtype: Dtype


class About(msgspec.Struct):
    """What a row says: the vectors in the order in which they lie, and the small things."""

    vectors: list[tuple[str, str, tuple[int, ...], int]]  # name, dtype, shape, bytes
    used: int  # messages of rounds before this one are needed no more
    charged: int
    heard: dict[int, tuple[int, int]]
    read: str
    check: int = 0  # of the messages, in rows without a checksum of their own
    late: list[tuple[int, int]] = []  # what this round adds to the table
    late_sum: int = -1  # of the whole table, this round's included; none in rows of a release before it
    settings: str = ""  # the fingerprint; where it is there, the file has the row behind its end
    same: dict[str, Same] = {}  # by channel; its vector is empty


class Row(NamedTuple):
    """Of the database's table `rounds`, in its order."""

    round: int
    slot: int
    tag: bytes
    about: bytes
    checksum: bytes | None


class Head(NamedTuple):
    """With what a file of vectors begins."""

    tag: bytes
    run: bytes
    round: int


class Files:
    """The files of one journal; `run` is the digest of run and learner in their heads, `opened` gives descriptors."""

    def __init__(self, path: Path, run: bytes, slots: int, power: bool, opened: Callable[[Path], int]) -> None:
        self._path, self._run, self._slots, self._power, self._opened = path, run, slots, power, opened
        self._open: dict[int, int] = {}

    def place(self, slot: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{slot}")

    def head(self, slot: int) -> Head | None:
        return _head_of(self._own(slot))

    def write(self, round_: int, about: bytes, vectors: Mapping[str, Any], tag: bytes) -> Row:
        """A round's file, from its start to behind its end; the row that names it is to be written after this."""
        slot, head = round_ % self._slots, HEAD.pack(tag, self._run, round_)
        pieces = [vector.reshape(-1).view(np.uint8) for vector in vectors.values()]
        row = Row(round_, slot, tag, about, checksum_of([head, about, *pieces]))
        self._put(slot, [head, *[piece.data for piece in pieces], tag, _behind(row)])
        return row

    def _put(self, slot: int, pieces: list[Any]) -> None:
        """All pieces, one after the other, from the file's start."""
        file, at = self._file(slot), 0
        for k in range(0, len(pieces), AT_ONCE):
            some, wanted = pieces[k : k + AT_ONCE], sum(len(piece) for piece in pieces[k : k + AT_ONCE])
            written = os.pwritev(file, some, at)
            if written < wanted:  # the system writes 2 GiB at most at once, and less where the disk is nearly full
                whole = memoryview(b"".join(some))
                while written < wanted:
                    written += os.pwrite(file, whole[written : written + (1 << 30)], at + written)
            at += wanted
        if self._power:
            SYNC(file)

    def read(self, row: Row) -> tuple[About, dict[str, Any]]:
        """What a row says, and its vectors; refuses whatever is not what was written."""
        name = self.place(row.slot).name
        known = self.said(row)
        sizes = [nbytes for *_, nbytes in known.vectors]
        whole = HEAD.size + sum(sizes) + TAG
        wanted = whole + (len(_behind(row)) if known.settings else 0)
        try:
            if min(sizes) < 0 or os.fstat(self._file(row.slot)).st_size < wanted:
                raise self.damaged(f"{name} is not of its round {row.round}")
            raw = os.pread(self._file(row.slot), wanted, 0)
            while len(raw) < wanted and (more := os.pread(self._file(row.slot), wanted - len(raw), len(raw))):
                raw += more
        except OSError as error:
            raise self.damaged(str(error)) from None
        raw, behind = raw[:whole], raw[whole:]
        head = HEAD.pack(row.tag, self._run, row.round)
        if len(raw) < whole or raw[: HEAD.size] != head or raw[-TAG:] != row.tag:
            raise self.damaged(f"{name} is not of its round {row.round}")
        ends = itertools.accumulate(sizes, initial=HEAD.size)
        pieces = [memoryview(raw)[first:end] for first, end in itertools.pairwise(ends)]
        if row.checksum is None:
            sent = [piece for (vector, *_), piece in zip(known.vectors, pieces, strict=True) if vector[:5] == "sent."]
            same = sum_of_messages(sent) == known.check
        else:  # before anything is made of what is said here
            same = checksum_of([head, row.about, *pieces]) == row.checksum
        if not same or (known.settings and behind != _behind(row)):
            raise self.damaged(f"{name} has changed on the disk")
        vectors = {}
        for (vector, dtype, shape, _), piece in zip(known.vectors, pieces, strict=True):
            vectors[vector] = np.frombuffer(piece, np.dtype(dtype)).reshape(shape)
        return known, vectors

    def said(self, row: Row) -> About:
        try:
            return msgspec.msgpack.decode(row.about, type=About)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:  # where letters are none, or it is a number
            raise self.damaged(str(error)) from None

    def row_of(self, round_: int) -> Row | None:
        """The row that a file of this round has behind its end; whether all of it is whole, `read` tells."""
        for slot in range(self._slots):
            place = self._own(slot)
            head = _head_of(place)
            if head is None or head[1:] != (self._run, round_):
                continue
            _, _, after = place.read_bytes()[HEAD.size :].partition(head.tag)
            size = int.from_bytes(after[: LENGTH.size], "little")
            about, checksum = after[LENGTH.size : LENGTH.size + size], after[LENGTH.size + size :][:TAG]
            return Row(round_, slot, head.tag, about, checksum)
        return None

    def refuse_newer(self, newest: int) -> None:
        """A crash leaves the files one round ahead of the database at most, and no other journal is of this run."""
        own = self._of_database()
        for place in (each for each in self._path.parent.iterdir() if each.is_file() and file_at(each) not in own):
            head = _head_of(place)
            if head is None or head.run != self._run:
                continue
            if not place.name.startswith(f"{self._path.name}."):
                raise GossamerError(
                    f"journal {self._path}: {place.name} is of the same learner and run, of round {head.round}: what "
                    "it sent would be drawn again; use that journal, under its own name, and keep copies elsewhere."
                )
            if head.round > newest + 1:
                raise GossamerError(
                    f"journal {self._path} knows of round {newest} and {place.name} is of round {head.round}: it was "
                    "lost or put back in time, and would draw again what was sent; join a new run."
                )

    def _own(self, slot: int) -> Path:
        """A slot's place, before it is opened; refuses what is no file there, or is the database under another name."""
        place = self.place(slot)
        if place.exists() and (not place.is_file() or file_at(place) in self._of_database()):
            raise self.damaged(f"{place.name} is no file of a round")
        return place

    def _of_database(self) -> set[Place]:
        """The database's own files, which are not to be opened here, under whatever names they have.

        SQLite's lock is the process's, and goes as soon as the process closes any other descriptor of the same file;
        then a second process could draw the same rounds.
        """
        names = [self._path.name, *(f"{self._path.name}-{part}" for part in ("wal", "shm", "journal"))]
        return {at for name in names if (at := file_at(self._path.with_name(name))) is not None}

    def damaged(self, why: str) -> GossamerError:
        return damaged(self._path, why)

    def _file(self, slot: int) -> int:
        if slot not in self._open:
            place = self._own(slot)
            fresh = not place.exists()
            self._open[slot] = self._opened(place)
            if fresh and self._power:
                sync_folder(place.parent)
        return self._open[slot]

    def close(self) -> None:
        for file in self._open.values():
            os.close(file)
        self._open = {}


def damaged(journal: Path, why: str) -> GossamerError:
    return GossamerError(
        f"journal {journal} is damaged ({why}): join a new run; an older copy would release states twice."
    )


def _head_of(place: Path) -> Head | None:
    """None where there is no such file, or it is too short."""
    if not place.is_file():
        return None
    with place.open("rb") as file:
        head = file.read(HEAD.size)
    return Head._make(HEAD.unpack(head)) if len(head) == HEAD.size else None


def _behind(row: Row) -> bytes:
    """What a file has behind its end of its own row."""
    return LENGTH.pack(len(row.about)) + row.about + (row.checksum or b"")


def sync_folder(folder: Path) -> None:
    """That a new file is in its folder survives the end of the machine, too."""
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
