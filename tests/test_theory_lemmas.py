"""The lemmas that the bounds rest on, each against what it says, and the paper's steps that fail, each with
numbers.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from gossamer.errors import GossamerError
from gossamer.networks import Network
from gossamer.privacy import theorem4
from gossamer.theory import Problem, budget_bound, lemma2, lemma6, lemma12
from gossamer.theory.norms import Norm, contracting, gain, mixing_of
from gossamer.theory.sequences import lemma12_as_printed, power_sum, slowing_tail, steady_tail
from theory_runs import SCALE, Flat, digraph, run

NETWORKS = [Network.paper(), Network.paper_one_way(), Network.ring(7), Network.complete(4), *map(digraph, range(6))]


# -- norms (Lemmas 3 to 5) ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", NETWORKS, ids=str)
@pytest.mark.parametrize("side", ["R", "C"])
def test_mixing_contracts_in_the_norm_that_was_made_for_it(network, side):
    mixing = mixing_of(network)
    M, norm = (mixing.R_bar, mixing.norm_R) if side == "R" else (mixing.C_bar, mixing.norm_C)
    radius = np.abs(np.linalg.eigvals(M)).max()
    assert radius <= norm.factor + 1e-9
    assert norm.factor < 1
    X = np.random.default_rng(0).normal(size=(200, network.m, 3))
    ratios = [norm.of(M @ x) / norm.of(x) for x in X]
    assert max(ratios) <= norm.factor + 1e-12
    assert norm.of(X[0]) == pytest.approx(math.sqrt(sum(x @ norm.P @ x for x in X[0].T)))


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_the_constants_between_norms_hold_and_are_attained(network):
    mixing = mixing_of(network)
    R, C, m = mixing.norm_R, mixing.norm_C, network.m
    X = np.random.default_rng(1).normal(size=(200, m, 2))
    for x in X:
        assert np.linalg.norm(x) <= R.to_frobenius * R.of(x) * (1 + 1e-12)
        assert R.of(x) <= R.from_frobenius * np.linalg.norm(x) * (1 + 1e-12)
        assert R.of(x) <= gain(np.eye(m), R, C) * C.of(x) * (1 + 1e-12)
    vectors = np.linalg.eigh(R.P)[1].T
    assert max(np.linalg.norm(x) / R.of(x) for x in vectors) == pytest.approx(R.to_frobenius)
    assert max(R.of(x) / np.linalg.norm(x) for x in vectors) == pytest.approx(R.from_frobenius)


def test_the_right_eigenvector_of_pushing_is_found_also_where_it_has_zeros():
    R = np.array([[-0.5, 0.5, 0], [0, -0.5, 0.5], [0.5, 0, -0.5]])
    C = np.array([[-0.5, 0.5, 0], [0.5, -0.5, 0.5], [0, 0, -0.5]])  # learner 2 pushes and hears nothing back
    mixing = mixing_of(Network(R, C))
    assert mixing.omega == pytest.approx([1.5, 1.5, 0])
    assert mixing.norm_C.factor < 1


def test_what_does_not_contract_is_refused():
    with pytest.raises(GossamerError, match="contracts in no norm"):
        contracting(np.eye(2))


# -- Lemma 2 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_lemma_2_holds_long_after_the_rounds_that_were_looked_at_and_is_not_loose(network):
    c_z, gamma_z, exact_until = lemma2(network)
    rounds = max(400, 4 * exact_until)
    gap = np.abs(1 / (network.m * network.own_weights(rounds)) - 1 / network.perron).max(axis=1)
    allowed = c_z * gamma_z ** np.arange(rounds)
    assert np.all(gap <= allowed + 1e-11)
    assert np.any(gap > allowed / 4)


# -- Lemmas 6 and 12, and the inductions -------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.05, 0.5, 0.9, 0.999])
def test_lemma_6_holds_as_printed_and_is_attained(gamma):
    t = np.linspace(0.01, 40 / -math.log(gamma), 4001)
    assert np.all(lemma6(gamma) * gamma**t <= t**-2 * (1 + 1e-9))
    best = -2 / math.log(gamma)
    assert lemma6(gamma) * gamma**best == pytest.approx(best**-2)


@pytest.mark.parametrize("c", [0.01, 0.3, 0.9, 0.99])
@pytest.mark.parametrize("q", [0.2, 1.0, 1.6])
@pytest.mark.parametrize("v0", [0.0, 1.0, 1e4])
def test_lemma_12_holds_in_every_round(c, q, v0):
    C_2, v = lemma12(v0, c, 0.5, q), v0
    for t in range(3000):
        beta = 0.5 / (t + 1) ** q
        assert v <= C_2 * beta * (1 + 1e-12)
        v = (1 - c) * v + beta


def test_lemma_12_as_printed_fails_in_round_0_where_it_starts_high():
    assert lemma12_as_printed(100.0, 0.99, 1.0, 1.0) * 1.0 < 7  # and v_0 is 100
    assert lemma12(100.0, 0.99, 1.0, 1.0) == 100


def test_4L1_fails_at_p_0_for_small_exponents():
    c, q = 0.99, 0.5
    c_0 = (math.e * math.log(2 / (2 - c)) / (2 * q)) ** q
    assert c_0 > 1.3  # and (4L1) at p = 0 says that β_t/β_t = 1 is at least c_0


def test_inductions_survive_every_step_and_say_infinity_where_they_cannot():
    A = steady_tail(3.0, 0.9, 0.2, 1.3, 50)
    B = slowing_tail(2.0, 0.7, 0.6, 0.3, 1.1, 50)
    y, x = 3.0, 2.0
    for t in range(50, 20_000):
        assert y <= A * (t + 1) ** -1.3 * (1 + 1e-12)
        assert x <= B * (t + 1) ** -0.5 * (1 + 1e-12)
        y, x = 0.9 * y + 0.2 * (t + 1) ** -1.3, (1 - 0.7 * (t + 1) ** -0.6) * x + 0.3 * (t + 1) ** -1.1
    assert steady_tail(1.0, 0.99, 1.0, 1.0, 3) == math.inf
    assert slowing_tail(1.0, 0.01, 0.9, 1.0, 1.9, 3) == math.inf
    assert (
        sum((t + 1) ** -1.5 for t in range(7, 10**6))
        < power_sum(1.5, 7)
        < 1.2 * sum((t + 1) ** -1.5 for t in range(7, 10**6))
    )
    with pytest.raises(GossamerError, match="has no end"):
        power_sum(1.0, 3)


# -- Theorem 4 ---------------------------------------------------------------------------------------------------------


def problem(n: int = 4, step: float = 0.3, v: float = 0.8, s: float = 0.7) -> Problem:
    noise = SCALE * math.sqrt(2 * n)
    return Problem(Network.paper(), step, v, noise, s, noise, 0.75, 0.1, 1.0, 1.0, 1.0, 1.0)


def test_part_1_is_the_printed_sum():
    p, c, T = problem(), 1.5, 60
    found = budget_bound(p, c, 4, 6)
    c_z, gamma_z, _ = lemma2(p.network)
    steps = p.step * np.arange(1.0, T + 1) ** -p.v
    weights = np.arange(1.0, T + 2)[:, None] ** [p.exponent_s, p.exponent_theta] / SCALE
    assert found.part1(T) == pytest.approx(
        theorem4(c, steps, weights, found.c_R, found.c_C, p.network.perron[6], c_z, gamma_z)
    )
    assert found.part1(2 * T) > found.part1(T)


@pytest.mark.parametrize("learner", [0, 6])
def test_part_2_is_above_the_budget_of_a_long_run_and_finite(learner):
    p, c, n = problem(), 1.5, 4
    found = budget_bound(p, c, n, learner)
    c_z, gamma_z, _ = lemma2(p.network)
    u, L = p.network.perron[learner], math.sqrt(n) * p.L
    s = theta = spent = 0.0
    C_0, C_4, c_C, c_R = found.C_0, found.C_4, found.c_C, found.c_R
    for t in range(20_000):
        V = theta + (C_0 - 1 / u) * s
        assert C_4 * 2 * c * C_0 * p.step * (t + 1) ** -(1 + p.v) * (1 + 1e-9) >= V
        spent += s * (t + 1) ** p.exponent_s / SCALE + theta * (t + 1) ** p.exponent_theta / SCALE if t else 0.0
        after = (1 - c_C) * s + p.step * (t + 1) ** -p.v * min(2 * c, (L * t * theta + 2 * c) / (t + 1))
        theta = (1 - c_R) * theta + (c_z * gamma_z**t + 1 / u) * (after + s)
        s = after
    assert spent < found.part2() < 100 * spent
    assert found.part2() < found.part1(10**6)


def test_the_printed_minimum_in_C_0_breaks_the_inequality_that_needs_it():
    found = budget_bound(problem(), 1.0, 4, 0)

    def holds(C_0):
        left = (1 - found.C_3) * (C_0 - 1 / found.u)
        return left > C_0 * (1 - found.c_C / 2) + 1 / found.u

    first, second = 4 / (found.u * (found.c_C - 2 * found.C_3)), 1 / found.u
    assert not holds(min(first, second))
    assert holds(max(first, second))
    assert max(first, second) == found.C_0


def test_a_budget_whose_exponents_break_assumption_4_is_infinite_and_bad_arguments_are_refused():
    assert budget_bound(problem(s=0.8), 1.0, 4, 0).part2() == math.inf
    with pytest.raises(GossamerError, match="learner=10: expected a learner from 0 to 9"):
        budget_bound(problem(), 1.0, 4, 10)
    with pytest.raises(GossamerError, match="expected a finite bound above 0"):
        budget_bound(problem(), math.inf, 4, 0)


# -- steps of the paper's proofs that fail -----------------------------------------------------------------------------


def test_theorem_3_s_earlier_gaps_are_not_all_at_least_the_last():
    """A run that starts at the optimum: the first gap is 0, and no later one is."""
    network = digraph(2)
    task = Flat(np.zeros(network.m))
    gaps = [task.gap(x.theta).mean() for x in run(task, task.problem(network, 0.2, 0.9, 0.6, 0.6), 100, 200, 0)]
    assert gaps[0] == 0
    assert gaps[100] > 1e-3


def test_1L4_drops_cross_terms_of_norms():
    """Records ±1: every deviation has norm 1 = κ, their norms add up to t+1, and (1L4) says at most √(t+1)."""
    deviations = np.random.default_rng(0).choice([-1.0, 1.0], size=(1000, 50))
    assert np.abs(deviations).sum(axis=1).mean() == 50 > 7.1 > math.sqrt(50)
    assert (deviations.sum(axis=1) ** 2).mean() == pytest.approx(50, rel=0.15)  # what the mean itself does is right


def test_lemma_7_s_printed_constants_are_too_small_where_noise_is_large():
    """A directed ring mixes by a normal matrix, so ‖·‖_C may be Euclid's. Without gradients E‖s − ωs̄‖² is a
    covariance.
    """
    mixing = mixing_of(Network.ring(10))
    rho = 1 - gain(mixing.C_bar, Norm.euclidean(10), Norm.euclidean(10))
    sigma, s = 1e4, 0.6
    tau = float(np.sum(mixing.off_C**2)) * sigma**2  # ‖Π_ω‖ = δ = 1
    c_bar = 8 / (rho * (math.e * math.log(1 - rho / 2)) ** 2)
    noise = mixing.Pi_omega @ mixing.off_C
    covariance = np.zeros((10, 10))
    for t in range(400):
        covariance = mixing.C_bar @ covariance @ mixing.C_bar.T + sigma**2 * (t + 1) ** (-2 * s) * noise @ noise.T
    exact = float(np.trace(covariance))
    assert exact > 2 * (c_bar + tau) * 400 ** (-2 * s)  # printed
    assert exact < tau * (4**s * c_bar + 1) * 400 ** (-2 * s)  # what the proof gives


def test_one_copy_of_noise_for_all_receivers_weighs_more_than_3T3ii_says():
    mixing = mixing_of(Network.complete(5))
    zeta = np.random.default_rng(0).normal(size=(5, 20_000))
    mean = (mixing.off_C @ zeta).mean(axis=0)
    printed, right = np.sum(mixing.off_C**2) / 25, np.sum(np.diag(mixing.C) ** 2) / 25
    assert np.mean(mean**2) == pytest.approx(right, rel=0.05)
    assert right > 2 * printed
