"""How a document of membership comes to everybody in time, without a server and without a vote.

A party takes a document from a file, or from a neighbour. Before anything else is done with it, it is in the journal.
From then on

    a party sends nothing more of its rounds to a listener that has not said that it has the document, too.

It sends the document instead, until the listener says `known`, with the digest of what it has. Both frames go to
neighbours that have the capability "membership".

**Everybody has it before round T.** Let party i accept a document from its file in its round r, and let j hear i. What
j had of i by then is of rounds up to r, so that j is in round r + 1 + lateness at most: it needs i's message of every
round, and may go on without it for `lateness` rounds in a row. Every later message comes after j has the document. By
induction everybody that is reached from i over d links, along which messages go, has it in round r + d (1 + lateness)
at the latest. Over the links of R everybody is reached. So with d(i) the largest of these distances,

    T > r + d(i) (1 + lateness)

suffices, and a document from a file is refused otherwise, with a sentence that names the least T. Paths lead over
nobody who is lost: then there may be somebody who is not reached, and the document is refused here; the sentence says
at which party it has to be given.

**Only neighbours of the newest graph must have shown that they can read it.** A document from a file is refused while
another is to come. So every round from r on is played on the newest graph, and the links of the argument above are
links of that graph: it says nothing of anybody else. Who was a neighbour on an earlier graph alone is of two kinds. A
member has accepted the document of the newest graph, so it can read, and others bring it this one. Who has left
takes part in no round from r on. It may still need rounds from before it left: it is told the document first, and can
read it as well, because it knew of its leave by a document. Neither need be there now. After a restart neither has
said what it runs, and who has left will not come back to say it.

A party that gets another document of the same version, or one that it refuses, hears nothing more from whoever has it,
and the run stands: it never splits in two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from gossamer.errors import GossamerError
from gossamer.peers import wire
from gossamer.peers.journal import Journal
from gossamer.peers.membership import Change, History, read_change
from gossamer.peers.party import Party
from gossamer.peers.release import OWN_RELEASE, Release
from gossamer.peers.signed import Signed, parse_signed
from gossamer.peers.wire import Frame, Known, Membership, RefusedError, quoted
from gossamer.types import Matrix

CAPABILITY = "membership"
SAID, MOST_SIGNATURES = 400, 1000  # letters of a sentence about what a neighbour sent; signatures that are looked at
Verify = Callable[[Signed, Change, History], None]  # refuses what was not signed by those whose word counts


class PassingOn:
    """One party's documents, and which of them its neighbours are known to have.

    verify     who must have signed, and whether the party's own settings can do with a change at all
    releases   what neighbours have said that they run
    """

    def __init__(self, party: Party, verify: Verify, releases: Mapping[int, Release]) -> None:
        self._party, self._verify, self._releases = party, verify, releases
        self._frames = [_framed(k + 1, document) for k, document in enumerate(party.journal.changes())]
        self._known: dict[int, int] = {}  # the newest version that each neighbour has said that it has
        self.refused: str | None = None  # why the newest document that was offered is not accepted

    @property
    def version(self) -> int:
        return self._party.history.version

    def knows(self, listener: int) -> bool:
        """Whether a listener is known to have all that was accepted here."""
        return self._known.get(listener, 0) >= self.version

    def wanting(self, listener: int) -> list[bytes]:
        """What a listener has to be told before anything else."""
        return self._frames[self._known.get(listener, 0) :]

    def can_read(self, neighbour: int) -> bool:
        return CAPABILITY in self._releases.get(neighbour, Release()).capabilities

    def said(self) -> bytes:
        """What this party has."""
        return wire.pack(Frame(Known(self.version, self._party.history.digest)))

    def heard(self, neighbour: int, known: Known) -> None:
        """A neighbour has said what it has."""
        changes = self._party.history.changes
        if known.version < 0:
            raise RefusedError(CAPABILITY, f"learner {neighbour} has change {known.version}, and there is none such.")
        if 0 < known.version <= len(changes) and changes[known.version - 1].digest != known.digest:
            raise RefusedError(
                CAPABILITY,
                f"learner {neighbour} has another change {known.version} than this one: nothing more is sent to it; "
                "find out which of the two was agreed on.",
            )
        self._known[neighbour] = known.version

    def begins_anew(self, neighbour: int) -> None:
        """In another life: what it had it may have lost, as SQLite leaves out the end of a log without a word. So it is
        told again, before anything of a round."""
        self._known.pop(neighbour, None)

    def receive(self, sender: int, version: int, payload: bytes | memoryview) -> Change | None:
        """Take a document from a neighbour; None where it is here already. What is refused is told in one sentence.

        One that cannot be kept, as on a full disk, is not refused: that ends the learner as in any round, and is no
        news for a neighbour.
        """
        try:
            signed = parse_signed(bytes(payload), f"change {version}")
            if version < 1:
                raise GossamerError("versions are counted from 1.")
            if version <= self.version:
                if signed.digest != self._party.history.changes[version - 1].digest:
                    raise GossamerError(f"it is another change {version} than the one that was accepted here.")
                return None
            change, frame = self._checked(signed)
            self._refuse_past(change)
        except GossamerError as error:
            self.refused = quoted(f"learner {sender} sent a change that is refused: {error}", SAID)
            raise RefusedError(CAPABILITY, self.refused) from None
        return self._accept(signed, change, frame)

    def take(self, signed: Signed) -> Change | None:
        """Take a document from a file; None where it is here already."""
        version, known = signed.document.get("version"), self._party.history.changes
        if isinstance(version, int) and 0 < version <= len(known):
            if known[version - 1].digest == signed.digest:
                return None
            raise GossamerError(
                f"this change {version} is another one than was accepted here, and does nothing: take the file away."
            )
        change, frame = self._checked(signed)
        self._check_time(change)
        return self._accept(signed, change, frame)

    def _checked(self, signed: Signed) -> tuple[Change, bytes]:
        """What it says, and the frame in which it is passed on; refuses one that nobody may take."""
        if len(signed.signatures) > MOST_SIGNATURES:
            raise GossamerError(
                f"a document with {len(signed.signatures)} signatures: expected {MOST_SIGNATURES} at most."
            )
        change = read_change(signed)
        self._verify(signed, change, self._party.history)
        self._party.history.check(change, self._party.algorithm, self._party.steps)
        return change, _framed(change.version, signed.encoded())

    def _refuse_past(self, change: Change) -> None:
        if change.at <= self._party.round:
            raise GossamerError(
                f"{change.named} is of round {change.at}, and learner {self._party.i} is in round "
                f"{self._party.round}: choose a later one."
            )

    def _accept(self, signed: Signed, change: Change, frame: bytes) -> Change:
        self._party.journal.keep_change(change.version, signed.encoded())
        self._frames.append(frame)
        self._party.change(change)
        self.refused = None
        return change

    def _check_time(self, change: Change) -> None:
        """Refuse what cannot be proved to reach everybody in time."""
        party, history = self._party, self._party.history
        if party.i not in history.members:
            raise GossamerError(
                f"{change.named} is given to learner {party.i}, which takes part no more: give it to another."
            )
        pending = next((one for one in history.changes if one.at > party.round), None)
        if pending is not None:
            raise GossamerError(
                f"{change.named} is given while {pending.named} is to come in round {pending.at}: give it from that "
                "round on."
            )
        for j in sorted(neighbours(history, party.i, mixes=party.algorithm.mixes) - change.lost):
            if not self.can_read(j):
                theirs = self._releases.get(j, Release())
                why = f"runs {theirs.named}, and here is {OWN_RELEASE.named}" if theirs.version else "is not there"
                raise GossamerError(
                    f"{change.named} needs neighbours that can read it, and learner {j} {why}: wait for it, or let it "
                    "install this release first."
                )
        reached = distances(history, party.i, change.lost, mixes=party.algorithm.mixes)
        missing = sorted(set(history.members) - change.lost - set(reached))
        if missing:
            raise GossamerError(
                f"{change.named} does not reach learner {missing[0]} from here without who is lost: "
                f"{_who_reaches_all(history, change.lost, party.algorithm.mixes)}."
            )
        least = party.round + max(reached.values()) * (1 + party.lateness) + 1
        if change.at < least:
            raise GossamerError(
                f"{change.named} is of round {change.at}, and from learner {party.i}, in round {party.round}, it may "
                f"not be everywhere before round {least}: choose that or a later one (gossamer peers change --again)."
            )


def surely_in_time(change: Change, round_: int, lateness: int) -> int:
    """A round before which a change that is given in `round_` is everywhere, whatever the graph: no way from one member
    to another has more links than there are others."""
    others = len(set(change.members) - change.joins | change.leaves) - 1
    return round_ + others * (1 + lateness) + 1


def neighbours(history: History, i: int, mixes: tuple[Matrix, ...]) -> set[int]:
    """Who hears learner i, or is heard by it, in the newest graph."""
    told = _told(history, mixes)
    return told[i].union(j for j, some in told.items() if i in some)


def distances(history: History, start: int, lost: frozenset[int], mixes: tuple[Matrix, ...]) -> dict[int, int]:
    """Over how many links each learner is reached from one, along which messages go, past those who are lost."""
    told, found, queue = _told(history, mixes), {start: 0}, deque([start])
    while queue:
        i = queue.popleft()
        for j in sorted(told[i] - lost - found.keys()):
            found[j] = found[i] + 1
            queue.append(j)
    return found


def _told(history: History, mixes: tuple[Matrix, ...]) -> dict[int, set[int]]:
    """Who hears each member, in the newest graph."""
    members, network = history.members, history.network_of(history.version)
    told: dict[int, set[int]] = {i: set() for i in members}
    for over in mixes:
        plain: Any = over.removeprefix("I+")
        for a, b, _ in network.edges(plain):
            told[members[a]].add(members[b])
    return told


def _who_reaches_all(history: History, lost: frozenset[int], mixes: tuple[Matrix, ...]) -> str:
    stays = set(history.members) - lost
    able = [i for i in sorted(stays) if stays <= distances(history, i, lost, mixes).keys()]
    return (
        f"give it to learner {able[0]}, from which everybody is"
        if able
        else "no party reaches all others; begin a new run"
    )


def restored(journal: Journal) -> list[Change]:
    """What was accepted before this start."""
    return [read_change(parse_signed(document, "a change in the journal")) for document in journal.changes()]


def _framed(version: int, document: bytes) -> bytes:
    if len(document) > wire.PAYLOAD_LIMIT:
        raise GossamerError(
            f"change {version} has {len(document)} bytes, expected {wire.PAYLOAD_LIMIT} at most: use a sparser graph."
        )
    return wire.pack(Frame(Membership(version), document))
