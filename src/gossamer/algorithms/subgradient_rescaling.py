"""Subgradient rescaling (Xiong, Xu, You, Liu & Wu, "Privacy-Preserving Distributed Online Optimization Over Unbalanced
Digraphs via Subgradient Rescaling", IEEE TCNS 7(3), 2020).

    θ⁺ = P[(I+R) θ + off(R) ϑ − α_t g / (m [z_i]_i)]
    z⁺ = (I+R) z,  z_{i,0} = e_i

Dividing by m[z_i]_i → u_i, the Perron weight, undoes the graph's unbalance, as in Algorithm 1; there is no tracker,
so heterogeneous learners are α_t apart. P projects onto the box |θ_k| ≤ `box`, which moves no two points apart in
any norm; without `box` it does nothing.

**As published** a learner's own term carries its noise, too, (I+R)(θ + ϑ): `subgradient_rescaling_own`. That releases
nothing more, and costs less: given all earlier messages, which is how budgets compare them (docs/privacy.md), the mixed
term is the same in both worlds, and δθ⁺ ≤ α_t G/(m [z_i]_i).

The source was not available to us: equations from a secondary source, checked by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gossamer.algorithms.assumptions import SUMMABLE, noise_above, step_within
from gossamer.algorithms.base import Algorithm, OverTime, parameters_of
from gossamer.algorithms.registry import method
from gossamer.schedules import Schedule, over_rounds, power_of
from gossamer.types import Array, Dynamics, Matrix, Out, Rows

ALSO = ((0.75, 0.55), (0.75, 0.7))

OVER_TIME = OverTime(
    "On networks that change nothing is proved of rescaling by z. Given the weights of the rounds to come in its "
    "place, every gradient counts alike, or in the mean where chance decides."
)


class State(NamedTuple):
    theta: Array  # (k, n) parameters
    z: Array  # (k, m) left-eigenvector estimate; row i starts at e_i


@method(label="Rescaling (Xiong et al.)", source="S", step_exponent=0.6, noise_exponent=0.55, also=ALSO, order=5)
def subgradient_rescaling(
    step: Schedule, noise: Schedule | None = None, *, box: float = math.inf, own: bool = False, strict: bool = True
) -> Algorithm[State]:
    """Xiong et al.'s method with step sizes `step`, on |θ_k| ≤ `box`; own=True noises a learner's own term as well."""
    over: Matrix = "I+R" if own else "R"

    def mixed(value: Array, came: Array, rows: Rows) -> Array:
        """All that came, its own message among it; or what came, and the learner's own value as it is."""
        return came if own else (1 + rows.R_ii) * value + came

    def init(rows: Rows, theta0: Array) -> State:
        return State(theta0, rows.unit())

    def emit(x: State, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        out = {"theta": Out(x.theta, over=over, private=True)}
        if t < rows.settles:
            out["z"] = Out(x.z, over="R", private=False)
        return out

    def advance(x: State, got: Mapping[str, Array], grad: Array, rows: Rows, t: int) -> State:
        theta = mixed(x.theta, got["theta"], rows) - step(t) * grad / (rows.m * rows.own(x.z))
        z = (1 + rows.R_ii) * x.z + got["z"] if t < rows.settles else x.z
        return State(theta.clip(-box, box), z)

    def dynamics(rows: Rows, z: Array) -> Dynamics:
        """δθ⁺ ≤ a δθ + α_t G / (m z_t), where a = |1+R_ii|, or 0 with the own term noised."""
        b = (over_rounds(step, len(z)) / (rows.m * z))[:, None]
        A = np.full((len(z), 1, 1), 0.0 if own else abs(1 + rows.R_ii.item()))
        return Dynamics(A, b, power_of(step), point=0, channels={"theta": 0})

    def broken(given: Schedule | None) -> list[str]:
        sentences = step_within(step, 0.5, 1, SUMMABLE)
        return sentences + noise_above(given, 0.5, "else its variance does not add up to a finite sum")

    return Algorithm(
        f"subgradient_rescaling{'_own' * own}", init, emit, advance, noise=noise, broken=broken, strict=strict,
        mixes=("R", over) if own else ("R",), dynamics=dynamics, conserves="sum",
        over_time=OVER_TIME, parameters=parameters_of(step, noise, box=box),
    )  # fmt: skip


@method(
    label="Rescaling (Xiong et al.), own term noised as published", source="S", step_exponent=0.6, noise_exponent=0.55,
    also=ALSO, noises_own=True, order=5,
)  # fmt: skip
def subgradient_rescaling_own(
    step: Schedule, noise: Schedule | None = None, *, box: float = math.inf, strict: bool = True
) -> Algorithm[State]:
    """Xiong et al.'s method with noise on a learner's own term as well, as its paper has it."""
    return subgradient_rescaling(step, noise, box=box, own=True, strict=strict)
