"""Links that are refused, and neighbours that never read: bounded memory, few dials, few lines in the log."""

from __future__ import annotations

import asyncio
import logging

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import grpc

from gossamer.peers import certificates
from gossamer.peers import links as links_module
from gossamer.peers.backoff import FIRST, LOST, REFUSED, SETTLED, Backoff, Outcome
from gossamer.peers.links import METHOD, Links, Way
from gossamer.peers.logs import ANEW, Rarely
from gossamer.peers.outbound import ANSWERS, Outbound
from gossamer.peers.transport import Wiring
from gossamer.peers.wire import Frame, Hello, pack
from test_links import LIMIT, linked
from test_peers import N, Team

DAY = 86_400.0


async def to_its_end(stream):
    async for _ in stream:
        pass


def waits(backoff, outcome, count):
    return [backoff.after(outcome) for _ in range(count)]


def test_a_link_that_was_lost_is_dialled_again_within_two_seconds_however_often():
    found = waits(Backoff(), Outcome.LOST, 100)
    assert found[:5] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6])
    assert set(found[5:]) == {LOST}


def test_who_refuses_is_dialled_once_a_minute_at_most():
    found = waits(Backoff(chance=lambda: 0.0), Outcome.REFUSED, 20)
    assert found[:3] == pytest.approx([0.1, 0.2, 0.4])
    assert set(found[-5:]) == {REFUSED}
    shortened = waits(Backoff(chance=lambda: 1.0), Outcome.REFUSED, 20)
    assert shortened[-1] == REFUSED / 2, "parties do not come back all at once"
    assert max(shortened[:5]) <= LOST, "and short waits stay what they are"


def test_waits_begin_anew_when_something_has_changed():
    backoff = Backoff(chance=lambda: 0.0)
    waits(backoff, Outcome.REFUSED, 20)
    assert backoff.after(Outcome.LOST) == FIRST, "it went away: it may come back as another"
    assert waits(backoff, Outcome.LOST, 10)[-1] == LOST
    assert backoff.after(Outcome.REFUSED) == FIRST
    waits(backoff, Outcome.REFUSED, 20)
    assert backoff.after(Outcome.REFUSED, SETTLED) == FIRST, "the link was in order for a while"


def test_what_waits_for_a_link_that_nobody_reads_is_bounded_in_bytes_and_in_frames():
    async def queued(frames, room):
        queue, kept = Outbound(room), 0
        for data in frames:
            kept += queue.put(data)
        assert queue.size == sum(map(len, queue._frames))
        return queue, kept

    queue, kept = asyncio.run(queued((b"%d" % k + bytes(997) for k in range(100_000)), ANSWERS))
    assert queue.size <= ANSWERS
    assert 0 < kept < 1100
    queue, kept = asyncio.run(queued((b"%d" % k for k in range(100_000)), ANSWERS))
    assert kept < 5000, "small ones cost memory, too"


def test_what_is_larger_than_the_room_passes_alone_and_what_was_read_makes_room():
    async def work():
        queue = Outbound(1000)
        assert queue.put(bytes(5000)), "or it would never arrive"
        assert not queue.put(b"more")
        assert len(await queue.next()) == 5000
        assert queue.size == 0
        assert queue.put(b"more")

    asyncio.run(work())


def test_a_neighbour_that_only_sends_and_never_reads_is_answered_in_bounded_memory(tmp_path):
    """Each of its hellos is refused with a sentence of its own: tens of MiB, were they all kept for it."""
    count = 30_000

    async def work(world):
        node, party = world.nodes[0], world.team.parties[0]
        hears = party.hears[0]
        pair = certificates.issue_certificate(world.authority, hears)
        credentials = grpc.ssl_channel_credentials(world.authority.certificate, *pair)
        options = [("grpc.ssl_target_name_override", certificates.name_of(0))]
        async with grpc.aio.secure_channel(f"127.0.0.1:{world.links[0].port}", credentials, options) as channel:
            stream = channel.stream_stream(METHOD)()
            await stream.write(pack(Frame(Hello("run", hears, 10**6, 0, N, "f8"))))
            largest = 0
            for k in range(0, count, 500):
                await stream.write(
                    b"".join(pack(Frame(Hello("run", hears, j, 0, N, "f8"))) for j in range(k + 1, k + 501))
                )
                queue = world.links[0]._queues.get(Way(hears, False))
                largest = max(largest, queue.size if queue else 0)
            async with asyncio.timeout(LIMIT):
                while node.refused[hears, "old journal"] < count:
                    await asyncio.sleep(0.01)
            queue = world.links[0]._queues[Way(hears, False)]
            assert ANSWERS / 2 < max(largest, queue.size) <= ANSWERS
            stream.cancel()

    linked(work, tmp_path)


class Line(logging.Handler):
    """Counts what a learner would write into its log."""

    def __init__(self):
        super().__init__()
        self.events = []

    def emit(self, record):
        self.events.append((record.getMessage(), record.edge))


@pytest.fixture
def lines():
    handler, log = Line(), logging.getLogger("gossamer.peers")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler.events
    log.removeHandler(handler)
    log.setLevel(before)


def test_a_link_that_opens_and_is_refused_all_day_is_logged_now_and_then(lines):
    """It was news each time that it opened: 150 MB a day."""
    now = [0.0]
    rarely, backoff = Rarely(lambda: now[0]), Backoff()
    dials = 0
    while now[0] < DAY:
        rarely.changed("0 → 1")
        rarely.say("link open", "0 → 1", level=logging.INFO)
        rarely.say("refused", "0 → 1", "learner 1 does not hear learner 0.")
        now[0] += backoff.after(Outcome.REFUSED)
        dials += 1
    assert DAY / REFUSED <= dials < 2 * DAY / REFUSED + 20
    assert 24 <= len(lines) < 24 * 2 * 9, "some lines an hour"


def test_one_that_is_refused_without_ever_being_open_is_said_ever_more_rarely(lines):
    now = [0.0]
    rarely = Rarely(lambda: now[0])
    while now[0] < DAY:
        rarely.say("link lost", "0 → 1", "UNAVAILABLE")
        now[0] += LOST
    assert len(lines) == len({int(k).bit_length() for k in range(1, int(DAY / LOST) + 1)})


def test_a_change_makes_news_once_an_hour_and_of_one_link_alone(lines):
    now = [0.0]
    rarely = Rarely(lambda: now[0])
    for _ in range(1000):
        rarely.say("link lost", "0 → 1", "why")
        rarely.say("link lost", "0 → 2", "why")
        rarely.changed("0 → 1")
    assert len(lines) == 2 * 10
    now[0] = ANEW
    rarely.changed("0 → 1")
    rarely.say("link lost", "0 → 1", "why")
    rarely.say("link lost", "0 → 2", "why")
    assert len(lines) == 2 * 10 + 1


def test_a_stranger_dials_rarely_and_both_sides_write_little(lines, monkeypatch):
    """Two hours of a learner whose graph has a link that the other's has not, with real links; the clock is not."""
    now, hours = [0.0], 2

    async def pause(self, j, seconds):
        now[0] += seconds
        if now[0] > hours * ANEW:
            await asyncio.Event().wait()

    monkeypatch.setattr(Links, "_pause", pause)

    async def work():
        authority = certificates.make_authority("run")
        who = certificates.Identities(authority.certificate)

        def links(i, tells):
            own = certificates.issue_certificate(authority, i)
            made = Links(Wiring(i, "127.0.0.1:0", tells, [], own, who, lambda arrived: None, lambda: b"hello"))
            made._rarely = Rarely(lambda: now[0])
            return made

        here, there = links(0, {1: ""}), links(1, {})
        for end in (here, there):
            await end.start()
        here.reach(1, f"127.0.0.1:{there.port}")
        here.dial()
        async with asyncio.timeout(LIMIT):
            while now[0] <= hours * ANEW:
                await asyncio.sleep(0.02)
        assert here.dials[1] < 2 * hours * ANEW / REFUSED + 20
        assert there.links == here.dials[1], "each was turned away by the other, and not by a failure"
        for end in (here, there):
            await end.close()

    asyncio.run(work())
    assert {"link open", "link lost", "refused"} == {event for event, _ in lines}
    assert len(lines) < hours * 3 * 9


def test_a_stranger_is_heard_out_once_at_a_time(monkeypatch):
    """A learner of the run that is no neighbour, with many streams on which it says nothing, or half a message."""
    monkeypatch.setattr(links_module, "HEARD_OUT", 1000.0)

    async def work():
        authority = certificates.make_authority("run")
        who, own = certificates.Identities(authority.certificate), certificates.issue_certificate(authority, 1)
        there = Links(
            Wiring(
                1, "127.0.0.1:0", {}, [], own, who, lambda arrived: None, lambda: b"hello", lambda j, sends: [b"you"]
            )
        )
        await there.start()
        pair = certificates.issue_certificate(authority, 0)
        credentials = grpc.ssl_channel_credentials(authority.certificate, *pair)
        options = [("grpc.ssl_target_name_override", certificates.name_of(1))]
        async with grpc.aio.secure_channel(f"127.0.0.1:{there.port}", credentials, options) as channel:
            first = channel.stream_stream(METHOD)()
            assert await first.read() == b"you"
            for _ in range(6):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await to_its_end(channel.stream_stream(METHOD)(timeout=LIMIT))
                assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
            assert len(there._heard_out) == 1
            first.cancel()
        await there.close()

    asyncio.run(work())


def test_a_neighbour_that_has_come_back_is_dialled_at_once(monkeypatch):
    """Learner 1 refuses 0, whose next dial is an hour away; then it comes with another graph, and dials 0 itself."""
    monkeypatch.setattr(Backoff, "after", lambda self, outcome, lasted=0.0: 3600.0)

    async def work():
        authority = certificates.make_authority("run")
        who, got = certificates.Identities(authority.certificate), {0: [], 1: []}

        def links(i, tells, hears, listen="127.0.0.1:0"):
            own = certificates.issue_certificate(authority, i)
            return Links(Wiring(i, listen, tells, hears, own, who, got[i].append, lambda: b"hello"))

        here, there = links(0, {1: ""}, [1]), links(1, {}, [])
        await here.start()
        await there.start()
        here.reach(1, f"127.0.0.1:{there.port}")
        here.dial()
        async with asyncio.timeout(LIMIT):
            while not here._seen:
                await asyncio.sleep(0.01)
            await there.close()
            there = links(1, {0: f"127.0.0.1:{here.port}"}, [0], f"127.0.0.1:{there.port}")
            await there.start()
            there.dial()
            while not got[1]:
                await asyncio.sleep(0.01)
        assert {one.sender for one in got[1]} == {0}
        assert here.dials[1] == 2
        for end in (here, there):
            await end.close()

    asyncio.run(work())


def test_handshakes_that_fail_are_counted_and_said_once_in_a_while(lines, monkeypatch):
    monkeypatch.setattr(links_module, "COUNT", 0.2)

    async def work():
        authority = certificates.make_authority("run")
        who = certificates.Identities(authority.certificate)
        own = certificates.issue_certificate(authority, 0)
        end = Links(Wiring(0, "127.0.0.1:0", {}, [1], own, who, lambda arrived: None, lambda: b"hello"))
        await end.start()
        for _ in range(40):
            _, writer = await asyncio.open_connection("127.0.0.1", end.port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await asyncio.sleep(0.03)
            writer.transport.abort()
        async with asyncio.timeout(LIMIT):
            while end._door.arrived < 40:
                await asyncio.sleep(0.01)
        await end.close()

    asyncio.run(work())
    said = [edge for event, edge in lines if event == "strangers"]
    assert 1 <= len(said) <= 4
    assert set(said) == {"? → 0"}


def test_all_that_a_party_sends_again_at_once_fits_where_it_waits(tmp_path, monkeypatch):
    """Were it less, the last parts of a long vector would be dropped each time that they are sent."""
    monkeypatch.setattr("gossamer.peers.party.LIMIT", 0)  # a document's room, in which short vectors have enough
    team = Team(tmp_path)
    for i, party in team.parties.items():
        for j in party.tells:
            queue = Outbound(party.room)
            for _ in range(2):
                assert all(queue.put(bytes(bytearray(frame))) for frame in party.outgoing(j)), i
