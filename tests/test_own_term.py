"""A learner's own term noised as published: the papers' equations, their bias, and what it does to ε."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from conftest import KnownNoise
from gossamer import decay, geometric
from gossamer.algorithms import METHODS
from gossamer.privacy import Gaussian, Laplace, epsilons
from gossamer.setting import setting_of
from test_bias import NET, M, N, gradient_of, run

OWN = {name: name.removesuffix("_own") for name, one in METHODS.entries().items() if one.noises_own}
MODEL = gs.LogisticRegression(l2=0.1)


def records(steps, learners=M):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(learners, steps, N))
    X /= np.abs(X).sum(axis=2, keepdims=True)
    return gs.streams.from_arrays(X, (X[..., 0] > 0).astype(float), ranges=(-1, 1))


def test_the_papers_that_noise_the_own_term_are_these():
    assert set(OWN) == {"diadsp_own", "stochastic_subgradient_own", "subgradient_rescaling_own"}
    assert all("as published" in METHODS.find(name).label for name in OWN)


def test_a_message_comes_to_its_own_sender_over_i_plus_w():
    for over in ("R", "W", "D"):
        whole, off = NET.off_diagonal(f"I+{over}"), NET.off_diagonal(over)
        np.testing.assert_allclose(np.diag(whole), 1 + np.diag(getattr(NET, over)), atol=1e-15)
        np.testing.assert_allclose(whole - np.diag(np.diag(whole)), off, atol=1e-15)
        np.testing.assert_allclose(whole.sum(axis=1), 1, atol=1e-12)


def test_diadsp_as_published_rests_farther_off():
    """E‖∇F‖² = 2 n d² / (m (1−q²)): y keeps all of every learner's noise, not |W_ii| of it alone."""
    d, q, runs = 0.3, 0.9, 500
    x = run(gs.diadsp_own(decay(0.1, 0.0)), geometric(d, q), gradient_of(runs), 800, 0, runs)
    assert np.abs(x.theta - x.theta.mean(axis=0)).max() < 1e-6, "all agree"
    slope = gradient_of(runs)(x.theta).mean(axis=0).reshape(runs, N)
    expected = 2 * N * d**2 / (M * (1 - q**2))
    assert (slope**2).sum(axis=1).mean() == pytest.approx(expected, rel=0.1)
    without = 2 * N * d**2 * (np.diag(NET.W) ** 2).sum() / (M**2 * (1 - q**2))
    assert expected > 1.5 * without, "so that the two forms are told apart"


@pytest.mark.parametrize("name", OWN)
def test_the_engine_runs_the_equations_as_printed(name):
    """Every message, a learner's own as well, with its noise: mixed = (I+M)(x + noise), in a few lines of NumPy."""
    steps, stream = 12, records(12)
    noise = KnownNoise(steps, M, N)
    noise.drawn = {c: 0.3 * np.random.default_rng(len(c)).laplace(size=(steps, M, N)) for c in ("theta", "y")}
    algorithm = METHODS.find(name).build(0.3)
    ran = gs.simulate(algorithm, NET, stream, model=MODEL, privacy=noise, steps=steps)
    step = decay(0.3, METHODS.find(name).step_exponent)
    memory, theta = MODEL.memory(stream.table, "history", stream.room(steps)), np.zeros((M, N))
    mixed, w, z = theta, np.zeros((M, N)), np.eye(M)
    for t in range(steps):
        memory.observe(stream.arrivals(t))
        if name == "diadsp_own":
            g = memory.gradient(theta) + MODEL.l2 * theta
            y, W = w + g, np.eye(M) + np.array(NET.W)
            theta = W @ (theta + noise.drawn["theta"][t]) - step(t) * y
            w = W @ (y + noise.drawn["y"][t]) - g
        elif name == "stochastic_subgradient_own":
            theta = mixed - step(t) * (memory.gradient(mixed) + MODEL.l2 * mixed)
            mixed = (np.eye(M) + np.array(NET.D)) @ (theta + noise.drawn["theta"][t])
        else:
            g, R = memory.gradient(theta) + MODEL.l2 * theta, np.eye(M) + np.array(NET.R)
            theta = R @ (theta + noise.drawn["theta"][t]) - step(t) * g / (M * np.diag(z)[:, None])
            z = R @ z
    np.testing.assert_allclose(ran.theta, theta, atol=1e-12)


def spent(method, mechanism, gradient, steps=60):
    setting = setting_of(METHODS.find(method).build(0.5), NET, records(steps), MODEL, gradient, steps)
    return np.array(epsilons(mechanism.terms(setting), steps, mechanism.delta))


@pytest.mark.parametrize("gradient", ["history", "latest"])
@pytest.mark.parametrize("mechanism", [Laplace(decay(1.0, 0.5)), Gaussian(decay(1.0, 0.5), delta=1e-5)], ids=str)
@pytest.mark.parametrize("name", OWN)
def test_noise_on_the_own_term_costs_no_more_and_mostly_less(name, mechanism, gradient):
    own, kept = (spent(method, mechanism, gradient) for method in (name, OWN[name]))
    if (
        name == "diadsp_own" and gradient == "latest"
    ):  # y's two gradients differ in full there: |a − 1| is 1, not |W_ii|
        assert (own < 2.1 * kept).all()
    else:
        assert (own < kept).all()


def test_a_record_pays_for_one_message_where_zhu_et_al_noise_the_own_term():
    """b is public, so a message differs by α_t ‖g − g'‖₁ ≤ α_t 2c in its record's own round, and by nothing later."""
    steps, step, scale = 60, decay(0.5, 0.5), decay(1.0, 0.5)
    stream = records(steps)
    c = MODEL.reach(stream.table.bounds, 1, setting_of_sizes(stream))[0]
    largest = max(step(t) * 2 * c / scale(t) for t in range(steps))
    got = spent("stochastic_subgradient_own", Laplace(scale), "latest", steps)
    np.testing.assert_allclose(got, largest, rtol=1e-5)  # rounding and the grid are charged on top
    assert (got >= largest).all()
    assert (spent("stochastic_subgradient", Laplace(scale), "latest", steps) > 1.5 * largest).all()


def setting_of_sizes(stream):
    from gossamer.models import Sizes

    return Sizes(stream.table.columns, 1)


@pytest.mark.parametrize("name", OWN)
def test_the_smaller_recursion_is_refused_where_the_own_term_is_kept(name):
    """What the variant's recursion leaves out is what the other method keeps: the suite must see it."""
    step = decay(0.3, METHODS.find(name).step_exponent)
    own, kept = (METHODS.find(method).make(step, strict=False) for method in (name, OWN[name]))
    with pytest.raises(gs.GossamerError, match="dynamics of learner"):
        gs.check_algorithm(replace(kept, dynamics=own.dynamics), rounds=5000)


@pytest.mark.parametrize("name", OWN)
def test_at_the_source_both_forms_are_one_run(name):
    """Messages carry no noise there, so a learner's own message is its own value."""
    stream, steps = records(20), 20
    step = decay(0.3, METHODS.find(name).step_exponent)
    runs = [
        gs.simulate(
            METHODS.find(method).make(step, strict=False), NET, stream, model=MODEL, steps=steps, gradient="latest",
            privacy=gs.privacy.simulated(decay(0.1, 0.0), 3, where="source"),
        )
        for method in (name, OWN[name])
    ]  # fmt: skip
    np.testing.assert_allclose(runs[0].theta, runs[1].theta, atol=1e-12)


def test_a_budget_for_ever_is_found_with_the_own_term_noised():
    """The point's difference is 0 for ever: a component that nothing reaches must not make the tail's proof NaN."""
    algorithm = gs.stochastic_subgradient_own(decay(0.5, 0.9))
    stream = records(200)
    setting = setting_of(algorithm, NET, stream, MODEL, "history", 200)
    for_ever = [t.initial for t in Laplace.for_budget(5.0, horizon=float("inf"), exponent=0.55).terms(setting)]
    finite = [t.initial for t in Laplace.for_budget(5.0, exponent=0.55).terms(setting)]
    assert all(0 < a < b < 3 * a for a, b in zip(finite, for_ever, strict=True))


def test_diadsp_as_published_says_as_well_that_it_needs_links_both_ways():
    ring = [(i, (i + 1) % 4) for i in range(4)]
    one_way = gs.Network.from_edges(4, ring, C_edges=ring)
    record = gs.simulate(gs.diadsp_own(decay(0.1, 0.0)), one_way, records(5, 4), model=MODEL, steps=5)
    assert any("4 of this network are one-way" in note for note in record.notes)
