"""One learner and its rounds, without any network: what it sends, what it takes, and when it goes on.

    start    reads the journal, or draws round 0 and commits it
    outgoing what is to be sent now: the bytes in the journal, and no others
    receive  a neighbour's vector of this round or a later one; refused where it is not expected, or other than before
    advance  when all have come: the algorithm's step, the next round's gradient and noise, one commit; then it may be
             sent, and the round that was used may be acknowledged

The algorithm, the model and the privacy boundary are those of a simulation, for a block of one learner. Public
channels, such as z, are functions of the graph, which every party knows: what a neighbour says there is compared with
what the graph gives, because the privacy proof takes it as given.

The network may change from some round on, where all have the document that says so in time: who is heard and told in
round t, and what becomes of trackers and z, is said by gossamer.peers.versions; here it is played.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.errors import GossamerError
from gossamer.models import Memory
from gossamer.models.standard import SEEN
from gossamer.networks import Network
from gossamer.peers.journal import Journal, Snapshot
from gossamer.peers.journal_files import Same
from gossamer.peers.membership import Change, History
from gossamer.peers.mixing import add_terms
from gossamer.peers.outbox import Outbox
from gossamer.peers.signed import LIMIT
from gossamer.peers.turns import SMALL, Expected, Turn, Turns, rounds_kept, window_of
from gossamer.peers.versions import Place, Places, handed
from gossamer.peers.wire import DTYPES, Dtype, Payload, RefusedError, decode, encode, quoted
from gossamer.privacy import Boundary
from gossamer.privacy.boundary import KEPT
from gossamer.records import Batch
from gossamer.rounds import Rounds, fields_of_graph
from gossamer.types import Array

Pieces = Sequence[Payload]  # of one vector's bytes, as they came
FAR_OFF = 1 << 53  # no journal is opened so often; and every whole number below it is one everywhere


class Feed(Protocol):
    """One learner's own records."""

    def here(self, t: int) -> bool:
        """Whether round t's records have come."""

    def arrivals(self, t: int) -> Batch: ...
    def read(self, t: int) -> str:
        """What of the records is behind a learner that has used round t's, to be compared after a restart."""


class OlderHereError(RefusedError):
    """A hello that can only be true if this learner's own journal is old: see gossamer.peers.doubts."""


def check_used(i: int, feed: Feed, now: Snapshot, newest: int) -> None:
    """Refuse records that are not those that were used; `newest` is the last round that has some."""
    if feed.read(newest) != now.read:
        raise GossamerError(
            f"learner {i}: the records that were used before round {now.round} are not those that are there now; give "
            "the same file, to which records were only added."
        )


class Party:
    """Learner i of a run; `feed` brings its own records alone, `size` is how many parameters there are.

    ridge      the model's l2, one for all parameters or one each
    late       for how many rounds in a row it may go on without a neighbour, with that one's last message
    lateness   the most that anybody in the run may: how far ahead senders can be
    changes    what was accepted of joins and leaves so far
    """

    def __init__(
        self,
        i: int,
        algorithm: Algorithm[Any],
        network: Network,
        feed: Feed,
        memory: Memory,
        boundary: Boundary,
        journal: Journal,
        *,
        size: int,
        steps: int,
        ridge: float | Array,
        dtype: Dtype = "f8",
        late: int = 0,
        lateness: int = 0,
        changes: Sequence[Change] = (),
    ) -> None:
        self.i, self.steps, self.size, self.dtype = i, steps, size, dtype
        self.algorithm, self.feed, self._memory = algorithm, feed, memory
        self._boundary, self.journal = boundary, journal
        self.history = History(network, changes)
        self.last = self.history.end_of(i, steps)  # the round that it takes part in no more
        self.places = Places(i, algorithm, self.history)
        first = self.places.at(self.history.first_round(i))
        self._played = first, Rounds(algorithm, first.rows, memory, boundary, ridge, finite=True)
        self._of_graph = fields_of_graph(algorithm, first.rows)
        self.hears, self.tells = self.places.neighbours()
        self.window, self._late, self.lateness = window_of(size, dtype), late, lateness
        self._got: dict[int, dict[Expected, Pieces]] = {}  # by round
        self._last: dict[Expected, Pieces] = {}  # what was used last, where a neighbour may be late
        self._gone: dict[int, int] = {}  # for how many rounds in a row a neighbour's last message was used again
        self._excused: set[int] = set()
        self.broken = False  # whether a step was begun and not committed
        self.without: list[int] = []  # whose messages the last step went without
        self._handed: dict[Expected, Pieces] = {}  # trackers of those who leave before the next round
        self._turns = Turns(self.places, self.last)
        self._outbox = Outbox(self.tells)
        self._spoke: set[int] = set()  # the neighbours that know this learner in this life
        self._start()

    def _start(self) -> None:
        now = self.journal.latest()
        self._resumed = now is not None and not self.journal.unused
        first = self.history.first_round(self.i)
        place, rounds = self._at(first)
        state = rounds.start(self.algorithm.init(place.rows, np.zeros((1, self.size))))
        self.heard: dict[int, tuple[int, int]] = {} if now is None else dict(now.heard)
        if now is None:
            self.round = first
            for t in range(first):  # as if it had been there, and had thrown away what it released
                arrived = self.feed.arrivals(t)
                self._boundary.arrived(t, arrived)
                self._boundary.charge(t)
                self._memory.observe(arrived)
            self._prepare(first, state, ())
            return
        own = {name: value for name, value in now.state.items() if not name.startswith((*KEPT, SEEN))}
        self.round, self.state, self._gradient = now.round, type(state)(**own), now.gradient
        unused = {} if self.journal.delivered else self.journal.messages()
        self._sent = dict[str, Payload](unused.get(now.round, {}))
        for t, sent in unused.items():
            self._outbox.put(t, self._turns.addressed(t, sent))
        for j in self.journal.let_go() & self._outbox.used.keys():  # it is gone, and will not say it again
            self._outbox.has_used(j, self.history.end_of(j, self.steps) - 1)
            self._forget_used()
        for t in range(now.charged):
            self._boundary.charge(t)
        self._boundary.go_on({name: value for name, value in now.state.items() if name.startswith(KEPT)})
        newest = min(now.round, self.last - 1)
        self._memory.go_on(now.state)
        for t in range(newest + 1):  # and what was read is looked at as it comes by: a feed may read it from a file
            self._memory.observe(self.feed.arrivals(t))
            self.feed.read(t)
        check_used(self.i, self.feed, now, newest)

    @property
    def finished(self) -> bool:
        return self.round >= self.last

    @property
    def put_out(self) -> bool:
        """Whether the others have agreed to go on without it."""
        return any(self.i in change.lost for change in self.history.changes)

    @property
    def delivered(self) -> bool:
        """Whether every listener has used all that it was sent."""
        return not self._outbox

    def _prepare(self, t: int, state: Any, late: tuple[tuple[int, int], ...]) -> None:
        """Draw all that round t sends, and commit it; nothing before this may have left, and nothing is drawn again."""
        gradient, payloads, same = self._drawn(t, state)
        kept = state._asdict() | self._boundary.kept(t + 1) | self._memory.kept()
        read = self.feed.read(min(t, self.last - 1))
        used = min([*self._outbox.unused(), t, max(self.last - 1, 0)])  # the last round that sends stays, for the owner
        now = Snapshot(t, kept, gradient, min(t + 1, self.last), self.heard, read)
        addressed = self._turns.addressed(t, payloads) if payloads else {}  # now, while they are in the cache
        self.journal.commit(now, {**payloads, **same}, used, late)
        self.round, self.state, self._gradient = t, state, gradient
        own = t < self.last and any(self.places.at(t).own.values())
        self._sent = dict[str, Payload](payloads) if own else {}  # after a crash the journal's, which is the same
        self._outbox.put(t, addressed)
        self._turns.forget(min([t, *self._outbox]))
        self._forget_used()  # where a listener has gone on without it, it has said so before

    def _drawn(self, t: int, state: Any) -> tuple[Array, dict[str, memoryview], dict[str, Same]]:
        """Of round t the gradient, what leaves this learner as it travels, and what of that is a field of the state."""
        if t >= self.last:
            pushed = {} if self.algorithm.over_time is None else self.algorithm.over_time.pushed
            own = {handed(channel): getattr(state, name) for channel, name in pushed.items()}
            payloads = {name: encode(own[name], self.dtype) for name in self.places.hands_over(t)}
            return np.zeros((1, self.size)), payloads, {}
        place, rounds = self._at(t)
        arrived = self.feed.arrivals(t)
        if place.listens:  # it takes no gradient, and sends nothing; the round is charged all the same
            self._boundary.arrived(t, arrived)
            self._memory.observe(arrived)
            self._boundary.charge(t)
            return np.zeros((1, self.size)), {}, {}
        gradient, sent = rounds.send(state, arrived, t)
        fields = {id(value): name for name, value in state._asdict().items()}
        same = {
            channel: Same(fields[id(out.value)], self.dtype) for channel, out in sent.items() if id(out.value) in fields
        }
        return gradient, {channel: encode(out.value, self.dtype) for channel, out in sent.items()}, same

    def _at(self, t: int) -> tuple[Place, Rounds[Any]]:
        """Its place in the network of round t, and the round that is played there."""
        place, (known, rounds) = self.places.at(t), self._played
        if place is not known:
            self._played = place, rounds.where(place.rows, np.array([not place.listens]))
        return self._played

    @property
    def room(self) -> int:
        """Bytes that may have to wait for one listener: all that is not yet used, and the same sent once more.

        Somebody who has just joined has sent nothing yet, and goes by what it will send; a document comes beside it.
        """
        rounds = self._outbox.sizes()
        coming = 0 if rounds or self.finished else len(self._turns.at(self.round).channels)
        largest = max(rounds, default=coming * (self.size * DTYPES[self.dtype].itemsize + SMALL))
        return largest * 2 * rounds_kept(self.size, self.dtype, self.lateness) + 2 * LIMIT

    def last_sent(self) -> dict[str, Array]:
        """The newest vectors that were sent on each channel, as they were sent."""
        dtype, kept = DTYPES[self.dtype], self.journal.messages()
        newest = kept[max(kept)] if kept else {}
        return {channel: np.frombuffer(data, dtype)[None].astype(float) for channel, data in newest.items()}

    def outgoing(self, to: int, since: int = 0) -> list[bytes]:
        """What goes to one listener, oldest first: all that it may not have used yet, from round `since` on."""
        return self._outbox.to(to, since)

    def length(self, sender: int, t: int, channel: str) -> int:
        """How many numbers a neighbour's vector of a round has; refuses what is not expected of it."""
        ahead = self.window + self.lateness
        if (sender, channel) in self._turns.inherits(t) and t in (self.round, self.round + 1):
            return self.size
        usual = self.round <= t <= self.round + ahead
        if not usual and not self.round <= t <= self.places.since(sender, self.round) + ahead:
            raise RefusedError(
                "window",
                f"learner {sender} sent round {t} while round {self.round} is under way, expected it or one of the "
                f"next {ahead}.",
            )
        if (sender, channel) not in self._turns.expected(t):
            raise RefusedError(
                "unexpected",
                f"learner {sender} sent {quoted(channel, 60)!r} in round {t}, which is not expected of it.",
            )
        return self._turns.width(t, channel) or self.size

    def receive(self, sender: int, t: int, channel: str, *pieces: Payload) -> None:
        """Take a vector in, as it came, which is this round's or one of the next, and of which `length` was asked."""
        vector = Expected(sender, channel)
        inherited = vector in self._turns.inherits(t)
        width = None if inherited else self._turns.width(t, channel)
        size = self.size if width is None else width
        came = sum(map(len, pieces))
        if came != size * DTYPES[self.dtype].itemsize:
            raise RefusedError("size", f"learner {sender} sent {came} bytes of {channel!r}, expected {size} numbers.")
        numbers = [decode(piece, self.dtype) for piece in pieces]
        if width is not None:
            place = self.places.at(t)
            place.public.check(place.numbers.index(sender), t, channel, np.concatenate(numbers), sender)
        have = self._handed if inherited else self._got.setdefault(t, {})
        if vector in have and have[vector] != pieces:
            raise RefusedError(
                "changed",
                f"learner {sender} sent {channel!r} of round {t} a second time with other numbers: it has drawn again, "
                "which releases its state twice.",
            )
        have[vector] = pieces

    def expected(self, t: int) -> frozenset[Expected]:
        """All vectors that have to come before round t is complete."""
        return self._turns.expected(t)

    def missing(self) -> list[Expected]:
        """What the round waits for."""
        have = self._got.get(self.round, {})
        return [one for one in sorted(self.expected(self.round)) if one not in have] + self._not_handed()

    def _not_handed(self) -> list[Expected]:
        """Trackers that are to be handed over before the next round, and did not come."""
        return [one for one in sorted(self._turns.inherits(self.round + 1)) if one not in self._handed]

    def slow(self) -> list[int]:
        """Listeners that have not used what they must have before this learner goes on."""
        return self._outbox.waited_for(self.round - self.window, dict.fromkeys(self._excused, self._late))

    def awaited(self) -> list[int]:
        """The neighbours that keep this learner from going on, or from being done."""
        if self.finished:
            return self._outbox.waited_for()
        return sorted({one.sender for one in self._absent()} | set(self.slow()) | set(self.unheard()))

    def unheard(self) -> list[int]:
        """Listeners that may know of rounds which this journal does not: who goes on from one draws nothing before
        they know it in this life. The last step draws nothing."""
        if not self._resumed or self.round + 1 >= self.last:
            return []
        return sorted(self.places.at(self.round).told & self._outbox.used.keys() - self._spoke)

    @property
    def starved(self) -> bool:
        """Whether only its own records keep this learner from going on."""
        return self.round + 1 < self.last and not self.awaited() and not self.feed.here(self.round + 1)

    def excuse(self, neighbour: int) -> None:
        """A neighbour that was waited for long enough: go on without it, for `late` rounds in a row at most."""
        if self._late:
            self._excused.add(neighbour)

    def _absent(self) -> list[Expected]:
        """What is missing and cannot be replaced: by the graph's value, or by an excused neighbour's last message."""
        absent = []
        for one in self.missing():
            public = self._turns.width(self.round, one.channel) is not None
            known = public or (one in self._last and self._gone.get(one.sender, 0) < self._late)
            if one.sender not in self._excused or not known:
                absent.append(one)
        return absent

    @property
    def ready(self) -> bool:
        """Whether all has come, every listener is near enough, and the next round's records are there.

        The second condition bounds what is stored and sent ahead, for links that go only one way as well. It cannot
        hang: whoever is least far on is not ahead of its listeners, which have all used the rounds before.
        """
        if self.broken or self.finished:
            return False
        if len(self._got.get(self.round, ())) < len(self._turns.expected(self.round)) and (
            not self._excused or self._absent()
        ):  # so it is with most of what comes
            return False
        if self.slow() or self.unheard() or self._not_handed():
            return False
        return self.round + 1 >= self.last or self.feed.here(self.round + 1)

    def advance(self) -> int:
        """Take the step of a round for which all has come, and commit the next; returns the round that was used."""
        if not self.ready:
            raise GossamerError(f"learner {self.i}, round {self.round}: not all messages are here, or used.")
        t, have = self.round, self._got.pop(self.round, {})
        self.broken = True  # until all is committed: a round that was half taken must not be taken again
        (place, rounds), turn = self._at(t), self._turns.at(t)
        absent = {one.sender for one in turn.expected - have.keys()}
        got = {channel: self._mixed(channel, turn, have, t) for channel in turn.channels}
        private = [channel for channel in got if channel not in turn.public]
        after = self._turned(t + 1, rounds.receive(self.state, self._gradient, got, private, t))
        for j in place.heard:
            self._gone[j] = self._gone.get(j, 0) + 1 if j in absent else 0
            if j not in absent:
                self.heard[j] = (self.heard.get(j, (0, -1))[0], t)
                self._excused.discard(j)
        if self._late:
            self._last |= have
        self.without = sorted(absent)
        lost = self.history.lost_by(t) & {j for row in place.outside.values() for j in row}
        self._prepare(t + 1, after, tuple((t, j) for j in sorted({*self.without, *lost})))
        self._handed = {}
        self.broken = False
        return t

    def _turned(self, t: int, state: Any) -> Any:
        """The state with which round t begins, where the network changes there: see gossamer.peers.versions."""
        if self.history.taken_in(t) is None or t >= self.last:
            return state
        fresh = self.algorithm.init(self.places.at(t).rows, np.zeros((1, self.size)))
        anew = [*self._of_graph, *self.places.begins_anew(t)]
        state = state._replace(**{name: getattr(fresh, name) for name in anew})
        for one, (name, share) in sorted(self._turns.inherits(t).items()):
            given = np.concatenate(self._numbers(self._handed[one]))
            state = state._replace(**{name: getattr(state, name) + share * given})
        return state

    def _mixed(self, channel: str, turn: Turn, have: Mapping[Expected, Pieces], t: int) -> Array:
        """Σ W_ij · received_j in the order of senders; last its own message, as it was sent, where that comes back."""
        place, (over, _), public = self.places.at(t), turn.channels[channel], turn.public.get(channel)
        used = partial(self._used, have, channel) if public is None else lambda j: [public[place.numbers.index(j)]]
        terms = [(used(j), weight) for j, weight in turn.heard[channel].items()]
        if place.own[over]:
            terms.append((self._numbers([self._sent[channel]]), place.own[over]))
        if place.apart[over] and public is not None:  # the graph's values go on as they would
            left_out = [*place.outside[over].items(), (self.i, -place.apart[over])]
            terms += [(used(j), weight) for j, weight in left_out]
        size = self.size if public is None else public.shape[1]
        total = np.empty((1, size)) if terms else np.zeros((1, size))
        add_terms(total[0], terms)
        return total

    def _used(self, have: Mapping[Expected, Pieces], channel: str, j: int) -> list[Array]:
        """A neighbour's vector of this round, or its last where it is late."""
        one = Expected(j, channel)
        return self._numbers(have[one] if one in have else self._last[one])

    def _numbers(self, pieces: Pieces) -> list[Array]:
        return [np.frombuffer(piece, DTYPES[self.dtype]) for piece in pieces]

    def acknowledged(self, listener: int, t: int) -> None:
        """A listener has committed the round that used round t: forget what nobody needs any more."""
        if listener not in self._outbox.used or t >= self._farthest(listener):  # it may have gone on without us
            raise RefusedError("ack", f"learner {listener} acknowledged round {t}, which was not sent to it.")
        if self._outbox.has_used(listener, t):
            self._excused.discard(listener)
            self._forget_used()

    def _forget_used(self) -> None:
        """Drop what all listeners have used; a run that has nothing left to send is delivered."""
        self._outbox.forget_used()
        if self.finished and self.delivered:
            self.journal.mark_delivered()

    def met(self, neighbour: int, epoch: int, round_: int, answer: bool) -> None:
        """A neighbour has said hello. One that is behind what it has shown us before has an old journal.

        Two links bring what they carry in any order. So within one epoch a hello is compared only with what came on the
        same link, the one on which numbers are sent; an answer, on the other link, may be older than that. One that is
        ahead of what can have been sent to it says that ours is old: OlderHereError.
        """
        if not (0 < epoch < FAR_OFF and 0 <= round_ <= self.steps):
            raise RefusedError(
                "impossible",
                f"learner {neighbour} says hello in life {epoch} and round {round_}, expected a life from 1 to "
                f"{FAR_OFF - 1} and a round from 0 to {self.steps}, which this run has.",
            )
        known, used = self.heard.get(neighbour, (0, -1))
        shown = max(used, self._outbox.used.get(neighbour, -1) + 1) if epoch > known else -1 if answer else used
        if epoch < known or round_ < shown:
            raise RefusedError(
                "old journal",
                f"learner {neighbour} comes in its life {epoch} and round {round_}, and was in life {known} and round "
                f"{shown} before: its journal was copied back in time, and what it would draw was drawn already.",
            )
        if neighbour in self._outbox.used and round_ > self._farthest(neighbour):
            raise OlderHereError(
                "ahead",
                f"learner {neighbour} says that it is in round {round_} and has used what learner {self.i}, in round "
                f"{self.round}, does not remember to have sent",
            )
        self.journal.mark_used()  # what is drawn may be sent from here on
        self.heard[neighbour] = (epoch, used)
        if neighbour in self._outbox.used:
            self.acknowledged(neighbour, round_ - 1)

    def _farthest(self, listener: int) -> float:
        """The newest round that a listener can be in, given what this learner has sent."""
        return min(self.places.farthest(listener, self.round, self.lateness), self.steps)

    def knows_us(self, neighbour: int) -> None:
        """A neighbour has taken the hello of this life: it finds nothing missing here."""
        self._spoke.add(neighbour)

    def lets_go(self, listener: int) -> bool:
        """Whether a neighbour that has left, or leaves next, has used all that it was sent. The journal has it before
        the neighbour can know it, and end: who starts again would wait for one that is there no more."""
        gone = any(listener in change.leaves and change.at <= self.round for change in self.history.changes)
        if not gone or listener in self._outbox.waited_for():
            return False
        self.journal.keep_let_go(listener)
        return True

    def links(self) -> tuple[list[int], list[int]]:
        """Whom it has to reach now, and who may reach it: those of this round and of all to come, those who have not
        used all that they were sent, and those who may not know that all of theirs was used."""
        changes, told = self.history.changes, self._outbox.listeners()
        later = [t for change in changes for t in (change.at, change.at + 1) if t > self.round]
        lately = [change.at - 1 for change in changes if 0 <= self.round - change.at <= 2 * self.window]
        now = [min(self.round, max(self.last - 1, 0)), self.round + 1, *later]
        told = told.union(*map(self.places.told_in, now))
        heard = set[int]().union(*map(self.places.heard_in, [*now, *lately]))
        lost = frozenset[int]().union(*(change.lost for change in changes))
        return sorted(told - lost), sorted(heard - lost)

    # -- joins and leaves -----------------------------------------------------------------------------------------

    def change(self, change: Change) -> None:
        """Know of a change that was accepted, and is to come; nothing of those who are lost is used from here on."""
        if change.at <= self.round:
            raise GossamerError(
                f"{change.named} is of round {change.at}, and learner {self.i} is in round {self.round}: choose a "
                "later one."
            )
        self.history.changes.append(change)
        self.last = self.history.end_of(self.i, self.steps)
        self.hears, self.tells = self.places.neighbours()
        self._outbox.add(self.tells)
        self._turns = Turns(self.places, self.last)
        self._outbox.drop(change.lost)
        for have in self._got.values():
            for one in [one for one in have if one.sender in change.lost]:
                del have[one]
        self._forget_used()
