"""Asks a party's /metrics: one GET with a limit on its size and on its whole time, whatever the other end does.

What answers is whatever listens at an address that somebody has typed. It may be slow, endless or no learner at all, so
the time is counted over the whole answer and not between two bytes of it, and nothing is followed: no redirect, and no
encoding of its own. Waits are those of the socket, so this is called from a thread.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gossamer.errors import GossamerError
from gossamer.peers.wire import quoted

LIMIT = 1 << 20  # bytes of an answer; a learner with thirty neighbours writes some 20,000
TARGETS = 200  # addresses at once: each has a thread
PIECE = 1 << 16
LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,12})[ \t]*\r\n", re.IGNORECASE)


class Unanswered(GossamerError):
    """Nothing that can be used came from an address."""


class Target(NamedTuple):
    """Where a party's /metrics is."""

    name: str  # as somebody typed it
    host: str
    port: int
    path: str
    secure: bool


def parse_target(text: str) -> Target:
    """`HOST:PORT`, `[::1]:9400` or a whole address, `https://a.example.org/gossamer/metrics`."""
    wrong = GossamerError(
        f"{quoted(text, 100)!r} is no address of /metrics: expected HOST:PORT, such as a.example.org:9400, or "
        "http(s)://HOST:PORT/PATH, without a password."
    )
    if not text.isascii() or not text.isprintable() or " " in text:
        raise wrong
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise wrong
    if port is None and "://" in text:
        port = 443 if parts.scheme == "https" else 80
    if not port:
        raise wrong
    path = (parts.path if parts.path not in ("", "/") else "/metrics") + (f"?{parts.query}" if parts.query else "")
    return Target(text, parts.hostname, port, path, parts.scheme == "https")


def read_targets(file: Path) -> list[str]:
    """Addresses, one a line, with # for remarks; or, in a .json file, what Prometheus reads as `file_sd_configs`."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise GossamerError(f"{file} cannot be read ({error}): give a file with one HOST:PORT a line.") from None
    if file.suffix != ".json":
        lines = (line.partition("#")[0].strip() for line in text.splitlines())
        return [line for line in lines if line]
    try:
        return [_as_text(target) for group in json.loads(text) for target in group["targets"]]
    except (ValueError, KeyError, TypeError):
        raise GossamerError(
            f'{file} is no list of targets: expected [{{"targets": ["a.example.org:9400"]}}], as Prometheus reads it.'
        ) from None


def _as_text(target: Any) -> str:
    if not isinstance(target, str):
        raise TypeError(target)
    return target


def fetch(target: Target, seconds: float) -> bytes:
    """The body that an address answers with; Unanswered says why there is none after `seconds` at the latest."""
    until = time.monotonic() + seconds
    request = f"GET {target.path} HTTP/1.0\r\nHost: {target.host}\r\nAccept: text/plain\r\n\r\n".encode()
    try:
        with socket.create_connection((target.host, target.port), seconds) as plain, _secured(plain, target) as link:
            link.settimeout(_left(until))
            link.sendall(request)
            return _body(link, until)
    except TimeoutError:
        raise Unanswered(f"no whole answer within {seconds:g} s") from None
    except ssl.SSLError as error:
        raise Unanswered(
            f"TLS failed: {quoted(getattr(error, 'verify_message', '') or str(error.reason), 100)}"
        ) from None
    except ConnectionRefusedError as error:  # as of a learner that has ended: whoever comes later cannot tell
        raise Unanswered(f"{quoted(str(error.strerror), 100)}, so it is not there, or has ended") from None
    except (OSError, UnicodeError) as error:
        raise Unanswered(quoted(getattr(error, "strerror", None) or str(error), 100)) from None


def _secured(plain: socket.socket, target: Target) -> socket.socket:
    if not target.secure:
        return plain
    return ssl.create_default_context().wrap_socket(plain, server_hostname=target.host)


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _body(link: socket.socket, until: float) -> bytes:
    """Reads until the answer is whole: as long as it says, or to the connection's end."""
    came, start = bytearray(), -1  # where the body begins, once that is known
    length: int | None = None
    while start < 0 or length is None or len(came) - start < length:
        if len(came) > LIMIT:
            raise Unanswered(f"an answer of more than {LIMIT} bytes, which no learner gives")
        link.settimeout(_left(until))
        piece = link.recv(PIECE)
        if not piece:
            break
        searched = max(0, len(came) - 3)
        came += piece
        if start < 0 and (end := came.find(b"\r\n\r\n", searched)) >= 0:
            start, length = end + 4, _announced(bytes(came[:end]))
    if start < 0:
        raise Unanswered("the connection was closed without an answer in HTTP")
    body = bytes(came[start:])
    if length is not None and len(body) < length:
        raise Unanswered("an answer that was cut off")
    return body if length is None else body[:length]


def _announced(head: bytes) -> int | None:
    """How long the body is to be, from the head of an answer; Unanswered where it is no answer to use."""
    status = head.split(b"\r\n", 1)[0]
    if not re.match(rb"HTTP/1\.[01] 200\b", status):
        raise Unanswered(f"the answer {quoted(status.decode('latin-1'), 60)!r} instead of HTTP's 200 OK")
    said = LENGTH.search(head + b"\r\n")
    return int(said[1]) if said else None
