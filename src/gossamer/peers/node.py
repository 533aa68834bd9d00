"""A party on a transport: says hello, sends what the journal holds, takes what comes, and goes on when all is there."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable

from gossamer.errors import GossamerError
from gossamer.peers import wire
from gossamer.peers.agreement import Shared, decode_settings, encode_settings, tell_differences
from gossamer.peers.doubts import Doubts
from gossamer.peers.logs import log, warn_rarely
from gossamer.peers.membership import Change, History
from gossamer.peers.party import OlderHereError, Party
from gossamer.peers.passing_on import CAPABILITY, PassingOn, Verify
from gossamer.peers.release import OWN_RELEASE, Release
from gossamer.peers.signed import Signed
from gossamer.peers.transport import Arrived, Transport
from gossamer.peers.wire import (
    Ack,
    Assembly,
    Done,
    Frame,
    Header,
    Hello,
    Known,
    Membership,
    Part,
    Refusal,
    RefusedError,
    Settings,
    quoted,
)  # fmt: skip

Hook = Callable[[str], None]
RESEND = 5.0  # seconds without progress, after which what was not acknowledged is sent again
SAY = 2.0  # seconds of waiting, after which the log says for whom, and again whenever the time has doubled
FORGET = 60.0  # seconds after which a stranger that dials no more is no longer spoken of
TELL = 1.0  # seconds, within which a neighbour of another run is told this one's settings once
RELEASES = ("version", "header")  # the reasons of refusals that another release's frames get
ACCEPTS = "accepts"  # the word of a release that acknowledges what it has used as soon as it has taken a hello
PUT_OUT = "put out"  # the reason of a refusal to whom the others go on without
OLD_JOURNAL = "old journal"  # the reason of a refusal that says that this learner's journal is old


def _takes_none(signed: Signed, change: Change, history: History) -> None:
    raise GossamerError("changes of who takes part are not accepted here: nobody has said whose word counts.")


@functools.lru_cache(maxsize=256)
def pack_once(header: Header) -> bytes:
    """A frame without payload: always the same object, so that a transport can tell what waits already."""
    return wire.pack(Frame(header))


class Node:
    """Drives one party. `hook` is called at named moments, where tests end the process.

    `shared` is what `run` is the fingerprint of, for neighbours that have something else. `disbelieved` are those whose
    word is not taken that this learner's journal is old. `verify` refuses documents of membership that do not count
    here.
    """

    def __init__(
        self,
        party: Party,
        transport: Transport,
        run: str,
        epoch: int,
        hook: Hook | None = None,
        patience: float = 10.0,
        shared: Shared | None = None,
        disbelieved: Collection[int] = (),
        verify: Verify | None = None,
    ) -> None:
        self.party, self._transport, self._run, self._epoch = party, transport, run, epoch
        self._hook: Hook = hook or (lambda moment: None)
        self._patience = patience
        self._assemblies: dict[tuple[int, int, str], Assembly] = {}
        self._welcome: set[int] = set()  # neighbours whose last hello was in order
        self._left: set[int] = set()  # neighbours that said that they are done
        self._progress = self._resent = time.monotonic()  # when a round was last taken, and last sent again
        self._say_after = SAY
        self.doubts = Doubts(disbelieved)  # neighbours that say that this learner's journal is old
        self._shared: Shared = shared or {}
        self._settings = wire.pack(Frame(Settings(), encode_settings(self._shared)))
        self._told: dict[int, float] = {}  # when this learner's settings were last sent to a neighbour of another run
        self._strangers: dict[int, float] = {}  # when a learner that is not heard here has last dialled
        self.releases: dict[int, Release] = {}  # what neighbours have last said that they run
        self.membership = PassingOn(party, verify or _takes_none, self.releases)
        self.apart: dict[int, str] = {}  # why links do not open that two ends see otherwise
        self.differences: dict[int, str] = {}  # what keeps a neighbour, or who would be one, from this run
        self.told_out: set[int] = set()  # neighbours that say that this learner was put out
        self.refused: Counter[tuple[int, str]] = Counter()  # by sender and reason
        self.sent = self.received = self.resends = 0  # bytes, bytes, times

    @property
    def done(self) -> bool:
        """No round left, and all that was sent was used."""
        return self.party.finished and self.party.delivered

    @property
    def over(self) -> bool:
        """Nobody needs this learner any more."""
        return self.done and self._left >= self.party.places.heard_in(self.party.last - 1)

    @property
    def waiting(self) -> float:
        """Seconds since anything moved."""
        return time.monotonic() - self._progress

    @property
    def waits_for(self) -> list[int]:
        """Who keeps this learner from going on."""
        return self.doubts.halting or self.party.awaited()

    @property
    def hello(self) -> bytes:
        """What either side says first on a link."""
        party = self.party
        return pack_once(Hello(self._run, party.i, self._epoch, party.round, party.size, party.dtype))

    def greet(self) -> None:
        """Say hello to every neighbour, and send again what it may not have used."""
        for j in self.party.tells:
            self._send(j, self.hello)
        for j in self.party.hears:
            self._reply(j, self.hello)
        self.resend()

    def resend(self, since: int = 0) -> None:
        """Send all that some listener may not have used, from round `since` on: the same bytes as ever."""
        for j in self.party.tells:
            if j in self._welcome:
                self.send_all(j, since)
        self._hook("sent")

    def send_all(self, to: int, since: int = 0) -> None:
        """Send all that one listener may not have used, from round `since` on, once it knows of all changes; while
        somebody says that the journal is old, nothing."""
        if self.doubts.halting:
            return
        if not self.membership.knows(to):
            if self.membership.can_read(to):
                for frame in self.membership.wanting(to):
                    self._send(to, frame)
            return
        for frame in self.party.outgoing(to, since):
            self._send(to, frame)
        if self.done:
            self._send(to, pack_once(Done()))

    def _send(self, to: int, data: bytes) -> None:
        self.sent += len(data)
        self._transport.send(to, data)

    def _reply(self, to: int, data: bytes) -> None:
        self.sent += len(data)
        self._transport.reply(to, data)

    def take(self, arrived: Arrived) -> RefusedError | None:
        """Use what arrived, and go on as far as that allows; the last refusal, or None where nothing was refused."""
        self.received += len(arrived.data)
        refusal = None
        for data in wire.split_frames(arrived.data):
            try:
                self._take(arrived, wire.unpack(data, arrived.intact))
            except RefusedError as refused:
                refusal, why = refused, str(refused)
                here, sender = self.party.i, arrived.sender
                if refused.reason in RELEASES:
                    why = f"learner {sender}{self._of_release(sender)} sent {refused}"
                    if sender not in self._welcome:
                        self.differences[sender] = why
                edge = f"{here} → {sender}" if arrived.answer else f"{sender} → {here}"
                about = {"edge": edge, "reason": refused.reason, "why": why}
                warn_rarely(self.refused, (sender, refused.reason), "refused", about)
        self.go_on()
        return refusal

    def go_on(self) -> None:
        """Take as many rounds as can be taken with what is there."""
        party = self.party
        while party.ready and not self.doubts.halting:
            used = party.advance()
            self._progress, self._say_after = time.monotonic(), SAY
            if party.without:
                log.warning("late", extra={"round": used, "without": party.without})
            self._hook("committed")
            self._assemblies = {key: one for key, one in self._assemblies.items() if key[1] >= party.round}
            self.resend(since=party.round)
            turns = [change for t in (used, party.round) if (change := party.history.taken_in(t)) is not None]
            if (used + 1) % max(1, party.window // 2) == 0 or party.finished or turns:
                for j in self._welcome & set(party.places.heard_in(used)):
                    self._reply(j, pack_once(Ack(used)))
            for change in turns:
                if change.at == party.round:
                    self._log_taken(change)
                    for j in filter(party.lets_go, sorted(change.leaves)):  # it has said so before
                        self._send(j, pack_once(Done()))

    def tick(self) -> None:
        """From time to time: records may have come, somebody may have been waited for long enough."""
        self.go_on()
        now, waiting = time.monotonic(), self.waiting
        for j in [j for j, when in self._strangers.items() if now - when > FORGET]:
            del self._strangers[j]
            self.differences.pop(j, None)
        if self.done or waiting < min(SAY, self._patience):
            return
        awaited = self.waits_for
        if waiting >= self._patience:
            for j in self.party.awaited():
                self.party.excuse(j)
            self.go_on()
        if waiting >= self._say_after:
            self._say_after *= 2
            whom = awaited or ("records" if self.party.starved else [])
            log.warning("waiting", extra={"round": self.party.round, "seconds": round(waiting, 1), "for": whom})
        if now - self._resent >= RESEND and not self.party.delivered:
            self._resent, self.resends = now, self.resends + 1
            self.greet()

    def _take(self, arrived: Arrived, frame: Frame) -> None:
        header, sender = frame.header, arrived.sender
        if isinstance(header, Hello):
            self._hello(sender, header, arrived.answer)
        elif isinstance(header, Refusal):
            if header.reason == OLD_JOURNAL and sender in [*self.party.hears, *self.party.tells]:
                why = f"learner {sender} refuses this one, and says that its journal is older than what it has sent"
                self._hold(sender, lambda: self.doubts.refusal_claims(sender, why))
            if header.reason in (PUT_OUT, CAPABILITY):  # its owner has to see it
                self.differences[sender] = f"learner {sender} says: {quoted(header.sentence)}"
                self.told_out |= {sender} if header.reason == PUT_OUT else set()
            raise RefusedError("refused", f"learner {sender} refuses this one: {quoted(header.sentence)}")
        elif isinstance(header, Settings):
            self._compare(sender, frame.payload)
        elif sender not in self._welcome:
            raise RefusedError("hello", f"learner {sender} has not said hello, or was refused: nothing of it is used.")
        elif isinstance(header, Part):
            self._part(sender, header, frame.payload)
        elif isinstance(header, Membership):
            self._offered(sender, header.version, frame.payload)
        elif isinstance(header, Known):
            self._knows(sender, header)
        elif isinstance(header, Ack):
            before = self.done
            self.party.knows_us(sender)
            self.party.acknowledged(sender, header.round)
            if self.done and not before:
                for j in self._not_held(self.party.tells):
                    self._send(j, pack_once(Done()))
            elif self.party.lets_go(sender):  # it leaves, and need not stay for this learner's sake
                self._send(sender, pack_once(Done()))
        elif isinstance(header, Done):
            self._left.add(sender)

    def _hello(self, sender: int, hello: Hello, answer: bool) -> None:
        party = self.party
        if answer and sender in party.hears and sender not in party.tells:  # on a link that there is not, or not yet
            raise RefusedError("stranger", f"learner {sender} does not hear this one.")
        self._welcome.discard(sender)
        if hello.sender != sender:
            raise RefusedError("forged", f"learner {sender} says that it is learner {hello.sender}.")
        say = self._send if answer else self._reply
        if sender not in party.hears and sender not in party.tells:
            if out := self._put_out(sender):
                say(sender, wire.pack(Frame(Refusal(PUT_OUT, out))))
                raise RefusedError(PUT_OUT, out)
            raise RefusedError("stranger", f"learner {sender} is no neighbour.")
        if (hello.run, hello.size, hello.dtype) != (self._run, party.size, party.dtype):
            self._tell_settings(sender, say)
            raise RefusedError("run", self._unlike(sender, hello))
        life = party.heard.get(sender, (0, -1))[0]
        try:
            party.met(sender, hello.epoch, hello.round, answer)
        except RefusedError as refused:
            if isinstance(refused, OlderHereError):
                why = str(refused)
                self._hold(sender, lambda: self.doubts.hello_claims(sender, why))
            say(sender, wire.pack(Frame(Refusal(refused.reason, str(refused)))))
            raise
        if hello.epoch > life:
            self.membership.begins_anew(sender)
        self.doubts.hello_in_order(sender)
        if sender in self.doubts.held:
            raise RefusedError("held", self.doubts.held[sender])
        self._welcome.add(sender)
        self._left.discard(sender)
        self.differences.pop(sender, None)
        self.told_out.discard(sender)
        if ACCEPTS not in self.releases.get(sender, Release()).capabilities:
            party.knows_us(sender)  # nothing will say so
        if answer:  # a listener that has just come, or come back
            self._send(sender, self.hello)
            self.send_all(sender)
        else:  # whoever sends has to know that its hello was taken
            self._reply(sender, pack_once(Ack(party.places.used_of(sender, party.round))))

    # -- who takes part -------------------------------------------------------------------------------------------

    def accept(self, signed: Signed) -> Change | None:
        """Take a document of membership from a file; None where it is here already."""
        change = self.membership.take(signed)
        if change is not None:
            self._accepted(change, None)
        return change

    def _offered(self, sender: int, version: int, payload: bytes | memoryview) -> None:
        """A neighbour brings a document, and hears which is the newest here."""
        if sender not in self.party.hears:
            raise RefusedError("stranger", f"learner {sender} is not heard here.")
        try:
            change = self.membership.receive(sender, version, payload)
        except RefusedError as refused:
            self.differences[sender] = str(refused)
            self._reply(sender, wire.pack(Frame(Refusal(CAPABILITY, quoted(str(refused))))))
            raise
        if change is not None:
            self._accepted(change, sender)
        self._reply(sender, self.membership.said())

    def _knows(self, sender: int, known: Known) -> None:
        before = self.membership.knows(sender)
        try:
            self.membership.heard(sender, known)
        except RefusedError as refused:
            self.differences[sender] = str(refused)
            raise
        if self.membership.knows(sender) and not before and sender in self.party.tells:
            self.send_all(sender)

    def _accepted(self, change: Change, sender: int | None) -> None:
        whence = "a file" if sender is None else f"learner {sender}"
        about = {"change": change.version, "round": change.at, "from": whence, "members": list(change.members)}
        log.info("change accepted", extra=about)
        self._hook("accepted")
        for j in self.party.tells:
            self.send_all(j)
        self.go_on()

    def _log_taken(self, change: Change) -> None:
        log.info("change taken", extra={"change": change.version, "round": change.at, "members": list(change.members)})
        for event, who in (("left", change.leaves), ("joined", change.joins), ("put out", change.lost)):
            for i in sorted(who):
                log.info(event, extra={"learner": i, "round": change.at})

    # -- whom it does not go together with ------------------------------------------------------------------------

    def _hold(self, sender: int, claim: Callable[[], None]) -> None:
        """Use nothing more of a neighbour that says that this journal is old, and tell the owner."""
        self._welcome.discard(sender)
        claim()
        about = {"neighbour": sender, "halted": bool(self.doubts.halting), "why": self.doubts.held[sender]}
        warn_rarely(self.refused, (sender, "held"), "held", about)

    def _not_held(self, neighbours: Iterable[int]) -> list[int]:
        held = self.doubts.held
        return [j for j in neighbours if j not in held]

    def _put_out(self, sender: int) -> str:
        """In a sentence, since when a learner is one no more; empty where it was not put out."""
        out = next((change for change in self.party.history.changes if sender in change.lost), None)
        if out is None:
            return ""
        return (
            f"learner {sender} was put out by {out.named}, of round {out.at}, and the others go on without it: let it "
            "end; its records may join again as a new party's."
        )

    def met_release(self, j: int, release: Release) -> None:
        """A neighbour has said what it runs, as it does on every link that opens."""
        self.releases[j] = release

    def met_apart(self, j: int, why: str) -> None:
        """Whether this learner and a neighbour agree on who opens their links; empty where they do."""
        if why and self.apart.get(j) != why:
            warn_rarely(self.refused, (j, "dial"), "links differ", {"with": j, "why": why})
        self.apart[j] = why

    def _of_release(self, j: int) -> str:
        """Both releases, for a sentence about a neighbour that may have another one."""
        theirs = self.releases.get(j)  # a transport need not know it
        if theirs is None or theirs.version == OWN_RELEASE.version:
            return ""
        return f" ({theirs.named}; here {OWN_RELEASE.named})"

    def answer_stranger(self, sender: int, sends: bool = False) -> list[bytes]:
        """What a learner of the run is told that dials this one for a link that is not here: its graph must be another.

        One that was put out is told that alone. A hello would be of a round that the others reached without it, and
        say to it that its journal is old. `sends`: for a link on which this learner would send.
        """
        if out := self._put_out(sender):
            return [wire.pack(Frame(Refusal(PUT_OUT, out)))]
        history = self.party.history
        taken = history.changes[: history.version_at(self.party.round)]
        if gone := next((one for one in taken if sender in one.leaves), None):
            why = f"learner {sender} has left with {gone.named}, of round {gone.at}: nobody hears it any more."
            return [self.hello, wire.pack(Frame(Refusal("stranger", why)))]
        here = self.party.i
        edge = f"{here} → {sender}" if sends else f"{sender} → {here}"
        sentence = (
            f"learner {sender} {'hears' if sends else 'sends to'} learner {here}, which has no link {edge} in its "
            "[run] graph or does not use it in its [run] method: let both have the same graph file and party.toml, and "
            "start again."
        )
        self._strangers[sender] = time.monotonic()
        self.differences.setdefault(sender, sentence)
        return [self.hello, self._settings, wire.pack(Frame(Refusal("stranger", sentence)))]

    def _tell_settings(self, sender: int, say: Callable[[int, bytes], None]) -> None:
        """Answer a hello of another run with what this one is, but not every time: the answer is longer."""
        now = time.monotonic()
        if now - self._told.get(sender, -TELL) >= TELL:
            self._told[sender] = now
            say(sender, self._settings)

    def _unlike(self, sender: int, hello: Hello) -> str:
        """What is known of a neighbour in another run: what differs, once it has told its settings."""
        releases = self._of_release(sender)
        who, same_release = f"learner {sender}{releases}", " and release" if releases else ""
        theirs = f"run {quoted(hello.run, 60)!r} with {hello.size} {hello.dtype}"
        own = f"{self._run!r} with {self.party.size} {self.party.dtype}"
        sentence = (
            f"{who} is in {theirs}, expected {own}, as learner {self.party.i} has it: let both have the same [run], "
            f"[model], [records], [secrets] and graph{same_release}; what differs is said as soon as both have told."
        )
        return self.differences.setdefault(sender, sentence)

    def _compare(self, sender: int, payload: bytes | memoryview) -> None:
        """Say what differs from the settings of one that is not welcome."""
        if sender in self._welcome:
            raise RefusedError("settings", f"learner {sender} sent settings that nobody asked for.")
        why = tell_differences(self._shared, decode_settings(payload), self.party.i, sender)
        self.differences[sender] = why
        warn_rarely(self.refused, (sender, "settings"), "settings differ", {"with": sender, "why": why})

    def _part(self, sender: int, part: Part, payload: bytes | memoryview) -> None:
        party = self.party
        if sender not in party.hears:
            raise RefusedError("stranger", f"learner {sender} is not heard here.")
        if part.round < party.round:
            used = party.places.used_of(sender, party.round)  # the ack was lost, or is to come
            self._reply(sender, pack_once(Ack(used)))
            return
        key, length = (sender, part.round, part.channel), party.length(sender, part.round, part.channel)
        if part.parts == wire.count_parts(length, party.dtype) == 1 and part.part == 0:
            party.receive(sender, part.round, part.channel, payload)  # whole as it came: nothing is copied
            return
        if part.part == 0:
            self._assemblies[key] = Assembly(length, party.dtype)
        elif key not in self._assemblies:
            raise RefusedError(
                "parts", f"learner {sender} sent part {part.part} of a vector whose first part is missing."
            )
        whole = self._assemblies[key].add(part, payload)
        if whole is not None:
            del self._assemblies[key]
            party.receive(sender, part.round, part.channel, *whole)
