"""What a party with a budget, or with shared noise, does with a document; and what one that joins is charged."""

from __future__ import annotations

import json

import pytest

import gossamer as gs

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")
from gossamer.errors import GossamerError
from gossamer.peers.certificates import Pair
from gossamer.peers.changes import Inbox
from gossamer.peers.config import PrivacyPlan, SecretsPlan, read_config
from gossamer.peers.declaration import declare
from gossamer.peers.membership import read_change
from gossamer.peers.process import LearnerProcess
from gossamer.peers.proposing import Wanted, make_place, propose, save
from peers_hub import Hub
from test_processes import FEATURES, csv, make, records

M, STEPS = 4, 30
RING = gs.Network.exponential(M)
AT_SOURCE = PrivacyPlan(epsilon=4.0, law="gaussian", where="source")
NAMES = [f"x{k:04}" for k in range(FEATURES)]


def learner_of(place, hub=None):
    hub = hub or Hub()
    return LearnerProcess(read_config(place), connect=lambda wiring: hub.of(wiring.learner))


def proposed(folder, **wanted):
    authority = Pair(*((folder / "authority" / name).read_bytes() for name in ("key.pem", "certificate.pem")))
    signed, plan, _ = propose(folder, Wanted(**wanted))
    signed = signed.signed_by(authority)
    return signed, save(folder, signed), plan, authority


def refusal(folder, signed, i=0):
    """What learner i says to a document."""
    learner = learner_of(folder / f"learner-{i}")
    try:
        node, _ = learner._join(learner._party())
        with pytest.raises(GossamerError) as refused:
            node.accept(signed)
        return str(refused.value)
    finally:
        learner.journal.close()


def test_a_budget_on_messages_and_shared_noise_refuse_a_change(tmp_path):
    make(tmp_path / "run", STEPS, RING, PrivacyPlan(epsilon=4.0, law="laplace", where="messages"), M)
    signed, *_ = proposed(tmp_path / "run", at=20, leaves=[3])
    assert 'needs [privacy] where = "source"' in refusal(tmp_path / "run", signed)
    keys = dict.fromkeys(map(str, range(M)), "")
    agreed = SecretsPlan(share=0.5, floor=0.5, exponent=0.0, releases="1,0", keys=keys, colluders=1)
    make(tmp_path / "shared", STEPS, RING, AT_SOURCE, M, secrets=agreed)
    signed, *_ = proposed(tmp_path / "shared", at=20, leaves=[3])
    assert "in a run with [secrets]" in refusal(tmp_path / "shared", signed)


def test_a_change_that_every_learner_would_refuse_is_not_written(tmp_path, gossamer):
    keys = dict.fromkeys(map(str, range(M)), "")
    agreed = SecretsPlan(share=0.5, floor=0.5, exponent=0.0, releases="1,0", keys=keys, colluders=1)
    make(tmp_path / "shared", STEPS, RING, AT_SOURCE, M, secrets=agreed)
    code, _, err = gossamer("peers", "change", "shared", "--at", 20, "--leave", 3)
    assert code == 2
    assert "in a run with [secrets]" in err
    assert not (tmp_path / "shared/changes").exists()


def test_a_change_that_this_party_would_refuse_is_not_accepted(tmp_path, gossamer):
    make(tmp_path / "run", STEPS, RING, PrivacyPlan(epsilon=4.0, law="laplace", where="messages"), M)
    assert gossamer("peers", "change", "run", "--at", 20, "--leave", 3)[0] == 0
    code, _, err = gossamer("peer", "accept", "run/learner-0", "run/changes/1.json")
    assert code == 2
    assert 'needs [privacy] where = "source"' in err
    assert not (tmp_path / "run/learner-0/changes").exists()


def test_a_change_of_a_round_that_has_been_is_refused_with_one_that_is_late_enough(tmp_path, gossamer):
    folder = tmp_path / "run"
    make(folder, STEPS, RING, AT_SOURCE, M)

    def in_round(t):
        about = {"learner": 0, "state": "running", "round": t, "steps": STEPS}
        (folder / "learner-0/status.json").write_text(json.dumps(about))

    def accepts(at, *again):
        assert gossamer("peers", "change", "run", "--at", at, "--leave", 3, *again)[0] == 0
        code, _, err = gossamer("peer", "accept", "run/learner-0", "run/changes/1.json")
        return code == 0, " ".join(err.split())

    in_round(STEPS - 1)
    accepted, err = accepts(10)
    assert not accepted
    assert "is in round 29 of 30: make it again with a later one (gossamer peers change" in err, "none is early enough"
    in_round(20)
    accepted, err = accepts(20, "--again")
    assert not accepted
    assert "is in round 20 of 30: make it again with round 24 or" in err, "the other three are three links away at most"
    assert accepts(24, "--again")[0]


def test_who_joins_is_charged_for_the_rounds_before_it_and_has_their_records(tmp_path):
    folder = tmp_path / "run"
    make(folder, STEPS, RING, AT_SOURCE, M)
    signed, _, plan, authority = proposed(folder, at=27, joins={4: "127.0.0.1:7404"})
    place = make_place(folder, plan, authority, 4, "127.0.0.1:7404")
    X, y = records(STEPS, M + 1)
    (place / "records.csv").write_text(csv(NAMES, X[4], y[4]))
    told = declare(read_config(place))
    assert told.mend == []
    whom = sorted({b for a, b, _ in read_change(signed).network.edges() if a == 4})
    assert f"to learners {', '.join(map(str, whom))}" in told.facts["leaves"][0], "by the graph on which it joins"
    assert set(map(str, whom)) <= set(told.facts["neighbours"])
    learner = learner_of(place)
    party = learner._party()
    assert (party.round, party.last) == (27, STEPS)
    assert party.delivered, "it listens in that round, and sends nothing"
    assert learner.boundary.ledgers[0].rounds == 28
    assert int(party._memory.filled.sum()) == 28
    spent = learner._status.budget()
    learner.journal.close()
    again = learner_of(place)
    party = again._party()
    assert party.round == 27
    assert again.boundary.ledgers[0].rounds == 28
    again.journal.close()
    there = learner_of(folder / "learner-0")
    there._party()
    for t in range(1, 28):
        there.boundary.charge(t)
    assert tuple(map(float, there.boundary.budget()[0])) == spent, "as if it had been there"
    assert spent[0] > 0
    there.journal.close()


def test_without_a_document_nobody_joins_and_correlated_noise_does_not(tmp_path):
    folder = tmp_path / "run"
    make(folder, STEPS, RING, AT_SOURCE, M)
    _, path, plan, authority = proposed(folder, at=20, joins={4: "127.0.0.1:7404"})
    place = make_place(folder, plan, authority, 4, "127.0.0.1:7404")
    X, y = records(STEPS, M + 1)
    (place / "records.csv").write_text(csv(NAMES, X[4], y[4]))
    whole = json.loads(path.read_text())
    (place / "changes" / "1.json").write_text(json.dumps({**whole, "signatures": []}))
    with pytest.raises(GossamerError, match="authority has not signed"):
        learner_of(place)
    assert "authority has not signed" in declare(read_config(place)).mend[0], "what a start would refuse"
    (place / "changes" / "1.json").unlink()
    with pytest.raises(GossamerError, match=r"learner = 4: expected 0 to 3, or a document in .*changes"):
        read_config(place)
    (place / "changes" / "1.json").write_text(json.dumps(whole))
    toml = (place / "party.toml").read_text()
    (place / "party.toml").write_text(toml.replace("epsilon = 4.0", "epsilon = 4.0\nband = 2"))
    with pytest.raises(GossamerError, match="would go on from releases that never were"):
        learner_of(place)


def test_a_refused_file_is_looked_at_again_and_said_once(tmp_path):
    make(tmp_path / "run", STEPS, RING, AT_SOURCE, M)
    _, path, *_ = proposed(tmp_path / "run", at=20, leaves=[3])
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "1.json").write_bytes(path.read_bytes())
    inbox, offered = Inbox(tmp_path), []

    def accept(signed):
        offered.append(signed.document["version"])
        if len(offered) < 3:
            raise GossamerError("not yet.")

    for _ in range(5):
        inbox.look(accept)
    assert offered == [1, 1, 1]
    assert inbox.refused == {}
    (tmp_path / "changes" / "2.json").write_text("no document")
    inbox.look(accept)
    assert "no signed document" in inbox.refused["2.json"]
