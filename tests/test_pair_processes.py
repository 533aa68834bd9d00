"""Noise that cancels between real processes: the simulator's numbers with the same keys, whoever is killed."""

from __future__ import annotations

import base64
import dataclasses
import os
import re
import signal

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")
import msgspec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

import gossamer as gs
from gossamer.cli.words import in_command
from gossamer.peers.boundary import setting_of_learners
from gossamer.peers.config import Plan, PrivacyPlan, SecretsPlan, read_config
from gossamer.peers.outcome import collect_outcomes
from gossamer.peers.pair_keys import shared_key
from gossamer.privacy import mechanisms
from gossamer.privacy.pairs import DealtPairs
from gossamer.streams.stream import OnePass
from known_noise import know_own_noise
from test_operations import wait_until
from test_processes import M, killed, make, payloads_seen, records, rounds_sent

STEPS, SHARE, EXPONENT, RELEASES = 40, 0.6, 0.1, "1,2,36"
BUDGETS = [8.0] * (M - 2) + [5.0, 3.0]  # two of them add more than was agreed
NETWORK = gs.Network.paper_one_way()


def secrets_with(floor):
    keys = dict.fromkeys(map(str, range(M)), "")
    return SecretsPlan(share=SHARE, floor=floor, exponent=EXPONENT, releases=RELEASES, keys=keys, colluders=2)


def private(i):
    return PrivacyPlan(epsilon=BUDGETS[i], law="gaussian", where="source")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"share": 1e9}, r"^\[secrets\] share = 1000000000.0: expected "),
        ({"graph": "99-regular"}, r'^\[secrets\] graph = "99-regular": '),
        ({"releases": "often"}, r'^\[secrets\] releases = "often": expected r,W'),
    ],
)
def test_a_mistake_in_secrets_is_told_by_the_keys_of_the_file(tmp_path, wrong, says):
    make(tmp_path / "run", STEPS, NETWORK, private)
    config = read_config(tmp_path / "run/learner-0").config
    secrets = msgspec.structs.replace(secrets_with(1.0), **wrong)
    party = msgspec.structs.replace(config.party, durability="power")
    config = msgspec.structs.replace(config, secrets=secrets, party=party)
    with pytest.raises(gs.GossamerError, match=says) as refused:
        Plan(config, tmp_path / "run/learner-0").mechanism()
    assert "--" not in refused.value.said(in_command)


def agreed_floor(folder):
    """As `peers init` finds it: from all budgets together."""
    make(folder, STEPS, NETWORK, private, secrets=secrets_with(1.0))
    plan = read_config(folder / "learner-0")
    own = dataclasses.replace(plan.mechanism(), epsilon=tuple(BUDGETS))
    setting = setting_of_learners(range(M), plan, plan.algorithm(), plan.model())
    return own.terms(setting)[0].shared.floor, own


def keys_of(folder):
    """Every pair's key, as whoever has all secrets could compute it."""
    secrets = [load_pem_private_key((folder / f"learner-{i}/secret.pem").read_bytes(), None) for i in range(M)]
    agreement = read_config(folder / "learner-0").agreement
    return secrets, {
        (i, j): shared_key(secrets[i], secrets[j].public_key(), agreement, i, j)
        for i in range(M)
        for j in range(i + 1, M)
    }


def simulated(folder, mechanism, keys, monkeypatch):
    """The simulator's θ for the same run, with the same keys and the same noise of each learner's own."""

    def dealt(edges):
        pairs = DealtPairs(edges)
        assert set(pairs.keys) == set(keys)
        pairs.keys = keys
        return pairs

    with monkeypatch.context() as patched:
        know_own_noise(range(M), patched.setattr)
        patched.setattr(mechanisms, "DealtPairs", dealt)
        plan = read_config(folder / "learner-0")
        X, y = records(STEPS)
        X = np.concatenate([X, np.ones((M, STEPS, 1))], axis=2).reshape(M * STEPS, -1)
        table = plan.schema.table(X, y.ravel().astype(float))
        stream = OnePass(table, list(np.arange(M * STEPS).reshape(M, -1)), 1)
        run = gs.simulate(
            plan.algorithm(), NETWORK, stream, model=plan.model(), privacy=mechanism, steps=STEPS, gradient="history"
        )
    return run


def test_ten_processes_with_secrets_find_what_the_simulator_finds_through_twenty_kills(tmp_path, fleet_of, monkeypatch):
    floor, mechanism = agreed_floor(tmp_path / "asked")
    folder = tmp_path / "run"
    make(folder, STEPS, NETWORK, private, secrets=secrets_with(floor))
    secrets, keys = keys_of(folder)
    fleet = fleet_of(folder, tmp_path / "tap", known=True)
    killed(fleet, 20, STEPS, seed=5)
    found, expected = fleet.finish(), simulated(folder, mechanism, keys, monkeypatch)
    np.testing.assert_allclose(found, expected.theta, rtol=0, atol=1e-12)
    assert set(map(len, payloads_seen(tmp_path / "tap").values())) == {1}, "the same bytes after a crash"
    assert max(fleet.status(i)["life"] for i in range(M)) > 2
    record = collect_outcomes(folder)
    for name in ("spent", "all_collude"):
        np.testing.assert_allclose(record.epsilon[name], expected.epsilon[name], rtol=1e-9)
    assert record.config["against"] == mechanism.secrets.against
    assert not record.notes
    nothing_tells(folder, secrets, keys)


def test_a_partner_that_was_late_is_named_with_the_rounds(tmp_path, fleet_of):
    """Learner 0 stands still until another went on without it; all come to their end, and say what it cost."""
    m, steps, folder = 4, 200, tmp_path / "run"
    keys = dict.fromkeys(map(str, range(m)), "")
    agreed = SecretsPlan(share=0.6, floor=1.0, exponent=0.0, releases="1,0", keys=keys, graph="2-regular")
    late = {"lateness": 3, "late": 3, "patience": 0.2}
    make(folder, steps, gs.Network.exponential(m), private, m, secrets=agreed, **late)
    fleet = fleet_of(folder, tmp_path / "tap", m=m)
    (tmp_path / "tap").touch()
    rounds = rounds_sent(tmp_path / "tap")
    fleet.start()
    wait_until(lambda: next(rounds) > 5)
    os.kill(fleet.pids[0], signal.SIGSTOP)
    wait_until(lambda: any(fleet.status(i).get("late") for i in range(1, m)))
    os.kill(fleet.pids[0], signal.SIGCONT)
    fleet.finish()
    told = [note for note in collect_outcomes(folder).notes if "learner 0 was late" in note]
    assert len(told) == 1
    assert re.fullmatch(r"Noise of pairs did not cancel in rounds? [\d, -]+…? \(learner 0 was late\)\.", told[0])
    assert any("(learner 0 was late)" in line for i in range(1, m) for line in fleet.status(i)["uncancelled"])
    assert all(fleet.status(i)["epsilon"][0] <= BUDGETS[i] for i in range(m)), "it cost accuracy alone"


def nothing_tells(folder, secrets, keys):
    """When all is delivered, no key is in any file: not in secret.pem, nor in a journal."""
    raw = [secret.private_bytes_raw() for secret in secrets] + list(keys.values())
    shapes = {shape for key in raw for shape in (key, key.hex().encode(), base64.b64encode(key))}
    for i in range(M):
        place = folder / f"learner-{i}"
        assert not (place / "secret.pem").exists()
        for file in place.iterdir():
            content = file.read_bytes()
            assert not any(shape in content for shape in shapes), file
