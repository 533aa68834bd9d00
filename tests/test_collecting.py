"""What is collected of a run whose outcomes are not all to be had."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers.config import read_config
from gossamer.peers.outcome import collect_outcomes
from test_processes import FEATURES, make

M = 4


def put_outcome(folder, i, round_=9, **more):
    place = folder / f"learner-{i}"
    plan = read_config(folder / "learner-0")
    about = {
        "learner": i, "round": round_, "run": plan.run_name, "theta": "the learner's own parameters", "claim": "none",
        "epsilon": None, "against": None, "late": [], "course": None, "model": "test",
        "columns": plan.schema.column_names, "schema": plan.schema.described(),
    } | more  # fmt: skip
    written = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez(place / "outcome.npz", theta=np.full((1, FEATURES + 1), float(i)), about=written)


@pytest.fixture
def folder(tmp_path):
    """A run of four of which learner 2 has left nothing."""
    make(tmp_path / "run", 9, gs.Network.ring(M), m=M)
    for i in (0, 1, 3):
        put_outcome(tmp_path / "run", i)
    return tmp_path / "run"


def test_without_a_party_that_is_lost_the_others_are_collected(folder):
    with pytest.raises(gs.GossamerError, match=r"learner-2 of .* left no outcome yet: .* --without 2\.$"):
        collect_outcomes(folder)
    record = collect_outcomes(folder, [2])
    np.testing.assert_array_equal(record.theta[:, 0], [0.0, 1.0, 3.0])
    assert record.notes[0] == "The models are those of learners 0, 1, 3, in this order. Collected without learner 2."
    shutil.rmtree(folder / "learner-2")
    assert collect_outcomes(folder, [2]).notes[0] == record.notes[0]
    with pytest.raises(gs.GossamerError, match=r"learners 2 are missing .* --without 2\.$"):
        collect_outcomes(folder)
    np.testing.assert_array_equal(collect_outcomes(folder, [0, 2]).theta[:, 0], [1.0, 3.0])


def test_who_left_is_left_out_and_who_joined_is_said(folder, gossamer):
    put_outcome(folder, 2, round_=5, left=5)
    (folder / "learner-7").mkdir()
    put_outcome(folder, 7, joined=6)
    (folder / "learner-8").mkdir()
    put_outcome(folder, 8, round_=8, joined=6, **{"put out": 8})
    record = collect_outcomes(folder)
    assert record.t == 9, "the rounds of those who stayed"
    np.testing.assert_array_equal(record.theta[:, 0], [0.0, 1.0, 3.0, 7.0])
    assert record.notes == (
        "The models are those of learners 0, 1, 3, 7, in this order. Collected without learners 2, 8.",
        "Learner 2 left in round 5: its model of then is not among them.",
        "Learner 8 joined in round 6 and was put out in round 8: its model of then is not among them.",
        "Learner 7 joined in round 6.",
    )
    assert len(collect_outcomes(folder, [7, 8]).theta) == 3
    code, out, err = gossamer("peers", "collect", "run")
    assert code == 0, err
    assert "Learner 2 left in round 5: its model" in out
    assert len(gs.Record.load("collected").theta) == 4


def test_where_all_have_left_their_models_are_all_that_there_is(folder):
    for i in (0, 1, 3):
        put_outcome(folder, i, round_=5 + i, left=5 + i)
    record = collect_outcomes(folder, [2])
    np.testing.assert_array_equal(record.theta[:, 0], [0.0, 1.0, 3.0])
    assert "Learner 3 left in round 8." in record.notes


def test_whom_a_run_has_not_is_refused(folder, gossamer):
    with pytest.raises(gs.GossamerError, match=r"learner 9 is not in the run of .* 0, 1, 2, 3: name one"):
        collect_outcomes(folder, [9])
    with pytest.raises(gs.GossamerError, match="nobody"):
        collect_outcomes(folder, [0, 1, 2, 3])
    code, _, err = gossamer("peers", "collect", "run", "--without", "x")
    assert (code, "3,5" in err) == (2, True)
    code, out, _ = gossamer("peers", "collect", "run", "--without", "2")
    assert code == 0
    assert "Collected without learner 2." in out
    assert len(gs.Record.load("collected").theta) == 3
