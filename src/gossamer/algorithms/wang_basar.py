"""Gradient tracking with one weakening factor (Wang & Başar, "Gradient-Tracking-Based Distributed Optimization With
Guaranteed Optimality Under Noisy Information Sharing", IEEE TAC 68(8), 2023).

    s⁺ = s + γ_t (C s + off(C) ζ) + λ_t g
    θ⁺ = θ + γ_t (R θ + off(R) ϑ) − (s⁺ − s) / (m [z_i]_i)
    z⁺ = (I+R) z,  z_{i,0} = e_i                                        not weakened

Algorithm 1 with fading links: noise that does not fade by itself is faded by γ_t = (t+1)^−u, at the price of slower
mixing. Asked for: ½ − ς < u < v ≤ 1, so that the weakened noise is summable in square and the links outlast the
steps.

The source was not available to us: equations from a secondary source and from memory, checked by simulation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gossamer.algorithms.assumptions import fading_links_within
from gossamer.algorithms.base import Algorithm, OverTime, parameters_of
from gossamer.algorithms.registry import SPLITS, method
from gossamer.schedules import Decay, Schedule, over_rounds
from gossamer.types import Array, Dynamics, Out, Rows

WEAKEN = Decay(1.0, 0.6)

OVER_TIME = OverTime(
    "On networks that change nothing is proved of it: its links fade, so that it follows the mean network.",
    pushed={"s": "s"}, lost=("kept",), fades=True,
)  # fmt: skip


class State(NamedTuple):
    s: Array  # (k, n) tracker
    theta: Array  # (k, n) parameters
    z: Array  # (k, m) left-eigenvector estimate; row i starts at e_i


@method(
    label="Wang–Başar",
    source="M/S",
    step_exponent=0.7,
    noise_exponent=0.0,
    also=((0.85, 0.0), (0.7, 0.25)),
    splits=SPLITS,
    order=8,
)
def wang_basar(
    step: Schedule, noise: Schedule | None = None, *, weaken: Decay = WEAKEN, strict: bool = True
) -> Algorithm[State]:
    """Wang & Başar's method with step sizes `step` and the weakening factor `weaken` on every link."""

    def init(rows: Rows, theta0: Array) -> State:
        return State(0 * theta0, theta0, rows.unit())

    def emit(x: State, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        out = {"s": Out(x.s, over="C", private=True), "theta": Out(x.theta, over="R", private=True)}
        if t < rows.settles:
            out["z"] = Out(x.z, over="R", private=False)
        return out

    def advance(x: State, got: Mapping[str, Array], grad: Array, rows: Rows, t: int) -> State:
        moved = weaken(t) * (rows.C_ii * x.s + got["s"]) + step(t) * grad  # s⁺ − s
        theta = x.theta + weaken(t) * (rows.R_ii * x.theta + got["theta"]) - moved / (rows.m * rows.own(x.z))
        z = (1 + rows.R_ii) * x.z + got["z"] if t < rows.settles else x.z
        return State(x.s + moved, theta, z)

    def dynamics(rows: Rows, z: Array) -> Dynamics:
        """δs⁺ ≤ |1+γ C_ii| δs + λ_t G;  δθ⁺ ≤ |1+γ R_ii| δθ + (γ |C_ii| δs + λ_t G)/(m z_t)."""
        gamma, lam = over_rounds(weaken, len(z), signed=True), over_rounds(step, len(z))
        share = 1 / (rows.m * z)
        A, b = np.zeros((len(z), 2, 2)), np.stack([lam, lam * share], axis=1)
        A[:, 0, 0], A[:, 1, 1] = abs(1 + gamma * rows.C_ii.item()), abs(1 + gamma * rows.R_ii.item())
        A[:, 1, 0] = abs(gamma * rows.C_ii.item()) * share
        return Dynamics(A, b, None, point=1, channels={"s": 0, "theta": 1})

    def broken(given: Schedule | None) -> list[str]:
        return fading_links_within(weaken, step, given, low=0.5)

    return Algorithm(
        "wang_basar", init, emit, advance, noise=noise, broken=broken, strict=strict, dynamics=dynamics,
        conserves="sum", over_time=OVER_TIME, parameters=parameters_of(step, noise, weaken=repr(weaken)),
    )  # fmt: skip
