"""The audit passes on what we ship, comes near the claim, and fails on every planted defect."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.checks.audit import findings, power
from gossamer.checks.defects import DEFECTS, self_test
from gossamer.checks.judge import judge
from gossamer.checks.noise import no_reuse, noise_law, one_copy
from gossamer.checks.worlds import Case
from gossamer.models.standard import Standardise
from gossamer.privacy import Gaussian, Laplace, law_named
from gossamer.privacy.releases import Releases, every, thinning

NET = gs.Network.paper()
ALGORITHM = gs.ldp_gradient_tracking(step=gs.decay(0.05, 0.8))
MECHANISMS = {
    "laplace messages": Laplace(gs.decay(1.0, 0.6)),
    "gaussian messages": Gaussian(gs.decay(1.0, 0.6), delta=1e-5),
    "laplace source": Laplace(gs.decay(1.0, 0.0), "source"),
    "gaussian source": Gaussian(gs.decay(1.0, 0.0), "source", delta=1e-5),
}
THINNED = Laplace(gs.decay(1.0, 0.3), "source", releases=thinning(1.3, after=2))
CORRELATED = Gaussian(gs.decay(1.0, 0.3), "source", delta=1e-5, releases=every(1, after=2), band=3)


def case_of(name, gradient, clipped, **given):
    mechanism = MECHANISMS[name]
    clip = gs.clip_l1(0.5) if mechanism.law.norm == 1 else gs.clip_l2(0.5)
    model = gs.RidgeRegression(l2=0.01, clip=clip) if clipped else gs.LogisticRegression(l2=0.01)
    return Case(ALGORITHM, NET, model, mechanism, gradient, **{"per_round": 2, **given})


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("gradient", ["history", "latest"])
@pytest.mark.parametrize("clipped", [False, True], ids=["logistic", "clipped ridge"])
def test_what_we_ship_passes_and_the_sceptic_comes_near(name, gradient, clipped):
    case = case_of(name, gradient, clipped, rounds=8)
    found = list(findings(case))
    assert [f for f in found if not f.holds] == []
    assert power(found) >= (0.99 if case.mechanism.where == "source" else 0.6)


def test_softmax_and_clipping_per_round_pass_too():
    softmax = gs.SoftmaxRegression(classes=3, l2=0.01)
    per_round = gs.LogisticRegression(l2=0.01, clip=gs.clip_l2(0.5, per="round"))
    for model, name in ((softmax, "laplace messages"), (per_round, "gaussian messages")):
        found = list(findings(replace(case_of(name, "latest", False, rounds=8), model=model)))
        assert [f for f in found if not f.holds] == []


HEAD = Releases(1, 6, head=3, pause=1)


def standardised_case(name, model, **given):
    mechanism = replace(MECHANISMS[name], scale=gs.decay(1.0, 0.3), releases=HEAD, **given)
    return Case(ALGORITHM, NET, model(gs.models.Clip(mechanism.law.norm, 0.5)), mechanism, "history", per_round=2)


def logistic(clip):
    return gs.LogisticRegression(0.01, clip, intercept=True, standardise=Standardise((0, 1)))


def softmax(clip):
    return gs.SoftmaxRegression(3, 0.01, clip, intercept=True, standardise=Standardise((0, 1)))


def quantity(clip):
    return gs.RidgeRegression(0.01, clip, intercept=True, standardise=Standardise((0, 1), label=True))


@pytest.mark.parametrize(
    ("name", "model", "band", "least"),
    [
        ("gaussian source", logistic, 1, 0.999),
        ("gaussian source", softmax, 3, 0.9),  # moments and gradients do not lie in one direction
        ("laplace source", quantity, 1, 0.9),  # of moments' L1 norm, of which 4/5 can change
    ],
)
def test_standardised_records_pass_and_the_sceptic_comes_near(name, model, band, least):
    found = list(findings(standardised_case(name, model, band=band)))
    assert [f for f in found if not f.holds] == []
    assert least <= power(found) <= 1


def secret_case():
    """Learners whose weighted gradients have the same noise, and share secrets with all others."""
    weights = (0.5, 1.5, 1.0, 1.5, 0.5)
    mechanism = replace(
        CORRELATED, scale=gs.decay([1 / w for w in weights], 0.3), secrets=gs.Secrets(colluders=2, share=1.0)
    )
    model = gs.RidgeRegression(l2=0.01, clip=gs.clip_l2(0.5))
    return Case(ALGORITHM, gs.Network.ring(5), model, mechanism, "history", per_round=2, weights=weights)


def windowed_case():
    """Learners that remember three rounds, which release from the first full window on."""
    mechanism = gs.Gaussian(gs.decay(1.0, 0.0), "source", delta=1e-5, releases=gs.every(1, after=2))
    model = gs.RidgeRegression(l2=0.01, clip=gs.clip_l2(0.5), remember=3)
    return Case(ALGORITHM, NET, model, mechanism, "history", per_round=2)


def test_windows_pass_and_the_sceptic_attains_the_claim():
    found = list(findings(windowed_case()))
    assert [f for f in found if not f.holds] == []
    assert 0.999 <= power(found) <= 1


PLANTED_IN = {
    "laplace, history, clipped": case_of("laplace messages", "history", True),
    "gaussian, latest, logistic": case_of("gaussian messages", "latest", False),
    "laplace source, clipped": case_of("laplace source", "latest", True),
    "laplace source, history, thinned": replace(case_of("laplace source", "history", True), mechanism=THINNED),
    "gaussian source, correlated": replace(case_of("gaussian source", "history", False), mechanism=CORRELATED),
    "gaussian source, standardised": standardised_case("gaussian source", logistic),
    "laplace source, a standardised quantity": standardised_case("laplace source", quantity),
    "gaussian source, secrets": secret_case(),
    "gaussian source, a window": windowed_case(),
}


# `gossamer audit --self-test`, which tests/test_cli_privacy.py runs, has cases like these.
SLOW = (
    "laplace source, clipped", "laplace source, a standardised quantity", "gaussian source, standardised",
    "laplace source, history, thinned",
)  # fmt: skip


@pytest.mark.parametrize("where", [where for where in PLANTED_IN if where not in SLOW])
def test_every_planted_defect_is_found(where):
    found = list(self_test(PLANTED_IN[where]))
    assert [defect.name for defect, finding in found if finding is None] == []
    assert len(found) >= 7


def test_all_defects_are_planted_somewhere():
    planted = {defect.name for case in PLANTED_IN.values() for defect in DEFECTS if defect.needs(case)}
    assert planted == {defect.name for defect in DEFECTS}


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_found_by_the_check_that_is_about_it(defect):
    case = next(case for case in PLANTED_IN.values() if defect.needs(case))
    found = findings(defect.plant(replace(case, rounds=10)))
    assert any(defect.caught_by in each.check and not each.holds for each in found)


# -- noise, defect by defect -------------------------------------------------------------------------------------------


def boundary(case):
    made = case.boundary()
    made.stops[:] = 10**9
    return made


GENUINE = boundary(case_of("laplace messages", "history", False, rounds=100))


def scale(t):
    return np.full((10, 1), (t + 1.0) ** -0.6)


def reused_between_channels():
    kept = {}

    def release(channel, t, value):
        if t not in kept:
            kept[t] = GENUINE.release(channel, t, value) - value
        return value + kept[t]

    return release


def reused_between_learners(channel, t, value):
    noise = (GENUINE.release(channel, t, value) - value)[:1]
    return value + noise


def one_round_bare(channel, t, value):
    return value if t == 3 else GENUINE.release(channel, t, value)


def late_round_bare(channel, t, value):
    return value if t == 10_000 else GENUINE.release(channel, t, value)


def wrong_law(channel, t, value):
    steps = np.rint(np.random.default_rng().normal(size=value.shape) * np.sqrt(np.pi / 2) * 2.0**40)
    return (np.rint(value / scale(t) * 2.0**40) + steps) * (scale(t) * 2.0**-40)


def law_of(release):
    return list(noise_law(release, scale, law_named("laplace"), ("s", "theta")))


@pytest.mark.parametrize(
    ("release", "caught_by"),
    [
        (reused_between_channels(), "correlation"),
        (reused_between_learners, "learner"),
        (one_round_bare, "scale, s round 3"),
        (late_round_bare, "scale, s round 10000"),
        (wrong_law, "shape"),
    ],
    ids=["reused across channels", "reused across learners", "bare round", "bare late round", "law"],
)
def test_every_planted_defect_of_the_noise_is_caught(release, caught_by):
    assert any(caught_by in f.check for f in law_of(release) if not f.holds)
    assert all(f.holds for f in law_of(GENUINE.release)), "and the genuine one passes"


def test_a_restart_that_repeats_its_noise_is_caught():
    draws = GENUINE.release("s", 0, np.zeros((10, 100)))
    assert not no_reuse(draws, draws).holds
    assert no_reuse(draws, GENUINE.release("s", 0, np.zeros((10, 100)))).holds


def test_a_fresh_draw_for_each_neighbour_is_caught():
    def fresh_for_each(boundary, mix, channel, t, sent):
        """As if every link had noise of its own: receiver i hears learner j with the draw made for (i, j)."""
        return np.stack([mix(sent.over, boundary.release(channel, t, sent.value))[i] for i in range(len(sent.value))])

    assert one_copy(GENUINE).holds
    assert not one_copy(GENUINE, fresh_for_each).holds


def test_the_engine_draws_once_for_each_channel_and_round():
    """One copy a round goes to every out-neighbour: the engine asks for each channel's noise once."""
    asked = []
    genuine = gs.privacy.PrivateBoundary.release

    def watched(self, channel, t, value):
        asked.append((channel, t))
        return genuine(self, channel, t, value)

    gs.privacy.PrivateBoundary.release = watched
    try:
        gs.simulate(
            ALGORITHM, NET, gs.datasets.mushrooms(10), model=gs.LogisticRegression(l2=0.1),
            privacy=MECHANISMS["laplace messages"], steps=7,
        )  # fmt: skip
    finally:
        gs.privacy.PrivateBoundary.release = genuine
    assert len(asked) == len(set(asked)) == 2 * 7


# -- an outside judge --------------------------------------------------------------------------------------------------

JUDGED = {
    "laplace source": Laplace.for_budget(1.0, where="source"),
    "gaussian source": Gaussian.for_budget(1.0, 1e-5, where="source"),
    "laplace source, history": Laplace.for_budget(1.0, where="source"),
    "gaussian source, history": Gaussian.for_budget(1.0, 1e-5, where="source", releases=every(1, after=1), band=3),
    "laplace messages, history": Laplace.for_budget(1.0),
}


@pytest.mark.parametrize("name", JUDGED)
def test_the_outside_judge_certifies_no_more_than_we_claim_and_catches_weak_noise(name):
    pytest.importorskip("jax_privacy", reason="needs the extra `audit`")
    mechanism = JUDGED[name]
    gradient = "history" if "history" in name else "latest"
    case = Case(ALGORITHM, NET, gs.LogisticRegression(l2=0.1), mechanism, gradient, rounds=6)
    found = judge(case, runs=20_000)
    assert found.holds
    assert found.measured > 0.05, "it does see the difference"
    genuine = mechanism.law.exact
    weak = judge(case, runs=20_000, draw=lambda value, scale: value + 0.1 * (genuine(value, scale) - value))
    assert not weak.holds


def test_without_the_judge_the_audit_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax_privacy", None)
    monkeypatch.setitem(sys.modules, "jax_privacy.auditing", None)
    case = Case(ALGORITHM, NET, gs.LogisticRegression(l2=0.1), JUDGED["laplace source"], "latest")
    with pytest.raises(gs.GossamerError, match="gossamer-learning\\[audit\\]"):
        judge(case, runs=10)


def test_a_message_that_the_recursion_does_not_know_is_refused_where_it_would_be_sent():
    def leaky(x, grad, rows, t):
        return ALGORITHM.emit(x, grad, rows, t) | {"extra": gs.types.Out(grad, "R", True)}

    algorithm = replace(ALGORITHM, emit=leaky)
    model, mechanism = gs.LogisticRegression(l2=0.1), MECHANISMS["laplace messages"]
    with pytest.raises(gs.GossamerError, match="channel 'extra'"):
        gs.simulate(algorithm, NET, gs.datasets.mushrooms(10, rows="l1"), model=model, privacy=mechanism, steps=3)
