"""Push–Pull gradient tracking (Pu, Shi, Xu & Nedić, "Push–Pull Gradient Methods for Distributed Optimization in
Networks", IEEE TAC 66(1), 2021) with noise on its messages: the conventional method that the paper starts from.

    θ⁺ = (I+R) θ + off(R) ϑ − λ_t y
    y⁺ = (I+C) y + off(C) ζ + g_{t+1}(θ⁺) − g_t(θ),   y_0 = g_0(θ_0)

y sums gradients *and all the noise it ever received*: 1ᵀy = 1ᵀg + Σ_{k<t} 1ᵀ off(C) ζ_k, so that every step moves θ
by noise of ever growing variance. With ν_t = ν0/(t+1)^ς that variance has a limit if ς > ½, and none otherwise.

A gradient of 1 that learner i alone has in round t moves θ's Perron average by λ_t u_i at once, and later, as y carries
it on, by Σ_{k≥1} λ_{t+k} [uᵀ(I+C)^{k−1} C]_i. Together that is the same for all learners where the step is constant,
and nearly so where it falls slowly.

The round's gradient belongs to the y that is sent in that round, so we keep w = y − g:

    y = w + g,   w⁺ = (I+C) y + off(C) ζ − g,   w_0 = 0

Equations: verbatim from the source (paper, eq. 5), with its noise.
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
    "Proved, for a small constant step, strongly convex and smooth losses and no noise, where any B rounds together "
    "connect everybody to everybody (Saadatniaki, Xin & Khan, IEEE TAC 65(11), 2020; Nedić, Nguyen & Nguyen, Optim. "
    "Methods Softw., 2023), and in a closely related form with lost messages as running sums (Tian, Sun & Scutari, "
    "IEEE TAC 65(12), 2020). Not proved: with falling steps, with noise, and where links fail with a probability, so "
    "that no B is certain.",
    pushed={"y": "w"}, lost=("sums", "ahead", "kept"), hands_over=True,
)  # fmt: skip


class State(NamedTuple):
    theta: Array  # (k, n) parameters
    w: Array  # (k, n) tracker without the newest gradient


@method(
    label="Push–Pull",
    source="V",
    step_exponent=0.6,
    noise_exponent=0.55,
    also=((0.75, 0.55), (0.75, 0.7)),
    splits=SPLITS,
    order=1,
)
def push_pull(step: Schedule, noise: Schedule | None = None, *, strict: bool = True) -> Algorithm[State]:
    """Push–Pull with step sizes `step` and, where given, noise scales `noise` (one schedule for both θ and y)."""

    def init(rows: Rows, theta0: Array) -> State:
        return State(theta0, 0 * theta0)

    def emit(x: State, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        return {"theta": Out(x.theta, over="R", private=True), "y": Out(x.w + grad, over="C", private=True)}

    def advance(x: State, got: Mapping[str, Array], grad: Array, rows: Rows, t: int) -> State:
        y = x.w + grad
        theta = (1 + rows.R_ii) * x.theta + got["theta"] - step(t) * y
        return State(theta, (1 + rows.C_ii) * y + got["y"] - grad)

    def dynamics(rows: Rows, z: Array) -> Dynamics:
        """δθ⁺ ≤ |1+R_ii| δθ + λ_t (δw + G);  w⁺ = (1+C_ii) w + C_ii g + …: δw⁺ ≤ |1+C_ii| δw + |C_ii| G;  y = w + g."""
        R_ii, C_ii, lam = rows.R_ii.item(), rows.C_ii.item(), over_rounds(step, len(z))
        A, b = np.zeros((len(z), 3, 3)), np.ones((len(z), 3))
        A[:, 0, 0], A[:, 0, 1], A[:, 1, 1], A[:, 2, 1] = abs(1 + R_ii), lam, abs(1 + C_ii), 1
        b[:, 0], b[:, 1] = lam, abs(C_ii)
        return Dynamics(A, b, None, point=0, channels={"theta": 0, "y": 2}, after=frozenset({"y"}))

    def broken(given: Schedule | None) -> list[str]:
        sentences = step_within(step, 0, 1, "steps must add up to ∞ and not grow", ends="[]")
        return sentences + noise_above(given, 0.5, "else the noise that y gathers has no bounded variance")

    return Algorithm(
        "push_pull", init, emit, advance, noise=noise, broken=broken, strict=strict, dynamics=dynamics,
        conserves="sum" if power_of(step) == 0 else None, over_time=OVER_TIME, parameters=parameters_of(step, noise),
    )  # fmt: skip
