"""The observer with some learners' keys: what we ship holds, it comes near the claim, and it sees every defect."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.checks import pairs as observer
from gossamer.checks.audit import findings, power
from gossamer.checks.climb import worst_found
from gossamer.checks.covariance import covariance, direction, seen_with, worst_keys
from gossamer.checks.defects import DEFECTS
from gossamer.checks.keys import Keys
from gossamer.checks.noise import SourceReleases, noise_findings
from gossamer.checks.pairs import pair_findings
from gossamer.checks.worlds import Case
from gossamer.privacy.releases import every

ALGORITHM = gs.ldp_gradient_tracking(step=gs.decay(0.05, 0.8))
DELTA = 1e-5
WEIGHTS = (0.5, 1.5, 1.0, 0.8, 1.2)


def case_of(secrets, m=5, gradient="latest", weights=(), scale=1.0, exponent=0.0, **given):
    given = {"releases": every(1), **given}
    mechanism = gs.Gaussian(gs.decay(scale, exponent), "source", delta=DELTA, secrets=secrets, **given)
    model = gs.LogisticRegression(l2=0.01)
    return Case(ALGORITHM, gs.Network.ring(m), model, mechanism, gradient, 8, 2, weights=weights)


def near(found):
    """μ of the best test that the claim allows, as a share of the claim."""
    return next(f.measured for f in found if "μ of the claimed" in f.check)


CASES = {
    "complete, no colluders": case_of(gs.Secrets(colluders=0, share=1.0)),
    "complete, all but one colluder": case_of(gs.Secrets(colluders=3, share=4.0)),
    "a circle": case_of(gs.Secrets("4-regular", colluders=2, share=2.0), m=8),
    "a network": case_of(gs.Secrets(gs.Network.paper(), colluders=1, share=1.0), m=10),
    "fading, correlated": case_of(
        gs.Secrets(colluders=1, share=0.5), gradient="history", exponent=0.3, band=3, releases=every(2, after=1)
    ),
    "weighted": case_of(gs.Secrets(colluders=2, share=1.0), weights=WEIGHTS, scale=[1 / w for w in WEIGHTS]),
    "two learners": case_of(gs.Secrets(colluders=0, share=1.0), m=2),
}


@pytest.mark.parametrize("name", CASES)
def test_what_we_ship_holds_and_the_observer_comes_near_the_claim(name):
    found = list(pair_findings(CASES[name]))
    assert [f for f in found if not f.holds] == []
    assert near(found) >= 0.97


def replayed(case):
    """The largest loss of replays with the worst records that we can think of, of the claim, learner by learner."""
    return np.sqrt(worst_found(case, tries=3, climbs=0).losses / case.claims)


def test_unequal_budgets_hold_and_replays_come_near():
    """Others whose noise is larger than what was agreed on hide a little more than is claimed."""
    given = gs.Gaussian.for_budget(
        (0.5, 0.7, 1.0, 1.5, 2.0), DELTA, where="source", releases=every(1), secrets=gs.Secrets(colluders=1, share=1.0)
    )
    case = replace(CASES["weighted"], mechanism=given)
    found = [*pair_findings(case), *noise_findings(case)]
    assert [f for f in found if not f.holds] == []
    assert 0.7 <= near(found) <= 1
    assert replayed(case).max() == pytest.approx(near(found), rel=0.03)


def test_the_whole_audit_holds_and_attains_the_claim_where_all_have_the_same_noise():
    found = list(findings(CASES["a circle"]))
    assert [f for f in found if not f.holds] == []
    assert 0.99 <= power(found) <= 1


def test_standardised_records_hold_too():
    head = gs.privacy.Releases(1, 4, head=2, pause=1)
    clip, standard = gs.clip_l2(0.5), gs.models.standard.Standardise((0, 1))
    model = gs.LogisticRegression(0.01, clip, intercept=True, standardise=standard)
    case = replace(case_of(gs.Secrets(colluders=1, share=1.0), gradient="history", releases=head), model=model)
    assert [f for f in [*pair_findings(case), *noise_findings(case)] if not f.holds] == []
    assert (replayed(case) <= 1).all()
    assert replayed(case).max() >= 0.9


def of_pairs():
    """The defects that a case has with secrets alone."""
    case = CASES["weighted"]
    bare = replace(case, mechanism=replace(case.mechanism, secrets=None))
    return [defect for defect in DEFECTS if defect.needs(case) and not defect.needs(bare)]


def test_the_defects_of_pair_secrets_are_all_there():
    assert len(of_pairs()) == 9


@pytest.mark.parametrize("defect", of_pairs(), ids=lambda defect: defect.name)
def test_a_defect_is_found_first_by_the_check_that_is_about_it(defect):
    first = next(f for f in findings(defect.plant(CASES["weighted"])) if not f.holds)
    assert defect.caught_by in first.check


def test_one_key_more_breaks_the_claim_and_is_looked_for_only_where_it_tells():
    found = {f.check: f for f in pair_findings(CASES["a circle"])}
    (one_more,) = (f for check, f in found.items() if "one too many" in check)
    assert one_more.holds
    assert one_more.measured > 1.02
    faint = case_of(gs.Secrets(colluders=1, share=1 / 64))  # pairs that hide nothing: a key tells nothing
    assert not any("one too many" in f.check for f in pair_findings(faint))


def test_an_observer_who_may_choose_takes_the_keys_that_tell_most():
    path = ((0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (1, 3))
    own = np.array([1.0, 2.0, 1.0, 3.0, 1.0])
    for i in range(5):
        best = worst_keys(own, path, 1.5, i, 2)
        every_choice = [seen_with(own, path, 1.5, i, some) for some in pairs_of([j for j in range(5) if j != i])]
        assert seen_with(own, path, 1.5, i, best) == max(every_choice)
    assert seen_with(own, path, 1.5, 0, (1, 4)) == pytest.approx(1.0)  # its partners' keys tell all


def pairs_of(others):
    return [(a, b) for at, a in enumerate(others) for b in others[at + 1 :]]


def test_many_choices_are_made_one_by_one(monkeypatch):
    monkeypatch.setattr("gossamer.checks.covariance.MOST_CHOICES", 1)
    ring = tuple((i, (i + 1) % 9) for i in range(9))
    assert sorted(worst_keys(np.ones(9), ring, 2.0, 4, 2)) == [3, 5]


def test_the_direction_of_the_test_is_that_of_the_likelihood_ratio():
    """log p(x − Δ e_i) − log p(x) = Δ eᵢᵀ Σ⁻¹ x − Δ²/2 (Σ⁻¹)_ii, from the densities themselves."""
    edges, own = ((0, 1), (0, 2), (1, 2), (2, 3)), np.array([1.0, 2.0, 1.5, 1.0])
    whole = covariance(own, edges, 0.8)
    x, shift = np.random.default_rng(0).normal(size=4), 0.7 * np.eye(4)[2]

    def log_density(z):
        return -z @ np.linalg.solve(whole, z) / 2

    along = direction(own, edges, 0.8, 2, ())
    assert log_density(x - shift) - log_density(x) == pytest.approx(0.7 * along @ x - 0.7**2 / 2 * along[2], rel=1e-12)
    assert seen_with(own, edges, 0.8, 2, ()) == pytest.approx(1.5 * math.sqrt(along[2]), rel=1e-12)


def test_own_noise_set_to_zero_leaves_the_sum_of_the_rounded_gradients(monkeypatch):
    monkeypatch.setattr("gossamer.privacy.table.own_gaussian", lambda row, deviation: None)
    case = CASES["complete, all but one colluder"]
    boundary = case.boundary()
    keys, values = Keys(boundary, case.terms), np.random.default_rng(0).normal(size=(5, 200))
    released = boundary.gradient(3, values)
    steps, rounded = np.rint(released / keys.grid(3)), np.rint(values / keys.grid(3))
    assert (steps.sum(axis=0) == rounded.sum(axis=0)).all()
    assert (steps != rounded).all()


def test_keys_tell_all_but_the_learners_own_noise():
    case = CASES["weighted"]
    boundary = case.boundary()
    releases, keys, zeros = SourceReleases(boundary, case), Keys(boundary, case.terms), np.zeros((5, 20_000))
    noise = releases.release("gradient", 2, zeros)
    own = noise - keys.in_gradients(2, 20_000)
    assert own.std(axis=1) == pytest.approx([terms.scale(2) for terms in case.terms], rel=0.03)
    assert noise.std(axis=1) == pytest.approx([math.sqrt(5) / w for w in WEIGHTS], rel=0.03)


def test_false_alarms_are_as_rare_as_is_said():
    """Bounds on a deviation hold for all but a stated share of draws; here one in a hundred, of 4000."""
    low, high = observer._deviation_within(50, 0.01)
    drawn = np.sqrt((np.random.default_rng(1).normal(size=(4000, 50)) ** 2).mean(axis=1))
    assert 10 <= ((drawn < low) | (drawn > high)).sum() <= 75
