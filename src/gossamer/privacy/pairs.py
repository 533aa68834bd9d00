"""The noise of pair secrets, drawn: both ends of a pair get the same whole numbers, and one of them takes them away.

**The grid.** Everybody's releases of a round lie on one grid, 2^e with the largest e for which every deviation of the
round, the learners' agreed σ_t and the pairs' τ_t, has at least 2^40 steps. A learner's release is the whole number

    k_i = round(g_i/2^e) + η_i + Σ_{j>i} v_ij − Σ_{j<i} v_ji

with discrete Gaussians η_i and v_ij, and goes on as k_i 2^e, which float64 holds exactly while k_i is below 2^53. So
the sum over learners has no trace of any v left, not even a rounded one. Deviations are rounded up to whole steps: no
noise is smaller than what is booked. See gossamer.privacy.secrets for what it is worth.

Both ends must come to the same deviation, or nothing cancels. Where noise falls with time it is a power, which two
machines may round to neighbouring numbers; so it is rounded up to 24 bits (`faded`), a quarter of a step away from
whole ones, where two such numbers meet the same step but for one round in 10^8.

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
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import NotProvable
from gossamer.lazy import import_once
from gossamer.types import Array

BITS = 40  # every deviation has at least 2^BITS steps of the grid
WIDEST = 2.0**8  # the largest own noise, in units of the smallest deviation
CLAMP = 2.0**51  # steps that a value may be away from 0: a weight in front of it then rounds by a quarter of a step
COARSE = 8  # deviations are multiples of so many steps, as their sampler asks for

Steps = NDArray[np.int64]


class PairNoise(Protocol):
    """What a block of learners shares with others."""

    def add(self, t: int, deviation: int, rows: Steps) -> None:
        """Add to every learner's row, in steps of the grid, what its pairs add in round t."""


def faded(t: int, exponent: float, ratio: float) -> float:
    """How much of the first round's noise is left in round t: up to 2^-22 more, and the same on every machine."""
    mantissa, power = math.frexp((t + 1.0) ** -exponent * ratio**t)
    return math.ldexp(math.floor(mantissa * 2.0**24 + 1.25), power - 24)


def grid_of(*deviations: float) -> float:
    """The power of two of which the smallest deviation has from 2^40 to 2^41 steps."""
    return math.ldexp(1.0, math.frexp(min(deviations))[1] - 1 - BITS)


def steps_of(deviation: float, grid: float) -> int:
    """A deviation in steps of a grid, rounded up."""
    return COARSE * math.ceil(deviation / grid / COARSE)


def noised(values: Array, own: Sequence[float], floor: float, pair: float, t: int, pairs: PairNoise) -> Array:
    """(learners, n) values with their own noise, of deviations `own` ≥ `floor`, and that of their pairs."""
    grid = grid_of(floor, pair)
    check_widest(max(own), floor, pair)
    rows: Steps = np.rint(values / grid).clip(-CLAMP, CLAMP).astype(np.int64)
    table: Any = import_once("gossamer.privacy.table")
    for row, deviation in zip(rows, own, strict=True):
        table.own_gaussian(row, steps_of(deviation, grid))
    pairs.add(t, steps_of(pair, grid), rows)
    return np.asarray(rows * grid)


def check_widest(own: float, floor: float, pair: float) -> None:
    """Refuse own noise that is so much larger than the agreed one that both do not fit a grid."""
    if own > WIDEST * grid_of(floor, pair) * 2.0**BITS:
        raise NotProvable(
            f"a learner's own noise of deviation {own:.3g} beside an agreed {floor:.3g} and {pair:.3g} of a pair: "
            f"expected at most {WIDEST:g} times the smallest; give budgets or weights that are nearer to each other."
        )


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
