"""Strangers that connect and say nothing: they are few at a time, they are dropped in seconds, and the run goes on."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import threading
import time

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers import descriptors, metrics
from gossamer.peers.door import Door, Peer, peer_of
from gossamer.peers.metrics import CONNECTIONS, Endpoint
from test_links import linked
from test_processes import LIMIT, free_ports, make, simulated

FILES = 256
HALF = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # how a TLS handshake begins


class Flood:
    """Connections that say nothing, or begin to shake hands; what is dropped is opened again, so often a second."""

    def __init__(self, port, most, again):
        self._to, self._most, self._again = ("127.0.0.1", port), most, again
        self.opened = self.dropped = 0
        self._open, self._over = [], threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limits = soft, hard
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, self._most + 500)), hard))
        self._fill()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        for one in self._open:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)

    def _fill(self, most=None):
        for _ in range(min(self._most - len(self._open), most or self._most)):
            with contextlib.suppress(OSError):
                one = socket.create_connection(self._to, 5)
                self.opened += 1
                if self.opened % 4 == 0:
                    one.sendall(HALF if self.opened % 8 else b"GET / HTTP/1.1\r\n\r\n")
                one.setblocking(False)
                self._open.append(one)

    def _work(self):
        while not self._over.wait(0.1):
            gone = [one for one in self._open if ended(one)]
            self.dropped += len(gone)
            self._open = [one for one in self._open if one not in gone]
            for one in gone:
                one.close()
            if self._again:
                self._fill(max(1, self._again // 10))


def ended(one):
    try:
        return one.recv(100) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("again", [0, 1000], ids=["once", "again and again"])
def test_more_idle_connections_than_descriptors_neither_end_a_learner_nor_keep_neighbours_out(
    tmp_path, fleet_of, again
):
    """Learner 0 has 256 descriptors; 600 connections are open on its port before a neighbour comes."""
    m, steps, network = 3, 60, gs.Network.ring(3)
    port = make(tmp_path / "run", steps, network, m=m)
    fleet = fleet_of(tmp_path / "run", m=m)
    fleet.start(0, files=FILES)
    end = time.monotonic() + LIMIT
    while not fleet.status(0).get("state"):
        assert time.monotonic() < end
        time.sleep(0.05)
    with Flood(port, 600, again) as flood:
        assert flood.opened > 2 * FILES
        fleet.start(1, 2)
        theta = fleet.finish()
    np.testing.assert_allclose(theta, simulated(steps, network, m), rtol=0, atol=1e-12)
    assert flood.dropped > FILES, "idle connections are dropped"
    assert [fleet.status(i)["state"] for i in range(m)] == ["done"] * m
    said = (fleet.place(0) / "stderr.log").read_text() + (fleet.place(0) / "log.jsonl").read_text()
    assert "Too many open files" not in said
    assert "ssl_transport_security" not in said, "gRPC's own word on every handshake that fails"
    assert len(said) < 20_000, "nobody fills a disk with handshakes that fail"


def test_who_only_connects_is_dropped_within_seconds(tmp_path):
    """Also where there is room: a handshake may take a few seconds, and no longer."""

    async def work(world):
        port = world.links[0].port
        streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        streams[1][1].write(HALF)
        streams[2][1].write(b"GET / HTTP/1.1\r\n\r\n")
        before = time.monotonic()
        for reader, _ in streams:
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(reader.read(-1), 60)
        assert time.monotonic() - before < 60, "gRPC's own limit is two minutes"
        for _, writer in streams:
            writer.transport.abort()
        return await world.run()

    linked(work, tmp_path)


def test_connections_are_those_that_a_learners_own_files_leave_room_for(monkeypatch):
    monkeypatch.setattr(descriptors, "raise_limit", lambda: 256)
    monkeypatch.setattr(descriptors, "_open_now", lambda: 30)
    allowed = descriptors.connections_allowed(3)
    assert allowed >= 2 * 3 + 8
    assert 30 + descriptors.RESERVED + 2 * 3 + 2 * allowed <= 256
    with pytest.raises(gs.GossamerError, match=r"256 file descriptors are allowed .*LimitNOFILE"):
        descriptors.connections_allowed(20)
    monkeypatch.setattr(descriptors, "raise_limit", lambda: 1_000_000)
    assert descriptors.connections_allowed(3) == descriptors.CONNECTIONS


def test_the_soft_limit_is_raised_to_what_the_system_allows(monkeypatch):
    limits = {"soft": 1024, "hard": 4096}
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limits["soft"], limits["hard"]))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: limits.update(soft=both[0]))
    assert descriptors.raise_limit() == limits["soft"] == 4096
    limits |= {"soft": 1024, "hard": 1 << 20}
    assert descriptors.raise_limit() == limits["soft"] == descriptors.WANTED


def test_the_door_ends_strangers_of_the_busiest_address_and_nobody_who_is_known():
    async def work():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
            other = socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0))
            neighbour = socket.create_connection(("127.0.0.1", port))
            accepted = [listening.accept()[0] for _ in range(22)]
            door = Door(port, 24, lambda: [Peer(*neighbour.getsockname())])
            for _ in range(24 // 4 - 1):
                door.came()
            await asyncio.sleep(0.1)
            assert door.ended == 0, "so few that nobody looks"
            door.came()
            while not door.ended:
                await asyncio.sleep(0.01)
            assert door.ended == 21 - 24 // 4
            for one in (*strangers, other, neighbour):
                one.setblocking(False)
            left = [one for one in strangers if not ended(one)]
            assert len(left) == 24 // 4 - 1
            assert not ended(other)
            assert not ended(neighbour)
            wide = Door(port, 1000, lambda: [])
            wide.make_room()
            assert wide.ended == 0, "there is room"
            for one in (*strangers, other, neighbour, *accepted):
                one.close()

    asyncio.run(asyncio.wait_for(work(), LIMIT))


def test_peers_are_read_as_grpc_names_them():
    assert peer_of("ipv4:192.0.2.1:7400") == ("192.0.2.1", 7400)
    assert peer_of("ipv6:%5B2001:db8::1%5D:7400") == ("2001:db8::1", 7400)
    assert peer_of("ipv6:[::ffff:192.0.2.1]:7400") == ("192.0.2.1", 7400)
    assert peer_of("unix:/run/gossamer").port == 0


def test_metrics_are_for_few_at_a_time_and_drop_who_asks_nothing():
    """More connections than it serves at once: they are dropped in seconds, and whoever asks then gets an answer."""

    async def work():
        port = free_ports(1)
        endpoint = Endpoint(f"127.0.0.1:{port}", lambda: "figures " * 100_000)
        await endpoint.start()
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4 * CONNECTIONS)]
        slow = idle[0][1]
        slow.write(b"GET /metrics HTTP/1.1\r\n\r\n")  # and reads nothing
        before = time.monotonic()
        async with asyncio.timeout(60):
            while (answer := await asked(port)) is None:
                assert endpoint.open <= CONNECTIONS
                await asyncio.sleep(0.2)
            while endpoint.open:
                await asyncio.sleep(0.1)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert time.monotonic() - before < 60
        for _, writer in idle:
            writer.transport.abort()
        await endpoint.close()

    asyncio.run(work())


def test_metrics_let_in_no_more_than_a_few_at_a_time(monkeypatch):
    """However long those stay: the next one is dropped at once, and its descriptor is free."""
    monkeypatch.setattr(metrics, "SECONDS", LIMIT)

    async def work():
        port = free_ports(1)
        endpoint = Endpoint(f"127.0.0.1:{port}", lambda: "figures")
        await endpoint.start()
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
        async with asyncio.timeout(LIMIT):
            while endpoint.open < CONNECTIONS:
                await asyncio.sleep(0.01)
        assert [await asked(port) for _ in range(5)] == [None] * 5
        assert endpoint.open == CONNECTIONS
        for _, writer in idle:
            writer.transport.abort()
        async with asyncio.timeout(LIMIT):
            while endpoint.open:
                await asyncio.sleep(0.01)
        await endpoint.close()

    asyncio.run(work())


async def asked(port):
    """What /metrics answers; None where it lets nobody in."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        answer = await reader.read(-1)
        writer.close()
    except ConnectionError:
        return None
    return answer or None
