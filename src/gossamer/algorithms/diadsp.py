"""DiaDSP (Ding, Zhu, He, Chen & Guan, "Differentially Private Distributed Optimization via State and Direction
Perturbation in Multiagent Systems", IEEE TAC 67(2), 2022): gradient tracking on an undirected network, constant
step, noise on the state and on the direction that fades geometrically.

    θ⁺ = (I+W) θ + off(W) ϑ − α y                                      ϑ_t ~ Lap(d q^t), ζ_t ~ Lap(d q^t), q < 1
    y⁺ = (I+W) y + off(W) ζ + g_{t+1}(θ⁺) − g_t(θ),   y_0 = g_0(θ_0)

With q < 1 the noise adds up to a finite sum, but so that its budget is finite only up to a horizon: it fades faster
than what it hides. It is biased by design: y keeps the sum of all ζ it received, and θ comes to rest where the
learners' mean gradient is minus that sum over m. As a learner's own term carries no noise here,

    E‖∇F(θ_∞)‖² = 2 n d² Σ_i W_ii² / (m² (1 − q²))

and where it does, as in the original, 2 n d² / (m (1 − q²)).

The source was not available to us: equations from memory, checked by simulation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gossamer.algorithms.assumptions import step_within
from gossamer.algorithms.base import Algorithm, parameters_of
from gossamer.algorithms.registry import method
from gossamer.schedules import Decay, Schedule, over_rounds
from gossamer.types import Array, Dynamics, Out, Rows


class State(NamedTuple):
    theta: Array  # (k, n) parameters
    w: Array  # (k, n) direction without the newest gradient


@method(label="DiaDSP", source="M", step_exponent=0.0, noise_exponent=0.0, noise_ratio=0.998, order=2)
def diadsp(step: Schedule, noise: Schedule | None = None, *, strict: bool = True) -> Algorithm[State]:
    """DiaDSP with a constant step, decay(α, 0), and, where given, noise scales geometric(d, q)."""

    def init(rows: Rows, theta0: Array) -> State:
        return State(theta0, 0 * theta0)

    def emit(x: State, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        return {"theta": Out(x.theta, over="W", private=True), "y": Out(x.w + grad, over="W", private=True)}

    def advance(x: State, got: Mapping[str, Array], grad: Array, rows: Rows, t: int) -> State:
        y = x.w + grad
        theta = (1 + rows.W_ii) * x.theta + got["theta"] - step(t) * y
        return State(theta, (1 + rows.W_ii) * y + got["y"] - grad)

    def dynamics(rows: Rows, z: Array) -> Dynamics:
        """As for Push–Pull, with W on both sides."""
        W_ii, alpha = rows.W_ii.item(), over_rounds(step, len(z))
        A, b = np.zeros((len(z), 3, 3)), np.ones((len(z), 3))
        A[:, 0, 0], A[:, 0, 1], A[:, 1, 1], A[:, 2, 1] = abs(1 + W_ii), alpha, abs(1 + W_ii), 1
        b[:, 0], b[:, 1] = alpha, abs(W_ii)
        return Dynamics(A, b, None, point=0, channels={"theta": 0, "y": 2}, after=frozenset({"y"}))

    def broken(given: Schedule | None) -> list[str]:
        sentences = step_within(step, 0, 0, "DiaDSP converges linearly with a constant step", ends="[]")
        if given is not None and not (isinstance(given, Decay) and given.ratio < 1):
            sentences.append(f"the noise is {given} and must fade geometrically, geometric(d, q) with q < 1.")
        return sentences

    return Algorithm(
        "diadsp", init, emit, advance, noise=noise, broken=broken, strict=strict, mixes=("W",), dynamics=dynamics,
        parameters=parameters_of(step, noise),
    )  # fmt: skip
