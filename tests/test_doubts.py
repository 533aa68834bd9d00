"""A neighbour's word that this journal is old: a liar ends nobody, and where it is true nothing is drawn again."""

from __future__ import annotations

import os
import shutil
import signal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
import test_peers
from gossamer.peers import wire
from gossamer.peers.config import PrivacyPlan
from gossamer.peers.node import Node
from gossamer.peers.release import OWN_RELEASE
from gossamer.peers.transport import Arrived
from gossamer.peers.wire import Frame, Hello, Part, RefusedError, pack, split_frames, unpack
from test_journal import Fresh
from test_operations import wait_until
from test_peers import STEPS, M, N, Team, simulated
from test_processes import make, payloads_seen

ODD = st.one_of(
    st.sampled_from([-1, 0, 1, 2, STEPS, STEPS + 1, 10**9, 2**31, 2**53, 2**63, 2**64 - 1, -(2**63)]),
    st.integers(-(2**63), 2**64 - 1),
)
NAMES = st.sampled_from(["theta", "s", "z", "", "gossip", "run", "old journal"]) | st.text(max_size=20)
HEADERS = st.one_of(
    st.builds(
        Hello, st.sampled_from(["run", "another"]), ODD, ODD, ODD, st.just(N) | ODD, st.sampled_from(["f8", "f4"])
    ),
    st.builds(Part, ODD, NAMES, ODD, ODD),
    st.builds(wire.Ack, ODD),
    st.builds(wire.Done),
    st.builds(wire.Refusal, NAMES, NAMES),
    st.builds(wire.Settings),
    st.builds(wire.Membership, ODD),
    st.builds(wire.Known, ODD, NAMES),
)


def said(node, sender, header, answer=False):
    return node.take(Arrived(sender, pack(Frame(header)), answer))


def sent_by(team, i):
    """Takes what others have got; the parts among it that learner i has sent."""
    found = []
    for j in range(M):
        while team.boxes[j].turn(found.append):
            pass
    return [unpack(f).header for one in found if one.sender == i for f in split_frames(one.data)]


def parts_in(headers):
    return [header for header in headers if isinstance(header, Part)]


def ran_on(team, rounds):
    for node in team.nodes.values():
        node.greet()
    for _ in range(20_000):
        if team.parties[0].round >= rounds:
            return
        team.sweep()
    raise AssertionError(f"learner 0 is in round {team.parties[0].round}")


def test_a_round_that_the_run_has_not_is_a_lie_and_changes_nothing(tmp_path):
    team = Team(tmp_path)
    node, liar = team.nodes[0], team.parties[0].tells[0]
    for far in (STEPS + 1, 10**9, 2**63, -1):
        assert said(node, liar, Hello("run", liar, 1, far, N, "f8"), answer=True).reason == "impossible"
    assert not node.doubts.held
    np.testing.assert_allclose(team.run(), simulated(), rtol=0, atol=1e-12)


def test_a_hello_that_is_ahead_stops_drawing_and_sending_and_ends_nobody(tmp_path):
    team = Team(tmp_path)
    ran_on(team, 5)
    node, party = team.nodes[0], team.parties[0]
    liar, t = party.tells[0], party.round
    assert said(node, liar, Hello("run", liar, 1, t + 2, N, "f8"), answer=True).reason == "ahead"
    assert list(node.doubts.held) == node.doubts.halting == [liar]
    assert f"believe = false under [neighbours.{liar}]" in node.doubts.held[liar]
    sent_by(team, 0)
    node.greet()
    assert not parts_in(sent_by(team, 0))
    for _ in range(300):
        for i in range(1, M):
            team.nodes[i].greet()
        team.sweep()  # everything comes that the round needs, and learner 0 takes it from all but one
        assert party.round == t
        said(node, liar, Hello("run", liar, 1, t + 2, N, "f8"), answer=True)
    assert said(node, liar, Hello("run", liar, 1, t, N, "f8"), answer=True) is None  # the claim is taken back
    assert not node.doubts.held
    np.testing.assert_allclose(team.run(), simulated(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("greeted", [False, True])
def test_a_refusal_holds_the_link_for_this_life_and_ends_nobody(tmp_path, greeted):
    team = Team(tmp_path)
    node, party = team.nodes[0], team.parties[0]
    liar = party.tells[0]
    if greeted:
        ran_on(team, 3)
    t = party.round
    for _ in range(1000):
        assert said(node, liar, wire.Refusal("old journal", "…"), answer=True).reason == "refused"
    assert said(node, liar, Hello("run", liar, 1, t, N, "f8"), answer=True).reason == "held"
    for _ in range(100):
        team.sweep()
    assert party.round == t
    team.end(0)
    team.start(0)
    np.testing.assert_allclose(team.run(), simulated(), rtol=0, atol=1e-12)


def test_a_refusal_of_one_that_is_no_neighbour_says_nothing(tmp_path):
    team = Team(tmp_path)
    node, party = team.nodes[0], team.parties[0]
    stranger = next(j for j in range(1, M) if j not in party.hears and j not in party.tells)
    said(node, stranger, wire.Refusal("old journal", "…"))
    assert not node.doubts.held


def test_an_owner_who_knows_better_goes_on_with_the_others(tmp_path):
    """With `believe = false` the liar's link alone is held: the learner goes on as without one that is away."""
    team = Team(tmp_path, steps=60, late=3)
    party = team.parties[0]
    liar = next(j for j in party.tells if j in party.hears) if set(party.tells) & set(party.hears) else party.tells[0]
    team.nodes[0] = Node(party, team.boxes[0], "run", team.journals[0].epoch, disbelieved=[liar])
    ran_on(team, 5)
    node, t = team.nodes[0], party.round
    said(node, liar, wire.Refusal("old journal", "…"), answer=True)
    assert list(node.doubts.held) == [liar]
    assert not node.doubts.halting
    for _ in range(2000):
        for i in range(M):
            for j in team.parties[i].awaited():
                team.parties[i].excuse(j)
            team.nodes[i].go_on()
        team.sweep()
    assert party.round > t
    sent_by(team, 0)
    node.resend()
    found = []
    while team.boxes[liar].turn(found.append):
        pass
    assert not parts_in([unpack(f).header for one in found for f in split_frames(one.data)])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kept", [1, 4, 20])
def test_a_journal_that_was_put_back_draws_nothing_again(tmp_path, monkeypatch, seed, kept):
    """With noise that never repeats: each payload is one, whatever is sent first, and no process ends."""
    monkeypatch.setattr(test_peers, "Noise", lambda i=None: Fresh(), raising=True)
    team, elsewhere = Team(tmp_path, steps=40, seed=seed), tmp_path / "copies"
    ran_on(team, kept)
    team.end(0)
    elsewhere.mkdir()
    for path in tmp_path.glob("0.db*"):
        shutil.copy(path, elsewhere / path.name)
    team.start(0)
    ran_on(team, kept + 8)
    team.end(0)
    for path in tmp_path.glob("0.db*"):
        path.unlink()
    for path in elsewhere.iterdir():
        shutil.copy(path, tmp_path / path.name)
    team.start(0)
    stood = team.parties[0].round
    assert stood < kept + 8
    for node in team.rng.sample(list(team.nodes.values()), M):
        node.greet()
    for _ in range(400):
        team.sweep()
        for node in team.nodes.values():
            node.tick()
    assert team.parties[0].round == stood
    assert team.nodes[0].doubts.halting
    assert set(map(len, team.payloads.values())) == {1}


@pytest.mark.parametrize("seed", range(4))
def test_a_life_that_is_missing_is_found_before_anything_is_drawn(tmp_path, monkeypatch, seed):
    """Of the same round as the others know it: no hello of theirs shows it, and a refusal comes only after theirs."""
    monkeypatch.setattr(test_peers, "Noise", lambda i=None: Fresh(), raising=True)
    team, elsewhere = Team(tmp_path, steps=40, seed=seed), tmp_path / "copies"

    def all_say_what_they_can():
        for node in team.nodes.values():
            node.releases.update(dict.fromkeys(range(M), OWN_RELEASE))

    all_say_what_they_can()
    ran_on(team, 6)
    team.end(0)
    elsewhere.mkdir()
    for path in tmp_path.glob("0.db*"):
        shutil.copy(path, elsewhere / path.name)
    for _ in range(3):  # lives of which the others hear, and in which no round is taken
        team.start(0)
        stood = team.parties[0].round
        team.nodes[0].greet()
        for _ in range(60):
            for j in range(1, M):
                team.boxes[j].turn(team.nodes[j].take)
        team.end(0)
    for path in tmp_path.glob("0.db*"):
        path.unlink()
    for path in elsewhere.iterdir():
        shutil.copy(path, tmp_path / path.name)
    team.start(0)
    all_say_what_they_can()
    for _ in range(400):
        team.sweep()
        for node in team.nodes.values():
            node.tick()
    assert team.parties[0].round == stood
    assert team.nodes[0].doubts.halting
    assert set(map(len, team.payloads.values())) == {1}


@given(
    st.lists(st.tuples(HEADERS, st.binary(max_size=40), st.booleans(), st.booleans()), max_size=12), st.integers(0, 9)
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_frame_of_anybody_raises_anything_out_of_a_node(tmp_path_factory, frames, sender):
    """Of a neighbour that is welcome or not, of a stranger: it is used, or refused by name."""
    team = Team(tmp_path_factory.mktemp("odd"), steps=STEPS)
    node = team.nodes[0]
    try:
        said(node, sender, Hello("run", sender, 1, 0, N, "f8"))
        for header, payload, answer, single in frames:
            packed = pack(Frame(header, payload if isinstance(header, Part | wire.Settings | wire.Membership) else b""))
            found = node.take(Arrived(sender, packed if single else packed + packed, answer))
            assert found is None or isinstance(found, RefusedError)
        node.tick()
        node.greet()
    finally:
        for i in range(M):
            team.end(i)


def test_a_process_whose_journal_was_put_back_waits_and_tells_its_owner(tmp_path, fleet_of, gossamer):
    m = 3
    make(tmp_path / "run", 200, gs.Network.complete(m), PrivacyPlan(epsilon=50.0), m=m)
    fleet = fleet_of(tmp_path / "run", tmp_path / "tap", m=m)
    fleet.start(0, 2)
    fleet.start(1, fault=["committed", 30])
    wait_until(lambda: fleet.code(1) is not None)
    place, copies = fleet.place(1), tmp_path / "copies"
    copies.mkdir()
    for path in place.glob("journal.db*"):
        shutil.copy(path, copies)
    fleet.start(1, fault=["committed", 30])
    wait_until(lambda: fleet.code(1) is not None)
    for path in place.glob("journal.db*"):
        path.unlink()
    for path in copies.iterdir():
        shutil.copy(path, place)
    fleet.start(1)
    wait_until(lambda: fleet.status(1).get("state") == "held" or fleet.code(1) is not None)
    code, out, err = gossamer("peers", "status", tmp_path / "run")
    assert code == 0, err
    assert "held" in out
    assert "believe = false under [neighbours." in out.replace("\n", " ")
    assert fleet.code(1) is None
    assert [line["event"] for line in fleet.log(1)].count("held")
    os.kill(fleet.pids[1], signal.SIGTERM)
    wait_until(lambda: fleet.code(1) is not None)
    assert fleet.code(1) == 0
    assert all(fleet.code(i) is None for i in (0, 2))
    assert set(map(len, payloads_seen(tmp_path / "tap").values())) == {1}
