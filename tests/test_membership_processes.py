"""One leaves, one joins and one is put out, in a run of real processes, by the commands that a party has."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers.config import PrivacyPlan, read_config
from gossamer.peers.outcome_file import read_outcome
from test_operations import wait_until
from test_processes import FEATURES, csv, free_ports, make, records

M, STEPS, JOINS = 5, 120, 5
NAMES = [f"x{k:04}" for k in range(FEATURES)]


def test_leave_join_and_put_out(tmp_path, fleet_of, gossamer):
    """Learner 0's records come in three parts, so that the run stands where commands are given, however busy it is."""
    folder = tmp_path / "run"
    make(folder, STEPS, gs.Network.exponential(M), PrivacyPlan(), M)
    X, y = records(STEPS, M + 1)
    first = folder / "learner-0"
    lines = csv(NAMES, X[0], y[0]).splitlines(keepends=True)
    (first / "records.csv").write_text("".join(lines[:21]))
    toml = (first / "party.toml").read_text()
    (first / "party.toml").write_text(toml.replace('path = "records.csv"', 'path = "records.csv"\nfollow = true'))

    def bring(upto):
        with (first / "records.csv").open("a") as file:
            file.writelines(lines[1 + bring.upto : 1 + upto])
        bring.upto = upto

    bring.upto = 20
    fleet = fleet_of(folder)

    def told(i, name):
        return fleet.status(i).get("membership", {}).get(name)

    def statuses():
        return [fleet.status(i) for i in range(M + 1)]

    fleet.start()
    wait_until(lambda: all(fleet.status(i).get("round", 0) >= 19 for i in range(M)), statuses)

    # Learner 3 leaves and learner 5 joins.
    joins = f"{JOINS}=127.0.0.1:{free_ports(1)}"
    code, out, err = gossamer("peers", "change", "run", "--at", 60, "--leave", 3, "--join", joins)
    assert code == 0, err
    assert "from round 60 on: learner 3 leaves; learner 5 joins; 5 members" in out
    assert gossamer("peer", "accept", "run/learner-1", "run/changes/1.json")[0] == 0
    wait_until(lambda: all(told(i, "coming") == [{"change": 1, "round": 60}] for i in range(M)), statuses)
    assert "Change 1 comes in round 60; 5 of those here know of it." in gossamer("peers", "status", "run")[1]
    (folder / "learner-5" / "records.csv").write_text(csv(NAMES, X[JOINS], y[JOINS]))
    fleet.start(JOINS)
    bring(80)
    wait_until(lambda: fleet.code(3) == 0, statuses)
    assert told(3, "left") == 60
    assert read_outcome(fleet.place(3)).about["round"] == 60
    wait_until(lambda: all(fleet.status(i).get("round", 0) >= 79 for i in (0, 1, 2, 4, 5)), statuses)
    assert told(JOINS, "joined") == 60
    assert told(0, "members") == [0, 1, 2, 4, 5]

    # Learner 4 is lost.
    fleet.kill(4)
    code, _, err = gossamer("peers", "change", "run", "--at", 100, "--lost", 2, "--again")
    assert code == 2
    assert "has accepted change 1" in err, "what is agreed on is not made again"
    assert gossamer("peers", "change", "run", "--at", 70, "--lost", 2)[0] == 0
    code, _, err = gossamer("peer", "accept", "run/learner-5", "run/changes/2.json")
    assert code == 2
    assert "make it again with" in " ".join(err.split())
    code, out, err = gossamer("peers", "change", "run", "--at", 110, "--lost", 4, "--again")
    assert code == 0, err
    assert "no party may have" in out
    assert gossamer("peer", "accept", "run/learner-5", "run/changes/2.json")[0] == 0
    left = (0, 1, 2, JOINS)

    # It comes back after all, and is told.
    wait_until(lambda: all(told(i, "coming") == [{"change": 2, "round": 110}] for i in left), statuses)
    fleet.start(4)
    wait_until(lambda: fleet.status(4).get("state") == "put out", statuses)
    assert "learner 4 was put out by change 2, of round 110" in gossamer("peers", "status", "run")[1]
    assert not any(line["event"] == "held" for line in fleet.log(4))
    fleet.kill(4)
    bring(STEPS)
    wait_until(lambda: all(fleet.code(i) is not None for i in left), statuses)
    assert [fleet.code(i) for i in left] == [0] * 4, statuses()
    events = [(line["event"], line.get("learner")) for line in fleet.log(1)]
    for event in (("left", 3), ("joined", JOINS), ("put out", 4)):
        assert events.count(event) == 1
    code, out, err = gossamer("peers", "collect", "run", "--without", 4)
    assert code == 0, err
    assert "Learner 3 left in round 60: its model of then is not among them." in out
    assert "Learner 5 joined in round 60." in out
    record = gs.Record.load("collected")
    assert record.t == STEPS
    stayed = record.theta
    assert len(stayed) == len(left), "those who stayed to the end"
    assert np.abs(stayed - stayed.mean(axis=0)).max() < 0.2 * np.abs(stayed).max(), "they agree, nearly"
    assert read_config(fleet.place(JOINS)).config.party.learner == JOINS
