"""Documents of membership: who is believed, when they come too late, and what is refused in one sentence."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs

pytest.importorskip("msgspec", reason="needs the extra `peers`")
from gossamer.errors import GossamerError
from gossamer.peers.certificates import Identities, issue_certificate, make_authority
from gossamer.peers.changes import check_signed
from gossamer.peers.membership import History, document_of, read_change
from gossamer.peers.passing_on import distances
from gossamer.peers.proposing import grown
from gossamer.peers.release import Release
from gossamer.peers.signed import Signed, parse_signed
from gossamer.peers.wire import Known, RefusedError
from membership_runs import ALGORITHM_1, ONE_WAY, PUSH_PULL, STEPS, M, change_of, teams
from peers_hub import Faults


@pytest.fixture
def team_of(tmp_path):
    with teams(tmp_path) as made:
        yield made


# -- in time ------------------------------------------------------------------------------------------------------


def test_a_document_that_may_come_too_late_is_refused_with_the_least_round(team_of):
    team = team_of()
    team.reach(4)
    round_ = team.parties[0].round
    far = max(distances(team.parties[0].history, 0, frozenset(), ("R", "C")).values())
    least = round_ + far + 1
    with pytest.raises(GossamerError, match=rf"may not be everywhere before round {least}: choose that"):
        team.nodes[0].accept(change_of(team, least - 1, leaves=[3]))
    assert team.parties[0].history.version == 0
    assert not team.journals[0].changes()
    team.accept(0, change_of(team, least, leaves=[3]))
    team.finish()
    assert all(party.history.version == 1 for party in team.parties.values())
    assert all(rounds[0] < least for rounds in team.accepted.values()), "everybody had it before"


@pytest.mark.parametrize("late", [0, 2])
def test_the_least_round_suffices_wherever_it_is_given_and_however_links_are(team_of, late):
    """Accepted at each learner in turn, over links that lose, everybody has it before round T."""
    for i in (0, 5):
        team = team_of(late=late, faults=Faults(lose=0.2, repeat=0.1, damage=0.05), seed=i)
        team.reach(3)
        party = team.parties[i]
        far = max(distances(party.history, i, frozenset(), ("R", "C")).values())
        least = party.round + far * (1 + late) + 1
        if least >= STEPS:
            continue
        team.accept(i, change_of(team, least, leaves=[(i + 5) % M]))
        if late:
            for _ in range(3000):  # everybody goes on without whoever is not there, as far as it may
                for j, node in team.nodes.items():
                    for k in team.parties[j].awaited():
                        team.parties[j].excuse(k)
                    node.go_on()
                team.sweep()
                if all(p.finished for p in team.parties.values()):
                    break
        team.finish()
        assert set(team.accepted) == set(range(M))
        assert all(rounds[0] < least for rounds in team.accepted.values())


def test_who_leaves_believes_those_who_have_gone_on_without_it(team_of):
    """Its listeners need nothing of the rounds after its last: wherever they are, its journal is not old."""
    team = team_of()
    team.reach(4)
    team.accept(0, change_of(team, 15, leaves=[3]))
    team.reach(14, who=[3])
    team.dead.add(3)
    team.until(lambda: all(team.parties[i].round > 20 for i in range(M) if i != 3))
    team.dead.remove(3)
    team.journals[3].close()
    team.start(3)
    assert team.parties[3].round == 14, "it has not used its last round"
    (listener,) = team.parties[3].tells
    team.parties[3].met(listener, team.journals[listener].epoch, team.parties[listener].round, answer=True)
    team.nodes[3].greet()
    team.finish()


def test_who_cannot_read_documents_keeps_the_others_from_accepting_one(team_of):
    team = team_of(capable=lambda i: i != 1)
    team.reach(4)
    with pytest.raises(GossamerError, match="learner 1 is not there: wait for it"):
        team.nodes[0].accept(change_of(team, 25, leaves=[3]))
    team.nodes[0].met_release(1, Release("0.2.9"))
    with pytest.raises(GossamerError, match=r"learner 1 runs gossamer 0\.2\.9, and here is gossamer "):
        team.nodes[0].accept(change_of(team, 25, leaves=[3]))


def test_two_documents_of_one_version_stop_the_run_and_do_not_split_it(team_of):
    team = team_of(network=gs.Network.exponential(M), steps=60)
    team.reach(4)
    team.nodes[0].accept(change_of(team, 40, leaves=[3]))
    team.nodes[5].accept(change_of(team, 40, leaves=[7]))
    for _ in range(1500):
        team.sweep()
    assert all(party.round < 40 for party in team.parties.values()), "nobody plays on either graph"
    said = [sentence for node in team.nodes.values() for sentence in node.differences.values()]
    assert any("another change 1" in sentence for sentence in said)


def test_who_says_that_it_has_another_document_is_sent_nothing_of_rounds(team_of):
    """Its word alone is enough: what it has need not have come here."""
    team = team_of()
    team.reach(4)
    team.nodes[0].accept(change_of(team, 20, leaves=[3]))
    node, listener = team.nodes[0], team.parties[0].tells[0]
    with pytest.raises(RefusedError, match="has another change 1 than this one: nothing more is sent to it"):
        node.membership.heard(listener, Known(1, "another"))
    assert not node.membership.knows(listener)
    node.membership.heard(listener, Known(1, node.party.history.digest))
    assert node.membership.knows(listener)


def test_a_second_change_waits_for_the_first_and_follows_it(team_of):
    team = team_of(PUSH_PULL, steps=60)
    first = change_of(team, 20, leaves=[3])
    second = change_of(team, 45, before=[first], lost=[6], joins=[10])
    team.reach(4)
    with pytest.raises(GossamerError, match="follows change 1, and the newest here is 0"):
        team.nodes[0].accept(second)
    team.accept(0, first)
    with pytest.raises(GossamerError, match="while change 1 is to come in round 20"):
        team.nodes[0].accept(second)
    team.reach(21, [i for i in range(M) if i != 3])
    team.dead.add(6)
    wrong = change_of(team, 45, before=[change_of(team, 21, leaves=[3])], lost=[6])
    with pytest.raises(GossamerError, match="it was made from another change 1"):
        team.nodes[0].accept(wrong)
    team.accept(7, second)
    team.until(lambda: all(p.history.version == 2 for i, p in team.parties.items() if i not in (3, 6)))
    team.start(10, files=[first, second])
    team.greet()
    team.finish()
    assert team.parties[10].finished
    w = sum(team.states[i, 60].w[0] for i in read_change(second).members)
    np.testing.assert_allclose(w, 0, atol=1e-13)


def test_who_has_left_takes_no_document(team_of):
    team = team_of()
    first = change_of(team, 15, leaves=[3])
    team.reach(4)
    team.accept(0, first)
    team.reach(16, [i for i in range(M) if i != 3])
    with pytest.raises(GossamerError, match="learner 3, which takes part no more: give it to another"):
        team.nodes[3].accept(change_of(team, 28, before=[first], leaves=[5]))


# -- what is refused ----------------------------------------------------------------------------------------------


def altered(document, **fields):
    return Signed({**document.document, **fields})


def test_documents_that_make_no_sense_are_refused_in_one_sentence(team_of):
    team = team_of()
    good = change_of(team, 20, leaves=[3])
    cases = {
        "whole number": {"at": -1},
        "each once": {"leaves": [3, 3]},
        "two or more": {"members": [0]},
        "nobody who leaves": {"leaves": [0]},
        "lists of": {"R": [[0, 99, 0.1]]},
        "the graph of change 1": {"R": [[0, 1, 0.1]]},
        "with or without surprise": {"surprise": 1},
        "text for": {"addresses": {"1": 7}},
    }
    for words, fields in cases.items():
        with pytest.raises(GossamerError, match=words):
            read_change(altered(good, **fields))
    history = History(ONE_WAY)
    for words, wrong in {
        "of round 30: expected 1 to 29": change_of(team, 30, leaves=[3]),
        "a number is one party's for good; take 10": altered(good, joins=[4]),
    }.items():
        with pytest.raises(GossamerError, match=words):
            history.check(read_change(wrong), ALGORITHM_1, STEPS)
    with pytest.raises(GossamerError, match="do not follow from"):
        history.check(read_change(altered(good, leaves=[])), ALGORITHM_1, STEPS)


def test_a_tracker_that_nobody_would_take_keeps_its_learner_from_leaving():
    """0 pushes to 1 alone over C, and both leave."""
    C = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 0), (3, 2)]
    network = gs.Network.from_edges(4, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 2), (2, 0)], C_edges=C)
    rest = gs.Network.from_edges(2, [(0, 1), (1, 0)])
    change = read_change(Signed(document_of("run", 1, 9, [2, 3], rest, leaves=[0, 1])))
    with pytest.raises(GossamerError, match="learner 0 leaves, and nobody that it pushes to stays"):
        History(network).check(change, PUSH_PULL, STEPS)
    History(network).check(change, ALGORITHM_1, STEPS)  # it takes its own along


def test_only_the_authority_or_everybody_is_believed(tmp_path):
    class Plan:
        run_name = "run"

    authority, other = make_authority("run"), make_authority("run")
    pairs = {i: issue_certificate(authority, i) for i in range(3)}
    identities = Identities(authority.certificate)
    rest = gs.Network.complete(2)
    plain = Signed(document_of("run", 1, 9, [0, 1], rest, leaves=[2]))

    def check(signed, everybody=(0, 1, 2)):
        check_signed(parse_signed(signed.encoded(), "it"), Plan, identities, everybody)

    check(plain.signed_by(authority))
    everybody = plain
    for i, pair in pairs.items():
        with pytest.raises(GossamerError, match=f"{2} have not|1, 2 have not|0, 1, 2 have not"):
            check(everybody)
        everybody = everybody.signed_by(pair, str(i))
    check(everybody)
    check(plain.signed_by(pairs[0], "0").signed_by(pairs[1], "1"), (0, 1))  # learner 2 is lost
    with pytest.raises(GossamerError, match="has not signed"):
        check(plain.signed_by(other))
    signed = plain.signed_by(authority)
    with pytest.raises(GossamerError, match="has not signed"):
        check(Signed({**signed.document, "at": 10}, signed.signatures))


# -- the graph that is proposed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("network", [gs.Network.ring(6), gs.Network.paper_one_way(), gs.Network.exponential(8)])
def test_the_graph_that_follows_by_itself_satisfies_assumption_1(network):
    m = network.m
    for gone in range(m):
        stays = [i for i in range(m) if i != gone]
        rest = grown(network, range(m), stays)  # Network checks Assumption 1
        kept = {(stays.index(a), stays.index(b)) for a, b, _ in network.edges() if gone not in (a, b)}
        assert kept <= {(a, b) for a, b, _ in rest.edges()}
        more = grown(network, range(m), [*stays, m, m + 1])
        assert len({a for a, b, _ in more.edges() if b == m}) == 3
