"""Where a journal lies: whether one can be there, which file it is, and whether this process has it open."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Protocol

from gossamer.errors import GossamerError

MAGIC = b"SQLite format 3\0"
Place = tuple[int, int]  # device and inode
HELD: set[Place] = set()  # the databases that this process has open


class Store(Protocol):
    """Where a journal's database and files are had from."""

    def __init__(self, path: Path) -> None: ...
    def connect(self) -> sqlite3.Connection: ...
    def make_private(self) -> None:
        """Nobody but the owner may read it from here on."""

    def open_file(self, place: Path) -> int:
        """A descriptor of one of the files beside the database."""

    def release(self) -> None:
        """After the connection was closed."""


class OnDisk:
    """The journal itself, for one process at a time."""

    def __init__(self, path: Path) -> None:
        self._path, self._held = path, set[Place]()

    def connect(self) -> sqlite3.Connection:
        if not self._path.exists():  # it is its owner's alone from the beginning, and SQLite's own files as it is
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=0, check_same_thread=False)
        place = file_at(self._path)
        self._held = set() if place is None or place in HELD else {place}
        HELD.update(self._held)
        return connection

    def make_private(self) -> None:
        os.chmod(self._path, 0o600)

    def open_file(self, place: Path) -> int:
        return os.open(place, os.O_RDWR | os.O_CREAT, 0o600)

    def release(self) -> None:
        HELD.difference_update(self._held)


def check_place(path: Path) -> None:
    """Refuse a place where no journal can be; what this process has open is not opened again, or its lock would go."""
    folder = path.parent
    if not folder.is_dir():
        raise GossamerError(f"journal {path}: there is no folder {folder}; make it, or set [party] journal elsewhere.")
    if path.exists() and not path.is_file():
        raise GossamerError(f"journal {path} is no file: set [party] journal to another name.")
    for place in (folder, path):
        if place.exists() and not os.access(place, os.R_OK | os.W_OK):
            raise GossamerError(f"journal {path}: {place} cannot be read and written; let the party's own user do so.")
    if path.exists() and file_at(path) not in HELD and not _begins_as_database(path):
        raise no_journal(path)


def no_journal(path: Path) -> GossamerError:
    return GossamerError(
        f"journal {path} is no journal (file is not a database): set [party] journal to the party's own, or to a name "
        "that nothing has if it never started."
    )


def _begins_as_database(path: Path) -> bool:
    """Or has nothing in it yet. SQLite itself would take a file of a few other bytes for an empty one."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) in (b"", MAGIC)


def file_at(place: Path) -> Place | None:
    """Which file it is, whatever it is called: links may lead to it."""
    try:
        about = place.stat()
    except OSError:
        return None
    return about.st_dev, about.st_ino
