"""A round as one matrix is the round that the engine takes, for every method, and its noise has the law it says."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import gossamer as gs
from gossamer import decay
from gossamer.algorithms import METHODS as REGISTRY
from gossamer.arrays import Tensors
from gossamer.privacy import Unproved, simulated
from gossamer.rounds import Rounds
from gossamer.simulate.matrix import RoundMatrix, matrix_rounds
from gossamer.simulate.mixer import Mixer
from gossamer.simulate.play import one_round

METHODS = REGISTRY.entries()

NET = gs.Network.paper_one_way()
N = 50


class Given:
    """Gradients that are given."""

    def __init__(self, grad):
        self._grad = grad

    def observe(self, batch):
        pass

    def gradient(self, theta):
        return self._grad

    def arrivals(self, t):
        return None


class UnitNoise:
    """A round's noise as given arrays, one for each channel, times the scale."""

    def __init__(self, scale, drawn):
        self.scale, self._drawn = scale, drawn

    def noise(self, channel, t, shape):
        return self.scale(t) * self._drawn[channel]


@pytest.mark.parametrize("method", METHODS)
def test_the_matrix_takes_the_engines_round(method):
    algorithm = METHODS[method].build(0.3)
    scale, rng = decay(0.1, [0.51 + 0.01 * i for i in range(10)]), np.random.default_rng(0)
    matrix = RoundMatrix(algorithm, NET, simulated(scale))
    assert matrix.linear()
    rows, mix = NET.rows(mixes=algorithm.mixes), Mixer(NET, algorithm.mixes)
    state = algorithm.init(rows, rng.normal(size=(10, N)))
    x = np.concatenate([getattr(state, name) for name in matrix.wide])
    channels = [c for c, out in algorithm.emit(state, 0 * state.theta, rows, 0).items() if out.private]
    for t in range(int(NET.settles) + 3):
        grad, drawn = rng.normal(size=(10, N)), {c: rng.laplace(size=(10, N)) for c in channels}
        rounds = Rounds(algorithm, rows, Given(grad), Unproved(UnitNoise(scale, drawn)), 0.0, finite=False)
        state = one_round(rounds, mix, state, None, t)
        x = matrix.next(t) @ np.concatenate([x, grad, *(drawn[c] for c in channels)])
        theirs = np.concatenate([getattr(state, name) for name in matrix.wide])
        np.testing.assert_allclose(x, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())
        for name, value in matrix.narrow.items():
            np.testing.assert_array_equal(value, getattr(state, name))


def test_a_box_is_not_linear():
    for algorithm in (gs.ldol(decay(0.5, 0.8), box=5.0), gs.stochastic_subgradient(decay(0.5, 0.5), box=1e9)):
        assert not RoundMatrix(algorithm, NET, None).linear()
        assert matrix_rounds(algorithm, NET, None, None, None, 0) is None


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_rounds_on_tensors_go_on_where_they_stopped_and_draw_the_law(law):
    torch = pytest.importorskip("torch", reason="needs the extra `nn`")
    algorithm, kind = METHODS["ldp_gradient_tracking"].build(0.3), Tensors(torch.float64, torch.device("cpu"))
    noise = simulated(decay(0.1, 0.55), 3, law)
    rows, n = NET.rows(mixes=algorithm.mixes), 20_000
    state = algorithm.init(rows, np.zeros((10, n)))
    state = type(state)(*(kind.make(value) for value in state))
    grad = torch.zeros(10, n, dtype=torch.float64)
    straight = matrix_rounds(algorithm, NET, kind, noise, state, 0)
    for t in range(4):
        straight(grad, t)
        if t == 0:
            first = straight.state.theta.numpy().copy()
        if t == 1:
            stopped = type(state)(*(value.clone() for value in straight.state))
    again = matrix_rounds(algorithm, NET, kind, noise, stopped, 2)
    for t in (2, 3):
        again(grad, t)
    for one, other in zip(straight.state, again.state, strict=True):
        assert torch.equal(one, other)
    # From θ = s = 0 the first round is noise alone: learner i hears Σ_j R_ij ϑ_j − Σ_j C_ij ζ_j / (m z_ii), z_ii = 1.
    R, C = (np.asarray(NET.off_diagonal(over)) for over in ("R", "C"))
    variance = {"laplace": 2.0, "gaussian": 1.0}[law] * 0.01
    expected = variance * ((R**2).sum(axis=1) + (C**2).sum(axis=1) / 100)
    np.testing.assert_allclose(first.var(axis=1), expected, rtol=0.08)


KERNEL = """
import numpy as np, torch
from scipy import stats
from gossamer.privacy import law_named
from gossamer.simulate.kernel import advance
device = "cuda" if torch.cuda.is_available() else "cpu"
rng = np.random.default_rng(0)
X, G, n = 6, 3, 1000
x, g, M = (rng.normal(size=s).astype(np.float32) for s in ((X, n), (G, n), (X, X + G + 5)))
def run(M, seed, law="laplace"):
    out = torch.tensor(x, device=device)
    advance(out, torch.tensor(g, device=device), torch.tensor(M, device=device), seed, law_named(law))
    return out.cpu().numpy()
plain = M[:, : X + G] @ np.concatenate([x, g])
np.testing.assert_allclose(run(M[:, : X + G], 1), plain, rtol=1e-4, atol=1e-4)
only = np.zeros_like(M)
only[:5, X + G :] = np.eye(5)  # the first five rows become the noise itself
for law, cdf in (("laplace", "laplace"), ("gaussian", "norm")):
    noise = run(only, 2**40 + 7, law)
    assert np.array_equal(noise, run(only, 2**40 + 7, law)) and not np.array_equal(noise, run(only, 8, law))
    assert not noise[5].any()
    assert stats.kstest(noise[:5].ravel(), cdf).pvalue > 1e-4, law
    assert np.abs(np.corrcoef(noise[:5]) - np.eye(5)).max() < 0.2
print("fine")
"""


def test_the_kernel_is_the_product_and_draws_the_laws():
    """In Triton's interpreter where there is no GPU."""
    pytest.importorskip("triton", reason="the kernel needs Triton, which comes with torch for CUDA")
    torch = pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", KERNEL],
        env=os.environ | ({} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.endswith("fine\n"), done.stderr
