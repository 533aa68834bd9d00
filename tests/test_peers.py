"""Learners as parties of their own, on links within this process: the simulator's numbers, whatever the links do."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gossamer as gs
from gossamer.algorithms import METHODS as REGISTRY
from gossamer.privacy import Unproved
from gossamer.records import Batch, dense_table
from gossamer.streams.stream import OnePass

pytest.importorskip("msgspec", reason="needs the extra `peers`")
from gossamer.peers import wire
from gossamer.peers.journal import Journal
from gossamer.peers.node import Node, pack_once
from gossamer.peers.party import Party
from gossamer.peers.transport import Arrived
from gossamer.peers.turns import rounds_kept
from gossamer.peers.wire import Frame, Hello, Part, RefusedError, pack, split_frames, split_vector, unpack
from peers_hub import Faults, Hub

METHODS = REGISTRY.entries()

STEPS, M, N = 30, 10, 4
MODEL = gs.LogisticRegression(l2=0.1)


class Noise:
    """The same noise for the simulator and for the parties, each of which has its own row."""

    def __init__(self, row=None):
        self._row = row

    def noise(self, channel, t, shape):
        whole = np.random.default_rng([t, len(channel)]).laplace(size=(M, shape[1])) * 0.1
        return whole if self._row is None else whole[[self._row]]


def records(steps=STEPS):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(M, steps, N))
    y = (X @ rng.normal(size=N) > 0).astype(float)
    return OnePass(dense_table(X.reshape(-1, N), y.ravel()), list(np.arange(M * steps).reshape(M, -1)), 1)


class Own:
    """One learner's part of a stream."""

    def __init__(self, stream, i):
        self._stream, self._i, self.table = stream, i, stream.table

    def here(self, t):
        return True

    def read(self, t):
        return ""

    def arrivals(self, t):
        batch = self._stream.arrivals(t)
        mine = slice(int(batch.counts[: self._i].sum()), int(batch.counts[: self._i + 1].sum()))
        return Batch(batch.rows[mine], batch.labels[mine], batch.counts[[self._i]])


class Team:
    """All parties of a run, one hub, and what a wire-tap saw."""

    def __init__(self, folder, method="ldp_gradient_tracking", network=None, faults=None, steps=STEPS, seed=0, late=0):
        self.folder, self.method, self.steps, self.late = folder, METHODS[method], steps, late
        self.network, self.stream = network or gs.Network.paper_one_way(), records(steps)
        self.payloads, self.crash_at, self.ended, self.rng = {}, None, 0, random.Random(seed)
        self.hub = Hub(faults, seed, self.tapped)
        self.nodes, self.parties, self.journals, self.boxes = {}, {}, {}, {}
        for i in range(M):
            self.start(i)

    def tapped(self, sender, to, data):
        for frame in map(unpack, split_frames(data)):
            if isinstance(frame.header, Part):
                key = (sender, frame.header.round, frame.header.channel, frame.header.part)
                self.payloads.setdefault(key, set()).add(bytes(frame.payload))

    def start(self, i):
        self.journals[i] = Journal(
            self.folder / f"{i}.db", "run", i, "settings", "process", rounds_kept(N, "f8", self.late)
        )
        own = Own(self.stream, i)
        memory = MODEL.memory(self.stream.table, "history", np.array([self.steps]))
        self.parties[i] = Party(
            i, self.method.build(0.3), self.network, own, memory, Unproved(Noise(i)), self.journals[i],
            size=N, steps=self.steps, ridge=MODEL.l2, late=self.late, lateness=self.late,
        )  # fmt: skip
        self.boxes[i] = self.hub.of(i)
        self.nodes[i] = Node(self.parties[i], self.boxes[i], "run", self.journals[i].epoch, self.hook)

    def hook(self, moment):
        if self.crash_at is not None:
            self.crash_at -= 1
            if self.crash_at <= 0:
                self.crash_at = None
                raise SystemError(moment)

    def end(self, i):
        self.journals[i].close()

    def sweep(self):
        """A frame for everyone, in any order; where nobody has one, all send again, as after a deadline."""
        moved = [
            self.crashing(i, lambda i: self.boxes[i].turn(self.nodes[i].take)) for i in self.rng.sample(range(M), M)
        ]
        for i in () if any(moved) else range(M):
            self.crashing(i, lambda i: self.nodes[i].greet())

    def crashing(self, i, work):
        """What work says, or True where the process ended in it and was started again."""
        try:
            return work(i)
        except SystemError:
            self.ended += 1
            self.end(i)
            self.start(i)
            self.nodes[i].greet()
            return True

    def run(self, crashes=0, limit=20_000):
        for node in self.nodes.values():
            node.greet()
        for turn in range(limit):
            if all(node.done for node in self.nodes.values()):
                assert self.ended == crashes, "the run was over before all crashes"
                return np.concatenate([self.parties[i].state.theta for i in range(M)])
            if self.ended < crashes and self.crash_at is None and turn % 4 == 3:
                self.crash_at = self.rng.randrange(1, 4)
            self.sweep()
        raise AssertionError(f"still waiting: { {i: p.missing() for i, p in self.parties.items()} }")


def simulated(method="ldp_gradient_tracking", network=None, steps=STEPS):
    return gs.simulate(
        METHODS[method].build(0.3), network or gs.Network.paper_one_way(), records(steps), model=MODEL,
        privacy=Noise(), steps=steps, gradient="history",
    ).theta  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_parties_find_what_the_simulator_finds(tmp_path, method):
    network = gs.Network.paper_one_way()
    np.testing.assert_allclose(Team(tmp_path, method).run(), simulated(method, network), rtol=0, atol=1e-12)


def test_bad_links_change_nothing(tmp_path):
    team = Team(tmp_path, faults=Faults(lose=0.1, repeat=0.1, late=0.1, damage=0.05))
    np.testing.assert_allclose(team.run(), simulated(), rtol=0, atol=1e-12)
    reasons = {reason for node in team.nodes.values() for _, reason in node.refused}
    assert "checksum" in reasons
    assert all(len(seen) == 1 for seen in team.payloads.values())


def taken(party, *vector):
    party.length(*vector[:3])
    party.receive(*vector)


def test_what_is_not_expected_is_refused_by_name(tmp_path):
    team = Team(tmp_path)
    party = team.parties[0]
    sender, channel = party.missing()[0]
    size = party.length(sender, 0, channel)
    good = wire.encode(np.zeros(size), "f8")
    stranger = next(j for j in range(1, M) if j not in party.hears)
    cases = {
        "window": (sender, 27, channel, good),
        "unexpected": (sender, 0, "gossip", good),
        "size": (sender, 0, channel, good[:-8]),
        "not finite": (sender, 0, "theta", wire.encode(np.full(N, np.nan), "f8")),
        "public": (sender, 0, "z", wire.encode(np.full(M, 0.5), "f8")),
    }
    cases["unexpected "] = (stranger, 0, channel, good)
    before = party.missing()
    for reason, (who, t, name, payload) in cases.items():
        with pytest.raises(RefusedError) as refused:
            taken(party, who, t, name, payload)
        assert refused.value.reason == reason.strip()
        assert party.missing() == before
    theta = wire.encode(np.ones(N), "f8")
    who = next(one.sender for one in before if one.channel == "theta")
    party.receive(who, 0, "theta", theta)
    with pytest.raises(RefusedError, match="drawn again"):
        party.receive(who, 0, "theta", wire.encode(np.full(N, 2.0), "f8"))


def test_a_hello_of_somebody_else_is_refused(tmp_path):
    team = Team(tmp_path)
    node, party = team.nodes[0], team.parties[0]
    neighbour = party.hears[0]
    for hello in (
        Hello("run", (neighbour + 1) % M, 1, 0, N, "f8"),
        Hello("another", neighbour, 1, 0, N, "f8"),
        Hello("run", neighbour, 1, 0, N + 1, "f8"),
        Hello("run", neighbour, 1, 0, N, "f4"),
    ):
        team.hub.deliver(neighbour, 0, pack(Frame(hello)))
    stranger = next(j for j in range(1, M) if j not in party.hears and j not in party.tells)
    team.hub.deliver(stranger, 0, pack(Frame(Hello("run", stranger, 1, 0, N, "f8"))))
    while team.boxes[0].turn(node.take):
        pass
    assert node.refused == {(neighbour, "forged"): 1, (neighbour, "run"): 3, (stranger, "stranger"): 1}


@given(st.binary(max_size=300))
def test_bytes_that_are_no_frame_are_refused(data):
    with pytest.raises(RefusedError):
        unpack(data)


@given(st.integers(0, 200), st.integers(1, 255), st.data())
def test_a_frame_with_one_byte_changed_is_refused(round_, flip, data):
    whole = pack(Frame(Part(round_, "theta", 0, 1), b"12345678"))
    at = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(RefusedError):
        unpack(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])


@pytest.mark.parametrize("size", [0, 1, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, 300_000])
def test_long_vectors_come_in_parts(size):
    vector = np.random.default_rng(0).normal(size=size)
    frames = [unpack(pack(frame)) for frame in split_vector(3, "s", wire.encode(vector, "f8"))]
    assembly, whole = wire.Assembly(size, "f8"), None
    for frame in frames:
        assert whole is None
        assert len(frame.payload) <= wire.PAYLOAD_LIMIT
        whole = assembly.add(frame.header, frame.payload)
    np.testing.assert_array_equal(np.concatenate([wire.decode(piece, "f8") for piece in whole]), vector)
    for wrong in (Part(3, "s", 1, len(frames)), Part(3, "s", 0, len(frames) + 1)):
        with pytest.raises(RefusedError, match="part"):
            wire.Assembly(size, "f8").add(wrong, frames[0].payload)
    if size:
        with pytest.raises(RefusedError, match="size"):
            wire.Assembly(size, "f8").add(frames[0].header, frames[0].payload[:-8])


def odd_frame(rng):
    """A frame that is well packed and means nothing good: the checksum is right, so that all else is looked at."""
    numbers = [-1, 0, 1, 3, 9, 40, 2**31, 2**63, 2**64 - 1, rng.randrange(2**64)]
    words = ["", "run", "another", "theta", "s", "z", "gossip", "θ" * 50, "x" * rng.randrange(1500)]
    pick, word = (lambda: rng.choice(numbers)), (lambda: rng.choice(words))
    header = rng.choice(
        [
            lambda: Hello(word(), pick(), pick(), pick(), pick(), rng.choice(["f8", "f4"])),
            lambda: Part(pick(), word(), pick(), pick()),
            lambda: wire.Ack(1 + abs(pick()) % 2**63),  # of what was sent: it would be its own loss
            lambda: wire.Refusal(word(), word()),
        ]
    )()
    payload = rng.choice([b"", rng.randbytes(8 * N - 1), wire.encode(np.full(N, np.nan), "f8"), rng.randbytes(200)])
    frame = pack(Frame(header, payload))
    kind = rng.randrange(6)
    if kind == 0:  # damaged
        at = rng.randrange(len(frame))
        frame = frame[:at] + rng.randbytes(1) + frame[at + 1 :]
    elif kind == 1:  # cut off, or with more behind it
        frame = frame[: rng.randrange(len(frame))] if rng.random() < 0.5 else frame + rng.randbytes(20)
    elif kind == 2:  # a header that is no frame of ours, under a right checksum
        body = rng.randbytes(rng.randrange(60))
        frame = wire.PREFIX.pack(b"GSMR", 1, len(body), 0, zlib.crc32(body)) + body
    return frame


def test_a_hundred_thousand_odd_frames_change_nothing(tmp_path):
    """From a neighbour, a listener and a stranger; then the run goes on to the simulator's numbers."""
    team, rng = Team(tmp_path), random.Random(0)
    party, node = team.parties[0], team.nodes[0]
    stranger = next(j for j in range(1, M) if j not in party.hears and j not in party.tells)
    senders = [party.hears[0], party.tells[-1], stranger]
    before = party.round, party.missing(), [a.tobytes() for a in party.state], party.delivered
    kept = {j: party.heard.get(j) for j in senders}
    for k in range(100_000):
        node.take(Arrived(senders[k % 3], odd_frame(rng), answer=bool(k % 2)))
    assert (party.round, party.missing(), [a.tobytes() for a in party.state], party.delivered) == before
    assert {j: party.heard.get(j) for j in senders} == kept
    assert len(node._assemblies) <= len(party.expected(0)) * (party.window + 1)
    assert sum(node.refused.values()) > 80_000
    np.testing.assert_allclose(team.run(), simulated(), rtol=0, atol=1e-12)


def test_a_late_neighbour_is_gone_without_for_a_bounded_number_of_rounds(tmp_path):
    """Learner 0 falls silent: others use its last message, three rounds in a row at most, and the journal says so."""
    team = Team(tmp_path, steps=60, late=3)
    for node in team.nodes.values():
        node.greet()
    silent = None
    for _ in range(4000):
        for i in range(M):
            if i != silent:
                team.boxes[i].turn(team.nodes[i].take)
        if silent is None and team.parties[0].round == 5:
            silent = 0
    listeners = team.parties[0].tells
    stuck = {j: team.parties[j].round for j in listeners}
    for _ in range(4000):
        for i in range(1, M):
            for j in team.parties[i].awaited():
                team.parties[i].excuse(j)
            team.nodes[i].go_on()
            team.boxes[i].turn(team.nodes[i].take)
    for j in listeners:
        rounds = [t for t, sender in team.journals[j].late() if sender == 0]
        assert len(rounds) == 3
        assert team.parties[j].round <= stuck[j] + 3 + 1
        assert 0 in team.parties[j].awaited() or team.parties[j].slow() or team.parties[j].missing()
    team.run()  # learner 0 speaks again, and all come to their end
    assert all(party.finished for party in team.parties.values())


def test_without_a_last_message_nobody_is_gone_without(tmp_path):
    team = Team(tmp_path, steps=10, late=3)
    party = team.parties[0]
    for j in party.hears:
        party.excuse(j)
    assert not party.ready
    assert set(party.awaited()) >= set(party.hears)


def test_numbers_that_would_overflow_are_refused_and_states_stay_far_from_it(tmp_path):
    """Whether a gradient overflows could tell of a record; so nothing that comes in, or is kept, may make it."""
    team = Team(tmp_path)
    party = team.parties[0]
    sender = next(one.sender for one in party.missing() if one.channel == "theta")
    for value in (1e300, -1e121, np.inf, np.nan):
        with pytest.raises(RefusedError) as refused:
            taken(party, sender, 0, "theta", wire.encode(np.array([0.0, value, 0.0, 0.0]), "f8"))
        assert refused.value.reason == "not finite"
    for j in party.hears:
        for t in range(3):
            for one in party.expected(t):
                if one.sender == j and one.channel != "z":
                    taken(party, j, t, one.channel, wire.encode(np.full(N, 9e119), "f8"))
    for one in party.expected(0):
        if one.channel == "z":
            z = party.places.at(0).public.value(0, "z")[one.sender]
            taken(party, one.sender, 0, "z", wire.encode(z, "f8"))
    party.advance()
    assert all(np.abs(part).max() <= 1e100 for part in party.state)
    assert np.isfinite(wire.decode(wire.encode(np.full(3, 1e200), "f4"), "f4")).all()


@pytest.mark.parametrize(
    "body",
    [
        b"\x82\xa4type\xa4part\xa7channel\xa2\xff\xfe",  # no UTF-8
        b"\x82\xa1x" + b"\x91" * 3000 + b"\x01\xa4type\xa3ack",  # nested beyond reason
    ],
)
def test_headers_that_decoders_choke_on_are_refused(body):
    frame = wire.PREFIX.pack(b"GSMR", 1, len(body), 0, zlib.crc32(body)) + body
    with pytest.raises(RefusedError) as refused:
        unpack(frame)
    assert refused.value.reason == "header"


def test_whoever_repeats_himself_is_answered_once(tmp_path):
    asyncio = pytest.importorskip("asyncio")
    links = pytest.importorskip("gossamer.peers.links")
    team = Team(tmp_path)
    node = team.nodes[0]

    async def queued():
        out = links.Outbound(links.ANSWERS)
        for _ in range(1000):
            out.put(node.hello)
            out.put(pack_once(wire.Ack(3)))
        return len(out._frames)

    assert asyncio.run(queued()) == 2
