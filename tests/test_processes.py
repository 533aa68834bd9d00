"""Learners as real processes over TLS on loopback: the simulator's numbers, whoever is killed, stopped or cut off."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers.config import Config, DataPlan, ModelPlan, Neighbour, PartyPlan, PrivacyPlan, RecordsPlan, Run
from gossamer.peers.folders import make_folders
from gossamer.records import dense_table
from gossamer.streams.stream import OnePass

M, FEATURES = 10, 6
LIMIT = 600.0  # seconds; what is waited for takes a few, unless the machine is very busy or something is broken
SIMULATED = PrivacyPlan(simulated=(0.05, 0.55))


def free_ports(count):
    """A run of ports that are free now."""
    for _ in range(200):
        first = random.randrange(20000, 58000)
        try:
            for k in range(count):
                with socket.socket() as tried:
                    tried.bind(("127.0.0.1", first + k))
            return first
        except OSError:
            continue
    raise AssertionError("no free ports")


def records(steps, m=M):
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(m, steps, FEATURES)).round(6)
    y = (X @ rng.normal(size=FEATURES) > 0).astype(int)
    return X, y


def make(
    folder, steps, network, privacy=SIMULATED, m=M, gradient="history", host=lambda i: "127.0.0.1", secrets=None,
    **changes,
):  # fmt: skip
    """A run's folders; `changes` are of [run] and [party], by name."""
    X, y = records(steps, m)
    port = free_ports(m)
    names = [f"x{k:04}" for k in range(FEATURES)]  # features lie in the order of their names
    party = {"durability": "process" if secrets is None else "power"}
    party |= {
        name: changes.pop(name) for name in list(changes) if name in ("late", "patience", "durability", "metrics")
    }
    run = Run(id="test", learners=m, steps=steps, gradient=gradient, step=(0.5, 0.8), strict=False, **changes)
    schema = RecordsPlan(target="y", classes=("0", "1"), ranges=dict.fromkeys(names, (-1.0, 1.0)))  # as they are
    configs = [
        Config(
            run=run,
            model=ModelPlan(l2=0.1),
            records=schema,
            party=PartyPlan(learner=i, listen=f"{host(i)}:{port + i}", **party),
            privacy=privacy(i) if callable(privacy) else privacy,
            secrets=secrets,
            data=DataPlan(path="records.csv"),
            neighbours={str(j): Neighbour(address=f"{host(j)}:{port + j}") for j in range(m) if j != i},
        )
        for i in range(m)
    ]
    make_folders(
        folder, network, configs, [host(i) for i in range(m)], 30, {i: csv(names, X[i], y[i]) for i in range(m)}
    )
    return port


def csv(names, X, y):
    lines = [",".join([*map(repr, map(float, row)), str(int(label))]) for row, label in zip(X, y, strict=True)]
    return "\n".join([",".join([*names, "y"]), *lines, ""])


def simulated(steps, network, m=M, gradient="history", scale=(0.05, 0.55)):
    """The simulator's θ for the same run; its features are the declared ones, with a column of ones."""
    X, y = records(steps, m)
    X = np.concatenate([X, np.ones((m, steps, 1))], axis=2)
    table = dense_table(X.reshape(-1, FEATURES + 1), y.ravel().astype(float))
    stream = OnePass(table, list(np.arange(m * steps).reshape(m, -1)), 1)
    algorithm, model = gs.ldp_gradient_tracking(gs.decay(0.5, 0.8), strict=False), gs.LogisticRegression(l2=0.1)
    noise = gs.privacy.simulated(gs.decay(*scale), 0)
    run = gs.simulate(algorithm, network, stream, model=model, privacy=noise, steps=steps, gradient=gradient)
    return run.theta


class Fleet:
    """The learners' processes of one run, forked by a zygote."""

    def __init__(self, zygote, folder, tap=None, m=M, known=False):
        self._zygote, self.folder, self.tap, self.m, self._known = zygote, folder, tap, m, known
        self.pids, self.codes = {}, {}

    def place(self, i):
        return self.folder / f"learner-{i}"

    def start(self, *learners, fault=None, files=None):
        for i in learners or range(self.m):
            tap = str(self.tap) if self.tap else None
            command = {"start": str(self.place(i)), "fault": fault, "tap": tap, "known": self._known, "files": files}
            self.pids[i] = self._zygote.ask(**command)["pid"]
            self.codes.pop(i, None)

    def code(self, i):
        """A learner's exit code, None while it runs."""
        if i not in self.codes:
            code = self._zygote.ask(poll=self.pids[i])["code"]
            if code is None:
                return None
            self.codes[i] = code
        return self.codes[i]

    def kill(self, i):
        if self.code(i) is None:
            os.kill(self.pids[i], signal.SIGKILL)
            while self.code(i) is None:
                time.sleep(0.002)

    def status(self, i):
        try:
            return json.loads((self.place(i) / "status.json").read_text())
        except (OSError, ValueError):
            return {}

    def log(self, i):
        return [json.loads(line) for line in (self.place(i) / "log.jsonl").read_text().splitlines()]

    def finish(self, seconds=LIMIT):
        """Wait until all have ended well; their outcomes' θ."""
        until = time.monotonic() + seconds
        while any(self.code(i) is None for i in range(self.m)):
            assert time.monotonic() < until, [self.status(i) for i in range(self.m)]
            time.sleep(0.02)
        errors = [(self.place(i) / "stderr.log").read_text()[-800:] for i in range(self.m) if self.code(i)]
        assert not errors, errors[0]
        return np.concatenate([np.load(self.place(i) / "own-model.npy") for i in range(self.m)])

    def close(self):
        for i in self.pids:
            self.kill(i)


NETWORKS = {"paper": gs.Network.paper, "one way, R and C unlike": gs.Network.paper_one_way}


@pytest.mark.parametrize("name", NETWORKS)
def test_ten_processes_find_what_the_simulator_finds(tmp_path, fleet_of, name):
    network, steps = NETWORKS[name](), 80
    make(tmp_path / "run", steps, network)
    fleet = fleet_of(tmp_path / "run")
    fleet.start()
    np.testing.assert_allclose(fleet.finish(), simulated(steps, network), rtol=0, atol=1e-12)


def payloads_seen(tap):
    seen = {}
    for line in tap.read_text().splitlines():
        learner, round_, channel, part, digest = line.split()
        seen.setdefault((int(learner), int(round_), channel, int(part)), set()).add(digest)
    return seen


def rounds_sent(tap):
    """As often as it is asked: the newest round of which any learner has sent something."""
    newest, rest = -1, ""
    with tap.open() as file:
        while True:
            *lines, rest = (rest + file.read()).split("\n")
            newest = max([newest, *(int(line.split()[1]) for line in lines)])
            yield newest


def killed(fleet, kills, steps, seed):
    """Kill some learners at once, from time to time over the whole run, and start each again: every other one to be
    killed once more, at a named moment."""
    rng = random.Random(seed)
    fleet.tap.touch()
    rounds = rounds_sent(fleet.tap)
    fleet.start()
    done, until = 0, time.monotonic() + LIMIT
    while done < kills:
        while next(rounds) < steps * 2 // 3 * done // kills:  # and the rest is long enough for the last of them
            assert time.monotonic() < until, f"only {done} kills"
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.03))  # at any moment of a round
        chosen = rng.sample(range(fleet.m), rng.randrange(1, 6))
        assert not any(fleet.code(i) == 0 for i in chosen), f"the run was over after {done} kills"
        for i in chosen:
            fleet.kill(i)
        doomed = set(chosen[::2])
        for i in chosen:
            fault = [rng.choice(["committed", "sent"]), rng.randrange(1, 4)]
            fleet.start(i, fault=fault if i in doomed else None)
        done += len(chosen) + len(doomed)
        while doomed:  # until its fault ends it
            assert time.monotonic() < until, f"learners {doomed} were not killed at a named moment"
            for i in [i for i in doomed if fleet.code(i) is not None]:
                assert fleet.code(i) == -signal.SIGKILL
                fleet.start(i)
                doomed.remove(i)
            time.sleep(0.005)


def test_fifty_kills_change_no_number(tmp_path, fleet_of):
    m, steps = 6, 300
    network = gs.Network(gs.Network.ring(m).R, gs.Network.exponential(m).C)  # one way, R and C unlike
    make(tmp_path / "run", steps, network, m=m)
    fleet = fleet_of(tmp_path / "run", tmp_path / "tap", m=m)
    killed(fleet, 50, steps, seed=3)
    np.testing.assert_allclose(fleet.finish(), simulated(steps, network, m), rtol=0, atol=1e-12)
    seen = payloads_seen(tmp_path / "tap")
    assert set(map(len, seen.values())) == {1}
    assert max(fleet.status(i)["life"] for i in range(m)) > 2


def test_kills_never_draw_noise_again_and_spend_no_more(tmp_path, fleet_of):
    """With exact noise, which never repeats: one payload a learner, round and channel, and the accountant's ε."""
    m, steps = 6, 200
    make(tmp_path / "run", steps, gs.Network.exponential(m), PrivacyPlan(epsilon=50.0), m=m)
    fleet = fleet_of(tmp_path / "run", tmp_path / "tap", m=m)
    killed(fleet, 20, steps, seed=4)
    fleet.finish()
    seen = payloads_seen(tmp_path / "tap")
    assert set(map(len, seen.values())) == {1}
    assert {key[:3] for key in seen} >= {(i, t, c) for i in range(m) for t in range(steps) for c in ("s", "theta")}
    for i in range(m):
        spent, _ = fleet.status(i)["epsilon"]
        assert spent == pytest.approx(50.0, rel=1e-6), "the budget was meant for exactly these rounds"
        assert spent <= 50.0
    outcome = np.load(tmp_path / "run" / "learner-0" / "outcome.npz")
    own = np.load(tmp_path / "run" / "learner-0" / "own-model.npy")
    assert not np.allclose(outcome["theta"], own), "with noise on messages, what is handed on is the last message"
