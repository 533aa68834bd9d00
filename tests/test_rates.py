"""Rates from exponents: against the paper's formulas, by search over α and over schedules."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.errors import GossamerError
from gossamer.theory import best_schedule, last_iterate, rates

PUBLISHED = {
    (0.6, 0.55, 0.55): 0.50,
    (0.7, 0.6, 0.6): 0.50,
    (0.8, 0.75, 0.75): 0.40,
    (0.95, 0.9, 0.9): 0.10,
    (0.9, 0.51, 0.51): 0.12,
    (0.6, 0.51, 0.59): 0.42,
}
exponents = st.floats(0.501, 0.999)


def theorem_1(v: float, s_zeta: float, s_theta: float, alpha: float) -> float:
    return min(v + 0.5 - alpha, 2 - v - alpha, 2 * s_theta - alpha, 2 * s_zeta - alpha)


@pytest.mark.parametrize(("given", "beta"), PUBLISHED.items())
def test_beta_of_known_schedules(given: tuple[float, float, float], beta: float) -> None:
    assert rates(*given).beta == pytest.approx(beta)


@given(exponents, exponents, exponents)
def test_beta_is_the_supremum_over_alpha_and_not_attained(v: float, s_zeta: float, s_theta: float) -> None:
    found = rates(v, s_zeta, s_theta)
    alphas = v + (1 - v) / 2 * np.geomspace(1e-9, 0.999, 50)
    proved = [theorem_1(v, s_zeta, s_theta, float(alpha)) for alpha in alphas]
    assert max(proved) < found.beta
    assert max(proved) == pytest.approx(found.beta, abs=1e-8)
    assert found.at(float(alphas[-1])) == pytest.approx(proved[-1])


@given(exponents, exponents, exponents)
def test_the_other_rates(v: float, s_zeta: float, s_theta: float) -> None:
    found = rates(v, s_zeta, s_theta)
    assert found.consensus == min(2, 2 * v, 2 * s_theta, 2 * s_zeta)
    assert found.tracker == min(2, 2 * v, 2 * s_zeta)
    assert found.convex == 1 - v
    assert found.ldol == (min(1 - v, 2 * s_theta - 1), (1 - v) / 2)
    assert found.sharper >= found.beta
    assert bool(found.broken) == (max(s_zeta, s_theta) >= v)


def test_the_slowest_learner_decides_the_rate_and_the_fastest_the_budget() -> None:
    found = rates(0.6, [0.51, 0.55], [0.59, 0.6])
    assert found.beta == rates(0.6, 0.51, 0.59).beta
    assert len(found.broken) == 1
    assert "ς_ϑ = 0.6" in found.broken[0]


def test_no_noise_leaves_what_the_records_and_the_steps_allow() -> None:
    assert rates(0.7, math.inf, math.inf).beta == pytest.approx(0.5)
    assert not rates(0.7, math.inf, math.inf).broken


@pytest.mark.parametrize("outside", [(0.5, 0.6, 0.6), (1.0, 0.6, 0.6), (0.7, 0.5, 0.6), (0.7, 0.6, math.nan)])
def test_outside_of_assumption_4_nothing_is_said(outside: tuple[float, float, float]) -> None:
    with pytest.raises(GossamerError, match="Assumption 4"):
        rates(*outside)


def test_an_alpha_outside_of_its_interval_is_refused() -> None:
    with pytest.raises(GossamerError, match="alpha"):
        rates(0.7, 0.6, 0.6).at(0.7)


def test_noise_on_messages_is_noise_at_the_source_of_steps_size() -> None:
    assert last_iterate(0.7, 0.6, 0.6).error == pytest.approx(last_iterate(0.7, alpha=0.6 - 0.7).error)


def test_noise_that_does_not_fade_is_refused() -> None:
    with pytest.raises(GossamerError, match="not above 0"):
        last_iterate(0.6, 0.3, 0.6)


def by_search(proof: str, slack: float) -> tuple[float, float]:
    """The fastest rate, and the most room that goes with it, among schedules on a fine grid; Laplace noise."""
    v, x = np.meshgrid(np.arange(0, 1, 0.0125), np.arange(-1, 1, 0.0125))
    if proof == "source":
        rate, room, fine = np.minimum(np.minimum(1, 2 * v), v + 2 * x), -x, (v >= slack) & (v <= 1 - slack + 1e-12)
    else:
        rate, room = np.minimum(np.minimum(0.5, 2 - 2 * v), 2 * x - v), v - x
        fine = (v >= 0.5 + slack) & (v <= 1 - slack + 1e-12) & (x >= 0.5 + slack) & (x <= 1 - slack + 1e-12)
    fine &= (room >= slack - 1e-12) & (rate > slack - 1e-12)
    fastest = rate[fine].max()
    return float(fastest), float(room[fine & (rate >= fastest - 1e-9)].max())


@pytest.mark.parametrize("proof", ["paper", "source"])
def test_the_best_schedule_is_what_a_search_finds(proof) -> None:
    best = best_schedule("rate", proof=proof)
    assert (best.rate, best.room) == pytest.approx(by_search(proof, 0.05), abs=1e-6)


def test_the_papers_own_best() -> None:
    best = best_schedule("rate")
    assert (best.v, best.noise) == pytest.approx((0.75, 0.625))
    assert rates(best.v, best.noise, best.noise).beta == pytest.approx(best.rate) == 0.5


def test_more_is_asked_of_the_rate_and_less_room_is_left() -> None:
    rooms = [best_schedule("budget", at_least=rate).room for rate in (0.1, 0.2, 0.3, 0.4, 0.5)]
    assert rooms == pytest.approx([0.5 - 0.75 * rate for rate in (2 / 15, 0.2, 0.3, 0.4, 0.5)], abs=0.026)
    assert rooms == sorted(rooms, reverse=True)


@given(st.sampled_from(["paper", "ours", "source"]), st.sampled_from(["laplace", "gaussian"]), st.floats(0, 1))
def test_whatever_rate_is_asked_for_up_to_the_fastest_there_is_a_schedule(proof, law, share) -> None:
    fastest = best_schedule("rate", proof=proof, law=law)
    asked = share * fastest.rate - 1e-5
    best = best_schedule("budget", at_least=asked, proof=proof, law=law)
    assert best.rate >= asked - 1e-5
    assert best.room >= fastest.room - 1e-4


def test_gaussian_noise_at_the_source_reaches_the_rate_of_the_records_themselves() -> None:
    best = best_schedule("rate", proof="source", law="gaussian")
    assert best.rate == 1
    assert best.noise == pytest.approx((1 - best.v) / 2)


def test_a_rate_that_nothing_has_is_refused() -> None:
    with pytest.raises(GossamerError, match="slower rate"):
        best_schedule("budget", at_least=0.6)
