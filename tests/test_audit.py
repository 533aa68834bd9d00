"""The audit passes on what we ship and fails on every planted defect."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.privacy import Gaussian, Laplace
from gossamer.privacy.audit import no_reuse, noise_law
from gossamer.simulate import audit as whole
from gossamer.simulate.engine import setting_of

NET = gs.Network.paper()
ALGORITHM = gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8))
MECHANISMS = {
    "laplace messages": Laplace(gs.decay(1.0, 0.6)),
    "gaussian messages": Gaussian(gs.decay(1.0, 0.6), delta=1e-5),
    "laplace source": Laplace(gs.decay(1.0, 0.0), "source"),
    "gaussian source": Gaussian(gs.decay(1.0, 0.0), "source", delta=1e-5),
}


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("gradient", ["history", "latest"])
@pytest.mark.parametrize("clipped", [False, True], ids=["logistic", "clipped ridge"])
def test_what_we_ship_passes(name, gradient, clipped):
    mechanism = MECHANISMS[name]
    clip = gs.clip_l1(0.5) if mechanism.law == "laplace" else gs.clip_l2(0.5)
    model = gs.RidgeRegression(l2=0.1, clip=clip) if clipped else gs.LogisticRegression(l2=0.1)
    if mechanism.where == "source" and gradient == "history":
        with pytest.raises(gs.GossamerError, match="use 'latest'"):
            whole.audit(ALGORITHM, NET, model, mechanism, gradient)
        return
    found = whole.audit(ALGORITHM, NET, model, mechanism, gradient, rounds=8, learners=(4,))
    assert [f for f in found if not f.holds] == []
    replayed = next(f for f in found if "replayed" in f.check)
    assert replayed.measured > 0.05 * replayed.allowed, "the sceptic did try"


def boundary(mechanism):
    stream = gs.datasets.mushrooms(10, draw="once", rows="l1")
    gradient = "latest" if mechanism.where == "source" else "history"
    return mechanism.bind(setting_of(ALGORITHM, NET, stream, gs.LogisticRegression(l2=0.1), gradient, 100, 117))


def scale(t):
    return np.full((10, 1), (t + 1.0) ** -0.6)


GENUINE = boundary(MECHANISMS["laplace messages"])


def weaker(channel, t, value):
    return value + 0.9 * (GENUINE.release(channel, t, value) - value)


def reused_between_rounds():
    kept = {}

    def release(channel, t, value):
        if channel not in kept:
            kept[channel] = (GENUINE.release(channel, t, value) - value) / scale(t)
        return value + kept[channel] * scale(t)

    return release


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


def floating_point(channel, t, value):
    return value + np.random.default_rng().laplace(size=value.shape) * scale(t)


def wrong_law(channel, t, value):
    steps = np.rint(np.random.default_rng().normal(size=value.shape) * np.sqrt(np.pi / 2) * 2.0**40)
    return (np.rint(value / scale(t) * 2.0**40) + steps) * (scale(t) * 2.0**-40)


@pytest.mark.parametrize(
    ("release", "caught_by"),
    [
        (weaker, "scale"),
        (reused_between_rounds(), "correlation"),
        (reused_between_channels(), "correlation"),
        (reused_between_learners, "learners"),
        (one_round_bare, "scale, s round 3"),
        (floating_point, "grid"),
        (wrong_law, "shape"),
    ],
    ids=[
        "noise × 0.9",
        "reused in time",
        "reused across channels",
        "reused across learners",
        "bare round",
        "NumPy",
        "law",
    ],
)
def test_every_planted_defect_of_the_noise_is_caught(release, caught_by):
    found = noise_law(release, scale, "laplace", 10)
    assert any(caught_by in f.check for f in found if not f.holds)
    assert all(f.holds for f in noise_law(GENUINE.release, scale, "laplace", 10)), "and the genuine one passes"


def test_a_restart_that_repeats_its_noise_is_caught():
    draws = GENUINE.release("s", 0, np.zeros((10, 100)))
    assert not no_reuse(draws, draws).holds
    assert no_reuse(draws, GENUINE.release("s", 0, np.zeros((10, 100)))).holds


@pytest.mark.parametrize("gradient", ["history", "latest"])
def test_a_clipper_that_is_off_by_a_factor_is_caught(gradient):
    class Lies(gs.RidgeRegression):
        def memory(self, table, keep, room):
            return gs.RidgeRegression(self.l2, gs.clip_l1(4 * self.clip.c)).memory(table, keep, room)

    mechanism = Laplace(gs.decay(1.0, 0.0), "source") if gradient == "latest" else MECHANISMS["laplace messages"]
    model = Lies(l2=0.1, clip=gs.clip_l1(0.1))
    found = whole.audit(ALGORITHM, NET, model, mechanism, gradient, rounds=8, learners=(4,))
    assert any("replayed" in f.check for f in found if not f.holds)


def test_a_recursion_that_leaves_a_path_out_is_caught():
    def careless(rows, z):
        honest = ALGORITHM.dynamics(rows, z)
        return honest._replace(A=0.1 * honest.A)

    algorithm = gs.Algorithm("careless", ALGORITHM.init, ALGORITHM.emit, ALGORITHM.step, dynamics=careless)
    found = whole.audit(
        algorithm,
        NET,
        gs.LogisticRegression(l2=0.1),
        MECHANISMS["laplace messages"],
        "history",
        rounds=8,
        learners=(4,),
    )
    assert any("replayed" in f.check for f in found if not f.holds)


def test_a_fresh_draw_for_each_neighbour_is_caught():
    def fresh_for_each(boundary, mix, channel, t, sent):
        """As if every link had noise of its own: receiver i hears learner j with the draw made for (i, j)."""
        return np.stack([mix(sent.over, boundary.release(channel, t, sent.value))[i] for i in range(len(sent.value))])

    assert whole.one_copy(GENUINE).holds
    assert not whole.one_copy(GENUINE, fresh_for_each).holds


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


JUDGED = {
    "laplace source": Laplace.for_budget(1.0, where="source"),
    "gaussian source": Gaussian.for_budget(1.0, 1e-5, where="source"),
    "laplace messages": Laplace.for_budget(1.0),
}


@pytest.mark.parametrize("name", JUDGED)
def test_the_outside_judge_certifies_no_more_than_we_claim_and_catches_weak_noise(name):
    pytest.importorskip("jax_privacy", reason="needs the extra `audit`")
    mechanism = JUDGED[name]
    gradient = "latest" if mechanism.where == "source" else "history"
    given = (ALGORITHM, NET, gs.LogisticRegression(l2=0.1), mechanism, gradient)
    found = whole.judge(*given, runs=20_000)
    assert found.holds
    assert found.measured > 0.05, "it does see the difference"
    genuine = gs.privacy.exact_laplace if mechanism.law == "laplace" else gs.privacy.exact_gaussian
    weak = whole.judge(*given, runs=20_000, draw=lambda value, scale: value + 0.1 * (genuine(value, scale) - value))
    assert not weak.holds


def test_without_the_judge_the_audit_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax_privacy", None)
    monkeypatch.setitem(sys.modules, "jax_privacy.auditing", None)
    with pytest.raises(gs.GossamerError, match="gossamer-learning\\[audit\\]"):
        whole.judge(ALGORITHM, NET, gs.LogisticRegression(l2=0.1), JUDGED["laplace source"], "latest", runs=10)


@pytest.mark.parametrize("private", [True, False])
def test_an_algorithm_that_lets_its_gradient_slip_out_is_caught(private):
    def leaky(x, grad, rows, t):
        return ALGORITHM.emit(x, grad, rows, t) | {"extra": gs.types.Out(grad, "R", private)}

    algorithm = replace(ALGORITHM, emit=leaky)
    model, mechanism = gs.LogisticRegression(l2=0.1), MECHANISMS["laplace messages"]
    if private:  # noised, but the recursion does not know of it: refused where it would be sent
        with pytest.raises(gs.GossamerError, match="channel 'extra'"):
            gs.simulate(algorithm, NET, gs.datasets.mushrooms(10, rows="l1"), model=model, privacy=mechanism, steps=3)
        return
    found = whole.audit(algorithm, NET, model, mechanism, "history", rounds=6, learners=(4,))
    assert any("replayed" in f.check for f in found if not f.holds)
