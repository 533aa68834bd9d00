"""Rounding: its bound is one, it is charged, and no neighbour can break noise through it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gossamer as gs
from gossamer.algorithms import METHODS as REGISTRY
from gossamer.checks.climb import levered
from gossamer.checks.defects import TakesAnything
from gossamer.checks.steer import attempts, steered_losses
from gossamer.checks.worlds import Case
from gossamer.models import Sizes
from gossamer.peers.journal import Journal
from gossamer.peers.party import Party
from gossamer.peers.turns import rounds_kept
from gossamer.privacy import Accountant, Gaussian, Laplace, noised_fields, rounding_of
from gossamer.privacy.accountant import rounding_slack
from gossamer.privacy.rounding import FAR, UNIT, Bounded
from gossamer.records import Batch
from gossamer.setting import setting_for, setting_of

METHODS = REGISTRY.entries()

NET = gs.Network.paper()
MECHANISMS = {"laplace": Laplace(gs.decay(1.0, 0.55)), "gaussian": Gaussian(gs.decay(1.0, 0.55), delta=1e-5)}
LONG = np.longdouble
wider = pytest.mark.skipif(np.finfo(LONG).nmant < 63, reason="needs numbers wider than float64")


def rounding(algorithm, i, rounds):
    z = NET.own_weights(rounds)[:, i]
    about = algorithm.dynamics(NET.rows([i], algorithm.mixes), z)
    return rounding_of(algorithm, NET.rows([i], algorithm.mixes), z, list(about.channels), about.after)


@wider
@pytest.mark.parametrize("method", METHODS)
def test_no_step_rounds_by_more_than_the_bound(method):
    """The algorithm's own emit and step, in float64 and in wider numbers, on states of every size and sign."""
    algorithm = METHODS[method].build(0.3)
    rng = np.random.default_rng(0)
    for i in (0, 4, 6):
        rows = NET.rows([i], algorithm.mixes)
        bound = rounding(algorithm, i, 400)
        z = algorithm.init(rows, np.zeros((1, 1)))
        for t in (0, 1, 2, 5, 40, 399):
            state = algorithm.init(rows, np.zeros((1, 2000)))
            public = {n: v for n, v in z._asdict().items() if n not in noised_fields(algorithm, rows)}
            graph = {n: np.full((1, 10), NET.own_weights(400)[t, i]) for n in public}
            size, steep = 2.0 ** rng.integers(-3, 60), 2.0 ** rng.integers(-3, 20)
            wide = {n: size * rng.uniform(-1, 1, size=(1, 2000)) for n in noised_fields(algorithm, rows)}
            state = state._replace(**wide, **graph)
            grad = steep * rng.uniform(-1, 1, size=(1, 2000))
            sent = algorithm.emit(state, grad, rows, t)
            got = {c: size * rng.uniform(-1, 1, size=(1, 2000)) if o.private else graph["z"] for c, o in sent.items()}
            plain = algorithm.step(state, got, grad, rows, t)
            finer = state._replace(**{n: v.astype(LONG) for n, v in wide.items()})
            long = algorithm.step(finer, {c: v.astype(LONG) for c, v in got.items()}, grad.astype(LONG), rows, t)
            allowed = bound.of_states[t] * size + bound.of_gradient[t] * steep
            worst = max(float(np.abs(getattr(plain, n) - getattr(long, n)).max()) for n in wide)
            also = algorithm.emit(finer, grad.astype(LONG), rows, t)
            worst = max([worst] + [float(np.abs(o.value - also[c].value).max()) for c, o in sent.items() if o.private])
            assert worst <= allowed, (i, t)
            # a lone subtraction of something below the last digit rounds by that alone
            lost = METHODS[method].noises_own and steep < size * 2.0**-45
            assert lost or worst >= allowed / 20, "and the bound is no guess"


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=6), st.floats(-8, 8), st.floats(0.01, 8))
def test_bounded_numbers_bound_what_they_stand_for(values, factor, divisor):
    exact, plain, bounded = LONG(0), 0.0, Bounded(0.0, 0.0)
    for value in values:
        exact = (exact * LONG(factor) + LONG(value)) / LONG(divisor) - LONG(value)
        plain = (plain * factor + value) / divisor - value
        one = Bounded(abs(value), 0.0)
        bounded = (bounded * factor + one) / divisor - one
        assert abs(plain) <= bounded.size * (1 + 1e-15)
        assert float(abs(exact - LONG(plain))) <= bounded.error * (1 + 1e-12) + 1e-300


def test_the_bound_is_the_same_found_for_all_rounds_at_once_and_one_by_one():
    for method in METHODS.values():
        algorithm = method.build(0.3)
        whole = rounding(algorithm, 4, 200)

        def by_one(t, step=algorithm):  # a schedule of one's own that takes whole numbers only
            return 0.3 / (int(t) + 1) ** 0.6

        if algorithm.name == "ldp_gradient_tracking":
            own = gs.ldp_gradient_tracking(step=by_one, strict=False)
            np.testing.assert_allclose(rounding(own, 4, 200), whole, rtol=1e-12)
        early = rounding(algorithm, 4, 50)
        np.testing.assert_array_equal(early.of_states, whole.of_states[:50])


def test_an_algorithm_whose_rounding_is_unknown_makes_no_claim():
    honest = gs.dsgd(gs.decay(0.3, 0.6))
    rows, z = NET.rows([0], ("W",)), NET.own_weights(5)[:, 0]

    def curved(x, got, grad, rows, t):
        return x._replace(theta=np.tanh(x.theta + got["theta"]))

    def squared(x, got, grad, rows, t):
        return x._replace(theta=x.theta * x.theta + got["theta"])

    def doubled(x, grad, rows, t):
        return {"theta": gs.types.Out(2 * x.theta, "W", True)}

    for broken in (
        replace(honest, step=curved),
        replace(honest, step=squared),
        replace(honest, emit=doubled),
        replace(honest, point=lambda x: x.theta + x.theta),
    ):
        with pytest.raises(gs.GossamerError, match="rounding of dsgd cannot be bounded"):
            rounding_of(broken, rows, z, ["theta"], frozenset())


# -- what is charged -------------------------------------------------------------------------------------------------


def by_hand(A, b, point, c, L, r, N, p, h, k, T):
    """The recursion of history with rounding, as the mathematics states it."""
    x, found = np.zeros(b.shape[1]), []
    for t in range(T):
        found.append(x)
        if t >= k:
            moved = min(L * x[point] + p[t], 2 * c) if x[point] > 0 else 0.0
            G = (2 * c / N + (t + 1 - 1 / N) * moved) / (t + 1) + r * x[point]
            x = A[t] @ x + b[t] * G + h[t]
    return np.array(found)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(METHODS)), st.integers(0, 9), st.sampled_from(["laplace", "gaussian"]))
def test_the_ledger_charges_rounding_as_the_mathematics_says(method, i, law):
    algorithm, n, T = METHODS[method].build(0.3), 117, 60
    stream = gs.datasets.mushrooms(10, rows="l1")
    model = gs.LogisticRegression(l2=0.02)
    setting = setting_of(algorithm, NET, stream, model, "history", T)
    terms = MECHANISMS[law].terms(setting)[i]
    dynamics = terms.dynamics(T)
    c, L, error, per_size = model.reach(stream.table.bounds, 1 if law == "laplace" else 2, Sizes(n, 1))
    root = n if law == "laplace" else math.sqrt(n)
    t = np.arange(1.0, T + 1)
    S = FAR * t**-0.55
    E = rounding(algorithm, i, T)
    mean = (t + 4) * UNIT * c
    h = dynamics.b * (mean + UNIT * (c + 3 * 0.02 * root * S))[:, None]
    h = 2 * (h + (E.of_states * root * S + E.of_gradient * (c + 0.02 * root * S))[:, None])
    p = 2 * (error + per_size * S)
    slack = rounding_slack(terms, dynamics)
    np.testing.assert_allclose(slack.blur, p, rtol=1e-12)
    np.testing.assert_allclose(slack.extra, h, rtol=1e-12)
    x = by_hand(dynamics.A, dynamics.b, dynamics.point, c, L, 0.02, 1, p, h, 0, T)
    found = gs.privacy.recursion.sensitivities(dynamics, terms.bound, math.inf, 0, slack)
    np.testing.assert_allclose(found, x, rtol=1e-10)


def without_rounding(terms):
    return replace(terms, rounding=None, bound=terms.bound._replace(error=0.0, error_per_size=0.0))


@pytest.mark.parametrize("law", MECHANISMS)
@pytest.mark.parametrize("gradient", ["history", "latest"])
def test_rounding_costs_less_than_a_millionth_a_round_and_budgets_are_kept_with_it(law, gradient):
    """At n = 100: what was asked of the surcharge, grid and rounding together."""
    algorithm, T = gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)), 1000
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(10, T, 100)) / 100, rng.integers(0, 2, size=(10, T)).astype(float)
    stream = gs.streams.from_arrays(X, y, ranges=(0.0, 0.01))
    setting = setting_of(algorithm, NET, stream, gs.LogisticRegression(l2=1e-2), gradient, T)
    made = Laplace.for_budget(8.0) if law == "laplace" else Gaussian.for_budget(8.0, 1e-5)
    for terms in made.terms(setting):
        delta = made.delta
        whole = Accountant(terms).epsilon_at(T, delta)
        assert 7.9 < whole <= 8.0
        bare = Accountant(without_rounding(terms)).epsilon_at(T, delta) - terms.surcharge(T)
        assert 0 < (whole - bare) / T < 1e-6


def test_a_budget_that_rounding_alone_would_spend_is_refused():
    setting = setting_of(
        gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)), NET, gs.datasets.mushrooms(10, rows="l1"),
        gs.LogisticRegression(l2=1e-2), "history", 2000)  # fmt: skip
    with pytest.raises(gs.GossamerError, match="below what the grid and rounding alone cost"):
        Laplace.for_budget(1e-6).terms(setting)


# -- the attack --------------------------------------------------------------------------------------------------------


def unbounded(case):
    def bind(mechanism, setting):
        made = mechanism.bind(setting)
        return TakesAnything(mechanism, made.ledgers, setting.steps)

    return replace(case, bind=bind)


@pytest.mark.parametrize("law", MECHANISMS)
@pytest.mark.parametrize("method", METHODS)
def test_a_neighbour_breaks_no_method_through_rounding_as_it_would_without_bounds(method, law):
    algorithm = METHODS[method].build(0.3)
    case = Case(algorithm, NET, gs.LogisticRegression(l2=0.1), MECHANISMS[law], "history", rounds=8)
    assert (steered_losses(case) <= case.claims * (1 + 1e-9)).all()
    if METHODS[method].noises_own:  # of its own value nothing is kept, so that there is nothing to park
        assert (steered_losses(unbounded(case)) <= case.claims * (1 + 1e-9)).all()
    else:
        assert (steered_losses(unbounded(case)) > 10 * case.claims).any(), "the attack is one"


class Two:
    """One learner's records in two worlds that differ in the first."""

    def __init__(self, rows, labels):
        self._rows, self._labels = rows, labels

    def here(self, t):
        return True

    def read(self, t):
        return ""

    def arrivals(self, t):
        return Batch(self._rows[[t]], self._labels[[t]], np.ones(1, dtype=np.int64))


@pytest.mark.parametrize("law", MECHANISMS)
@pytest.mark.parametrize("method", ["ldp_gradient_tracking", "dsgd", "robust_push_pull"])
def test_two_worlds_of_a_party_are_told_apart_only_where_nothing_bounds_what_it_takes(tmp_path, method, law):
    """The attack over a party's own wire: ε = 0.5 is claimed, and a neighbour sends what `steer` works out."""
    net = gs.Network.from_edges(2, [(0, 1), (1, 0)], weight=0.5)
    algorithm, model, T = METHODS[method].build(0.3), gs.LogisticRegression(l2=0.1), 8
    made = Laplace.for_budget(0.5, exponent=0.55) if law == "laplace" else Gaussian.for_budget(0.5, 1e-5, exponent=0.55)
    case = unbounded(Case(algorithm, net, model, made, "history", rounds=T))
    tried = [(each, seed) for seed in range(20) for each in attempts(case, seed)]
    best, seed = max(tried, key=lambda each: each[0].losses[0])
    assert best.losses[0] > 100, "the attack finds a way"
    for bounded in (True, False):  # as it is, and as it was
        apart = told_apart(tmp_path / str(bounded), case, best.received, seed, bounded)
        assert apart < 100 if bounded else apart > 1000, f"{apart:.3g} noise scales"


def told_apart(folder, case, received, seed, bounded):
    """How far apart a party's messages are in the two worlds, in noise scales, if its neighbour sends these."""
    algorithm, net, model, made, T = case.algorithm, case.network, case.model, case.mechanism, case.rounds
    released = []
    for world in range(2):
        setting = setting_for(
            [0], algorithm, net, model, case.stream.table,
            gradient="history", steps=T, size=case.size, per_round=[1], read_once=True,
        )  # fmt: skip
        boundary = made.bind(setting)
        boundary = boundary if bounded else TakesAnything(made, boundary.ledgers, T)
        (folder / str(world)).mkdir(parents=True)
        journal = Journal(
            folder / str(world) / "0.db", "run", 0, "settings", "process", rounds_kept(case.size, "f8", 0)
        )
        rows, labels = records_of(case, world, seed)
        feed, memory = Two(rows, labels), model.memory(case.stream.table, "history", np.array([T]))
        party = Party(0, algorithm, net, feed, memory, boundary, journal, size=case.size, steps=T, ridge=0.1)
        sent = []
        for t in range(T - 1):
            for channel, got in received[t].items():
                public = party.places.at(0).public.value(t, channel)
                payload = public[1] if public is not None else np.clip(got[0] / 0.5, -1e119, 1e119)
                if (1, channel) in party.expected(t):
                    party.receive(1, t, channel, payload.astype("<f8").tobytes())
            party.advance()
            scale = boundary.ledgers[0].terms.scale(t + 1)
            sent.append(
                np.concatenate([value[0] for _, value in sorted(party.last_sent().items()) if value.shape[1] == 3])
                / scale
            )
        journal.close()
        released.append(np.array(sent))
    return np.abs(released[0] - released[1]).max()


def records_of(case, world, seed):
    """The records that `attempts` uses for learner 0, in one of the two worlds."""
    given = levered(case, np.random.default_rng(seed))
    rows, labels = case.to_features(given.records[0, :, 0]).copy(), given.labels[0, :, 0].copy()
    if world:
        rows[0], labels[0] = case.to_features(given.other[[0]])[0], given.other_label[0]
    return rows, labels


def test_the_rounding_of_many_rounds_is_found_in_one_go():
    """Round by round it took seconds: schedules that are plain arithmetic are asked once."""
    asked = []

    def step(t):
        asked.append(t)
        return 0.3 / (t + 1) ** 0.6

    rounding(gs.ldp_gradient_tracking(step=step, strict=False), 4, 500)
    assert len([t for t in asked if np.ndim(t)]) <= 8
    assert len([t for t in asked if not np.ndim(t)]) == 500, "what dynamics ask, once a round"
