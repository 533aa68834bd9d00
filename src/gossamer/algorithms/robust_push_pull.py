"""Robust Push–Pull (Pu, "A Robust Gradient Tracking Method for Distributed Optimization over Directed Networks", CDC
2020): the tracker gathers the sum of gradients, and θ moves by its difference, so that noise in it drops out.

    s⁺ = (I+C) s + off(C) ζ + α g
    θ⁺ = (I+R) θ + off(R) ϑ − (s⁺ − s)

The step α is constant, and so is the noise's share in it: under constant noise θ stays a fixed distance from the
optimum. Algorithm 1 is this with a step that decays, and with the Perron weight divided out.

Equations: verbatim from the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gossamer.algorithms.assumptions import noise_above, step_within
from gossamer.algorithms.base import Algorithm, OverTime, parameters_of
from gossamer.algorithms.registry import SPLITS, method
from gossamer.schedules import Schedule, over_rounds, power_of
from gossamer.types import Array, Dynamics, Out, Rows

OVER_TIME = OverTime(
    "On networks that change nothing is proved of robust Push–Pull. With failures alone, read ahead, its tracker comes "
    "to rest.",
    pushed={"s": "s"}, lost=("ahead",), stirred=True,
)  # fmt: skip


class State(NamedTuple):
    s: Array  # (k, n) tracker
    theta: Array  # (k, n) parameters


@method(
    label="Robust Push–Pull",
    source="V",
    step_exponent=0.0,
    noise_exponent=0.0,
    also=((0.0, 0.25), (0.0, 0.5)),
    splits=SPLITS,
    order=7,
)
def robust_push_pull(step: Schedule, noise: Schedule | None = None, *, strict: bool = True) -> Algorithm[State]:
    """Robust Push–Pull with a constant step, decay(α, 0), and, where given, noise scales `noise` for both s and θ."""

    def init(rows: Rows, theta0: Array) -> State:
        return State(0 * theta0, theta0)

    def emit(x: State, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        return {"s": Out(x.s, over="C", private=True), "theta": Out(x.theta, over="R", private=True)}

    def advance(x: State, got: Mapping[str, Array], grad: Array, rows: Rows, t: int) -> State:
        s = (1 + rows.C_ii) * x.s + got["s"] + step(t) * grad
        return State(s, (1 + rows.R_ii) * x.theta + got["theta"] - (s - x.s))

    def dynamics(rows: Rows, z: Array) -> Dynamics:
        """δs⁺ ≤ |1+C_ii| δs + α G;  δθ⁺ ≤ |1+R_ii| δθ + |C_ii| δs + α G."""
        R_ii, C_ii = rows.R_ii.item(), rows.C_ii.item()
        A, b = np.zeros((len(z), 2, 2)), np.repeat(over_rounds(step, len(z))[:, None], 2, axis=1)
        A[:, 0, 0], A[:, 1, 1], A[:, 1, 0] = abs(1 + C_ii), abs(1 + R_ii), abs(C_ii)
        return Dynamics(A, b, power_of(step), point=1, channels={"s": 0, "theta": 1})

    def broken(given: Schedule | None) -> list[str]:
        constant = "the method's step is constant; for a decaying one use Algorithm 1"
        return step_within(step, 0, 0, constant, ends="[]") + noise_above(given, -1e-9, "noise must not grow")

    return Algorithm(
        "robust_push_pull", init, emit, advance, noise=noise, broken=broken, strict=strict, dynamics=dynamics,
        conserves="sum", over_time=OVER_TIME, parameters=parameters_of(step, noise),
    )  # fmt: skip
