"""What is known of a round before anything of it comes: who hears whom, on which channels, and what the graph gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gossamer.peers.versions import Places
from gossamer.peers.wire import DTYPES, Dtype, Payload, pack_vectors
from gossamer.types import Array, Matrix

WINDOW = 16  # rounds that a sender may be ahead of whoever hears it, where vectors are small; else 1
SMALL = 1 << 14  # bytes


class Expected(NamedTuple):
    """A vector that has to come before a round is complete."""

    sender: int
    channel: str


class Turn(NamedTuple):
    """What is known of a round before anything of it comes."""

    channels: Mapping[str, tuple[Matrix, bool]]  # what everybody sends: over which links, and whether it is pushed
    heard: Mapping[str, Mapping[int, float]]  # by channel: whom this learner hears, with which weights
    expected: frozenset[Expected]  # all vectors that have to come before the round is complete
    public: Mapping[str, Array]  # what the graph gives, by channel: a row for every learner


def window_of(size: int, dtype: Dtype) -> int:
    """How many rounds a sender may be ahead: some where they are small, so that acknowledgements can be few."""
    return WINDOW if size * DTYPES[dtype].itemsize <= SMALL else 1


def rounds_kept(size: int, dtype: Dtype, lateness: int) -> int:
    """How many rounds a journal must have room for."""
    return window_of(size, dtype) + lateness + 2


class Turns:
    """One learner's, round by round; `last` is the round that it takes part in no more."""

    def __init__(self, places: Places, last: int) -> None:
        self._places, self._last = places, last
        self._known: dict[int, Turn] = {}

    def at(self, t: int) -> Turn:
        """Round t's; asked for with every vector, so worked out once."""
        turn = self._known.get(t)
        if turn is None:
            self._known[t] = turn = self._worked_out(t)
        return turn

    def forget(self, before: int) -> None:
        """Rounds of which nothing is sent or taken any more."""
        for t in [t for t in self._known if t < before]:
            del self._known[t]

    def _worked_out(self, t: int) -> Turn:
        if t >= self._last:
            return Turn({}, {}, frozenset(), {})
        place, channels = self._places.at(t), self._places.channels(t)
        heard = {  # who listens takes nothing that is pushed
            channel: {} if pushed and place.listens else place.hears[over]
            for channel, (over, pushed) in channels.items()
        }
        values = {channel: place.public.value(t, channel) for channel in channels}
        public = {channel: value for channel, value in values.items() if value is not None}
        return Turn(channels, heard, frozenset(Expected(j, one) for one, row in heard.items() for j in row), public)

    def expected(self, t: int) -> frozenset[Expected]:
        """All vectors that have to come before round t is complete."""
        return self.at(t).expected

    def inherits(self, t: int) -> dict[Expected, tuple[str, float]]:
        """What has to be handed over before round t: the fields of the state that it is added to, and its shares."""
        if not self._places.history.changes or t >= self._last:
            return {}
        return {Expected(*one): field for one, field in self._places.inherits(t).items()}

    def width(self, t: int, channel: str) -> int | None:
        """How long a public channel's vectors are; None where it is not public."""
        public = self.at(t).public.get(channel)
        return None if public is None else int(public.shape[1])

    def addressed(self, t: int, payloads: Mapping[str, Payload]) -> dict[int, list[bytes]]:
        """A round's vectors as messages for every listener; those that hear the same get the same ones."""
        listeners, packed = self._listeners(t), dict[tuple[str, ...], list[bytes]]()
        addressed = {}
        for j in sorted({j for some in listeners.values() for j in some}):
            heard = tuple(channel for channel in payloads if j in listeners[channel])
            if heard not in packed:
                packed[heard] = pack_vectors(t, ((channel, payloads[channel]) for channel in heard))
            addressed[j] = packed[heard]
        return addressed

    def _listeners(self, t: int) -> Mapping[str, Sequence[int]]:
        """By channel: who hears what is sent in round t."""
        if t >= self._last:
            return self._places.hands_over(t)
        place, channels = self._places.at(t), self.at(t).channels
        return {
            channel: [j for j in place.tells[over] if not (pushed and j in place.joining)]
            for channel, (over, pushed) in channels.items()
        }
