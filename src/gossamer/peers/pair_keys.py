"""A party's keys for noise that cancels: agreed with each partner, used in one run, and gone with its journal.

Every party has an X25519 key. Its public half is in the party's certificate, so that it is as surely the party's as
the certificate is; [secrets.keys] has the fingerprints of all of them, and parties that disagree on one do not talk to
each other. Two partners compute the same secret from their own half and the other's, and derive from it

    key = HKDF-SHA256(X25519(own secret, partner's public key), salt: the agreement, info: "gossamer pair i j"), i < j.

The agreement is the SHA-256 of all that parties agree on, the run's id and their public keys included. Nothing is sent
for it. The run's name has a quarter of it: whoever writes the settings could find, with 2^32 tries, two of one name,
and let a partner add less noise than one counts on. With the whole of it these two have no key in common: the noise of
neither cancels, and it hides both.

**No noise is used for two releases.** A pair's noise v is a function of (key, round): see gossamer.privacy.pairs. If a
round were released twice, with other records or other noise of one's own, the difference of the two releases would be
free of v, and ε would not hold. Within a journal no round is drawn twice (gossamer.peers.journal). So it is enough that
no two journals ever draw with one key. Therefore a key lives in the journal, and nowhere else:

1. At the first start the secret is committed to the journal, and waits for the disk; only then its file is removed.
   Nothing was drawn before. A crash in between leaves both, with the same key: the next start removes the file.
2. From then on the secret is where the journal is. Who loses the journal has lost the secret, and cannot start again.
3. When all that was sent has been used, the secret is deleted from the journal: who breaks in later, or asks for
   everybody's journals after the run, finds no key.
4. Keys follow from the secret and the agreement, so another run, or the same one with other settings, has others.

A journal may be given another secret only while nothing was sent from it: later its settings stay, of which the key's
fingerprint is one. What this does not stop is the owner who copies the folder before the first start, or the journal
later: docs/peers.md says why not to.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gossamer.errors import GossamerError
from gossamer.peers.certificates import Identities
from gossamer.peers.config import Plan
from gossamer.peers.journal import Journal
from gossamer.peers.parsed import private_key_in
from gossamer.privacy.pairs import OwnPairs, Steps

DIGITS = 32  # of a fingerprint, in hexadecimal


class PartyPairs:
    """The noise that one party shares with others. Before `open` nothing can be drawn."""

    def __init__(self, learner: int) -> None:
        self._learner = learner
        self._pairs: OwnPairs | None = None

    def open(self, keys: Mapping[int, bytes]) -> None:
        self._pairs = OwnPairs(self._learner, keys)

    def add(self, t: int, deviation: int, rows: Steps) -> None:
        if self._pairs is None:
            raise GossamerError(f"learner {self._learner}'s shared noise was asked for before its keys were there.")
        self._pairs.add(t, deviation, rows)


def fingerprint_of(key: X25519PublicKey) -> str:
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes_raw())
    return digest.finalize().hex()[:DIGITS]


def partners_keys(plan: Plan, identities: Identities, certificates: bytes) -> dict[int, X25519PublicKey]:
    """Every partner's public key, from a certificate that is proved to be its; refuses one that was not agreed on."""
    found = {}
    for j in plan.partners:
        keys = {fingerprint_of(key): key for key in identities.shared_keys(j, certificates)}
        if not keys:
            raise GossamerError(
                f"{plan.config.party.partners} has no valid certificate of learner {j} that the run's authority has "
                f"signed: put it there, or list the one that it brought in [neighbours.{j}]."
            )
        found[j] = _agreed(plan, j, keys)
    return found


def check_own_key(plan: Plan, key: X25519PublicKey) -> None:
    """Refuse a certificate of one's own with another key than was agreed on."""
    _agreed(plan, plan.learner, {fingerprint_of(key): key})


def _agreed(plan: Plan, j: int, keys: Mapping[str, X25519PublicKey]) -> X25519PublicKey:
    """The one that [secrets.keys] names."""
    assert plan.config.secrets is not None
    wanted = plan.config.secrets.keys[str(j)]
    if wanted not in keys:
        raise GossamerError(
            f"learner {j}'s certificate has the shared key {', '.join(keys)} and [secrets.keys] has {wanted}: one of "
            "them was exchanged; let all parties agree on its certificate and fingerprint."
        )
    return keys[wanted]


def take_secret(plan: Plan, journal: Journal) -> X25519PrivateKey:
    """The party's secret, which from here on is in its journal alone."""
    place, secret = plan.folder / plan.config.party.secret, secret_of(plan, journal)
    if place.exists():
        if secret.private_bytes_raw() != journal.secret:
            journal.keep_secret(secret.private_bytes_raw())
        _remove(place)
    return secret


def secret_of(plan: Plan, journal: Journal) -> X25519PrivateKey:
    """The party's secret, from its file or else from the journal; refuses one that was not agreed on."""
    place = plan.folder / plan.config.party.secret
    brought, kept = read_secret(place), journal.secret
    if brought is None and kept is None:
        raise GossamerError(
            f"learner {plan.learner} has no secret: {place} went into a journal at the first start, which "
            f"{journal.path} is not; its noise would be drawn a second time, so join a new run."
        )
    secret = brought if brought is not None else X25519PrivateKey.from_private_bytes(kept or b"")
    check_own_secret(plan, secret, place if brought is not None else journal.path)
    return secret


def check_own_secret(plan: Plan, secret: X25519PrivateKey, place: Path) -> None:
    assert plan.config.secrets is not None
    if fingerprint_of(secret.public_key()) != plan.config.secrets.keys[str(plan.learner)]:
        raise GossamerError(
            f"the secret in {place} does not belong to learner {plan.learner}'s key in [secrets.keys]: put back its "
            "own, or agree on its new key with all parties before anything is sent."
        )


def read_secret(place: Path) -> X25519PrivateKey | None:
    """A party's secret; None where there is none."""
    try:
        secret = private_key_in(place.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise GossamerError(f"{place} cannot be read ({error.strerror}): let its owner read it.") from None
    except ValueError:  # what is wrong with it may quote it
        secret = None
    if not isinstance(secret, X25519PrivateKey):
        raise GossamerError(f"{place} is no X25519 key as PEM without a password: put back the party's own.")
    return secret


def _remove(place: Path) -> None:
    """Remove a file, also where it is a link, and wait until the disk has done so."""
    real = place.resolve()
    try:
        real.unlink()
        place.unlink(missing_ok=True)
        folder = os.open(real.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise GossamerError(
            f"{place} cannot be removed ({error.strerror}): let its owner write to its folder."
        ) from None


def agree_on_keys(plan: Plan, secret: X25519PrivateKey, partners: Mapping[int, X25519PublicKey]) -> dict[int, bytes]:
    """The key that this party has in common with each partner, and with nobody else."""
    return {j: shared_key(secret, public, plan.agreement, plan.learner, j) for j, public in partners.items()}


def shared_key(secret: X25519PrivateKey, public: X25519PublicKey, agreement: str, i: int, j: int) -> bytes:
    """The key of learners i and j, from one's secret and the other's public key."""
    try:
        common = secret.exchange(public)
    except ValueError:
        common = b""
    if not any(common):  # of a point of small order: anybody could compute it
        raise GossamerError(
            f"learner {j}'s shared key is of small order, and gives no secret: let it make a new one for a new run."
        )
    info = f"gossamer pair {min(i, j)} {max(i, j)}".encode()
    return HKDF(hashes.SHA256(), length=32, salt=agreement.encode(), info=info).derive(common)
