"""Who opens a link does not matter: the simulator's numbers all the same, and two that do not agree are told so."""

from __future__ import annotations

import asyncio
import signal
import time

import msgspec
import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers import certificates
from gossamer.peers import links as links_module
from gossamer.peers.config import Neighbour, read_config, to_toml
from gossamer.peers.dials import Dials, addresses_of, decode_dials, encode_dials, opens, tell_apart
from gossamer.peers.folders import learners_in
from gossamer.peers.links import Links
from gossamer.peers.transport import Wiring
from test_links import LIMIT, STEPS, linked
from test_peers import simulated
from test_processes import make, rounds_sent
from test_processes import simulated as simulated_run

BEHIND = 3  # a party that nobody can dial
EITHER = [Dials(to, back) for to in (None, True, False) for back in (None, True, False)]


def as_it_can(sender, listener):
    """Learner 3 opens all its links itself."""
    return "receiver" if listener == BEHIND else "sender"


@pytest.mark.parametrize(
    "dials",
    [lambda sender, listener: "receiver", as_it_can, lambda sender, listener: ["sender", "receiver"][sender % 2]],
    ids=["receivers", "one without a port", "one of two directions"],
)
def test_ten_parties_find_what_the_simulator_finds_whoever_dials(tmp_path, dials):
    async def work(world):
        theta = await world.run()
        if dials is as_it_can:
            assert world.links[BEHIND].port == 0, "it does not listen"
            assert world.team.parties[BEHIND].tells
            assert world.team.parties[BEHIND].hears
        assert not any(any(node.apart.values()) for node in world.nodes.values())
        return theta

    np.testing.assert_allclose(linked(work, tmp_path, dials), simulated(steps=STEPS), rtol=0, atol=1e-12)


class Pair:
    """Learner 0 sends to learner 1, which dials; both keep what they are told."""

    def __init__(self, to=None, sources=True):
        self.got, self.apart, self.releases = {0: [], 1: []}, {0: [], 1: []}, {0: [], 1: []}
        self.authority = certificates.make_authority("run")
        self.to, self.sources = to, sources

    def links(self, i, listen="127.0.0.1:0", authority=None, own=None):
        signer = authority or self.authority
        own = own or certificates.issue_certificate(signer, i)
        return Links(
            Wiring(
                i, listen, {1: self.to} if i == 0 else {}, [0] if i == 1 else [], own,
                certificates.Identities(self.authority.certificate), self.got[i].append, lambda: b"hello from %d" % i,
                sources={0: ""} if i == 1 and self.sources else {},
                apart=lambda j, why: self.apart[i].append(why),
                release=lambda j, release: self.releases[i].append(release),
            )
        )  # fmt: skip

    async def start(self, **given):
        self.ends = [self.links(0), self.links(1, None, **given)]
        for end in self.ends:
            await end.start()
        self.ends[1].reach(0, f"127.0.0.1:{self.ends[0].port}")
        for end in self.ends:
            end.dial()

    async def close(self):
        for end in self.ends:
            await end.close()


async def until(condition):
    async with asyncio.timeout(LIMIT):
        while not condition():
            await asyncio.sleep(0.01)


def with_pair(work, **made):
    async def whole():
        pair = Pair(**made)
        try:
            await work(pair)
        finally:
            await pair.close()

    asyncio.run(whole())


def test_on_a_link_that_the_listener_opens_data_go_as_ever():
    async def work(pair):
        await pair.start()
        await until(lambda: pair.got[0] and pair.got[1])
        assert [(one.sender, one.data, one.answer) for one in pair.got[1]] == [(0, b"hello from 0", False)]
        assert [(one.sender, one.data, one.answer) for one in pair.got[0]] == [(1, b"hello from 1", True)]
        pair.ends[0].send(1, b"numbers")
        pair.ends[1].reply(0, b"used")
        await until(lambda: len(pair.got[0]) == len(pair.got[1]) == 2)
        assert (pair.got[1][1].data, pair.got[1][1].answer) == (b"numbers", False)
        assert (pair.got[0][1].data, pair.got[0][1].answer) == (b"used", True)
        assert all(pair.releases.values()), "each has told its release"
        assert pair.ends[1].dials == {0: 1}
        assert pair.ends[0].dials == {}

    with_pair(work)


@pytest.mark.parametrize("end", [0, 1], ids=["sender", "listener"])
def test_either_end_of_it_may_come_back(end):
    async def work(pair):
        await pair.start()
        await until(lambda: pair.got[0] and pair.got[1])
        listen = f"127.0.0.1:{pair.ends[0].port}" if end == 0 else None
        await pair.ends[end].close()
        for got in pair.got.values():
            got.clear()
        pair.ends[end] = pair.links(end, listen)
        await pair.ends[end].start()
        if end == 1:
            pair.ends[1].reach(0, f"127.0.0.1:{pair.ends[0].port}")
            pair.ends[1].dial()
        await until(lambda: pair.got[0] and pair.got[1])
        pair.ends[0].send(1, b"numbers")
        await until(lambda: pair.got[1][-1].data == b"numbers")

    with_pair(work)


def test_the_listener_that_dials_is_known_by_its_certificate():
    async def work(pair):
        await pair.start(authority=certificates.make_authority("another"))
        await until(lambda: pair.ends[1].dials[0] >= 3)
        assert pair.got == {0: [], 1: []}

    with_pair(work)


def test_the_listener_that_dials_knows_whom_it_has_reached():
    """Whoever answers at the sender's address must have the sender's certificate, and not another one of the run."""

    async def work(pair):
        pair.ends = [
            pair.links(0, own=certificates.issue_certificate(pair.authority, 2)), pair.links(1, None),
        ]  # fmt: skip
        for end in pair.ends:
            await end.start()
        pair.ends[1].reach(0, f"127.0.0.1:{pair.ends[0].port}")
        pair.ends[1].dial()
        await until(lambda: pair.ends[1].dials[0] >= 3)
        assert pair.got == {0: [], 1: []}

    with_pair(work)


def test_who_agrees_is_told_nothing_and_who_does_not_is_told_why():
    for own in EITHER:
        agreed = Dials(*(None if one is None else not one for one in (own.back, own.to)))
        assert tell_apart(0, 1, own, agreed) == ""
        assert tell_apart(0, 1, own, Dials()) == "", "a release that says nothing"
        assert decode_dials([encode_dials(own)]) == own
    both = tell_apart(2, 5, Dials(True, None), Dials(None, True))
    assert "learners 2 and 5 both dial for the link 2 → 5" in both
    neither = tell_apart(2, 5, Dials(True, False), Dials(False, False))
    assert "both leave it to the other to dial for the link 5 → 2" in neither
    for odd in ("", "here", "here there here", "here elsewhere", b"here there", 7):
        assert decode_dials([("gossamer-dials", odd)]) == Dials()


def test_two_that_both_dial_are_both_told():
    """Learner 0 sends to 1 and dials it; learner 1 dials, too."""

    async def work(pair):
        pair.ends = [pair.links(0), pair.links(1)]
        for end in pair.ends:
            await end.start()
        for k, end in enumerate(pair.ends):
            end.reach(1 - k, f"127.0.0.1:{pair.ends[1 - k].port}")
            end.dial()
        await until(lambda: pair.apart[0] and pair.apart[1])
        assert {*pair.apart[0], *pair.apart[1]} == {tell_apart(0, 1, Dials(True, None), Dials(None, True))} | {
            tell_apart(1, 0, Dials(None, True), Dials(True, None))
        }
        assert "both dial for the link 0 → 1" in pair.apart[0][0]

    with_pair(work, to="")


def test_two_that_wait_for_each_other_are_told_on_the_link_that_they_have(tmp_path):
    """For 3 → 5 both wait to be dialled; on 5 → 3 they speak."""
    told = []

    async def work(world):
        i, j = next(
            (i, j) for i in world.nodes for j in world.team.parties[i].tells if j in world.team.parties[i].hears
        )
        world.links[i]._addresses[j] = None
        for links in world.links.values():
            links.dial()
        await until(lambda: world.nodes[i].apart.get(j) and world.nodes[j].apart.get(i))
        told.extend([(i, j), world.nodes[i].apart[j], world.nodes[j].apart[i]])

    linked(work, tmp_path)
    (i, j), *said = told
    assert all(f"both leave it to the other to dial for the link {i} → {j}" in one for one in said)


def test_where_nobody_opens_the_only_link_both_say_that_it_never_was(monkeypatch, caplog):
    monkeypatch.setattr(links_module, "COUNT", 0.05)

    async def work(pair):
        pair.ends = [pair.links(0), pair.links(1)]
        for end in pair.ends:
            await end.start()
            end.dial()
        await until(lambda: len(said()) >= 2)
        assert sorted(said())[0].startswith("learner 0 has to open it, and never has")
        assert sorted(said())[-1].startswith("learner 1 has to open it, and never has")

    def said():
        return {record.why for record in caplog.records if (record.message, record.edge) == ("not dialled", "0 → 1")}

    with caplog.at_level("WARNING", "gossamer.peers"):
        with_pair(work, to=None, sources=False)


def test_words_of_the_file_say_who_opens_what():
    words = {"sender": (True, False), "receiver": (False, True), "self": (True, True), "neighbour": (False, False)}
    for word, (sending, hearing) in words.items():
        assert (opens(word, True), opens(word, False)) == (sending, hearing)
    given = {"1": Neighbour("a:1", dial="self"), "2": Neighbour(dial="neighbour"), "4": Neighbour("d:4")}
    assert addresses_of(0, "a:0", given, [1, 2, 4], [1, 2, 4]) == ({1: "a:1", 2: None, 4: "d:4"}, {1: "a:1"})
    with pytest.raises(gs.GossamerError, match=r"this party dials learner 3, which it hears, and \[neighbours.3\]"):
        addresses_of(0, None, {"3": Neighbour(dial="receiver")}, [], [3])


def set_dial(place, changes, listen=True):
    """Write another [neighbours.N] dial, and no [party] listen."""
    config = read_config(place).config
    neighbours = dict(config.neighbours)
    for j, dial in changes.items():
        neighbours[j] = msgspec.structs.replace(neighbours[j], dial=dial)
    party = config.party if listen else msgspec.structs.replace(config.party, listen=None)
    changed = msgspec.structs.replace(config, neighbours=neighbours, party=party)
    (place / "party.toml").write_text(to_toml(changed), encoding="utf-8")


def test_receivers_dial_where_both_files_say_so(tmp_path, fleet_of):
    """[neighbours.N] dial = "receiver", in both parties' files: each opens the links that it hears on."""
    m, steps, network = 3, 40, gs.Network.ring(3)
    make(tmp_path / "run", steps, network, m=m)
    places = learners_in(tmp_path / "run")
    set_dial(places[1], {"0": "receiver", "2": "receiver"})
    for place in (places[0], places[2]):
        set_dial(place, {"1": "receiver"})
    assert "[neighbours.1]\naddress = " in (places[0] / "party.toml").read_text()
    assert 'dial = "receiver"' in (places[0] / "party.toml").read_text()
    fleet = fleet_of(tmp_path / "run", m=m)
    fleet.start()
    np.testing.assert_allclose(fleet.finish(), simulated_run(steps, network, m), rtol=0, atol=1e-12)
    assert not any(fleet.status(i)["differs"] for i in range(m))


def test_a_party_without_a_port_runs_with_the_others_and_comes_back(tmp_path, fleet_of):
    """Three processes: nobody can dial learner 2, which is killed in between and started again, as is learner 0."""
    m, steps, network = 3, 400, gs.Network.ring(3)
    make(tmp_path / "run", steps, network, m=m)
    places = learners_in(tmp_path / "run")
    set_dial(places[2], {"0": "self", "1": "self"}, listen=False)
    for place in places[:2]:
        set_dial(place, {"2": "neighbour"})
    fleet, tap = fleet_of(tmp_path / "run", tmp_path / "tap", m=m), tmp_path / "tap"
    tap.touch()
    fleet.start()
    rounds, end = rounds_sent(tap), time.monotonic() + LIMIT
    for i, least in ((2, 20), (0, 120)):
        while next(rounds) < least:
            assert time.monotonic() < end
            time.sleep(0.01)
        fleet.kill(i)
        assert fleet.code(i) == -signal.SIGKILL, "it was under way"
        fleet.start(i)
    np.testing.assert_allclose(fleet.finish(), simulated_run(steps, network, m), rtol=0, atol=1e-12)
    assert fleet.status(0)["releases"] == {"1": gs.__version__, "2": gs.__version__}
    assert not any(fleet.status(i)["differs"] for i in range(m))


def test_a_party_that_somebody_must_dial_needs_a_port(tmp_path, fleet_of):
    make(tmp_path / "run", 5, gs.Network.ring(3), m=3)
    place = learners_in(tmp_path / "run")[2]
    set_dial(place, {"0": "self"}, listen=False)
    fleet = fleet_of(tmp_path / "run", m=3)
    fleet.start(2)
    end = time.monotonic() + LIMIT
    while (code := fleet.code(2)) is None:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert code == 2
    said = (place / "stderr.log").read_text()
    assert "[party] has no listen, and learner 2 leaves it to learner 1 to dial" in said
