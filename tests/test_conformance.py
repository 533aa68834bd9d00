"""Every method passes the suite, and the suite fails on every mistake a newcomer could make."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer import decay, geometric
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
    "dsgd on I+R": (lambda: gs.dsgd(decay(0.5, 0.8), over="R", strict=False), []),
}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_conforms(name):
    build, violations = METHODS[name]
    found = gs.check_algorithm(build(), violations=violations)
    assert all(f.holds for f in found)
    assert sum("replayed" in f.check for f in found) == 15, "five kinds of noise and gradient, three learners"


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


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"init": no_theta}, "form: init\\(\\) must give a state with a field theta"),
        ({"emit": sends_elsewhere}, "form: channel 'theta' goes over C"),
        ({"step": half_a_state}, "form: step\\(\\) must give a state of the same type and shapes"),
        ({"step": changes_its_argument}, "purity: .*changes its arguments"),
        ({"step": draws_at_random}, "purity: step\\(\\) gives another answer"),
        ({"step": asks_all_learners}, "blocks|locality"),
        ({"step": reads_its_neighbour}, "blocks|locality"),
        ({"dynamics": careless}, "privacy, laplace on messages"),
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
