"""A learner's process: from a configuration to a party on its links, until its rounds are done or it is told to stop.

However it ends, starting it again with the same configuration goes on with the same bytes. After its last round it
stays until every neighbour that sends to it is done as well, or for a while: whoever missed its last acknowledgement
would otherwise wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import signal
import sys
import time
from typing import Any

import numpy as np

from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.models import Objective
from gossamer.peers.boundary import boundary_of
from gossamer.peers.certificates import Identities, Pair, check_pair
from gossamer.peers.config import Plan
from gossamer.peers.feed import Records, Spool
from gossamer.peers.journal import Journal
from gossamer.peers.links import Links
from gossamer.peers.node import Hook, Node
from gossamer.peers.observe import Endpoint, exposition, log_to, stop_logging
from gossamer.peers.party import Party, rounds_kept
from gossamer.privacy import PrivateBoundary
from gossamer.records import Population

TICK, STATUS, LINGER = 0.2, 1.0, 30.0  # seconds
SAMPLE = 2000  # own records on which the owner sees errors
log = logging.getLogger("gossamer.peers")


class Learner:
    """All parts of one learner, put together from its configuration."""

    def __init__(self, plan: Plan, hook: Hook | None = None) -> None:
        self.plan, self._hook = plan, hook
        self._spool: Spool | None = None
        self._said_end = False
        run, party = plan.config.run, plan.config.party
        self.model, self.algorithm = plan.model(), plan.algorithm()
        self.size = self.model.theta_size(plan.schema.columns)
        self.own = Pair(_read(plan, party.key), _read(plan, party.certificate))
        check_pair(self.own)
        self.boundary = boundary_of(plan, self.algorithm, self.model, self.size)
        self.identities = self._identities()
        kept = rounds_kept(self.size, run.numbers, run.lateness)
        self.journal = Journal(
            plan.path(party.journal), plan.run_name, plan.learner, plan.own_settings, party.durability, kept
        )
        try:  # only now: a second process must not touch the records of the first
            self.feed = self._records()
            self._check_rounds()
        except GossamerError:
            self.journal.close()
            raise
        self.links: Links | None = None
        self._spent: tuple[int, tuple[float, float] | None] = (-1, None)
        self._errors: dict[str, float] = {}
        self.state = "starting"

    def _records(self) -> Records:
        data, schema, per_round = self.plan.config.data, self.plan.schema, self.plan.config.run.per_round
        if data.path != "-":
            return Records(self.plan.path(data.path), data.format, schema, per_round, data.follow)
        if data.format == "parquet":
            raise GossamerError("[data] path = '-' with format = 'parquet': standard input brings CSV or JSONL.")
        spool = self.plan.path(f"records.{data.format}")
        self._spool = Spool(sys.stdin.buffer, spool, data.format, self.plan.config.party.durability == "power")
        return Records(spool, data.format, schema, per_round, follow=True)

    def _check_rounds(self) -> None:
        """Refuse records that do not last."""
        run, rounds = self.plan.config.run, self.feed.rounds
        if rounds is None or rounds >= run.steps:
            return
        few = f"learner {self.plan.learner} has {len(self.feed)} records for {run.steps} rounds of {run.per_round}"
        if isinstance(self.boundary, PrivateBoundary):
            # The recursion counts (t+1) N records in round t; with fewer, one record would weigh more than it says.
            raise GossamerError(
                f"{few}, and privacy is proved for a full round every time: bring more, or follow a file that grows."
            )
        if run.gradient == "latest":
            raise GossamerError(
                f"{few}, and gradient = 'latest' needs new ones in each: bring more, follow a file that grows, or use "
                "history."
            )

    def _identities(self) -> Identities:
        pinned = {
            int(j): _read(self.plan, neighbour.certificate)
            for j, neighbour in self.plan.config.neighbours.items()
            if neighbour.certificate is not None
        }
        return Identities(_read(self.plan, self.plan.config.party.authority), pinned)

    async def run(self) -> int:
        """Until all is done; the exit code."""
        plan, party_plan = self.plan, self.plan.config.party
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        if not await self._first_records(stop):
            return 0
        self.party = self._party()
        self.plan.path("outcome.npz").unlink(missing_ok=True)  # of an earlier end: this one is not over
        addresses = self._addresses()
        self.links = Links(
            plan.learner, party_plan.listen, addresses, self.party.hears, self.own, self.identities,
            take=lambda arrived: self.node.take(arrived),
            hello=lambda: self.node.hello,
        )  # fmt: skip
        self.node = Node(
            self.party, self.links, plan.run_name, self.journal.epoch, self._hook, patience=party_plan.patience
        )
        endpoint = Endpoint(party_plan.metrics, self.metrics) if party_plan.metrics else None
        if endpoint is not None:
            await endpoint.start()
        try:
            await self.links.start()
        except RuntimeError:
            await self.links.close()
            raise GossamerError(
                f"[party] listen = {party_plan.listen!r} cannot be listened on: it is in use, or not of this machine; "
                "end who uses it, or choose another and tell the neighbours."
            ) from None
        log.info("started", extra={"learner": plan.learner, "life": self.journal.epoch, "round": self.party.round})
        self.links.dial()
        try:
            await self._until_over(stop)
        finally:
            await self.links.close()
            if endpoint is not None:
                await endpoint.close()
        self._outcome()
        self._status("done" if self.node.done else "stopped")
        log.info("ended", extra={"learner": plan.learner, "round": self.party.round, "state": self.state})
        return 0

    async def _first_records(self, stop: asyncio.Event) -> bool:
        """Wait for the first round's records; False where the learner was told to stop."""
        while not self.feed.here(0) and not stop.is_set():
            if self._spool is not None:
                self._spool.check()
            self._status("waiting for records")
            await _sleep(stop, TICK)
        return not stop.is_set()

    def _party(self) -> Party:
        run = self.plan.config.run
        room = np.array([run.steps * run.per_round if run.gradient == "history" else run.per_round])
        return Party(
            self.plan.learner,
            self.algorithm,
            self.plan.network,
            self.feed,
            self.model.memory(self.plan.schema.table(), run.gradient, room),
            self.boundary,
            self.journal,
            size=self.size,
            steps=run.steps,
            ridge=self.model.l2,
            dtype=run.numbers,
            late=self.plan.config.party.late,
            lateness=run.lateness,
        )

    def _addresses(self) -> dict[int, str]:
        known = {int(j): neighbour.address for j, neighbour in self.plan.config.neighbours.items()}
        found = {}
        for j in self.party.tells:
            address = known.get(j)
            if not address:
                raise GossamerError(f"learner {j} hears this one, and [neighbours.{j}] has no address: give one.")
            found[j] = address
        return found

    async def _until_over(self, stop: asyncio.Event) -> None:
        assert self.links is not None
        failed = asyncio.ensure_future(self.links.failed())
        told, since = 0.0, None
        try:
            while not stop.is_set() and not self.node.over:
                if self._spool is not None:
                    self._spool.check()
                    if self._spool.ended and not self._said_end:
                        self._said_end = True
                        log.warning("standard input has ended", extra={"records": len(self.feed)})
                self.node.tick()
                if time.monotonic() - told >= STATUS:
                    told = time.monotonic()
                    self._status()
                if self.node.done:
                    since = since or time.monotonic()
                    if time.monotonic() - since > LINGER:
                        break
                if failed.done():
                    failed.result()
                await _sleep(stop, TICK)
            await asyncio.sleep(TICK)  # the last frames leave
        finally:
            failed.cancel()

    def budget(self) -> tuple[float, float] | None:
        """ε so far and for ever, worked out once a round."""
        round_ = getattr(self, "party", None) and self.party.round
        if isinstance(self.boundary, PrivateBoundary) and (round_ is None or self._spent[0] != round_):
            found = self.boundary.budget()
            self._spent = (-1 if round_ is None else round_, (float(found[0, 0]), float(found[0, 1])))
        return self._spent[1]

    def _status(self, state: str | None = None) -> None:
        """For the owner: where the learner is, and how well it does on its own records."""
        node: Node | None = getattr(self, "node", None)
        said: dict[str, Any] = {
            "learner": self.plan.learner, "pid": os.getpid(), "life": self.journal.epoch,
            "steps": self.plan.config.run.steps, "updated": time.time(), "records": len(self.feed),
            "claim": self.boundary.claim, "epsilon": self.budget(), "budget": self.plan.config.privacy.epsilon,
        }  # fmt: skip
        if node is not None:
            waiting = [] if node.done or node.waiting < STATUS else self.party.awaited()
            starved = "waiting for records" if self.party.starved else "running"
            self.state = state or ("delivering" if self.party.finished else "waiting" if waiting else starved)
            waiting = [] if state else waiting
            self._errors = self.errors()
            said |= {
                "round": self.party.round, "waits_for": waiting, "waits": round(node.waiting, 1),
                "sent": node.sent, "received": node.received, "late": len(self.journal.late()),
                "refused": {f"{j} {reason}": n for (j, reason), n in node.refused.items()}, "errors": self._errors,
            }  # fmt: skip
        else:
            self.state = state or self.state
        replace_file(self.plan.path("status.json"), (json.dumps(said | {"state": self.state}) + "\n").encode())

    def errors(self) -> dict[str, float]:
        """Loss and score on some of the own records: for the owner alone."""
        X, y = self.feed.newest(SAMPLE)
        if not len(y):
            return {}
        people = Population(self.plan.schema.table(X, y), np.full(len(y), 1 / len(y)))
        values, quality = Objective(self.model, people).evaluate(self.party.state.theta)
        return {"loss": float(values[0]), self.model.score: float(quality[0])}

    def metrics(self) -> str:
        node, party, none = self.node, self.party, ()
        spent = self.budget()
        values: dict[str, Any] = {
            "gossamer_round": ("gauge", "Rounds committed.", {none: party.round}),
            "gossamer_steps": ("gauge", "Rounds of the run.", {none: party.steps}),
            "gossamer_life": ("gauge", "How often this journal was opened.", {none: self.journal.epoch}),
            "gossamer_sent_bytes_total": ("counter", "Bytes handed to links.", {none: node.sent}),
            "gossamer_received_bytes_total": ("counter", "Bytes that arrived.", {none: node.received}),
            "gossamer_resends_total": ("counter", "Times that unused rounds were sent again.", {none: node.resends}),
            "gossamer_waiting_seconds": ("gauge", "Seconds since the last round.", {none: round(node.waiting, 3)}),
            "gossamer_waits_for": (
                "gauge", "Neighbours that this learner waits for.",
                {(("learner", str(j)),): 1 for j in party.awaited()},
            ),
            "gossamer_late_rounds_total": (
                "counter", "Rounds that went without a neighbour's message.", {none: len(self.journal.late())},
            ),
            "gossamer_refused_total": (
                "counter", "Frames that were refused.",
                {(("learner", str(j)), ("reason", reason)): n for (j, reason), n in node.refused.items()},
            ),
            "gossamer_dials_total": (
                "counter", "Times that a link was dialled.",
                {(("learner", str(j)),): n for j, n in (self.links.dials if self.links else {}).items()},
            ),
        }  # fmt: skip
        if spent is not None:
            values["gossamer_epsilon_spent"] = ("gauge", "Privacy budget spent so far.", {none: spent[0]})
            whole = float(self.plan.config.privacy.epsilon or 0.0)
            values["gossamer_epsilon_budget"] = ("gauge", "Privacy budget in all.", {none: whole})
        if self.plan.config.party.show_errors:
            for name, value in self._errors.items():
                label = "gossamer_own_" + name.lower().replace("²", "2").replace(" ", "_")
                values[label] = ("gauge", "On own records, NOT noised: the owner chose to show it.", {none: value})
        return exposition(values)

    def _outcome(self) -> None:
        """What may be handed on: the model, or where only messages are private the last message that carried it."""
        theta, what = self.party.state.theta, "the learner's own parameters"
        if isinstance(self.boundary, PrivateBoundary) and self.boundary.mechanism.where == "messages":
            sent = self.party.last_sent()
            if "theta" not in sent:
                return
            theta, what = sent["theta"], "the parameters as last sent, with their noise: only messages are private"
        about = {
            "learner": self.plan.learner, "round": self.party.round, "run": self.plan.run_name, "theta": what,
            "claim": self.boundary.claim, "epsilon": self.budget(), "late": self.journal.late(),
        }  # fmt: skip
        buffer = io.BytesIO()
        np.savez(buffer, theta=theta, about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8))
        replace_file(self.plan.path("outcome.npz"), buffer.getvalue())
        own = io.BytesIO()
        np.save(own, self.party.state.theta)
        replace_file(self.plan.path("own-model.npy"), own.getvalue())


def run_learner(plan: Plan, hook: Hook | None = None, quiet: bool = False) -> int:
    """Run one learner to its end; the exit code. Errors of the user's are raised, and are in its log and status."""
    os.umask(0o077)  # what a learner writes is its owner's
    log_to(plan.path("log.jsonl"), quiet)
    try:
        learner = Learner(plan, hook)
        try:
            return asyncio.run(learner.run())
        finally:
            learner.journal.close()
    except Exception as error:
        log.error("failed", extra={"why": str(error)}, exc_info=not isinstance(error, GossamerError))
        with contextlib.suppress(GossamerError):
            said: dict[str, Any] = {"learner": plan.learner, "pid": os.getpid(), "state": "failed", "why": str(error)}
            replace_file(plan.path("status.json"), (json.dumps(said | {"updated": time.time()}) + "\n").encode())
        raise
    finally:
        stop_logging()


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


def _read(plan: Plan, name: str) -> bytes:
    try:
        return plan.path(name).read_bytes()
    except OSError as error:
        raise GossamerError(f"{plan.path(name)} cannot be read ({error.strerror}): put it there.") from None
