"""Measured against predicted: the many-seeds simulation, the fits, ε by several ways, and the pages."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gossamer as gs
from gossamer.experiments import theory as study
from gossamer.experiments import theory_mushrooms
from gossamer.experiments.columns import Columns, at_source, centres, convex, on_messages, quadratic, right_perron
from gossamer.experiments.slopes import band, fit
from gossamer.experiments.theory_budget import RECURSION, REPLAY, THEOREM_4, count_epsilons, recursion
from gossamer.experiments.theory_mushroom_words import tell_mushrooms
from gossamer.experiments.theory_schedules import price, trade_off
from gossamer.networks import Network
from gossamer.privacy.recursion import GradientBound, charges, sensitivities
from gossamer.theory import best_schedule, rates

NETWORK = Network.paper()


def matrix_form(rounds: int, seeds: int, v: float, s_zeta: float, s_theta: float, noise: float) -> np.ndarray:
    """θ of the last round of Algorithm 1 on the quadratic, as (7) to (9) with matrices, with the draws of Columns."""
    rng = np.random.default_rng([0, rounds, seeds])
    R, C, m = NETWORK.R, NETWORK.C, NETWORK.m
    off = [M - np.diag(np.diag(M)) for M in (R, C)]
    s, theta, z, mean = np.zeros((m, seeds)), np.ones((m, seeds)), np.eye(m), np.zeros((m, seeds))
    for t in range(rounds):
        mean = (t * mean + centres(m) + rng.uniform(-1, 1, (m, seeds))) / (t + 1)
        zeta = noise * (t + 1) ** -s_zeta * rng.laplace(size=(m, seeds))
        vartheta = noise * (t + 1) ** -s_theta * rng.laplace(size=(m, seeds))
        after = (np.eye(m) + C) @ s + off[1] @ zeta + (t + 1) ** -v * (theta - mean)
        theta = (np.eye(m) + R) @ theta + off[0] @ vartheta - (after - s) / (m * np.diag(z))[:, None]
        s, z = after, (np.eye(m) + R) @ z
    return theta


def test_columns_are_algorithm_1() -> None:
    trace = Columns(quadratic(), NETWORK, on_messages(0.7, 0.6, 0.55, noise=0.3)).run(40, 3)
    np.testing.assert_allclose(trace.theta[-1], matrix_form(40, 3, 0.7, 0.6, 0.55, 0.3), rtol=1e-9, atol=1e-12)


def test_distances_are_those_of_the_lemmas() -> None:
    omega = right_perron(NETWORK)
    np.testing.assert_allclose((np.eye(10) + NETWORK.C) @ omega, omega, atol=1e-12)
    trace = Columns(quadratic(), NETWORK, on_messages(0.7, 0.6, 0.6)).run(20, 4)
    theta, s, u = trace.theta[-1], trace.s[-1], NETWORK.perron
    together = theta - np.ones((10, 1)) * (u @ theta / 10)
    np.testing.assert_allclose(trace.consensus[:, -1], (together**2).sum(axis=0))
    np.testing.assert_allclose(trace.tracker[:, -1], ((s - np.outer(omega, s.mean(axis=0))) ** 2).sum(axis=0))


def test_the_convex_gap_has_the_slope_that_is_its_gradient() -> None:
    loss, theta = convex(), np.linspace(-2, 2, 4001)
    slope = np.gradient(loss.gap(theta), theta)
    np.testing.assert_allclose(slope[1:-1], loss.gradient(theta, np.zeros(4001))[1:-1], atol=0.05)
    assert np.abs(slope).max() <= 10 + 1e-9


def test_a_power_law_is_fitted_exactly() -> None:
    t = np.geomspace(10, 1e4, 60)
    rows = np.random.default_rng(1).exponential(size=(50, 1)) * t**-0.7
    assert fit(t, rows, 100)[:3] == pytest.approx([-0.7] * 3)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    t, rng = np.geomspace(10, 1e4, 30), np.random.default_rng(1)
    found = [fit(t, rng.exponential(size=(80, 30)) * t**-0.7, 100) for _ in range(100)]
    assert 87 <= sum(one.low < -0.7 < one.high for one in found) <= 100
    assert all(one.high - one.low < 0.2 for one in found)
    mean, low, high = band(rng.exponential(size=(80, 30)))
    assert (low <= mean).all()
    assert (mean <= high).all()
    assert ((low < 1) & (high > 1)).sum() >= 20


SMALL = study.Effort(rounds=3000, seeds=80, since=100)


@pytest.mark.parametrize("exponents", [(0.7, 0.6, 0.6), (0.95, 0.9, 0.9), (0.6, 0.51, 0.59)])
def test_slopes_are_as_promised_and_below_the_bound(exponents: tuple[float, float, float]) -> None:
    columns = Columns(quadratic(), NETWORK, on_messages(*exponents, noise=0.3))
    trace, known = columns.run(SMALL.rounds, SMALL.seeds), rates(*exponents)
    assert not known.broken
    error = fit(trace.t, trace.squared_error, SMALL.since)
    assert error.value <= -known.beta + study.ALLOWED
    assert error.value <= -known.sharper + study.ALLOWED
    assert error.value > -known.sharper - 0.5  # and not any slope: a rate that is claimed far too high is refuted
    consensus = fit(trace.t, trace.consensus, SMALL.since)
    assert consensus.value == pytest.approx(-known.consensus, abs=0.06)
    assert (study.bounds_of(columns, trace)["error"] > trace.squared_error.mean(axis=0)).all()


@pytest.mark.parametrize(("v", "alpha"), [(0.6, 0.0), (0.8, -0.2)])
def test_at_the_source_slopes_are_as_we_state(v: float, alpha: float) -> None:
    trace = Columns(quadratic(), NETWORK, at_source(v, alpha, noise=3.0)).run(SMALL.rounds, SMALL.seeds)
    found = fit(trace.t, trace.squared_error, SMALL.since)
    assert -(v + 2 * alpha) - 0.5 < found.value <= -(v + 2 * alpha) + study.ALLOWED


def test_the_truth_lies_between_replay_and_recursion_and_theorem_4_above() -> None:
    for loss in (quadratic(), convex(start=0.0)):
        columns = Columns(loss, NETWORK, on_messages(0.7, 0.6, 0.55, step=0.1, noise=0.3))
        found = {name: epsilon for name, (_, epsilon) in count_epsilons(columns, 11.0, 300).items()}
        assert (found[REPLAY] <= found[RECURSION] * (1 + 1e-9)).all()
        assert found[REPLAY][0] == pytest.approx(
            found[RECURSION][0]
        )  # in the first message that differs both are exact
        assert (found[RECURSION] <= found[THEOREM_4]).all()


def test_the_recursion_is_the_accountants_where_records_differ_by_twice_the_bound() -> None:
    columns = Columns(convex(), NETWORK, on_messages(0.7, 0.6, 0.6, step=0.1))
    weights = np.ones((60, 2))
    algorithm = gs.ldp_gradient_tracking(columns.plan.step, strict=False)
    dynamics = algorithm.dynamics(NETWORK.rows([3]), NETWORK.own_weights(60)[:, 3])
    booked = charges(sensitivities(dynamics, GradientBound(1.0, 90.0, 0.0, 1), np.inf), weights, squared=False)
    np.testing.assert_allclose(recursion(columns, 1.0, weights)[3], np.cumsum(booked))


def test_a_rise_is_found_where_there_is_one() -> None:
    columns = Columns(convex(start=0.3), NETWORK, on_messages(0.9, 0.51, 0.51, 0.1, 0.2))
    trace = columns.run(1000, 400)
    case = study.Case("", columns, trace, {}, {}, {})
    rise = study.find_rise(case)
    assert rise.after > 1.3 * rise.before
    assert rise.low > 1


def test_a_faster_rate_costs_more_for_ever() -> None:
    found = trade_off("paper", "laplace", steps=3)
    assert [one.best.rate for one in found] == pytest.approx([0.1, 0.3, 0.5], abs=1e-6)
    costs = [one.epsilon for one in found]
    assert costs == sorted(costs)
    assert np.isfinite(costs).all()


def test_a_schedule_without_room_is_not_finite() -> None:
    best = best_schedule("rate")
    assert np.isinf(price(best.__class__(best.v, best.v, 0.5, 0.0), "paper", "laplace"))


def test_the_page_of_the_quadratic(tmp_path, monkeypatch, gossamer, drawn) -> None:
    monkeypatch.setattr(study, "MESSAGES", study.MESSAGES[:2])  # pictures take their time
    monkeypatch.setattr(study, "SOURCE", study.SOURCE[:1])
    code, out, err = gossamer("theory", "quadratic", "--rounds", 200, "--seeds", 6, "--out", "page", "--json", "a.json")
    assert code == 0, err
    assert "Fitted slope ≤ −β' + 0.05" in out
    page, folder = (tmp_path / "page" / "README.md").read_text(), tmp_path / "page"
    assert "Fitted slope ≤ −β + 0.05" in page
    assert "gossamer theory quadratic --rounds 200" in page
    numbers = json.loads((folder / "results.json").read_text())
    assert numbers == json.loads((tmp_path / "a.json").read_text())
    assert numbers["cases"][0]["schedule"] == "v = 0.6, ς_ζ = 0.55, ς_ϑ = 0.55"
    assert len(numbers["cases"]) == 3
    assert numbers["seed"] == 0
    for picture in ("error", "bounds", "consensus", "source", "epsilon"):
        assert f"({picture}.png)" in page
        assert (folder / f"{picture}.png").stat().st_size > 10_000
    assert (folder / "report.html").read_text().count("data:image/png;base64,") == 5


def test_the_page_of_the_mushrooms(monkeypatch) -> None:
    monkeypatch.setattr(theory_mushrooms, "REPLAYED", (3,))
    monkeypatch.setattr(theory_mushrooms, "CLIMBS", 2)
    label = next(name for name in theory_mushrooms.SCHEDULES if "paper's" in name)
    monkeypatch.setattr(theory_mushrooms, "SCHEDULES", {label: theory_mushrooms.SCHEDULES[label]})
    effort = study.Effort(30, 2, 3)
    page = tell_mushrooms(theory_mushrooms.run_mushrooms(effort, lambda done, total: None), effort, 0)
    assert any("not finite for ever" in sentence for sentence in page.findings)
    assert {*page.figures} == {"best.png", "epsilon-best.png"}


def test_schedules_run_nothing(gossamer) -> None:
    code, _, err = gossamer("theory", "schedules", "--rounds", 300)
    assert code == 2
    assert "leave --rounds" in err
    code, _, err = gossamer("theory", "convex", "--noise", 1)
    assert code == 2
    assert "--noise is for gossamer theory quadratic" in err
