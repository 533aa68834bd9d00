"""Algorithm 1 of Chen & Wang, "Locally Differentially Private Gradient Tracking for Distributed Online Learning over
Directed Graphs": gradient tracking whose noise does not accumulate, on unbalanced directed graphs.

    s⁺ = (I+C) s + off(C) ζ + λ_t g                            (7)    g_i = ∇f_{i,t}(θ_i)
    θ⁺ = (I+R) θ + off(R) ϑ − (s⁺ − s) / (m [z_i]_i)           (8)
    z⁺ = (I+R) z,  z_{i,0} = e_i                               (9)

θ moves by the *difference* s⁺ − s, so the noise ζ that s has gathered drops out; dividing by m[z_i]_i, which tends
to the Perron weight u_i of I+R, undoes the graph's unbalance. z depends on the graph alone and carries no noise;
from round `rows.settles` on it no longer changes in float64, and is no longer sent.

Assumption 4: λ_t = λ0/(t+1)^v, ν_{i,t} = ν0/(t+1)^ς_i with ½ < ς_i, max ς_i < v < 1. Without ς > ½ the noise's
variance is not summable and θ need not converge; without ς < v the privacy budget is not finite for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gossamer.algorithms.base import Algorithm, OverTime, parameters_of
from gossamer.algorithms.registry import SPLITS, method
from gossamer.arrays import go_in_one_pass
from gossamer.lazy import import_once
from gossamer.schedules import Decay, Schedule, over_rounds, power_of
from gossamer.types import Array, Dynamics, Out, Rows

OVER_TIME = OverTime(
    "On networks that change nothing is proved of Algorithm 1. With failures alone, read ahead, its tracker comes to "
    "rest, and every learner counts alike in the mean.",
    pushed={"s": "s"}, lost=("ahead",), stirred=True,
)  # fmt: skip


class State(NamedTuple):
    s: Array  # (k, n) tracker
    theta: Array  # (k, n) parameters
    z: Array  # (k, m) left-eigenvector estimate; row i starts at e_i


@method(
    label="Algorithm 1",
    source="V",
    step_exponent=0.6,
    noise_exponent=0.55,
    also=((0.75, 0.55), (0.75, 0.7)),
    splits=SPLITS,
    order=0,
)
def ldp_gradient_tracking(step: Schedule, noise: Schedule | None = None, *, strict: bool = True) -> Algorithm[State]:
    """Algorithm 1 with step sizes `step` and, where given, noise scales `noise` (one schedule for both s and θ).

    Schedules that break Assumption 4 are refused; `strict=False` runs them and notes in the record what is broken.
    """

    def init(rows: Rows, theta0: Array) -> State:
        return State(0 * theta0, theta0, rows.unit())

    def emit(x: State, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        out = {"s": Out(x.s, over="C", private=True), "theta": Out(x.theta, over="R", private=True)}
        if t < rows.settles:
            out["z"] = Out(x.z, over="R", private=False)
        return out

    def advance(x: State, got: Mapping[str, Array], grad: Array, rows: Rows, t: int) -> State:
        lam, own_z, vectors = step(t), rows.own(x.z), (x.s, x.theta, got["s"], got["theta"], grad)
        if isinstance(lam, float) and go_in_one_pass(*vectors):  # the same bits
            track_and_pull = import_once("gossamer.fused").track_and_pull
            s, theta = track_and_pull(*vectors, rows.C_ii, rows.R_ii, lam, rows.m, own_z)
        else:
            s = (1 + rows.C_ii) * x.s + got["s"] + lam * grad  # (7)
            theta = (1 + rows.R_ii) * x.theta + got["theta"] - (s - x.s) / (rows.m * own_z)  # (8)
        z = (1 + rows.R_ii) * x.z + got["z"] if t < rows.settles else x.z  # (9)
        return State(s, theta, z)

    def dynamics(rows: Rows, z: Array) -> Dynamics:
        """δs⁺ ≤ |1+C_ii| δs + λ_t G;  δθ⁺ ≤ |1+R_ii| δθ + (|C_ii| δs + λ_t G)/(m z_t): s⁺ − s = C_ii s + … + λ_t g."""
        R_ii, C_ii, share = rows.R_ii.item(), rows.C_ii.item(), 1 / (rows.m * z)
        lam = over_rounds(step, len(z))
        A, b = np.zeros((len(z), 2, 2)), np.empty((len(z), 2))
        A[:, 0, 0], A[:, 1, 1], A[:, 1, 0] = abs(1 + C_ii), abs(1 + R_ii), abs(C_ii) * share
        b[:, 0], b[:, 1] = lam, lam * share
        return Dynamics(A, b, power_of(step), point=1, channels={"s": 0, "theta": 1})

    return Algorithm(
        "ldp_gradient_tracking", init, emit, advance, noise=noise, strict=strict, dynamics=dynamics, conserves="sum",
        broken=lambda given: broken_assumption_4(step, given), over_time=OVER_TIME,
        parameters=parameters_of(step, noise),
    )  # fmt: skip


def broken_assumption_4(step: Schedule, noise: Schedule | None) -> list[str]:
    """Sentences that say what of Assumption 4 these schedules break, and what that costs."""
    if not isinstance(step, Decay) or isinstance(step.exponent, tuple) or step.ratio != 1:
        return ["Assumption 4 cannot be checked: the step is not one decay(initial, exponent) for all learners."]
    v = step.exponent
    broken = []
    if not 0.5 < v < 1:
        broken.append(f"Assumption 4 asks for a step exponent ½ < v < 1 and v = {v:g}: convergence is not proved.")
    if noise is None:
        return broken
    if not isinstance(noise, Decay) or noise.ratio != 1:
        return [*broken, "Assumption 4 cannot be checked: the noise is not decay(initial, exponents)."]
    exponents = noise.exponents()
    lowest, highest = (int(pick(exponents)) for pick in (np.argmin, np.argmax))
    if exponents[lowest] <= 0.5:
        broken.append(
            f"Assumption 4 asks for ς > ½ and learner {lowest} has ς = {exponents[lowest]:g}: "
            "its noise does not fade fast enough for convergence."
        )
    if exponents[highest] >= v:
        broken.append(
            f"Assumption 4 asks for max ς < v and learner {highest} has ς = {exponents[highest]:g} where v = {v:g}: "
            "its privacy budget grows without bound as rounds go on."
        )
    return broken
