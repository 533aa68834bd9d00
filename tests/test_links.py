"""Links over gRPC with mutual TLS, on loopback: the simulator's numbers, and strangers stay outside."""

from __future__ import annotations

import asyncio
import logging

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
grpc = pytest.importorskip("grpc", reason="needs the extra `peers`")

from gossamer.peers import certificates  # noqa: E402
from gossamer.peers.links import METHOD, Links  # noqa: E402
from gossamer.peers.node import Node  # noqa: E402
from gossamer.peers.transport import Wiring  # noqa: E402
from gossamer.peers.wire import Frame, Hello, Refusal, pack, split_vector, unpack  # noqa: E402
from test_peers import M, N, Team, simulated  # noqa: E402

STEPS = 12
LIMIT = 600  # seconds; everything takes a few, unless the machine is very busy


class Linked:
    """Ten parties of a Team, each with its own server and certificate, in one event loop.

    `dials(sender, listener)` says who opens a link; a party that nobody dials does not listen.
    """

    def __init__(self, folder, dials=lambda sender, listener: "sender"):
        self.team = Team(folder, steps=STEPS)
        self.authority = certificates.make_authority("run")
        self.nodes, self.links = {}, {}
        for i, party in self.team.parties.items():
            own = certificates.issue_certificate(self.authority, i)
            tells = {j: "" if dials(i, j) == "sender" else None for j in party.tells}
            sources = {j: "" for j in party.hears if dials(j, i) == "receiver"}
            reached = None in tells.values() or len(sources) < len(party.hears)
            wiring = Wiring(
                i, "127.0.0.1:0" if reached else None, tells, party.hears, own,
                certificates.Identities(self.authority.certificate),
                take=lambda arrived, i=i: self.nodes[i].take(arrived),
                hello=lambda i=i: self.nodes[i].hello,
                apart=lambda j, why, i=i: self.nodes[i].met_apart(j, why),
                release=lambda j, release, i=i: self.nodes[i].met_release(j, release),
                sources=sources,
            )  # fmt: skip
            self.links[i] = Links(wiring)
            self.nodes[i] = Node(party, self.links[i], "run", self.team.journals[i].epoch)

    async def start(self):
        for links in self.links.values():
            await links.start()
        for i, party in self.team.parties.items():
            for j in {*party.tells, *party.hears}:
                self.links[i].reach(j, f"127.0.0.1:{self.links[j].port}")

    async def run(self):
        for links in self.links.values():
            links.dial()
        async with asyncio.timeout(LIMIT):
            while not all(node.done for node in self.nodes.values()):
                await asyncio.sleep(0.01)
        return np.concatenate([self.team.parties[i].state.theta for i in range(M)])

    async def close(self):
        await asyncio.gather(*(links.close() for links in self.links.values()))


def linked(work, folder, *dials):
    async def whole():
        world = Linked(folder, *dials)
        try:
            await world.start()
            return await work(world)
        finally:
            await world.close()

    return asyncio.run(whole())


def test_ten_parties_over_tls_find_what_the_simulator_finds(tmp_path):
    found = linked(lambda world: world.run(), tmp_path)
    np.testing.assert_allclose(found, simulated(steps=STEPS), rtol=0, atol=1e-12)


async def knock(world, pair, to, frames=(), metadata=None):
    """What learner `to` answers whoever comes with this certificate."""
    credentials = grpc.ssl_channel_credentials(world.authority.certificate, *pair)
    options = [("grpc.ssl_target_name_override", certificates.name_of(to))]
    async with grpc.aio.secure_channel(f"127.0.0.1:{world.links[to].port}", credentials, options) as channel:
        stream = channel.stream_stream(METHOD)(timeout=LIMIT, metadata=metadata)
        for data in frames:
            await stream.write(data)
        return unpack(await stream.read()).header


@pytest.mark.parametrize("kind", ["rogue", "expired", "none"])
def test_a_certificate_that_is_not_this_runs_gets_nowhere(tmp_path, kind):
    async def work(world):
        signer = certificates.make_authority("another") if kind == "rogue" else world.authority
        hears = world.team.parties[0].hears[0]
        pair = certificates.issue_certificate(signer, hears, days=-1 if kind == "expired" else 1)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await knock(world, (None, None) if kind == "none" else pair, 0)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        return await world.run()

    np.testing.assert_allclose(linked(work, tmp_path), simulated(steps=STEPS), rtol=0, atol=1e-12)


def test_a_right_certificate_of_no_neighbour_is_told_so(tmp_path, caplog):
    async def work(world):
        stranger = next(j for j in range(1, M) if j not in world.team.parties[0].hears)
        answer = await knock(world, certificates.issue_certificate(world.authority, stranger), 0)
        assert isinstance(answer, Refusal)
        assert answer.reason == "stranger"
        return await world.run()

    with caplog.at_level(logging.WARNING, "gossamer.peers"):
        np.testing.assert_allclose(linked(work, tmp_path), simulated(steps=STEPS), rtol=0, atol=1e-12)
    assert any("does not hear learner" in record.why for record in caplog.records)


def test_a_neighbour_that_speaks_for_another_or_nonsense_changes_nothing(tmp_path):
    async def work(world):
        hears = world.team.parties[0].hears[0]
        pair = certificates.issue_certificate(world.authority, hears)
        forged = pack(Frame(Hello("run", (hears + 1) % M, 1, 0, N, "f8")))
        late = pack(split_vector(99, "theta", bytes(8 * N))[0])
        answer = await knock(world, pair, 0, [forged, late, b"nonsense", b""])
        assert isinstance(answer, Hello)
        async with asyncio.timeout(LIMIT):
            while (hears, "forged") not in world.nodes[0].refused:
                await asyncio.sleep(0.01)
        return await world.run()

    np.testing.assert_allclose(linked(work, tmp_path), simulated(steps=STEPS), rtol=0, atol=1e-12)


def test_names_of_certificates_are_read_strictly():
    assert certificates.learner_of("learner-7") == 7
    for name in ("learner-", "learner-07", "learner--1", "learner-7 ", "Learner-7", "learner-٧", "7", ""):
        assert certificates.learner_of(name) is None
