"""What pair secrets cost, against references from the equations: inverses, brute force and whole-number flows."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtr

import gossamer as gs
from gossamer.checks.worlds import Case
from gossamer.errors import GossamerError, NotProvable
from gossamer.privacy import Accountant, secrets
from gossamer.privacy.releases import every
from gossamer.privacy.secret_graphs import connectivity_of, laplacian_of
from gossamer.privacy.secrets import Pairs, bounded, seen_of

DELTA = 1e-5


def sigma_of(own, edges, pair, honest):
    """Σ = diag(σ²) + τ² Σ_e (e_i − e_j)(e_i − e_j)ᵀ over the pairs among the honest."""
    place = {j: at for at, j in enumerate(honest)}
    whole = np.diag([float(own[j]) ** 2 for j in honest])
    for i, j in edges:
        if i in place and j in place:
            e = np.zeros(len(honest))
            e[place[i]], e[place[j]] = 1, -1
            whole += pair**2 * np.outer(e, e)
    return whole


def worst_by_hand(own, edges, pair, colluders):
    """(Σ⁻¹)_ii of every learner, the largest over every set of as many others."""
    m, worst = len(own), np.zeros(len(own))
    for some in combinations(range(m), colluders):
        honest = [j for j in range(m) if j not in some]
        inverse = np.linalg.inv(sigma_of(own, edges, pair, honest))
        worst[honest] = np.maximum(worst[honest], np.diagonal(inverse))
    return worst


def random_edges(m, rng, least=2):
    """A connected graph, in which everybody has so many partners at least."""
    while True:
        edges = [pair for pair in combinations(range(m), 2) if rng.random() < rng.uniform(0.3, 0.9)]
        degrees = np.bincount(np.ravel(edges).astype(int), minlength=m)
        if degrees.min() >= least and np.linalg.eigvalsh(laplacian_of(edges, m))[1] > 1e-9:
            return tuple(edges)


def bound_on(edges, m, share, colluders):
    partners = np.bincount(np.ravel(edges), minlength=m)
    return bounded(partners, connectivity_of(tuple(edges), m), np.array([share**2]), colluders)[0]


# -- (Σ⁻¹)_ii ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "m", "colluders"),
    [("complete", 6, q) for q in range(5)]
    + [("2-regular", 7, 0), ("2-regular", 7, 1), ("3-regular", 8, 2), ("4-regular", 9, 3), ("5-regular", 6, 2)],
)
@pytest.mark.parametrize("share", [0.1, 1.0, 7.0])
def test_complete_and_circulant_graphs_against_every_honest_subset(graph, m, colluders, share):
    given = gs.Secrets(graph, colluders, share)
    expected = worst_by_hand(np.ones(m), given.edges(m), share, colluders)
    assert given.left(m, share) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_other_graphs_against_every_honest_subset_and_the_bound_above_it(seed):
    rng = np.random.default_rng(seed)
    m, share = int(rng.integers(4, 9)), float(2 ** rng.uniform(-4, 4))
    edges = random_edges(m, rng, least=3)
    for colluders in range(3):
        worst = worst_by_hand(np.ones(m), edges, share, colluders)
        exact = gs.Secrets(Pairs(m, edges), colluders).left(m, share)
        bound = bound_on(edges, m, share, colluders)
        assert exact == pytest.approx(worst, rel=1e-11)
        assert (bound >= worst * (1 - 1e-12)).all()
        assert (bound < 1).all()


def test_where_choices_are_too_many_the_bound_is_taken(monkeypatch):
    given = gs.Secrets("6-regular", 2)
    exact = given.left(14, 1.5)
    monkeypatch.setattr(secrets, "MOST_WORK", 0)
    bound = bound_on(given.edges(14), 14, 1.25, 2)
    assert gs.Secrets("6-regular", 2).left(14, 1.25) == pytest.approx(bound, rel=1e-12)
    assert (bound_on(given.edges(14), 14, 1.5, 2) >= exact).all()


def test_a_graph_that_falls_apart_is_counted_by_its_parts():
    triangles = ((0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5))
    of_three = 1 / 3 + (2 / 3) / (1 + 3 * 4.0)
    assert gs.Secrets(Pairs(6, triangles), 0).left(6, 2.0) == pytest.approx(of_three, rel=1e-12)
    joined = (*triangles, *((i, 6) for i in range(6)))  # by a seventh, which may collude
    left = gs.Secrets(Pairs(7, joined), colluders=1).left(7, 2.0)
    assert left[:6] == pytest.approx(np.full(6, of_three), rel=1e-12)
    assert left[6] < of_three


def test_more_colluders_and_less_of_others_noise_never_hide_more():
    rng = np.random.default_rng(5)
    edges = random_edges(7, rng, least=3)
    by_number = [worst_by_hand(np.ones(7), edges, 1.5, q) for q in range(4)]
    assert all((more >= less - 1e-12).all() for less, more in pairwise(by_number))
    own = rng.uniform(1, 3, size=7)
    own[2] = 1.0
    agreed = worst_by_hand(np.ones(7), edges, 1.5, 1)[2]
    assert worst_by_hand(own, edges, 1.5, 1)[2] <= agreed


@pytest.mark.parametrize("ratio", [1.0, 1.3, 5.0, 100.0])
def test_seen_of_is_the_inverse_with_one_larger_noise(ratio):
    edges = random_edges(6, np.random.default_rng(1))
    left = np.linalg.inv(sigma_of(np.ones(6), edges, 1.7, range(6)))[3, 3]
    own = np.where(np.arange(6) == 3, ratio, 1.0)
    direct = own[3] ** 2 * np.linalg.inv(sigma_of(own, edges, 1.7, range(6)))[3, 3]
    assert seen_of(left, ratio) == pytest.approx(math.sqrt(direct), rel=1e-12)


# -- whole budgets -----------------------------------------------------------------------------------------------------


def epsilon_of(mu, delta=DELTA):
    """The ε at which a shift of μ deviations costs δ, by bisection of the closed form (Balle & Wang, 2018)."""
    low, high = 0.0, 1e4
    for _ in range(80):
        e = (low + high) / 2
        cost = ndtr(mu / 2 - e / mu) - math.exp(min(e, 700)) * ndtr(-mu / 2 - e / mu)
        low, high = (low, e) if cost <= delta else (e, high)
    return high


def case_of(mechanism, gradient, weights=(), m=5, rounds=9):
    algorithm, model = gs.ldp_gradient_tracking(step=gs.decay(0.05, 0.8)), gs.LogisticRegression(l2=0.01)
    return Case(algorithm, gs.Network.ring(m), model, mechanism, gradient, rounds, 2, weights=weights)


@pytest.mark.parametrize("gradient", ["latest", "history"])
@pytest.mark.parametrize("weights", [(), (0.5, 0.8, 1.0, 1.2, 1.5)])
@pytest.mark.parametrize("graph", ["complete", "2-regular"])
def test_unequal_budgets_are_kept_with_everybodys_actual_noise(gradient, weights, graph):
    """ε of each learner from the full covariance: μ² = Σ_t (w Δ_t)² (Σ⁻¹)_ii, Δ_t = 2c/n_t."""
    epsilons = (0.5, 0.7, 1.0, 1.5, 2.0)
    given = gs.Gaussian.for_budget(
        epsilons, DELTA, where="source", exponent=0.0, releases=every(1),
        secrets=gs.Secrets(graph, colluders=1, share=1.5),
    )  # fmt: skip
    case = case_of(given, gradient, weights)
    weight = np.array(weights or [1.0] * 5)
    own = np.array([terms.initial for terms in case.terms]) * weight
    floor, pair = case.terms[0].shared.floor, case.terms[0].shared.pair
    assert {(terms.shared.floor, terms.shared.pair) for terms in case.terms} == {(floor, pair)}
    assert pair == pytest.approx(1.5 * floor, rel=1e-12)
    assert (own >= floor).all()
    moves = [2 / (2 * (t + 1)) for t in range(9)] if gradient == "history" else [2 / 2]
    precision = worst_by_hand(own, given.secrets.edges(5), pair, 1)
    agreed = worst_by_hand(np.full(5, floor), given.secrets.edges(5), pair, 1)
    for i, epsilon in enumerate(epsilons):
        scale = weight[i] * math.sqrt(sum(move**2 for move in moves))
        assert epsilon_of(scale * math.sqrt(precision[i])) <= epsilon
        mine = agreed[i] / (1 + (own[i] ** 2 - floor**2) * agreed[i])  # others add what was agreed on, and no more
        booked = Accountant(case.terms[i], delta=DELTA).epsilon_at(9, DELTA)
        assert booked == pytest.approx(epsilon_of(scale * math.sqrt(mine)), rel=1e-6)
        assert 0.99 * epsilon <= booked <= epsilon


def test_if_all_others_collude_own_noise_is_left():
    given = gs.Gaussian(gs.decay(2.0, 0.0), "source", delta=DELTA, releases=every(1), secrets=gs.Secrets(colluders=1))
    terms = case_of(given, "latest").terms[0]
    ledger = Accountant(terms, delta=DELTA)
    ledger.step(9)
    assert ledger.epsilon_if_all_collude(DELTA) == pytest.approx(epsilon_of(1 / 2.0), rel=1e-6)
    assert ledger.get_epsilon(DELTA) < ledger.epsilon_if_all_collude(DELTA)


def test_noise_that_was_stated_stays_as_it_is():
    scales = [1.0, 1.5, 2.0, 2.5, 3.0]
    given = gs.Gaussian(gs.decay(scales, 0.0), "source", delta=DELTA, secrets=gs.Secrets(colluders=1, share=1.0))
    case = case_of(given, "latest")
    assert [terms.initial for terms in case.terms] == pytest.approx(scales, rel=1e-12)
    expected = [
        math.sqrt(s**2 * worst_by_hand(np.where(np.arange(5) == i, s, 1.0), given.secrets.edges(5), 1.0, 1)[i])
        for i, s in enumerate(scales)
    ]
    assert [terms.shared.seen for terms in case.terms] == pytest.approx(expected, rel=1e-12)


# -- whole numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
def test_a_whole_shift_is_within_a_step_of_the_real_one_and_within_the_surcharge(seed):
    """a + B b = d e_i has a whole solution, each number the real optimum's rounded up or down: (I, B) is unimodular."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 9))
    edges = random_edges(m, rng, least=1) if m > 2 else ((0, 1),)
    i, d = int(rng.integers(m)), int(rng.integers(1, 10_000)) * int(rng.choice([-1, 1]))
    own, pair = rng.uniform(30, 90, size=m), float(rng.uniform(30, 200))  # in steps of a coarse grid
    B = np.zeros((m, len(edges)))
    for at, (j, k) in enumerate(edges):
        B[j, at], B[k, at] = 1, -1
    inverse = np.linalg.inv(sigma_of(own, edges, pair, range(m)))
    a, b = d * own**2 * inverse[:, i], d * pair**2 * B.T @ inverse[:, i]
    target = d * np.eye(m)[i]
    assert a + B @ b == pytest.approx(target, abs=1e-6)
    real = math.sqrt(((a / own) ** 2).sum() + (b**2).sum() / pair**2)
    assert real == pytest.approx(abs(d) * math.sqrt(inverse[i, i]), rel=1e-9)  # the least cost, as the proof says
    both = np.concatenate([a, b])
    bounds = list(zip(np.floor(both), np.ceil(both), strict=True))
    flow = linprog(rng.normal(size=len(both)), A_eq=np.hstack([np.eye(m), B]), b_eq=target, bounds=bounds)
    assert flow.status == 0
    whole = np.rint(flow.x)
    assert flow.x == pytest.approx(whole, abs=1e-6)  # a vertex, and all vertices are whole
    assert (np.hstack([np.eye(m), B]) @ whole == target).all()
    assert (np.abs(whole - both) < 1).all()
    cost = math.sqrt(((whole[:m] / own) ** 2).sum() + (whole[m:] ** 2).sum() / pair**2)
    step = 1 / min(own.min(), pair)
    assert real * (1 - 1e-9) <= cost <= real + step * math.sqrt(m + len(edges))


def gaussian_on(points, deviation):
    weights = np.exp(-((points / deviation) ** 2) / 2)
    return weights / weights.sum()


@pytest.mark.parametrize("others", [(0, 0), (5, -3), (-9, 14)])
@pytest.mark.parametrize("d", [1, 4])
def test_a_shift_costs_no_more_if_it_is_chosen_after_the_others_have_released(others, d):
    """The law of n_0 given n_1 and n_2, enumerated, against itself shifted: KL is at most half the cost of whole a, b.

    Three learners, who all share keys; KL of Gaussians with a precision p that are d apart is p d²/2.
    """
    own, pair = np.array([3.0, 2.5, 4.0]), 2.0
    v01, v02, v12 = np.meshgrid(*[np.arange(-16, 17)] * 3, indexing="ij")
    sums = np.stack([v01 + v02, v12 - v01, -v02 - v12])
    left = ((others[0] - sums[1]) / own[1]) ** 2 + ((others[1] - sums[2]) / own[2]) ** 2
    weights = np.exp(-(left + (v01**2 + v02**2 + v12**2) / pair**2) / 2)
    law = np.bincount((sums[0] + 32).ravel(), weights=weights.ravel(), minlength=65)
    law = np.convolve(law / law.sum(), gaussian_on(np.arange(-32, 33), own[0]))
    keep = law > 1e-60
    there = np.concatenate([np.zeros(d), law])[: len(law)]
    both = keep & (there > 1e-60)
    divergence = float((law[both] * np.log(law[both] / there[both])).sum())
    shifts = np.stack(np.meshgrid(*[np.arange(-d, d + 1)] * 3, indexing="ij")).reshape(3, -1)  # b of 01, 02 and 12
    a = np.array([d, 0, 0])[:, None] - np.stack([shifts[0] + shifts[1], shifts[2] - shifts[0], -shifts[1] - shifts[2]])
    cost = ((a / own[:, None]) ** 2).sum(axis=0) + (shifts**2).sum(axis=0) / pair**2
    real = d**2 * np.linalg.inv(sigma_of(own, ((0, 1), (0, 2), (1, 2)), pair, range(3)))[0, 0]
    assert real / 2 == pytest.approx(divergence, rel=1e-6)
    assert divergence <= cost.min() / 2 * (1 + 1e-9)
    assert math.sqrt(cost.min()) <= math.sqrt(real) + math.sqrt(6) / 2.0


@pytest.mark.parametrize(("m", "graph"), [(2, "complete"), (3, "complete"), (4, "2-regular"), (10, "complete")])
def test_what_is_charged_for_the_grid_covers_rounding_and_whole_shifts(m, graph):
    """1.5 √n steps for putting g on the grid and √(n (h + |E|)) for whole shifts, of 2^−40 deviations each."""
    given = gs.Gaussian(gs.decay(1.0, 0.0), "source", delta=DELTA, releases=every(1), secrets=gs.Secrets(graph, 0))
    terms = case_of(given, "latest", m=m).terms[0]
    n, noises = terms.coordinates, m + len(given.secrets.edges(m))
    assert terms.numbers(1) == n * noises
    charged = 2.0**-39 * math.sqrt(terms.numbers(1))
    assert charged >= 2.0**-40 * (1.5 * math.sqrt(n) + math.sqrt(n * noises))


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_what_is_not_proved_is_refused():
    with pytest.raises(GossamerError, match="Laplace noise gains nothing"):
        gs.Laplace.for_budget(1.0, where="source", secrets=gs.Secrets(colluders=0))
    with pytest.raises(GossamerError, match="not for noise on messages"):
        gs.Gaussian.for_budget(1.0, DELTA, secrets=gs.Secrets(colluders=0))


@pytest.mark.parametrize(("graph", "colluders", "m"), [("complete", 4, 5), ("2-regular", 2, 7)])
def test_a_learner_that_can_be_left_alone_is_refused(graph, colluders, m):
    with pytest.raises(NotProvable, match="can be left alone"):
        gs.Secrets(graph, colluders).left(m, 1.0)
    given = gs.Gaussian.for_budget(1.0, DELTA, where="source", secrets=gs.Secrets(graph, colluders))
    with pytest.raises(NotProvable, match="can be left alone"):
        case_of(given, "latest", m=m).boundary()
    with pytest.raises(NotProvable, match="with nobody"):
        gs.Secrets(colluders=0).left(1, 1.0)


def test_a_graph_of_another_size_is_refused():
    given = gs.Secrets(gs.Network.ring(6))
    with pytest.raises(GossamerError, match="a graph of 6"):
        given.left(5, 1.0)


def test_pairs_of_ones_own_are_named_once_and_are_of_learners_that_there_are():
    twice = gs.Secrets(Pairs(3, ((1, 0), (0, 1), (2, 1), (0, 2))))
    assert twice.edges(3) == ((0, 1), (0, 2), (1, 2))
    for strange in ((0, 3), (-1, 0), (1, 1)):
        with pytest.raises(GossamerError, match="two different learners"):
            gs.Secrets(Pairs(3, ((0, 1), strange)))
