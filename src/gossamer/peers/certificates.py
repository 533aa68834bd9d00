"""Who is who in a run: an authority of its own, and a certificate for every learner, named learner-0, learner-1, ….

Keys are P-256. The authority's key is needed to let somebody in and for nothing else: keep it apart. A certificate is
good for both ends of a link, since learners dial and are dialled.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gossamer.types import GossamerError

PREFIX = "learner-"


class Pair(NamedTuple):
    """A private key and its certificate, as PEM."""

    key: bytes
    certificate: bytes


def name_of(i: int) -> str:
    return f"{PREFIX}{i}"


def learner_of(name: str) -> int | None:
    """Which learner a certificate's name is; None where it is no learner's."""
    number = name.removeprefix(PREFIX)
    return int(number) if name.startswith(PREFIX) and number.isdecimal() and str(int(number)) == number else None


def authority(run: str, days: int = 365) -> Pair:
    """A new authority for one run."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"gossamer run {run}")
    made = _builder(name, name, key.public_key(), days)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return Pair(_pem(key), made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


def certificate(signed_by: Pair, i: int, hosts: Sequence[str] = ("localhost", "127.0.0.1"), days: int = 365) -> Pair:
    """A key and certificate for learner i, which may be reached at these hosts."""
    signer = serialization.load_pem_private_key(signed_by.key, password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise GossamerError("the authority's key is of another kind: use one that gossamer made.")
    parent = x509.load_pem_x509_certificate(signed_by.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [x509.DNSName(name_of(i)), *map(_host, hosts)]
    made = _builder(_name(name_of(i)), parent.subject, key.public_key(), days)
    made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    made = made.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    return Pair(_pem(key), made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5 if days > 0 else 60 * 24 * 30))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
