"""What a party's owner must know of its folder before the first start, and may not have put there: the folder may come
from somebody else. `gossamer peer check` shows it, and `started` in the log says the same of a run.

Nothing is changed by looking: the journal is looked at in a copy, no secret is moved, no port listened on. Whatever a
start refuses for what lies in the folder is asked by the same functions (gossamer.peers.starting).

**What must be mended before a start** is what a start would refuse, and keys that others can read. **Warnings** are
what a start allows, and its owner may not expect: noise that claims nothing, metrics for the whole network, a journal
elsewhere. No claim is taken from the file's words: it is the boundary's, the same one that a run would draw from.
"""

from __future__ import annotations

import datetime
import ipaddress
import logging
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gossamer.errors import GossamerError
from gossamer.peers.boundary import boundary_of
from gossamer.peers.certificates import days_left, key_fingerprint_in
from gossamer.peers.changes import accepted, joining, neighbours_of, verifier
from gossamer.peers.compared import words_of
from gossamer.peers.config import Plan, PrivacyPlan
from gossamer.peers.credentials import read_credentials, read_identities
from gossamer.peers.dials import addresses_of
from gossamer.peers.journal import Journal, Snapshot
from gossamer.peers.journal_copy import InMemory, look_into
from gossamer.peers.journal_place import check_place
from gossamer.peers.logs import check_log, log
from gossamer.peers.membership import Change, History
from gossamer.peers.own_words import in_file
from gossamer.peers.pair_keys import PartyPairs, agree_on_keys, partners_keys, secret_of
from gossamer.peers.party import check_used
from gossamer.peers.starting import check_rounds, memory_of, open_journal, place_of_records, read_records
from gossamer.peers.status import read_statuses
from gossamer.peers.versions import Places
from gossamer.privacy import PrivateBoundary, Unproved
from gossamer.privacy.laws import law_named

SOON = 30  # days before a certificate's end that are worth a word
LOCAL = ("localhost",)
Found = TypeVar("Found")


class Declared(NamedTuple):
    """What was found, by name, in order; what must be mended before a start; what its owner may not expect."""

    facts: dict[str, Any]
    mend: list[str]
    warnings: list[str]


def refuse_without_word(privacy: PrivacyPlan, where: Path, not_private: bool) -> None:
    """A run that claims no privacy needs its owner's word: the folder may be somebody else's."""
    if privacy.epsilon is None and not not_private:
        raise GossamerError(
            f"{where} has no budget, so nothing that it sends would be private: put epsilon = 1.0, or what you choose, "
            "into [privacy] of its party.toml, or say --not-private."
        )


def refuse_open_keys(plan: Plan) -> None:
    """Keys that others can read end a start, as they do with ssh: whoever has one is that party."""
    for sentence in _open_keys(plan):
        raise GossamerError(sentence)


def _open_keys(plan: Plan) -> Iterator[str]:
    party = plan.config.party
    for name in (party.key, *([party.secret] if plan.secrets is not None else [])):
        path = plan.folder / name
        open_to = _open_to(path)
        if open_to:
            yield f"{path} can be read by {open_to}, and a key must be its owner's alone: chmod 600 {path}."


def _open_to(path: Path) -> str:
    """Who else may read or change a file; "" where nobody can, or it is not there.

    A file of another owner, such as root's, which this one's group may read, is how a key is given to a service.
    """
    if os.name != "posix" or not path.exists():
        return ""
    about = path.stat()
    mode = stat.S_IMODE(about.st_mode)
    if mode & 0o007:
        return f"everybody here (mode {mode:o})"
    given = 0o040 if about.st_uid != os.geteuid() else 0
    return f"its group (mode {mode:o})" if mode & 0o070 & ~given else ""


def stated(plan: Plan, boundary: PrivateBoundary | Unproved, tells: Sequence[int]) -> dict[str, Any]:
    """What a run states of itself when it starts; `tells` are the learners that its messages go to."""
    private, party, own = isinstance(boundary, PrivateBoundary), plan.config.party, plan.config.privacy
    about: dict[str, Any] = {"claim": boundary.claim, "private": private}
    if isinstance(boundary, PrivateBoundary):
        about |= {
            "budget": own.epsilon, "delta": own.delta if law_named(own.law).needs_delta else 0.0,
            "against": boundary.mechanism.against, "horizon": own.horizon or plan.config.run.steps,
            "law": own.law, "where": own.where,
        }  # fmt: skip
    metrics = "nowhere" if party.metrics is None else f"{party.metrics}, for {reach_of(party.metrics)}"
    return about | {
        "fingerprint": words_of(plan), "agreement": plan.agreement,
        "listen": "nowhere" if party.listen is None else f"{party.listen}, for {reach_of(party.listen)}",
        "metrics": metrics,
        "leaves": list(_leaves(plan, private, tells)),
    }  # fmt: skip


def reach_of(address: str) -> str:
    """Who can come to a place to listen at."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        known = ipaddress.ip_address(host)
    except ValueError:
        return "this machine alone" if host in LOCAL else f"whoever reaches {host}"
    if known.is_loopback:
        return "this machine alone"
    return "whoever reaches this machine" if known.is_unspecified else f"whoever reaches {host}"


def _leaves(plan: Plan, private: bool, tells: Sequence[int]) -> Iterator[str]:
    """What leaves the machine, and to whom."""
    party, privacy = plan.config.party, plan.config.privacy
    listeners = ", ".join(map(str, tells))
    noise = "with noise" if privacy.where == "messages" else "made of gradients with noise"
    unproved = "WITHOUT NOISE" if privacy.simulated is None else "with seeded noise, which hides nothing"
    yield f"every round's messages, {noise if private else unproved}, to learners {listeners}"
    yield "what the graph gives, rounds, acknowledgements, settings that all share and its release, to its neighbours"
    yield "outcome.npz, when its owner hands it on"
    if party.metrics is not None and reach_of(party.metrics) != "this machine alone":
        yield f"rounds, bytes, waiting and ε, to {reach_of(party.metrics)} (metrics)"
    if party.show_errors and party.metrics is not None:
        yield f"loss and score on own records, NOT noised, to {reach_of(party.metrics)} (show_errors)"


def declare(plan: Plan, not_private: bool = False) -> Declared:
    """All of it, of a folder that was not started yet; `not_private` is the owner's word."""
    run, party = plan.config.run, plan.config.party
    facts: dict[str, Any] = {"learner": plan.learner, "learners": run.learners, "run": run.id}
    mend, warnings = list(_open_keys(plan)), list(_warnings(plan))

    def attempt(what: Callable[[], Found]) -> Found | None:
        """What a start would refuse is said once, and the rest is looked at all the same."""
        try:
            return what()
        except GossamerError as error:
            said = error.said(in_file)
            mend.extend([] if said in mend else [said])
        return None

    pairs = PartyPairs(plan.learner) if plan.secrets is not None else None
    attempt(lambda: refuse_without_word(plan.config.privacy, plan.folder, not_private))
    attempt(lambda: check_log(plan.folder / "log.jsonl"))
    attempt(lambda: check_place(plan.folder / party.journal))
    boundary = attempt(lambda: boundary_of(plan, plan.algorithm(), plan.model(), pairs))
    attempt(lambda: None if boundary is None else memory_of(plan, plan.model(), boundary))
    found = attempt(lambda: None if boundary is None else _journal(plan, boundary, warnings))
    journal, now = (None, None) if found is None else found
    history = History(plan.network)  # and if it joins a run that has begun, what lies in its folder
    attempt(lambda: history.changes.extend(_changes(plan, journal)))
    facts |= attempt(lambda: {} if boundary is None else stated(plan, boundary, _linked(plan, history)[1])) or {}
    facts |= attempt(lambda: _certificate(plan, warnings)) or {}
    attempt(lambda: _check_secret(plan, journal))
    facts |= attempt(lambda: _neighbours(plan, history)) or {}
    facts |= attempt(lambda: _records(plan, boundary, now, history, warnings)) or {}
    if plan.config.privacy.epsilon is None:
        warnings.insert(0, "NOT PRIVATE: [privacy] has no epsilon, and what is sent can show records.")
    if journal is not None:
        journal.close()
    return Declared(facts, mend, warnings)


def _journal(
    plan: Plan, boundary: PrivateBoundary | Unproved, warnings: list[str]
) -> tuple[Journal, Snapshot | None] | None:
    """The journal as a start would find it, and its newest round; refuses one that a start would."""

    def look() -> tuple[Journal, Snapshot | None]:
        journal = open_journal(plan, boundary, InMemory)
        try:  # all at one time: the files beside it are those of whoever runs
            now = journal.latest()
            if now is not None and not journal.delivered:
                journal.messages()
        except GossamerError:
            journal.close()
            raise
        return journal, now

    found = look_into(plan.folder / plan.config.party.journal, look)
    if found is None:
        warnings.append("A learner that runs is writing to the journal, which could not be looked through.")
    return found


def _certificate(plan: Plan, warnings: list[str]) -> dict[str, Any]:
    """Whose certificate it is, and until when; refuses what a start would."""
    party = plan.config.party
    own, identities = read_credentials(plan)
    left = days_left(own.certificate)
    until = f"{datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=left):%Y-%m-%d}"
    if left < SOON:
        warnings.append(f"The certificate ends on {until}: have it renewed (gossamer party renew).")
    if not identities.is_signed(own.certificate):
        warnings.append("No authority of today has signed the certificate: neighbours take it if they list it.")
    keys = "its own and all others' are in the words" if party.members else "whatever the run's authority has signed"
    return {"certificate": f"until {until}", "key": key_fingerprint_in(own.certificate)[:16], "keys": keys}


def _check_secret(plan: Plan, journal: Journal | None) -> None:
    """Refuse keys of shared noise that a start would refuse, and move nothing."""
    if plan.secrets is None:
        return
    public = partners_keys(plan, read_credentials(plan).identities, plan.read(plan.config.party.partners))
    if journal is not None and not journal.delivered:  # after that nothing is drawn
        agree_on_keys(plan, secret_of(plan, journal), public)


def _changes(plan: Plan, journal: Journal | None) -> list[Change]:
    """What was accepted, and the documents with which a party joins; refuses those that a start would."""
    verify = verifier(plan, lambda: read_identities(plan))
    if journal is None:
        return [change for _, change in joining(plan, verify, plan.algorithm())]
    return accepted(journal, plan, verify, plan.algorithm())


def _linked(plan: Plan, history: History) -> tuple[list[int], list[int]]:
    """Whom it hears, and who hears it; nobody as long as no document lets it join."""
    there = plan.learner < plan.config.run.learners or plan.learner in history.members
    return Places(plan.learner, plan.algorithm(), history).neighbours() if there else ([], [])


def _neighbours(plan: Plan, history: History) -> dict[str, Any]:
    """Where the others are; refuses links that cannot be opened."""
    neighbours, (hears, tells) = neighbours_of(plan, history), _linked(plan, history)
    addresses_of(plan.learner, plan.config.party.listen, neighbours, tells, hears)
    return {"neighbours": {j: one.address for j, one in neighbours.items() if one.address is not None}}


def _records(
    plan: Plan,
    boundary: PrivateBoundary | Unproved | None,
    now: Snapshot | None,
    history: History,
    warnings: list[str],
) -> dict[str, Any]:
    """The records as a start would read them: all in the schema, enough, and those that were used before."""
    data, run, first = plan.config.data, plan.config.run, history.first_round(plan.learner)
    path, silent = place_of_records(plan), logging.NullHandler()
    log.addHandler(silent)  # what is clipped is said here
    try:
        records = read_records(plan)
    finally:
        log.removeHandler(silent)
    if records.clipped:
        listed = ", ".join(f"{n} of {name}" for name, n in sorted(records.clipped.items()))
        warnings.append(f"Values outside of their ranges are clipped: {listed}.")
    if boundary is not None:
        check_rounds(plan, boundary, records)
    if now is not None and records.here(first):
        check_used(plan.learner, records, now, min(now.round, history.end_of(plan.learner, run.steps) - 1))
    if data.path == "-":
        return {"records": "from standard input"}
    if data.follow and not path.exists():
        warnings.append(
            f"It waits for records before it listens: {path} is not there. Put it there, or mend [data] path."
        )
        return {"records": f"none yet: {path} is followed when it comes"}
    needed = (first + 1) * run.per_round
    if data.follow and len(records) < needed:
        warnings.append(f"It waits for records before it listens: {needed} are needed, {len(records)} are there.")
    if not data.follow:
        warnings.extend(_unread(plan, len(records)))
    return {"records": f"{len(records)} in {path}, of {run.steps} rounds of {run.per_round}"}


def _unread(plan: Plan, held: int) -> Iterator[str]:
    """Records of a file that does not grow which no round takes, and what would take them: all parties agree on it."""
    run = plan.config.run
    held = min(held, plan.config.data.records or held)  # what an owner has left out is left out
    if held > run.steps * run.per_round:
        yield (
            f"{held - run.steps * run.per_round} of the {held} records are never used: {run.steps} rounds take "
            f"{run.per_round} each. All are used with per_round = {-(-held // run.steps)}, or in "
            f"{-(-held // run.per_round)} rounds, which all parties must agree on."
        )


def _warnings(plan: Plan) -> Iterator[str]:
    """What a start allows, and its owner may not expect."""
    party, privacy = plan.config.party, plan.config.privacy
    if privacy.simulated is not None:
        yield "[privacy] simulated is seeded noise: whoever has the seed takes it away."
    if party.metrics is not None and reach_of(party.metrics) != "this machine alone":
        yield f"[party] metrics = {party.metrics!r} is for {reach_of(party.metrics)}; 127.0.0.1 keeps it here."
    if party.show_errors:
        yield "[party] show_errors puts errors on own records into /metrics, not noised: ε does not cover them."
    for what, name in {"journal": party.journal, "key": party.key, "secret": party.secret}.items():
        path = plan.folder / name
        if not path.resolve().is_relative_to(plan.folder.resolve()):
            yield f"[party] {what} is {path.resolve()}, outside of this folder: whoever reads it there sees all."
    if plan.config.party.durability != "power" and privacy.epsilon is not None:
        yield '[party] durability = "process": after a power cut a round may be drawn twice, which releases it twice.'
    for j in sorted(j for j, neighbour in plan.config.neighbours.items() if not neighbour.believe):
        yield (
            f"[neighbours.{j}] believe = false: its word that this journal is old would be passed over, and only this "
            "party's owner can know that it is not."
        )
    if ":" in plan.config.run.method:
        yield f"[run] method = {plan.config.run.method!r} runs a module of that name on this machine: read it first."
    before = next((one.get("budget") for one in read_statuses(plan.folder)), None)
    if before is not None and before != privacy.epsilon and (plan.folder / party.journal).exists():
        yield f"The journal has begun with ε = {before:g}: once anything was sent, a start with another one is refused."
    data = plan.config.data
    private = {"the folder": plan.folder, "the journal": plan.folder / party.journal}
    private |= {"the file of records": plan.folder / data.path} if data.path != "-" else {}
    for what, path in private.items():
        open_to = _open_to(path)
        if open_to and (path == plan.folder or _open_to(plan.folder) or path.parent.resolve() != plan.folder.resolve()):
            yield f"{what} can be read by {open_to}: chmod go-rwx {path}."
