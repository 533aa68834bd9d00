"""What an operator sees of a learner: log lines, a status file, and /metrics.

Nothing derived from records leaves through here unless the owner says so: rounds, bytes, waiting and ε are functions
of the run and its settings, errors on own records are not. Those are for the status file, which its owner alone reads.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gossamer.errors import GossamerError

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


def log_to(path: Path, quiet: bool) -> None:
    """Log lines to a file, and, in words, to standard error."""
    log = logging.getLogger("gossamer.peers")
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        file = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise GossamerError(f"{path} cannot be written ({error.strerror}): free the place, and start again.") from None
    file.setFormatter(JsonLines())
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(Words())
    stop_logging()
    log.handlers = [file] if quiet else [file, shown]


def stop_logging() -> None:
    log = logging.getLogger("gossamer.peers")
    for handler in log.handlers:
        handler.close()
    log.handlers = []


def exposition(values: Mapping[str, tuple[str, str, Mapping[tuple[tuple[str, str], ...], float]]]) -> str:
    """Prometheus's text format: {name: (kind, help, {labels: value})}."""
    lines = []
    for name, (kind, help_, samples) in values.items():
        lines += [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]
        for labels, value in samples.items():
            inner = ",".join(f"{key}={json.dumps(text)}" for key, text in labels)
            number = "+Inf" if value == float("inf") else repr(float(value))
            lines.append(f"{name}{{{inner}}} {number}" if inner else f"{name} {number}")
    return "\n".join(lines) + "\n"


class Endpoint:
    """GET /metrics over plain HTTP, one answer a connection; meant for localhost."""

    def __init__(self, address: str, text: Callable[[], str]) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise GossamerError(f"[party] metrics = {address!r}: expected HOST:PORT, such as 127.0.0.1:9400.")
        self._host, self._port, self._text = host.strip("[]"), int(port), text
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        try:
            self._server = await asyncio.start_server(self._answer, self._host, self._port, limit=8192)
        except OSError as error:
            raise GossamerError(
                f"[party] metrics = {self._host}:{self._port} cannot be listened on ({error.strerror}): choose another."
            ) from None

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                head = await reader.readuntil(b"\r\n\r\n")
            found = head.split(b"\r\n")[0].split(b" ")[:2] == [b"GET", b"/metrics"]
            status, body = ("200 OK", self._text()) if found else ("404 Not Found", "only GET /metrics is here\n")
            kind = "text/plain; version=0.0.4; charset=utf-8" if found else "text/plain; charset=utf-8"
            data = body.encode()
            top = (
                f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(top.encode() + data)
            await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass
        finally:
            writer.close()


def read_status(path: Path) -> dict[str, Any] | None:
    """A status file; None where there is none, or it is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
