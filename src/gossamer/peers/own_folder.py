"""A party's own folder, made on its own machine: its keys are made here and never leave.

    party new     key.pem, secret.pem (mode 600 from the first byte), and request.json, which is handed over
    party join    the rest, from the file that comes back: certificate, agreement, graph, everybody's certificates
    party renew   another request: for the same key, or for a new one, which the old one hands on to

A file with which a party joins has a certificate, too: where it has joined already, that is taken as a renewed one.

What comes back is not trusted with anything that is the party's own: [party] is written here, so that the journal, the
keys and /metrics are where this folder has them; of [neighbours] addresses alone are taken. [privacy] and [data] are
taken as what others propose, and shown.
"""

from __future__ import annotations

import datetime
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.peers.addresses import listen_at
from gossamer.peers.bundle import Bundle
from gossamer.peers.certificates import (
    Pair,
    check_pair,
    key_fingerprint_in,
    key_pem,
    members_in,
    name_of,
    shared_key_in,
    signing_key,
)
from gossamer.peers.config import DataPlan, Neighbour, PartyPlan, Plan, read_config, to_toml
from gossamer.peers.credentials import read_identities
from gossamer.peers.key_files import AUTHORITY, CERTIFICATE, KEY, MEMBERS, SECRET
from gossamer.peers.pair_keys import check_own_secret, read_secret
from gossamer.peers.parsed import certificate_in
from gossamer.peers.request import Request, make_request, read_request
from gossamer.peers.succession import Steps, handed_on, key_fingerprint, steps_in

REQUEST, RENEWAL = "request.json", "renewal.json"
GRAPH = "graph.json"
NEW_KEY = "key-new.pem"  # until its certificate is there


def new_folder(folder: Path, name: str, address: str | None) -> Request:
    """Make a party's keys and its request."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise GossamerError(f"{folder} exists already: give a new folder.")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise GossamerError(f"{folder} cannot be made ({error.strerror}): give another place.") from None
    key, secret = ec.generate_private_key(ec.SECP256R1()), X25519PrivateKey.generate()
    request = make_request(key, secret.public_key(), name, address)
    replace_file(folder / KEY, key_pem(key), private=True)
    replace_file(folder / SECRET, key_pem(secret), private=True)
    request.signed.save(folder / REQUEST)
    return request


def renew(folder: Path, new_key: bool) -> Request:
    """A request for another certificate, for the same key or for one that it hands on to."""
    party = read_config(folder).config.party
    own, name, address = folder / party.key, name_of(party.learner), None
    if (folder / REQUEST).exists():  # of a party that has enrolled
        before = read_request(folder / REQUEST)
        name, address = before.name, before.address
    key, steps = _own_key(own), _steps(folder / party.certificate)
    if new_key:
        fresh = ec.generate_private_key(ec.SECP256R1())
        replace_file(folder / NEW_KEY, key_pem(fresh), private=True)  # and that of a request that was not sent
        key, steps = fresh, handed_on(steps, key, fresh.public_key())
    request = make_request(key, None, name, address, steps)
    request.signed.save(folder / RENEWAL)
    return request


def _steps(path: Path) -> Steps:
    """The words of the keys before the present one, which are in its certificate."""
    try:
        return steps_in(certificate_in(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise GossamerError(f"{path} cannot be read ({error}): put back this party's certificate.") from None


def _own_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        return signing_key(path.read_bytes(), str(path))
    except OSError as error:
        raise GossamerError(
            f"{path} cannot be read ({error.strerror}), and nobody else has this key: put it back, or be put out and "
            "join as a new party ('gossamer party new')."
        ) from None


def join(folder: Path, bundle: Bundle) -> Plan:
    """Lay out a folder from what has come back, ready for a start; refuses what is not for this party's keys."""
    if has_joined(folder):
        raise GossamerError(
            f"{folder} has joined already: for a new certificate give the file that 'peers sign' made for a renewal, "
            "and for another run a folder of its own ('gossamer party new')."
        )
    if not (folder / REQUEST).exists():
        raise GossamerError(f"{folder} has no {REQUEST}: give the folder that 'gossamer party new' has made.")
    request = read_request(folder / REQUEST)
    if key_fingerprint(_own_key(folder / KEY).public_key()) != request.keys[0]:
        raise GossamerError(f"{folder / REQUEST} is not of {folder / KEY}: put back the two that belong together.")
    with tempfile.TemporaryDirectory(dir=folder, prefix=".joining-") as there:
        place = Path(there)
        plan = _laid_out(bundle, place)
        if plan.config.run.graph != GRAPH:
            raise GossamerError(f"the file has its graph in {plan.config.run.graph!r}, expected {GRAPH!r}: ask again.")
        # before anything else is read: what the file says of [party] could name any file of this machine
        config = msgspec.structs.replace(plan.config, **_own_tables(plan, request, MEMBERS in bundle.files))
        _check(Plan(config, place), folder, bundle, request.secret)
        for name in bundle.files:
            if name != "party.toml":
                (folder / name).parent.mkdir(exist_ok=True)
                os.replace(place / name, folder / name)
    replace_file(folder / "party.toml", to_toml(config).encode())
    return read_config(folder)


def _laid_out(bundle: Bundle, place: Path) -> Plan:
    """What a file with which a party joins says, as it says it."""
    for name, text in bundle.files.items():
        replace_file(place / name, text.encode())
    return read_config(place)


def has_joined(folder: Path) -> bool:
    return (folder / "party.toml").exists()


def _check(plan: Plan, folder: Path, bundle: Bundle, secret: X25519PublicKey | None) -> None:
    """Refuse a bundle that is another's, or in which this party is not who it is."""
    certificate, authority = bundle.files[CERTIFICATE].encode(), bundle.files[AUTHORITY].encode()
    _refuse_other_key(folder / KEY, bundle)
    check_pair(Pair((folder / KEY).read_bytes(), certificate))
    begins = plan.learner < plan.config.run.learners  # and does not join one that has begun
    if begins and MEMBERS not in bundle.files:
        raise GossamerError("the file has no certificates of the others: ask for the one that 'peers sign' has made.")
    members = members_in(bundle.files[MEMBERS].encode(), authority) if begins or MEMBERS in bundle.files else {}
    expected = set(range(plan.config.run.learners))
    if set(members) != expected and (begins or members):
        raise GossamerError(
            f"the file has certificates of learners {sorted(members)}, expected 0 to {max(expected)}: let the one who "
            "signed them sign all requests together."
        )
    shown = read_identities(plan).whose(certificate)
    if not shown == plan.learner == bundle.learner:
        raise GossamerError(
            f"the file is for learner {bundle.learner}, and its certificate for {shown}: ask for this party's own."
        )
    if plan.secrets is not None:
        private = read_secret(folder / SECRET)
        if private is None:
            raise GossamerError(f"{folder / SECRET} is not there: put back the one that 'gossamer party new' has made.")
        check_own_secret(plan, private, folder / SECRET)
        if secret is None or shared_key_in(certificate, "this party").public_bytes_raw() != secret.public_bytes_raw():
            raise GossamerError("the certificate has another key for shared noise than was asked for: ask again.")


def _refuse_other_key(path: Path, bundle: Bundle) -> None:
    """Several such files lie in one folder, and it is easily another party's."""
    if key_fingerprint_in(bundle.files[CERTIFICATE].encode()) != key_fingerprint(_own_key(path).public_key()):
        raise GossamerError(
            f"the file is learner {bundle.learner}'s, and was made for another key than {path}: ask for the one that "
            "'peers sign' has made for this party's request."
        )


def _own_tables(plan: Plan, request: Request, enrolled: bool) -> dict[str, Any]:
    """[party], [data] and [neighbours], of which only numbers and addresses are others' to say."""
    given = plan.config
    listen = given.party.listen if request.address is None else listen_at(request.address)
    members: dict[str, Any] = {"members": MEMBERS, "partners": MEMBERS} if enrolled else {}
    party = PartyPlan(learner=plan.learner, listen=listen, **members)
    data = DataPlan(path="records.csv", records=given.data.records, follow=given.data.follow)
    neighbours = {j: Neighbour(address=one.address) for j, one in given.neighbours.items()}
    return {"party": party, "data": data, "neighbours": neighbours}


def take_certificate(folder: Path, bundle: Bundle) -> None:
    """Put a renewed certificate into a folder that has joined; a learner that runs takes it within seconds."""
    if not has_joined(folder) and (folder / REQUEST).exists():
        raise GossamerError(
            f"the file has a renewed certificate alone, and {folder} has not joined a run: let whoever signs give "
            f"'gossamer peers sign' {folder / REQUEST} once more, and take the file that it makes."
        )
    plan, certificate = read_config(folder), bundle.files[CERTIFICATE].encode()
    party = plan.config.party
    kept, fresh = folder / party.key, folder / NEW_KEY
    key = fresh if fresh.exists() and _fits(fresh, certificate) else kept
    _refuse_other_key(key, bundle)
    if bundle.kind == "joins":
        _refuse_no_renewal(folder, plan, bundle)
    check_pair(Pair(key.read_bytes(), certificate))
    if read_identities(plan).whose(certificate) != plan.learner:
        raise GossamerError(f"the certificate is not learner {plan.learner}'s of this run: ask for this party's own.")
    if plan.secrets is not None:
        check = shared_key_in(certificate, "this party").public_bytes_raw()
        if check != shared_key_in(plan.read(party.certificate), "this party").public_bytes_raw():
            raise GossamerError("the certificate has another key for shared noise than the run has agreed on.")
    if key is fresh:  # first the key: whoever reads in between sees two that do not fit, and looks again
        os.replace(fresh, kept)
    replace_file(folder / party.certificate, certificate)


def _refuse_no_renewal(folder: Path, plan: Plan, bundle: Bundle) -> None:
    """A file with which a party joins was made for its first request: it may be another run's, or an old one."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".joining-") as there:
        named = _laid_out(bundle, Path(there)).run_name
    if named != plan.run_name:
        raise GossamerError(
            f"{folder} has joined run {plan.run_name}, and the file is of run {named}: make a folder of its own for "
            "another run ('gossamer party new')."
        )
    kept, comes = plan.read(plan.config.party.certificate), bundle.files[CERTIFICATE].encode()
    if comes == kept or _made(comes) < _made(kept):
        raise GossamerError(
            f"{folder} has joined already, and the file's certificate is {'the same' if comes == kept else 'older'}: "
            "nothing was taken; for a new one: gossamer party renew."
        )


def _made(certificate: bytes) -> datetime.datetime:
    try:
        return certificate_in(certificate).not_valid_before_utc
    except ValueError as error:
        raise GossamerError(f"a certificate cannot be read ({error}): ask for the file again.") from None


def _fits(key: Path, certificate: bytes) -> bool:
    try:
        check_pair(Pair(key.read_bytes(), certificate))
    except GossamerError:
        return False
    return True
