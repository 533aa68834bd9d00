"""Distributed online stochastic subgradient (Zhu, Xu, Guan & Wu, "Differentially Private Distributed Online Algorithms
Over Time-Varying Directed Networks", IEEE Trans. Signal and Information Processing over Networks 4(1), 2018).

    b  = (I+D) θ + off(D) ϑ                    D doubly stochastic, on R's links
    θ⁺ = P[b − α_t g_t(b)]                     ϑ ~ Lap(Δ_t/ε), Δ_t = 2√n G α_t: noise that falls as the step does

Gradients are taken at the mixed point b. α_t ~ 1/t for strongly convex losses, 1/√t otherwise. P projects onto the
box |θ_k| ≤ `box`, which moves no two points apart in any norm (a ball would, in L1); without `box` it does nothing.
As the gradient of round t enters the θ that is sent in round t, a learner keeps b.

**As published** a learner's own term carries its noise, too, b = (I+D)(θ + ϑ): `stochastic_subgradient_own`. That
releases nothing more, and costs less. Budgets compare the densities of messages given all earlier messages
(docs/privacy.md); b is then made of messages alone, so that it is the same in both worlds, and so is the point where
gradients are taken. A message differs by α_t G_t and nothing else: that is the paper's Δ_t, which does not hold
where the own term is kept as it is. Where each gradient is of its round's records alone, one message pays for a record.

Its own noise is drawn for a constant budget in each round: at a horizon T the whole budget is a sum over T rounds,
and there is none for ever.

The source was not available to us: equations from a secondary source, checked by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gossamer.algorithms.assumptions import noise_above, step_within
from gossamer.algorithms.base import Algorithm, OverTime, parameters_of
from gossamer.algorithms.registry import method
from gossamer.schedules import Schedule, over_rounds, power_of
from gossamer.types import Array, Dynamics, Matrix, Out, Rows

ALSO = ((0.75, 0.75), (1.0, 1.0))  # the paper's noise falls as its step does

OVER_TIME = OverTime(
    "Its paper is about directed networks that change, with weights that are doubly stochastic in every round. "
    "Learners that sleep and links that fail break that: then every gradient counts alike in the mean over what chance "
    "may do, and nothing more is known."
)


class State(NamedTuple):
    theta: Array  # (k, n) parameters, as last sent
    b: Array  # (k, n) mixed parameters, where the next gradient is taken


@method(label="Subgradient (Zhu et al.)", source="S", step_exponent=0.5, noise_exponent=0.5, also=ALSO, order=4)
def stochastic_subgradient(
    step: Schedule, noise: Schedule | None = None, *, box: float = math.inf, own: bool = False, strict: bool = True
) -> Algorithm[State]:
    """Zhu et al.'s method with step sizes `step`, on |θ_k| ≤ `box`; own=True noises a learner's own term as well."""
    over: Matrix = "I+D" if own else "D"

    def mixed(value: Array, came: Array, rows: Rows) -> Array:
        """All that came, its own message among it; or what came, and the learner's own value as it is."""
        return came if own else (1 + rows.D_ii) * value + came

    def moved(x: State, grad: Array, t: int) -> Array:
        theta: Array = (x.b - step(t) * grad).clip(-box, box)
        return theta

    def init(rows: Rows, theta0: Array) -> State:
        return State(theta0, theta0)

    def emit(x: State, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        return {"theta": Out(moved(x, grad, t), over=over, private=True)}

    def advance(x: State, got: Mapping[str, Array], grad: Array, rows: Rows, t: int) -> State:
        theta = moved(x, grad, t)
        return State(theta, mixed(theta, got["theta"], rows))

    def dynamics(rows: Rows, z: Array) -> Dynamics:
        """δθ ≤ δb + α_t G, sent in the same round;  δb⁺ ≤ a (δb + α_t G), a = |1+D_ii|; with the own term noised 0."""
        a, alpha = 0.0 if own else abs(1 + rows.D_ii.item()), over_rounds(step, len(z))
        A, b = np.zeros((len(z), 2, 2)), np.empty((len(z), 2))
        A[:, 0, 0], A[:, 1, 0] = a, 1
        b[:, 0], b[:, 1] = a * alpha, alpha
        return Dynamics(A, b, power_of(step), point=0, channels={"theta": 1}, after=frozenset({"theta"}))

    def broken(given: Schedule | None) -> list[str]:
        sentences = step_within(step, 0.5, 1, "1/t for strongly convex losses, 1/√t otherwise", ends="[]")
        return sentences + noise_above(given, -1e-9, "noise must not grow")

    return Algorithm(
        f"stochastic_subgradient{'_own' * own}", init, emit, advance, point=lambda x: x.b, noise=noise, broken=broken,
        strict=strict, mixes=(over,), dynamics=dynamics, conserves="sum",
        over_time=OVER_TIME, parameters=parameters_of(step, noise, box=box),
    )  # fmt: skip


@method(
    label="Subgradient (Zhu et al.), own term noised as published", source="S", step_exponent=0.5, noise_exponent=0.5,
    also=ALSO, noises_own=True, order=4,
)  # fmt: skip
def stochastic_subgradient_own(
    step: Schedule, noise: Schedule | None = None, *, box: float = math.inf, strict: bool = True
) -> Algorithm[State]:
    """Zhu et al.'s method with noise on a learner's own term as well, as its paper has it."""
    return stochastic_subgradient(step, noise, box=box, own=True, strict=strict)
