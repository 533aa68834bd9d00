"""The noise of pair secrets, drawn: both ends of a pair get the same whole numbers, and one of them takes them away.

**The grid.** Everybody's releases of a round are whole numbers of one grid: 2^−40 of the smallest deviation of the
round, the learners' agreed σ_t or the pairs' τ_t. A learner releases

    k_i = round(g_i/grid) + η_i + Σ_{j>i} v_ij − Σ_{j<i} v_ji

with discrete Gaussians η_i and v_ij. In the sum over learners no v is left, not even a rounded one: whole numbers
cancel. All deviations fall alike with time, so in steps of the grid they are the same in every round; they are rounded
up, and no noise is smaller than what is booked. See gossamer.privacy.secrets for what it is worth.

**The streams.** v_ij of round t comes from the cipher stream with the pair's key and the nonce t. A run's keys serve
that run alone and rounds are released once, so no number is used in two releases. Whoever has not the key cannot tell
the stream from chance, as far as the cipher is good: the claim is computational, in contrast to that of η_i.

A simulation deals keys of its own, from the operating system, and draws every pair's noise once for both ends.
"""

from __future__ import annotations

import hmac
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import NotProvable
from gossamer.lazy import import_once
from gossamer.types import Array

BITS = 40  # every deviation has at least 2^BITS steps of the grid
WIDEST = 2.0**9  # the largest deviation, in units of the smallest
CLAMP = 2.0**50  # steps that a value may be away from 0: weighing and dividing it rounds by a quarter of a step at most

Steps = NDArray[np.int64]


class PairNoise(Protocol):
    """What a block of learners shares with others."""

    def add(self, t: int, deviation: int, rows: Steps) -> None:
        """Add to every learner's row, in steps of the grid, what its pairs add in round t."""


class Grid(NamedTuple):
    """The deviations of a block of learners in steps of the grid that all learners of a run have."""

    unit: float  # the deviation, in round 0, of which a step is 2^−40
    own: tuple[int, ...]
    pair: int

    @classmethod
    def of(cls, own: Sequence[float], floor: float, pair: float) -> Grid:
        """For the learners' own deviations in round 0, beside the agreed one and the pairs'."""
        unit = min(floor, pair)
        if max(*own, floor, pair) > WIDEST * unit:
            raise NotProvable(
                f"noise of deviations from {unit:.3g} to {max(*own, pair):.3g} has to go on one grid: expected at most "
                f"{WIDEST:g} times the smallest; give budgets or weights that are nearer to each other."
            )
        return cls(unit, tuple(_steps(one, unit) for one in own), _steps(pair, unit))

    def step(self, fades: float) -> float:
        """One step, in a round in which noise is `fades` times what it is in round 0."""
        return self.unit * fades * 2.0**-BITS

    def release(self, values: Array, step: float, t: int, pairs: PairNoise) -> Steps:
        """(learners, n) values, none beyond CLAMP steps, with their own noise and that of their pairs: whole steps."""
        rows: Steps = np.rint(values / step).astype(np.int64)
        table: Any = import_once("gossamer.privacy.table")
        for row, deviation in zip(rows, self.own, strict=True):
            table.own_gaussian(row, deviation)
        pairs.add(t, self.pair, rows)
        return rows


def _steps(deviation: float, unit: float) -> int:
    return math.ceil(deviation / unit * 2.0**BITS)


def stream_of(key: bytes, t: int) -> Any:
    """The stream that both ends of a pair draw round t's noise from."""
    return import_once("gossamer.privacy.table").Stream(key, t.to_bytes(12, "little"))


class DealtPairs:
    """All pairs of a simulation, under keys that nobody outside of it has."""

    def __init__(self, edges: Sequence[tuple[int, int]], master: bytes | None = None) -> None:
        master = os.urandom(32) if master is None else master
        self.keys = {(i, j): pair_key(master, i, j) for i, j in edges}

    def add(self, t: int, deviation: int, rows: Steps) -> None:
        drawn = np.empty(rows.shape[1], dtype=np.int64)
        for (i, j), key in self.keys.items():
            drawn[:] = 0
            stream_of(key, t).add_gaussian(drawn, deviation)
            rows[i] += drawn
            rows[j] -= drawn


class OwnPairs:
    """The pairs of one learner, in a process of its own."""

    def __init__(self, learner: int, keys: Mapping[int, bytes]) -> None:
        self._signed = [(key, 1 if learner < j else -1) for j, key in sorted(keys.items())]

    def add(self, t: int, deviation: int, rows: Steps) -> None:
        (row,) = rows
        for key, sign in self._signed:
            stream_of(key, t).add_gaussian(row, deviation, sign)


def pair_key(master: bytes, i: int, j: int) -> bytes:
    """One pair's key, where one process has them all."""
    return hmac.digest(master, f"gossamer pair {i} {j}".encode(), "sha256")
