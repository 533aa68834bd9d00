"""One round of a block of learners, and the privacy boundary in it: what a simulation and a party's process both run.

    send       records ─▶ memory ─▶ gradient ─▶ boundary.gradient ─▶ + l2 θ ─┐
                                                                             ▼
               state ─────────────────────────────────────────────────────▶ emit ─▶ boundary.release ─▶ links
    receive    links ─▶ boundary.take ─▶ step ─▶ boundary.hold ─▶ state

In a round without a release at the source no gradient is taken: the algorithm's own step, with zero in its place.

The ridge's l2 θ is no record's, so it is added after the noise at the source: what is noised there depends on records
and on nothing that could be steered to where adding it rounds.

Where records are to be kept secret, no state gets beyond FARTHEST (`finite`): whatever neighbours send, no record's
gradient may overflow, because whether it does would tell of the record. Two callers differ in when they ask for it:

    a party        always. Nobody sees its states, and one that overflowed would send what all its neighbours refuse.
    a simulation   where a budget is proved. Elsewhere it must not: `near` makes 0 of NaN and FARTHEST of ∞, after which
                   a run that diverges looks finite, and would not be refused at its next evaluation.

A run that learns stays far below FARTHEST, and there `near` changes no bit.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.algorithms.base import Algorithm, State
from gossamer.arrays import NUMPY, kind_of
from gossamer.models import Memory
from gossamer.models.standard import StandardMemory
from gossamer.privacy import Boundary, noised_fields
from gossamer.records import Batch
from gossamer.types import Array, Out, Rows

FARTHEST = 1e100  # no state that learns comes near it


class Sent(NamedTuple):
    """What a round's first half gives: the gradient that the step will use, and all that leaves the learners."""

    gradient: Array
    out: dict[str, Out]


class Rounds(Generic[State]):
    """The rounds of a block of learners; `ridge` is the model's l2, `finite` whether states are kept below FARTHEST.

    `weights` are the learners' in the objective, where they differ: factors of what has been noised.
    """

    def __init__(
        self,
        algorithm: Algorithm[State],
        rows: Rows,
        memory: Memory,
        boundary: Boundary,
        ridge: float | Array,
        finite: bool,
        weights: Array | None = None,
    ) -> None:
        self._algorithm, self._rows, self._memory = algorithm, rows, memory
        self._boundary, self._finite = boundary, finite
        self._ridge = one_ridge(ridge)
        self._weights = None if weights is None else kind_of(rows.R_ii).make(weights[:, None])
        self._parameters = noised_fields(algorithm, rows)
        self._acts: NDArray[np.bool_] | None = None

    def where(self, rows: Rows, acts: NDArray[np.bool_]) -> Rounds[State]:
        """The same for a round with other rows, in which only some learners use a gradient."""
        other = copy.copy(self)
        other._rows, other._acts = rows, None if acts.all() else acts
        return other

    def start(self, state: State) -> State:
        """The state of round 0, or of wherever a run goes on."""
        return self._held(state, 0)

    def send(self, state: State, records: Batch, t: int) -> Sent:
        """Take round t's records in, charge the round, and draw what is sent in it."""
        self._boundary.arrived(t, records)
        self._memory.observe(records)
        self._boundary.charge(t)
        gradient = self._gradient(self._algorithm.point(state), t)
        out = self._algorithm.emit(state, gradient, self._rows, t)
        return Sent(gradient, {channel: self._released(channel, t, value) for channel, value in out.items()})

    def _gradient(self, point: Array, t: int) -> Array:
        """What the step uses: nothing of who does not release, not even a ridge, whose share goes with the data's."""
        fresh, memory = self._boundary.fresh(t), self._memory
        nobody = not (fresh if isinstance(fresh, bool) else fresh.any())
        if nobody or (isinstance(memory, StandardMemory) and memory.idle(t)):
            nothing: Array = kind_of(point).zeros(point)
            return nothing
        if self._acts is not None:  # who sleeps releases all the same, to nobody: so it is charged
            fresh = fresh & self._acts
        gradient: Array
        if isinstance(memory, StandardMemory):
            noised = self._boundary.gradient(t, memory.seen(point, t))
            gradient = memory.used(noised, point, t, fresh)
        else:
            noised = self._boundary.gradient(t, memory.gradient(point))
            gradient = with_ridge(noised, self._ridge, point)
        if self._weights is not None:
            gradient = gradient * self._weights
        if not isinstance(fresh, bool) and not fresh.all():
            gradient[~fresh] = 0.0
        return gradient

    def _released(self, channel: str, t: int, out: Out) -> Out:
        if not out.private:
            return out
        released = self._boundary.release(channel, t, out.value)
        return out if released is out.value else Out(released, out.over, out.private)

    def receive(
        self, state: State, gradient: Array, got: Mapping[str, Array], private: Collection[str], t: int
    ) -> State:
        """The state of round t + 1, from what came in round t; `private` are the channels that carry noise."""
        taken = {channel: self._boundary.take(t, sum_) if channel in private else sum_ for channel, sum_ in got.items()}
        return self._held(self._algorithm.step(state, taken, gradient, self._rows, t), t + 1)

    def _held(self, state: State, t: int) -> State:
        changed = dict[str, Array]()
        for name in self._parameters:
            value = getattr(state, name)
            kept = self._boundary.hold(t, value)
            kept = near(kept) if self._finite else kept
            if kept is not value:
                changed[name] = kept
        return state._replace(**changed) if changed else state


def fields_of_graph(algorithm: Algorithm[Any], rows: Rows) -> list[str]:
    """The fields of a method's state that are about the graph, such as z."""
    rows = rows.part(slice(1))._replace(share=np.ones((1, 1)))  # of one learner, and z given: no m × m array is made
    wide = noised_fields(algorithm, rows)
    return [name for name in algorithm.init(rows, np.zeros((1, 1)))._asdict() if name not in wide]


def near(value: Any) -> Any:
    """No coordinate beyond FARTHEST; cutting off moves no two values apart."""
    kind = kind_of(value)
    if kind is NUMPY and np.vdot(value, value) <= FARTHEST:  # then no coordinate is beyond its root; NaN is none
        return value
    return kind.cut_off(value, FARTHEST)


def one_ridge(ridge: float | Array) -> float | Array:
    """One number where all parameters have the same: that is quicker."""
    every = np.unique(ridge)
    return float(every[0]) if len(every) == 1 else ridge


def with_ridge(gradient: Any, ridge: float | Array, point: Any) -> Any:
    """The gradient with the penalty's l2 θ; a tensor comes back in the precision that θ has."""
    kind = kind_of(point)
    gradient = kind.narrow(gradient)
    if isinstance(ridge, float) and ridge == 0:
        return gradient
    return kind.add_scaled(gradient, ridge, point)
