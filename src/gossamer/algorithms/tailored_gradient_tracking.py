"""Tailored gradient tracking (Wang & Nedić, "Tailoring Gradient Methods for Differentially Private Distributed
Optimization", IEEE TAC 69(2), 2024): two weakening factors fade the links, and with them the noise.

    s⁺ = s + γ1_t (C s + off(C) ζ) + λ_t g
    θ⁺ = θ + γ2_t (R θ + off(R) ϑ) − (s⁺ − s)

The paper's experiments use γ1 = (t+1)^−0.95 and γ2 = (t+1)^−0.75. Asked for: Σ γ1²/γ2 < ∞ and Σ λ²/γ1 < ∞, which
with these factors needs λ ~ (t+1)^−v, v > 0.975. Learning goes as slowly as the links fade.

The tracker spreads as slowly. A learner's gradient counts in θ's Perron average by its share in uᵀs, which is the
same for all learners only once s has spread. With γ1 = (t+1)^−0.95 that takes longer than any run, so the method makes
no claim about the sum of gradients (`conserves`).

The source was not available to us: equations from a secondary source and from memory, checked by simulation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gossamer.algorithms.assumptions import noise_above, step_within
from gossamer.algorithms.base import Algorithm, OverTime, parameters_of
from gossamer.algorithms.registry import SPLITS, method
from gossamer.schedules import Decay, Schedule, over_rounds, power_of
from gossamer.types import Array, Dynamics, Out, Rows

WEAKEN_PUSH = Decay(1.0, 0.95)  # the paper's
WEAKEN_PULL = Decay(1.0, 0.75)  # the paper's

OVER_TIME = OverTime(
    "On networks that change nothing is proved of it: its links fade, so that it follows the mean network.",
    pushed={"s": "s"}, lost=("kept",), fades=True,
)  # fmt: skip


class State(NamedTuple):
    s: Array  # (k, n) tracker
    theta: Array  # (k, n) parameters


@method(
    label="Tailored tracking",
    source="S/M",
    step_exponent=0.98,
    noise_exponent=0.0,
    also=((1.0, 0.0), (0.98, 0.25)),
    splits=SPLITS,
    order=3,
)
def tailored_gradient_tracking(
    step: Schedule,
    noise: Schedule | None = None,
    *,
    weaken_push: Decay = WEAKEN_PUSH,
    weaken_pull: Decay = WEAKEN_PULL,
    strict: bool = True,
) -> Algorithm[State]:
    """Tailored gradient tracking; `weaken_push` is γ1, on C's links, `weaken_pull` γ2, on R's."""

    def init(rows: Rows, theta0: Array) -> State:
        return State(0 * theta0, theta0)

    def emit(x: State, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        return {"s": Out(x.s, over="C", private=True), "theta": Out(x.theta, over="R", private=True)}

    def advance(x: State, got: Mapping[str, Array], grad: Array, rows: Rows, t: int) -> State:
        moved = weaken_push(t) * (rows.C_ii * x.s + got["s"]) + step(t) * grad  # s⁺ − s
        return State(x.s + moved, x.theta + weaken_pull(t) * (rows.R_ii * x.theta + got["theta"]) - moved)

    def dynamics(rows: Rows, z: Array) -> Dynamics:
        """δs⁺ ≤ |1+γ1 C_ii| δs + λ_t G;  δθ⁺ ≤ |1+γ2 R_ii| δθ + γ1 |C_ii| δs + λ_t G."""
        lam = over_rounds(step, len(z))
        push, pull = (over_rounds(weaken, len(z), signed=True) for weaken in (weaken_push, weaken_pull))
        A, b = np.zeros((len(z), 2, 2)), np.repeat(lam[:, None], 2, axis=1)
        A[:, 0, 0], A[:, 1, 1] = abs(1 + push * rows.C_ii.item()), abs(1 + pull * rows.R_ii.item())
        A[:, 1, 0] = abs(push * rows.C_ii.item())
        return Dynamics(A, b, None, point=1, channels={"s": 0, "theta": 1})

    def broken(given: Schedule | None) -> list[str]:
        push, pull = power_of(weaken_push), power_of(weaken_pull)
        if push is None or pull is None:
            return ["the weakening factors are no powers of t, so nothing of them can be checked."]
        sentences = step_within(step, (1 + push) / 2, 1, "Σλ²/γ1 must be finite and Σλ infinite")
        if not (2 * push - pull > 1 and push <= 1 and pull <= 1):
            sentences.append(f"γ1 ~ t^-{push:g} and γ2 ~ t^-{pull:g}: Σγ1²/γ2 must be finite, Σγ1 and Σγ2 infinite.")
        return sentences + noise_above(given, 0.5 - pull, "else the weakened noise has no bounded variance")

    return Algorithm(
        "tailored_gradient_tracking", init, emit, advance, noise=noise, broken=broken, strict=strict,
        dynamics=dynamics, over_time=OVER_TIME,
        parameters=parameters_of(step, noise, weaken=repr((weaken_push, weaken_pull))),
    )  # fmt: skip
