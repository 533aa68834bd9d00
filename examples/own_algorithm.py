"""A method of your own in one file: written, checked by the suite that every method must pass, and run with a budget.

    python examples/own_algorithm.py

    θ⁺ = (I+W) θ + off(W) ϑ − λ_t g        mix with the neighbours, then step along the own gradient

`gossamer run mushrooms --algorithm own_algorithm:gossip_descent`, in this folder, runs it by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

import gossamer as gs
from gossamer.algorithms import Algorithm, method
from gossamer.schedules import Schedule, over_rounds, power_of
from gossamer.types import Array, Dynamics, Out, Rows


class State(NamedTuple):
    theta: Array  # (k, n) parameters


@method(label="Gossip descent", source="V", step_exponent=0.6, noise_exponent=0.55)
def gossip_descent(step: Schedule, noise: Schedule | None = None, *, strict: bool = True) -> Algorithm[State]:
    def init(rows: Rows, theta0: Array) -> State:
        return State(theta0)

    def emit(x: State, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        return {"theta": Out(x.theta, over="W", private=True)}

    def advance(x: State, got: Mapping[str, Array], grad: Array, rows: Rows, t: int) -> State:
        return State((1 + rows.W_ii) * x.theta + got["theta"] - step(t) * grad)

    def dynamics(rows: Rows, z: Array) -> Dynamics:
        """δθ⁺ ≤ |1+W_ii| δθ + λ_t G: what a budget with noise on messages is accounted from."""
        A = np.full((len(z), 1, 1), abs(1 + rows.W_ii.item()))
        return Dynamics(A, over_rounds(step, len(z))[:, None], power_of(step), point=0, channels={"theta": 0})

    return Algorithm(
        "gossip_descent", init, emit, advance, noise=noise, strict=strict, mixes=("W",), dynamics=dynamics,
        conserves="sum", parameters={"step": repr(step)},
    )  # fmt: skip


def main() -> None:
    for finding in gs.check_algorithm(gossip_descent(gs.decay(0.5, 0.8))):
        print(f"{finding.check}: {finding.measured:.3g}, allowed {finding.allowed:.3g}")
    run = gs.simulate(
        gossip_descent(gs.decay(1.0, 0.8)),
        gs.Network.paper(),
        gs.datasets.mushrooms(10, draw="once"),
        model=gs.LogisticRegression(l2=1e-2),
        privacy=gs.Laplace.for_budget(8.0),
        steps=200,
    )
    print(f"accuracy {run.history.accuracy[-1]:.3f}; {run.claim}")


if __name__ == "__main__":
    main()
