"""A file of lines, each a JSON object: what happened when, for `jq`, pandas, or a person with `tail -f`."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossamer.errors import GossamerError
from gossamer.loggers.base import Numbers, one_line
from gossamer.run_record import Record, plain

BEGINS = b'{"time": "'  # every line


class Jsonl:
    """Appends a line for the start, with the configuration; for every evaluation; and for the end.

    Every line is in the file when the run goes on, so that a crash leaves all lines until then; a last line that a
    crash cut in two is dropped when the file is next appended to. A file that ends with any other half line is refused.
    A run that is resumed appends: it starts with a line `start` of its own, whose `t` says where. Rounds after the
    record that it went on from are then there twice.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file = -1

    def start(self, config: Mapping[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _check_file(self.path)
        _drop_half_line(self.path)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        about = {name: value for name, value in config.items() if name != "from"}
        self._write("start", config["from"], {"config": about})

    def log(self, t: int, numbers: Numbers) -> None:
        self._write("evaluation", t, numbers)

    def end(self, outcome: Record | BaseException) -> None:
        if isinstance(outcome, Record):
            told = outcome.summary()
            names = ("claim", "epsilon", "epsilon_for_ever", "epsilon_if_all_collude", "notes")
            kept = {name: told[name] for name in names if name in told}
            self._write("end", outcome.t, {"finished": outcome.finished, **told["final"], **kept})
        else:
            self._write("end", None, {"finished": False, "error": one_line(outcome)})
        os.close(self._file)

    def _write(self, event: str, t: int | None, about: Mapping[str, Any]) -> None:
        now = time.time()
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
        told = plain({"time": when, "event": event, "t": t, **about})
        line = json.dumps(told, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        before = os.fstat(self._file).st_size
        if os.write(self._file, line) < len(line):  # the disk is full: a part of a line is worse than none
            os.ftruncate(self._file, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))


def _check_file(path: Path) -> None:
    """Refuse a pipe, which may keep a run waiting for whoever reads it, and all else that is no file."""
    if path.exists() and not path.is_file():
        raise GossamerError(f"{path} is no regular file: name a file, or a new one.")


def _drop_half_line(path: Path) -> None:
    """Cut off what follows the last whole line, if it is the beginning of one of ours."""
    if path.is_file():
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        rest = content[whole:]
        if not rest.startswith(BEGINS) and not BEGINS.startswith(rest):
            raise GossamerError(f"{path} ends with a line that no logger wrote: name another file, or a new one.")
        if rest:
            os.truncate(path, whole)
