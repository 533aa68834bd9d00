"""What a party hands over to be let into a run: its public keys and its address, signed with its own key.

    {"document": {"kind": "request", "run": "", "name": "north", "address": "north.example.org:7400",
                  "made": "2026-11-19T12:00:00Z", "key": "3059…", "secret": "9f3a…", "before": []},
     "signatures": [{"by": "party", "value": "…"}]}

`key` is its P-256 key, SubjectPublicKeyInfo in hexadecimal, and the signature is that key's: whoever sends the request
has it. `secret` is its X25519 key for noise that cancels, null in a renewal. `before` are the words of the keys that it
had before (gossamer.peers.succession); a first request has none.

**A request is no secret.** Who steals one has public keys, a name and an address. Who sends an old one again has a
certificate made for a key that is not his. Who exchanges one on its way gets a certificate for a key of his own: then
what comes back is not for the party's key, and it says so; or all of it was exchanged, and the words differ
(gossamer.peers.compared).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from gossamer.errors import BadValue, GossamerError
from gossamer.peers.addresses import host_of
from gossamer.peers.certificates import Pair, key_pem
from gossamer.peers.parsed import public_key_in
from gossamer.peers.signed import Signed, read_signed
from gossamer.peers.spoken import slow_digest, spoken
from gossamer.peers.succession import Steps, check_succession, der_of, key_fingerprint, parsed_steps

KIND, BY = "request", "party"
SALT, BYTES = b"gossamer request in words 1", 8  # nobody finds another request of the same words: 2^64 slow tries
LONGEST = 64  # letters of a name


class Request(NamedTuple):
    """One that was read, and is signed by the key that it asks for."""

    signed: Signed
    name: str
    address: str | None  # where the others reach it
    made: str
    key: ec.EllipticCurvePublicKey
    secret: X25519PublicKey | None
    before: Steps
    keys: list[str]  # fingerprints: of its key, and of those before

    @property
    def first(self) -> bool:
        """Whether it asks to be let in: a request to renew has no key for shared noise, which the run has already."""
        return self.secret is not None

    @property
    def words(self) -> str:
        """To be compared by telephone, where somebody wants to know at once that nobody has exchanged it."""
        return spoken(slow_digest(dict(self.signed.document), SALT, BYTES))


def make_request(
    key: ec.EllipticCurvePrivateKey, secret: X25519PublicKey | None, name: str, address: str | None, before: Steps = ()
) -> Request:
    if not _is_name(name):
        raise BadValue("name", name, f"expected 1 to {LONGEST} letters")
    try:
        if address is not None:
            host_of(address)
    except ValueError:
        raise BadValue("address", address, "expected HOST:PORT, such as north.example.org:7400") from None
    document = {
        "kind": KIND, "run": "", "name": name, "address": address,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "key": der_of(key.public_key()).hex(),
        "secret": None if secret is None else secret.public_bytes_raw().hex(), "before": [list(one) for one in before],
    }  # fmt: skip
    return check_request(Signed(document).signed_by(Pair(key_pem(key), b""), BY), "the request")


def read_request(path: Path) -> Request:
    return check_request(read_signed(path), str(path))


def check_request(signed: Signed, what: str) -> Request:
    """What a signed document asks for; refuses what its own key has not signed."""
    given: Mapping[str, Any] = signed.document
    try:
        if (given["kind"], given["run"]) != (KIND, ""):
            raise ValueError("it is of another kind")
        key = public_key_in(bytes.fromhex(given["key"]))
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
            raise ValueError("its key is not of P-256")
        if not any(one.get("by") == BY and signed.holds(one, key) for one in signed.signatures):
            raise ValueError("its own key has not signed it: it was changed")
        shared = given["secret"]
        secret = None if shared is None else X25519PublicKey.from_public_bytes(bytes.fromhex(shared))
        before = parsed_steps(given["before"])
        name, address, made = given["name"], given["address"], given["made"]
        if not _is_name(name):
            raise ValueError(f"its name must have 1 to {LONGEST} letters")
        if address is not None:
            host_of(address)
        if not isinstance(made, str) or len(made) > LONGEST or not made.isprintable():
            raise ValueError("its date is none")
    except (ValueError, KeyError, TypeError) as error:
        raise GossamerError(
            f"{what} is no request of a party ({error}): take the file that 'gossamer party new' has made."
        ) from None
    keys = [key_fingerprint(key), *check_succession(before, key)]
    return Request(signed, name, address, made, key, secret, before, keys)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= LONGEST and name.isprintable()
