"""Very many learners: no m × m array, the exact shares in place of z, and rounds that are played block by block."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy

import gossamer as gs
from gossamer.algorithms import METHODS, find_method
from gossamer.networks import network as network_module
from gossamer.networks import spectrum
from gossamer.privacy import Unproved, simulated
from gossamer.records import dense_table
from gossamer.rounds import Rounds
from gossamer.simulate import blocks as blocks_module
from gossamer.simulate import metrics
from gossamer.simulate.blocks import Blocks
from gossamer.simulate.mixer import Mixer
from gossamer.simulate.play import one_round
from gossamer.streams.stream import Draws

MANY = 5000


def stream_of(m: int, n: int, seed: int = 0) -> Draws:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * m, n)) / np.sqrt(n)
    return Draws(dense_table(X, (X.sum(axis=1) > 0).astype(float)), list(np.arange(2 * m).reshape(m, 2)), seed=0)


NOISES = {
    "no noise": None,
    "messages": simulated(gs.decay(0.1, 0.6), split=(("s", 2.0),)),
    "source": simulated(gs.decay(0.1, [0.5 + 0.01 * i for i in range(30)]), where="source", releases=gs.every(2)),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", METHODS.entries())
def test_blocks_are_whole_rounds_bit_by_bit(name: str, noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "NUMBERS_AT_ONCE", 7 * 4)  # learners are not a multiple of it
    net, model, stream = gs.Network.random(30, degree=3), gs.LogisticRegression(l2=0.1), stream_of(30, 4)
    method = find_method(name).build(0.1)
    rows = net.rows(mixes=method.mixes)
    whole_memory, memory = (model.memory(stream.table, "latest", stream.room(1)) for _ in range(2))
    weights = np.linspace(0.5, 1.5, 30)
    rounds = Rounds(method, rows, whole_memory, Unproved(NOISES[noise]), 0.1, finite=False, weights=weights)
    mix = Mixer(net, method.mixes)
    some = Blocks(method, mix, rows, memory, 0.1, weights, 4, NOISES[noise])
    whole = part = method.init(rows, np.zeros((30, 4)))
    for t in range(6):
        whole = one_round(rounds, mix, whole, stream.arrivals(t), t)
        part = some(part, stream.arrivals(t), t)
    for field, value in whole._asdict().items():
        # dense products of few learners add in another order than sparse ones
        np.testing.assert_allclose(getattr(part, field), value, rtol=1e-13, atol=1e-15)


def test_rounds_of_many_are_algorithm_1_with_the_exact_shares_and_no_square_array(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two rounds against (7) and (8) with u_i in the place of m [z_i]_i."""
    monkeypatch.setattr(metrics, "MOST_PREDICTIONS", 10**6)
    net, stream = gs.Network.random(MANY, degree=3), stream_of(MANY, 3)
    R, C, u = (net.R, net.C, net.perron)
    s, theta = np.zeros((MANY, 3)), np.zeros((MANY, 3))
    for t in range(2):
        batch, lam = stream.arrivals(t), 0.5 * (t + 1) ** -0.6
        p = 1 / (1 + np.exp(-(batch.rows * theta).sum(axis=1)))
        grad = (p - batch.labels)[:, None] * batch.rows + 0.01 * theta
        after = s + C @ s + lam * grad
        theta, s = theta + R @ theta - (after - s) / u[:, None], after
    method, model = gs.ldp_gradient_tracking(gs.decay(0.5, 0.6)), gs.LogisticRegression(l2=0.01)
    gs.simulate(method, gs.Network.random(9), stream_of(9, 3), model=model, steps=2, gradient="latest")  # imports
    tracemalloc.start()
    run = gs.simulate(method, net, stream, model=model, steps=2, gradient="latest")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MANY * MANY * 8 / 4
    np.testing.assert_allclose(run.theta, theta, rtol=1e-10, atol=1e-14)
    assert any("z is not iterated" in note for note in run.notes)
    assert any("on 1,000 of 10,000 records" in note for note in run.notes)


@pytest.mark.parametrize("name", METHODS.entries())
def test_only_a_method_that_uses_z_says_that_it_is_not_iterated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_module, "ITERATED_UP_TO", 10)
    net, method = gs.Network.random(12, degree=3), find_method(name).build(0.1)
    run = gs.simulate(method, net, stream_of(12, 2), model=gs.LogisticRegression(l2=0.1), steps=1, gradient="latest")
    uses = "z" in method.init(net.rows(mixes=method.mixes), np.zeros((12, 1)))._asdict()
    assert any("z is not iterated" in note for note in run.notes) == uses


WHOLE_RUN = """
import sys
import numpy as np
import gossamer as gs
from gossamer.records import dense_table
from gossamer.simulate import metrics
from gossamer.streams.stream import Draws

m, n, folder = int(sys.argv[1]), 20, sys.argv[2]
X = np.random.default_rng(0).normal(size=(m, n))
stream = Draws(dense_table(X, (X.sum(axis=1) > 0).astype(float)), list(np.arange(m)[:, None]), seed=0)
metrics.MOST_PREDICTIONS = 10**6  # a thousand records: what is looked for here are arrays of learners
method, model = gs.ldp_gradient_tracking(gs.decay(0.1, 0.7), gs.decay(0.01, 0.6)), gs.LogisticRegression(l2=0.1)
run = gs.simulate(method, gs.Network.random(m, 4), stream, model=model, steps=3, gradient="latest", evaluate_every=3)
run.save(folder)
run.report(folder + "/report.html")
again = gs.Record.load(folder)
assert np.array_equal(again.theta, run.theta) and again.config["graph"] is None
status = open("/proc/self/status").read()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_a_whole_run_of_many_keeps_to_a_few_times_its_state(tmp_path: Path) -> None:
    """From the network to the saved record and its page: 20,000 learners, whose m × m numbers would be 3 GB.

    Another 15,000 learners cost what grows with them: a few states of 2 n numbers, records, and Python's own of each.
    """
    peaks = []
    for m in (5000, 20_000):
        command = [sys.executable, "-W", "error", "-c", WHOLE_RUN, str(m), str(tmp_path / f"{m}")]
        (tmp_path / f"{m}").mkdir()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout) * 1024)
    assert peaks[1] - peaks[0] < 15_000 * 10_000  # bytes: 20 numbers of 8 for each of 60 vectors of a learner


@pytest.mark.parametrize("net", [gs.Network.random(1100, degree=3), gs.Network.ring(1030)], ids=["mixes", "slow"])
def test_perron_of_many_is_that_of_elimination(net: gs.Network) -> None:
    """The iteration and the solved system against Grassmann, Taksar & Heyman's elimination, entry by entry."""
    exact = spectrum._stationary(net.R.toarray())
    np.testing.assert_allclose(net.perron, exact * net.m / exact.sum(), rtol=1e-11)
    assert net.perron_error < 1e-13


def test_an_inexact_eigenvector_is_told_by_its_residual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectrum, "perron", lambda R: np.ones(R.shape[0]))
    net = gs.Network.random(40, degree=3)
    assert net.perron_error == pytest.approx(np.abs(net.R.sum(axis=0)).max())
    assert net.perron_error > 0.1


def test_random_networks_are_what_they_were() -> None:
    """Edges drawn one set after the other, as the first release did."""
    for m, degree, seed in ((5, 2, 0), (40, 3, 1), (200, 6, 2)):
        rng = np.random.default_rng(seed)
        order = rng.permutation(m)
        edges = {(int(order[k]), int(order[(k + 1) % m])) for k in range(m)}
        while len(edges) < m * degree:
            edges.update((int(j), int(i)) for j, i in rng.integers(0, m, size=(m * degree - len(edges), 2)) if i != j)
        drawn = gs.Network.random(m, degree, seed)
        assert {(j, i) for j, i, _ in drawn.edges()} == edges
        assert drawn.links == len(edges)


def test_one_way_links_are_counted() -> None:
    ring = gs.Network.from_edges(4, [(0, 1), (1, 2), (2, 3), (3, 0), (1, 0)], C_edges=[(0, 1), (1, 2), (2, 3), (3, 0)])
    assert ring.one_way == 3
    assert gs.Network.ring(4).one_way == 0  # C pushes back over all of R's links


def test_many_learners_are_told_apart_by_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_module, "ITERATED_UP_TO", 10)
    R = gs.Network.random(20, seed=1).R
    other = scipy.sparse.csr_array(R) * 0.5
    assert gs.Network(R).fingerprint != gs.Network(other).fingerprint
    assert gs.Network(R).fingerprint == gs.Network(R.copy()).fingerprint


def test_of_very_many_learners_the_command_lists_a_few(gossamer: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = gossamer(
        "run", "mushrooms", "--learners", 201, "--graph", "random", "--steps", 1, "--json", "run.json"
    )
    assert code == 0
    assert re.search(r"^9 +0\.", out, re.M)
    assert not re.search(r"^10 +0\.", out, re.M)
    assert "and 191 other learners, who are in the record" in out
    assert len(json.loads(Path("run.json").read_text())["learners"]) == 201


def test_a_device_that_is_not_there_is_refused(gossamer: Callable[..., tuple[int, str, str]]) -> None:
    pytest.importorskip("torch", reason="needs the extra `nn`")
    code, _, err = gossamer("run", "mushrooms", "--device", "nowhere", "--steps", 1)
    assert code == 2
    assert "--device nowhere: expected cpu, cuda" in err
