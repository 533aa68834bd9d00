"""Whether a followed file is still the one that was read: its used part must stay what it was.

A learner that starts again compares the records that were used with those that are there. While it runs it reads on
from where it was. So a file that was replaced, or written anew in its place, would give records that follow upon
others, and the next start would refuse them: it is better said at once.

With every look, once a second and before more is read: which file it is (device and inode), its size and its times. As
long as all of these are what they were, so is the file. Otherwise

    it is shorter than what was used        refused at once
    it is another file                      all that was used is digested anew before more is read; one that begins with
                                            the same bytes is taken for the same
    it has grown, or only its times change  the first and the last bytes that were used are compared at once, and all
                                            that was used is digested anew, as often as that costs 2 % of the time

A file that grows every second changes every second, so the last is what bounds the cost: after each reading of it all,
49 times as long passes until the next. Up to AT_ONCE bytes are read on the spot, which takes a millisecond or so; more
in a thread, and what it finds is said with the next look.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from gossamer.errors import GossamerError

ENDS = 1 << 12  # bytes, as all of these
AT_ONCE = 1 << 20  # that are looked at on the spot
PIECE = 1 << 20  # that is read at a time
SPACED = 49.0  # times as long as a look at all of it took, until the next
SETTLED = 2_000_000_000  # nanoseconds after which a change would have another time


class Seen(NamedTuple):
    """A file as it was last looked at."""

    device: int
    inode: int
    size: int
    written: int
    changed: int  # which nobody can set back, as the time before

    @classmethod
    def of(cls, about: os.stat_result) -> Seen:
        return cls(about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


class Look:
    """Digests a file's first bytes anew; `same` is None until that is done."""

    def __init__(self, path: Path, count: int, digest: bytes) -> None:
        self._path, self._count, self._digest = path, count, digest
        self.same: bool | None = None
        self.done, self.seconds = False, 0.0
        self.read: Seen | None = None  # the file that it read
        self.settled = False  # whether a later change would be seen

    def run(self) -> None:
        began = time.monotonic()
        try:
            with self._path.open("rb") as file:
                self.read, asked = Seen.of(os.fstat(file.fileno())), time.time_ns()
                self.settled = max(self.read.written, self.read.changed) < asked - SETTLED
                self.same = digest_of(file, self._count) == self._digest
        except OSError:  # it is just being replaced, or too many files are open
            pass
        finally:
            self.seconds, self.done = time.monotonic() - began, True


class Used:
    """The part of a file that was read. While it is in doubt, no more should be read."""

    def __init__(self, path: Path) -> None:
        self._path, self._count = path, 0
        self._digest, self._first, self._last = hashlib.blake2b(digest_size=16), b"", b""
        self._before: Seen | None = None  # with the last look
        self._proved: Seen | None = None  # when all of it was what it had been
        self._look: Look | None = None
        self._due = 0.0  # when all of it may be read again
        self.in_doubt = False

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
        self._end_look()
        try:
            seen, before = Seen.of(os.stat(self._path)), self._before
            if seen == self._proved:
                return
            if seen.size < self._count:
                raise GossamerError(f"{self._path} has become shorter: records may only be added.")
            if seen != before:
                self._check_ends()
        except OSError:  # it is just being replaced, or too many files are open
            return
        self._before = seen
        other = before is not None and seen[:2] != before[:2]
        rewritten = before is not None and seen != before and seen.size == before.size
        self.in_doubt |= other
        few = self._count <= AT_ONCE
        if self._look is None and (self.in_doubt or (rewritten and few) or time.monotonic() >= self._due):
            self._begin_look(few)

    def _check_ends(self) -> None:
        with self._path.open("rb") as file:
            first = file.read(len(self._first))
            file.seek(self._count - len(self._last))
            if first != self._first or file.read(len(self._last)) != self._last:
                raise self._others()

    def _begin_look(self, at_once: bool) -> None:
        """At all of it: here, or in a thread that the process does not wait for."""
        self._look = Look(self._path, self._count, self._digest.digest())
        if at_once:
            self._look.run()
            self._end_look()
        else:
            threading.Thread(target=self._look.run, name="looks at used records", daemon=True).start()

    def _end_look(self) -> None:
        """Take what a look has found, if it has."""
        look = self._look
        if look is None or not look.done:
            return
        self._look, self._due = None, time.monotonic() + SPACED * look.seconds
        if look.same is False:
            raise self._others()
        if look.same and look.read is not None:
            self._proved = look.read if look.settled else None
            self.in_doubt &= self._before is None or look.read[:2] != self._before[:2]  # replaced since: look again

    def _others(self) -> GossamerError:
        return GossamerError(
            f"{self._path} was replaced or written anew: its first {self._count} bytes, which were used, are "
            "others; put back the file that was there, and only add to it."
        )


def digest_of(file: Any, count: int) -> bytes:
    """Of a file's first bytes."""
    digest, left = hashlib.blake2b(digest_size=16), count
    while left and (data := file.read(min(left, PIECE))):
        digest.update(data)
        left -= len(data)
    return digest.digest()
