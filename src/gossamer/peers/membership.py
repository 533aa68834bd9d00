"""Who takes part in a run, and over which graph, from an agreed round on: the documents that say it.

    {"kind": "membership", "run": "7c…:3f…", "version": 1, "at": 120, "joins": [10], "leaves": [3], "lost": [],
     "members": [0, 1, 2, 4, …, 10], "R": [[0, 1, 0.25], …], "C": [[1, 0, 0.25], …],
     "addresses": {"10": "j.example.org:7400"}, "before": "…"}

The graph is told whole, as links (sender, receiver, weight) between learners' numbers. A number belongs to one party
for good: who joins has one that was never used. `before` is the digest of the document of the version before, so that
there is one history, and a second document of the same version is another history and is refused. The run keeps its
name and its fingerprint, which are those of its beginning.

    joins    listens in round `at` and takes part from the next on
    leaves   takes part in the round before `at` for the last time
    lost     is gone for good, and is put out: nothing of it is used from the moment that a party has the document

What is done with trackers and z in round `at` is told in gossamer.peers.versions, and how everybody has a document in
time in gossamer.peers.passing_on.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from gossamer.algorithms.base import Algorithm
from gossamer.errors import GossamerError
from gossamer.networks import Network
from gossamer.peers.certificates import NUMBER
from gossamer.peers.signed import Signed
from gossamer.types import Matrix

KIND = "membership"
FOLDER = "changes"  # of a party's folder, where documents lie
KEYS = ("kind", "run", "version", "at", "joins", "leaves", "lost", "members", "R", "C", "addresses", "before")
MOST = 1 << 20  # a learner's number, and a round's, in a document are below it


class Change(NamedTuple):
    """A document, read and looked at by itself; `network` is over the members in their order."""

    version: int
    at: int
    joins: frozenset[int]
    leaves: frozenset[int]
    lost: frozenset[int]
    members: tuple[int, ...]
    network: Network
    addresses: Mapping[int, str]
    before: str
    digest: str

    @property
    def gone(self) -> frozenset[int]:
        return self.leaves | self.lost

    @property
    def named(self) -> str:
        return f"change {self.version}"


def document_of(
    run: str,
    version: int,
    at: int,
    members: Sequence[int],
    network: Network,
    *,
    joins: Collection[int] = (),
    leaves: Collection[int] = (),
    lost: Collection[int] = (),
    addresses: Mapping[int, str] | None = None,
    before: str = "",
) -> dict[str, Any]:
    """A document, to be signed; `network` is over `members` in their order."""

    def links(over: Matrix) -> list[list[Any]]:
        return sorted([members[j], members[i], weight] for j, i, weight in network.edges(over))

    return {
        "kind": KIND, "run": run, "version": version, "at": at, "joins": sorted(joins), "leaves": sorted(leaves),
        "lost": sorted(lost), "members": list(members), "R": links("R"), "C": links("C"),
        "addresses": {str(i): where for i, where in sorted((addresses or {}).items())}, "before": before,
    }  # fmt: skip


def read_change(signed: Signed) -> Change:
    """What a document says; a mistake in it gets one sentence. Who signed it is asked elsewhere."""
    given = signed.document
    if set(given) != set(KEYS):
        wrong = ", ".join(sorted(map(str, set(given) ^ set(KEYS))))
        raise GossamerError(f"a document of membership with or without {wrong}: make it with 'gossamer peers change'.")
    version, at = _number("version", given["version"], 1), _number("at", given["at"], 1)
    joins, leaves, lost = (frozenset(_numbers(name, given[name])) for name in ("joins", "leaves", "lost"))
    members = _numbers("members", given["members"])
    if len(members) < 2:
        raise GossamerError(f"change {version} leaves {len(members)} learners: a run needs two or more.")
    if leaves & lost or (leaves | lost) & set(members) or not joins <= set(members):
        raise GossamerError(
            f"change {version}: members must have all who join, and nobody who leaves or is lost, each once; make it "
            "with 'gossamer peers change'."
        )
    before, addresses = given["before"], given["addresses"]
    if not isinstance(before, str) or not isinstance(addresses, dict) or not all(map(_is_text, addresses.values())):
        raise GossamerError(f"change {version}: expected text for 'before' and for every address.")
    return Change(
        version, at, joins, leaves, lost, tuple(members), _network(version, members, given),
        {_number("addresses", int(i) if NUMBER.fullmatch(i) else i, 0): str(where) for i, where in addresses.items()},
        before, signed.digest,
    )  # fmt: skip


def _network(version: int, members: Sequence[int], given: Mapping[str, Any]) -> Network:
    place = {number: k for k, number in enumerate(members)}
    try:
        R, C = ([(place[j], place[i], float(w)) for j, i, w in given[over]] for over in ("R", "C"))
    except (KeyError, TypeError, ValueError, OverflowError):  # a whole number may be larger than any float
        raise GossamerError(
            f"change {version}: R and C must be lists of [sender, receiver, weight] between its members."
        ) from None
    try:
        return Network.from_edges(len(members), R, C_edges=C)
    except GossamerError as error:
        plain = list(members) == list(range(len(members)))
        counted = "" if plain else f" of learners {', '.join(map(str, members))}, counted here from 0"
        raise GossamerError(f"the graph of change {version}{counted}: ", *error.parts) from None


def joiners_in(folder: Path) -> set[int]:
    """Who joins by the documents in a party's folder, whoever has signed them: their numbers may be spoken of."""
    found = set[int]()
    for path in (folder / FOLDER).glob("*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            joins = json.loads(path.read_text(encoding="utf-8"))["document"]["joins"]
            found |= {one for one in joins if type(one) is int and 0 <= one < MOST}
    return found


def _number(name: str, value: Any, least: int) -> int:
    if type(value) is not int or not least <= value < MOST:
        raise GossamerError(f"a document of membership has {name} = {value!r}: expected a whole number from {least}.")
    return value


def _numbers(name: str, value: Any) -> list[int]:
    if not isinstance(value, list) or len(set(map(str, value))) < len(value):
        raise GossamerError(f"a document of membership has {name} = {value!r}: expected learners' numbers, each once.")
    return sorted(_number(name, one, 0) for one in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) < 300


class History:
    """The run's beginning, and every change that was accepted since, in their order."""

    def __init__(self, network: Network, changes: Sequence[Change] = ()) -> None:
        self.network, self.changes = network, list(changes)

    @property
    def version(self) -> int:
        return len(self.changes)

    @property
    def digest(self) -> str:
        """Of the newest document; none at the beginning."""
        return self.changes[-1].digest if self.changes else ""

    @property
    def members(self) -> tuple[int, ...]:
        """After the newest change."""
        return self.members_of(self.version)

    def members_of(self, version: int) -> tuple[int, ...]:
        return self.changes[version - 1].members if version else tuple(range(self.network.m))

    def network_of(self, version: int) -> Network:
        return self.changes[version - 1].network if version else self.network

    @property
    def used(self) -> set[int]:
        """Every number that somebody has or had."""
        return set(range(self.network.m)).union(*(change.joins for change in self.changes))

    def version_at(self, t: int) -> int:
        """Which version's graph round t is played on."""
        return sum(change.at <= t for change in self.changes)

    def taken_in(self, t: int) -> Change | None:
        """The change that round t begins with."""
        if not self.changes:
            return None
        return next((change for change in self.changes if change.at == t), None)

    def lost_by(self, t: int) -> frozenset[int]:
        """Who is a member in round t, and known to be lost."""
        if not self.changes:
            return frozenset()
        later = [change.lost for change in self.changes if change.at > t]
        return frozenset().union(*later) & frozenset(self.members_of(self.version_at(t)))

    def first_round(self, i: int) -> int:
        """The round in which a learner begins, listening where it joins."""
        return next((change.at for change in self.changes if i in change.joins), 0)

    def end_of(self, i: int, steps: int) -> int:
        """The round that it takes part in no more."""
        if not self.changes:  # asked many times a round
            return steps
        return next((change.at for change in self.changes if i in change.gone), steps)

    def check(self, change: Change, algorithm: Algorithm[Any], steps: int) -> None:
        """Refuse a change that does not follow from what was before, or that the method cannot be right with."""
        said = change.named
        if algorithm.over_time is None:
            raise GossamerError(
                f"{said}: nothing is known of {algorithm.name} on a network that changes; begin a new run."
            )
        if change.version != self.version + 1:
            raise GossamerError(f"{said} follows change {change.version - 1}, and the newest here is {self.version}.")
        if change.before != self.digest:
            raise GossamerError(
                f"{said} does not follow from what was agreed on here: it was made from another change "
                f"{change.version - 1}; take the one that all others have."
            )
        least = self.changes[-1].at + 2 if self.changes else 1
        if not least <= change.at < steps:
            raise GossamerError(f"{said} is of round {change.at}: expected {least} to {steps - 1}.")
        old = set(self.members)
        again = sorted(change.joins & self.used)
        if again:
            raise GossamerError(
                f"{said} gives number {again[0]} to somebody who joins, and it was used: a number is one party's for "
                f"good; take {max(self.used) + 1}."
            )
        if not change.gone <= old or set(change.members) != (old - change.gone) | change.joins:
            raise GossamerError(f"{said} has members that do not follow from {sorted(old)}: make it anew.")
        if not set(change.members) - change.joins:
            raise GossamerError(f"{said} leaves nobody of those who were there: begin a new run.")
        if algorithm.over_time.hands_over and not change.lost:
            for i in sorted(change.leaves):
                for channel in algorithm.over_time.pushed:
                    if not self.heirs(change, i, pushed_over(algorithm)[channel]):
                        raise GossamerError(
                            f"{said}: learner {i} leaves, and nobody that it pushes to stays to take its tracker; give "
                            "it another link first, or let it leave earlier."
                        )

    def heirs(self, change: Change, i: int, over: Matrix) -> dict[int, float]:
        """To whom a learner that leaves hands over, and which share to whom: as it pushes, to those who stay."""
        members, network = self.members_of(change.version - 1), self.network_of(change.version - 1)
        plain: Any = over.removeprefix("I+")
        stays = set(change.members) - change.joins
        pushes = {members[b]: w for a, b, w in network.edges(plain) if members[a] == i and members[b] in stays}
        whole = sum(pushes.values())
        return {j: weight / whole for j, weight in sorted(pushes.items())}


def pushed_over(algorithm: Algorithm[Any]) -> dict[str, Matrix]:
    """The channels of trackers, and over which links each is pushed."""
    return {channel: over for channel, (over, pushed) in channels_of(algorithm).items() if pushed}


def channels_of(algorithm: Algorithm[Any], t: int = 0) -> dict[str, tuple[Matrix, bool]]:
    """What everybody sends in a round: over which links, and whether it is a tracker's mass that is pushed."""
    import numpy as np

    rows = Network.complete(2).rows([0], algorithm.mixes)
    state = algorithm.init(rows, np.zeros((1, 1)))
    pushed = algorithm.over_time.pushed if algorithm.over_time is not None else {}
    sent = algorithm.emit(state, np.zeros((1, 1)), rows, t)
    return {channel: (out.over, channel in pushed) for channel, out in sent.items()}
