"""Subgradient rescaling (Xiong, Xu, You, Liu & Wu, "Privacy-Preserving Distributed Online Optimization Over Unbalanced
Digraphs via Subgradient Rescaling", IEEE TCNS 7(3), 2020).

    θ⁺ = P[(I+R) θ + off(R) ϑ − α_t g / (m [z_i]_i)]
    z⁺ = (I+R) z,  z_{i,0} = e_i

Dividing by m[z_i]_i → u_i, the Perron weight, undoes the graph's unbalance, as in Algorithm 1; there is no tracker,
so heterogeneous learners are α_t apart. P projects onto the box |θ_k| ≤ `box`, which moves no two points apart in
any norm; without `box` it does nothing.

The source was not available to us: equations from a secondary source, checked by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gossamer.algorithms.assumptions import SUMMABLE, noise_above, step_within
from gossamer.algorithms.base import Algorithm, parameters_of
from gossamer.algorithms.registry import method
from gossamer.schedules import Schedule, over_rounds, power_of
from gossamer.types import Array, Dynamics, Out, Rows


class State(NamedTuple):
    theta: Array  # (k, n) parameters
    z: Array  # (k, m) left-eigenvector estimate; row i starts at e_i


@method(label="Rescaling (Xiong et al.)", source="S", step_exponent=0.6, noise_exponent=0.55, order=5)
def subgradient_rescaling(
    step: Schedule, noise: Schedule | None = None, *, box: float = math.inf, strict: bool = True
) -> Algorithm[State]:
    """Xiong et al.'s method with step sizes `step`, projected onto |θ_k| ≤ `box`."""

    def init(rows: Rows, theta0: Array) -> State:
        return State(theta0, rows.unit())

    def emit(x: State, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        out = {"theta": Out(x.theta, over="R", private=True)}
        if t < rows.settles:
            out["z"] = Out(x.z, over="R", private=False)
        return out

    def advance(x: State, got: Mapping[str, Array], grad: Array, rows: Rows, t: int) -> State:
        theta = (1 + rows.R_ii) * x.theta + got["theta"] - step(t) * grad / (rows.m * rows.own(x.z))
        z = (1 + rows.R_ii) * x.z + got["z"] if t < rows.settles else x.z
        return State(theta.clip(-box, box), z)

    def dynamics(rows: Rows, z: Array) -> Dynamics:
        """δθ⁺ ≤ |1+R_ii| δθ + α_t G / (m z_t)."""
        b = (over_rounds(step, len(z)) / (rows.m * z))[:, None]
        A = np.full((len(z), 1, 1), abs(1 + rows.R_ii.item()))
        return Dynamics(A, b, power_of(step), point=0, channels={"theta": 0})

    def broken(given: Schedule | None) -> list[str]:
        sentences = step_within(step, 0.5, 1, SUMMABLE)
        return sentences + noise_above(given, 0.5, "else its variance does not add up to a finite sum")

    return Algorithm(
        "subgradient_rescaling", init, emit, advance, noise=noise, broken=broken, strict=strict, mixes=("R",),
        dynamics=dynamics, parameters=parameters_of(step, noise, box=box),
    )  # fmt: skip
