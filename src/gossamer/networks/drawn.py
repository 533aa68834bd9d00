"""Numbers drawn from (seed, round, whom they are for): the same whatever process draws them, and in whatever order.

SplitMix64's mixing function (Steele, Lea & Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014) makes
a word of 64 bits from a counter. Here the counter is made of a seed, a round and a number, such as a link's. So a
process that knows some of the links draws what one process draws for all.

For simulation: whoever knows the seed knows the numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gossamer.types import Integers

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


def happens(probability: float, seed: int, kind: int, t: int, numbers: Integers) -> NDArray[np.bool_]:
    """For each of `numbers`, whether an event of this probability happens to it in round t.

    Events of different `kind` are independent, and so are rounds and numbers.
    """
    with np.errstate(over="ignore"):  # words wrap around
        place = _mixed(_mixed(np.uint64(seed) + GOLDEN * np.uint64(kind + 1)) + GOLDEN * np.uint64(t + 1))
        words = _mixed(_mixed(numbers.astype(np.uint64) + GOLDEN) ^ place)
    happened: NDArray[np.bool_] = words < np.uint64(int(probability * 2.0**64))
    return happened


def _mixed(word: np.uint64 | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Every bit of the result depends on every bit of the word."""
    word = (word ^ (word >> _SHIFTS[0])) * _FIRST
    word = (word ^ (word >> _SHIFTS[1])) * _SECOND
    return np.asarray(word ^ (word >> _SHIFTS[2]))
