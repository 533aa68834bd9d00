"""Joins and leaves in a party's folder: documents in changes/, whose word counts for them, and where joiners are.

    learner-3/changes/1.json    a signed document; its name says nothing, and which version it is stands in it

A learner looks there every second. What it cannot accept now it looks at again: a neighbour may come, and a document be
replaced. What was accepted is in its journal, and the file is needed no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gossamer.algorithms.base import Algorithm
from gossamer.errors import GossamerError
from gossamer.peers.certificates import Identities
from gossamer.peers.config import Neighbour, Plan
from gossamer.peers.journal import Journal
from gossamer.peers.logs import warn_rarely
from gossamer.peers.membership import FOLDER, KIND, Change, History, read_change
from gossamer.peers.passing_on import Verify, restored
from gossamer.peers.signed import Signed, read_signed


def documents_in(folder: Path) -> list[Path]:
    """The files with documents in a party's folder."""
    return sorted((folder / FOLDER).glob("*.json"))


class Inbox:
    """What lies in a party's folder, and was not accepted yet."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._settled = folder, dict[Path, tuple[int, int]]()
        self._said: Counter[Any] = Counter()
        self.refused: dict[str, str] = {}  # by file, why it is not accepted

    def look(self, accept: Callable[[Signed], Any]) -> None:
        """Offer every document that is new, or was refused."""
        try:
            documents = documents_in(self._folder)
        except OSError:  # too many files are open: at the next look
            return
        for path in documents:
            try:
                about = path.stat()
                if self._settled.get(path) == (about.st_mtime_ns, about.st_size):
                    continue
                accept(read_signed(path))
                self._settled[path] = about.st_mtime_ns, about.st_size
                self.refused.pop(path.name, None)
            except (GossamerError, OSError) as error:
                self.refused[path.name] = str(error)
                warn_rarely(self._said, path.name, "change refused", {"file": path.name, "why": str(error)})


def verifier(plan: Plan, identities: Callable[[], Identities]) -> Verify:
    """Whose word counts at this party: the run's authority's, or that of all members who are not lost.

    Its own settings have to allow a change, too: see gossamer.peers.versions.
    """

    def verify(signed: Signed, change: Change, history: History) -> None:
        everybody = set(history.members) - change.lost
        check_signed(signed, plan, identities(), everybody, change.lost)
        refuse_fixed(plan, change)

    return verify


def refuse_fixed(plan: Plan, change: Change) -> None:
    """Refuse a change where budgets or shared noise are of the members and the graph of the beginning."""
    if plan.config.secrets is not None:
        raise GossamerError(
            f"{change.named} in a run with [secrets]: noise cancels between all who began, so nobody can join or "
            "leave; begin a new run."
        )
    if plan.config.privacy.epsilon is not None and plan.config.privacy.where == "messages":
        raise GossamerError(
            f"{change.named} at learner {plan.learner}, which has noise on messages: its budget is proved for the "
            'graph of the beginning alone; a run that parties join and leave needs [privacy] where = "source".'
        )


def check_signed(
    signed: Signed, plan: Plan, identities: Identities, everybody: Collection[int], lost: Collection[int] = ()
) -> None:
    """The word of any authority that counts today will do, or that of everybody who is not lost.

    These must be more than half of all: otherwise one party could put out all others, and two halves each other.
    """
    enough = len(everybody) > len(lost)
    try:
        signed.check_by_any(
            KIND, plan.run_name, identities.authorities, identities, everybody if enough else frozenset()
        )
    except GossamerError as error:
        if enough:
            raise
        many = f"{len(lost)} of {len(everybody) + len(lost)} learners are put out"
        raise GossamerError(*error.parts, f" ({many}: those who stay are not more than half.)") from None


def accepted(journal: Journal, plan: Plan, verify: Verify, algorithm: Algorithm[Any]) -> list[Change]:
    """What was accepted before this start; of a party that joins, with what lies in its folder."""
    found = restored(journal)
    for signed, change in joining(plan, verify, algorithm, found):
        if plan.learner in change.joins:
            journal.begin_at(change.at)
        journal.keep_change(change.version, signed.encoded())
        found.append(change)
    return found


def joining(
    plan: Plan, verify: Verify, algorithm: Algorithm[Any], known: Sequence[Change] = ()
) -> list[tuple[Signed, Change]]:
    """Of a party that joins, what lies in its folder and is not known yet, up to the document that lets it join;
    refuses what a start would. Of any other party nothing: it takes documents while it runs."""
    if plan.learner < plan.config.run.learners or any(plan.learner in change.joins for change in known):
        return []
    history, found = History(plan.network, known), list[tuple[Signed, Change]]()
    offered = [(read_signed(path), path) for path in documents_in(plan.folder)]
    for signed, path in sorted(offered, key=lambda one: read_change(one[0]).version):
        change = read_change(signed)
        if change.version <= history.version:
            continue
        try:
            verify(signed, change, history)
            history.check(change, algorithm, plan.config.run.steps)
        except GossamerError as error:
            raise GossamerError(f"{path}: ", *error.parts) from None
        history.changes.append(change)
        found.append((signed, change))
        if plan.learner in change.joins:
            _check_joins(plan)
            return found
    raise GossamerError(
        f"learner {plan.learner} is not one of the {plan.config.run.learners} with which the run began, and no "
        f"document in {plan.folder / FOLDER} lets it join: put the one there that was signed for it."
    )


def _check_joins(plan: Plan) -> None:
    """Noise that is correlated over releases takes back what it added before, which a joiner has not."""
    if plan.config.privacy.band > 1:
        raise GossamerError(
            f"[privacy] band = {plan.config.privacy.band} at learner {plan.learner}, which joins a run that has begun: "
            "its noise would go on from releases that never were; leave band out."
        )


def neighbours_of(plan: Plan, history: History) -> dict[str, Neighbour]:
    """[neighbours], with the addresses that documents give for those it says nothing of."""
    found = dict(plan.config.neighbours)
    for change in history.changes:
        for j, address in change.addresses.items():
            known = found.get(str(j), Neighbour())
            if j != plan.learner and known.address is None:
                found[str(j)] = replace(known, address=address)
    return found
