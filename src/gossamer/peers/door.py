"""Keeps a way in for neighbours while somebody else opens connections faster than handshakes run out of time.

gRPC lets so many connections in and drops any further one at once, so whoever reopens quickly would have every place
that becomes free. While that goes on, connections that have no stream yet are ended here, at random among those of the
address that has most of them. A neighbour, whose handshake takes a moment, gets through sooner or later, and at once
where it has an address of its own.

The sockets are gRPC's, which has no way to end one: a copy of the descriptor is shut down, after it was asked whose it
is, and gRPC then finds its connection closed. So are links whose certificate is no longer accepted. Where descriptors
cannot be listed nothing is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import random
import socket
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import NamedTuple
from urllib.parse import unquote

LOOK = 0.02  # seconds between looks at who is there
PLACES = ("/proc/self/fd", "/dev/fd")


class Peer(NamedTuple):
    """The other end of a connection."""

    host: str
    port: int


class Door:
    """The connections to one port, of which `most` may be open."""

    def __init__(self, port: int, most: int, known: Callable[[], Collection[Peer]]) -> None:
        """`known` says which connections have a stream."""
        self._port, self._most, self._known = port, most, known
        self._loop = asyncio.get_running_loop()
        self._looked, self._soon = 0, False
        self.arrived = self.ended = 0

    def came(self) -> None:
        """One more has come; gRPC says so in threads of its own."""
        self.arrived += 1
        if self.arrived - self._looked >= self._most // 4:  # so many that all places could soon be taken
            with contextlib.suppress(RuntimeError):  # the loop is over
                self._loop.call_soon_threadsafe(self._look_soon)

    def _look_soon(self) -> None:
        if not self._soon:
            self._soon = True
            self._loop.call_later(LOOK, self.make_room)

    def make_room(self) -> None:
        """Where strangers have more than half of the places, end some until they have a quarter."""
        self._looked, self._soon = self.arrived, False
        known, strangers = set(self._known()), defaultdict[str, list[socket.socket]](list)
        for peer, one in _connections(self._port):
            if peer in known:
                one.close()
            else:
                strangers[peer.host].append(one)
        many = sum(map(len, strangers.values()))
        least = self._most // 4 if many > self._most // 2 else many
        while many > least:
            most = max(strangers.values(), key=len)
            one = most.pop(random.randrange(len(most)))
            _shut(one)
            one.close()
            self.ended, many = self.ended + 1, many - 1
        for one in [one for several in strangers.values() for one in several]:
            one.close()

    def end(self, whose: Peer) -> None:
        """End one connection, whatever goes on on it."""
        for peer, one in _connections(self._port):
            if peer == whose:
                _shut(one)
            one.close()


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has gone by itself
        one.shutdown(socket.SHUT_RDWR)


def peer_of(said: str) -> Peer:
    """From gRPC's words: "ipv4:192.0.2.1:7400", "ipv6:%5B2001:db8::1%5D:7400"."""
    host, _, port = unquote(said).partition(":")[2].rpartition(":")
    return Peer(_plain(host.strip("[]")), int(port)) if port.isdecimal() else Peer(said, 0)


def _plain(host: str) -> str:
    """An address in one way of writing; one of IPv4 that came over IPv6 as what it is."""
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host.partition("%")[0])
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return str(mapped or address)
    return host


def _connections(port: int) -> list[tuple[Peer, socket.socket]]:
    """Copies of this process's connections that came in on a port; whoever asks closes them."""
    found, copies = [], set[int]()
    for name in _descriptors():
        if name in copies:  # it has the number that the listing itself had
            continue
        with contextlib.suppress(OSError):
            copy = os.dup(name)
            copies.add(copy)
            try:
                one = socket.socket(fileno=copy)
            except OSError:  # it is no socket
                os.close(copy)
                continue
            try:
                if one.family in (socket.AF_INET, socket.AF_INET6) and one.getsockname()[1] == port:
                    host, peer, *_ = one.getpeername()
                    found.append((Peer(_plain(host), peer), one))
                    continue
            except OSError:  # it listens, or was closed meanwhile
                pass
            one.close()
    return found


def _descriptors() -> list[int]:
    for place in PLACES:
        with contextlib.suppress(OSError):
            return [int(name) for name in os.listdir(place) if name.isdecimal()]
    return []
