"""A learner's life: from a configuration to a party on its links, until its rounds are done or it is told to stop.

However it ends, starting it again with the same configuration goes on with the same bytes. After its last round it
stays until every neighbour that sends to it is done as well, or for a while: whoever missed its last acknowledgement
would otherwise wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gossamer.errors import GossamerError
from gossamer.peers.boundary import boundary_of
from gossamer.peers.changes import Inbox, accepted, neighbours_of, verifier
from gossamer.peers.config import Plan
from gossamer.peers.credentials import LOOK, CredentialsWatch
from gossamer.peers.declaration import refuse_open_keys, stated
from gossamer.peers.dials import Addresses, addresses_of
from gossamer.peers.feed import Records, Spool
from gossamer.peers.journal import InUse
from gossamer.peers.logs import log, log_to, stop_logging, warn_rarely
from gossamer.peers.membership import History
from gossamer.peers.memory import keep_large_pages
from gossamer.peers.metrics import Endpoint, write_metrics
from gossamer.peers.node import SAY, Hook, Node
from gossamer.peers.outcome import write_outcome
from gossamer.peers.outcome_file import OUTCOME
from gossamer.peers.pair_keys import PartyPairs, agree_on_keys, partners_keys, take_secret
from gossamer.peers.party import Party
from gossamer.peers.passing import passing_state
from gossamer.peers.starting import check_rounds, memory_of, open_journal, place_of_records, read_records
from gossamer.peers.status import EVERY, RECORDS, Status, write_failure
from gossamer.peers.threads import compute_in_one_thread
from gossamer.peers.transport import ROOM, MakeTransport, Transport, Wiring

TICK, LINGER, LEAVE_AGAIN = 0.2, 30.0, 5.0  # seconds
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # each asks a learner to end in order


Linked = tuple[list[int], list[int]]  # whom a learner reaches, and who reaches it


def connect_links(wiring: Wiring) -> Transport:
    """The usual transport. gRPC is loaded when a learner joins its neighbours, and not while it waits for records."""
    from gossamer.peers.links import Links

    return Links(wiring)


class LearnerProcess:
    """All parts of one learner, put together from its configuration. `connect` decides what carries its frames."""

    def __init__(self, plan: Plan, hook: Hook | None = None, connect: MakeTransport = connect_links) -> None:
        self.plan, self._hook, self._connect = plan, hook, connect
        self._spool: Spool | None = None
        self._said_end = False
        self._left, self._leave_at = False, 0.0  # the outcome: whether it was written, when it is tried again
        self._unwritten = Counter[str]()
        self._check_at = 0.0  # when the file of records is looked at again
        party = plan.config.party
        self.model, self.algorithm = plan.model(), plan.algorithm()
        self.size = self.model.theta_size(plan.schema.columns)
        keep_large_pages(self.size)
        compute_in_one_thread()
        refuse_open_keys(plan)
        self._credentials = CredentialsWatch(plan)
        pairs = PartyPairs(plan.learner) if plan.secrets is not None else None
        self.boundary = boundary_of(plan, self.algorithm, self.model, pairs)
        if pairs is not None:  # before anything is moved
            public = partners_keys(plan, self._credentials.now.identities, plan.read(party.partners))
        self.journal = open_journal(plan, self.boundary)
        try:  # only now: a second process must not touch the secret and the records of the first
            if pairs is not None and not self.journal.delivered:  # after that nothing is drawn
                pairs.open(agree_on_keys(plan, take_secret(plan, self.journal), public))
            self._verify = verifier(plan, lambda: self._credentials.now.identities)
            self.changes = accepted(self.journal, plan, self._verify, self.algorithm)
            self.feed = self._records()
            check_rounds(plan, self.boundary, self.feed)
        except GossamerError:
            self.journal.close()
            raise
        self._inbox = Inbox(plan.folder)
        watch = self._credentials
        self._status = Status(plan, self.model, self.boundary, self.journal, self.feed, watch, self._inbox)

    def _records(self) -> Records:
        data, place = self.plan.config.data, place_of_records(self.plan)
        if data.path == "-":
            self._spool = Spool(sys.stdin.buffer, place, data.format, self.plan.config.party.durability == "power")
        return read_records(self.plan)

    def tell_failure(self, error: Exception) -> None:
        """Leave in the status how the learner has ended."""
        self._status.write_failure(error)

    def close(self) -> None:
        self.journal.close()
        self._status.close()

    async def run(self) -> int:
        """Until all is done; the exit code."""
        stop = asyncio.Event()
        for number in STOPS:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
        if not await self._first_records(stop):
            return 0
        party = self._party()
        if not party.finished:
            (self.plan.folder / OUTCOME).unlink(missing_ok=True)  # of an earlier end: this one is not over
        self._credentials.look()  # it may have waited long for its records
        node, transport = self._join(party)
        self._status.node = node
        metrics, show = self.plan.config.party.metrics, lambda: write_metrics(self._status, node, transport)
        endpoint = Endpoint(metrics, show) if metrics else None
        try:
            if endpoint is not None:
                await endpoint.start()
            await transport.start()
            log.info(
                "started",
                extra={"learner": party.i, "life": self.journal.epoch, "round": party.round}
                | stated(self.plan, self.boundary, party.tells)
                | self._privacy(),
            )
            transport.dial()
            await self._until_over(node, transport, stop)
        finally:
            await transport.close()
            if endpoint is not None:
                await endpoint.close()
        if not self.journal.unused and not self._left:  # of a run that has not begun there is none
            write_outcome(self.plan, party, self.boundary, self._status)
        if node.done:
            self.journal.mark_delivered()  # also where all was used before the last round was taken
        if party.put_out:
            log.warning("put out", extra={"learner": party.i, "round": party.round})
        self._status.write("done" if node.done or party.put_out else "stopped")
        about = {"learner": party.i, "round": party.round, "state": self._status.state}
        log.info("ended", extra=about | self._privacy())
        return 0

    def _privacy(self) -> dict[str, Any]:
        """ε so far for the log, and against whom it holds; with pair secrets also if all others collude."""
        spent = self._status.budget()
        if spent is None:
            return {}
        alone = {"epsilon_if_all_collude": spent[2]} if len(spent) > 2 else {}
        return {"epsilon": spent[0], "against": self._status.against} | alone

    async def _first_records(self, stop: asyncio.Event) -> bool:
        """Wait for the first round's records; False where the learner was told to stop."""
        first = History(self.plan.network, self.changes).first_round(self.plan.learner)
        needed, began, say_after = (first + 1) * self.plan.config.run.per_round, time.monotonic(), 0.0
        while not self.feed.here(first) and not stop.is_set():
            if self._spool is not None:
                self._spool.check()
            self._status.write(RECORDS)
            if (waited := time.monotonic() - began) >= say_after:
                say_after = max(2 * say_after, SAY)
                about = {"round": first, "seconds": round(waited, 1), "for": "records"}
                about |= {"here": len(self.feed), "needed": needed, "file": str(self.feed.path)}
                log.warning("waiting", extra=about)
            await _sleep(stop, TICK)
        return not stop.is_set()

    def _party(self) -> Party:
        run, columns = self.plan.config.run, self.plan.schema.columns
        return Party(
            self.plan.learner,
            self.algorithm,
            self.plan.network,
            self.feed,
            memory_of(self.plan, self.model, self.boundary),
            self.boundary,
            self.journal,
            size=self.size,
            steps=run.steps,
            ridge=self.model.ridge(columns),
            dtype=run.numbers,
            late=self.plan.config.party.late,
            lateness=run.lateness,
            changes=self.changes,
        )

    def _join(self, party: Party) -> tuple[Node, Transport]:
        """The party on its transport."""
        plan, (tells, hears) = self.plan, party.links()
        places, listen = self._reached(party, tells, hears), plan.config.party.listen
        wiring = Wiring(
            plan.learner, listen, places.addresses, hears, *self._credentials.now,
            take=lambda arrived: node.take(arrived),
            hello=lambda: node.hello,
            stranger=lambda j, sends: node.answer_stranger(j, sends),
            release=lambda j, release: node.met_release(j, release),
            apart=lambda j, why: node.met_apart(j, why),
            sources=places.sources,
            room=max(ROOM, party.room),
        )  # fmt: skip
        transport = self._connect(wiring)
        node = Node(
            party, transport, plan.run_name, self.journal.epoch, self._hook,
            patience=plan.config.party.patience, shared=plan.shared, verify=self._verify,
            disbelieved=[int(j) for j, neighbour in plan.config.neighbours.items() if not neighbour.believe],
        )  # fmt: skip
        return node, transport

    def _reached(self, party: Party, tells: Sequence[int], hears: Sequence[int]) -> Addresses:
        neighbours = neighbours_of(self.plan, party.history)
        return addresses_of(party.i, self.plan.config.party.listen, neighbours, tells, hears)

    def _look_for_changes(self, node: Node, transport: Transport, linked: Linked) -> Linked:
        """Take what lies in the folder, and have the links that follow; those that there were before, or new ones."""
        self._inbox.look(node.accept)
        now = node.party.links()
        if now != linked:
            try:
                places = self._reached(node.party, *now)
                transport.relink(places.addresses, now[1], places.sources)
            except GossamerError as error:  # a link of a round to come has no address: its owner has time to mend it
                self._inbox.refused["addresses"] = str(error)
                log.warning("change refused", extra={"why": str(error)})
        return now

    async def _until_over(self, node: Node, transport: Transport, stop: asyncio.Event) -> None:
        """Go on, round by round, until nobody needs this learner any more, or it is told to stop."""
        failed = asyncio.ensure_future(transport.failed())
        told, looked, done_since, linked = 0.0, 0.0, None, node.party.links()
        try:
            while not stop.is_set() and not node.over and not node.party.put_out:
                self._check_input()
                node.tick()
                if node.party.finished:
                    self._leave_outcome(node.party)
                if time.monotonic() - told >= EVERY:
                    told = time.monotonic()
                    linked = self._look_for_changes(node, transport, linked)
                    self._status.write()
                if time.monotonic() - looked >= LOOK:
                    looked = time.monotonic()
                    if (found := self._credentials.look()) is not None:
                        transport.renew(*found)
                if node.done:
                    done_since = done_since or time.monotonic()
                    if time.monotonic() - done_since > LINGER:
                        break
                if failed.done():
                    failed.result()
                await _sleep(stop, TICK)
            await asyncio.sleep(TICK)  # the last frames leave
        finally:
            failed.cancel()

    def _leave_outcome(self, party: Party) -> None:
        """Write what the learner has found as soon as its last round is taken: to deliver its messages may take long,
        or for ever, where a listener has gone. What cannot be written is tried again."""
        if self._left or time.monotonic() < self._leave_at:
            return
        try:
            write_outcome(self.plan, party, self.boundary, self._status)
            self._left = True
        except GossamerError as error:
            self._leave_at = time.monotonic() + LEAVE_AGAIN
            warn_rarely(self._unwritten, "outcome", "outcome not written", {"why": str(error)})

    def _check_input(self) -> None:
        """Refuse to go on where records of standard input could not be kept, or a followed file was replaced; say once
        that standard input has ended."""
        if time.monotonic() >= self._check_at:
            self._check_at = time.monotonic() + EVERY
            self.feed.check()
        if self._spool is None:
            return
        self._spool.check()
        if self._spool.ended and not self._said_end:
            self._said_end = True
            log.warning("standard input has ended", extra={"records": len(self.feed)})


def run_learner(
    plan: Plan, hook: Hook | None = None, quiet: bool = False, connect: MakeTransport = connect_links
) -> int:
    """Run one learner to its end; the exit code. Every error is in its log and status, and is raised; where another
    process runs this learner, both are that one's, and it is only raised."""
    umask = os.umask(0o077)  # what a learner writes is its owner's
    log_to(plan.folder / "log.jsonl", quiet)
    learner = None
    try:
        learner = LearnerProcess(plan, hook, connect)
        return asyncio.run(learner.run())
    except InUse:
        raise
    except Exception as error:
        expected = isinstance(error, GossamerError) or passing_state(error) is not None
        log.error(passing_state(error) or "failed", extra={"why": str(error)}, exc_info=not expected)
        if learner is None:
            write_failure(plan, error)
        else:
            learner.tell_failure(error)
        raise
    finally:
        if learner is not None:
            learner.close()
        stop_logging()
        os.umask(umask)


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
