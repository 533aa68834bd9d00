"""Whose certificates count no more: a signed list that every party puts into its folder as revoked.json.

    {"kind": "revoked", "run": "…", "number": 2,
     "revoked": [{"learner": 3, "key": "9f…"}, {"learner": 5, "serial": "4a…"}, {"learner": 7, "certificate": "c0…"}]}

A `key` takes all certificates for it along, and whatever it has handed on to (gossamer.peers.succession); a `serial`
one certificate that an authority of the run has signed; a `certificate`, by its SHA-256 in DER, any one, pinned ones
as well. The run's authority signs the list, or all learners do.

**An old list undoes nothing.** Lists are numbered, and each has all that were revoked before. The last one that was
accepted is kept beside (revoked-accepted.json), with a digest, since its signatures are not looked at again: one with a
smaller number is not taken, and one that is taken away stays in force. A list that cannot be believed ends a start:
whoever was sent it meant something with it.

What a list does not reach is a party that has not got it: it goes by files, as everything that parties agree on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.peers.certificates import Pair, Revoked
from gossamer.peers.logs import log
from gossamer.peers.signed import Signed, read_signed

KIND, FILE, ACCEPTED = "revoked", "revoked.json", "revoked-accepted.json"
NAMES = ("key", "serial", "certificate")
HEXADECIMAL = re.compile(r"[0-9a-f]+", re.ASCII)


class RevokedList(NamedTuple):
    number: int
    entries: tuple[Mapping[str, Any], ...]

    @property
    def revoked(self) -> Revoked:
        found = {name: frozenset(str(one[name]) for one in self.entries if name in one) for name in NAMES}
        serials = frozenset(int(serial, 16) for serial in found["serial"])
        return Revoked(found["certificate"], serials, found["key"])

    def with_entries(self, more: Sequence[Mapping[str, Any]]) -> RevokedList:
        return RevokedList(self.number + 1, (*self.entries, *more))

    def signed_for(self, run: str) -> Signed:
        return Signed({"kind": KIND, "run": run, "number": self.number, "revoked": [dict(e) for e in self.entries]})


NOBODY = RevokedList(0, ())


def list_in(signed: Signed, what: str) -> RevokedList:
    """What a document says, of which the signatures are not looked at."""
    try:
        number, entries = signed.document["number"], signed.document["revoked"]
        if type(number) is not int or number < 1:
            raise ValueError("its number must be 1 or more")
        for one in entries:
            named = [name for name in NAMES if name in one]
            if type(one["learner"]) is not int or len(named) != 1 or set(one) - {"learner", *NAMES}:
                raise ValueError(f"an entry has a learner and one of {', '.join(NAMES)}")
            if not HEXADECIMAL.fullmatch(one[named[0]]):  # in another form it would be another text, and revoke nothing
                raise ValueError(f"its {named[0]} must be hexadecimal, in small letters")
    except (ValueError, KeyError, TypeError) as error:
        raise GossamerError(
            f"{what} is no list of revoked certificates ({error}): take it from who signed it."
        ) from None
    return RevokedList(number, tuple(entries))


def keep_accepted(folder: Path, signed: Signed) -> None:
    """From now on this list is in force here."""
    whole = json.loads(signed.encoded()) | {"digest": signed.digest}
    replace_file(folder / ACCEPTED, (json.dumps(whole, indent=1, ensure_ascii=False) + "\n").encode())


def read_accepted(folder: Path) -> RevokedList:
    """The last list that was accepted here; refuses one that has changed since."""
    path = folder / ACCEPTED
    if not path.exists():
        return NOBODY
    signed = read_signed(path)
    if json.loads(path.read_bytes()).get("digest", signed.digest) != signed.digest:
        raise GossamerError(
            f"{path} has changed on the disk, so that nobody knows what is revoked: remove it, and accept the newest "
            "list again (gossamer peer accept)."
        )
    return list_in(signed, str(path))


def newer_list(folder: Path, accepted: RevokedList) -> Signed | None:
    """The list that was put here, not yet believed; None where it is the accepted one or older, or there is none."""
    path = folder / FILE
    if not path.exists():
        return None
    signed = read_signed(path)
    given = list_in(signed, str(path))
    if given == accepted:
        return None
    if given.number <= accepted.number:
        why = f"{path} is list {given.number}, and list {accepted.number} was accepted before: that one stays in force"
        log.warning("old list of revoked certificates", extra={"why": why})
        return None
    missing = [one for one in accepted.entries if one not in given.entries]
    if missing:
        raise GossamerError(f"{path} leaves out what list {accepted.number} has revoked: ask for one that has it all.")
    return signed


def revoke(study: Path, run: str, learner: int, what: Sequence[Mapping[str, str]], signer: Pair | None) -> Path:
    """The next list of a run: all that was revoked before and more; signed where there is a key to sign with."""
    path, before = study / FILE, NOBODY
    if path.exists():
        before = list_in(read_signed(path), str(path))
    entries = [entry for one in what if (entry := {"learner": learner, **one}) not in before.entries]
    if not entries:
        raise GossamerError(f"{path} has that already, as list {before.number}: give it to all parties.")
    signed = before.with_entries(entries).signed_for(run)
    (signed if signer is None else signed.signed_by(signer)).save(path)
    return path
