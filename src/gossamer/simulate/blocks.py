"""Rounds of very many learners, some rows at a time.

A round in whole arrays writes a dozen arrays of the state's size, and each goes out to memory and back. Here a round is
played for a few hundred learners after the other: what it needs beside the state stays in the processor's cache, and
is never there for all learners at once. The functions of an algorithm serve any block of rows, so nothing else changes:
the numbers are those of whole arrays, bit by bit.

    for every block    gradient, emit           what is sent is a part of the state, or is written down for all
    for every block    mix, step                from what all have sent

Only where nothing is noised: a boundary draws for all learners at once.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple

import numpy as np

from gossamer.algorithms.base import Algorithm, State
from gossamer.models.memory import LinearMemory
from gossamer.networks import Network
from gossamer.records import Batch
from gossamer.rounds import with_ridge
from gossamer.types import Array, Matrix, Rows

NUMBERS_AT_ONCE = 1 << 15  # of an array of a block: 256 KiB, a few of which fit into a core's own cache


class Block(NamedTuple):
    """Some learners, their place in the network, and the weights with which they hear all others."""

    learners: slice
    rows: Rows
    links: dict[Matrix, Any]


class Blocks(Generic[State]):
    """Plays a round of all learners, block by block; `ridge` and `weights` as gossamer.rounds.Rounds has them.

    `width` is how many numbers θ has. A state is good for one more round: then its arrays are written anew, because new
    memory costs more than what is computed in it. Whoever keeps a state copies it.
    """

    def __init__(
        self,
        algorithm: Algorithm[State],
        network: Network,
        rows: Rows,
        memory: LinearMemory,
        ridge: float | Array,
        weights: Array | None,
        width: int,
    ) -> None:
        self._algorithm, self._memory, self._ridge = algorithm, memory, ridge
        self._weights = None if weights is None else weights[:, None]
        self._gradient: Array = np.empty((rows.m, width))
        self._last: State | None = None
        self._spare: State | None = None
        links: dict[Matrix, Any] = {over: network.off_diagonal(over) for over in algorithm.mixes}
        at_once = max(1, NUMBERS_AT_ONCE // width)
        self._blocks = [
            Block(some, rows.part(some), {over: links[over][some] for over in links})
            for some in (slice(k, min(k + at_once, rows.m)) for k in range(0, rows.m, at_once))
        ]

    def __call__(self, state: State, records: Batch, t: int) -> State:
        self._memory.observe(records)
        gradient, sent = self._gradient, dict[str, Any]()
        for block in self._blocks:
            self._send(state, gradient, sent, block, t)
        self._last, self._spare = self._spare, self._last  # two states of our own, written by turns
        if self._last is None:
            self._last = type(state)(**{name: np.empty_like(value) for name, value in state._asdict().items()})
        fields = self._last._asdict()
        for some, rows, links in self._blocks:
            got = {channel: links[over] @ value for channel, (over, value) in sent.items()}
            stepped = self._algorithm.step(_part(state, some), got, gradient[some], rows, t)
            for name, value in stepped._asdict().items():
                fields[name][some] = value
        return self._last

    def _send(self, state: State, gradient: Array, sent: dict[str, Any], block: Block, t: int) -> None:
        """The block's gradient into its place, and what it sends: a part of the state goes as it lies there."""
        some, part = block.learners, _part(state, block.learners)
        point = self._algorithm.point(part)
        gradient[some] = with_ridge(self._memory.gradient(point, some), self._ridge, point)
        if self._weights is not None:
            gradient[some] *= self._weights[some]
        for channel, out in self._algorithm.emit(part, gradient[some], block.rows, t).items():
            whole = next((name for name, value in part._asdict().items() if value is out.value), None)
            if whole is not None:
                sent[channel] = out.over, getattr(state, whole)
                continue
            if channel not in sent:
                sent[channel] = out.over, np.empty((len(state.theta), *out.value.shape[1:]))
            sent[channel][1][some] = out.value


def _part(state: State, some: slice) -> State:
    return type(state)(**{name: value[some] for name, value in state._asdict().items()})
