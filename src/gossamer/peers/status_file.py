"""status.json as a file: written whole, and in place where that cannot be done.

A status that cannot be written never ends a learner: an owner who sees an old one is better off than one without a
learner. Usually the file is replaced, so that nobody reads half of it. That needs a free block and a descriptor. On a
full disk, or where the process has too many files open, the text goes into a spare file that was written and opened
before, which then takes the file's place; and where there is none, over the file that is there. Both have their blocks
already. Whoever reads in that moment may find half a text, and reads again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.peers.logs import warn_rarely

SPARE = 1 << 14  # bytes; a status has about one thousand
# Left out where there is no room for them.
LONG = ("refused", "releases", "differs", "held", "uncancelled", "errors", "clipped", "why")


class StatusFile:
    """One learner's status.json; `failed` counts the times that it could not be replaced."""

    def __init__(self, path: Path) -> None:
        self._path, self._spare = path, path.with_name(f".{path.name}.spare")
        self._open: int | None = None  # the spare file
        self._failures: Counter[str] = Counter()

    @property
    def failed(self) -> int:
        return self._failures["status"]

    def write(self, about: Mapping[str, Any]) -> bool:
        """Whether it could be written, in one way or the other; what fails is logged now and then."""
        try:
            replace_file(self._path, _text(about), private=True)
        except GossamerError as error:
            warn_rarely(self._failures, "status", "status not written", {"why": str(error)})
            with contextlib.suppress(OSError):
                self._write_in_place(about)
                return True
            return False
        with contextlib.suppress(OSError):
            self._keep_spare()
        return True

    def close(self) -> None:
        """Nothing is written any more: the spare file goes."""
        if self._open is not None:
            os.close(self._open)
            self._open = None
            with contextlib.suppress(OSError):
                self._spare.unlink()

    def _keep_spare(self) -> None:
        if self._open is not None and self._spare.exists():
            return
        if self._open is not None:  # it has become the status, and was replaced since
            os.close(self._open)
            self._open = None
        opened = os.open(self._spare, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            if os.pwrite(opened, b" " * SPARE, 0) < SPARE:
                raise OSError
        except OSError:
            os.close(opened)
            self._spare.unlink(missing_ok=True)
            raise
        self._open = opened

    def _write_in_place(self, about: Mapping[str, Any]) -> None:
        if self._open is not None:
            os.pwrite(self._open, _filled(about, SPARE), 0)
            with contextlib.suppress(FileNotFoundError):  # from the second time on it is the status already
                os.replace(self._spare, self._path)
            return
        opened = os.open(self._path, os.O_WRONLY)
        try:
            os.pwrite(opened, _filled(about, os.fstat(opened).st_size), 0)
        finally:
            os.close(opened)


def _text(about: Mapping[str, Any]) -> bytes:
    return (json.dumps(about) + "\n").encode()


def _filled(about: Mapping[str, Any], size: int) -> bytes:
    """The text in so many bytes, with blanks behind it; without the longest parts where it has more."""
    left = dict(about)
    for name in LONG:
        if len(_text(left)) <= size:
            break
        left.pop(name, None)
    return _text(left).ljust(size)
