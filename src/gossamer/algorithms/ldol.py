"""LDOL (Chen & Wang, "Locally Differentially Private Distributed Online Learning With Guaranteed Optimality", IEEE
TAC): the paper's authors' method for undirected networks, with one weakening factor.

    θ_i⁺ = P[θ_i + γ_t Σ_j w_ij (θ_j + ϑ_j − θ_i) − λ_t g_i]           W symmetric

γ_t = (t+1)^−u, λ_t ~ (t+1)^−v with ½ − ς < u < v < 1: the links fade, so noise of scale (t+1)^−ς may fade slowly,
stay, or even grow (ς < 0) and θ still converges. The paper's experiments use u = 0.7. P projects onto the box |θ_k|
≤ `box`.

The source was not available to us: equations from memory, checked by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gossamer.algorithms.assumptions import fading_links_within
from gossamer.algorithms.base import Algorithm, OverTime, parameters_of
from gossamer.algorithms.registry import method
from gossamer.schedules import Decay, Schedule, over_rounds
from gossamer.types import Array, Dynamics, Out, Rows

WEAKEN = Decay(1.0, 0.7)  # the paper's

OVER_TIME = OverTime(
    "On networks that change nothing is proved of LDOL. Where weights are symmetric in every round, every gradient "
    "counts alike; links that fail one way leave that true in the mean over what chance may do.",
    fades=True,
)


class State(NamedTuple):
    theta: Array  # (k, n) parameters


@method(label="LDOL", source="M", step_exponent=0.75, noise_exponent=0.0, also=((0.9, 0.0), (0.75, 0.25)), order=6)
def ldol(
    step: Schedule, noise: Schedule | None = None, *, weaken: Decay = WEAKEN, box: float = math.inf, strict: bool = True
) -> Algorithm[State]:
    """LDOL with step sizes `step` and the weakening factor `weaken` on every link."""

    def init(rows: Rows, theta0: Array) -> State:
        return State(theta0)

    def emit(x: State, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        return {"theta": Out(x.theta, over="W", private=True)}

    def advance(x: State, got: Mapping[str, Array], grad: Array, rows: Rows, t: int) -> State:
        theta = x.theta + weaken(t) * (rows.W_ii * x.theta + got["theta"]) - step(t) * grad
        return State(theta.clip(-box, box))

    def dynamics(rows: Rows, z: Array) -> Dynamics:
        """δθ⁺ ≤ |1 + γ_t W_ii| δθ + λ_t G."""
        A = np.abs(1 + over_rounds(weaken, len(z), signed=True) * rows.W_ii.item())[:, None, None]
        return Dynamics(A, over_rounds(step, len(z))[:, None], None, point=0, channels={"theta": 0})

    def broken(given: Schedule | None) -> list[str]:
        return fading_links_within(weaken, step, given, ends="()")

    return Algorithm(
        "ldol", init, emit, advance, noise=noise, broken=broken, strict=strict, mixes=("W",), dynamics=dynamics,
        conserves="sum", over_time=OVER_TIME, parameters=parameters_of(step, noise, weaken=repr(weaken), box=box),
    )  # fmt: skip
