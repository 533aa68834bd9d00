"""A learner's log: log.jsonl for programs, and the same in words on standard error.

It quotes no record, except where a learner ended because it could not read one.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from gossamer.errors import GossamerError

log = logging.getLogger("gossamer.peers")
ANEW = 3600.0  # seconds
BUILT_IN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One object a line: time, level, event, and whatever it is about."""

    def format(self, record: logging.LogRecord) -> str:
        extra = {name: value for name, value in vars(record).items() if name not in BUILT_IN}
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        said = {"time": when, "level": record.levelname.lower(), "event": record.getMessage(), **extra}
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False, default=str)


class Words(logging.Formatter):
    """The same for a person."""

    def format(self, record: logging.LogRecord) -> str:
        extra = {name: value for name, value in vars(record).items() if name not in BUILT_IN}
        about = " ".join(f"{name}={value}" for name, value in extra.items())
        said = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.getMessage()} {about}".rstrip()
        return "".join(letter if letter.isprintable() else "?" for letter in said)  # some of it others have said


class Unfailing:
    """What cannot be logged, as on a full disk, is left out: a log ends no learner, and prints no traceback."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


class LogFile(Unfailing, logging.FileHandler):
    """log.jsonl, its owner's alone from the beginning."""

    def _open(self) -> Any:
        return open(self.baseFilename, "a", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600))


class LogStream(Unfailing, logging.StreamHandler[TextIO]):
    """Standard error."""


def log_to(path: Path, quiet: bool) -> None:
    """Log to a file, and, unless it shall be quiet, in words to standard error."""
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        file = LogFile(path)
    except OSError as error:
        raise _unwritable(path, error.strerror) from None
    file.setFormatter(JsonLines())
    shown = LogStream(sys.stderr)
    shown.setFormatter(Words())
    stop_logging()
    log.handlers = [file] if quiet else [file, shown]


def check_log(path: Path) -> None:
    """Refuse a place where nobody could log, and open nothing."""
    if path.is_dir():
        raise _unwritable(path, os.strerror(errno.EISDIR))
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _unwritable(path, os.strerror(errno.EACCES))


def _unwritable(path: Path, why: str | None) -> GossamerError:
    return GossamerError(f"{path} cannot be written ({why}): free the place, and start again.")


def stop_logging() -> None:
    for handler in log.handlers:
        with contextlib.suppress(OSError):  # what is still to be written finds no room
            handler.close()
    log.handlers = []


def warn_rarely(counts: Counter[Any], key: Any, event: str, about: Mapping[str, Any]) -> None:
    """Count it, and log the first time, the second, the fourth, …: nobody fills a disk with what is said about him."""
    counts[key] += 1
    times = counts[key]
    if times & (times - 1) == 0:
        log.warning(event, extra={**about, "times": times})


class Rarely:
    """Logs what happens again and again: the first time, the second, the fourth, …, and anew after a change.

    A change begins anew at most once in ANEW seconds. A link that opens and is refused, over and over, would otherwise
    be news each time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._counts = clock, Counter[Any]()
        self._since: dict[Any, float] = {}  # when a count last began

    def say(self, event: str, edge: str, why: str = "", level: int = logging.WARNING) -> None:
        """Count an event of a link, and perhaps log it."""
        self._since.setdefault((event, edge), self._clock())
        self._counts[event, edge] += 1
        times = self._counts[event, edge]
        if times & (times - 1) == 0:
            about = {"edge": edge} | ({"why": why} if why else {}) | ({"times": times} if why or times > 1 else {})
            log.log(level, event, extra=about)

    def changed(self, edge: str) -> None:
        """The link is in order: what happens to it next is news."""
        now = self._clock()
        for key in [key for key, since in self._since.items() if key[1] == edge and now - since >= ANEW]:
            del self._since[key], self._counts[key]
