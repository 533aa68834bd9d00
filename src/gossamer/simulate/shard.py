"""Which of a run's learners a process plays, and how what is theirs comes together with what is others'.

The engine's rounds play any block of learners. What looks at all of them, such as evaluation and the record, asks the
shard: one process that plays everybody has nothing to bring together; gossamer.cluster has the shards of many ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from gossamer.arrays import Kind
from gossamer.networks import Network
from gossamer.privacy import PrivateBoundary, Unproved
from gossamer.records import Batch
from gossamer.simulate.mixer import Mixer
from gossamer.streams import Stream
from gossamer.types import Array, Integers, Matrix, Out

AnyBoundary = PrivateBoundary | Unproved


class Mix(Protocol):
    """From what the shard's learners send in a round, by channel, to what they receive."""

    def all(self, sent: Mapping[str, Out]) -> dict[str, Array]: ...
    def parts(self, sent: Mapping[str, Out]) -> Callable[[str, slice], Array]:
        """The same for some of the learners at a time, by channel."""


class Shard(Protocol):
    """Some learners of a run. Every shard of it asks the same things in the same order, because all answer together."""

    @property
    def ids(self) -> Integers | None:
        """Which learners, in rising order; None: all."""

    @property
    def notes(self) -> Sequence[str]:
        """What a record says of how learners were shared out."""

    def own(self, values: Any) -> Any:
        """These learners' rows of what has one for each learner of the run."""

    def arrivals(self, stream: Stream) -> Callable[[int], Batch]:
        """The records that reach these learners in a round."""

    def mixer(self, network: Network, mixes: Sequence[Matrix], kind: Kind) -> Mix: ...

    def boundary(self, whole: AnyBoundary) -> AnyBoundary:
        """What stands between these learners and their messages, of a run's whole boundary."""

    def book(self, own: AnyBoundary, whole: AnyBoundary) -> None:
        """Put down in the whole boundary what every shard's own has charged, counted and sent last."""

    def total(self, values: Any) -> Any:
        """The sum over all shards of what each has."""

    def mean(self, values: Any) -> Any:
        """The mean over all learners of the run, of rows of these."""

    def gathered(self, values: Any) -> Any:
        """The rows of all learners of the run, in their order, at its first shard; elsewhere these learners' own."""


class _Everybody:
    """All learners in this process."""

    ids = None
    notes = ()

    def own(self, values: Any) -> Any:
        return values

    def arrivals(self, stream: Stream) -> Callable[[int], Batch]:
        return stream.arrivals

    def mixer(self, network: Network, mixes: Sequence[Matrix], kind: Kind) -> Mix:
        return Mixer(network, mixes, kind)

    def boundary(self, whole: AnyBoundary) -> AnyBoundary:
        return whole

    def book(self, own: AnyBoundary, whole: AnyBoundary) -> None:
        """It is the same one."""

    def total(self, values: Any) -> Any:
        return values

    def mean(self, values: Any) -> Any:
        return values.mean(0)

    def gathered(self, values: Any) -> Any:
        return values


EVERYBODY: Shard = _Everybody()
