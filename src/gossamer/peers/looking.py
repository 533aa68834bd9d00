"""The certificate that is shown at an address, before anything is sent there.

gRPC lets through whoever the run's authority has signed. Where that is not enough, because parties have enrolled with
keys of their own or because something was revoked, whoever dials looks first, and then trusts that one certificate and
no other: between the two nobody can exchange it. Looking tells the other side nothing, not even who looks.
"""

from __future__ import annotations

import asyncio
import ssl

from gossamer.peers.certificates import Identities

PATIENCE = 10.0  # seconds for a handshake


class Faces:
    """What each neighbour's end has shown, and whether it may be dialled."""

    def __init__(self) -> None:
        self._shown: dict[int, bytes] = {}  # empty: to be looked at again

    async def expected(self, identities: Identities, j: int, address: str) -> tuple[bytes, str]:
        """What j's end must be signed by or be, and its name; PermissionError where it is somebody else's."""
        trusted, name = identities.expected(j)
        if not identities.is_strict(j):
            return trusted, name
        face = self._shown[j] if j in self._shown else identities.enrolled(j)
        if not face:
            face = await look_at(address, trusted, name)
        if identities.whose(face) != j:
            self.forget(j)
            raise PermissionError(f"the certificate at {address} is not learner {j}'s, or was revoked")
        self._shown[j] = face
        return face, name

    def forget(self, j: int) -> None:
        """The next dial looks again: what was shown before may have been renewed."""
        self._shown[j] = b""

    def accepted(self, before: Identities, now: Identities, j: int) -> bool:
        """Whether a link that was dialled may stand."""
        if self._shown.get(j):
            return now.whose(self._shown[j]) == j
        return not now.is_strict(j) and before.expected(j) == now.expected(j)


async def look_at(address: str, trusted: bytes, name: str) -> bytes:
    """The certificate at an address, as PEM; OSError where nobody is there whom `trusted` lets through by this name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3  # in which certificates are shown before the other side asks
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # one that was pinned is trusted itself
    context.load_verify_locations(cadata=trusted.decode())
    context.set_alpn_protocols(["h2"])
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(PATIENCE):
        _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context, server_hostname=name)
        try:
            der: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        finally:
            writer.transport.abort()  # nothing more is said
    return ssl.DER_cert_to_PEM_cert(der).encode()
