"""Who is who in a run: an authority of its own, and a certificate for every learner, named learner-0, learner-1, ….

Keys are P-256. The authority's key is needed to let somebody in and for nothing else: keep it apart. A certificate is
good for both ends of a link, since learners dial and are dialled.

Where noise is shared, a certificate has an X25519 key as well, in an extension of its own (SHARED_KEY): its value is
the key as SubjectPublicKeyInfo in DER, as `openssl pkey -pubout -outform DER` writes it.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gossamer.errors import BadValue, GossamerError
from gossamer.peers.parsed import certificate_in, certificates_in, private_key_in, public_key_in
from gossamer.peers.passing import TryLater
from gossamer.peers.succession import Steps, key_fingerprint, keys_of, succession_extension

PREFIX = "learner-"
MOST_DAYS = 36_500
HOST = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(\.(?!-)[A-Za-z0-9_-]{1,63})*\.?", re.ASCII)
NUMBER = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)  # a learner's, as text has it
SHARED_KEY = x509.ObjectIdentifier("2.25.87731624159190608392457427042676902296")  # a UUID, as X.667 allows


class Pair(NamedTuple):
    """A private key and its certificate, as PEM."""

    key: bytes
    certificate: bytes


def name_of(i: int) -> str:
    return f"{PREFIX}{i}"


def learner_of(name: str) -> int | None:
    """Which learner a certificate's name is; None where it is the name of no learner."""
    number = name.removeprefix(PREFIX)
    return int(number) if name.startswith(PREFIX) and NUMBER.fullmatch(number) else None


class Revoked(NamedTuple):
    """What counts for nobody any more: certificates by SHA-256 or by serial number, and keys with all certificates."""

    certificates: frozenset[str] = frozenset()
    serials: frozenset[int] = frozenset()
    keys: frozenset[str] = frozenset()

    def covers(self, shown: x509.Certificate) -> bool:
        return (
            certificate_fingerprint(shown) in self.certificates
            or shown.serial_number in self.serials
            or key_fingerprint(shown.public_key()) in self.keys
        )


class Identities:
    """Whose certificate is whose. One that the run's authority signed counts by its name, any other by its very bytes.

    `authority` may be several certificates one after another: while one authority follows another, both count.

    `pinned` are certificates that parties brought along. The name in such a one says nothing, and neither does any
    certificate that was signed with it.

    `members` are the certificates with which all parties enrolled. A certificate in the name of one of them counts only
    for the key that it had then, or for one that it has handed on to (gossamer.peers.succession): the authority's
    signature is needed, and is not enough. A key that was revoked has handed on to none.

    `revoked` counts for nobody, pinned or signed.
    """

    def __init__(
        self,
        authority: bytes,
        pinned: Mapping[int, bytes] | None = None,
        members: Mapping[int, bytes] | None = None,
        revoked: Revoked | None = None,
    ) -> None:
        self._authority, self._parents = authority, _load_all(authority, "the authority's certificate")
        brought = {j: _load(pem, f"learner {j}'s certificate") for j, pem in (pinned or {}).items()}
        self._known = {shown: j for j, shown in brought.items()}
        # That one alone: a file may go on with its authority's, which could sign others of the same name.
        self._pinned = {j: shown.public_bytes(serialization.Encoding.PEM) for j, shown in brought.items()}
        self._enrolled = dict(members or {})
        self._members = {j: key_fingerprint_in(pem) for j, pem in self._enrolled.items()}
        self._revoked = revoked or Revoked()

    @property
    def authorities(self) -> list[bytes]:
        """The certificates of all authorities that count today, the newest last."""
        return [parent.public_bytes(serialization.Encoding.PEM) for parent in self._parents]

    @property
    def trusted(self) -> bytes:
        """What the other end of a link must be signed by, or be."""
        return b"\n".join([self._authority, *self._pinned.values()])

    def expected(self, j: int) -> tuple[bytes, str]:
        """What learner j's end must be signed by or be, and the name that it has to show."""
        if j not in self._pinned:
            return self._authority, name_of(j)
        own = _load(self._pinned[j], f"learner {j}'s certificate")
        return self._pinned[j], _tls_names(own)[0]

    def is_strict(self, j: int) -> bool:
        """Whether not all that `expected` lets through is learner j: whoever dials has to look at what is shown."""
        return j in self._members or any(self._revoked)

    def enrolled(self, j: int) -> bytes | None:
        """The certificate with which learner j has enrolled, if it counts: most likely the one that it shows."""
        known = self._pinned.get(j, self._enrolled.get(j))
        return known if known is not None and self.whose(known) == j and days_left(known) > 0 else None

    def shared_keys(self, j: int, given: bytes) -> list[X25519PublicKey]:
        """Learner j's keys for shared noise: of its own certificate, or of those in `given` that are proved to be its.

        There is one, unless the authority has signed two. Who has enrolled has agreed on this key with all, so that
        neither the end of the certificate nor its being revoked later changes it.
        """
        found = [_load(self._pinned[j], "")] if j in self._pinned else _load_all(given, "the partners' certificates")
        return [
            shared_key_in(one, f"learner {j}")
            for one in found
            if self._named(one) == j and (j in self._members or _is_valid(one))
        ]

    def is_signed(self, certificate: bytes) -> bool:
        """Whether one of the authorities has signed it; any other counts by its bytes."""
        shown = _load(certificate, "the certificate")
        return any(_is_signed_by(shown, parent) for parent in self._parents)

    def named(self, certificate: bytes) -> int | None:
        """Whose certificate it is, or was before it was revoked."""
        return self._named(_load(certificate, "the certificate"))

    def whose(self, certificate: bytes) -> int | None:
        """Whose certificate it is, as PEM."""
        return self.learner_in(_load(certificate, "the certificate"))

    def of(self, context: Mapping[str, Sequence[bytes]]) -> int | None:
        """The learner at the other end, from what the handshake has verified; None where that is no learner's."""
        try:
            shown = certificate_in(context["x509_pem_cert"][0])
        except (KeyError, IndexError, ValueError):
            return None
        return self.learner_in(shown)

    def learner_in(self, shown: x509.Certificate) -> int | None:
        """Whose certificate it is; None where it is no learner's, or was revoked."""
        return None if self._revoked.covers(shown) else self._named(shown)

    def _named(self, shown: x509.Certificate) -> int | None:
        """Whose it is or was."""
        if shown in self._known:
            return self._known[shown]
        if not any(_is_signed_by(shown, parent) for parent in self._parents):
            return None
        common = shown.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        learner = learner_of(str(common[0].value)) if len(common) == 1 else None
        if learner is None or learner in self._pinned:  # who brought a certificate is known by that one alone
            return None
        return learner if learner not in self._members or self._is_member(learner, shown) else None

    def _is_member(self, learner: int, shown: x509.Certificate) -> bool:
        """Whether a certificate's key is the one that has enrolled, or follows it without a revoked one in between."""
        own, *before = keys_of(shown)
        if own == self._members[learner]:
            return True
        later = before[before.index(self._members[learner]) :] if self._members[learner] in before else None
        return later is not None and not self._revoked.keys & set(later)


def _is_signed_by(shown: x509.Certificate, parent: x509.Certificate) -> bool:
    try:
        shown.verify_directly_issued_by(parent)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _load(pem: bytes, what: str) -> x509.Certificate:
    try:
        return certificate_in(pem)
    except ValueError as error:
        raise GossamerError(f"{what} cannot be read ({error}): give a certificate as PEM.") from None


def _load_all(pem: bytes, what: str) -> list[x509.Certificate]:
    try:
        return certificates_in(pem)
    except ValueError as error:
        raise GossamerError(f"{what} cannot be read ({error}): give certificates as PEM.") from None


def shared_key_in(shown: x509.Certificate | bytes, whose: str) -> X25519PublicKey:
    """The key for shared noise that a certificate binds to its name."""
    shown = _load(shown, f"the certificate of {whose}") if isinstance(shown, bytes) else shown
    try:
        extension: Any = shown.extensions.get_extension_for_oid(SHARED_KEY).value
        key = public_key_in(extension.value)
        if not isinstance(key, X25519PublicKey):
            raise ValueError(type(key).__name__)
    except (x509.ExtensionNotFound, ValueError, TypeError):
        raise GossamerError(
            f"the certificate of {whose} has no X25519 key for shared noise: make one with it, or take all parties' "
            "folders from one 'gossamer peers init --secrets'."
        ) from None
    return key


def key_fingerprint_in(certificate: bytes) -> str:
    """SHA-256 of a certificate's public key."""
    return key_fingerprint(_load(certificate, "a certificate").public_key())


def key_fingerprints_in(certificate: bytes) -> list[str]:
    """The same of its key and of all keys that have handed on to it: each may have a certificate that still counts."""
    return keys_of(_load(certificate, "a certificate"))


def certificate_fingerprint(shown: x509.Certificate | bytes) -> str:
    """SHA-256 of a whole certificate, in DER."""
    shown = _load(shown, "the certificate") if isinstance(shown, bytes) else shown
    return shown.fingerprint(hashes.SHA256()).hex()


def members_in(given: bytes, authority: bytes) -> dict[int, bytes]:
    """Every party's certificate, by its number, from the file with which all have enrolled.

    Only their names and keys count, not their dates: a certificate may have been renewed since.
    """
    signers, found = Identities(authority), dict[int, bytes]()
    for shown in _load_all(given, "the members' certificates"):
        learner, pem = signers.learner_in(shown), shown.public_bytes(serialization.Encoding.PEM)
        if learner is None or found.setdefault(learner, pem) != pem:
            raise GossamerError(
                "the members' certificates have one that the run's authority has not signed for a learner, or two of "
                "one learner: take the file from whoever signed them."
            )
    return found


def _tls_names(own: x509.Certificate) -> list[str]:
    """The names that a certificate has for TLS."""
    try:
        listed = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [*listed.get_values_for_type(x509.DNSName), *map(str, listed.get_values_for_type(x509.IPAddress))]
    except x509.ExtensionNotFound:
        names = []
    if not names:
        raise GossamerError("a certificate without a subject alternative name: TLS needs one; make it with a DNS name.")
    return names


def check_pair(own: Pair) -> None:
    """Refuse a key that is not the certificate's, or a certificate whose time is over or to come."""
    shown = _load(own.certificate, "the certificate")
    try:
        key: Any = private_key_in(own.key)
    except ValueError as error:
        raise GossamerError(f"the key cannot be read ({error}): give it as PEM, without a password.") from None
    if key.public_key() != shown.public_key():
        raise GossamerError("the key is not the certificate's: give the two that belong together.")
    now, minutes = datetime.datetime.now(datetime.UTC), "%Y-%m-%d %H:%M"
    said = f"this machine's clock says {now:{minutes}} UTC"
    if now < shown.not_valid_before_utc:  # a clock that was not set yet, and will be
        raise TryLater(
            f"the certificate is valid from {shown.not_valid_before_utc:{minutes}} UTC on, and {said}: set the clock, "
            "or wait."
        )
    if not _is_valid(shown):
        raise GossamerError(
            f"the certificate was valid until {shown.not_valid_after_utc:{minutes}} UTC, and {said}: have a new one "
            "signed, or set the clock."
        )


def days_left(certificate: bytes) -> float:
    """Until a certificate ends; negative where it has."""
    return (valid_until(certificate) - datetime.datetime.now(datetime.UTC)).total_seconds() / 86400


def valid_until(certificate: bytes) -> datetime.datetime:
    return _load(certificate, "the certificate").not_valid_after_utc


def _is_valid(shown: x509.Certificate) -> bool:
    return shown.not_valid_before_utc <= datetime.datetime.now(datetime.UTC) <= shown.not_valid_after_utc


def make_authority(run: str, days: int = 365) -> Pair:
    """A new authority for one run."""
    key = ec.generate_private_key(ec.SECP256R1())
    made = _builder(f"gossamer run {run}", None, key.public_key(), days)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return Pair(key_pem(key), _signed(made, key))


def issue_certificate(
    signed_by: Pair,
    i: int,
    hosts: Sequence[str] = ("localhost", "127.0.0.1"),
    days: int = 365,
    shared: X25519PublicKey | None = None,
) -> Pair:
    """A key and certificate for learner i, which may be reached at these hosts; `shared` is its key for noise."""
    key = ec.generate_private_key(ec.SECP256R1())
    return Pair(key_pem(key), certify(signed_by, i, key.public_key(), hosts, days, shared))


def certify(
    signed_by: Pair,
    i: int,
    key: ec.EllipticCurvePublicKey,
    hosts: Sequence[str],
    days: int,
    shared: X25519PublicKey | None = None,
    before: Steps = (),
) -> bytes:
    """A certificate for learner i's own key; `before` are the words of the keys that it had before."""
    signer = signing_key(signed_by.key, "the authority's key")
    parent = _load(signed_by.certificate, "the authority's certificate")
    for host in hosts:
        if host.startswith(PREFIX):
            raise GossamerError(f"host {host!r}: names that begin with {PREFIX!r} are learners' own; use another.")
    names: list[x509.GeneralName] = [x509.DNSName(name_of(i)), *map(check_host, hosts)]
    made = _builder(name_of(i), parent.subject, key, days)
    made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    made = made.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    if shared is not None:
        made = made.add_extension(shared_key_extension(shared), critical=False)
    if before:
        made = made.add_extension(succession_extension(before), critical=False)
    return _signed(made, signer)


def shared_key_extension(key: X25519PublicKey) -> x509.UnrecognizedExtension:
    """What a certificate holds to bind a key for shared noise to its name."""
    der, kind = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return x509.UnrecognizedExtension(SHARED_KEY, key.public_bytes(der, kind))


def signing_key(pem: bytes, what: str) -> ec.EllipticCurvePrivateKey:
    """A private key that can sign, from PEM."""
    try:
        key = private_key_in(pem)
    except ValueError as error:
        raise GossamerError(f"{what} cannot be read ({error}): give it as PEM, without a password.") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise GossamerError(f"{what} is no elliptic curve's: use one that gossamer has made.")
    return key


def certificate_hosts(host: str) -> list[str]:
    """The hosts of a certificate for who is reached at one: that one, and the machine itself."""
    return sorted({host, "localhost", "127.0.0.1"})


def check_host(host: str) -> x509.GeneralName:
    """An address or a plain name: one with a * in it would be good for others, too."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if len(host) > 253 or not HOST.fullmatch(host):
            raise GossamerError(
                f"host {host[:80]!r}: expected an IP address or a name of letters, digits, - and dots; one in another "
                "script as DNS has it, xn--…."
            ) from None
        return x509.DNSName(host)


def check_days(argument: str, days: int) -> None:
    """Refuse what no calendar has."""
    if days > MOST_DAYS:
        raise BadValue(argument, days, f"expected at most {MOST_DAYS}, which is a hundred years")


def _builder(
    common: str, issuer: x509.Name | None, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    """A certificate to be signed by `issuer`, or by itself."""
    check_days("days", days)
    subject, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)]), datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5 if days > 0 else 60 * 24 * 30))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _signed(made: x509.CertificateBuilder, signer: ec.EllipticCurvePrivateKey) -> bytes:
    return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey | X25519PrivateKey) -> bytes:
    """A private key as it lies in a party's folder."""
    pem, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, kind, serialization.NoEncryption())
