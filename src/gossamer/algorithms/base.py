"""What an algorithm is: a few pure functions on a block of learners.

    init(rows, theta0)              -> State
    emit(state, grad, rows, t)      -> {channel: Out}      all that ever leaves a learner
    step(state, got, grad, rows, t) -> State               got[channel] = Σ_{j≠i} W_ij · received_j

A block of all m learners is the simulator, a block of one is a party's own process. An algorithm knows nothing of
sockets, graphs, random numbers or privacy; the noise is added to what `emit` returns, at the privacy boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gossamer.errors import Argument, GossamerError
from gossamer.schedules import Schedule
from gossamer.types import Array, Dynamics, Matrix, Out, Rows

State = Any  # each algorithm's own NamedTuple of arrays, one row per learner, with a field `theta`


def theta_of(state: State) -> Array:
    theta: Array = state.theta
    return theta


def nothing_broken(noise: Schedule | None) -> list[str]:
    return []


@dataclass(frozen=True)
class Algorithm:
    """An algorithm as a value.

    point       where the round's gradient is taken; θ unless the method says otherwise
    noise       the noise scales it is meant to run with, if it was given any
    broken      the sentences in which a noise schedule breaks the method's assumptions; empty: none broken
    strict      whether a broken assumption is refused, or run and noted
    mixes       the matrices whose links it sends over
    dynamics    how differences between neighbouring runs of one learner travel: what privacy is accounted from.
                Called with the learner's rows and its own weights [z_{i,t}]_i over the rounds; None: no claim is made
    weights     Σ w_i f_i is what it minimises without noise, w a function of the Perron vector u; None: w = 1
    parameters  what a run record says of it
    """

    name: str
    init: Callable[[Rows, Array], State]
    emit: Callable[[State, Array, Rows, int], dict[str, Out]]
    step: Callable[[State, Mapping[str, Array], Array, Rows, int], State]
    point: Callable[[State], Array] = theta_of
    noise: Schedule | None = None
    broken: Callable[[Schedule | None], list[str]] = nothing_broken
    strict: bool = True
    mixes: tuple[Matrix, ...] = ("R", "C")
    dynamics: Callable[[Rows, Array], Dynamics] | None = None
    weights: Callable[[Array], Array] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.notes(self.noise)  # a strict algorithm refuses its own schedules at once

    def notes(self, noise: Schedule | None) -> list[str]:
        """What a run with this noise breaks; refuses instead where the algorithm is strict."""
        broken = self.broken(noise)
        if broken and self.strict:
            raise GossamerError(
                f"{self.name}: {' '.join(broken)} Change the schedules, or say ",
                Argument("strict", False), " to run all the same.",
            )  # fmt: skip
        return broken
