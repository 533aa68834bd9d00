"""Budgets: the recursion against brute force, the tail against longer runs, calibration, refusal."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm

import gossamer as gs
import gossamer.privacy.compiled  # loaded, it is used; .few gives the same bits (tests/test_few.py)
from gossamer.privacy import Accountant, Gaussian, Laplace, Terms, law_named, theorem4
from gossamer.privacy.accountant import FAR, curve, total, total_for_ever
from gossamer.privacy.forever import worst_case_for_ever
from gossamer.privacy.gaussian import delta_of, epsilon_exact, epsilon_zcdp, mu_for
from gossamer.privacy.recursion import GradientBound, charges, sensitivities, worst_case
from gossamer.setting import setting_for, setting_of

NET = gs.Network.paper()


def terms_of(i=0, law="laplace", history=True, v=0.8, exponent=0.6, initial=1.0, bound=None, where="messages", lam=1.0):
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(lam, v), strict=False)
    return Terms(
        law_named(law), where, bound or GradientBound(1.0, 0.25, 0.01, 1), math.inf if history else 1.0,
        lambda T: algorithm.dynamics(NET.rows([i]), NET.own_weights(T)[:, i]),
        NET.settles, initial, exponent, 117,
    )  # fmt: skip


def by_hand(i, bound, window, k, T, v):
    """δs_t and δθ_t for t < T, written from the recursion as the mathematics states it."""
    c, L, r, N = bound[:4]
    R, C, z = NET.R[i, i], NET.C[i, i], NET.own_weights(T)[:, i]
    s, theta, found = 0.0, 0.0, []
    for t in range(T):
        found.append((s, theta))
        if t < k:
            continue
        moved = min(L * theta, 2 * c) if theta > 0 else 0.0
        if window == math.inf:
            G = (2 * c / N + (t + 1 - 1 / N) * moved) / (t + 1) + r * theta
        elif window == 1:
            G = (2 * c / N if t == k else 0) + (1 - (t == k) / N) * moved + r * theta
        else:
            M, there = N * min(t + 1, window), t - k < window
            G = ((2 * c + (M - 1) * moved) if there else M * moved) / M + r * theta
        lam = (t + 1) ** -v
        s, theta = (
            abs(1 + C) * s + lam * G,
            abs(1 + R) * theta + (abs(C) * s + lam * G) / (10 * z[t]),
        )
    return np.array(found)


WINDOWS = st.sampled_from([1.0, 2.0, 7.0, math.inf])


@given(
    st.integers(0, 9),
    WINDOWS,
    st.integers(0, 20),
    st.sampled_from([0.05, 0.25, 3.0, math.inf]),
    st.integers(1, 5),
)
def test_the_compiled_recursion_is_the_one_of_the_mathematics(i, window, k, L, N):
    bound = GradientBound(1.3, L, 0.02, N)
    dynamics = terms_of(i).dynamics(40)
    np.testing.assert_allclose(
        sensitivities(dynamics, bound, window, k), by_hand(i, bound, window, k, 40, 0.8), rtol=1e-12
    )


@settings(max_examples=40)
@given(st.integers(0, 9), WINDOWS, st.booleans(), st.sampled_from([0.05, 0.25, 3.0, math.inf]), st.integers(1, 3))
def test_the_worst_round_is_found_among_all(i, window, squared, L, N):
    bound, T = GradientBound(1.0, L, 0.02, N), 40
    dynamics = terms_of(i, v=0.6).dynamics(T)
    weights = np.arange(1.0, T + 1)[:, None] ** np.array([0.7, 0.55])
    every = [charges(by_hand(i, bound, window, k, T, 0.6), weights, squared).sum() for k in range(T)]
    found = worst_case(dynamics, bound, weights, window=window, squared=squared)
    assert found >= max(every) * (1 - 1e-12), "never below the truth"
    assert found <= max(every) * (1 + 2e-6), "and as good as equal to it"
    if window == math.inf:
        assert np.argmax(every) == 0


# -- brute force over records and messages ---------------------------------------------------------------------------


def losses_of(vectors, i, T, n, history, order, weights, replaced=0):
    """Σ_t (‖s_t − s'_t‖ + ‖θ_t − θ'_t‖) w_t of two neighbouring runs of learner i, for every row of numbers that say
    what the records and the messages are."""
    parts = np.tanh(vectors)  # in (−1, 1)
    records, other, got_s, got_theta = np.split(parts, [T * n, T * n + n, 2 * T * n + n], axis=1)
    records, got_s, got_theta = (part.reshape(-1, T, n) for part in (records, got_s, got_theta))

    def norms(a):
        return np.linalg.norm(a, order, axis=-1, keepdims=True)

    X = np.stack([records, records])  # of either run, each row, each round
    X[1, :, replaced] = other
    X /= np.maximum(1.0, norms(X))
    labels = np.zeros((2, 1, T))
    labels[1, 0, replaced] = 1.0
    R, C, z = NET.R[i, i], NET.C[i, i], NET.own_weights(T)[:, i]
    s, theta, total_loss = np.zeros_like(X[:, :, 0]), np.zeros_like(X[:, :, 0]), 0.0
    for t in range(T):
        total_loss += weights[t] * (norms(s[0] - s[1]) + norms(theta[0] - theta[1]))[:, 0]
        seen = slice(0, t + 1) if history else slice(t, t + 1)
        w = 1 / (1 + np.exp(-(X[:, :, seen] @ theta[..., None])[..., 0])) - labels[:, :, seen]
        g = (w[..., None] * X[:, :, seen]).mean(axis=2) + 0.01 * theta
        s_new = (1 + C) * s + 3 * got_s[:, t] + (t + 1) ** -0.6 * g
        theta = (1 + R) * theta + 3 * got_theta[:, t] - (s_new - s) / (10 * z[t])
        s = s_new
    return total_loss


@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize("order", [1, 2])
def test_brute_force_over_records_and_messages_stays_below_the_recursion_and_comes_near(history, order):
    i, T, n = 4, 8, 2
    weights = np.arange(1.0, T + 1) ** 0.55
    bound = GradientBound(1.0, 0.25, 0.01, 1)
    dynamics = terms_of(i, v=0.6).dynamics(T)
    claimed = worst_case(
        dynamics, bound, np.column_stack([weights, weights]), window=math.inf if history else 1.0, squared=False
    )
    rng = np.random.default_rng(order + 2 * history)
    size = 3 * T * n + n
    best = 0.0

    def losses(vectors):
        return losses_of(vectors, i, T, n, history, order, weights)

    def below(vector, apart=1e-8):
        """What is minimised, and its slopes by differences."""
        here, *there = losses(vector + apart * np.eye(size + 1, size, k=-1))
        return -here, (here - np.array(there)) / apart

    for _ in range(3):
        tries = rng.normal(size=size) * 2 + rng.normal(size=(60, size))
        start = tries[np.argmax(losses(tries))]
        climbed = minimize(below, start, jac=True, method="L-BFGS-B", options={"maxiter": 12})
        best = max(best, -climbed.fun)
    assert best <= claimed * (1 + 1e-9), "the claim holds"
    assert best >= claimed / 3, f"and is not loose: found {best:.3g} of {claimed:.3g}"


# -- for ever ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("history", [False, True])
def test_the_tail_is_above_every_longer_run_and_close(history, squared):
    bound = GradientBound(1.0, 0.25, 0.01, 1)
    terms = terms_of(3, v=0.9, exponent=0.55, history=history, bound=bound)
    for_ever = total_for_ever(terms, squared)
    runs = [total(terms, T, squared) for T in (1000, 30_000, 300_000)]
    assert runs == sorted(runs)
    assert runs[-1] <= for_ever * (1 + 1e-12)
    # history's pure tail is slow, t^(ς−v); latest's leaves the cap min(Lδ, 2c) out
    assert for_ever <= (1.03 if squared and history else 1.2) * runs[-1]
    early = terms_of(3, v=0.9, exponent=0.55, history=history, bound=bound).dynamics(4000)
    rougher = worst_case_for_ever(early, bound, np.ones(2), np.full(2, 0.55), window=terms.window, squared=squared)
    assert rougher * (1 + 1e-7) >= runs[-1] * (1 - 1e-12), "a certificate from an earlier round holds too"


def test_where_no_finite_budget_exists_the_answer_is_infinite():
    assert total_for_ever(terms_of(v=0.6, exponent=0.6), False) == math.inf
    assert total_for_ever(terms_of(v=0.6, exponent=0.7), False) == math.inf
    assert total_for_ever(terms_of(bound=GradientBound(1.0, math.inf, 0.0, 1)), False) == math.inf
    assert math.isfinite(total_for_ever(terms_of(v=0.6, exponent=0.6), True)), "Gaussian noise: ς < v + ½ is enough"
    assert math.isfinite(total_for_ever(terms_of(v=0.6, exponent=0.59), False))


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_what_a_budget_cuts_off_is_not_worked_out_to_its_end(law, monkeypatch):
    """The least of ε for ever and the budget is the same, by the first rounds alone where they are beyond it."""
    terms, delta = terms_of(law=law), 1e-5 if law == "gaussian" else 0.0
    ever = Accountant(terms, delta=delta).epsilon_for_ever(delta)
    assert math.isfinite(ever)
    for budget in (0.5 * ever, 0.9 * ever, ever, 2 * ever, math.inf):
        assert min(Accountant(terms, delta=delta).epsilon_for_ever(delta, budget), budget) == min(ever, budget)
    monkeypatch.setattr("gossamer.privacy.accountant.total_for_ever", None)
    assert Accountant(terms, delta=delta).epsilon_for_ever(delta, 0.5 * ever) > 0.5 * ever


def test_what_many_rounds_cost_is_for_numba(monkeypatch):
    """ε for ever of ten unlike learners, as `gossamer budget` shows it, takes Python seconds."""
    asked = []
    monkeypatch.setattr(
        "gossamer.privacy.recursion.kernels_for", lambda rounds, room: asked.append(rounds) or gossamer.privacy.compiled
    )
    assert math.isfinite(Accountant(terms_of()).epsilon_for_ever())
    assert asked == [FAR + 1]


def test_source_noise_costs_the_same_for_every_horizon():
    bound = GradientBound(1.0, math.inf, 0.0, 4)
    terms = terms_of(where="source", exponent=0.0, initial=0.5, bound=bound, history=False)
    assert [total(terms, T, False) for T in (1, 10, 10**6)] == [pytest.approx(1.0, rel=2e-9)] * 3
    assert total_for_ever(terms, False) == total(terms, 1, False) >= 1.0
    assert total_for_ever(terms_of(where="source", exponent=0.1, history=False), False) == math.inf


# -- the ledger -------------------------------------------------------------------------------------------------------


def test_the_exact_gaussian_conversion_is_the_closed_form_and_zcdp_is_above_it():
    for mu in (0.1, 1.0, 3.0):
        for delta in (1e-9, 1e-5, 1e-2):
            e = epsilon_exact(mu, delta)
            exact = norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)
            assert exact <= delta
            assert delta_of(e * 0.999 - 1e-6, mu) > delta
            assert e <= epsilon_zcdp(mu, delta) <= 1.6 * e + 0.1
            assert epsilon_exact(mu_for(e, delta), delta) <= e
            assert mu_for(e, delta) == pytest.approx(mu, rel=1e-6)


def test_a_ledger_spends_stops_and_survives_a_restart():
    ledger = Accountant(terms_of(initial=10.0), budget=2.0)
    assert ledger.get_epsilon() == 0
    spent = []
    while ledger.affords(ledger.rounds + 1) and ledger.rounds < 10_000:
        ledger.step()
        spent.append(ledger.get_epsilon())
    with pytest.raises(gs.GossamerError, match=rf"round {len(spent)} would overspend"):
        ledger.step()
    assert spent == sorted(spent)
    assert spent[-1] <= 2.0 < ledger.epsilon_at(len(spent) + 1)
    assert ledger.affordable_rounds(10_000) == len(spent) == ledger.rounds
    assert ledger.remaining() == pytest.approx(2.0 - spent[-1])
    again = Accountant(terms_of(initial=10.0), budget=2.0)
    again.load_state_dict(ledger.state_dict())
    with pytest.raises(gs.GossamerError, match="would overspend"):
        again.step()
    with pytest.raises(gs.GossamerError, match="kept with initial"):
        Accountant(terms_of(initial=20.0), budget=2.0).load_state_dict(ledger.state_dict())
    np.testing.assert_allclose(
        curve(terms_of(initial=10.0), np.arange(1.0, 50), False),
        [total(terms_of(initial=10.0), t, False) for t in range(1, 50)],
    )


def test_laplace_at_a_delta_is_tighter_than_pure_and_the_grid_is_charged():
    ledger = Accountant(terms_of(initial=30.0))
    ledger.step(2000)
    assert ledger.get_epsilon(1e-5) < 0.8 * ledger.get_epsilon()
    assert ledger.get_epsilon() - total(terms_of(initial=30.0), 2000, False) == pytest.approx(
        2000 * 2 * 117 * 2**-39, rel=1e-3
    )
    assert Accountant(terms_of(law="gaussian")).epsilon_at(5) == math.inf, "no pure ε for Gaussian noise"


# -- calibration ------------------------------------------------------------------------------------------------------


def setting(gradient="history", steps=812, draw="random", rows="l1", model=None, v=0.8):
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(1.0, v))
    stream = gs.datasets.mushrooms(10, draw=draw, rows=rows)
    return setting_of(algorithm, NET, stream, model or gs.LogisticRegression(l2=1e-2), gradient, steps)


@pytest.mark.parametrize("horizon", [1, 10**3, 10**5, math.inf])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_calibration_never_exceeds_and_wastes_at_most_one_percent(law, horizon):
    """Of three learners of the paper's network, each of whom is calibrated by itself."""
    stream, model = gs.datasets.mushrooms(10, rows="l1"), gs.LogisticRegression(l2=1e-2)
    of_three = setting_for(
        (0, 6, 9), gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)), NET, model, stream.table, gradient="history",
        steps=812, size=stream.table.columns, per_round=stream.room(1)[[0, 6, 9]], read_once=False,
    )  # fmt: skip
    for epsilon in (0.1, 1.0, 10.0):
        started, aims = time.process_time(), (epsilon, epsilon, 2 * epsilon)
        if law == "laplace":
            mechanism, delta = Laplace.for_budget(aims, horizon=horizon), 0.0
        else:
            mechanism, delta = Gaussian.for_budget(aims, 1e-5, horizon=horizon), 1e-5
        found = mechanism.terms(of_three)
        assert time.process_time() - started < 20
        for terms, aim in zip(found, aims, strict=True):
            ledger = Accountant(terms, delta=delta)
            got = ledger.epsilon_for_ever(delta) if math.isinf(horizon) else ledger.epsilon_at(int(horizon), delta)
            if horizon == 1:
                assert got <= aim, "the first message carries nothing of the data yet"
                continue
            assert 0.99 * aim <= got <= aim


def test_theorem_4_as_printed_is_at_least_twenty_times_the_tight_bound():
    T = 2000
    lam = np.arange(1.0, T + 1) ** -0.6
    for i in range(10):
        exponent = 0.51 + 0.01 * i
        weights = np.arange(1.0, T + 2)[:, None] ** np.full(2, exponent)
        printed = theorem4(1.0, lam, weights, 0.25, 0.25, NET.perron[i], 0.0, 0.5)  # c_z = 0: as kind as can be
        tight = total(terms_of(i, v=0.6, exponent=exponent, bound=GradientBound(1.0, 1 / 88, 1e-2, 1)), T, False)
        assert printed > 20 * tight


# -- what cannot be proved is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "given", "says"),
    [
        (lambda: Laplace.for_budget(1.0, where="source"), {}, "every record to be read once"),
        (lambda: Laplace.for_budget(1.0, where="source"), {"gradient": "latest"}, "every record to be read once"),
        (
            lambda: Laplace.for_budget(1.0, where="source"),
            {"gradient": "latest", "draw": "once", "steps": 900},
            "812 records for 900 rounds",
        ),
        (lambda: Laplace.for_budget(1.0), {"model": gs.RidgeRegression(l2=0.1)}, r"clip=clip_l1\(c\)"),
        (lambda: Laplace.for_budget(1.0), {"model": gs.LogisticRegression(clip=gs.clip_l2(1.0))}, "use clip_l1"),
        (
            lambda: Laplace.for_budget(1.0, horizon=math.inf, exponent=0.9),
            {},
            "no noise gives a finite budget for ever",
        ),
        (lambda: Laplace.for_budget(0.0), {}, "epsilon=0"),
        (lambda: Laplace.for_budget(1.0, horizon=0), {}, "horizon=0"),
        (lambda: Gaussian.for_budget(1.0, 0.0), {}, "0 < δ < 1"),
        (lambda: Laplace.for_budget(1.0, where="nowhere"), {}, "expected 'messages' or 'source'"),
        (lambda: Laplace(), {}, "a scale or a budget"),
        (lambda: Laplace.for_budget([1.0, 2.0]), {}, "2 budgets for 10 learners"),
        (lambda: Laplace(gs.decay(1.0, [0.6] * 3)), {}, "noise for 3 learners and the run has 10"),
        (
            lambda: Laplace(gs.decay([1.0] * 3, 0.0), "source"),
            {"gradient": "latest", "draw": "once"},
            "noise for 3 learners and the run has 10",
        ),
    ],
)
def test_what_cannot_be_proved_is_refused(mechanism, given, says):
    with pytest.raises(gs.GossamerError, match=says):
        mechanism().terms(setting(**given))


def test_the_dp_accounting_library_agrees():
    """Gaussian: its PLD accountant composes our rounds to the same ε. Laplace alike."""
    dp_accounting = pytest.importorskip("dp_accounting", reason="needs the extra `accounting`")
    pld = pytest.importorskip("dp_accounting.pld")
    ledger = Accountant(terms_of(law="gaussian", initial=4.0, bound=GradientBound(1.0, 0.25, 0.01, 1)))
    ledger.step(40)
    theirs = pld.PLDAccountant(value_discretization_interval=1e-4).compose(ledger.to_dp_event()).get_epsilon(1e-5)
    assert theirs == pytest.approx(ledger.get_epsilon(1e-5), rel=0.01)
    laplace = Accountant(terms_of(initial=10.0))
    laplace.step(40)
    event = laplace.to_dp_event()
    assert isinstance(event, dp_accounting.ComposedDpEvent)
    theirs = pld.PLDAccountant(value_discretization_interval=1e-4).compose(event).get_epsilon(1e-5)
    assert theirs == pytest.approx(laplace.get_epsilon(1e-5), rel=0.01)


@pytest.mark.parametrize("squared", [False, True])
def test_where_numbers_overflow_every_record_still_counts(squared):
    """A large step on raw rows overflows the uncapped bound: the worst k must be found all the same."""
    T = 600
    dynamics = terms_of(6, v=0.6, lam=40.0).dynamics(T)
    bound, weights = GradientBound(22.0, 120.0, 0.01, 1), np.ones((T, 2))
    found = worst_case(dynamics, bound, weights, window=1.0, squared=squared)
    brute = max(charges(sensitivities(dynamics, bound, 1.0, k), weights, squared).sum() for k in range(0, T, 10))
    assert found >= brute * (1 - 1e-9)


def test_a_budget_is_not_afforded_where_its_cost_is_not_a_number():
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(0.5, 0.0), strict=False)
    stream = gs.datasets.mushrooms(10)
    record = gs.simulate(
        algorithm,
        NET,
        stream,
        model=gs.LogisticRegression(l2=1.0),
        privacy=Laplace.for_budget(1.0, horizon=10),
        steps=60,
    )
    assert (record.epsilon.spent <= 1.0).all()
    assert any("0 from round 10" in note for note in record.notes)


@pytest.mark.parametrize("rounds", [-1, 2.5, "3"])
def test_a_ledger_takes_no_rounds_back(rounds):
    ledger = Accountant(terms_of())
    ledger.step(9)
    with pytest.raises(gs.GossamerError, match="whole number of rounds"):
        ledger.step(rounds)
    assert ledger.rounds == 9


@pytest.mark.parametrize(
    ("change", "says"),
    [({"rounds": 3}, "has 3 rounds"), ({"rounds": None}, "has None rounds"), ({"terms": "x"}, "terms = 'x'")],
)
def test_a_ledger_that_was_kept_on_other_terms_or_earlier_is_refused(change, says):
    ledger = Accountant(terms_of(), 1e9)
    ledger.step(5)
    with pytest.raises(gs.GossamerError, match=says):
        ledger.load_state_dict(ledger.state_dict() | change)
    other = Accountant(terms_of(bound=GradientBound(100.0, 0.25, 0.01, 1)), 1e9)
    with pytest.raises(gs.GossamerError, match="terms = "):
        other.load_state_dict(ledger.state_dict())


def test_a_negative_step_costs_what_its_positive_twin_does():
    def total_of(sign):
        algorithm = gs.ldp_gradient_tracking(step=lambda t: sign * (t + 1) ** -0.8, strict=False)
        return algorithm.dynamics(NET.rows([0]), NET.own_weights(20)[:, 0]).b

    np.testing.assert_array_equal(total_of(-1), total_of(1))
