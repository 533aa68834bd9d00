"""Algorithm 1 against a matrix form written from the equations, and against what must be conserved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import KnownNoise, networks
from gossamer import (
    GossamerError,
    LogisticRegression,
    Network,
    RidgeRegression,
    decay,
    ldp_gradient_tracking,
    simulate,
    streams,
)
from gossamer.algorithms.ldp_gradient_tracking import State
from gossamer.arrays import go_in_one_pass
from gossamer.lazy import FEW


def matrix_form(R, C, X, y, l2, steps, step, zeta, vartheta):
    """s, θ and z of Algorithm 1 (7)-(9), as the paper's compact form writes them."""
    m, n = len(R), X.shape[2]
    off_R, off_C = R - np.diag(np.diag(R)), C - np.diag(np.diag(C))
    s, theta, z = np.zeros((m, n)), np.zeros((m, n)), np.eye(m)
    for t in range(steps):
        p = 1 / (1 + np.exp(-np.einsum("ikn,in->ik", X[:, : t + 1], theta)))
        g = np.einsum("ik,ikn->in", p - y[:, : t + 1], X[:, : t + 1]) / (t + 1) + l2 * theta
        s_new = s + C @ s + off_C @ zeta[t] + step(t) * g
        theta = theta + R @ theta + off_R @ vartheta[t] - (s_new - s) / (m * np.diag(z))[:, None]
        s, z = s_new, z + R @ z
    return s, theta, z


@given(networks(), st.integers(0, 2**32 - 1))
def test_iterates_equal_the_matrix_form_over_300_noisy_steps(net, seed):
    rng, steps, n = np.random.default_rng(seed), 300, 3
    X, y = rng.normal(size=(net.m, steps, n)), rng.integers(0, 2, (net.m, steps)).astype(float)
    noise = KnownNoise(steps, net.m, n, seed)
    run = simulate(
        ldp_gradient_tracking(step=decay(0.5, 0.7)),
        net,
        streams.from_arrays(X, y),
        model=LogisticRegression(l2=0.1),
        privacy=noise,
        steps=steps,
    )
    s, theta, z = matrix_form(
        net.R, net.C, X, y, 0.1, steps, lambda t: 0.5 / (t + 1) ** 0.7, noise.drawn["s"], noise.drawn["theta"]
    )
    size = max(1.0, np.abs(s).max(), np.abs(theta).max())
    np.testing.assert_allclose(run.theta, theta, rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(run.s, s, rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(run.state["z"], z, rtol=0, atol=1e-13)
    assert sorted(set(noise.asked)) == sorted((c, t) for c in ("s", "theta") for t in range(steps))
    assert len(noise.asked) == 2 * steps, "one copy of s and of θ a round, and never noise on z"


@given(networks())
def test_without_noise_the_trackers_sum_changes_by_the_gradients_sum_alone(net):
    """1ᵀs_{t+1} − 1ᵀs_t = λ_t 1ᵀg_t."""
    algorithm, rows = ldp_gradient_tracking(step=decay(1.0, 0.8)), net.rows()
    rng = np.random.default_rng(0)
    x = algorithm.init(rows, rng.normal(size=(net.m, 4)))
    off = {"R": net.off_diagonal("R"), "C": net.off_diagonal("C")}
    for t in range(60):
        grad = rng.normal(size=(net.m, 4))
        got = {c: off[o.over] @ o.value for c, o in algorithm.emit(x, grad, rows, t).items()}
        after = algorithm.step(x, got, grad, rows, t)
        np.testing.assert_allclose(
            after.s.sum(axis=0) - x.s.sum(axis=0), grad.sum(axis=0) / (t + 1) ** 0.8, rtol=0, atol=1e-12
        )
        x = after


@given(networks())
def test_z_finds_the_perron_weight_and_is_no_longer_sent_once_it_has(net):
    algorithm, rows = ldp_gradient_tracking(step=decay(1.0, 0.8)), net.rows()
    x = algorithm.init(rows, np.zeros((net.m, 1)))
    off = {"R": net.off_diagonal("R"), "C": net.off_diagonal("C")}
    nothing = np.zeros((net.m, 1))
    for t in range(int(net.settles) + 3):
        out = algorithm.emit(x, nothing, rows, t)
        assert ("z" in out) == (t < net.settles)
        assert not out["z"].private if "z" in out else True
        x = algorithm.step(x, {c: off[o.over] @ o.value for c, o in out.items()}, nothing, rows, t)
    np.testing.assert_allclose(net.m * np.diag(x.z), net.perron, rtol=1e-10)


@pytest.mark.parametrize(
    "blocks", [[[i] for i in range(10)], [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]], [[7, 2], [9, 0, 1, 3, 4, 5, 6, 8]]]
)
def test_blocks_of_learners_give_the_stacked_rows(blocks):
    net, n, steps = Network.paper(), 5, 150
    algorithm = ldp_gradient_tracking(step=decay(1.0, 0.8))
    rng = np.random.default_rng(1)
    off = {"R": net.off_diagonal("R"), "C": net.off_diagonal("C")}
    theta0 = rng.normal(size=(10, n))
    stacked = algorithm.init(net.rows(), theta0)
    parts = [algorithm.init(net.rows(ids), theta0[ids]) for ids in blocks]
    for t in range(steps):
        grad = rng.normal(size=(10, n))
        sent = algorithm.emit(stacked, grad, net.rows(), t)
        noisy = {c: o.value + (rng.laplace(size=o.value.shape) if o.private else 0) for c, o in sent.items()}
        for ids, part in zip(blocks, parts, strict=True):
            out = algorithm.emit(part, grad[ids], net.rows(ids), t)
            assert out.keys() == sent.keys()
            for c in out:
                np.testing.assert_array_equal(out[c].value, sent[c].value[ids])
        got = {c: off[o.over] @ noisy[c] for c, o in sent.items()}
        stacked = algorithm.step(stacked, got, grad, net.rows(), t)
        parts = [
            algorithm.step(part, {c: v[ids] for c, v in got.items()}, grad[ids], net.rows(ids), t)
            for ids, part in zip(blocks, parts, strict=True)
        ]
    for name in State._fields:
        for ids, part in zip(blocks, parts, strict=True):
            np.testing.assert_array_equal(getattr(part, name), getattr(stacked, name)[ids])


def test_step_changes_nothing_that_it_was_given():
    net, algorithm = Network.paper(), ldp_gradient_tracking(step=decay(1.0, 0.8))
    rng = np.random.default_rng(1)
    x = State(*(rng.normal(size=(10, k)) for k in (4, 4, 10)))
    copies = [a.copy() for a in x]
    got, grad = {"s": np.ones((10, 4)), "theta": np.ones((10, 4)), "z": np.ones((10, 10))}, np.ones((10, 4))
    algorithm.step(x, got, grad, net.rows(), 0)
    for array, copy in zip(x, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert all((v == 1).all() for v in (*got.values(), grad))


def test_a_heterogeneous_ridge_problem_reaches_its_optimum_on_an_unbalanced_digraph():
    """Every learner has its own regression; only all together have this optimum."""
    rng = np.random.default_rng(4)
    m, n, records = 10, 4, 20
    X = rng.normal(size=(m, records, n)) * rng.uniform(0.5, 1.5, (m, 1, 1))
    truth = rng.normal(size=(m, n)) * 2
    y = np.einsum("irn,in->ir", X, truth)
    run = simulate(
        ldp_gradient_tracking(step=decay(0.5, 0.7)),
        Network.paper(),
        streams.from_arrays(X, y, per_round=records),
        model=RidgeRegression(l2=0.05),
        steps=20_000,
    )
    A = np.mean([x.T @ x / records for x in X], axis=0) + 0.05 * np.eye(n)
    optimum = np.linalg.solve(A, np.mean([x.T @ v / records for x, v in zip(X, y, strict=True)], axis=0))
    assert np.abs(run.theta - optimum).max() < 1e-6
    assert np.linalg.norm(run.optimum - optimum) < 1e-8
    naive = np.linalg.solve(
        np.average([x.T @ x / records for x in X], axis=0, weights=Network.paper().perron) + 0.05 * np.eye(n),
        np.average([x.T @ v / records for x, v in zip(X, y, strict=True)], axis=0, weights=Network.paper().perron),
    )
    assert np.linalg.norm(naive - optimum) > 0.05, "the graph's unbalance would have shown"


PAPER_NOISE = decay(1.0, [0.5 + 0.01 * i for i in range(1, 11)])


@pytest.mark.parametrize(
    ("step", "noise", "says"),
    [
        (decay(1, 0.6), PAPER_NOISE, "learner 9 has ς = 0.6 where v = 0.6: its privacy budget grows without bound"),
        (decay(1, 0.5), None, "½ < v < 1 and v = 0.5"),
        (decay(1, 1.0), None, "½ < v < 1 and v = 1"),
        (decay(1, 0.8), decay(1, [0.6, 0.5]), "learner 1 has ς = 0.5: its noise does not fade"),
        (decay(1, 0.8), decay(1, 0.85), "learner 0 has ς = 0.85"),
        (lambda t: 0.1, None, "cannot be checked: the step"),
        (decay(1, 0.8), lambda t: 0.1, "cannot be checked: the noise"),
    ],
)
def test_what_breaks_assumption_4_is_refused_or_noted(step, noise, says):
    with pytest.raises(GossamerError, match=says):
        ldp_gradient_tracking(step=step, noise=noise)
    lenient = ldp_gradient_tracking(step=step, noise=noise, strict=False)
    assert any(says.split(":")[0].split(" and ")[0] in note for note in lenient.notes(noise))


def test_schedules_within_assumption_4_are_accepted():
    assert ldp_gradient_tracking(step=decay(1, 0.8), noise=PAPER_NOISE).notes(PAPER_NOISE) == []


@pytest.mark.parametrize(("learners", "n"), [(1, FEW + 1), (1, 8 * FEW + 3), (7, FEW // 2)])
@pytest.mark.parametrize("step", [decay(0.3, 0.7), decay(1, 0.0)])
def test_long_vectors_take_the_same_step_in_one_pass_to_the_bit(learners, n, step):
    """The equations, written out in NumPy's operations, whose order the compiled pass has."""
    rng, net = np.random.default_rng(learners), Network.random(9, seed=1)
    rows = net.rows(np.arange(learners), ("R", "C"))
    algorithm = ldp_gradient_tracking(step=step, strict=False)
    start = algorithm.init(rows, rng.normal(size=(learners, n)))
    x = start._replace(s=rng.normal(size=(learners, n)) * 1e5, z=rng.uniform(0.1, 1, start.z.shape))
    x.s[0, :3] = np.inf, np.nan, 5e-324
    got = {"s": rng.normal(size=(learners, n)), "theta": rng.normal(size=(learners, n)), "z": np.zeros_like(x.z)}
    grad, t = rng.normal(size=(learners, n)), 5
    assert go_in_one_pass(x.s, x.theta, got["s"], got["theta"], grad)
    after = algorithm.step(x, got, grad, rows, t)
    with np.errstate(all="ignore"):
        s = (1 + rows.C_ii) * x.s + got["s"] + step(t) * grad
        theta = (1 + rows.R_ii) * x.theta + got["theta"] - (s - x.s) / (rows.m * rows.own(x.z))
    np.testing.assert_array_equal(after.s, s)
    np.testing.assert_array_equal(after.theta, theta)
