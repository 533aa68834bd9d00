"""Seeded uniform numbers that are counted: any rows of a large draw, without those before them.

Philox (Salmon, Moraes, Dror & Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011) makes four words of 64 bits
from a key and a counter, and needs nothing else. Number j of row i, of n in a row, is word i n + j of its key and
round. So whoever plays some of the learners draws for these alone, and draws what one process draws for all.

For simulation: whoever knows the seed knows the numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gossamer.lazy import import_once
from gossamer.types import Array, Integers

WORDS = 4  # of one counter


def uniforms(key: NDArray[np.uint64], t: int, rows: Integers | None, shape: tuple[int, int], first: int = 0) -> Array:
    """(k, n) uniform numbers in [0, 1), multiples of 2^-53: those of `rows` among m, or of all; shape is (m, n).

    `first` is how many numbers of this key and round come before row 0.
    """
    m, n = shape
    if rows is None:
        rows = np.arange(m)
    if len(rows) and (np.diff(rows) == 1).all():
        return _one_piece(key, t, first + int(rows[0]) * n, len(rows) * n).reshape(len(rows), n)
    out = np.empty((len(rows), n))
    import_once("gossamer.privacy.compiled").philox_rows(key, np.uint64(t), first + np.asarray(rows) * n, out)
    return out


def _one_piece(key: NDArray[np.uint64], t: int, start: int, count: int) -> Array:
    steps, over = divmod(start, WORDS)
    rng = np.random.Generator(np.random.Philox(key=key, counter=[steps, 0, 0, t]))
    drawn: Array = rng.random(over + count)[over:]
    return drawn
