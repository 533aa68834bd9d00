"""`gossamer peers change` and `gossamer peer accept`: what they do, and what they say of it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from gossamer.cli.words import printable
from gossamer.errors import GossamerError
from gossamer.peers.bundle import bundle_of, write_bundle
from gossamer.peers.certificates import Pair
from gossamer.peers.changes import check_signed, documents_in, refuse_fixed
from gossamer.peers.config import Plan
from gossamer.peers.credentials import read_identities
from gossamer.peers.key_files import read_authority
from gossamer.peers.membership import FOLDER, Change, read_change
from gossamer.peers.passing_on import surely_in_time
from gossamer.peers.proposing import Wanted, make_place, propose, save
from gossamer.peers.signed import Signed, read_signed
from gossamer.peers.status import read_statuses


def show_change(console: Console, folder: Path, wanted: Wanted, authority: Path | None) -> None:
    """Write the document, and the folders of those who join."""
    signer: Pair | None = None if authority is None else read_authority(authority)
    if signer is None and wanted.joins:
        signer = read_authority(folder / "authority")  # their certificates are its word in any case
    if wanted.again:
        _refuse_accepted(folder)
    signed, plan, _ = propose(folder, wanted)
    if plan.config.secrets is not None:  # which all have agreed on; [privacy] is each party's own
        refuse_fixed(plan, read_change(signed))
    if authority is not None and signer is not None:
        signed = signed.signed_by(signer)
    path, change = save(folder, signed), read_change(signed)
    _say(console, change)
    for i, where in sorted(wanted.joins.items()):
        assert signer is not None
        request = wanted.requests.get(i)
        place = make_place(folder, plan, signer, i, where, request)
        if request is not None:
            bundle = folder / f"{place.name}.json"
            write_bundle(bundle, bundle_of(place, i))
            _line(
                console,
                f"Send {bundle} to {request.name}, which takes it with: gossamer party join FOLDER {bundle.name}",
            )
            continue
        _line(console, f"Learner {i}'s folder is {place}: its owner sets [privacy] and [data], and starts it.")
    if authority is None:
        _line(console, f"Every party signs it: gossamer peer accept ITS-FOLDER {path} --sign")
    rounds = [int(one["round"]) for one in read_statuses(folder) if "round" in one]
    if rounds:
        _line(console, f"As far as is known here, parties are in rounds {min(rounds)} to {max(rounds)}.")
    if wanted.again:
        _line(console, "It takes the place of the one before, which no party may have: two of one number stop the run.")
    _line(console, f"Give it to one party: gossamer peer accept PARTY-FOLDER {path}")


def _refuse_accepted(folder: Path) -> None:
    """Two documents of one version stop the run where they meet: no party may have taken the first."""
    newest = max((read_change(read_signed(path)).version for path in documents_in(folder)), default=0)
    if not newest:
        raise GossamerError(f"{folder} has no change to make again: leave out --again.")
    for status in read_statuses(folder):
        known = status.get("membership") or {}
        if known.get("version", 0) >= newest or any(one["change"] == newest for one in known.get("coming") or []):
            raise GossamerError(
                f"{status['folder']} has accepted change {newest}: it is part of the run; make the next one without "
                "--again."
            )


def accept_change(console: Console, plan: Plan, signed: Signed, document: Path) -> None:
    """Check a document as far as its signatures and its own words go; the learner itself checks the rest."""
    change = read_change(signed)
    now = next((one.get("round", 0) for one in read_statuses(plan.folder)), 0)
    if change.at <= now and not (plan.folder / FOLDER / f"{change.version}.json").exists():
        enough, steps = surely_in_time(change, now, plan.config.run.lateness), plan.config.run.steps
        later = f"round {enough} or, as it goes on meanwhile, a later one" if enough < steps else "a later one"
        raise GossamerError(
            f"{change.named} is of round {change.at}, and learner {plan.learner} is in round {now} of {steps}: make it "
            f"again with {later} (gossamer peers change … --at ROUND --again)."
        )
    refuse_fixed(plan, change)
    before = set(change.members) - change.joins | change.leaves
    check_signed(signed, plan, read_identities(plan), before, change.lost)
    path = plan.folder / FOLDER / f"{change.version}.json"
    signed.save(path)
    _say(console, change)
    _line(console, f"It lies in {path}: a learner that runs takes it within a second, and its status says so.")


def _say(console: Console, change: Change) -> None:
    verbs = (("leaves", "leave", change.leaves), ("joins", "join", change.joins), ("is lost", "are lost", change.lost))
    said = [
        f"learner{'s' if len(who) > 1 else ''} {', '.join(map(str, sorted(who)))} {several if len(who) > 1 else one}"
        for one, several, who in verbs
        if who
    ]
    whole = f"{len(change.members)} members and {change.network.links} links over R"
    _line(console, f"Change {change.version}, from round {change.at} on: {'; '.join([*said, whole])}.")


def _line(console: Console, text: str) -> None:
    console.print(escape(printable(text)), highlight=False, soft_wrap=True)
