"""Where a party listens, and where others reach it: HOST:PORT, looked at before anybody listens or dials.

gRPC counts ports from 0 again above 65535, without a word: a party that says 70000 would listen at 4464.
"""

from __future__ import annotations

import re

from gossamer.errors import GossamerError
from gossamer.peers.certificates import check_host

PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
LAST = 65535


def port_in(address: str, least: int = 1) -> int | None:
    """The port of HOST:PORT; None where there is no host, or no such port."""
    host, _, port = address.rpartition(":")
    known = bool(host) and PORT.fullmatch(port) is not None and least <= int(port) <= LAST
    return int(port) if known else None


def check_address(what: str, address: str | None, least: int = 1) -> None:
    """Refuse what is no HOST:PORT; where somebody listens, port 0 is any that is free, and `least` is 0."""
    if address is None:
        return
    if port_in(address, least) is None:
        raise GossamerError(
            f"{what} = {address!r}: expected HOST:PORT with a port from 1 to {LAST}, such as 127.0.0.1:7400."
        )
    host = address.rpartition(":")[0]
    plain = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:  # gRPC would take unix:/somewhere:80, and open it
        check_host(plain)
    except GossamerError as error:
        raise GossamerError(f"{what} = {address!r:.120} names no machine: {error}") from None


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of what was checked; a host of IPv6 without its brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def check_ports(option: str, first: int, learners: int) -> None:
    """Refuse ports of learners, one after another, that go beyond the last one there is."""
    last = first + learners - 1
    if last > LAST:
        raise GossamerError(
            f"{option} {first}: learner {learners - 1} would have port {last}, expected {LAST} at most; "
            "choose a smaller port."
        )


def host_of(address: object) -> str:
    """The host of HOST:PORT, which a certificate may have; ValueError where it is something else."""
    host, _, port = str(address).rpartition(":")
    plain = host.strip("[]")
    if not plain or port_in(str(address)) is None or port.startswith("0"):
        raise ValueError(f"{str(address)!r:.80} is not HOST:PORT")
    try:
        check_host(plain)
    except GossamerError as error:
        raise ValueError(str(error)) from None
    return plain


def listen_at(address: str) -> str:
    """Where to listen to be reached at an address: there, on this machine alone, or everywhere at that port."""
    host, port = host_of(address), address.rpartition(":")[2]
    local = host in ("localhost", "::1") or host.startswith("127.")
    return address if local else f"0.0.0.0:{port}"
