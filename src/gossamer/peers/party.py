"""One learner and its rounds, without any network: what it sends, what it takes, and when it goes on.

    start    reads the journal, or draws round 0 and commits it
    outgoing what is to be sent now: the bytes in the journal, and no others
    receive  a neighbour's vector of this round or the next; refused where it is neither expected nor the same as before
    advance  when all have come: the algorithm's step, the next round's gradient and noise, one commit; then it may be
             sent, and the round that was used may be acknowledged

The algorithm, the model and the privacy boundary are those of a simulation, for a block of one learner. Public
channels, such as z, are functions of the graph, which every party knows: what a neighbour says there is compared with
what the graph gives, because the privacy proof takes it as given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.models import Memory
from gossamer.networks import Network
from gossamer.peers.journal import Journal, Snapshot
from gossamer.peers.wire import DTYPES, Dtype, RefusedError, decoded, encoded
from gossamer.privacy import Boundary
from gossamer.streams import Stream
from gossamer.types import Array, GossamerError, Matrix

SAME = 1e-9  # how far a public value may be from the graph's


class Expected(NamedTuple):
    """A vector that has to come before a round is complete."""

    sender: int
    channel: str


class Party:
    """Learner i of a run; `stream` brings its own records alone, `size` is how many parameters there are."""

    def __init__(
        self,
        i: int,
        algorithm: Algorithm,
        network: Network,
        stream: Stream,
        memory: Memory,
        boundary: Boundary,
        journal: Journal,
        *,
        size: int,
        steps: int,
        dtype: Dtype = "f8",
    ) -> None:
        self.i, self.steps, self.size, self.dtype = i, steps, size, dtype
        self._algorithm, self._stream, self._memory = algorithm, stream, memory
        self._boundary: Any = boundary
        self._journal = journal
        self._rows = network.rows([i], algorithm.mixes)
        self._public = PublicValues(algorithm, network)
        self._weights: dict[Matrix, dict[int, float]] = {over: _row(network, over, i) for over in algorithm.mixes}
        self.hears = sorted({j for row in self._weights.values() for j in row})
        self._tells: dict[Matrix, list[int]] = {
            over: [j for j in range(network.m) if i in _row(network, over, j)] for over in algorithm.mixes
        }
        self.tells = sorted({j for listeners in self._tells.values() for j in listeners})
        self._got: dict[int, dict[Expected, bytes]] = {}
        self._over: dict[int, dict[str, Matrix]] = {}
        self._acked = dict.fromkeys(self.tells, -1)  # the newest round that each listener has used
        self.heard: dict[int, tuple[int, int]] = journal.heard()
        self._start()

    def _start(self) -> None:
        now = self._journal.latest()
        if now is None:
            state = self._algorithm.init(self._rows, np.zeros((1, self.size)))
            self._kind, self._outbox = type(state), dict[int, dict[str, bytes]]()
            self._prepare(0, state)
            return
        state = self._algorithm.init(self._rows, np.zeros((1, self.size)))
        self._kind = type(state)
        own = {name: value for name, value in now.state.items() if not name.startswith("sent.")}
        self.round, self.state, self._gradient = now.round, self._kind(**own), now.gradient
        self._outbox = self._journal.outbox()
        for t in range(now.charged):
            self._boundary.charge(t)
        self._boundary.go_on({name: value for name, value in now.state.items() if name.startswith("sent.")})
        for t in range(min(now.round + 1, self.steps)):
            self._memory.observe(self._stream.arrivals(t))

    @property
    def finished(self) -> bool:
        return self.round >= self.steps

    @property
    def delivered(self) -> bool:
        """Whether every listener has used all that it was sent."""
        return not self._outbox

    def _prepare(self, t: int, state: Any) -> None:
        """Draw all that round t sends, and commit it; nothing before this may have left, and nothing is drawn again."""
        payloads: dict[str, bytes] = {}
        gradient = np.zeros((1, self.size))
        if t < self.steps:
            self._memory.observe(self._stream.arrivals(t))
            self._boundary.charge(t)
            gradient = self._boundary.gradient(t, self._memory.gradient(self._algorithm.point(state)))
            for channel, out in self._algorithm.emit(state, gradient, self._rows, t).items():
                value = self._boundary.release(channel, t, out.value) if out.private else out.value
                payloads[channel] = encoded(value, self.dtype)
        kept = state._asdict() | self._boundary.kept(t)
        self._journal.commit(Snapshot(t, kept, gradient, min(t + 1, self.steps)), payloads, self.heard)
        self.round, self.state, self._gradient = t, state, gradient
        if payloads:
            self._outbox[t] = payloads

    def _channels(self, t: int) -> dict[str, Matrix]:
        """What everybody sends in round t, and over which links; asked for often, so found once."""
        if t not in self._over:
            sent = self._algorithm.emit(self.state, self._gradient, self._rows, t) if t < self.steps else {}
            self._over = {k: known for k, known in self._over.items() if k >= self.round - 2}
            self._over[t] = {channel: out.over for channel, out in sent.items()}
        return self._over[t]

    def expected(self, t: int) -> list[Expected]:
        return [Expected(j, channel) for channel, over in self._channels(t).items() for j in self._weights[over]]

    def outgoing(self, to: int) -> list[tuple[int, str, bytes]]:
        """(round, channel, bytes) for one listener, oldest first: all that it may not have used yet."""
        found = []
        for t, payloads in sorted(self._outbox.items()):
            over = self._channels(t)
            if t > self._acked[to]:
                found += [(t, c, data) for c, data in payloads.items() if to in self._tells[over[c]]]
        return found

    def length(self, sender: int, t: int, channel: str) -> int:
        """How many numbers a neighbour's vector of this round or the next has; refuses what is not expected of it."""
        if not self.round <= t <= self.round + 1:
            raise RefusedError(
                "window",
                f"learner {sender} sent round {t} while round {self.round} is under way, expected it or the next.",
            )
        if Expected(sender, channel) not in self.expected(t):
            raise RefusedError(
                "unexpected", f"learner {sender} sent {channel!r} in round {t}, which is not expected of it."
            )
        return self._public.width(t, channel) or self.size

    def receive(self, sender: int, t: int, channel: str, payload: bytes) -> None:
        """Take a vector in, which is this round's or the next one's."""
        wanted, size = Expected(sender, channel), self.length(sender, t, channel)
        if len(payload) != size * DTYPES[self.dtype].itemsize:
            raise RefusedError(
                "size", f"learner {sender} sent {len(payload)} bytes of {channel!r}, expected {size} numbers."
            )
        vector = decoded(payload, self.dtype)
        self._public.check(sender, t, channel, vector)
        before = self._got.setdefault(t, {}).get(wanted)
        if before is not None and before != payload:
            raise RefusedError(
                "changed",
                f"learner {sender} sent {channel!r} of round {t} a second time with other numbers: it has drawn again, "
                "which releases its state twice.",
            )
        self._got[t][wanted] = payload

    def missing(self) -> list[Expected]:
        """What the round waits for."""
        have = self._got.get(self.round, {})
        return [one for one in self.expected(self.round) if one not in have]

    @property
    def ready(self) -> bool:
        """Whether all has come, and every listener has used the round before this one.

        The second keeps what is stored and sent ahead to two rounds, for links that only go one way as well. It cannot
        hang: of those that are least far on, the listeners have all used the round before.
        """
        waiting = self.finished or bool(self.missing())
        return not waiting and all(used >= self.round - 1 for used in self._acked.values())

    def advance(self) -> int:
        """Take the step of a round for which all has come, and commit the next; says which round was used."""
        if not self.ready:
            raise GossamerError(f"learner {self.i}, round {self.round}: not all messages are here, or used.")
        t, have = self.round, self._got.pop(self.round, {})
        got: dict[str, Array] = {}
        for channel, over in self._channels(t).items():
            total = np.zeros((1, self._public.width(t, channel) or self.size))
            for j, weight in self._weights[over].items():
                total += weight * decoded(have[Expected(j, channel)], self.dtype)
            got[channel] = total
        after = self._algorithm.step(self.state, got, self._gradient, self._rows, t)
        for j in self.hears:
            self.heard[j] = (self.heard.get(j, (0, -1))[0], t)
        self._prepare(t + 1, after)
        return t

    def acknowledged(self, listener: int, t: int) -> None:
        """A listener has committed the round that used round t."""
        if listener not in self._acked or t > self.round:
            raise RefusedError("ack", f"learner {listener} acknowledged round {t}, which was not sent to it.")
        self._acked[listener] = max(self._acked[listener], t)
        done = min(self._acked.values(), default=self.round) + 1
        if any(old < done for old in self._outbox):
            self._outbox = {old: payloads for old, payloads in self._outbox.items() if old >= done}
            self._journal.forget(done)

    def met(self, neighbour: int, epoch: int, round_: int) -> None:
        """A neighbour has said hello. One whose past is shorter than what it has shown us has an old journal."""
        known_epoch, used = self.heard.get(neighbour, (0, -1))
        if epoch < known_epoch or round_ < used:
            raise RefusedError(
                "old journal",
                f"learner {neighbour} comes in its life {epoch} and round {round_}, and was in life {known_epoch} and "
                f"round {used} before: its journal was copied back in time, and what it would draw was drawn already.",
            )
        self.heard[neighbour] = (epoch, used)


class PublicValues:
    """What every learner sends on channels that carry no data: functions of the graph, found by everyone alone."""

    def __init__(self, algorithm: Algorithm, network: Network) -> None:
        self._algorithm, self._m = algorithm, network.m
        self._rows = network.rows(mixes=algorithm.mixes)
        self._weights: Any = {over: network.off_diagonal(over) for over in algorithm.mixes}
        self._state = algorithm.init(self._rows, np.zeros((network.m, 1)))
        self._sent: dict[int, Mapping[str, Array]] = {}
        self._next = 0

    def _until(self, t: int) -> Mapping[str, Array]:
        nothing = np.zeros((self._m, 1))
        while self._next <= t:
            out = self._algorithm.emit(self._state, nothing, self._rows, self._next)
            self._sent[self._next] = {c: o.value for c, o in out.items() if not o.private}
            got = {c: self._weights[o.over] @ o.value for c, o in out.items()}
            self._state = self._algorithm.step(self._state, got, nothing, self._rows, self._next)
            self._sent.pop(self._next - 2, None)  # rounds that are over
            self._next += 1
        return self._sent.get(t, {})

    def check(self, sender: int, t: int, channel: str, vector: Array) -> None:
        public = self._until(t).get(channel)
        if public is None:
            return
        if vector.shape != public[sender].shape or np.abs(vector - public[sender]).max() > SAME:
            raise RefusedError(
                "public",
                f"learner {sender} sent a {channel!r} in round {t} which the graph does not give: it has another "
                "graph, or lies; privacy is proved for the graph's.",
            )

    def width(self, t: int, channel: str) -> int | None:
        """How long a public channel's vectors are."""
        known = self._until(t).get(channel)
        return None if known is None else int(known.shape[1])


def _row(network: Network, over: Matrix, i: int) -> dict[int, float]:
    """Whom learner i hears over a matrix's links, and with which weight."""
    off = network.off_diagonal(over)
    row = np.asarray(off[i] if isinstance(off, np.ndarray) else off[[i]].toarray()).ravel()
    return {int(j): float(row[j]) for j in np.flatnonzero(row)}
