"""`gossamer peer accept`: a signed document into a party's folder, after it was checked; or this party's signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from gossamer.cli.bullets import say
from gossamer.cli.membership import accept_change
from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.peers import authorities, membership, revocation
from gossamer.peers.config import Plan
from gossamer.peers.credentials import read_credentials, read_identities
from gossamer.peers.revocation import list_in, read_accepted
from gossamer.peers.signed import Signed, read_signed


def show_accepted(console: Console, plan: Plan, document: Path, sign: bool) -> None:
    """Check a document as a learner will, and put it where it looks; or sign it, and nothing else."""
    signed = read_signed(document)
    kind, run = signed.document.get("kind"), signed.document.get("run")
    if not isinstance(kind, str) or kind not in KINDS or run != plan.run_name:
        raise GossamerError(
            f"{document} is of kind and run {(kind, run)!r}, expected one of {', '.join(KINDS)} of run "
            f"{plan.run_name!r}: give this run's."
        )
    if not sign:
        return KINDS[str(kind)](console, plan, signed, document)
    signed = signed.signed_by(read_credentials(plan).own, str(plan.learner))
    signed.save(document)
    by = ", ".join(sorted(str(one.get("by")) for one in signed.signatures))
    say(console, f"Signed by learner {plan.learner}; now it has the signatures of: {by}.")


def _accept_list(console: Console, plan: Plan, signed: Signed, document: Path) -> None:
    given, before = list_in(signed, str(document)), read_accepted(plan.folder)
    if given.number <= before.number and given != before:
        raise GossamerError(
            f"{document} is list {given.number}, and list {before.number} was accepted before: that one stays in force."
        )
    _put(plan, plan.folder / revocation.FILE, document)
    learners = sorted({int(one["learner"]) for one in given.entries})
    whose = f"learner{'s' * (len(learners) > 1)} {', '.join(map(str, learners))}"
    say(console, f"List {given.number}: what it names of {whose} counts no more, within seconds.")


def _accept_authority(console: Console, plan: Plan, signed: Signed, document: Path) -> None:
    known = [path for path, _ in authorities.documents_in(plan.folder)]
    if any(path.read_bytes() == document.read_bytes() for path in known):
        return say(console, f"{document} was accepted before.")
    number = 1 + len(known)
    path = authorities.path_of(plan.folder, number)
    if signed.document.get("number") != number:
        found = str(signed.document.get("number"))[:20]
        raise GossamerError(f"{document} has number {found}, expected {number}, the next.")
    _put(plan, path, document)
    say(console, f"Another authority counts, within seconds; those before it until {signed.document['until']}.")


def _put(plan: Plan, path: Path, document: Path) -> None:
    """Where the learner looks; taken back where it would refuse it."""
    before = path.read_bytes() if path.exists() else None
    replace_file(path, document.read_bytes())
    try:
        read_identities(plan)
    except GossamerError:
        if before is not None:
            replace_file(path, before)
        else:
            with suppress(OSError):
                path.unlink()
        raise


KINDS: Mapping[str, Callable[[Console, Plan, Signed, Path], None]] = {
    membership.KIND: accept_change,
    revocation.KIND: _accept_list,
    authorities.KIND: _accept_authority,
}
