"""What noise does to each method, in closed form: DiaDSP's bias, Push–Pull's gathered variance, whom I+R favours."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer import decay, geometric

NET = gs.Network.paper()
M, N = 10, 4


def run(algorithm, noise, gradient, rounds, seed, runs):
    """`runs` independent copies side by side, in the coordinates; noise(channel, t, shape) is added to what is sent."""
    rng = np.random.default_rng(seed)
    rows = NET.rows(mixes=algorithm.mixes)
    off = {over: np.array(NET.off_diagonal(over)) for over in algorithm.mixes}
    x = algorithm.init(rows, np.zeros((M, N * runs)))
    for t in range(rounds):
        grad = gradient(algorithm.point(x))
        out = algorithm.emit(x, grad, rows, t)
        got = {
            c: off[o.over] @ (o.value + (rng.laplace(size=o.value.shape) * noise(t) if o.private else 0))
            for c, o in out.items()
        }
        x = algorithm.step(x, got, grad, rows, t)
    return x


CURVATURE = np.linspace(0.5, 1.5, M)[:, None]
CENTRE = np.random.default_rng(3).normal(size=(M, N))


def gradient_of(runs):
    centre = np.tile(CENTRE, (1, runs))
    return lambda theta: CURVATURE * (theta - centre)


def test_diadsp_rests_where_the_gradient_is_minus_the_noise_it_gathered():
    """E‖∇F‖² = 2 n d² ΣW_ii² / (m² (1−q²)): the direction y keeps all noise it received, |W_ii| of each learner's."""
    d, q, runs = 0.3, 0.9, 500
    x = run(gs.diadsp(decay(0.1, 0.0)), geometric(d, q), gradient_of(runs), 800, 0, runs)
    assert np.abs(x.theta - x.theta.mean(axis=0)).max() < 1e-6, "all agree"
    slope = gradient_of(runs)(x.theta).mean(axis=0).reshape(runs, N)
    expected = 2 * N * d**2 * (np.diag(NET.W) ** 2).sum() / (M**2 * (1 - q**2))
    assert (slope**2).sum(axis=1).mean() == pytest.approx(expected, rel=0.1)


def test_diadsp_as_printed_with_noise_on_a_learners_own_term_as_well():
    """E‖∇F‖² = 2 n d² / (m (1−q²)), by a loop written from the equations alone."""
    d, q, runs, alpha = 0.3, 0.9, 500, 0.1
    rng, W, g = np.random.default_rng(1), np.eye(M) + NET.W, gradient_of(500)
    theta = np.zeros((M, N * runs))
    y = g(theta)
    for t in range(800):
        noise, zeta = (rng.laplace(size=theta.shape) * d * q**t for _ in range(2))
        after = W @ (theta + noise) - alpha * y
        y = W @ (y + zeta) + g(after) - g(theta)
        theta = after
    slope = g(theta).mean(axis=0).reshape(runs, N)
    assert (slope**2).sum(axis=1).mean() == pytest.approx(2 * N * d**2 / (M * (1 - q**2)), rel=0.1)


@pytest.mark.parametrize("exponent", [0.55, 0.8])
def test_push_pull_gathers_the_variance_of_all_its_noise(exponent):
    """1ᵀy = 1ᵀg + Σ_k 1ᵀ off(C) ζ_k: Σ_t = 2 Σ_i C_ii² Σ_{k<t} ν_k², which grows for ever and has a limit for ς > ½."""
    runs, rounds, nu = 400, 300, decay(0.5, exponent)
    step = decay(0.0, 0.6)  # the variance of y alone: θ moves by consensus noise only, and gradients are constant
    constant = np.tile(CENTRE, (1, runs))
    x = run(gs.push_pull(step), nu, lambda theta: constant, rounds, 2, runs)
    gathered = (x.w + constant).sum(axis=0) - constant.sum(axis=0)
    expected = 2 * (np.diag(NET.C) ** 2).sum() * (nu(np.arange(rounds)) ** 2).sum()
    assert gathered.var() == pytest.approx(expected, rel=0.1)


def test_algorithm_1_forgets_what_push_pull_gathers():
    """Under the same noise and steps Push–Pull ends far from the optimum, Algorithm 1 near it."""
    runs, nu, step = 20, decay(1.0, 0.55), decay(0.3, 0.6)
    optimum = np.tile((CURVATURE * CENTRE).sum(axis=0) / CURVATURE.sum(), runs)
    far, near = (
        np.abs(run(build(step), nu, gradient_of(runs), 2000, 5, runs).theta - optimum).mean()
        for build in (gs.push_pull, lambda s: gs.ldp_gradient_tracking(s, strict=False))
    )
    assert near < far / 4


def test_dsgd_on_a_directed_graph_favours_the_well_heard():
    naive = gs.dsgd(decay(0.5, 0.8), over="R", strict=False)
    assert "misuse" in naive.name
    assert any("misuse" in note for note in naive.notes(None))
    x = run(naive, decay(0.0, 0.6), gradient_of(1), 20_000, 0, 1)
    weighed = NET.perron[:, None] * CURVATURE
    theirs = (weighed * CENTRE).sum(axis=0) / weighed.sum()
    true = (CURVATURE * CENTRE).sum(axis=0) / CURVATURE.sum()
    assert np.abs(x.theta - theirs).max() < 0.01
    assert np.abs(theirs - true).max() > 0.1


def test_weights_for_other_methods_are_what_they_say():
    for net in (NET, gs.Network.random(12, seed=4), gs.Network.exponential(7)):
        W, D = np.asarray(net.W), np.asarray(net.D)
        np.testing.assert_allclose(W, W.T, atol=1e-15)
        for matrix in (W, D):
            np.testing.assert_allclose(matrix.sum(axis=0), 0, atol=1e-12)
            np.testing.assert_allclose(matrix.sum(axis=1), 0, atol=1e-12)
            assert (1 + np.diag(matrix) > 0).all()
        off = ~np.eye(net.m, dtype=bool)
        assert ((D > 0) == (np.asarray(net.R) > 0))[off].all(), "on R's links alone"
        assert ((W > 0) == ((np.asarray(net.R) > 0) | (np.asarray(net.R).T > 0)))[off].all()


def test_a_method_that_needs_links_both_ways_says_so_where_some_are_one_way():
    ring = [(i, (i + 1) % 4) for i in range(4)]
    one_way = gs.Network.from_edges(4, ring, C_edges=ring)
    assert (one_way.one_way, NET.one_way) == (4, 0)
    X = np.random.default_rng(0).normal(size=(4, 30, 2))
    stream = gs.streams.from_arrays(X, (X[..., 0] > 0).astype(float))
    record = gs.simulate(gs.dsgd(decay(0.5, 0.8)), one_way, stream, model=gs.LogisticRegression(l2=0.1), steps=5)
    assert any("4 of this network are one-way" in note for note in record.notes)
