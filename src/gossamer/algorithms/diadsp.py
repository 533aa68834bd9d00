"""DiaDSP (Ding, Zhu, He, Chen & Guan, "Differentially Private Distributed Optimization via State and Direction
Perturbation in Multiagent Systems", IEEE TAC 67(2), 2022): gradient tracking on an undirected network, constant
step, noise on the state and on the direction that fades geometrically.

    θ⁺ = (I+W) θ + off(W) ϑ − α y                                      ϑ_t ~ Lap(d q^t), ζ_t ~ Lap(d q^t), q < 1
    y⁺ = (I+W) y + off(W) ζ + g_{t+1}(θ⁺) − g_t(θ),   y_0 = g_0(θ_0)

With q < 1 the noise adds up to a finite sum, but so that its budget is finite only up to a horizon: it fades faster
than what it hides. It is biased by design: y keeps the sum of all ζ it received, and θ comes to rest where the
learners' mean gradient is minus that sum over m. As a learner's own term carries no noise here,

    E‖∇F(θ_∞)‖² = 2 n d² Σ_i W_ii² / (m² (1 − q²))

and where it does, as in the original (`diadsp_own`), 2 n d² / (m (1 − q²)): θ⁺ = (I+W)(θ + ϑ) − α y, and y likewise.

That releases nothing more, and mostly costs less. Budgets compare the densities of messages given all earlier messages
(docs/privacy.md), and what is made of those is the same in both worlds: of a difference nothing is kept from round to
round. With a = 0 where the learner's own term is its message, and a = 1+W_ii where it is not,

    δθ⁺ ≤ |a| δθ + α (δw + G),   δw⁺ ≤ |a| δw + |a − 1| G,   y = w + g

With "latest" gradients |a − 1| grows from |W_ii| to 1, and the published form may cost more: up to twice in our tests.

The source was not available to us: equations from memory, checked by simulation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gossamer.algorithms.assumptions import step_within
from gossamer.algorithms.base import Algorithm, OverTime, parameters_of
from gossamer.algorithms.registry import SPLITS, method
from gossamer.schedules import Decay, Schedule, over_rounds
from gossamer.types import Array, Dynamics, Matrix, Out, Rows

ALSO = ((0.0, 0.0, 0.99), (0.0, 0.0, 0.9995))  # other q

OVER_TIME = OverTime(
    "Without noise it is gradient tracking with doubly stochastic weights, proved, for a small constant step and "
    "strongly convex and smooth losses, where any B rounds together connect everybody (Nedić, Olshevsky & Shi, SIAM J. "
    "Optim. 27(4), 2017). Not proved: with noise, and where links fail with a probability, so that no B is certain.",
    pushed={"y": "w"}, lost=("kept",), hands_over=True,
)  # fmt: skip


class State(NamedTuple):
    theta: Array  # (k, n) parameters
    w: Array  # (k, n) direction without the newest gradient


@method(
    label="DiaDSP",
    source="M",
    step_exponent=0.0,
    noise_exponent=0.0,
    noise_ratio=0.998,
    also=ALSO,
    splits=SPLITS,
    order=2,
)
def diadsp(
    step: Schedule, noise: Schedule | None = None, *, own: bool = False, strict: bool = True
) -> Algorithm[State]:
    """DiaDSP with a constant step, decay(α, 0), and, where given, noise scales geometric(d, q).

    own=True noises a learner's own term as well.
    """
    over: Matrix = "I+W" if own else "W"

    def mixed(value: Array, came: Array, rows: Rows) -> Array:
        """All that came, its own message among it; or what came, and the learner's own value as it is."""
        return came if own else (1 + rows.W_ii) * value + came

    def init(rows: Rows, theta0: Array) -> State:
        return State(theta0, 0 * theta0)

    def emit(x: State, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        return {"theta": Out(x.theta, over=over, private=True), "y": Out(x.w + grad, over=over, private=True)}

    def advance(x: State, got: Mapping[str, Array], grad: Array, rows: Rows, t: int) -> State:
        y = x.w + grad
        theta = mixed(x.theta, got["theta"], rows) - step(t) * y
        return State(theta, mixed(y, got["y"], rows) - grad)

    def dynamics(rows: Rows, z: Array) -> Dynamics:
        """As for Push–Pull, with W on both sides."""
        a, alpha = 0.0 if own else 1 + rows.W_ii.item(), over_rounds(step, len(z))
        A, b = np.zeros((len(z), 3, 3)), np.ones((len(z), 3))
        A[:, 0, 0], A[:, 0, 1], A[:, 1, 1], A[:, 2, 1] = abs(a), alpha, abs(a), 1
        b[:, 0], b[:, 1] = alpha, 1 if own else abs(rows.W_ii.item())
        return Dynamics(A, b, None, point=0, channels={"theta": 0, "y": 2}, after=frozenset({"y"}))

    def broken(given: Schedule | None) -> list[str]:
        sentences = step_within(step, 0, 0, "DiaDSP converges linearly with a constant step", ends="[]")
        if given is not None and not (isinstance(given, Decay) and given.ratio < 1):
            sentences.append(f"the noise is {given} and must fade geometrically, geometric(d, q) with q < 1.")
        return sentences

    return Algorithm(
        "diadsp_own" if own else "diadsp", init, emit, advance, noise=noise, broken=broken, strict=strict,
        mixes=(over,), dynamics=dynamics, conserves="sum", over_time=OVER_TIME, parameters=parameters_of(step, noise),
    )  # fmt: skip


@method(
    label="DiaDSP, own term noised as published", source="M", step_exponent=0.0, noise_exponent=0.0, noise_ratio=0.998,
    also=ALSO, splits=SPLITS, noises_own=True, order=2,
)  # fmt: skip
def diadsp_own(step: Schedule, noise: Schedule | None = None, *, strict: bool = True) -> Algorithm[State]:
    """DiaDSP with noise on a learner's own term as well, as its paper has it."""
    return diadsp(step, noise, own=True, strict=strict)
