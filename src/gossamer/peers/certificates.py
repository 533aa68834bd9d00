"""Who is who in a run: an authority of its own, and a certificate for every learner, named learner-0, learner-1, ….

Keys are P-256. The authority's key is needed to let somebody in and for nothing else: keep it apart. A certificate is
good for both ends of a link, since learners dial and are dialled.

Where noise is shared, a certificate has an X25519 key as well, in an extension of its own (SHARED_KEY): its value is
the key as SubjectPublicKeyInfo in DER, as `openssl pkey -pubout -outform DER` writes it.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gossamer.errors import GossamerError
from gossamer.peers.passing import TryLater

PREFIX = "learner-"
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
    return int(number) if name.startswith(PREFIX) and number.isdecimal() and str(int(number)) == number else None


class Identities:
    """Whose certificate is whose. One that the run's authority signed counts by its name, any other by its very bytes.

    `pinned` are certificates that parties brought along. The name in such a one says nothing, and neither does any
    certificate that was signed with it.
    """

    def __init__(self, authority: bytes, pinned: Mapping[int, bytes] | None = None) -> None:
        self._authority, self._parent = authority, _load(authority, "the authority's certificate")
        brought = {j: _load(pem, f"learner {j}'s certificate") for j, pem in (pinned or {}).items()}
        self._known = {shown: j for j, shown in brought.items()}
        # That one alone: a file may go on with its authority's, which could sign others of the same name.
        self._pinned = {j: shown.public_bytes(serialization.Encoding.PEM) for j, shown in brought.items()}

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

    def shared_keys(self, j: int, given: bytes) -> list[X25519PublicKey]:
        """Learner j's keys for shared noise: of its own certificate, or of those in `given` that are proved to be its.

        There is one, unless the authority has signed two.
        """
        found = [_load(self._pinned[j], "")] if j in self._pinned else _load_all(given, "the partners' certificates")
        return [shared_key_in(one, f"learner {j}") for one in found if self.learner_in(one) == j and _is_valid(one)]

    def of(self, context: Mapping[str, Sequence[bytes]]) -> int | None:
        """The learner at the other end, from what the handshake has verified; None where that is no learner's."""
        try:
            shown = x509.load_pem_x509_certificate(context["x509_pem_cert"][0])
        except (KeyError, IndexError, ValueError):
            return None
        return self.learner_in(shown)

    def learner_in(self, shown: x509.Certificate) -> int | None:
        """Whose certificate it is; None where it is no learner's."""
        if shown in self._known:
            return self._known[shown]
        try:
            shown.verify_directly_issued_by(self._parent)
        except (ValueError, TypeError, InvalidSignature):
            return None
        common = shown.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        learner = learner_of(str(common[0].value)) if len(common) == 1 else None
        return None if learner in self._pinned else learner  # who brought a certificate is known by that one alone


def _load(pem: bytes, what: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise GossamerError(f"{what} cannot be read ({error}): give a certificate as PEM.") from None


def _load_all(pem: bytes, what: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise GossamerError(f"{what} cannot be read ({error}): give certificates as PEM.") from None


def shared_key_in(shown: x509.Certificate | bytes, whose: str) -> X25519PublicKey:
    """The key for shared noise that a certificate binds to its name."""
    shown = _load(shown, f"the certificate of {whose}") if isinstance(shown, bytes) else shown
    try:
        extension: Any = shown.extensions.get_extension_for_oid(SHARED_KEY).value
        key = serialization.load_der_public_key(extension.value)
        if not isinstance(key, X25519PublicKey):
            raise ValueError(type(key).__name__)
    except (x509.ExtensionNotFound, ValueError, TypeError, UnsupportedAlgorithm):
        raise GossamerError(
            f"the certificate of {whose} has no X25519 key for shared noise: make one with it, or take all parties' "
            "folders from one 'gossamer peers init --secrets'."
        ) from None
    return key


def key_fingerprint(shown: x509.Certificate | bytes) -> str:
    """SHA-256 of a certificate's public key (as SubjectPublicKeyInfo in DER): the same when it is renewed."""
    shown = _load(shown, "a certificate") if isinstance(shown, bytes) else shown
    der, kind = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(shown.public_key().public_bytes(der, kind)).hexdigest()


def members_in(given: bytes, authority: bytes) -> dict[int, str]:
    """The fingerprint of every party's own key, by its number, from the certificates with which all have enrolled.

    Only their names and keys count here, not their dates: a certificate may have been renewed since.
    """
    signers, found = Identities(authority), dict[int, str]()
    for shown in _load_all(given, "the members' certificates"):
        learner = signers.learner_in(shown)
        if learner is None or found.setdefault(learner, key_fingerprint(shown)) != key_fingerprint(shown):
            raise GossamerError(
                "the members' certificates have one that the run's authority has not signed for a learner, or two keys "
                "of one learner: take the file from whoever signed them."
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
        key: Any = serialization.load_pem_private_key(own.key, password=None)
    except (ValueError, TypeError) as error:
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
    until = _load(certificate, "the certificate").not_valid_after_utc
    return (until - datetime.datetime.now(datetime.UTC)).total_seconds() / 86400


def _is_valid(shown: x509.Certificate) -> bool:
    return shown.not_valid_before_utc <= datetime.datetime.now(datetime.UTC) <= shown.not_valid_after_utc


def make_authority(run: str, days: int = 365) -> Pair:
    """A new authority for one run."""
    key = ec.generate_private_key(ec.SECP256R1())
    made = _builder(f"gossamer run {run}", None, key.public_key(), days)
    return _sign(made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True), key, key)


def issue_certificate(
    signed_by: Pair,
    i: int,
    hosts: Sequence[str] = ("localhost", "127.0.0.1"),
    days: int = 365,
    shared: X25519PublicKey | None = None,
) -> Pair:
    """A key and certificate for learner i, which may be reached at these hosts; `shared` is its key for noise."""
    signer = serialization.load_pem_private_key(signed_by.key, password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise GossamerError("the authority's key is of another kind: use one that gossamer made.")
    parent = x509.load_pem_x509_certificate(signed_by.certificate)
    for host in hosts:
        if host.startswith(PREFIX):
            raise GossamerError(f"host {host!r}: names that begin with {PREFIX!r} are learners' own; use another.")
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [x509.DNSName(name_of(i)), *map(_host, hosts)]
    made = _builder(name_of(i), parent.subject, key.public_key(), days)
    made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    made = made.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    if shared is not None:
        made = made.add_extension(shared_key_extension(shared), critical=False)
    return _sign(made, key, signer)


def shared_key_extension(key: X25519PublicKey) -> x509.UnrecognizedExtension:
    """What a certificate holds to bind a key for shared noise to its name."""
    der, kind = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return x509.UnrecognizedExtension(SHARED_KEY, key.public_bytes(der, kind))


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    common: str, issuer: x509.Name | None, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    """A certificate to be signed by `issuer`, or by itself."""
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


def _sign(made: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey) -> Pair:
    pem, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    own = key.private_bytes(pem, kind, serialization.NoEncryption())
    return Pair(own, made.sign(signer, hashes.SHA256()).public_bytes(pem))
