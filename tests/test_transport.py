"""What every transport does, and what it may do; the one within a process and the one over TLS."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers import certificates
from gossamer.peers.certificates import Identities
from gossamer.peers.config import read_config
from gossamer.peers.links import Links
from gossamer.peers.outcome import collect_outcomes
from gossamer.peers.process import LearnerProcess
from gossamer.peers.transport import Wiring
from gossamer.peers.wire import PAYLOAD_LIMIT, Ack, Frame, pack, split_frames, split_vector
from peers_hub import Hub
from test_processes import make, simulated

CONTRIBUTING = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def contributed():
    """The transport that CONTRIBUTING shows, as it stands there."""
    names = {"__name__": "contributed"}
    code = next(c for c in re.findall(r"```python\n(.*?)```", CONTRIBUTING, flags=re.DOTALL) if "(Transport)" in c)
    exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    return names["ByHand"]


class Within:
    """Two parties of one hub: 0 tells 1."""

    def __init__(self):
        self.got = {0: [], 1: []}
        self.hub = Hub()

    async def start(self):
        self.ends = {i: self.hub.of(i) for i in (0, 1)}

    async def restart_listener(self):
        self.ends[1] = self.hub.of(1)

    async def until(self, done):
        while any(end.turn(self.got[i].append) for i, end in self.ends.items()):
            pass
        assert done()

    async def close(self):
        pass


class ByHand:
    """The same with CONTRIBUTING's transport."""

    def __init__(self):
        self.got, self.here, self.kind = {0: [], 1: []}, {}, contributed()

    async def begin(self, i):
        tells, hears = ({1: ""}, []) if i == 0 else ({}, [0])
        self.ends[i] = self.kind(
            self.here, Wiring(i, "", tells, hears, None, None, self.got[i].append, lambda: b"hello")
        )
        await self.ends[i].start()
        self.ends[i].dial()
        await asyncio.sleep(0)
        for got in self.got.values():
            got[:] = [one for one in got if one.data != b"hello"]

    async def start(self):
        self.ends = {}
        for i in (0, 1):
            await self.begin(i)

    async def restart_listener(self):
        await self.ends[1].close()
        await self.begin(1)

    async def until(self, done):
        await asyncio.sleep(0)
        assert done()

    async def close(self):
        for end in self.ends.values():
            await end.close()


class OverTls:
    """The same over gRPC on loopback."""

    def __init__(self):
        self.got = {0: [], 1: []}
        self.authority = certificates.make_authority("run")

    def links(self, i, listen):
        own, who = certificates.issue_certificate(self.authority, i), Identities(self.authority.certificate)
        tells, hears = ({1: ""}, []) if i == 0 else ({}, [0])
        return Links(Wiring(i, listen, tells, hears, own, who, self.got[i].append, lambda: b"hello"))

    async def start(self):
        self.ends = {i: self.links(i, "127.0.0.1:0") for i in (0, 1)}
        for end in self.ends.values():
            await end.start()
        self.port = self.ends[1].port
        self.ends[0].reach(1, f"127.0.0.1:{self.port}")
        self.ends[0].dial()
        await self.until(lambda: self.got[0] and self.got[1])
        self.forget_hellos()

    def forget_hellos(self):
        for got in self.got.values():
            got[:] = [one for one in got if one.data != b"hello"]

    async def restart_listener(self):
        await self.ends[1].close()
        self.ends[1] = self.links(1, f"127.0.0.1:{self.port}")
        await self.ends[1].start()
        await self.until(lambda: self.got[1] and self.got[1][-1].data == b"hello")
        self.forget_hellos()

    async def until(self, done):
        async with asyncio.timeout(600):  # seconds; it takes far less, unless the machine is very busy
            while not done():
                await asyncio.sleep(0.01)

    async def close(self):
        for end in self.ends.values():
            await end.close()


@pytest.fixture(params=[Within, ByHand, OverTls], ids=["within a process", "by hand", "over TLS"])
def world(request):
    def run(work):
        async def whole():
            made = request.param()
            try:
                await made.start()
                await work(made)
            finally:
                await made.close()

        asyncio.run(whole())

    return run


def frames_of(arrived):
    return [bytes(frame) for one in arrived for frame in split_frames(one.data)]


def test_frames_arrive_whole_in_order_and_with_their_sender(world):
    async def work(made):
        sent = [pack(Frame(Ack(t))) for t in range(200)]
        for frame in sent:
            made.ends[0].send(1, frame)
        await made.until(lambda: len(frames_of(made.got[1])) == 200)
        assert frames_of(made.got[1]) == sent
        assert {(one.sender, one.answer) for one in made.got[1]} == {(0, False)}

    world(work)


def test_answers_go_back_on_the_same_link(world):
    async def work(made):
        made.ends[0].send(1, pack(Frame(Ack(1))))
        await made.until(lambda: made.got[1])
        made.ends[1].reply(0, pack(Frame(Ack(2))))
        await made.until(lambda: made.got[0])
        assert [(one.sender, one.answer) for one in made.got[0]] == [(1, True)]
        assert frames_of(made.got[0]) == [pack(Frame(Ack(2)))]

    world(work)


def test_the_largest_frames_pass_among_small_ones(world):
    async def work(made):
        large = [pack(frame) for frame in split_vector(3, "theta", bytes(range(256)) * (PAYLOAD_LIMIT * 2 // 256))]
        sent = [pack(Frame(Ack(1))), *large, pack(Frame(Ack(2)))]
        for frame in sent:
            made.ends[0].send(1, frame)
        await made.until(lambda: len(frames_of(made.got[1])) == len(sent))
        assert frames_of(made.got[1]) == sent

    world(work)


def test_a_listener_that_comes_back_is_reached_again(world):
    """What was sent while it was away may be lost; what is sent after arrives."""

    async def work(made):
        await made.restart_listener()
        made.ends[0].send(1, pack(Frame(Ack(7))))
        await made.until(lambda: pack(Frame(Ack(7))) in frames_of(made.got[1]))
        assert {(one.sender, one.answer) for one in made.got[1]} == {(0, False)}

    world(work)


def test_sending_to_nobody_waits_for_nothing(world):
    async def work(made):
        made.ends[1].reply(5, b"nobody")
        if isinstance(made, OverTls):
            await made.ends[1].close()
        before = time.monotonic()
        for t in range(100):
            made.ends[0].send(1, pack(Frame(Ack(t))))
        assert time.monotonic() - before < 5.0, "a wait of 50 ms for each would show"
        assert made.got[0] == []

    world(work)


def test_a_party_with_a_certificate_of_its_own_is_known_by_that_one_alone():
    """Its own authority may sign whatever it likes: only the very certificate that was announced is learner 0's."""

    async def work():
        run, own = certificates.make_authority("run"), certificates.make_authority("hospital")
        brought, other = certificates.issue_certificate(own, 77), certificates.issue_certificate(own, 0)
        got, said = [], []
        pinned = Identities(run.certificate, {0: brought.certificate})
        listens = Wiring(
            1, "127.0.0.1:0", {}, [0], certificates.issue_certificate(run, 1), pinned, got.append, lambda: b"hello"
        )
        listener = Links(listens)
        await listener.start()
        for pair, welcome in ((brought, True), (other, False), (certificates.issue_certificate(run, 0), False)):
            got.clear()
            said.clear()
            address, who = {1: f"127.0.0.1:{listener.port}"}, Identities(run.certificate)
            caller = Links(Wiring(0, "127.0.0.1:0", address, [], pair, who, said.append, lambda: b"hello"))
            await caller.start()
            caller.dial()
            async with asyncio.timeout(600):
                while not got and (welcome or caller.dials[1] < 2):  # who was turned away dials again
                    await asyncio.sleep(0.01)
            assert bool(got) is welcome
            assert not got or got[0].sender == 0
            await caller.close()
        await listener.close()

    asyncio.run(work())


def test_hosts_that_look_like_learners_and_chains_of_certificates_open_no_door():
    signer = certificates.make_authority("run")
    with pytest.raises(gs.GossamerError, match="are learners' own"):
        certificates.issue_certificate(signer, 2, ["learner-0"])
    own = certificates.make_authority("hospital")
    leaf = certificates.issue_certificate(own, 0)
    who = Identities(signer.certificate, {0: leaf.certificate + own.certificate})
    trusted, _ = who.expected(0)
    assert trusted.count(b"BEGIN CERTIFICATE") == 1
    assert who.trusted.count(b"BEGIN CERTIFICATE") == 2


def run_by_hand(folder, m):
    """All learners of a folder to their end, in one event loop."""
    kind, here = contributed(), {}

    async def work():
        plans = [read_config(folder / f"learner-{i}") for i in range(m)]
        learners = [LearnerProcess(plan, connect=lambda wiring: kind(here, wiring)) for plan in plans]
        try:
            return await asyncio.wait_for(asyncio.gather(*(learner.run() for learner in learners)), 60)
        finally:
            for learner in learners:
                learner.journal.close()

    assert asyncio.run(work()) == [0] * m


def test_learners_run_on_a_transport_of_ones_own(tmp_path):
    """Four learners' processes in one event loop, by hand: the simulator's numbers."""
    m, steps = 4, 40
    network = gs.Network.exponential(m)
    make(tmp_path / "run", steps, network, m=m)
    run_by_hand(tmp_path / "run", m)
    collected = collect_outcomes(tmp_path / "run")
    assert collected.t == steps
    np.testing.assert_allclose(collected.theta, simulated(steps, network, m), rtol=0, atol=1e-12)
