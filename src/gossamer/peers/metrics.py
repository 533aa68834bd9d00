"""/metrics: what a learner tells those who watch it, in Prometheus's text format over plain HTTP.

Nothing derived from records leaves through here unless the owner says so. Rounds, bytes, waiting and ε are functions of
the run and its settings. Errors on own records are not: they are shown only with `show_errors`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from gossamer.errors import GossamerError
from gossamer.peers.node import Node
from gossamer.peers.status import Status
from gossamer.peers.transport import Transport

Samples = Mapping[tuple[tuple[str, str], ...], float]  # {((label, its value), …): number}


class Metric(NamedTuple):
    name: str
    kind: Literal["gauge", "counter"]
    help: str
    samples: Samples


def write_metrics(status: Status, node: Node, transport: Transport) -> str:
    """What a learner shows at this moment."""
    return write_exposition([*_progress(status, node, transport), *_budget(status), *_own_errors(status)])


def _progress(status: Status, node: Node, transport: Transport) -> list[Metric]:
    party = node.party
    refused: Samples = {(("learner", str(j)), ("reason", reason)): n for (j, reason), n in node.refused.items()}
    late = len(status.journal.late())
    return [
        Metric("gossamer_round", "gauge", "Rounds committed.", _one(party.round)),
        Metric("gossamer_steps", "gauge", "Rounds of the run.", _one(party.steps)),
        Metric("gossamer_life", "gauge", "How often this journal was opened.", _one(status.journal.epoch)),
        Metric("gossamer_sent_bytes_total", "counter", "Bytes handed to links.", _one(node.sent)),
        Metric("gossamer_received_bytes_total", "counter", "Bytes that arrived.", _one(node.received)),
        Metric("gossamer_resends_total", "counter", "Times that unused rounds were sent again.", _one(node.resends)),
        Metric("gossamer_waiting_seconds", "gauge", "Seconds since the last round.", _one(round(node.waiting, 3))),
        Metric(
            "gossamer_waits_for", "gauge", "Neighbours that this learner waits for.",
            _by_learner(dict.fromkeys(party.awaited(), 1)),
        ),
        Metric("gossamer_late_rounds_total", "counter", "Rounds that went without a neighbour's message.", _one(late)),
        Metric("gossamer_refused_total", "counter", "Frames that were refused.", refused),
        Metric("gossamer_dials_total", "counter", "Times that a link was dialled.", _by_learner(transport.dials)),
    ]  # fmt: skip


def _budget(status: Status) -> list[Metric]:
    spent = status.budget()
    if spent is None:
        return []
    whole = float(status.plan.config.privacy.epsilon or 0.0)
    return [
        Metric("gossamer_epsilon_spent", "gauge", "Privacy budget spent so far.", _one(spent[0])),
        Metric("gossamer_epsilon_budget", "gauge", "Privacy budget in all.", _one(whole)),
    ]


def _own_errors(status: Status) -> list[Metric]:
    if not status.plan.config.party.show_errors:
        return []
    warning = "On own records, NOT noised: the owner chose to show it."
    labels = {name: name.lower().replace("²", "2").replace(" ", "_") for name in status.errors}
    return [Metric(f"gossamer_own_{labels[name]}", "gauge", warning, _one(v)) for name, v in status.errors.items()]


def _one(value: float) -> Samples:
    return {(): value}


def _by_learner(values: Mapping[int, float]) -> Samples:
    return {(("learner", str(j)),): value for j, value in values.items()}


def write_exposition(metrics: Iterable[Metric]) -> str:
    """Prometheus's text format."""
    lines = []
    for name, kind, help_, samples in metrics:
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
            asked = head.split(b"\r\n")[0].split(b" ")[:2] == [b"GET", b"/metrics"]
            status, body = ("200 OK", self._text()) if asked else ("404 Not Found", "only GET /metrics is here\n")
            kind = "text/plain; version=0.0.4; charset=utf-8" if asked else "text/plain; charset=utf-8"
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
