"""Who joins, leaves or is put out: the equations' numbers, mass that is kept, and nobody is taken unawares."""

from __future__ import annotations

import contextlib
import sqlite3

import numpy as np
import pytest

import gossamer as gs

pytest.importorskip("msgspec", reason="needs the extra `peers`")
from gossamer.peers.membership import read_change
from gossamer.peers.release import OWN_RELEASE
from gossamer.peers.transport import Arrived
from gossamer.peers.wire import unpack
from membership_runs import ALGORITHM_1, ONE_WAY, PUSH_PULL, STEP, STEPS, M, by_hand, change_of, compare, teams
from peers_hub import Faults

METHODS = {"algorithm_1": ALGORITHM_1, "push_pull": PUSH_PULL}
STEP_OF = {"algorithm_1": STEP, "push_pull": gs.decay(0.1, 0.0)}


@pytest.fixture
def team_of(tmp_path):
    with teams(tmp_path) as made:
        yield lambda kind="algorithm_1", *given, **named: made(METHODS[kind], *given, **named)


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("faults", [None, Faults(lose=0.1, repeat=0.1, late=0.1, damage=0.05)])
def test_who_leaves_is_gone_from_the_agreed_round_on(team_of, kind, faults):
    team = team_of(kind, faults=faults)
    document = change_of(team, 17, leaves=[3])
    team.reach(4)
    team.accept(0, document)
    team.finish()
    found, _ = by_hand(kind, ONE_WAY, STEPS, STEP_OF[kind], [document])
    compare(team, found)
    assert team.parties[3].round == 17
    assert all(team.parties[i].round == STEPS for i in range(M) if i != 3)
    assert all(team.parties[i].history.version == 1 for i in range(M))


def test_who_leaves_is_told_that_nobody_needs_it_any_more(team_of):
    """Also by a neighbour that heard its last word before it got to that round itself: nothing is said twice."""
    team, at = team_of(network=gs.Network.ring(4)), 17
    team.reach(4)
    team.accept(0, change_of(team, at, leaves=[3]))
    team.until(lambda: team.parties[1].round == at - 2)
    team.dead.add(1)  # learners 0 and 2 wait for it in the round before, and learner 3, which hears them, does not
    team.until(lambda: team.parties[3].round == at)
    for _ in range(3):
        for i in (3, 0, 2):
            team.boxes[i].turn(team.nodes[i].take)
    assert [team.parties[i].round for i in (0, 2)] == [at - 1, at - 1]
    team.dead.discard(1)
    for _ in range(10):
        for i in team.nodes:
            team.boxes[i].turn(team.nodes[i].take)
    assert team.nodes[3].over
    _, refusal = map(unpack, team.nodes[0].answer_stranger(3))
    assert "has left with change 1" in refusal.header.sentence
    assert not team.nodes[0].differences


def test_a_crash_at_any_moment_around_a_change_leads_to_the_same_bytes(team_of):
    """Everybody is ended, once each, when it accepts, and at every commit from two rounds before to two after."""
    team, document = team_of("push_pull"), None
    document = change_of(team, 17, leaves=[3])
    team.reach(4)
    for t in range(STEPS):
        team.crashes |= {(i, "accepted", t) for i in range(M)}
    team.crashes |= {(i, "committed", t) for i in range(M) for t in range(15, 20)}
    team.accept(0, document)
    team.finish()
    left = {(moment, t) for _, moment, t in team.crashes if moment == "committed"}
    assert left == {("committed", 18), ("committed", 19)}, "of learner 3 alone, which had left"
    assert team.ended >= 5 * M - 2 + M
    compare(team, by_hand("push_pull", ONE_WAY, STEPS, STEP_OF["push_pull"], [document])[0])
    assert all(len(payloads) == 1 for payloads in team.sent.values())


@pytest.mark.parametrize("kind", METHODS)
def test_a_crash_around_a_join_and_a_loss_leads_to_the_same_bytes(team_of, kind):
    team = team_of(kind)
    team.reach(6)
    team.dead.add(3)
    document = change_of(team, 25, lost=[3], joins=[10])
    for t in range(STEPS):
        team.crashes |= {(i, "accepted", t) for i in range(M)}
    team.crashes |= {(i, "committed", t) for i in range(M + 1) for t in range(23, 28)}
    team.accept(4, document)
    team.until(lambda: all(party.history.version for i, party in team.parties.items() if i != 3))
    team.start(10, files=[document])
    team.greet()
    team.finish()
    assert not [one for one in team.crashes if one[0] != 3 and one[1] == "committed" and one[2] > 25]
    for key in [key for key in team.states if key[0] == 3]:
        del team.states[key]
    accepted = {i: rounds[0] for i, rounds in team.accepted.items()}
    compare(team, by_hand(kind, ONE_WAY, STEPS, STEP_OF[kind], [document], accepted)[0])
    assert all(len(payloads) == 1 for payloads in team.sent.values())


def test_a_document_that_a_journal_has_lost_is_told_again(team_of):
    """SQLite leaves out the end of its log without a word: whoever begins another life is told all of them anew."""
    team = team_of("push_pull")
    document = change_of(team, 25, leaves=[3])
    team.reach(4)
    team.accept(0, document)
    i = team.parties[3].tells[0]
    tell = [node for node in team.nodes.values() if i in node.party.tells]
    team.until(lambda: all(node.membership.version and node.membership.knows(i) for node in tell))
    assert team.parties[i].round < 25
    team.journals[i].close()
    with contextlib.closing(sqlite3.connect(team.folder / f"{i}.db", isolation_level=None)) as db:
        db.execute("delete from changes")
    team.start(i)
    assert team.parties[i].history.version == 0
    team.nodes[i].greet()
    team.finish()
    assert team.parties[i].history.version == 1
    compare(team, by_hand("push_pull", ONE_WAY, STEPS, STEP_OF["push_pull"], [document])[0])


def test_who_comes_back_after_it_was_put_out_is_told_so(team_of):
    team = team_of()
    team.reach(6)
    team.dead.add(3)
    document = change_of(team, 25, lost=[3])
    team.accept(4, document)
    team.finish()
    team.dead.clear()
    team.nodes[3].greet()
    for _ in range(200):
        team.sweep()
    said = team.nodes[3].differences.values()
    assert any("learner 3 was put out by change 1, of round 25" in sentence for sentence in said)
    assert team.parties[3].round < 25
    team.nodes[3].accept(document)
    assert team.parties[3].put_out


def test_who_was_put_out_hears_that_alone_and_nothing_of_its_journal(team_of):
    """The others are in rounds that they reached without it: to say so would be to say that its journal is old."""
    team = team_of()
    team.reach(6)
    team.dead.add(3)
    team.accept(4, change_of(team, 25, lost=[3]))
    gone, other = team.nodes[3], next(iter(team.parties[3].tells))
    team.until(lambda: team.parties[other].round >= 12)
    gone.greet()
    for t in (12, STEPS):  # before the round of the change, and after it
        team.until(lambda t=t: team.parties[other].round >= t)
        for frame in team.nodes[other].answer_stranger(3):
            gone.take(Arrived(other, frame, True))
        said = team.nodes[other].take(Arrived(3, gone.hello, True))
        assert said.reason == "put out"
    assert not gone.doubts.held
    (sentence,) = gone.differences.values()
    assert f"learner {other} says: learner 3 was put out by change 1, of round 25" in sentence
    assert not any(j == 3 and reason == "refused" for j, reason in team.nodes[other].refused)


def sums(team, name, members, rounds):
    return np.array([sum(getattr(team.states[i, t], name)[0] for i in members(t)) for t in rounds])


@pytest.mark.parametrize("lost", [False, True])
def test_the_trackers_sum_is_what_it_must_be(team_of, lost):
    """Push–Pull's w adds up to 0 before and after, whoever left or joined, and again once somebody was put out."""
    team = team_of("push_pull")
    at = 25 if lost else 17
    document = change_of(team, at, **({"lost": [3]} if lost else {"leaves": [3, 7], "joins": [10]}))
    team.reach(4)
    team.dead |= {3} if lost else set()
    team.accept(4 if lost else 0, document)
    if not lost:
        team.until(lambda: team.parties[9].round >= 10)
        team.start(10, files=[document])
        team.greet()
    team.finish()
    change = read_change(document)
    before = range(at) if not lost else ()
    after = sums(team, "w", lambda t: change.members, range(at, STEPS + 1))
    np.testing.assert_allclose(after, 0, atol=1e-13)
    np.testing.assert_allclose(sums(team, "w", lambda t: range(M), before), 0, atol=1e-13)


@pytest.mark.parametrize("kind", METHODS)
def test_who_joins_listens_for_a_round_and_takes_part(team_of, kind):
    team = team_of(kind)
    document = change_of(team, 22, joins=[10, 11])
    team.reach(4)
    team.accept(5, document)
    team.until(lambda: all(party.history.version for party in team.parties.values()))
    for j in (10, 11):
        team.start(j, files=[document])
    team.greet()
    team.finish()
    found, added = by_hand(kind, ONE_WAY, STEPS, STEP_OF[kind], [document])
    compare(team, found)
    assert (10, 22) in team.states
    assert not any(sender >= 10 and t <= 22 for sender, t, _ in team.sent), "it only listens in that round"
    assert any(sender >= 10 and t == 23 for sender, t, _ in team.sent)
    if kind == "algorithm_1":
        everybody = sums(team, "s", lambda t: read_change(document).members, range(22, STEPS + 1))
        np.testing.assert_allclose(np.diff(everybody, axis=0), [added[t] for t in range(22, STEPS)], atol=1e-13)


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("dies", [0, 6])
def test_who_is_lost_is_put_out_and_the_others_go_on(team_of, kind, dies):
    team = team_of(kind)
    team.reach(dies)
    team.dead.add(3)
    for _ in range(3000):
        team.sweep()
    stuck = {i: party.round for i, party in team.parties.items() if i != 3}
    document = change_of(team, 25, lost=[3])
    team.accept(4, document)
    team.finish()
    assert max(stuck.values()) < 25
    accepted = {i: rounds[0] for i, rounds in team.accepted.items()}
    assert accepted.keys() == set(range(M)) - {3}
    found, added = by_hand(kind, ONE_WAY, STEPS, STEP_OF[kind], [document], accepted)
    for key in [key for key in team.states if key[0] == 3]:
        del team.states[key]
    compare(team, found)
    if kind == "algorithm_1":
        everybody = sums(team, "s", lambda t: read_change(document).members, range(25, STEPS + 1))
        np.testing.assert_allclose(np.diff(everybody, axis=0), [added[t] for t in range(25, STEPS)], atol=1e-13)
    late = team.journals[next(i for i in range(M) if i != 3 and ONE_WAY.R[i, 3] > 0)].late()
    assert late, "the record says which rounds went without it"
    assert {sender for _, sender in late} == {3}


def restarted(team, there):
    """All stop, some start again, and only those they have links with now say what they run."""
    for journal in team.journals.values():
        journal.close()
    team.capable = lambda j: j in there
    team.dead |= set(team.nodes) - set(there)
    for i in there:
        team.start(i)
        node, (tells, hears) = team.nodes[i], team.parties[i].links()
        for j in [j for j in node.releases if j not in {*tells, *hears}]:
            del node.releases[j]
    for i in there:
        team.nodes[i].greet()


@pytest.mark.parametrize("later", [1, 40])
@pytest.mark.parametrize("kind", METHODS)
def test_who_has_left_keeps_nobody_from_being_put_out_after_a_restart(team_of, kind, later):
    """Nor from a join after that: a party that has left long ago will never say again what it runs."""
    team = team_of(kind, network=gs.Network.exponential(5), steps=120)
    first = change_of(team, 15, leaves=[3])
    team.reach(4)
    team.accept(0, first)
    stays = [0, 1, 2, 4]
    team.reach(15 + later, stays)
    team.until(lambda: team.nodes[3].over)
    restarted(team, there=[i for i in stays if i != 2])
    for _ in range(100):
        team.sweep()
    second = change_of(team, 90, before=[first], lost=[2])
    team.accept(0, second)
    stays.remove(2)
    team.reach(91, stays)
    third = change_of(team, 110, before=[first, second], joins=[10])
    team.accept(0, third)
    team.until(lambda: all(team.parties[i].history.version == 3 for i in stays))
    team.start(10, files=[first, second, third])
    for i in stays:
        team.nodes[i].met_release(10, OWN_RELEASE)
    team.greet()
    team.finish()
    assert all(team.parties[i].round == 120 for i in [*stays, 10])
