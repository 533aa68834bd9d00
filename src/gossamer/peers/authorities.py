"""Who signs certificates in a run, when one authority follows another: documents authority-1.json, authority-2.json, …

    {"kind": "authority", "run": "…", "number": 1, "certificate": "-----BEGIN …", "until": "2027-03-01"}

Each is signed by the authority that it follows, or by all learners where that one's key is lost. Until the end of the
day `until` (UTC) both count, so that parties can have new certificates signed one after another; then whoever came
before counts no more. A next document may end that sooner: its `until` holds for all before it.

The words that parties have compared stay the same: they have the first authority's key in them, from which all others
follow. Numbers have no gaps, so that nobody whose turn is over can name another one: that number is taken.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from gossamer.errors import GossamerError
from gossamer.peers.certificates import Identities, Pair, check_days, make_authority
from gossamer.peers.key_files import CERTIFICATE, write_pair
from gossamer.peers.parsed import certificate_in
from gossamer.peers.signed import Signed, read_signed

KIND = "authority"


class Step(NamedTuple):
    """An authority that follows, and the last day of those before."""

    certificate: bytes
    until: datetime.date


def path_of(folder: Path, number: int) -> Path:
    return folder / f"authority-{number}.json"


def step_document(run: str, number: int, certificate: bytes, until: datetime.date) -> Signed:
    return Signed(
        {"kind": KIND, "run": run, "number": number, "certificate": certificate.decode(), "until": until.isoformat()}
    )


def documents_in(folder: Path) -> Iterator[tuple[Path, Signed]]:
    """In their order, as far as there is no gap."""
    number = 1
    while (path := path_of(folder, number)).exists():
        yield path, read_signed(path)
        number += 1


def follow(folder: Path, run: str, first: bytes, learners: Identities, m: int, today: datetime.date) -> list[bytes]:
    """The certificates of all authorities that count today, the newest last; refuses a document without its signature.

    `learners` says who is who where all of them have signed.
    """
    found, ends = [first], [datetime.date.max]
    for number, (path, signed) in enumerate(documents_in(folder), 1):
        signed.check(KIND, run, found[-1], learners, range(m))
        step = _step(signed, number, path)
        if _name(step.certificate) in map(_name, found):  # TLS looks for who has signed by name, and tries one
            raise GossamerError(f"{path} names an authority of the same subject as one before: make it with another.")
        ends = [min(end, step.until) for end in ends]
        found.append(step.certificate)
        ends.append(datetime.date.max)
    return [one for one, end in zip(found, ends, strict=True) if today <= end]


def _name(certificate: bytes) -> x509.Name:
    return certificate_in(certificate).subject


def _step(signed: Signed, number: int, path: Path) -> Step:
    try:
        if signed.document["number"] != number:
            raise ValueError(f"its number is {signed.document['number']!r:.40}")
        certificate = str(signed.document["certificate"]).encode()
        shown = certificate_in(certificate)
        if not shown.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            raise ValueError("its certificate is no authority's")
        if not isinstance(shown.public_key(), ec.EllipticCurvePublicKey):
            raise ValueError("its key is of another kind")
        return Step(certificate, datetime.date.fromisoformat(str(signed.document["until"])))
    except (ValueError, KeyError, TypeError, x509.ExtensionNotFound) as error:
        raise GossamerError(f"{path} names no authority ({error}): take it from whoever signed it.") from None


def rotate(study: Path, run: str, m: int, first: bytes, signer: Pair | None, to: Path, overlap: int, days: int) -> Path:
    """Make an authority that follows, where there is none yet at `to`, and the document that names it."""
    check_days("overlap", overlap)
    today = datetime.datetime.now(datetime.UTC).date()
    trusted = follow(study, run, first, Identities(first), m, today)
    if signer is not None and signer.certificate != trusted[-1]:
        raise GossamerError("that authority was followed by another one: give the newest, --authority FOLDER.")
    number = 1 + sum(1 for _ in documents_in(study))
    if not (to / CERTIFICATE).exists():
        write_pair(to, make_authority(f"{run.partition(':')[0]}, authority {number + 1}", days))
    until = today + datetime.timedelta(days=overlap)
    path = path_of(study, number)
    signed = step_document(run, number, (to / CERTIFICATE).read_bytes(), until)
    step = _step(signed, number, path)
    if _name(step.certificate) in map(_name, trusted):
        raise GossamerError(f"{to} is an authority of the same subject as one before: give a folder for a new one.")
    (signed if signer is None else signed.signed_by(signer)).save(path)
    return path
