"""Attacks that were tried with a fresh eye, and what stands there now. See docs/pitfalls.md for the list."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.networks import Network
from gossamer.privacy import Accountant, Gaussian, Laplace
from gossamer.privacy.laws import delta_left
from gossamer.privacy.rounding import enlarged
from gossamer.schedules import Decay
from gossamer.setting import setting_of
from gossamer.streams.schema import Schema

NET = gs.Network.ring(4)


def stream_of(n, rounds, m=4, per_round=1):
    X = np.full((m, rounds * per_round, n), 1 / n)
    return gs.streams.from_arrays(X, np.zeros((m, rounds * per_round)), per_round=per_round, ranges=(0.0, 1 / n))


def setting(algorithm, n=5, rounds=12, network=NET, gradient="latest", model=None, per_round=1):
    model = model or gs.LogisticRegression(l2=0.01)
    stream = stream_of(n, rounds, network.m, per_round)
    return setting_of(algorithm, network, stream, model, gradient, rounds)


# -- numbers that the recursion is built from ----------------------------------------------------------------------


NEGATIVE = {
    "ldol": gs.ldol(gs.decay(1.0, 0.75), weaken=lambda t: -1.0, strict=False),
    "wang_basar": gs.wang_basar(gs.decay(1.0, 0.75), weaken=lambda t: -1.0, strict=False),
    "tailored": gs.tailored_gradient_tracking(
        gs.decay(1.0, 0.98), weaken_push=lambda t: -1.0, weaken_pull=lambda t: -0.5, strict=False
    ),
    "dsgd": gs.dsgd(lambda t: -1.0, strict=False),
}


@pytest.mark.parametrize("name", NEGATIVE)
def test_signs_of_steps_and_weakening_factors_are_accounted_for(name):
    """They used to be lost: losses of 9 to 229 times the claim. One step of two states that differ, by hand."""
    algorithm, rng = NEGATIVE[name], np.random.default_rng(0)
    rows, z = NET.rows([1], algorithm.mixes), NET.own_weights(3)[:, 1]
    dynamics = enlarged(algorithm.dynamics(rows, z))
    start = algorithm.init(rows, np.zeros((1, 1)))
    wide = [field for field in start._fields if field != "z"]
    order = {field: dynamics.channels[field] for field in wide}
    for t in range(3):
        for signs in np.array(np.meshgrid(*[[-1.0, 1.0]] * (len(wide) + 1))).reshape(len(wide) + 1, -1).T:
            x = np.abs(rng.normal(size=len(wide)))
            got = {c: np.zeros((1, 1)) for c in (*dynamics.channels, "z")}
            own = {"z": np.full((1, NET.m), z[t])} if "z" in start._fields else {}
            moved = {field: np.full((1, 1), s * x[order[field]]) for field, s in zip(wide, signs, strict=False)}
            after = algorithm.step(start._replace(**moved, **own), got, np.full((1, 1), signs[-1]), rows, t)
            allowed = dynamics.A[t] @ x + dynamics.b[t]
            assert all(abs(getattr(after, field).item()) <= allowed[order[field]] + 1e-12 for field in wide)


def test_dynamics_that_are_no_sizes_make_no_claim():
    honest = gs.dsgd(gs.decay(1.0, 0.75))
    careless = replace(honest, dynamics=lambda rows, z: honest.dynamics(rows, z)._replace(b=-np.ones((len(z), 1))))
    with pytest.raises(gs.GossamerError, match="dynamics hold a negative number"):
        Laplace.for_budget(1.0).terms(setting(careless))


def test_schedules_are_float64_and_never_change_their_sign():
    for ratio in (-1.0, 0.0, math.nan, math.inf, "x"):
        with pytest.raises(gs.GossamerError, match="a schedule with ratio="):
            Decay(1.0, 0.0, ratio)
    step = Decay(np.float32(0.1), np.float16(0.9))
    assert type(step.initial) is type(step.exponent) is float
    assert step(7) == float(np.float32(0.1)) / 8 ** float(np.float16(0.9))


@pytest.mark.parametrize("keeps", [0.5, 1e-3, 1e-6, 1e-9, 11 * 2.0**-53])
def test_the_ledgers_z_is_the_one_that_a_learner_computes(keeps):
    """I + R cancels where 1 + R_ii is small: the ledger's z was up to 1.7 times too large."""
    m = 5
    R = (1 - keeps) * (np.roll(np.eye(m), -1, axis=0) - np.eye(m))
    net = Network(R, R.T)
    rows, off = net.rows(), np.array(net.off_diagonal("R"))
    z = np.eye(m)
    for t, own in enumerate(net.own_weights(40)):
        np.testing.assert_allclose(own, np.diag(z), rtol=1e-13)
        assert t < 40
        z = (1 + rows.R_ii) * z + off @ z


def test_own_weights_that_cannot_be_told_from_nothing_make_no_claim_on_messages():
    R = 1e-9 * (np.roll(np.eye(4), -1, axis=0) - np.eye(4))
    net = Network(R, R.T)
    algorithm = gs.ldp_gradient_tracking(gs.decay(0.1, 0.8))
    with pytest.raises(gs.GossamerError, match=r"gives away 1\.0e-09 of its state"):
        Laplace.for_budget(1.0).terms(setting(algorithm, network=net))
    assert Laplace.for_budget(1.0, where="source").terms(setting(algorithm, network=net))


def test_what_the_recursion_is_given_is_made_larger_than_its_rounding():
    algorithm = gs.push_pull(gs.decay(0.1, 0.8))
    found = algorithm.dynamics(NET.rows([1]), NET.own_weights(5)[:, 1])
    more = enlarged(found)
    C = NET.C[1, 1]
    assert (more.A >= found.A * (1 + 2.0**-31)).all()
    assert (more.b[:, 1] >= abs((1 + C) - 1) * (1 + 2.0**-31)).all(), "what code has for |C_ii|"


# -- calibration ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism", [Laplace.for_budget(1.0), Gaussian.for_budget(1.0, 1e-5)], ids=["laplace", "gaussian"]
)
@pytest.mark.parametrize(("n", "rounds", "step"), [(5, 12, 0.1), (10_000, 300, 1e-3), (200_000, 100, 1e-3)])
def test_budgets_are_used_to_a_hundredth_also_where_rounding_is_much_of_them(mechanism, n, rounds, step):
    """Where rounding cost as much as the records, four to hundreds of times too much noise was found."""
    small = setting(gs.dsgd(gs.decay(step, 0.6)), 5, rounds, per_round=3)
    for terms in mechanism.terms(small._replace(coordinates=n)):
        assert 0.99 <= Accountant(terms).epsilon_at(rounds, mechanism.delta) <= 1.0


def test_what_one_round_costs_nothing_gets_a_scale_that_can_be_drawn():
    made = Laplace.for_budget(1.0, horizon=1).terms(setting(gs.dsgd(gs.decay(0.1, 0.6))))[0]
    assert 0 < made.initial < math.inf
    gs.privacy.exact_laplace(np.zeros(3), made.initial)


def test_scales_that_are_large_in_between_are_refused():
    made = Laplace(Decay(1.0, -100.0, 0.6))
    with pytest.raises(gs.GossamerError, match="expected at most 1e\\+90 throughout the run"):
        made.bind(setting(gs.dsgd(gs.decay(0.1, 0.6)), rounds=1000))


def test_a_schedule_that_looks_at_many_rounds_at_once_is_asked_round_by_round():
    def collapses(t):
        return 1.0 if np.all(t < 5) else 1e-9

    def plain(t):
        return 1.0 if t < 5 else 1e-9

    found = [setting(gs.ldol(step=step, strict=False)).rounding(0, 12) for step in (collapses, plain)]
    np.testing.assert_array_equal(found[0].of_gradient, found[1].of_gradient)
    assert found[0].of_gradient[0] > 1e6 * found[0].of_gradient[11]


def test_clipping_to_something_that_is_not_public_is_not_bounded():
    one = gs.privacy.rounding.Bounded(1.0, 0.0)
    assert one.clip(-1.0, 1.0) is one
    assert one.clip(one, 1.0) is NotImplemented


def test_delta_pays_for_the_grid_of_many_coordinates():
    small = setting(gs.dsgd(gs.decay(0.1, 0.6)))
    terms = Laplace(gs.decay(1.0, 0.6)).terms(small._replace(coordinates=1000))[0]
    assert delta_left(1e-6, terms.numbers(100)) == 1e-6 * (1 - 2.0**-41 * 1000 * 100)


# -- values that decide nothing but themselves ---------------------------------------------------------------------


def test_without_ranges_no_value_decides_how_features_lie():
    """All 0 or 1 used to be packed, and one 0.5 unpacked everybody's records: other sums, other rounding, for all."""
    X, y = np.ones((2, 6, 3)), np.zeros((2, 6))
    other = X.copy()
    other[0, 0, 0] = 0.5
    assert [gs.streams.from_arrays(each, y).table.codebook for each in (X, other)] == [None, None]
    packed = gs.streams.from_arrays(X.astype(bool), y).table
    assert packed.codebook is not None
    assert "declare ranges=(0, 1)" in packed.undeclared
    assert gs.streams.from_arrays(X.astype(bool), y, ranges=(0, 1)).table.undeclared == ""


def test_huge_values_neither_hang_a_run_nor_stop_it():
    X, y = np.zeros((3, 4, 2)), np.arange(12.0).reshape(3, 4)
    for value, label in ((1.0, 1e160), (1e99, 0.0)):
        X[0, 0, 0], y[0, 0] = value, label
        stream = gs.streams.from_arrays(X, y, ranges=(-1e99, 1e99))
        run = gs.simulate(
            gs.dsgd(gs.decay(0.1, 0.6)), gs.Network.ring(3), stream, model=gs.RidgeRegression(clip=gs.clip_l1(1.0)),
            privacy=Laplace.for_budget(1.0, where="source"), gradient="latest", steps=4,
        )  # fmt: skip
        assert run.t == 4
        assert any("θ* are not known" in note for note in run.notes)


@pytest.mark.parametrize("declared", [["a", " b"], ["a", "b\nc"]])
def test_names_that_no_line_can_carry_are_not_declared(declared):
    with pytest.raises(gs.GossamerError, match="expected names without line breaks"):
        Schema("y", ("0", "1"), {}, {"x": declared})


def test_a_large_label_or_norm_outside_what_is_declared_is_noticed():
    from gossamer.records import FeatureBounds, Table
    from gossamer.streams.stream import checked_bounds

    for rows in (np.full((2, 100), 16, np.uint8), np.full((2, 4), -128, np.int8), np.full((2, 4), np.nan)):
        with pytest.raises(gs.GossamerError, match="above the declared"):
            checked_bounds(Table(rows, np.zeros(2), None, rows.shape[1], bounds=FeatureBounds(1.0, 1.0, 1.0)))
    table = Table(np.ones((2, 1)), np.array([0.0, 7.0]), None, 1, bounds=FeatureBounds(1.0, 1.0, 1.0), classes=2)
    with pytest.raises(gs.GossamerError, match="the label 7, expected one of the 2 declared"):
        gs.LogisticRegression().memory(table, "latest", np.ones(1, dtype=np.int64))


# -- records and mechanisms in the hands of others -----------------------------------------------------------------


def run(steps=10, resume=None, callback=None, privacy=None):
    return gs.simulate(
        gs.ldp_gradient_tracking(gs.decay(0.1, 0.8)), NET, stream_of(3, 20), model=gs.LogisticRegression(),
        privacy=privacy or Laplace.for_budget(4.0, horizon=20), steps=steps, resume=resume, callback=callback,
    )  # fmt: skip


def test_a_private_record_is_gone_on_from_once_in_a_process():
    kept = []
    part = run(10, callback=lambda p: kept.append(p.record()) if p.t == 5 else None)
    with pytest.raises(gs.GossamerError, match="was gone on from already"):
        run(20, resume=kept[0])
    whole = run(20, resume=part)
    assert whole.t == 20
    with pytest.raises(gs.GossamerError, match="was gone on from already"):
        run(20, resume=part)
    with pytest.raises(gs.GossamerError, match="expected a record that simulate"):
        run(20, resume="record.npz")


def test_a_mechanism_of_ones_own_makes_no_claim():
    class Mine(gs.privacy.Mechanism):
        law = gs.privacy.LAWS["laplace"]

        def bind(self, setting):
            raise AssertionError("nobody may ask it")

    with pytest.raises(gs.GossamerError, match="nothing is proved of a mechanism of one's own"):
        run(privacy=Mine(gs.decay(1.0, 0.6)))
