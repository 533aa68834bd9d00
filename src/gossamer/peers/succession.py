"""A party that takes a new key says so with its old one: then whoever knew the old one knows the new one.

A certificate for a key that has followed others holds their words in an extension of its own (SUCCESSION), oldest
first, as JSON: [[key, signature], …]. A key is SubjectPublicKeyInfo in DER, a signature the ECDSA with SHA-256 of that
key over PREFIX and the next key; the last one is over the certificate's own. So a party is still the one that enrolled,
and its neighbours need no file for it. The authority that signs the certificate cannot make such a word: it has not the
old key. A thief of an old key can, and needs the authority's signature, too, unless that key is revoked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gossamer.errors import GossamerError
from gossamer.peers.parsed import public_key_in

SUCCESSION = x509.ObjectIdentifier("2.25.147690646255406063061854875601672638225")  # a UUID, as X.667 allows
PREFIX = b"gossamer key succession 1\n"
MOST = 32  # keys one after another
ALGORITHM = ec.ECDSA(hashes.SHA256())
Steps = Sequence[tuple[str, str]]  # (key, signature), in hexadecimal, oldest first


def der_of(key: Any) -> bytes:
    """A public key as SubjectPublicKeyInfo."""
    der: bytes = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return der


def key_fingerprint(key: Any) -> str:
    """SHA-256 of a public key: the same when its certificate is renewed."""
    return hashlib.sha256(der_of(key)).hexdigest()


def handed_on(before: Steps, old: ec.EllipticCurvePrivateKey, new: Any) -> Steps:
    """What goes before a new key: all that went before the old one, and the old one's word."""
    return [*before, (der_of(old.public_key()).hex(), old.sign(PREFIX + der_of(new), ALGORITHM).hex())]


def check_succession(steps: Steps, last: Any) -> list[str]:
    """The fingerprints of all keys before `last`, each of which has handed on to the next; refuses any other chain."""
    try:
        if len(steps) > MOST:
            raise ValueError(f"more than {MOST} keys")
        ders = [bytes.fromhex(key) for key, _ in steps]
        for own, next_, (_, value) in zip(ders, [*ders, der_of(last)][1:], steps, strict=True):
            key = public_key_in(own)
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise ValueError("a key of another kind")
            key.verify(bytes.fromhex(value), PREFIX + next_, ALGORITHM)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
        raise GossamerError(
            f"a key does not follow from the one before it ({str(error) or 'the signature is not its'}): make the "
            "request with 'gossamer party renew', where the old key is."
        ) from None
    return [hashlib.sha256(der).hexdigest() for der in ders]


def succession_extension(steps: Steps) -> x509.UnrecognizedExtension:
    return x509.UnrecognizedExtension(SUCCESSION, json.dumps([list(one) for one in steps]).encode())


def steps_in(shown: x509.Certificate) -> Steps:
    """The words that a certificate holds, not yet checked; none in most."""
    try:
        extension: Any = shown.extensions.get_extension_for_oid(SUCCESSION).value
        return parsed_steps(json.loads(extension.value))
    except (x509.ExtensionNotFound, ValueError, RecursionError):
        return []


def parsed_steps(given: Any) -> Steps:
    """From JSON; ValueError where it is anything else."""
    if not isinstance(given, list):
        raise ValueError("no list")
    for one in given:
        if not (isinstance(one, list) and len(one) == 2 and all(isinstance(text, str) for text in one)):
            raise ValueError("no list of pairs")
    return [(key, value) for key, value in given]


def keys_of(shown: x509.Certificate) -> list[str]:
    """The fingerprints of a certificate's key and of all that have handed on to it; of its own alone where they lie."""
    own = key_fingerprint(shown.public_key())
    try:
        return [own, *check_succession(steps_in(shown), shown.public_key())]
    except GossamerError:
        return [own]
