"""What carries frames from one learner to another. A new transport is one file with one class that has these methods.

A transport carries one frame or several at once. It hands what arrives to `take`, together with who sent it: from the
certificate, or from whatever else it knows for sure. It may lose, repeat or delay: the node sends again until it is
acknowledged. Sending never waits: where nobody listens, what is sent is dropped.

gossamer.peers.links is one, over TLS; CONTRIBUTING shows another, whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from gossamer.peers.certificates import Identities, Pair
from gossamer.peers.release import Release


class Arrived(NamedTuple):
    """What came at once, and who sent it; an answer comes back on a link of the receiver's own.

    `intact`: the transport has checked that these are the bytes that were sent, as TLS does with every record. Frames
    are then not summed up a second time.
    """

    sender: int
    data: bytes
    answer: bool = False
    intact: bool = False


Take = Callable[[Arrived], Any]
ROOM = 1 << 26


class Wiring(NamedTuple):
    """All that a learner's process tells its transport when it makes it."""

    learner: int
    listen: str | None  # where the others reach this learner: [party] listen; None where it dials for all its links
    addresses: Mapping[int, str | None]  # those that hear it, and where it reaches them; None: they dial for the link
    hears: Sequence[int]  # the learners that it hears; nobody else may send to it
    own: Pair
    identities: Identities
    take: Take  # is given all that arrives; whatever it raises ends the learner
    hello: Callable[[], bytes]  # what both sides say first on a link, whenever it is opened
    stranger: Callable[[int, bool], Sequence[bytes]] | None = None  # what to tell a learner without a link here, if
    # anything; true: one that thinks that this learner sends to it
    sources: Mapping[int, str] = MappingProxyType({})  # those that it hears and dials for it, and where it reaches them
    room: int = ROOM  # bytes that may wait for one neighbour; more than a learner sends at once
    apart: Callable[[int, str], Any] | None = None  # is told why a link cannot open, or "" where it can
    release: Callable[[int, Release], Any] | None = None  # is told what a neighbour runs, before its first frame


class Transport(Protocol):
    """One learner's links: this is all that a node and a learner's process call."""

    dials: Counter[int]  # how often a link was dialled, by neighbour, for /metrics

    async def start(self) -> None:
        """Begin to listen; GossamerError where that cannot be done."""

    def dial(self) -> None:
        """Open all links that this learner is to open, and keep them open."""

    def send(self, to: int, data: bytes) -> None:
        """To a learner that hears this one."""

    def reply(self, to: int, data: bytes) -> None:
        """Back to a learner that this one hears."""

    async def failed(self) -> None:
        """Wait until the learner cannot go on, and raise what `take` has raised."""

    async def close(self) -> None:
        """End all links; also called where `start` has failed."""

    def renew(self, own: Pair, identities: Identities) -> None:
        """From now on new links use these; links of certificates that are no longer accepted are closed at once.

        All others go on undisturbed. A transport without certificates has nothing to do.
        """
        return

    def relink(self, addresses: Mapping[int, str | None], hears: Sequence[int], sources: Mapping[int, str]) -> None:
        """From now on these are its links, as in its `Wiring`: new ones are opened, and what is not named is closed.

        Called after `dial`. A transport that reaches everybody has nothing to do.
        """
        return


MakeTransport = Callable[[Wiring], Transport]
