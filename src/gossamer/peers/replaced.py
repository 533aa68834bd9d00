"""Whether a followed file is still the one that was read: its used part must stay what it was.

A learner that starts again compares the records that were used with those that are there. While it runs it reads on
from where it was. So a file that was replaced, or written anew in its place, would give records that follow upon
others, and the next start would refuse them: it is better said at once.

What is compared: the file itself (device and inode) and its size with every look; if it is another file, or one of
which the time has changed and the size has not, the digest of all that was used; and if it has only grown, as it
should, the first and the last bytes that were used. So whoever changes bytes in the middle and adds others in one
second is not seen before the next start. A file that was replaced by one that begins with the same bytes is taken for
the same.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from gossamer.errors import GossamerError

ENDS = 1 << 12  # bytes
AT_ONCE = 1 << 20


class Seen(NamedTuple):
    """A file as it was last looked at."""

    device: int
    inode: int
    size: int
    changed: int


class Used:
    """The part of a file that was read."""

    def __init__(self, path: Path) -> None:
        self._path, self._count = path, 0
        self._digest, self._first, self._last = hashlib.blake2b(digest_size=16), b"", b""
        self._seen: Seen | None = None

    def add(self, data: bytes) -> None:
        """The next bytes were read."""
        self._count += len(data)
        self._digest.update(data)
        self._first = (self._first + data[: ENDS - len(self._first)]) if len(self._first) < ENDS else self._first
        self._last = (self._last + data)[-ENDS:]

    def check(self) -> None:
        """Refuse a file that is not the one that was read; one that is away for a while is waited for."""
        if not self._count:
            return
        try:
            about = os.stat(self._path)
            seen = Seen(about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
            if seen == self._seen:
                return
            same = seen.size >= self._count and self._is_same(seen)
        except OSError:  # it is just being replaced, or too many files are open
            return
        if not same:
            if seen.size < self._count:
                raise GossamerError(f"{self._path} has become shorter: records may only be added.")
            raise GossamerError(
                f"{self._path} was replaced or written anew: its first {self._count} bytes, which were used, are "
                "others; put back the file that was there, and only add to it."
            )
        self._seen = seen

    def _is_same(self, seen: Seen) -> bool:
        before = self._seen
        with self._path.open("rb") as file:
            if before is not None and seen[:2] == before[:2] and seen.size > before.size:
                first = file.read(len(self._first))
                file.seek(self._count - len(self._last))
                return first == self._first and file.read(len(self._last)) == self._last
            digest, left = hashlib.blake2b(digest_size=16), self._count
            while left and (data := file.read(min(left, AT_ONCE))):
                digest.update(data)
                left -= len(data)
        return digest.digest() == self._digest.digest()
