"""What every transport does, and what it may do; the one within a process and the one over TLS."""

from __future__ import annotations

import asyncio
import time

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers import certificates
from gossamer.peers.certificates import Identities
from gossamer.peers.links import Links
from gossamer.peers.transport import Hub
from gossamer.peers.wire import PAYLOAD_LIMIT, Ack, Frame, frames_in, packed, parts_of


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


class OverTls:
    """The same over gRPC on loopback."""

    def __init__(self):
        self.got = {0: [], 1: []}
        self.authority = certificates.authority("run")

    def links(self, i, listen):
        own, who = certificates.certificate(self.authority, i), Identities(self.authority.certificate)
        tells, hears = ({1: ""}, []) if i == 0 else ({}, [0])
        return Links(i, listen, tells, hears, own, who, self.got[i].append, lambda: b"hello")

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


@pytest.fixture(params=[Within, OverTls], ids=["within a process", "over TLS"])
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
    return [bytes(frame) for one in arrived for frame in frames_in(one.data)]


def test_frames_arrive_whole_in_order_and_with_their_sender(world):
    async def work(made):
        sent = [packed(Frame(Ack(t))) for t in range(200)]
        for frame in sent:
            made.ends[0].send(1, frame)
        await made.until(lambda: len(frames_of(made.got[1])) == 200)
        assert frames_of(made.got[1]) == sent
        assert {(one.sender, one.answer) for one in made.got[1]} == {(0, False)}

    world(work)


def test_answers_go_back_on_the_same_link(world):
    async def work(made):
        made.ends[0].send(1, packed(Frame(Ack(1))))
        await made.until(lambda: made.got[1])
        made.ends[1].reply(0, packed(Frame(Ack(2))))
        await made.until(lambda: made.got[0])
        assert [(one.sender, one.answer) for one in made.got[0]] == [(1, True)]
        assert frames_of(made.got[0]) == [packed(Frame(Ack(2)))]

    world(work)


def test_the_largest_frames_pass_among_small_ones(world):
    async def work(made):
        large = [packed(frame) for frame in parts_of(3, "theta", bytes(range(256)) * (PAYLOAD_LIMIT * 2 // 256))]
        sent = [packed(Frame(Ack(1))), *large, packed(Frame(Ack(2)))]
        for frame in sent:
            made.ends[0].send(1, frame)
        await made.until(lambda: len(frames_of(made.got[1])) == len(sent))
        assert frames_of(made.got[1]) == sent

    world(work)


def test_a_listener_that_comes_back_is_reached_again(world):
    """What was sent while it was away may be lost; what is sent after arrives."""

    async def work(made):
        await made.restart_listener()
        made.ends[0].send(1, packed(Frame(Ack(7))))
        await made.until(lambda: packed(Frame(Ack(7))) in frames_of(made.got[1]))
        assert {(one.sender, one.answer) for one in made.got[1]} == {(0, False)}

    world(work)


def test_sending_to_nobody_waits_for_nothing(world):
    async def work(made):
        made.ends[1].reply(5, b"nobody")
        if isinstance(made, OverTls):
            await made.ends[1].close()
        before = time.monotonic()
        for t in range(100):
            made.ends[0].send(1, packed(Frame(Ack(t))))
        assert time.monotonic() - before < 5.0, "a wait of 50 ms for each would show"
        assert made.got[0] == []

    world(work)


def test_a_party_with_a_certificate_of_its_own_is_known_by_that_one_alone():
    """Its own authority may sign whatever it likes: only the very certificate that was announced is learner 0's."""

    async def work():
        run, own = certificates.authority("run"), certificates.authority("hospital")
        brought, other = certificates.certificate(own, 77), certificates.certificate(own, 0)
        got, said = [], []
        listener = Links(
            1, "127.0.0.1:0", {}, [0], certificates.certificate(run, 1),
            Identities(run.certificate, {0: brought.certificate}), got.append, lambda: b"hello",
        )  # fmt: skip
        await listener.start()
        for pair, welcome in ((brought, True), (other, False), (certificates.certificate(run, 0), False)):
            got.clear()
            said.clear()
            caller = Links(
                0, "127.0.0.1:0", {1: f"127.0.0.1:{listener.port}"}, [], pair, Identities(run.certificate),
                said.append, lambda: b"hello",
            )  # fmt: skip
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
    signer = certificates.authority("run")
    with pytest.raises(gs.GossamerError, match="are learners' own"):
        certificates.certificate(signer, 2, ["learner-0"])
    own = certificates.authority("hospital")
    leaf = certificates.certificate(own, 0)
    who = Identities(signer.certificate, {0: leaf.certificate + own.certificate})
    trusted, _ = who.expected(0)
    assert trusted.count(b"BEGIN CERTIFICATE") == 1
    assert who.trusted.count(b"BEGIN CERTIFICATE") == 2
