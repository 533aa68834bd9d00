"""Networks that change: draws, weights, references written from the equations, and conserved sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from changing_runs import DENSE, KINDS, ONE_WAY, M, N, gradient, on_its_way, run, states, thirds
from gossamer import NetworkSchedule, decay
from gossamer.algorithms import METHODS
from gossamer.networks.changing import LINK
from gossamer.networks.drawn import happens
from gossamer.simulate.links import Links

# -- draws -------------------------------------------------------------------------------------------------------------


def test_a_links_draw_depends_on_seed_round_and_link_alone():
    """Whoever knows some of the links draws what one process draws for all, in any order."""
    numbers = np.arange(5000)
    whole = happens(0.3, 7, LINK, 11, numbers)
    some = np.random.default_rng(0).permutation(5000)[:700]
    np.testing.assert_array_equal(happens(0.3, 7, LINK, 11, some), whole[some])
    for other in (
        happens(0.3, 8, LINK, 11, numbers),
        happens(0.3, 7, 1, 11, numbers),
        happens(0.3, 7, LINK, 12, numbers),
    ):
        assert 0.3 < (other != whole).mean() < 0.54, "independent: 2 · 0.3 · 0.7 = 0.42 differ"


def test_links_fail_as_often_as_asked_each_by_itself():
    p, rounds, links = 0.1, 2000, 90
    failed = np.array([happens(p, 0, LINK, t, np.arange(links)) for t in range(rounds)])
    deviation = np.sqrt(p * (1 - p))
    assert abs(failed.mean() - p) < 5 * deviation / np.sqrt(rounds * links)
    assert np.abs(failed.mean(axis=0) - p).max() < 5 * deviation / np.sqrt(rounds)
    together = np.cov(failed.T) - np.diag(failed.var(axis=0))
    assert np.abs(together).max() < 6 * deviation**2 / np.sqrt(rounds), "no two links fail together"
    after = np.mean((failed[1:] - p) * (failed[:-1] - p))
    assert abs(after) < 5 * deviation**2 / np.sqrt(rounds * links), "nor one round after the other"
    assert not happens(0.0, 0, LINK, 3, np.arange(1000)).any()


def test_a_line_fails_one_way_or_both():
    there, back = np.arange(0, 9), np.arange(1, 10)
    one, both = KINDS["failing"], KINDS["failing both ways"]
    rounds = range(100)
    assert any((one.fail(t, there, back) != one.fail(t, back, there)).any() for t in rounds)
    assert all((both.fail(t, there, back) == both.fail(t, back, there)).all() for t in rounds)


# -- weights -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_pulls_and_columns_of_pushes_add_to_zero_in_every_round(kind):
    schedule = KINDS[kind]
    for over in ("C", "W"):
        links = Links(schedule, over)
        for t in range(60):
            weights, own = links.push(schedule.at(t), kept=True)
            assert (weights >= 0).all()
            np.testing.assert_allclose(links.matrix(weights).sum(axis=0) + own, 0, atol=1e-14)
    for over in ("R", "W"):
        links = Links(schedule, over)
        for t in range(60):
            now = schedule.at(t)
            pull = links.pull(now)
            assert (pull.off.toarray() >= 0).all()
            assert (1 + pull.own >= 0).all()
            np.testing.assert_allclose(pull.off.sum(axis=1) + pull.own, 0, atol=1e-14)
            heard = pull.off.toarray()
            assert not heard[~now.awake].any()
            assert not heard[:, ~now.acts].any()


def test_in_a_turn_learners_have_their_links_and_the_way_back_of_c():
    turn = thirds(DENSE)[1]
    schedule = NetworkSchedule.turns(DENSE, thirds(DENSE))
    pull = Links(schedule, "R").pull(schedule.at(1)).off.toarray()
    links = Links(schedule, "C")
    push = links.matrix(links.push(schedule.at(1), kept=False)[0]).toarray()
    expected = np.zeros((M, M))
    for j, i in turn:
        expected[i, j] = np.asarray(DENSE.R)[i, j]
    np.testing.assert_array_equal(pull, expected)
    np.testing.assert_array_equal(push, expected.T)


@pytest.mark.parametrize("kind", ["networks", "turns"])
def test_voices_are_the_weights_of_a_rounds_words_in_what_all_agree_on(kind):
    """(I+R_T) … (I+R_{t+1}) tends to 1 φ_{t+1}ᵀ."""
    schedule = KINDS[kind]
    links = Links(schedule, "R")
    for t in range(7):
        product = np.eye(M)
        for later in range(t + 1, t + 2000):
            pull = links.pull(schedule.at(later))
            product = (np.eye(M) + pull.off.toarray() + np.diag(pull.own)) @ product
        np.testing.assert_allclose(product, np.broadcast_to(schedule.voices(t), (M, M)), rtol=1e-9)


def test_failing_and_sleeping_leave_the_mean_voices_where_they_are():
    schedule = NetworkSchedule.of(ONE_WAY, seed=2).failing(0.3).sleeping(0.1)
    np.testing.assert_allclose(schedule.voices(3), ONE_WAY.perron / M, rtol=1e-12)
    product, mean, links = np.eye(M), np.zeros((M, M)), Links(schedule, "R")
    rounds, long = 3000, 60
    for t in reversed(range(rounds)):  # φ_t from φ_{t+1}, one draw after the other
        pull = links.pull(schedule.at(t))
        product = product @ (np.eye(M) + pull.off.toarray() + np.diag(pull.own))
        if t < rounds - long:
            mean += product / (rounds - long)
    assert np.abs(mean[0] - ONE_WAY.perron / M).max() < 0.01, "the mean over many rounds"


# -- references --------------------------------------------------------------------------------------------------------


def losses(schedule, t):
    """came[i, j]: whether what j sends in round t comes to i."""
    everybody = np.arange(M)
    failed = schedule.fail(t, np.repeat(everybody, M), np.tile(everybody, M)).reshape(M, M)
    return ~failed.T


def split(W):
    own = np.diag(W).copy()
    return W - np.diag(own), own


def pulled(R, came):
    """I+R(t): the weight of what did not come is kept."""
    off = split(R)[0] * came
    return np.eye(M) + off - np.diag(off.sum(axis=1))


@pytest.mark.parametrize("how", ["sums", "ahead"])
def test_push_pull_over_failing_links_is_its_equations_with_running_sums(how):
    """σ_j = Σ_k y_j(k) is sent; receiver i keeps ρ_ij, the last it had, and adds C_ij (σ_j − ρ_ij) when it comes."""
    schedule, step = NetworkSchedule.of(ONE_WAY, seed=3).failing(0.3, lost=how), decay(0.2, 0.6)
    R, (C, C_ii) = np.asarray(ONE_WAY.R), split(np.asarray(ONE_WAY.C))
    theta, w, sigma = np.zeros((M, N)), np.zeros((M, N)), np.zeros((M, N))
    credited, last = np.zeros((M, M, N)), np.zeros((M, M, N))
    found = states(gs.push_pull(step), schedule, 80)
    for t in range(80):
        grad, came = gradient(theta, t), losses(schedule, t)
        y = w + grad
        sigma = sigma + y
        before = credited.copy()
        for i in range(M):
            for j in range(M):
                if came[i, j]:
                    credited[i, j], last[i, j] = sigma[j], y[j]
                elif how == "ahead":
                    credited[i, j] = credited[i, j] + last[i, j]
        got = np.einsum("ij,ijn->in", C, credited - before)
        theta, w = pulled(R, came) @ theta - step(t) * y, (1 + C_ii)[:, None] * y + got - grad
        np.testing.assert_allclose(found[t]["theta"], theta, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found[t]["w"], w, rtol=1e-9, atol=1e-11)


def test_algorithm_1_over_turns_is_its_equations_with_the_weights_of_the_rounds_to_come():
    """(7), (8) with R(t), C(t), and φ_{t+1} in place of z_t."""
    schedule, step = KINDS["turns"], decay(0.2, 0.7)
    theta, s = np.zeros((M, N)), np.zeros((M, N))
    found = states(gs.ldp_gradient_tracking(step, strict=False), schedule, 40)
    for t in range(40):
        R = np.zeros((M, M))
        for j, i in thirds(DENSE)[(t // 2) % 3]:
            R[i, j] = np.asarray(DENSE.R)[i, j]
        C = R.T - np.diag(R.T.sum(axis=0))
        R = R - np.diag(R.sum(axis=1))
        after = s + C @ s + step(t) * gradient(theta, t)
        theta = theta + R @ theta - (after - s) / (M * schedule.voices(t))[:, None]
        s = after
        np.testing.assert_allclose(found[t]["theta"], theta, rtol=1e-10, atol=1e-12)


def late_step(t):
    """Nothing moves until z has settled on the fixed network."""
    return 0.0 if t < 200 else 0.2 * (t + 1) ** -0.6


@pytest.mark.parametrize("name", METHODS.entries())
def test_a_schedule_of_one_network_is_that_network(name):
    algorithm = METHODS.find(name).make(late_step, strict=False)
    assert ONE_WAY.settles < 200
    once, expected = (run(algorithm, net, 260, evaluate_every=260) for net in (NetworkSchedule.of(ONE_WAY), ONE_WAY))
    assert np.abs(expected.state["theta"]).max() > 0.1
    np.testing.assert_allclose(once.state["theta"], expected.state["theta"], rtol=1e-9, atol=1e-12)


# -- conserved sums ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["sums", "ahead", "kept"])
def test_push_pulls_sum_is_kept_in_every_round_and_dropping_breaks_it(kind, how):
    """1ᵀw + Σ owed = 0."""
    schedule = replace(KINDS[kind], lost=how)
    for state in states(gs.push_pull(decay(0.05, 0.0)), schedule, 60):
        np.testing.assert_allclose(state["w"].sum(axis=0) + on_its_way(state), 0, atol=1e-11)
    if schedule.failures:
        dropped = states(gs.push_pull(decay(0.05, 0.0)), replace(schedule, lost="dropped"), 60)[-1]
        assert np.abs(dropped["w"].sum(axis=0)).max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["sums", "ahead", "kept"])
def test_algorithm_1s_sum_changes_by_the_gradients_of_those_who_act(kind, how):
    """1ᵀs + Σ owed grows by λ_t Σ g over those who are awake, whoever else is there."""
    schedule, step = replace(KINDS[kind], lost=how), decay(0.2, 0.6)
    theta, before = np.zeros((M, N)), np.zeros(N)
    for t, state in enumerate(states(gs.ldp_gradient_tracking(step, strict=False), schedule, 60)):
        acting = schedule.at(t).acts[:, None]
        sum_now = state["s"].sum(axis=0) + on_its_way(state)
        np.testing.assert_allclose(sum_now - before, step(t) * (acting * gradient(theta, t)).sum(axis=0), atol=1e-10)
        theta, before = state["theta"], sum_now


@pytest.mark.parametrize("method", [gs.push_pull, gs.diadsp])
def test_nobody_who_only_listens_inherits(method):
    """A learner leaves in the round in which another joins: those who were there take its mass."""
    schedule = NetworkSchedule.of(gs.Network.complete(M)).leaving(2, at=5).joining(3, at=5)
    for state in states(method(decay(0.05, 0.0)), schedule, 12):
        np.testing.assert_allclose(state["w"].sum(axis=0), 0, atol=1e-12)


def test_a_seed_may_be_as_large_as_a_runs():
    assert NetworkSchedule.of(ONE_WAY, seed=2**63 - 1).failing(0.5).at(3).awake.all()


def test_who_sleeps_keeps_its_state_and_who_has_left_too():
    schedule = KINDS["all"]
    seen = states(gs.push_pull(decay(0.2, 0.6)), schedule, 60)
    slept = 0
    for t in range(1, 60):
        idle = ~schedule.at(t).awake
        slept += idle.sum()
        left = schedule.leavers(t)
        for name in ("theta", "w"):
            still = [i for i in np.flatnonzero(idle) if i not in left or name == "theta"]
            if not left:  # in other rounds neighbours take over, asleep or not
                np.testing.assert_array_equal(seen[t][name][still], seen[t - 1][name][still])
    assert slept > 60
    assert not seen[20]["w"][3].any(), "handed over"
    np.testing.assert_array_equal(seen[44]["theta"][3], seen[19]["theta"][3])


def test_who_joins_starts_from_what_it_hears():
    seen, R = states(gs.push_pull(decay(0.2, 0.6)), KINDS["away"], 60), np.asarray(DENSE.R).copy()
    np.fill_diagonal(R, 0)
    before = seen[44]["theta"]
    np.testing.assert_allclose(seen[45]["theta"][3], R[3] @ before / R[3].sum(), rtol=1e-12)
    R[:, 3] = 0  # who is away is not heard
    np.testing.assert_allclose(seen[30]["theta"][7], R[7] @ seen[29]["theta"] / R[7].sum(), rtol=1e-12)
    assert not seen[29]["theta"][7].any(), "until then it was not there"


def test_who_is_away_is_in_no_mean():
    record = run(gs.push_pull(decay(0.2, 0.6)), KINDS["away"], 25, evaluate_every=25)
    there = KINDS["away"].at(25).present
    assert there.sum() == 8
    assert record.history[-1].tracking_error == pytest.approx(record.learners.tracking_error[there].mean(), rel=1e-12)
