"""What a method conserves of a round's gradients, against matrices written from its equations."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs
from gossamer import decay
from gossamer.algorithms import METHODS
from gossamer.checks.conserved import EXACT, conserved_finding
from gossamer.influence import influence_of, share_left
from gossamer.rehearsal import consensus_weights
from gossamer.setting import quiet_rounds
from gossamer.simulate.matrix import RoundMatrix

PAPER = gs.Network.paper()
CHORD = gs.Network.from_edges(5, [*((i, (i + 1) % 5) for i in range(5)), (0, 2)])
UNBALANCED = [PAPER, gs.Network.paper_one_way(), CHORD, gs.Network.random(7, 2, seed=1), gs.Network.random(12, seed=4)]
BALANCED = [gs.Network.ring(5), gs.Network.exponential(6), gs.Network.complete(4)]
ONLY_NEARLY = {"push_pull", "tailored_gradient_tracking"}


def left_perron(M):
    """u with uᵀM = uᵀ and uᵀ1 = m, by eigenvectors."""
    values, vectors = np.linalg.eig(np.asarray(M).T)
    u = np.real(vectors[:, np.argmin(abs(values - 1))])
    return u * len(u) / u.sum()


def settled(net):
    return int(net.settles)


# -- the share that is left --------------------------------------------------------------------------------------------


def test_the_share_is_what_a_covariance_gives():
    """D ᵀ B Bᵀ D over (m−1) DᵀD, B the incidence matrix of all pairs: +1 at one learner, −1 at the other."""
    D = np.random.default_rng(0).normal(size=(1, 6))
    pairs = [(i, j) for i in range(6) for j in range(i)]
    B = np.array([np.eye(6)[i] - np.eye(6)[j] for i, j in pairs]).T
    assert share_left(D) == pytest.approx(((D @ B) ** 2).sum() / (5 * (D**2).sum()), rel=1e-12)


@pytest.mark.parametrize(
    ("moved", "left"), [([3.0, 3.0, 3.0], 0.0), ([0.0, 2.0, 0.0], 1.0), ([1.0, -1.0], 2.0), ([0.0, 0.0], 0.0)]
)
def test_the_share_at_its_ends(moved, left):
    assert share_left(np.array([moved])) == left


# -- influence against closed forms ------------------------------------------------------------------------------------


@pytest.mark.parametrize("net", [PAPER, CHORD])
def test_every_model_moves_as_powers_of_the_matrix_say(net):
    step = decay(0.7, 0.6)
    for algorithm, M in ((gs.dsgd(step), net.W), (gs.dsgd(step, over="R", strict=False), net.R)):
        found = influence_of(algorithm, net, [3, 5], 9)
        for k, t in enumerate((3, 5)):
            power = np.linalg.matrix_power(np.eye(net.m) + M, 9 - 1 - t)
            np.testing.assert_allclose(found.models[k], -step(t) * power, atol=1e-15)


@pytest.mark.parametrize("net", [*UNBALANCED, *BALANCED])
def test_dsgd_conserves_the_sum_exactly_where_its_matrix_is_doubly_stochastic(net):
    late = 10 * settled(net)
    symmetric = influence_of(gs.dsgd(decay(0.7, 0.6)), net, [4], late)
    np.testing.assert_allclose(symmetric.weights, 1, atol=1e-12)
    pulled = influence_of(gs.dsgd(decay(0.7, 0.6), over="R", strict=False), net, [4], late)
    np.testing.assert_allclose(pulled.weights[0], left_perron(np.eye(net.m) + net.R), atol=1e-10)
    doubly = np.allclose(np.asarray(net.R).sum(axis=0), 0)
    assert (pulled.left < 1e-20) == doubly == (net in BALANCED)


@pytest.mark.parametrize("net", UNBALANCED)
def test_algorithm_1_conserves_the_sum_on_unbalanced_graphs(net):
    """By (7) to (9) written out: with u the Perron vector, uᵀθ/m moves by λ_t/m for every learner's gradient alike."""
    m, start, step = net.m, settled(net), decay(0.9, 0.7)
    R, C = np.eye(m) + net.R, np.eye(m) + net.C
    s, theta, z = np.zeros((m, m)), np.zeros((m, m)), np.eye(m)
    for t in range(4 * start):
        after = C @ s + step(t) * (t == start) * np.eye(m)  # (7)
        theta = R @ theta - (after - s) / (m * np.diag(z)[:, None])  # (8)
        s, z = after, R @ z  # (9)
    found = influence_of(gs.ldp_gradient_tracking(step), net, [start], 4 * start)
    np.testing.assert_allclose(found.models[0], theta, atol=1e-12)
    np.testing.assert_allclose(found.common[0], -step(start) / m, rtol=1e-11)
    assert max(found.left, found.left_in_one) < 1e-20


def test_algorithm_1s_first_rounds_leave_nearly_everything():
    """[z_i]_i is far from u_i/m until the eigenvector estimates have gone round."""
    rounds = [0, 12, 30]
    found = influence_of(gs.ldp_gradient_tracking(decay(1.0, 0.6)), PAPER, rounds, 2000)
    left = [share_left(each[None]) for each in found.common]
    assert left[0] > 0.9
    assert 1e-4 < left[1] < 1e-2
    assert left[2] < 1e-6


@pytest.mark.parametrize("net", UNBALANCED)
def test_robust_push_pull_conserves_the_sum_from_the_first_round_on(net):
    """θ moves by differences of s, which end at α v 1ᵀg, v the right Perron vector of I+C with 1ᵀv = 1."""
    v = left_perron((np.eye(net.m) + net.C).T) / net.m
    found = influence_of(gs.robust_push_pull(decay(0.3, 0.0)), net, [0, 7], 4 * settled(net))
    u = left_perron(np.eye(net.m) + net.R)
    np.testing.assert_allclose(found.common, np.full((2, net.m), -0.3 * (u @ v) / net.m), rtol=1e-10)


@pytest.mark.parametrize("exponent", [0.0, 0.6])
def test_push_pull_conserves_the_sum_where_its_step_is_constant(exponent):
    """uᵀ(λ_t I + Σ_k λ_{t+k} (I+C)^{k−1} C)/m, which telescopes for a constant step."""
    step, m, start, until = decay(0.3, exponent), 10, 20, 300
    total, power = step(start) * np.eye(m), np.eye(m)
    for t in range(start + 1, until):
        total, power = total + step(t) * power @ PAPER.C, (np.eye(m) + PAPER.C) @ power
    algorithm = gs.push_pull(step)
    found = influence_of(algorithm, PAPER, [start], until)
    np.testing.assert_allclose(found.common[0], -PAPER.perron @ total / m, atol=1e-14)
    assert (found.left < 1e-20) == (exponent == 0)
    assert algorithm.conserves == ("sum" if exponent == 0 else None)


def test_push_pulls_unevenness_falls_with_the_rounds_as_its_step_flattens():
    """λ_t/λ_{t+1} − 1 ~ v/t: twice as late, half as uneven, and a quarter of the variance left."""
    found = influence_of(gs.push_pull(decay(0.3, 0.6)), PAPER, [200, 400], 3000)
    early, late = (share_left(each[None]) for each in found.common)
    assert early / late == pytest.approx(4, rel=0.1)


# -- trackers ----------------------------------------------------------------------------------------------------------

SUMS = ["ldp_gradient_tracking", "robust_push_pull", "tailored_gradient_tracking", "wang_basar"]
DIRECTIONS = ["push_pull", "diadsp", "diadsp_own"]


def rounds_of(algorithm, net, count):
    """(before, gradients, sent, after, t) of some rounds with arbitrary gradients, the mixing written out."""
    rng, rows = np.random.default_rng(2), net.rows(mixes=algorithm.mixes)
    state = algorithm.init(rows, rng.normal(size=(net.m, 2)))
    for t in range(count):
        grad, got = rng.normal(size=(net.m, 2)), {}
        out = algorithm.emit(state, grad, rows, t)
        for channel, sent in out.items():
            weights = np.eye(net.m) + getattr(net, sent.over.removeprefix("I+"))
            if not sent.over.startswith("I+"):
                np.fill_diagonal(weights, 0)
            got[channel] = weights @ sent.value
        after = algorithm.step(state, got, grad, rows, t)
        yield state, grad, out, after, t
        state = after


@pytest.mark.parametrize("net", [*UNBALANCED, BALANCED[0]])
@pytest.mark.parametrize("name", SUMS)
def test_a_tracker_gathers_the_sum_of_gradients_in_every_round(name, net):
    """1ᵀs_{t+1} − 1ᵀs_t = λ_t 1ᵀg_t, from round 0 on and on every graph, since C's columns add to 0."""
    step = decay(0.8, METHODS.find(name).step_exponent)
    for before, grad, _, after, t in rounds_of(METHODS.find(name).make(step, strict=False), net, 8):
        moved = after.s.sum(axis=0) - before.s.sum(axis=0)
        np.testing.assert_allclose(moved, step(t) * grad.sum(axis=0), atol=1e-12)


@pytest.mark.parametrize("net", [*UNBALANCED, BALANCED[0]])
@pytest.mark.parametrize("name", DIRECTIONS)
def test_a_direction_is_the_sum_of_the_rounds_gradients(name, net):
    """1ᵀy_t = 1ᵀg_t."""
    for _, grad, out, _, _ in rounds_of(METHODS.find(name).build(0.3), net, 8):
        np.testing.assert_allclose(out["y"].value.sum(axis=0), grad.sum(axis=0), atol=1e-12)


@pytest.mark.parametrize("name", METHODS.entries())
def test_mixing_alone_leaves_the_common_model_where_it_is(name):
    """With no gradient the average that D is taken of does not move, whatever the learners start from."""
    algorithm = METHODS.find(name).build(0.5)
    rows, start = PAPER.rows(mixes=algorithm.mixes), np.random.default_rng(3).normal(size=(10, 2))
    state, links = algorithm.init(rows, start), {over: PAPER.off_diagonal(over) for over in algorithm.mixes}
    for t in range(30):
        out = algorithm.emit(state, 0 * start, rows, t)
        state = algorithm.step(state, {c: links[o.over] @ o.value for c, o in out.items()}, 0 * start, rows, t)
    mean = consensus_weights(algorithm, PAPER)
    np.testing.assert_allclose(mean @ state.theta, mean @ start, atol=1e-12)


# -- declarations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS.entries())
def test_every_method_declares_what_it_conserves(name):
    algorithm = METHODS.find(name).build(0.5)
    assert algorithm.conserves == ("weighted" if name == "dsgd_naive" else None if name in ONLY_NEARLY else "sum")
    for net in UNBALANCED:
        found = conserved_finding(algorithm, net, 20_000)
        assert found.holds, found
        assert ("exactly" in found.check) == (algorithm.conserves == "sum")
        assert found.allowed == (math.inf if algorithm.conserves is None else EXACT)
        if algorithm.conserves != "sum":
            assert not conserved_finding(replace(algorithm, conserves="sum"), net, 20_000).holds
    for net in BALANCED:
        found = conserved_finding(replace(algorithm, conserves="sum"), net, 20_000)
        assert found.holds, "where pulling is balanced, every method conserves the sum"


def counts_some_twice(x, got, grad, rows, t):
    return GOOD.step(x, got, grad * (1 + (rows.ids[:, None] == 3)), rows, t)


GOOD = gs.dsgd(decay(0.5, 0.8))
NAIVE = gs.dsgd(decay(0.5, 0.8), over="R", strict=False)


@pytest.mark.parametrize(
    ("algorithm", "says"),
    [
        (replace(NAIVE, conserves="sum"), r"with weights 0\.379 to 2\.05, 0\.22 of pair .*it declares 'sum'"),
        (replace(GOOD, step=counts_some_twice), r"with weights 0\.909 to 1\.82, .*it declares 'sum'"),
        (replace(GOOD, conserves="weighted", weights=lambda u: u), "exactly; it declares 'weighted'"),
        (replace(NAIVE, weights=None), r"with weights 0\.379 to 2\.05, .*it declares 'weighted'"),
        (replace(gs.push_pull(decay(0.3, 0.6)), conserves="sum"), r"with weights 0\.993 to .*it declares 'sum'"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_named(algorithm, says):
    with pytest.raises(gs.GossamerError, match=f"does not conform: .*conserves the sum of gradients: {says}"):
        gs.check_algorithm(algorithm, rounds=3000)


def test_an_algorithm_that_declares_nothing_is_told_what_was_seen():
    seen = conserved_finding(replace(GOOD, conserves=None), PAPER, 3000)
    assert seen.check == "conserves the sum of gradients: exactly"
    assert seen.measured < EXACT < seen.allowed == math.inf
    uneven = conserved_finding(replace(NAIVE, conserves=None), PAPER, 3000)
    assert uneven.holds
    assert uneven.measured == pytest.approx(PAPER.perron.max() - 1)


def test_links_that_fade_leave_pair_noise_in_the_learners_own_models():
    found = conserved_finding(gs.ldol(decay(0.5, 0.75)), PAPER, 20_000)
    assert found.holds
    assert re.search(r"exactly, in the learners' average; 376 rounds later 0\.0072 of pair noise is left", found.check)


def test_gradients_that_move_nothing_conserve_nothing():
    found = conserved_finding(gs.dsgd(decay(0.0, 0.8)), PAPER, 20_000)
    assert not found.holds
    assert "not at all" in found.check


def test_where_mixing_settles_too_late_nothing_is_judged():
    slow = gs.Network.from_edges(20, [*((i, (i + 1) % 20) for i in range(20)), (0, 2)])
    found = conserved_finding(gs.ldp_gradient_tracking(decay(0.5, 0.7)), slow, 400)
    assert found.holds
    assert f"not judged, as mixing settles in round {slow.settles:.0f}" in found.check
    assert conserved_finding(GOOD, slow, 400).allowed == EXACT, "what is exact even so is said to be"


def test_a_declaration_that_nobody_knows_is_refused():
    with pytest.raises(gs.GossamerError, match="expected 'sum', 'weighted' or None"):
        replace(GOOD, conserves="product")


# -- a whole run, and the page that tells of it ------------------------------------------------------------------------


def left_after(algorithm, net, first, until):
    """The share left in the common model and in a learner's own, by covariances: P⁺ = A P Aᵀ + B Q Bᵀ."""
    m, matrix = net.m, RoundMatrix(algorithm, net, None)
    k, at = len(matrix.wide) * m, matrix.wide.index("theta") * m
    pair, independent = np.zeros((k, k)), np.zeros((k, k))
    for t in range(until):
        M = matrix.next(t)
        A, B = M[:, :k], M[:, k : k + m]
        pair, independent = A @ pair @ A.T, A @ independent @ A.T
        if t >= first:
            pair += B @ (m * np.eye(m) - 1) @ B.T
            independent += (m - 1) * B @ B.T
    pair, independent = (P[at : at + m, at : at + m] for P in (pair, independent))
    mean = consensus_weights(algorithm, net)
    return (mean @ pair @ mean) / (mean @ independent @ mean), np.trace(pair) / np.trace(independent)


@pytest.mark.parametrize("name", ["ldp_gradient_tracking", "push_pull", "ldol"])
def test_impulses_in_all_rounds_are_what_covariances_give(name):
    algorithm = METHODS.find(name).build(1.0)
    found = influence_of(algorithm, PAPER, range(5, 60), 60)
    common, _ = left_after(algorithm, PAPER, 5, 60)
    assert found.left == pytest.approx(common, rel=1e-9, abs=1e-14)


def in_percent(share):
    return "0" if share < 1e-12 else f"{np.format_float_positional(100 * share, 2, fractional=False, trim='-')} %"


def page_rows(heading):
    text = (Path(__file__).parents[1] / "docs/methods.md").read_text(encoding="utf-8").split(heading)[1]
    rows = re.findall(r"^\| `(\w+)`(.*)\|$", text.split("\n## ")[0], flags=re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split("|")[1:]] for name, rest in rows}


def test_the_methods_page_tells_what_is_measured():
    """Network.paper(), 2000 rounds, steps 1/(t+1)^v with each method's own v, pair noise from round 12 on."""
    assert quiet_rounds(PAPER) == 12
    told, words = page_rows("## Noise that cancels"), page_rows("# Methods")
    assert set(told) == set(METHODS.entries())
    for name, method in METHODS.entries().items():
        algorithm = method.build(1.0)
        weights = influence_of(algorithm, PAPER, [1000], 2000).weights
        low, high = weights.min(), weights.max()
        common, own = left_after(algorithm, PAPER, 12, 2000)
        spread = "1" if high - low < EXACT else f"{low:.3f} to {high:.3f}"
        assert told[name] == [spread, in_percent(common), in_percent(own)], name
        if name in words:
            assert words[name][-1].startswith("exactly") == (algorithm.conserves == "sum"), name


def test_the_methods_page_tells_what_the_first_rounds_cost():
    text = (Path(__file__).parents[1] / "docs/methods.md").read_text(encoding="utf-8")
    common, _ = left_after(METHODS.find("ldp_gradient_tracking").build(1.0), PAPER, 0, 2000)
    assert f"{100 * common:.0f} % of it would be left" in text
