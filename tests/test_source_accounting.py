"""Noise at the source over a history: what a record can cost, worked out here from the definition alone."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gossamer as gs
from gossamer.errors import BadValue, BudgetUnmet, GossamerError, NotProvable
from gossamer.models.bounds import MOST_RECORDS as MOST_OF_ONE_MEAN
from gossamer.privacy.accountant import Accountant, Terms, curve, epsilon_curve, losses, total, total_for_ever
from gossamer.privacy.laws import GAUSSIAN, LAPLACE
from gossamer.privacy.recursion import GradientBound
from gossamer.privacy.releases import Releases, every, thinning
from gossamer.privacy.source import MOST_RECORDS, coefficients
from gossamer.types import Dynamics

NOTHING = Dynamics(np.zeros((1, 1, 1)), np.zeros((1, 1)), 0.0, point=0, channels={"theta": 0})


def terms(**other: Any) -> Terms:
    usual: dict[str, Any] = {
        "law": GAUSSIAN,
        "where": "source",
        "bound": GradientBound(0.5, math.inf, 0.0, 2),
        "window": math.inf,
        "dynamics": lambda rounds: NOTHING,
        "settles": 0.0,
        "initial": 0.3,
        "exponent": 0.2,
        "coordinates": 5,
        "records_in_round": 2,
        "releases": every(3, after=7),
    }
    return Terms(**usual | other)


def worst(
    law: Any, rounds: int, released: list[int], window: float, c: float, N: int, sigma: Any, f: list[float]
) -> float:
    """max over k of Σ_j (Σ_i f_{j−i} 2c/n_i [k ≤ t_i < k+R] / σ_j)^p, as the definition has it."""
    p, t, totals = 2 if law is GAUSSIAN else 1, [s for s in released if s < rounds], []
    for k in range(rounds):
        moved = [2 * c / (min(s + 1, window) * N) if k <= s < k + window else 0.0 for s in t]
        seen = [sum(f[j - i] * moved[i] for i in range(j + 1) if j - i < len(f)) for j in range(len(t))]
        totals.append(sum((x / sigma(s)) ** p for x, s in zip(seen, t, strict=True)))
    return max(totals)


@pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("window", [1.0, 4.0, math.inf])
@pytest.mark.parametrize("releases", [every(), every(3, after=7), every(2, after=5, until=20), thinning(1.3, after=4)])
@pytest.mark.parametrize("exponent", [-0.5, 0.0, 0.3])
def test_total_is_that_of_the_worst_record(law: Any, window: float, releases: Releases, exponent: float) -> None:
    t = terms(law=law, window=window, releases=releases, exponent=exponent)
    released = list(releases.before(30))
    for rounds in (1, 8, 30):
        exact = worst(law, rounds, released, window, 0.5, 2, t.scale, [1.0])
        assert exact * (1 - 1e-12) <= total(t, rounds, law.squared) <= exact * (1 + 1e-6) + 1e-300


@pytest.mark.parametrize("window", [1.0, math.inf])
@pytest.mark.parametrize("band", [2, 5])
def test_total_with_correlated_noise(window: float, band: int) -> None:
    f = coefficients(band)
    t = terms(window=window, factor=f, releases=every(2, after=3), exponent=-0.1)
    exact = worst(GAUSSIAN, 25, list(range(3, 25, 2)), window, 0.5, 2, t.scale, list(f))
    assert exact * (1 - 1e-12) <= total(t, 25, True) <= exact * (1 + 1e-6)


def test_coefficients_are_the_square_root_of_prefix_sums() -> None:
    n = 12
    F = np.array([[coefficients(n)[j - i] if j >= i else 0.0 for i in range(n)] for j in range(n)])
    np.testing.assert_allclose(F @ F, np.tril(np.ones((n, n))), atol=1e-12)


def test_release_schedules() -> None:
    assert list(every(3, after=4).before(12)) == [4, 7, 10]
    assert list(every(3, after=4, until=10).before(12)) == [4, 7]
    doubling = thinning(2.0, after=3)
    assert list(doubling.before(70)) == [3, 7, 15, 31, 63]
    for schedule in (
        every(3, after=4),
        every(2, after=1, until=9),
        thinning(1.2, after=5),
        thinning(2.0, after=3, until=20),
    ):
        listed = set(schedule.before(100))
        assert {t for t in range(100) if schedule.includes(t)} == listed
        assert all(schedule.count(T) == sum(t < T for t in listed) for T in range(100))


WRONG = (lambda: every(0), lambda: every(1, after=-1), lambda: every(1.5), lambda: thinning(0.9))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [*WRONG, lambda: every(1, after=9, until=9)])
def test_schedules_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(BadValue, match="expected"):
        wrong()


@pytest.mark.parametrize(
    ("releases", "exponent", "law"),
    [
        (every(1, after=50), 0.0, GAUSSIAN),
        (every(7, after=50), 0.3, GAUSSIAN),
        (every(1, after=3), -0.5, LAPLACE),
        (thinning(1.5, after=9), 0.2, LAPLACE),
        (thinning(2.0, after=9), 0.0, GAUSSIAN),
        (every(1, after=9, until=5000), 0.9, GAUSSIAN),
    ],
)
def test_for_ever_is_above_every_horizon_and_close(releases: Releases, exponent: float, law: Any) -> None:
    t = terms(law=law, releases=releases, exponent=exponent)
    ever = total_for_ever(t, law.squared)
    longest = total(t, 3_000_000, law.squared)
    assert longest <= ever
    p, rest = (2 if law.squared else 1) * (1 - exponent), 0.0
    if releases.ratio == 1 and math.isinf(releases.until):  # ∫ of the rest, from the definition
        rest = (2 * 0.5 / 2 / 0.3) ** (2 if law.squared else 1) * 3e6 ** (1 - p) / (p - 1) / releases.step
    assert ever <= (longest + rest) * 1.02


@pytest.mark.parametrize(
    ("releases", "exponent", "law"),
    [(every(), 0.5, GAUSSIAN), (every(), 0.0, LAPLACE), (thinning(2.0), 1.0, LAPLACE), (every(), 0.7, GAUSSIAN)],
)
def test_what_is_not_summable_is_not_finite_for_ever(releases: Releases, exponent: float, law: Any) -> None:
    assert total_for_ever(terms(law=law, releases=releases, exponent=exponent), law.squared) == math.inf


def test_records_that_end_are_booked_as_they_are() -> None:
    """Ten records in all: from round 5 on, each weighs a tenth."""
    ended = terms(held_at_most=10.0, releases=every(), exponent=0.0)
    exact = sum((2 * 0.5 / min(2 * (t + 1), 10) / 0.3) ** 2 for t in range(40))
    assert total(ended, 40, True) == pytest.approx(exact, rel=1e-8)
    assert total_for_ever(ended, True) == math.inf
    assert math.isfinite(total_for_ever(replace(ended, releases=every(until=100)), True))


def test_the_most_records_of_one_mean_is_one_number() -> None:
    assert MOST_RECORDS == MOST_OF_ONE_MEAN


def test_late_records_cost_less() -> None:
    ledger = Accountant(terms(releases=every(1, after=10), initial=0.05), delta=1e-5)
    by_round = ledger.epsilon_by_arrival(range(0, 60, 5), 60, 1e-5)
    assert by_round[0] == by_round[2] == pytest.approx(ledger.epsilon_at(60, 1e-5), rel=1e-6)
    assert all(a > b for a, b in itertools.pairwise(by_round[2:]))
    assert ledger.epsilon_by_arrival([60], 60, 1e-5)[0] == 0.0


def test_curves_and_losses_agree_with_totals() -> None:
    for law in (GAUSSIAN, LAPLACE):
        t = terms(law=law)
        counted = np.array([1.0, 7, 8, 20, 40])
        np.testing.assert_allclose(
            curve(t, counted, law.squared), [total(t, int(n), law.squared) for n in counted], rtol=1e-9
        )
        each = losses(t, 40)
        assert each is not None
        assert (each ** (2 if law.squared else 1)).sum() == pytest.approx(total(t, 40, law.squared), rel=1e-8)
    ledger = Accountant(terms(), delta=1e-5)
    np.testing.assert_allclose(
        epsilon_curve(ledger.terms, counted, 1e-5), [ledger.epsilon_at(int(n), 1e-5) for n in counted], rtol=1e-9
    )


NET = gs.Network.complete(3)


def stream(records: int = 40, per_round: int = 1, counts: tuple[int, ...] | None = None) -> Any:
    from gossamer.records import FeatureBounds, dense_table
    from gossamer.streams import OnePass

    counts = counts or (records,) * 3
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(sum(counts), 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    table = replace(dense_table(rows, (rows[:, 0] > 0).astype(float)), bounds=FeatureBounds(2.0, 1.0, 1.0))
    ends = np.cumsum(counts)
    return OnePass(table, [np.arange(b - a, b) for a, b in zip(counts, ends, strict=True)], per_round)


def learn(privacy: Any, data: Any = None, **other: Any) -> gs.Record:
    usual: dict[str, Any] = {"model": gs.LogisticRegression(clip=None), "steps": 40, "gradient": "history", "seed": 1}
    usual |= {"privacy": privacy, **other}
    step = usual.pop("step", gs.decay(2.0, 0.6))
    return gs.simulate(gs.ldp_gradient_tracking(step=step), NET, stream() if data is None else data, **usual)


@pytest.mark.parametrize("horizon", [None, math.inf, 400])
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
@pytest.mark.parametrize("law", ["gaussian", "laplace", "laplace at δ", "correlated"])
def test_calibration_is_never_above_its_target_and_at_most_one_percent_below(
    law: str, epsilon: float, horizon: float | None
) -> None:
    extra = {"band": 4} if law == "correlated" else {}
    if law in ("gaussian", "correlated"):
        mechanism: Any = gs.Gaussian.for_budget(epsilon, 1e-5, where="source", horizon=horizon, **extra)
    else:
        delta = 1e-5 if law == "laplace at δ" else 0.0
        mechanism = gs.Laplace.for_budget(epsilon, delta, where="source", horizon=horizon)
    model = gs.LogisticRegression()
    run = learn(mechanism, model=model)
    assert run.epsilon is not None
    claimed = run.epsilon.for_ever if horizon == math.inf else run.epsilon.spent if horizon is None else None
    if claimed is None:  # the run is shorter than the horizon
        assert run.epsilon.spent.max() <= epsilon
        return
    assert claimed.max() <= epsilon
    assert claimed.min() >= 0.99 * epsilon


def test_nothing_moves_before_the_first_release_nor_after_the_last() -> None:
    privacy = gs.Gaussian.for_budget(1.0, 1e-5, where="source", releases=gs.every(2, after=10, until=21))
    moved = []
    before = [np.zeros((3, 4))]

    def watch(progress: Any) -> None:
        theta = progress.record().state["theta"]
        moved.append(not np.allclose(theta.mean(axis=0), before[0].mean(axis=0), atol=1e-13, rtol=0))
        before[0] = theta

    run = learn(privacy, callback=watch, model=gs.LogisticRegression(l2=0.1))
    assert [t for t, yes in enumerate(moved) if yes] == list(range(10, 21, 2))  # on a complete graph means only mix
    spread = np.ptp(run.state["theta"], axis=0).max()
    assert spread < 1e-6  # twenty rounds of mixing alone


def test_a_spent_budget_means_no_further_release_while_mixing_goes_on() -> None:
    """A budget that affords 5 of 30 releases: the mean stands still from then on, the ridge included."""
    stated = gs.Gaussian(gs.decay(0.2, 0.0), "source", delta=1e-5, releases=gs.every(1, after=10))
    from gossamer.algorithms import ldp_gradient_tracking
    from gossamer.privacy import PrivateBoundary
    from gossamer.setting import setting_of

    data, model = stream(), gs.LogisticRegression(l2=0.1)
    algorithm = ldp_gradient_tracking(gs.decay(2.0, 0.6))
    bound = stated.bind(setting_of(algorithm, NET, data, model, "history", 40))
    budget = bound.ledgers[0].epsilon_at(15, 1e-5) * (1 + 1e-9)
    ledgers = [Accountant(ledger.terms, budget, 1e-5) for ledger in bound.ledgers]
    limited = PrivateBoundary(stated, ledgers, 40)
    assert list(limited.stops) == [15, 15, 15]
    assert [t for t in range(40) if np.any(limited.fresh(t))] == list(range(10, 15))


def test_a_run_goes_on_from_its_record_with_the_same_noise_and_plan() -> None:
    privacy = gs.Gaussian.for_budget(2.0, 1e-5, where="source", horizon=math.inf)
    stopped = learn(privacy, callback=lambda progress: progress.t == 30, step="auto")
    assert stopped.t == 30
    on = learn(privacy, resume=stopped, step="auto")
    assert on.t == 40
    assert on.epsilon is not None
    assert stopped.epsilon is not None
    assert on.config["noise"] == stopped.config["noise"]
    assert on.config["releases"] == stopped.config["releases"]
    assert on.config["algorithm"] == stopped.config["algorithm"]
    assert on.epsilon.spent[0] > stopped.epsilon.spent[0]


def test_no_record_has_the_gradients_that_correlated_noise_goes_on_from() -> None:
    privacy = gs.Gaussian.for_budget(2.0, 1e-5, where="source", band=5)
    stopped = learn(privacy, callback=lambda progress: progress.t == 35)
    assert set(stopped.state) == {"s", "theta", "z"}
    with pytest.raises(GossamerError, match="in one go"):
        learn(privacy, resume=stopped)


def test_learners_with_fewer_records_are_booked_by_what_they_have() -> None:
    """Sizes 40, 12 and 5: all go on for 40 rounds, and each pays its own budget."""
    privacy = gs.Gaussian.for_budget(1.0, 1e-5, where="source")
    run = learn(privacy, stream(counts=(40, 12, 5)))
    assert run.epsilon is not None
    assert (run.epsilon.spent <= 1.0).all()
    assert (run.epsilon.spent > 0.99).all()
    noise = [first for first, *_ in run.config["noise"]]
    assert noise[0] < noise[1] < noise[2]


def test_rounds_after_the_last_record_are_booked_too() -> None:
    run = learn(gs.Gaussian.for_budget(1.0, 1e-5, where="source"), steps=120)
    assert run.epsilon is not None
    assert 0.99 < run.epsilon.spent.max() <= 1.0
    with pytest.raises(BudgetUnmet, match="for ever"):
        learn(gs.Gaussian.for_budget(1.0, 1e-5, where="source", horizon=math.inf), steps=120)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: gs.Gaussian.for_budget(1.0, 1e-5, releases=gs.every(2)), "noise at the source"),
        (lambda: gs.Gaussian.for_budget(1.0, 1e-5, band=3), "noise at the source"),
        (lambda: gs.Gaussian.for_budget(1.0, 1e-5, where="source", band=0), "from 1 to"),
        (lambda: gs.Gaussian.for_budget(1.0, 1e-5, where="source", releases="every"), "expected every"),
        (
            lambda: gs.Gaussian.for_budget(1.0, 1e-5, where="source", band=3, releases=gs.thinning(2.0)),
            "even distances",
        ),
        (lambda: gs.Gaussian.for_budget(1.0, 1e-5, where="source", split={"s": 2.0}), "noise on messages"),
        (lambda: gs.Gaussian.for_budget(1.0, 1e-5, split={"s": -1.0}), "a factor from"),
    ],
)
def test_what_breaks_the_argument_is_refused(wrong: Any, said: str) -> None:
    with pytest.raises(GossamerError, match=said):
        wrong()


def test_records_that_are_drawn_again_are_refused() -> None:
    data = gs.datasets.mushrooms(3, draw="random", rows="l2")
    with pytest.raises(NotProvable, match="read once"):
        learn(gs.Gaussian.for_budget(1.0, 1e-5, where="source"), data)


# -- what an adversary found ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [0.5, 5.5, True, math.nan, 10**400, 10**9])
def test_releases_end_at_a_whole_round(end: Any) -> None:
    """A schedule that ended at round 0.5 released in round 0, and booked nothing for it."""
    with pytest.raises(BadValue, match="expected a round after 0"):
        every(1, until=end)


@pytest.mark.parametrize("ratio", [True, 1.0000001, 1e200, math.inf, "2"])
def test_thinning_is_by_a_number_that_can_be_worked_with(ratio: Any) -> None:
    with pytest.raises(BadValue, match="expected a number from"):
        thinning(ratio)
    assert every(np.int64(2), until=np.int64(9)) == every(2, until=9)  # type: ignore[arg-type]
    assert thinning(np.float32(1.5)) == thinning(1.5)  # type: ignore[arg-type]


def test_a_schedule_of_ones_own_kind_is_refused() -> None:
    class Always(Releases):
        def includes(self, t: int) -> bool:
            return True

    with pytest.raises(BadValue, match="expected every"):
        gs.Gaussian.for_budget(1.0, 1e-5, where="source", releases=Always(1, 29))


class Bursts:
    """A gap and then a burst: honest in `room`, and yet one record weighs more than in full rounds."""

    def __init__(self, inner: Any, until: int) -> None:
        self._inner, self._until = inner, until

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def arrivals(self, t: int) -> Any:
        batch = self._inner.arrivals(t)
        if 0 < t < self._until:
            nothing = np.zeros_like(batch.counts)
            return batch._replace(rows=batch.rows[:0], labels=batch.labels[:0], counts=nothing)
        return batch


@pytest.mark.parametrize("privacy", [gs.Gaussian.for_budget(1.0, 1e-5, where="source"), gs.Laplace.for_budget(9.0)])
def test_a_stream_that_brings_less_than_it_says_is_refused(privacy: Any) -> None:
    with pytest.raises(NotProvable, match="has 0 new records in round 1, and 1 are booked"):
        learn(privacy, Bursts(stream(), 20), step=gs.decay(0.5, 0.8))


def test_a_record_is_not_named_twice_by_counting_from_the_end() -> None:
    from gossamer.records import dense_table
    from gossamer.streams import OnePass

    table = dense_table(np.eye(4), np.zeros(4))
    for ids in (np.array([0, 1, 2, -4]), np.array([0, 4])):
        with pytest.raises(GossamerError, match="expected a number from 0 to 3"):
            OnePass(table, [ids, np.array([3])])


@pytest.mark.parametrize("split", [5, "ab", [1], [("s",)], {"s"}, (("s", 1000.0), ("s", 1.0)), None])
def test_a_split_that_is_none_gets_one_sentence(split: Any) -> None:
    with pytest.raises(BadValue, match="a factor for each channel, once"):
        gs.Gaussian.for_budget(1.0, 1e-5, split=split)


def test_what_a_method_does_not_send_cannot_be_split_and_what_is_not_released_cannot_be_learnt_from() -> None:
    with pytest.raises(BadValue, match="the method's channels are s, theta"):
        learn(gs.Gaussian.for_budget(50.0, 1e-5, split={"nope": 2.0}), step=gs.decay(0.5, 0.8))
    with pytest.raises(BadValue, match="none of the run's 40 rounds releases"):
        learn(gs.Gaussian.for_budget(1.0, 1e-5, where="source", releases=gs.every(1, after=50)))


def test_every_private_record_says_that_the_rest_of_it_is_not_noised() -> None:
    run = learn(gs.Gaussian.for_budget(1.0, 1e-5, where="source"))
    assert any("is not noised" in note for note in run.notes)
