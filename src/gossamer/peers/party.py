"""One learner and its rounds, without any network: what it sends, what it takes, and when it goes on.

    start    reads the journal, or draws round 0 and commits it
    outgoing what is to be sent now: the bytes in the journal, and no others
    receive  a neighbour's vector of this round or a later one; refused where it is not expected, or other than before
    advance  when all have come: the algorithm's step, the next round's gradient and noise, one commit; then it may be
             sent, and the round that was used may be acknowledged

The algorithm, the model and the privacy boundary are those of a simulation, for a block of one learner. Public
channels, such as z, are functions of the graph, which every party knows: what a neighbour says there is compared with
what the graph gives, because the privacy proof takes it as given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.arrays import dense
from gossamer.errors import GossamerError
from gossamer.models import Memory
from gossamer.models.standard import SEEN
from gossamer.networks import Network
from gossamer.peers.journal import Journal, Snapshot
from gossamer.peers.mixing import add_scaled, set_scaled
from gossamer.peers.public import PublicValues
from gossamer.peers.wire import DTYPES, Dtype, Payload, RefusedError, decode, encode, pack_vectors, quoted
from gossamer.privacy import Boundary
from gossamer.privacy.boundary import KEPT
from gossamer.records import Batch
from gossamer.rounds import Rounds
from gossamer.types import Array, Matrix

WINDOW = 16  # rounds that a sender may be ahead of whoever hears it, where vectors are small; else 1
SMALL = 1 << 14  # bytes


class Feed(Protocol):
    """One learner's own records."""

    def here(self, t: int) -> bool:
        """Whether round t's records have come."""

    def arrivals(self, t: int) -> Batch: ...
    def read(self, t: int) -> str:
        """What of the records is behind a learner that has used round t's, to be compared after a restart."""


class Expected(NamedTuple):
    """A vector that has to come before a round is complete."""

    sender: int
    channel: str


def window_of(size: int, dtype: Dtype) -> int:
    """How many rounds a sender may be ahead: some where they are small, so that acknowledgements can be few."""
    return WINDOW if size * DTYPES[dtype].itemsize <= SMALL else 1


def rounds_kept(size: int, dtype: Dtype, lateness: int) -> int:
    """How many rounds a journal must have room for."""
    return window_of(size, dtype) + lateness + 2


class Party:
    """Learner i of a run; `feed` brings its own records alone, `size` is how many parameters there are.

    ridge      the model's l2, one for all parameters or one each
    late       for how many rounds in a row it may go on without a neighbour, with that one's last message
    lateness   the most that anybody in the run may: how far ahead senders can be
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
    ) -> None:
        self.i, self.steps, self.size, self.dtype = i, steps, size, dtype
        self._algorithm, self.feed, self._memory = algorithm, feed, memory
        self._boundary, self._journal = boundary, journal
        self._rows = network.rows([i], algorithm.mixes)
        self._rounds = Rounds(algorithm, self._rows, memory, boundary, ridge, finite=True)
        self._public = PublicValues(algorithm, network)
        rows = {over: _row(network, over, i) for over in algorithm.mixes}
        self._own = {over: row.pop(i, 0.0) for over, row in rows.items()}  # the weight of its own message, with I+
        self._weights: dict[Matrix, dict[int, float]] = rows
        self.hears = sorted({j for row in self._weights.values() for j in row})
        everybody = range(network.m)
        self._tells = {
            over: [j for j in everybody if j != i and i in _row(network, over, j)] for over in algorithm.mixes
        }
        self.tells = sorted({j for listeners in self._tells.values() for j in listeners})
        self.window, self._late, self._lateness = window_of(size, dtype), late, lateness
        self._got: dict[int, dict[Expected, Payload]] = {}  # by round
        self._last: dict[Expected, Payload] = {}  # what was used last, where a neighbour may be late
        self._gone: dict[int, int] = {}  # for how many rounds in a row a neighbour's last message was used again
        self._excused: set[int] = set()
        self.broken = False  # whether a step was begun and not committed
        self.without: list[int] = []  # whose messages the last step went without
        self._over: dict[int, dict[str, Matrix]] = {}
        self._expected: dict[int, frozenset[Expected]] = {}
        self._acked = dict.fromkeys(self.tells, -1)  # the newest round that each listener has used
        self._start()

    def _start(self) -> None:
        now = self._journal.latest()
        state = self._rounds.start(self._algorithm.init(self._rows, np.zeros((1, self.size))))
        self.heard: dict[int, tuple[int, int]] = {} if now is None else dict(now.heard)
        if now is None:
            self._outbox: dict[int, dict[int, list[bytes]]] = {}  # by round and listener
            self._prepare(0, state, ())
            return
        own = {name: value for name, value in now.state.items() if not name.startswith((*KEPT, SEEN))}
        self.round, self.state, self._gradient = now.round, type(state)(**own), now.gradient
        unused = {} if self._journal.delivered else self._journal.messages()
        self._sent = dict[str, Payload](unused.get(now.round, {}))
        self._outbox = {}
        for t, sent in unused.items():
            self._outbox[t] = self._addressed(t, sent)
        for t in range(now.charged):
            self._boundary.charge(t)
        self._boundary.go_on({name: value for name, value in now.state.items() if name.startswith(KEPT)})
        newest = min(now.round, self.steps - 1)
        self._memory.go_on(now.state)
        for t in range(newest + 1):  # and what was read is looked at as it comes by: a feed may read it from a file
            self._memory.observe(self.feed.arrivals(t))
            read = self.feed.read(t)
        if read != now.read:
            raise GossamerError(
                f"learner {self.i}: the records that were used before round {now.round} are not those that are there "
                "now; give the same file, to which records were only added."
            )

    @property
    def finished(self) -> bool:
        return self.round >= self.steps

    @property
    def delivered(self) -> bool:
        """Whether every listener has used all that it was sent."""
        return not self._outbox

    def _prepare(self, t: int, state: Any, late: tuple[tuple[int, int], ...]) -> None:
        """Draw all that round t sends, and commit it; nothing before this may have left, and nothing is drawn again."""
        payloads: dict[str, memoryview] = {}
        gradient = np.zeros((1, self.size))
        if t < self.steps:
            gradient, sent = self._rounds.send(state, self.feed.arrivals(t), t)
            payloads = {channel: encode(out.value, self.dtype) for channel, out in sent.items()}
        kept = state._asdict() | self._boundary.kept(t + 1) | self._memory.kept()
        read = self.feed.read(min(t, self.steps - 1))
        used = min([*self._acked.values(), t - 1, self.steps - 2]) + 1  # the last round that sends stays, for the owner
        now = Snapshot(t, kept, gradient, min(t + 1, self.steps), self.heard, read)
        self._journal.commit(now, payloads, used, late)
        self.round, self.state, self._gradient = t, state, gradient
        self._sent = (
            dict[str, Payload](payloads) if any(self._own.values()) else {}
        )  # after a crash the journal's, which is the same
        if payloads and self.tells:
            self._outbox[t] = self._addressed(t, payloads)

    def _addressed(self, t: int, payloads: Mapping[str, Payload]) -> dict[int, list[bytes]]:
        """A round's vectors as messages for every listener; those that hear the same get the same ones."""
        over, packed = self._channels(t), dict[tuple[str, ...], list[bytes]]()
        addressed = {}
        for j in self.tells:
            heard = tuple(channel for channel in payloads if j in self._tells[over[channel]])
            if heard not in packed:
                packed[heard] = pack_vectors(t, ((channel, payloads[channel]) for channel in heard))
            addressed[j] = packed[heard]
        return addressed

    def _channels(self, t: int) -> dict[str, Matrix]:
        """What everybody sends in round t, and over which links; asked for often, so worked out once a round."""
        if t not in self._over:
            sent = self._algorithm.emit(self.state, self._gradient, self._rows, t) if t < self.steps else {}
            oldest = min([self.round, *self._outbox])
            self._over = {k: over for k, over in self._over.items() if k >= oldest}
            self._expected = {k: vectors for k, vectors in self._expected.items() if k >= oldest}
            self._over[t] = {channel: out.over for channel, out in sent.items()}
        return self._over[t]

    def expected(self, t: int) -> frozenset[Expected]:
        """All vectors that have to come before round t is complete."""
        if t not in self._expected:
            channels = self._channels(t)
            self._expected[t] = frozenset(Expected(j, c) for c, over in channels.items() for j in self._weights[over])
        return self._expected[t]

    def last_sent(self) -> dict[str, Array]:
        """The newest vectors that were sent on each channel, as they were sent."""
        dtype, kept = DTYPES[self.dtype], self._journal.messages()
        newest = kept[max(kept)] if kept else {}
        return {channel: np.frombuffer(data, dtype)[None].astype(float) for channel, data in newest.items()}

    def outgoing(self, to: int, since: int = 0) -> list[bytes]:
        """What goes to one listener, oldest first: all that it may not have used yet, from round `since` on."""
        unused = []
        for t in sorted(self._outbox):
            if t > self._acked[to] and t >= since:
                unused += self._outbox[t][to]
        return unused

    def length(self, sender: int, t: int, channel: str) -> int:
        """How many numbers a neighbour's vector of a round has; refuses what is not expected of it."""
        ahead = self.window + self._lateness
        if not self.round <= t <= self.round + ahead:
            raise RefusedError(
                "window",
                f"learner {sender} sent round {t} while round {self.round} is under way, expected it or one of the "
                f"next {ahead}.",
            )
        if (sender, channel) not in self.expected(t):
            raise RefusedError(
                "unexpected",
                f"learner {sender} sent {quoted(channel, 60)!r} in round {t}, which is not expected of it.",
            )
        return self._public.width(t, channel) or self.size

    def receive(self, sender: int, t: int, channel: str, payload: Payload) -> None:
        """Take a vector in, which is this round's or one of the next, and of which `length` was asked."""
        size = self._public.width(t, channel) or self.size
        if len(payload) != size * DTYPES[self.dtype].itemsize:
            raise RefusedError(
                "size", f"learner {sender} sent {len(payload)} bytes of {channel!r}, expected {size} numbers."
            )
        self._public.check(sender, t, channel, decode(payload, self.dtype))
        have, vector = self._got.setdefault(t, {}), Expected(sender, channel)
        if vector in have and have[vector] != payload:
            raise RefusedError(
                "changed",
                f"learner {sender} sent {channel!r} of round {t} a second time with other numbers: it has drawn again, "
                "which releases its state twice.",
            )
        have[vector] = payload

    def missing(self) -> list[Expected]:
        """What the round waits for."""
        have = self._got.get(self.round, {})
        return [one for one in sorted(self.expected(self.round)) if one not in have]

    def slow(self) -> list[int]:
        """Listeners that have not used what they must have before this learner goes on."""
        oldest = {j: self.round - self.window - (self._late if j in self._excused else 0) for j in self._acked}
        return [j for j, used in self._acked.items() if used < oldest[j]]

    def awaited(self) -> list[int]:
        """The neighbours that keep this learner from going on, or from being done."""
        if self.finished:
            return [j for j, used in self._acked.items() if used < self.steps - 1]
        return sorted({one.sender for one in self._absent()} | set(self.slow()))

    @property
    def starved(self) -> bool:
        """Whether only its own records keep this learner from going on."""
        return self.round + 1 < self.steps and not self.awaited() and not self.feed.here(self.round + 1)

    def excuse(self, neighbour: int) -> None:
        """A neighbour that was waited for long enough: go on without it, for `late` rounds in a row at most."""
        if self._late:
            self._excused.add(neighbour)

    def _absent(self) -> list[Expected]:
        """What is missing and cannot be replaced: by the graph's value, or by an excused neighbour's last message."""
        absent = []
        for one in self.missing():
            public = self._public.width(self.round, one.channel) is not None
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
        if self.broken or self.finished or self.slow():
            return False
        if len(self._got.get(self.round, ())) < len(self.expected(self.round)) and self._absent():
            return False
        return self.round + 1 >= self.steps or self.feed.here(self.round + 1)

    def advance(self) -> int:
        """Take the step of a round for which all has come, and commit the next; returns the round that was used."""
        if not self.ready:
            raise GossamerError(f"learner {self.i}, round {self.round}: not all messages are here, or used.")
        t, have = self.round, self._got.pop(self.round, {})
        self.broken = True  # until all is committed: a round that was half taken must not be taken again
        absent = {one.sender for one in self.expected(t) if one not in have}
        got = {channel: self._mixed(channel, over, have, t) for channel, over in self._channels(t).items()}
        private = [channel for channel in got if self._public.width(t, channel) is None]
        after = self._rounds.receive(self.state, self._gradient, got, private, t)
        for j in self.hears:
            self._gone[j] = self._gone.get(j, 0) + 1 if j in absent else 0
            if j not in absent:
                self.heard[j] = (self.heard.get(j, (0, -1))[0], t)
                self._excused.discard(j)
        if self._late:
            self._last |= have
        self.without = sorted(absent)
        self._prepare(t + 1, after, tuple((t, j) for j in self.without))
        self.broken = False
        return t

    def _mixed(self, channel: str, over: Matrix, have: Mapping[Expected, Payload], t: int) -> Array:
        """Σ W_ij · received_j in the order of senders; last its own message, as it was sent, where that comes back."""
        terms = [(self._used(have, t, Expected(j, channel)), weight) for j, weight in self._weights[over].items()]
        if self._own[over]:
            terms.append((np.frombuffer(self._sent[channel], DTYPES[self.dtype]), self._own[over]))
        size = self._public.width(t, channel) or self.size
        total = np.empty((1, size)) if terms else np.zeros((1, size))
        for k, (vector, weight) in enumerate(terms):
            (add_scaled if k else set_scaled)(total[0], vector, weight)
        return total

    def _used(self, have: Mapping[Expected, Payload], t: int, one: Expected) -> Array:
        """A neighbour's vector of this round, or its last where it is late; the graph's own where it is public."""
        public = self._public.value(t, one.channel)
        if public is not None:
            vector: Array = public[one.sender]
            return vector
        return np.frombuffer(have[one] if one in have else self._last[one], dtype=DTYPES[self.dtype])

    def acknowledged(self, listener: int, t: int) -> None:
        """A listener has committed the round that used round t: forget what nobody needs any more."""
        if listener not in self._acked or t > self.round + self._lateness:  # it may have gone on without us
            raise RefusedError("ack", f"learner {listener} acknowledged round {t}, which was not sent to it.")
        if t <= self._acked[listener]:
            return
        self._acked[listener] = t
        self._excused.discard(listener)
        used = min(self._acked.values()) + 1
        for old in [old for old in self._outbox if old < used]:
            del self._outbox[old]
        if self.finished and self.delivered:
            self._journal.mark_delivered()

    def met(self, neighbour: int, epoch: int, round_: int, answer: bool) -> None:
        """A neighbour has said hello. One that is behind what it has shown us before has an old journal.

        Two links bring what they carry in any order. So within one epoch a hello is compared only with what came on the
        same link, the one on which numbers are sent; an answer, on the other link, may be older than that.
        """
        known, used = self.heard.get(neighbour, (0, -1))
        shown = max(used, self._acked.get(neighbour, -1) + 1) if epoch > known else -1 if answer else used
        if epoch < known or round_ < shown:
            raise RefusedError(
                "old journal",
                f"learner {neighbour} comes in its life {epoch} and round {round_}, and was in life {known} and round "
                f"{shown} before: its journal was copied back in time, and what it would draw was drawn already.",
            )
        if neighbour in self._acked and round_ > self.round + 1 + self._lateness:
            raise GossamerError(
                f"learner {neighbour} is in round {round_} and has used what this one, in round {self.round}, does not "
                "remember to have sent: this journal was lost or put back in time; join a new run."
            )
        self._journal.mark_used()  # what is drawn may be sent from here on
        self.heard[neighbour] = (epoch, used)
        if neighbour in self._acked:
            self.acknowledged(neighbour, min(round_ - 1, self.round + self._lateness))


def _row(network: Network, over: Matrix, i: int) -> dict[int, float]:
    """Whom learner i hears over a matrix's links, and with which weight."""
    row = dense(network.off_diagonal(over)[[i]]).ravel()
    return {int(j): float(row[j]) for j in np.flatnonzero(row)}
