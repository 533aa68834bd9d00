"""Who a party is and whose word it takes, from the files of its folder, and again whenever they change.

A learner that runs looks every few seconds. What it finds must be fit to start with: a key and a certificate that
belong together, in its own name, valid now. Otherwise it says so and keeps what it has. Two files are not replaced at
one moment, so what does not fit is looked at a second time before it is said.

Links that stand go on when a certificate ends: it was valid when they were opened. New ones fail. So an owner is told
30, 14, 7, 3 and 1 days before, and when it has ended.
"""

from __future__ import annotations

import datetime
from typing import NamedTuple

from gossamer.errors import GossamerError
from gossamer.peers.authorities import follow
from gossamer.peers.certificates import Identities, Pair, Revoked, check_pair, days_left, members_in, shared_key_in
from gossamer.peers.config import Plan
from gossamer.peers.logs import log
from gossamer.peers.pair_keys import check_own_key
from gossamer.peers.revocation import ACCEPTED, FILE, KIND, keep_accepted, list_in, newer_list, read_accepted

LOOK = 3.0  # seconds between two looks
DAYS = (30, 14, 7, 3, 1)  # before its end a certificate's owner is told


class Credentials(NamedTuple):
    """A party's key and certificate, which belong together and are valid now; and who everybody else is."""

    own: Pair
    identities: Identities


def read_credentials(plan: Plan, keep: bool = False) -> Credentials:
    """From the folder as it is now; refuses what could not be used. `keep` a new list of revoked certificates."""
    party = plan.config.party
    own = Pair(plan.read(party.key), plan.read(party.certificate))
    check_pair(own)
    if plan.secrets is not None:
        check_own_key(plan, shared_key_in(own.certificate, "this party"))
    identities = read_identities(plan, keep)
    if identities.is_signed(own.certificate) and identities.named(own.certificate) != plan.learner:
        raise GossamerError(
            f"{plan.folder / party.certificate} is not learner {plan.learner}'s of this run: have the right one "
            "signed, or put the old one back."
        )
    return Credentials(own, identities)


def read_identities(plan: Plan, keep: bool = False) -> Identities:
    """Who is who: by the authorities of today, the certificates of all who have enrolled, and what was revoked."""
    party, m = plan.config.party, plan.config.run.learners
    first = plan.read(party.authority)
    brought = {int(j): one.certificate for j, one in plan.config.neighbours.items() if one.certificate is not None}
    pinned = {j: plan.read(name) for j, name in brought.items()}
    members = {} if party.members is None else members_in(plan.read(party.members), first)
    enrolled = Identities(first, pinned, members)
    today = datetime.datetime.now(datetime.UTC).date()
    authorities = follow(plan.folder, plan.run_name, first, enrolled, m, today)
    revoked = _revoked(plan, authorities, enrolled, keep)
    return Identities(b"\n".join(authorities), pinned, members, revoked)


def _revoked(plan: Plan, authorities: list[bytes], enrolled: Identities, keep: bool) -> Revoked:
    """What the newest list says that was ever here."""
    accepted = read_accepted(plan.folder)
    newer = newer_list(plan.folder, accepted)
    if newer is None:
        return accepted.revoked
    newer.check_by_any(KIND, plan.run_name, authorities, enrolled, range(plan.config.run.learners))
    if keep:
        keep_accepted(plan.folder, newer)
    return list_in(newer, FILE).revoked


class CredentialsWatch:
    """What a learner uses at this moment, and whether its folder has something else by now."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.now = read_credentials(plan, keep=True)
        self._pinned = not self.now.identities.is_signed(self.now.own.certificate)  # others know it by its bytes
        self._seen = self._files()
        self._doubted: tuple[bytes, ...] | None = None
        self._told: float | None = None  # of which number of days its owner was told
        self.problem = ""  # why what is in the folder is not used

    @property
    def days_left(self) -> float:
        return days_left(self.now.own.certificate)

    def look(self) -> Credentials | None:
        """Other credentials, where the folder has some that are good; to be asked every few seconds."""
        self._tell_end()
        try:
            files = self._files()
        except OSError:  # too many are open, or one is just replaced: what counts goes on counting, until the next look
            return None
        if files == self._seen:
            return None
        try:
            found = read_credentials(self._plan, keep=True)
            self._check_name(found)
        except GossamerError as error:
            if files == self._doubted:  # two files are not replaced at one moment
                self._seen, self.problem = files, str(error)
                log.error("credentials not taken", extra={"why": str(error)})
            self._doubted = files
            return None
        self._seen, self._doubted, self.problem = self._files(), None, ""
        if found.own != self.now.own:
            self._told = None
        self.now = found
        log.info("credentials renewed", extra={"days_left": round(self.days_left, 1)})
        if found.identities.whose(found.own.certificate) is None and not self._pinned:
            log.error("own certificate revoked", extra={"why": "the others take it no more; ask for another"})
        return found

    def _check_name(self, found: Credentials) -> None:
        """Refuse a certificate of another learner, or one that the run's authority has not signed, unless none was."""
        whose, learner = found.identities.whose(found.own.certificate), self._plan.learner
        same = found.own.certificate == self.now.own.certificate
        if whose != learner and not (same or (whose is None and self._pinned)):
            raise GossamerError(
                f"{self._plan.folder / self._plan.config.party.certificate} is not learner {learner}'s of this run: "
                "have the right one signed, or put the old one back."
            )

    def _files(self) -> tuple[bytes, ...]:
        """All that credentials are made of, and the day, with which authorities come to their end."""
        plan, party = self._plan, self._plan.config.party
        listed = [party.key, party.certificate, party.authority, *([party.members] if party.members else [])]
        listed += [one.certificate for one in plan.config.neighbours.values() if one.certificate is not None]
        paths = [*(plan.folder / name for name in listed), plan.folder / FILE, plan.folder / ACCEPTED]
        steps = sorted(plan.folder.glob("authority-*.json"))
        today = datetime.datetime.now(datetime.UTC).date().isoformat() if steps else ""
        return (today.encode(), *(path.read_bytes() if path.exists() else b"" for path in [*paths, *steps]))

    def _tell_end(self) -> None:
        """Once for each number of days."""
        left = self.days_left
        told = next((days for days in (0, *reversed(DAYS)) if left <= days), None)
        if told is None or (self._told is not None and told >= self._told):
            return
        self._told = told
        why = "links that stand go on, and new ones fail" if left <= 0 else "have it renewed: gossamer party renew"
        log.warning(
            "certificate has ended" if left <= 0 else "certificate ends", extra={"days": round(left, 1), "why": why}
        )
