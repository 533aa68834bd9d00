"""Rounds of very many learners, some rows at a time.

A round in whole arrays writes a dozen arrays of the state's size, and each goes out to memory and back. Here a round is
played for a few hundred learners after the other: what it needs beside the state stays in the processor's cache, and
is never there for all learners at once. The functions of an algorithm serve any block of rows, so nothing else changes:
the numbers are those of whole arrays, bit by bit.

    for every block    emit, noise              what is sent is a part of the state, or is written down for all
    for every block    gradient, mix, step      from what all have sent

The first pass falls away where all that is sent are parts of the state as they are. Where messages contain the round's
gradient, it is found in the first pass and kept. Seeded noise is counted by learner, so that a block draws its own.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeGuard

import numpy as np

from gossamer.algorithms.base import Algorithm, State
from gossamer.models.memory import LinearMemory
from gossamer.privacy import SimulatedNoise, Unproved
from gossamer.records import Batch
from gossamer.rounds import with_ridge
from gossamer.simulate.shard import Mix
from gossamer.types import Array, Out, Rows

NUMBERS_AT_ONCE = 1 << 15  # of an array of a block: 256 KiB, a few of which fit into a core's own cache


class Block(NamedTuple):
    """Some learners, their place in the network, and their noise."""

    learners: slice
    rows: Rows
    boundary: Unproved


class Blocks(Generic[State]):
    """Plays a round of all learners, block by block; `ridge` and `weights` as gossamer.rounds.Rounds has them.

    `width` is how many numbers θ has. A state is good for one more round: then its arrays are written anew, because new
    memory costs more than what is computed in it. Whoever keeps a state copies it.
    """

    def __init__(
        self,
        algorithm: Algorithm[State],
        mix: Mix,
        rows: Rows,
        memory: LinearMemory,
        ridge: float | Array,
        weights: Array | None,
        width: int,
        noise: SimulatedNoise | None = None,
    ) -> None:
        self._algorithm, self._mix, self._memory, self._ridge = algorithm, mix, memory, ridge
        self._weights = None if weights is None else weights[:, None]
        learners, at_once = len(rows.ids), max(1, NUMBERS_AT_ONCE // width)
        self._unknown = np.full((min(at_once, learners), width), np.nan)
        self._gradient: Array | None = np.empty((learners, width)) if self._sends_gradients(rows) else None
        self._noisy = noise is not None and noise.where == "messages"
        self._written = dict[str, Array]()  # what is sent and is no part of the state, anew in every round
        self._last: State | None = None
        self._spare: State | None = None
        self._blocks = [
            Block(some, rows.part(some), Unproved(noise, rows.ids[some], rows.m))
            for some in (slice(k, min(k + at_once, learners)) for k in range(0, learners, at_once))
        ]

    def _sends_gradients(self, rows: Rows) -> bool:
        """Whether a gradient that is not known yet makes a message unknown."""
        few = rows.part(slice(0, len(self._unknown)))
        state = self._algorithm.init(few, np.zeros_like(self._unknown))
        sent = self._algorithm.emit(state, self._unknown, few, 0)
        return any(bool(np.isnan(out.value).any()) for out in sent.values())

    def __call__(self, state: State, records: Batch, t: int) -> State:
        self._memory.observe(records)
        sent = self._send(state, t)
        self._last, self._spare = self._spare, self._last  # two states of our own, written by turns
        if self._last is None:
            self._last = type(state)(**{name: np.empty_like(value) for name, value in state._asdict().items()})
        fields, received = self._last._asdict(), self._mix.parts(sent)
        for block in self._blocks:
            some, part = block.learners, _part(state, block.learners)
            gradient = self._slope(part, block, t) if self._gradient is None else self._gradient[some]
            got = {channel: received(channel, some) for channel in sent}
            stepped = self._algorithm.step(part, got, gradient, block.rows, t)
            for name, value in stepped._asdict().items():
                fields[name][some] = value
        self._memory.let_go()
        return self._last

    def _send(self, state: State, t: int) -> dict[str, Out]:
        """What all learners send; a part of the state goes as it lies there."""
        sent = dict[str, Out]()
        for block in self._blocks:
            some, part = block.learners, _part(state, block.learners)
            gradient = self._unknown[: len(block.rows.ids)]
            if self._gradient is not None:
                gradient = self._gradient[some] = self._slope(part, block, t)
            for channel, out in self._algorithm.emit(part, gradient, block.rows, t).items():
                whole = next((name for name, value in part._asdict().items() if value is out.value), None)
                if whole is not None and not (out.private and self._noisy):
                    sent[channel] = out._replace(value=getattr(state, whole))
                    continue
                if channel not in self._written:
                    self._written[channel] = np.empty((len(state.theta), *out.value.shape[1:]))
                released = block.boundary.release(channel, t, out.value) if out.private else out.value
                self._written[channel][some] = released
                sent[channel] = out._replace(value=self._written[channel])
            if self._gradient is None and not self._written:
                break  # nothing but parts of the state: the first block tells of all
        return sent

    def _slope(self, part: State, block: Block, t: int) -> Array:
        """The gradient that a block's step uses; nothing in a round that releases none."""
        point = self._algorithm.point(part)
        if not block.boundary.fresh(t):
            return np.zeros_like(point)
        noised = block.boundary.gradient(t, self._memory.gradient(point, block.learners))
        gradient: Array = with_ridge(noised, self._ridge, point)
        return gradient if self._weights is None else gradient * self._weights[block.learners]


def _part(state: State, some: slice) -> State:
    return type(state)(**{name: value[some] for name, value in state._asdict().items()})


def serves(privacy: object) -> TypeGuard[SimulatedNoise | None]:
    """Whether blocks can draw this noise, each for its own learners: seeded noise of every learner by itself."""
    return privacy is None or (isinstance(privacy, SimulatedNoise) and len(privacy.factor) == 1 and not privacy.pairs)
