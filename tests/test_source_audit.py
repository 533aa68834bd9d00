"""Noise at the source before judges of its own: brute force from the equations, other libraries, and the audit."""

from __future__ import annotations

import itertools
import math
from collections import deque
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.checks.audit import findings, power
from gossamer.checks.climb import worst_found
from gossamer.checks.defects import DEFECTS
from gossamer.checks.noise import noise_findings
from gossamer.checks.worlds import Case
from gossamer.privacy import Accountant, Gaussian, Laplace
from gossamer.privacy.accountant import total, total_for_ever
from gossamer.privacy.releases import every, thinning

NET = gs.Network.from_edges(3, [(0, 1), (1, 2), (2, 0)], 0.5)
ALGORITHM = gs.ldp_gradient_tracking(step=gs.decay(0.05, 0.8))
SCHEDULES = {
    "every": every(1),
    "late": every(2, after=3),
    "ended": every(1, after=1, until=6),
    "thinned": thinning(1.5, after=2),
}
DELTA = 1e-5


def mechanism_of(law, releases, band=1, exponent=0.3, scale=1.0):
    given = {} if law == "laplace" else {"delta": DELTA}
    return {"laplace": Laplace, "gaussian": Gaussian}[law](
        gs.decay(scale, exponent), "source", releases=releases, band=band, **given
    )


def case_of(law, releases, gradient="history", band=1, model=None, **given):
    model = gs.LogisticRegression(l2=0.01) if model is None else model
    rest = {"rounds": 9, "per_round": 2, **given}
    exponent = rest.pop("exponent", 0.3)
    return Case(ALGORITHM, NET, model, mechanism_of(law, releases, band, exponent), gradient, **rest)


# -- brute force -------------------------------------------------------------------------------------------------------


def release_rounds(releases, rounds):
    """From the words of the schedule, by walking."""
    found, t = [], releases.after
    while t < min(rounds, releases.until):
        found.append(t)
        t = max(t + releases.step, math.ceil(releases.ratio * (t + 1)) - 1)
    return found


def root_of_ones(size):
    """The first column of the lower triangular F with F F = ones below the diagonal, solved for one by one."""
    f = [1.0]
    for k in range(1, size):
        f.append((1 - sum(f[i] * f[k - i] for i in range(1, k))) / 2)
    return f


def worst_by_hand(*, c, N, window, t, scales, band, squared):
    """Σ shift or Σ shift², the largest over records, and over how a record may move each mean: up, down or not."""
    f, worst = root_of_ones(band), 0.0
    for k in range(max(t) + 1):
        moved = [2 * c / (N * min(s + 1, window)) if k <= s < k + window else 0.0 for s in t]
        signs = [(-1, 0, 1) if move else (0,) for move in moved]
        for way in itertools.product(*signs):
            shifts = [
                abs(sum(f[j - i] * way[i] * moved[i] for i in range(max(0, j - band + 1), j + 1))) / scales[j]
                for j in range(len(t))
            ]
            worst = max(worst, sum(s**2 if squared else s for s in shifts))
    return worst


PROVED = [
    (name, window, band)
    for name, window, band in itertools.product(SCHEDULES, (1, 3, math.inf), (1, 2, 3))
    if band == 1 or (SCHEDULES[name].ratio == 1 and window != 3)  # the others are refused
]


@pytest.mark.parametrize(("name", "window", "band"), PROVED)
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_totals_are_what_brute_force_over_records_and_moves_finds(law, name, window, band):
    releases, rounds = SCHEDULES[name], 8
    for exponent in (0.3, -0.4):
        case = case_of(law, releases, "latest" if window == 1 else "history", band, rounds=rounds, exponent=exponent)
        terms = replace(case.terms[0], window=float(window))
        t = release_rounds(releases, rounds)
        squared = law == "gaussian"
        expected = worst_by_hand(
            c=1.0, N=2, window=window, t=t, scales=[(s + 1.0) ** -exponent for s in t], band=band, squared=squared
        )
        assert total(terms, rounds, squared) == pytest.approx(expected, rel=1e-6)
        assert total(terms, rounds, squared) >= expected


def test_what_is_released_from_a_schedules_end_on_is_not_booked():
    ended, endless = (case_of("gaussian", every(2, after=1, until=u), "latest") for u in (6, math.inf))
    at_the_end = total(ended.terms[0], 6, True)
    assert total(ended.terms[0], 1000, True) == at_the_end < total(endless.terms[0], 1000, True)


@pytest.mark.parametrize(
    ("law", "releases", "band", "exponent", "held"),
    [
        ("gaussian", every(3, after=4), 1, 0.0, math.inf),
        ("gaussian", every(3, after=4), 4, 0.3, math.inf),
        ("laplace", thinning(1.2, after=3), 1, 0.3, math.inf),
        ("laplace", every(2), 1, -0.5, math.inf),
        ("gaussian", every(2), 3, -0.8, 40.0),
    ],
)
def test_a_budget_for_ever_is_above_a_million_rounds_and_not_far(law, releases, band, exponent, held):
    terms = replace(case_of(law, releases, band=band, exponent=exponent).terms[0], held_at_most=held)
    t = np.array(release_rounds(releases, 10**6))
    moved = 2 / np.minimum(2 * (t + 1.0), held)
    shifts = np.convolve(moved, root_of_ones(band))[: len(t)] * (t + 1.0) ** exponent
    squared = law == "gaussian"
    direct = float((shifts ** (1 + squared)).sum())
    assert direct <= total_for_ever(terms, squared) <= 1.02 * direct


# -- other libraries ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gradient", "band"), [("history", 1), ("history", 3), ("latest", 3)])
def test_gaussian_budgets_are_those_of_dp_accounting(gradient, band):
    dp_accounting = pytest.importorskip("dp_accounting", reason="needs the extra `accounting`")
    pld = pytest.importorskip("dp_accounting.pld")
    case = case_of("gaussian", every(1, after=2), gradient, band, rounds=9, exponent=0.0)
    ledger = Accountant(case.terms[0], delta=DELTA)
    ledger.step(9)
    theirs = pld.PLDAccountant().compose(ledger.to_dp_event()).get_epsilon(DELTA)
    assert ledger.get_epsilon(DELTA) == pytest.approx(theirs, rel=2e-3)
    window = 1 if gradient == "latest" else math.inf
    t = release_rounds(every(1, after=2), 9)
    square = worst_by_hand(c=1.0, N=2, window=window, t=t, scales=[1.0] * len(t), band=band, squared=True)
    one = pld.PLDAccountant().compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(square))).get_epsilon(DELTA)
    assert ledger.get_epsilon(DELTA) == pytest.approx(one, rel=2e-3)


@pytest.mark.parametrize("band", [1, 2, 4, 7])
def test_the_correlation_and_its_sensitivity_are_those_of_jax_privacy(band):
    pytest.importorskip("jax_privacy", reason="needs the extra `audit`")
    from jax_privacy.matrix_factorization import sensitivity, toeplitz

    n, terms = 6, case_of("gaussian", every(1), "latest", band, exponent=0.0).terms[0]
    coefficients = toeplitz.optimal_max_error_strategy_coefs(band)
    assert np.allclose(terms.factor, coefficients, rtol=1e-6)
    F = toeplitz.materialize_lower_triangular(coefficients, n)
    once = float(sensitivity.single_participation_sensitivity(F))
    assert math.sqrt(total(terms, n, True)) == pytest.approx(once, rel=1e-5)  # 2c/N = 1
    # A history that ended after a round of two records: every release's mean is over those, and one moves them by 1.
    ended = replace(terms, window=math.inf, held_at_most=2.0)
    always = math.sqrt(float(toeplitz.minsep_sensitivity_squared(coefficients, 1, n, n)))
    assert math.sqrt(total(ended, n, True)) == pytest.approx(always, rel=1e-5)


# -- the audit ---------------------------------------------------------------------------------------------------------

AUDITED = {
    "history by rule": ("gaussian", None, "history", 1),
    "history, every": ("laplace", every(1), "history", 1),
    "history, late": ("gaussian", every(2, after=3), "history", 1),
    "history, thinned": ("laplace", thinning(1.5, after=2), "history", 1),
    "history, ended": ("gaussian", every(1, after=1, until=6), "history", 1),
    "history, correlated": ("gaussian", every(1, after=2), "history", 3),
    "history, correlated laplace": ("laplace", every(2), "history", 2),
    "latest, correlated": ("gaussian", every(1), "latest", 3),
    "latest, late": ("laplace", every(2, after=1, until=7), "latest", 1),
}


@pytest.mark.parametrize("name", AUDITED)
def test_the_audit_holds_and_attains_the_bound(name):
    found = list(findings(case_of(*AUDITED[name])))
    assert [f for f in found if not f.holds] == []
    assert power(found) >= 0.99


def test_methods_without_a_recursion_are_audited_at_the_source():
    bare = replace(ALGORITHM, dynamics=None)
    found = gs.audit(bare, NET, gs.LogisticRegression(), mechanism_of("gaussian", every(1, after=2)), "history")
    assert all(f.holds for f in found)
    assert power(found) >= 0.99


@pytest.mark.parametrize(
    ("model", "mechanism", "gradient"),
    [
        (gs.SoftmaxRegression(classes=3, l2=0.01), mechanism_of("laplace", every(2, after=1)), "history"),
        (
            gs.LogisticRegression(l2=0.01, clip=gs.clip_l2(0.5, per="round")),
            mechanism_of("gaussian", every(2, after=1), band=2),
            "latest",
        ),
        (gs.LogisticRegression(l2=0.01), Laplace(gs.decay(1.0, 0.6), split={"s": 2.0}), "history"),
    ],
    ids=["softmax", "clipped per round", "split on messages"],
)
def test_other_models_and_shapes_of_noise_hold(model, mechanism, gradient):
    found = list(findings(Case(ALGORITHM, NET, model, mechanism, gradient, 9, 2)))
    assert [f for f in found if not f.holds] == []
    assert power(found) >= (0.99 if mechanism.where == "source" else 0.5)


def test_an_audit_that_nothing_is_released_in_is_refused():
    with pytest.raises(gs.GossamerError, match="none of the run's 12 rounds releases"):
        gs.audit(ALGORITHM, NET, gs.LogisticRegression(), mechanism_of("laplace", every(1, after=50)), "history")


class Remembering:
    """A linear model that remembers the newest rounds only, as networks do."""

    def __init__(self, model, rounds):
        self._model, self.remember = model, rounds

    def __getattr__(self, name):
        return getattr(self._model, name)

    def memory(self, table, keep, room):
        kept, model = deque(maxlen=self.remember), self._model

        class Window:
            def observe(self, batch):
                kept.append(batch)

            def gradient(self, theta):
                whole = model.memory(table, "history", room)
                for batch in kept:
                    whole.observe(batch)
                return whole.gradient(theta)

        return Window()


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_window_of_rounds_holds_and_attains_the_bound(law):
    model = gs.LogisticRegression(l2=0.01)
    case = case_of(law, every(1, after=1), model=Remembering(model, 3))
    assert case.terms[0].window == 3
    found = list(findings(case))
    assert [f for f in found if not f.holds] == []
    assert power(found) >= 0.99


def test_a_window_that_is_shorter_than_is_booked_is_caught():
    case = case_of("gaussian", every(1, after=1), model=Remembering(gs.LogisticRegression(), 3))
    shorter = Remembering(gs.LogisticRegression(), 3)
    shorter.memory = Remembering(gs.LogisticRegression(), 1).memory
    assert (worst_found(replace(case, model=shorter), tries=4, climbs=0).losses > 1.1 * case.claims).all()


def test_before_the_first_release_nothing_is_spent():
    for band, gradient in itertools.product((1, 3), ("latest", "history")):
        terms = case_of("gaussian", every(1, after=5), gradient, band).terms[0]
        assert Accountant(terms, delta=DELTA).epsilon_at(5, DELTA) == total(terms, 5, True) == 0
        assert total(terms, 6, True) > 0


def test_learners_that_release_in_different_rounds_have_their_own_past():
    budgets = (0.05, 50.0, 50.0)
    mechanism = Gaussian.for_budget(budgets, DELTA, where="source", band=4)
    model = gs.LogisticRegression(l2=0.01)
    case = Case(gs.ldp_gradient_tracking(step=gs.decay(0.5, 0.6)), NET, model, mechanism, "history", 40, 2)
    assert len({str(terms.releases) for terms in case.terms}) > 1
    assert [f for f in noise_findings(case) if not f.holds] == []
    assert (worst_found(case, tries=3, climbs=0).losses <= case.claims).all()


def defect_named(words):
    return next(defect for defect in DEFECTS if words in defect.name)


@pytest.mark.parametrize(
    "words", ["counted twice", "before the first", "sees the mean", "after the noise", "without their noise"]
)
def test_a_replay_alone_refutes_the_defects_of_the_source(words):
    """Each is found by a check that is about it, first; the largest replayed loss is above the claim as well."""
    case = case_of("gaussian", every(1, after=2), band=2, model=gs.RidgeRegression(l2=0.01, clip=gs.clip_l2(0.5)))
    defect = defect_named(words)
    assert defect.needs(case)
    losses = worst_found(defect.plant(case), tries=6, climbs=0).losses
    assert (losses > 1.0001 * case.claims).any()


def test_defects_are_planted_only_where_they_can_be():
    messages = replace(case_of("laplace", every(1)), mechanism=Laplace(gs.decay(1.0, 0.6)))
    prompt = case_of("laplace", every(1))
    for words, case in (
        ("before the first", prompt),
        ("without their noise", prompt),
        ("sees the mean", prompt),
        ("before the first", messages),
        ("counted twice", messages),
        ("not bounded", prompt),
    ):
        assert not defect_named(words).needs(case)
