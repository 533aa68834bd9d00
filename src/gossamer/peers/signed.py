"""Documents that a run's parties act on, and whose word they need: a JSON object, and who signed it.

    {"document": {"kind": "revoked", "run": "…", …}, "signatures": [{"by": "authority", "value": "…"}]}

What is signed is the object in one fixed form, keys in order and no spaces, under a prefix that no other use of these
keys has; ECDSA over P-256 with SHA-256. The authority's own signature is enough. So are those of all the parties that
a document asks for: each brings the certificate that it signed with, which the run's authority has issued, or which
is pinned at whoever reads it. A document of another kind or another run is refused: one that was signed for something
else must not count here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.peers.certificates import Identities, Pair, signing_key
from gossamer.peers.parsed import certificate_in
from gossamer.peers.succession import ALGORITHM

AUTHORITY = "authority"
PREFIX = b"gossamer signed document 1\n"
LIMIT = 1 << 20  # bytes of a file that is looked at
Document = Mapping[str, Any]
OF_DIGEST = ec.ECDSA(utils.Prehashed(hashes.SHA256()))  # the same as ALGORITHM, of what was summed up once


class Signed:
    """A document with its signatures, not yet believed."""

    def __init__(self, document: Document, signatures: tuple[Mapping[str, str], ...] = ()) -> None:
        self.document, self.signatures = document, signatures

    @cached_property
    def text(self) -> bytes:
        """What is signed. It may be a megabyte, and is asked for at every signature."""
        return PREFIX + json.dumps(self.document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @cached_property
    def digest(self) -> str:
        """Of what is signed; who signed it makes no difference."""
        return hashlib.sha256(self.text).hexdigest()

    def signed_by(self, own: Pair, by: str = AUTHORITY) -> Signed:
        """The same with one more signature; a party's says its number, and brings its certificate."""
        key = signing_key(own.key, "the key that signs")
        one = {"by": by, "value": key.sign(self.text, ALGORITHM).hex()}
        if by != AUTHORITY and own.certificate:
            one["certificate"] = own.certificate.decode()
        others = tuple(each for each in self.signatures if each.get("by") != by)
        return Signed(self.document, (*others, one))

    def check(
        self, kind: str, run: str, authority: bytes, identities: Identities, all_of: Collection[int] = ()
    ) -> None:
        """Refuse a document that is not of this kind and run, or that nobody signed whose word counts.

        `authority` is the certificate of the run's authority. Where it has not signed, all learners of `all_of` must
        have, and there must be some.
        """
        found = (self.document.get("kind"), self.document.get("run"))
        if found != (kind, run):
            raise GossamerError(f"a document of kind and run {found!r}, expected {(kind, run)!r}: take this run's.")
        wanted = {AUTHORITY, *map(str, all_of)}
        once = {by: one for one in self.signatures if isinstance(by := one.get("by"), str) and by in wanted}
        signers = {self._signer(one, authority, identities) for one in once.values()}
        if AUTHORITY in signers or (all_of and signers >= {str(i) for i in all_of}):
            return
        missing = ", ".join(str(i) for i in sorted(all_of) if str(i) not in signers)
        raise GossamerError(
            f"a document ({kind}) that the run's authority has not signed"
            + (f", nor all of its learners: {missing} have not" if missing else "")
            + "; have it signed, and give that file."
        )

    def check_by_any(
        self,
        kind: str,
        run: str,
        authorities: Sequence[bytes],
        identities: Identities,
        all_of: Collection[int] = (),
    ) -> None:
        """The same, where several authorities count: the word of one of them will do, or that of all parties."""
        for k, authority in enumerate(reversed(authorities), 1):
            try:
                return self.check(kind, run, authority, identities, all_of)
            except GossamerError:
                if k == len(authorities):
                    raise

    def _signer(self, one: Mapping[str, str], authority: bytes, identities: Identities) -> str | None:
        """Who made a signature; None where it does not hold."""
        by = one.get("by")
        try:
            shown = certificate_in(authority if by == AUTHORITY else str(one.get("certificate")).encode())
        except ValueError:
            return None
        if not self.holds(one, shown.public_key()):
            return None
        if by == AUTHORITY:
            return AUTHORITY
        learner = identities.learner_in(shown)
        return str(learner) if learner is not None and str(learner) == by else None

    def holds(self, one: Mapping[str, str], key: object) -> bool:
        """Whether a signature is that key's."""
        if not isinstance(key, ec.EllipticCurvePublicKey):
            return False
        try:
            key.verify(bytes.fromhex(str(one.get("value"))), bytes.fromhex(self.digest), OF_DIGEST)
        except (ValueError, InvalidSignature):
            return False
        return True

    def save(self, path: Path) -> None:
        whole = {"document": self.document, "signatures": list(self.signatures)}
        replace_file(path, (json.dumps(whole, indent=1, ensure_ascii=False) + "\n").encode())

    def encoded(self) -> bytes:
        """In few bytes, to travel."""
        whole = {"document": self.document, "signatures": list(self.signatures)}
        return json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()


def read_signed(path: Path) -> Signed:
    """A document in a file, not yet checked."""
    try:
        with path.open("rb") as file:
            return parse_signed(file.read(LIMIT + 1), str(path))
    except IsADirectoryError:
        raise GossamerError(f"{path} is a folder: give the file in it.") from None
    except OSError as error:
        raise GossamerError(f"{path} cannot be read ({error.strerror}): put it there.") from None


def parse_signed(given: bytes, what: str) -> Signed:
    """A document as it travels, not yet checked."""
    try:
        if len(given) > LIMIT:
            raise ValueError(f"more than {LIMIT} bytes")
        whole = json.loads(given.decode())
        document, signatures = whole["document"], whole["signatures"]
        if not isinstance(document, dict) or not all(isinstance(one, dict) for one in signatures):
            raise ValueError("it is no object with signatures")
        signed = Signed(document, tuple(signatures))
        _ = (
            signed.text,
            signed.encoded(),
        )  # half of a pair of surrogates has no bytes: nobody can sign that, or pass it on
        return signed
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise GossamerError(f"{what} is no signed document ({error}): take it from whoever signed it.") from None
