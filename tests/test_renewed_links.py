"""Certificates that change while links stand: new dials use the new ones, who counts no more is cut off."""

from __future__ import annotations

import asyncio
import ssl

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import grpc
from cryptography import x509

from gossamer.peers import certificates, links
from gossamer.peers.certificates import Identities
from gossamer.peers.door import _connections
from gossamer.peers.links import METHOD, Links, Way
from gossamer.peers.transport import Wiring
from test_links import LIMIT

LISTENER, SENDERS = 1, (0, 2)
LARGE = bytes(1 << 20)


class Without(Identities):
    """The same authority, but for some certificates."""

    def __init__(self, authority, *put_out):
        super().__init__(authority)
        self._out = put_out

    def learner_in(self, shown):
        return None if shown in self._out else super().learner_in(shown)


class Star:
    """Learners 0 and 2 send to learner 1, which keeps what it got."""

    def __init__(self):
        self.authority, self.next = certificates.make_authority("run"), certificates.make_authority("run")
        self.own = {i: certificates.issue_certificate(self.authority, i) for i in (0, 1, 2)}
        self.got, self.read = {0: [], 1: [], 2: []}, True

    def links(self, i):
        tells, hears = ({}, SENDERS) if i == LISTENER else ({LISTENER: ""}, [])
        identities = Identities(self.authority.certificate)
        return Links(
            Wiring(i, "127.0.0.1:0", tells, hears, self.own[i], identities, self.got[i].append, lambda: b"hello")
        )

    async def start(self):
        self.ends = {i: self.links(i) for i in (0, 1, 2)}
        for end in self.ends.values():
            await end.start()
        for i in SENDERS:
            self.ends[i].reach(LISTENER, f"127.0.0.1:{self.ends[LISTENER].port}")
            self.ends[i].dial()
        await until(lambda: {one.sender for one in self.got[LISTENER]} == {*SENDERS} and self.got[0] and self.got[2])

    async def arrives(self, sender, data):
        self.ends[sender].send(LISTENER, data)
        await until(lambda: any((one.sender, one.data) == (sender, data) for one in self.got[LISTENER]))

    async def close(self):
        for end in self.ends.values():
            await end.close()


async def until(condition):
    async with asyncio.timeout(LIMIT):
        while not condition():
            await asyncio.sleep(0.01)


def star(work):
    async def whole():
        made = Star()
        try:
            await made.start()
            await work(made)
        finally:
            await made.close()

    asyncio.run(whole())


async def to_its_end(stream):
    while await stream.read() is not grpc.aio.EOF:
        pass


async def shown_at(port):
    """The certificate that whoever listens there shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(True)
    writer.transport.abort()
    return x509.load_der_x509_certificate(der)


def loaded(pair):
    return x509.load_pem_x509_certificate(pair.certificate)


def test_the_link_of_a_certificate_that_counts_no_more_is_cut_and_others_are_not_touched():
    async def work(made):
        listener = made.ends[LISTENER]
        other = listener._queues[Way(0, False)]
        listener.renew(made.own[LISTENER], Without(made.authority.certificate, loaded(made.own[2])))
        await until(lambda: Way(2, False) not in listener._queues)
        dials = made.ends[2].dials[LISTENER]
        await until(lambda: made.ends[2].dials[LISTENER] > dials + 1)
        made.got[LISTENER].clear()
        made.ends[2].send(LISTENER, b"put out")
        await made.arrives(0, b"still here")
        assert listener._queues[Way(0, False)] is other, "its link was not opened again"
        assert made.ends[0].dials == {LISTENER: 1}
        assert {one.sender for one in made.got[LISTENER]} == {0}

    star(work)


def test_a_link_is_cut_also_where_the_other_side_reads_nothing():
    async def work(made):
        listener, way = made.ends[LISTENER], Way(2, False)
        await made.ends[2].close()
        await until(lambda: way not in listener._queues)
        credentials = grpc.ssl_channel_credentials(made.authority.certificate, *made.own[2])
        options = [("grpc.ssl_target_name_override", certificates.name_of(LISTENER))]
        async with grpc.aio.secure_channel(f"127.0.0.1:{listener.port}", credentials, options) as channel:
            stream = channel.stream_stream(METHOD)()
            await stream.write(b"hello")
            await until(lambda: way in listener._queues)
            waits = 0
            while waits < 3:  # times in a row that the same answer waits: what was written before is not read
                listener.reply(2, LARGE + bytes(waits))
                await asyncio.sleep(0.05)
                waits = waits + 1 if listener._queues[way]._frames else 0
            listener.renew(made.own[LISTENER], Without(made.authority.certificate, loaded(made.own[2])))
            await until(lambda: way not in listener._queues)
            with pytest.raises(grpc.aio.AioRpcError):
                await to_its_end(stream)

    star(work)


def test_who_opens_stream_after_stream_and_reads_none_is_left_with_the_last(monkeypatch):
    """Each would keep what waits for it, and its connection, for as long as the other side likes."""
    monkeypatch.setattr(links, "READ_OUT", 0.1)

    async def work(made):
        listener, way = made.ends[LISTENER], Way(2, False)
        await made.ends[2].close()
        await until(lambda: way not in listener._queues)
        credentials = grpc.ssl_channel_credentials(made.authority.certificate, *made.own[2])
        options = [
            ("grpc.ssl_target_name_override", certificates.name_of(LISTENER)), ("grpc.use_local_subchannel_pool", 1)
        ]  # fmt: skip
        channels, streams, others = [], [], set(those_at(listener.port))  # learner 0's, and perhaps 2's own, idle now
        for k in range(4):
            channels.append(grpc.aio.secure_channel(f"127.0.0.1:{listener.port}", credentials, options))
            streams.append(channels[-1].stream_stream(METHOD)())
            await streams[-1].write(b"hello")
            before = listener._queues.get(way)
            await until(lambda before=before: listener._queues.get(way) not in (None, before))
            waits = 0
            while waits < 3:
                listener.reply(2, LARGE + bytes(waits + 10 * k))
                await asyncio.sleep(0.05)
                waits = waits + 1 if listener._queues[way]._frames else 0
        await until(lambda: len(set(those_at(listener.port)) - others) == 1)  # the last
        for stream in streams[:-1]:
            with pytest.raises(grpc.aio.AioRpcError):
                await to_its_end(stream)
        assert way in listener._queues, "the last one is there"
        for channel in channels:
            await channel.close()

    star(work)


def those_at(port):
    return [peer for peer, one in _connections(port) if not one.close()]


def test_new_dials_meet_the_new_certificate_and_links_that_stand_do_not():
    async def work(made):
        listener = made.ends[LISTENER]
        assert await shown_at(listener.port) == loaded(made.own[LISTENER])
        renewed = certificates.issue_certificate(made.authority, LISTENER)
        listener.renew(renewed, Identities(made.authority.certificate))
        assert await shown_at(listener.port) == loaded(renewed)
        for i in SENDERS:
            await made.arrives(i, b"goes on")
            assert made.ends[i].dials == {LISTENER: 1}

    star(work)


def test_who_dials_shows_its_new_certificate_on_the_next_link():
    async def work(made):
        renewed = certificates.issue_certificate(made.authority, 0)
        made.ends[0].renew(renewed, Identities(made.authority.certificate))
        listener = made.ends[LISTENER]
        assert made.ends[0].dials == {LISTENER: 1}, "its link stands"
        listener.renew(made.own[LISTENER], Without(made.authority.certificate, loaded(made.own[0])))
        await until(lambda: made.ends[0].dials[LISTENER] == 2)
        await until(lambda: Way(0, False) in listener._queues)
        await made.arrives(0, b"with the new one")
        assert listener.dials == {}

    star(work)


def test_a_new_authority_lets_in_its_own_and_nobody_else():
    """Learner 2 keeps what the old one has signed: it is cut off, and gets in with a new certificate."""

    async def work(made):
        new = {i: certificates.issue_certificate(made.next, i) for i in (0, 1, 2)}
        after = Identities(made.next.certificate)
        made.ends[0].renew(new[0], after)
        made.ends[LISTENER].renew(new[LISTENER], after)
        await until(lambda: Way(2, False) not in made.ends[LISTENER]._queues)
        await until(lambda: Way(0, False) in made.ends[LISTENER]._queues and Way(1, True) in made.ends[0]._queues)
        await made.arrives(0, b"of the new authority")
        dials = made.ends[2].dials[LISTENER]
        await until(lambda: made.ends[2].dials[LISTENER] > dials)
        assert Way(2, False) not in made.ends[LISTENER]._queues
        made.ends[2].renew(new[2], after)
        await until(lambda: Way(2, False) in made.ends[LISTENER]._queues)
        await until(lambda: Way(1, True) in made.ends[2]._queues)
        await made.arrives(2, b"back again")

    star(work)
