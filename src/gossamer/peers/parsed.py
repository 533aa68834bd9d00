"""Certificates and keys as somebody has given them, read to their end: ValueError where any part of them is none.

A certificate's parts are parsed when they are asked for, and each may fail in ways of its own. One from elsewhere, or
with a bit that flipped on a disk, would then fail wherever it is first used.
"""

from __future__ import annotations

from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

ODD = (
    ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)  # fmt: skip


def certificate_in(pem: bytes) -> x509.Certificate:
    try:
        return _whole(x509.load_pem_x509_certificate(pem))
    except ODD as error:
        raise ValueError(str(error)) from None


def certificates_in(pem: bytes) -> list[x509.Certificate]:
    try:
        return list(map(_whole, x509.load_pem_x509_certificates(pem)))
    except ODD as error:
        raise ValueError(str(error)) from None


def _whole(shown: x509.Certificate) -> x509.Certificate:
    shown.public_key()
    _ = shown.subject, shown.issuer, shown.extensions, shown.serial_number, shown.version
    _ = shown.not_valid_before_utc, shown.not_valid_after_utc, shown.signature, shown.tbs_certificate_bytes
    return shown


def private_key_in(pem: bytes) -> Any:
    """Of any kind, without a password."""
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except ODD as error:
        raise ValueError(str(error)) from None


def public_key_in(der: bytes) -> Any:
    """Of any kind, as SubjectPublicKeyInfo."""
    try:
        return serialization.load_der_public_key(der)
    except ODD as error:
        raise ValueError(str(error)) from None
