"""Every method passes the suite, and the suite fails on every mistake a newcomer could make."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import gossamer as gs
from gossamer import decay, geometric
from gossamer.algorithms import METHODS as DECLARED
from gossamer.types import Out

METHODS = {
    "ldp_gradient_tracking": (
        lambda: gs.ldp_gradient_tracking(decay(0.5, 0.7)),
        [
            lambda: gs.ldp_gradient_tracking(decay(0.5, 0.4)),
            lambda: gs.ldp_gradient_tracking(decay(1, 0.6), decay(1, 0.7)),
        ],
    ),
    "push_pull": (lambda: gs.push_pull(decay(0.3, 0.6)), [lambda: gs.push_pull(decay(0.3, 0.6), decay(1, 0.4))]),
    "diadsp": (
        lambda: gs.diadsp(decay(0.1, 0.0)),
        [lambda: gs.diadsp(decay(0.1, 0.5)), lambda: gs.diadsp(decay(0.1, 0.0), decay(1, 0.6))],
    ),
    "tailored_gradient_tracking": (
        lambda: gs.tailored_gradient_tracking(decay(1.0, 0.98)),
        [lambda: gs.tailored_gradient_tracking(decay(1.0, 0.8))],
    ),
    "stochastic_subgradient": (
        lambda: gs.stochastic_subgradient(decay(1.0, 1.0)),
        [lambda: gs.stochastic_subgradient(decay(1.0, 0.2))],
    ),
    "subgradient_rescaling": (
        lambda: gs.subgradient_rescaling(decay(0.3, 0.8)),
        [
            lambda: gs.subgradient_rescaling(decay(0.3, 0.5)),
            lambda: gs.subgradient_rescaling(decay(1, 0.8), decay(1, 0.3)),
        ],
    ),
    "ldol": (
        lambda: gs.ldol(decay(0.3, 0.95), weaken=decay(1.0, 0.6)),
        [lambda: gs.ldol(decay(0.5, 0.6)), lambda: gs.ldol(decay(0.5, 0.9), decay(1, -0.3))],
    ),
    "robust_push_pull": (lambda: gs.robust_push_pull(decay(0.1, 0.0)), [lambda: gs.robust_push_pull(decay(0.1, 0.6))]),
    "wang_basar": (lambda: gs.wang_basar(decay(0.5, 0.9)), [lambda: gs.wang_basar(decay(0.5, 0.55))]),
    "dsgd": (
        lambda: gs.dsgd(decay(0.5, 0.8)),
        [lambda: gs.dsgd(decay(0.5, 0.4)), lambda: gs.dsgd(decay(0.5, 0.8), over="R")],
    ),
    "stochastic_subgradient_own": (
        lambda: gs.stochastic_subgradient_own(decay(1.0, 1.0)),
        [lambda: gs.stochastic_subgradient_own(decay(1.0, 0.2))],
    ),
    "subgradient_rescaling_own": (
        lambda: gs.subgradient_rescaling_own(decay(0.3, 0.8)),
        [lambda: gs.subgradient_rescaling_own(decay(0.3, 0.5))],
    ),
    "dsgd_naive": (lambda: gs.dsgd(decay(0.5, 0.8), over="R", strict=False), []),
}

METHODS |= {name: (partial(one.build, 0.1), []) for name, one in DECLARED.entries().items() if name not in METHODS}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_conforms(name):
    build, violations = METHODS[name]
    found = gs.check_algorithm(build(), violations=violations)
    assert all(f.holds for f in found)
    assert sum("replayed" in f.check for f in found) == 7
    assert sum("conserves the sum of gradients" in f.check for f in found) == 1
    travelled = [f.measured for f in found if "dynamics of learner" in f.check]
    assert len(travelled) == 6
    assert max(travelled) == pytest.approx(1.0, abs=1e-6), "the recursion is attained: it cannot be made tighter"


GOOD = gs.dsgd(decay(0.5, 0.8))


def changes_its_argument(x, got, grad, rows, t):
    x.theta[0] += 1.0
    return GOOD.step(x, got, grad, rows, t)


def asks_all_learners(x, got, grad, rows, t):
    return GOOD.step(x._replace(theta=x.theta + 0.01 * x.theta.mean(axis=0)), got, grad, rows, t)


def reads_its_neighbour(x, got, grad, rows, t):
    return GOOD.step(x._replace(theta=np.roll(x.theta, 1, axis=0)), got, grad, rows, t)


def draws_at_random(x, got, grad, rows, t):
    return GOOD.step(x._replace(theta=x.theta + np.random.default_rng().normal(size=x.theta.shape)), got, grad, rows, t)


def half_a_state(x, got, grad, rows, t):
    return x._replace(theta=x.theta[:, :1])


def sends_elsewhere(x, grad, rows, t):
    return {"theta": Out(x.theta, over="C", private=True)}


def careless(rows, z):
    honest = GOOD.dynamics(rows, z)
    return honest._replace(b=0.1 * honest.b)


def no_theta(rows, theta0):
    return (theta0,)


def now_and_then_in_clear(x, grad, rows, t):
    out = GOOD.emit(x, grad, rows, t)
    return out | ({"slip": Out(x.theta, "W", private=False)} if t % 10 == 9 else {})


def in_clear_once_settled(x, grad, rows, t):
    return {"theta": Out(x.theta, over="W", private=t < rows.settles)}


def coarsely_in_clear(x, grad, rows, t):
    return GOOD.emit(x, grad, rows, t) | {"coarse": Out(np.rint(x.theta / 100), "W", private=False)}


def forgets_late(rows, z):
    honest = GOOD.dynamics(rows, z)
    honest.b[8:40] = 0
    return honest


def one_reads_another(x, got, grad, rows, t):
    after = GOOD.step(x, got, grad, rows, t)
    if len(rows.ids) > 1 and rows.ids[-1] == 9:
        after.theta[-1] += 0.01 * x.theta[-2]
    return after


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"emit": now_and_then_in_clear}, "channel 'slip' is sent without noise and depends on data"),
        ({"emit": in_clear_once_settled}, "channel 'theta' is sent without noise and depends on data"),
        ({"emit": coarsely_in_clear}, "channel 'coarse' is sent without noise and depends on data"),
        ({"dynamics": forgets_late}, "dynamics of learner . from round 0: largest difference over its bound"),
        ({"dynamics": lambda r, z: GOOD.dynamics(r, z)._replace(A=0.5 * GOOD.dynamics(r, z).A)}, "dynamics of learner"),
        ({"step": one_reads_another}, "blocks|locality"),
        ({"init": no_theta}, "form: init\\(\\) must give a state with a field theta"),
        ({"emit": sends_elsewhere}, "form: channel 'theta' goes over C"),
        ({"step": half_a_state}, "form: step\\(\\) must give a state of the same type and shapes"),
        ({"step": changes_its_argument}, "purity: .*changes its arguments"),
        ({"step": draws_at_random}, "purity: step\\(\\) gives another answer"),
        ({"step": asks_all_learners}, "blocks|locality"),
        ({"step": reads_its_neighbour}, "blocks|locality"),
        ({"dynamics": careless}, "dynamics of learner"),
        (
            {"dynamics": lambda rows, z: GOOD.dynamics(rows, z)._replace(v=0.9)},
            "privacy, for ever: A is not constant or b",
        ),
        ({"dynamics": lambda rows, z: GOOD.dynamics(rows, z)._replace(channels={})}, "names no channel"),
        ({"step": lambda x, got, grad, rows, t: GOOD.step(x, got, 2 * grad + 1, rows, t)}, "limit: distance"),
    ],
)
def test_every_planted_mistake_is_named(change, says):
    with pytest.raises(gs.GossamerError, match=f"does not conform: .*({says})"):
        gs.check_algorithm(replace(GOOD, **change), rounds=3000)


def test_a_message_that_contains_the_rounds_gradient_must_say_so():
    honest = gs.push_pull(decay(0.3, 0.6))
    careless = replace(honest, dynamics=lambda r, z: honest.dynamics(r, z)._replace(after=frozenset()))
    with pytest.raises(gs.GossamerError, match="dynamics of learner"):
        gs.check_algorithm(careless, rounds=4000)


def test_three_private_channels_are_no_trouble():
    def emit(x, grad, rows, t):
        return {name: Out(x.theta, "W", private=True) for name in "abc"}

    def step(x, got, grad, rows, t):
        return GOOD.step(x, {"theta": got["a"]}, grad, rows, t)

    def dynamics(rows, z):
        return GOOD.dynamics(rows, z)._replace(channels={"a": 0, "b": 0, "c": 0})

    assert gs.check_algorithm(replace(GOOD, emit=emit, step=step, dynamics=dynamics), rounds=4000)


def test_a_directed_graph_exposes_who_averages_wrongly():
    """On I+R without saying so, dsgd ends at argmin Σ u_i f_i and not where it claims."""
    naive = replace(gs.dsgd(decay(0.5, 0.8), over="R", strict=False), weights=None)
    with pytest.raises(gs.GossamerError, match="limit: distance from argmin Σ f_i"):
        gs.check_algorithm(naive)


def test_a_violation_that_is_accepted_is_named():
    with pytest.raises(gs.GossamerError, match="refusal of violation 0: it was accepted"):
        gs.check_algorithm(GOOD, violations=[lambda: gs.dsgd(decay(0.5, 0.8))], rounds=3000)


@pytest.mark.parametrize("ratio", [0.0, 1.5, float("nan")])
def test_geometric_schedules_fade(ratio):
    assert geometric(2.0, 0.5)(3) == 0.25
    with pytest.raises(gs.GossamerError, match="above 0 and at most 1"):
        geometric(1.0, ratio)
