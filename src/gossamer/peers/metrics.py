"""/metrics: what a learner tells those who watch it, in Prometheus's text format over plain HTTP.

Nothing derived from records leaves through here unless the owner says so. Rounds, bytes, waiting and ε are functions of
the run and its settings. Errors on own records are not: they are shown only with `show_errors`.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Callable, Iterator

from gossamer.errors import GossamerError
from gossamer.peers.addresses import host_and_port
from gossamer.peers.exposition import Labels, Metric
from gossamer.peers.node import Node
from gossamer.peers.passing import TryLater
from gossamer.peers.status import Status
from gossamer.peers.transport import Transport
from gossamer.version import __version__

CONNECTIONS, SECONDS = 16, 5.0  # that are open at once; that one may take


def write_metrics(status: Status, node: Node, transport: Transport) -> str:
    """What a learner shows at this moment."""
    party, plan = node.party, status.plan
    awaited: dict[Labels, float] = {(("learner", str(j)),): 1 for j in node.waits_for}
    refused: dict[Labels, float] = {
        (("learner", str(j)), ("reason", reason)): times for (j, reason), times in node.refused.items()
    }
    held: dict[Labels, float] = {(("learner", str(j)),): 1 for j in node.doubts.held}
    dials: dict[Labels, float] = {(("learner", str(j)),): times for j, times in transport.dials.items()}
    who = (("learner", str(plan.learner)), ("run", plan.run_name), ("version", __version__))
    shown = [
        Metric("gossamer_info", "Which learner this is, of which run, with which release.", {who: 1}),
        Metric("gossamer_state", "What it is at, as in status.json.", {(("state", status.state),): 1}),
        Metric("gossamer_round", "Rounds committed.", party.round),
        Metric("gossamer_steps", "Rounds of the run.", party.steps),
        Metric("gossamer_life", "How often this journal was opened.", status.journal.epoch),
        Metric("gossamer_sent_bytes_total", "Bytes handed to links.", node.sent),
        Metric("gossamer_received_bytes_total", "Bytes that arrived.", node.received),
        Metric("gossamer_resends_total", "Times that unused rounds were sent again.", node.resends),
        Metric("gossamer_waiting_seconds", "Seconds since the last round.", round(node.waiting, 3)),
        Metric("gossamer_waits_for", "Neighbours that this learner waits for.", awaited),
        Metric(
            "gossamer_late_rounds_total", "Rounds that went without a neighbour's message.", len(status.journal.late())
        ),
        Metric("gossamer_refused_total", "Frames that were refused.", refused),
        Metric("gossamer_held", "Neighbours that say that this journal is old.", held),
        Metric("gossamer_status_not_written_total", "Times that status.json was not replaced.", status.unwritten),
        Metric("gossamer_dials_total", "Times that a link was dialled.", dials),
        Metric("gossamer_certificate_days_left", "Until its certificate ends.", status.credentials.days_left),
        Metric("gossamer_disk_free_bytes", "Room on the journal's disk.", _room(status)),
    ]
    shown += [*_of_budget(status), *_own(status)]
    return "\n".join(line for metric in shown for line in metric.lines()) + "\n"


def _of_budget(status: Status) -> Iterator[Metric]:
    """Where there is one."""
    spent = status.budget()
    if spent is None:
        return
    whole, whom = float(status.plan.config.privacy.epsilon or 0.0), f"{status.against}."
    yield Metric("gossamer_epsilon_spent", f"Privacy budget spent so far, {whom}", spent[0])
    yield Metric("gossamer_epsilon_budget", f"Privacy budget in all, {whom}", whole)
    lasts = "Rounds that the budget lasts: from then on nothing new is sent."
    yield Metric("gossamer_epsilon_rounds", lasts, float(status.paid_rounds or 0))
    if len(spent) > 2:
        yield Metric("gossamer_epsilon_if_all_collude", "Spent so far if all others collude.", spent[2])


def _own(status: Status) -> Iterator[Metric]:
    """What is computed from records, where the owner says so."""
    if status.plan.config.party.show_errors:
        warning = "On own records, NOT noised: the owner chose to show it."
        for name, error in status.errors.items():
            yield Metric(f"gossamer_own_{name.lower().replace('²', '2').replace(' ', '_')}", warning, error)


def _room(status: Status) -> int:
    """Bytes that may still be written beside the journal; a learner that cannot write one ends."""
    plan = status.plan
    return shutil.disk_usage((plan.folder / plan.config.party.journal).parent).free


class Endpoint:
    """GET /metrics over plain HTTP, one answer a connection; meant for localhost.

    A few connections at a time, and each for seconds: every one takes a descriptor, whether it asks or not.
    """

    def __init__(self, address: str, text: Callable[[], str]) -> None:
        (self._host, self._port), self._text = host_and_port(address), text
        self._server: asyncio.Server | None = None
        self.open = 0  # connections

    async def start(self) -> None:
        try:
            self._server = await asyncio.start_server(
                self._answer, self._host, self._port, limit=8192, backlog=CONNECTIONS
            )
        except OSError as error:
            where = f"[party] metrics = {self._host}:{self._port} cannot be listened on ({error.strerror or error})"
            if isinstance(error, socket.gaierror):  # names come back when the network does
                raise TryLater(f"{where}: start again when the name is known, or choose another.") from None
            raise GossamerError(f"{where}: choose another.") from None

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.open >= CONNECTIONS:
            writer.transport.abort()
            return
        self.open += 1
        try:
            async with asyncio.timeout(SECONDS):
                writer.write(self._say(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, GossamerError):
            writer.transport.abort()  # whoever reads nothing is not waited for either
        finally:
            self.open -= 1

    def _say(self, request: bytes) -> bytes:
        asked = request.split(b"\r\n")[0].split(b" ")[:2] == [b"GET", b"/metrics"]
        status, body = ("200 OK", self._text()) if asked else ("404 Not Found", "only GET /metrics is here\n")
        kind = "text/plain; version=0.0.4; charset=utf-8" if asked else "text/plain; charset=utf-8"
        data = body.encode()
        head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(data)}", "Connection: close"]
        return "\r\n".join([*head, "", ""]).encode() + data
