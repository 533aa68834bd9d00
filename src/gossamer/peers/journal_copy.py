"""A journal as a start would find it, looked at without a change to it: a copy of the database in memory.

What a start refuses is refused here by the same lines, since it is the same class; what a start would write goes into
memory, and is forgotten. SQLite itself never opens the file: it would take a lock, and a learner that starts at that
moment would be told that another process has its journal; and it would write its log back. So the file and its log are
read as bytes, and the log's whole transactions are put in place here, as https://sqlite.org/walformat.html says.

A file that this process has open as a journal is not even read: the process's lock goes when it closes any descriptor
of that file. A learner of another process may write meanwhile; what was read half before and half after is read again.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gossamer.errors import GossamerError
from gossamer.peers.journal import InUse
from gossamer.peers.journal_place import HELD, MAGIC, file_at

FORMATS = slice(18, 20)  # of a database: how it is written and read; 2 is with a log beside it, which memory has not
LOG = struct.Struct(">8I")  # magic, version, size of a page, how often it was written back, two salts, two sums
FRAME = struct.Struct(">6I")  # page, pages after a commit or 0, the two salts, two sums of all up to here
SIZES = {2**k for k in range(9, 17)}  # of a page; SQLite takes a log of another for none
LITTLE, BIG = 0x377F0682, 0x377F0683  # the magic says in which order numbers are summed
TRIES, PAUSE = 5, 0.05  # looks at files that a learner writes meanwhile; seconds between them
T = TypeVar("T")
Sums = tuple[int, int]
Stamp = list[tuple[str, int, int, int]]


class InMemory:
    """A copy of a journal: all that opens it looks at it, and nothing stays of what is written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def connect(self) -> sqlite3.Connection:
        if file_at(self._path) in HELD:
            raise InUse(f"journal {self._path}: this process has it open itself; look from another one.")
        return database_in_memory(self._path)

    def make_private(self) -> None:
        """Memory is."""

    def open_file(self, place: Path) -> int:
        """For reading alone; one that is not there is empty, as a start would make it."""
        return os.open(place if place.exists() else os.devnull, os.O_RDONLY)

    def release(self) -> None:
        """Nothing is held."""


def look_into(path: Path, look: Callable[[], T]) -> T | None:
    """What `look` finds; what it refuses counts if the journal's files stayed as they are. None: they never did."""
    for _ in range(TRIES):
        before = _stamp(path)
        try:
            return look()
        except GossamerError:
            time.sleep(PAUSE)  # more than a tick of the clock by which files are stamped
            if _stamp(path) == before:
                raise
    return None


def _stamp(path: Path) -> Stamp:
    """All of a journal's files as they are now."""
    found = []
    for place in sorted(path.parent.glob(f"{path.name}*")) if path.parent.is_dir() else []:
        try:
            about = place.stat()
        except OSError:  # just gone
            continue
        found.append((place.name, about.st_ino, about.st_size, about.st_mtime_ns))
    return found


def database_in_memory(path: Path) -> sqlite3.Connection:
    """The database of a file and its log; an empty one where there is none."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    data = _read_whole(path)
    if data:
        db.deserialize(data)
    return db


def _read_whole(path: Path) -> bytes:
    log = path.with_name(f"{path.name}-wal")
    for _ in range(TRIES):
        before, data, frames = _beginning(path, log), _bytes_of(path), _bytes_of(log)
        if _beginning(path, log) == before:
            break
        time.sleep(PAUSE)
    if not data.startswith(MAGIC):  # nothing yet, or no database: then its beginning is enough to say so
        return data[: 1 << 16]
    whole = _with_log(bytearray(data), frames)
    if whole[FORMATS] == b"\2\2":
        whole[FORMATS] = b"\1\1"
    return bytes(whole)


def _beginning(path: Path, log: Path) -> tuple[object, ...]:
    """What changes when the log is written back: the database, and the salts of the log that begins anew."""
    try:
        about = path.stat()
    except OSError:
        return (b"",)
    return about.st_ino, about.st_size, about.st_mtime_ns, _bytes_of(log, LOG.size)


def _bytes_of(place: Path, most: int = -1) -> bytes:
    """A file's bytes; of one that is no database, such as records of any length, the beginning will do."""
    if not place.is_file():
        return b""
    with place.open("rb") as file:
        head = file.read(max(len(MAGIC), LOG.size) if most < 0 else most)
        if most >= 0 or not (head.startswith(MAGIC) or place.name.endswith("-wal")):
            return head
        return head + file.read()


def _with_log(data: bytearray, log: bytes) -> bytearray:
    """The database after all transactions that its log has whole; what comes after a wrong sum counts for nothing."""
    pages, size, count = dict[int, bytes](), 0, 0
    begun = dict[int, bytes]()
    for page, committed, content in _frames(log):
        begun[page] = content
        if committed:
            pages |= begun
            begun, size, count = {}, len(content), committed
            if count > max(len(data) // size, *pages):
                raise sqlite3.DatabaseError("its log tells of more pages than there are")
    if not pages:
        return data
    data.extend(bytes(max(0, size * count - len(data))))
    for page, content in pages.items():
        data[(page - 1) * size : page * size] = content
    del data[size * count :]
    return data


def _frames(log: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(page, pages of the database if this ends a transaction, content) as long as sums and salts are right."""
    if len(log) < LOG.size:
        return
    magic, _, size, _, *salts, first, second = LOG.unpack_from(log)
    order = {LITTLE: "<", BIG: ">"}.get(magic)
    if order is None or size not in SIZES or _summed(log[: LOG.size - 8], order, (0, 0)) != (first, second):
        return
    sums, at = (first, second), LOG.size
    while at + FRAME.size + size <= len(log):
        page, committed, *own, first, second = FRAME.unpack_from(log, at)
        content = log[at + FRAME.size : at + FRAME.size + size]
        sums = _summed(log[at : at + 8] + content, order, sums)
        if own != salts or sums != (first, second) or not page:
            return
        yield page, committed, content
        at += FRAME.size + size


def _summed(data: bytes, order: str, sums: Sums) -> Sums:
    """Over pairs (x, y) of numbers: first += x + second, and then second += y + first; all at once, as it is linear."""
    pairs = np.frombuffer(data, f"{order}u4").astype(np.uint32).reshape(-1, 2)
    weights, whole = _weights(len(pairs))
    first, second = whole @ np.array(sums, dtype=np.uint32) + np.einsum("kij,kj->i", weights, pairs)
    return int(first), int(second)


@lru_cache
def _weights(count: int) -> tuple[Any, Any]:
    """What each of so many pairs adds to the sums in the end, and what becomes of those before them; modulo 2^32."""
    step, own = np.array([[1, 1], [1, 2]], dtype=np.uint32), np.array([[1, 0], [1, 1]], dtype=np.uint32)
    powers = [np.eye(2, dtype=np.uint32)]
    for _ in range(count):
        powers.append(powers[-1] @ step)
    return np.array([power @ own for power in powers[-2::-1]], dtype=np.uint32).reshape(-1, 2, 2), powers[-1]
