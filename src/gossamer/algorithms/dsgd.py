"""Decentralised (stochastic) gradient descent (Nedić & Ozdaglar, "Distributed Subgradient Methods for Multi-Agent
Optimization", IEEE TAC 54(1), 2009), with noise on its messages: the simplest method there is.

    θ⁺ = (I+W) θ + off(W) ϑ − λ_t g                    W symmetric: I+W doubly stochastic

On an unbalanced directed graph, with I+R in place of I+W, the same recursion weighs learner i by its Perron weight
u_i and converges to argmin Σ u_i f_i: `over="R"` is kept to show that, and says so. It is a misuse wherever learners
differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from gossamer.algorithms.assumptions import SUMMABLE, noise_above, step_within
from gossamer.algorithms.base import Algorithm, OverTime, parameters_of
from gossamer.algorithms.registry import method
from gossamer.errors import BadValue
from gossamer.schedules import Schedule, over_rounds, power_of
from gossamer.types import Array, Dynamics, Out, Rows

MISUSE = "dsgd over R is a misuse, kept for comparison: it minimises Σ u_i f_i, learner i weighed by its Perron weight."

OVER_TIME = OverTime(
    "Proved, without noise, where weights are symmetric in every round and any B rounds together connect everybody "
    "(Nedić & Ozdaglar, IEEE TAC 54(1), 2009). Links that fail one way break the symmetry: then every gradient counts "
    "alike in the mean over what chance may do, and nothing more is known."
)


class State(NamedTuple):
    theta: Array  # (k, n) parameters


@method(label="DSGD", source="V", step_exponent=0.6, noise_exponent=0.55, also=((0.75, 0.55), (0.75, 0.7)), order=9)
def dsgd(
    step: Schedule, noise: Schedule | None = None, *, over: Literal["W", "R"] = "W", strict: bool = True
) -> Algorithm[State]:
    """DSGD with step sizes `step`; over="R" is the naive run on a directed graph, a misuse, and needs strict=False."""

    if over not in ("W", "R"):
        requirement = "expected 'W', or 'R' for the naive run on a directed graph"
        raise BadValue("over", over, requirement, python=f"dsgd(over={over!r})")

    def own(rows: Rows) -> Array:
        return 1 + (rows.W_ii if over == "W" else rows.R_ii)

    def init(rows: Rows, theta0: Array) -> State:
        return State(theta0)

    def emit(x: State, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        return {"theta": Out(x.theta, over=over, private=True)}

    def advance(x: State, got: Mapping[str, Array], grad: Array, rows: Rows, t: int) -> State:
        return State(own(rows) * x.theta + got["theta"] - step(t) * grad)

    def dynamics(rows: Rows, z: Array) -> Dynamics:
        """δθ⁺ ≤ |1+W_ii| δθ + λ_t G."""
        A = np.full((len(z), 1, 1), abs(own(rows).item()))
        return Dynamics(A, over_rounds(step, len(z))[:, None], power_of(step), point=0, channels={"theta": 0})

    def broken(given: Schedule | None) -> list[str]:
        sentences = [MISUSE] if over == "R" else []
        sentences += step_within(step, 0.5, 1, SUMMABLE)
        return sentences + noise_above(given, 0.5, "else its variance does not add up to a finite sum")

    return Algorithm(
        "dsgd" if over == "W" else "dsgd on I+R (misuse)", init, emit, advance, noise=noise, broken=broken,
        strict=strict, mixes=(over,), dynamics=dynamics, weights=(lambda u: u) if over == "R" else None,
        conserves="weighted" if over == "R" else "sum", over_time=OVER_TIME,
        parameters=parameters_of(step, noise, over=over),
    )  # fmt: skip


@method(label="DSGD on I+R (misuse)", source="V", step_exponent=0.6, noise_exponent=0.55, compared=False, order=10)
def dsgd_naive(step: Schedule, noise: Schedule | None = None, *, strict: bool = False) -> Algorithm[State]:
    """The misuse: DSGD over the links of a directed graph as if it were balanced."""
    return dsgd(step, noise, over="R", strict=strict)
