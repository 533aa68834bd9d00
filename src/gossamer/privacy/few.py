"""What a draw of few values, or a budget of few rounds, needs without numba: the bits of these functions in .compiled.

That each gives the same is a test (tests/test_few.py), and `table_noise` need not even: whether a proposal is kept
depends on the words alone, see gossamer.privacy.table.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gossamer.privacy.table import CELLS, FIRST_BITS, LATER_BITS, TAIL
from gossamer.types import Array

TOGETHER = 4096  # rounds whose numbers are Python's at one time, which take four times the room of an array


def add_on_grid(values: Array, grid: Array, noise: NDArray[np.int64], done: int, out: Array) -> None:
    """out ← (the nearest step to the value + noise), from value `done` on, row after row."""
    some = slice(done, done + len(noise))
    steps = grid[np.arange(done, done + len(noise)) // values.shape[1]]
    out.reshape(-1)[some] = (np.rint(values.reshape(-1)[some] / steps) + noise) * steps


def farthest(values: Array, scales: Array) -> tuple[float, float, float]:
    """(the least scale, the largest, the largest |value| in scales of its row); NaN or ∞ where one of them is."""
    largest = np.abs(values).max(axis=1, initial=0.0)
    bad = np.isnan(scales) | np.isnan(largest)
    if bad.any():
        first = int(bad.argmax())
        return float(scales[first]), float(scales[first]), float(largest[first])
    with np.errstate(all="ignore"):
        worst = np.fmax.reduce(largest / scales, initial=0.0)
    return float(scales.min(initial=math.inf)), float(scales.max(initial=0.0)), float(worst)


def count_beyond(values: Array, scales: Array, far: float) -> int:
    """How many values are farther from 0 than `far` times their row's scale, as NaN is."""
    return int(np.count_nonzero(~(np.abs(values) <= far * scales)))


def table_noise(
    words: NDArray[np.uint64], at: int, out: NDArray[np.int64], done: int, sign: int,
    scale: float, power: int, width: int, columns: NDArray[np.uint64], low: Array, span: Array, height: float,
    margin: float,
) -> tuple[int, int, bool]:  # fmt: skip
    """As the compiled one says; here one word after another, in Python's own integers."""
    drawn: list[int] = []
    wanted = len(out) - done
    given = words[at : at + 3 * wanted + 3].tolist()
    used, is_open = 0, False
    while len(drawn) < wanted and used <= len(given) - 3:
        taken, k, is_open = _proposed(given, used, scale, power, width, columns, low, span, height, margin)
        if is_open:
            break
        used += taken
        if k is not None:
            drawn.append(sign * k)
    out[done : done + len(drawn)] += np.array(drawn, dtype=np.int64)  # as a row: it wraps around as compiled sums do
    return at + used, done + len(drawn), is_open


def _proposed(
    given: list[int], at: int,
    scale: float, power: int, width: int, columns: NDArray[np.uint64], low: Array, span: Array, height: float,
    margin: float,
) -> tuple[int, int | None, bool]:  # fmt: skip
    """(how many words the proposal takes, its k or None where it is not kept, whether exact arithmetic must look)."""
    word, taken = given[at], 1
    cut, other = divmod(columns.item(word >> 54), 1 << 16)
    first, bar = word >> 45 & ((1 << FIRST_BITS) - 1), cut >> LATER_BITS
    part = word >> 54 if first < bar else other
    if first == bar:
        taken = 2
        if given[at + 1] >> (64 - LATER_BITS) < cut & ((1 << LATER_BITS) - 1):
            part = word >> 54
    k = word & ((1 << width) - 1)
    if part < CELLS:  # a rectangle under the curve
        k |= part << width
    elif part < TAIL:  # a wedge on the curve
        cell = part - CELLS
        k |= cell << width
        ratio = k / scale
        curve = height * math.exp(-ratio if power == 1 else -0.5 * ratio * ratio)
        below, wide = low.item(cell), span.item(cell)
        point, unclear = below + wide * (float(given[at + taken]) * 2.0**-64), margin * (below + wide)
        taken += 1
        if point >= curve - unclear:
            return (1, None, True) if point <= curve + unclear else (taken, None, False)
    elif part == TAIL:
        return 1, None, True
    else:  # a proposal that is never kept
        return taken, None, False
    negative = word >> 44 & 1
    if not k and negative:  # −0
        return taken, None, False
    return taken, -k if negative else k, False


def forward(
    A: Array, b: Array, point: int, c: float, L: float, ridge: float, N: float, window: float, k: int,
    blur: Array, extra: Array, x: Array,
) -> None:  # fmt: skip
    """Fill x[t] for t = 0 … T with the bounds of a record replaced in round k: gossamer.privacy.recursion."""
    x[: k + 1] = 0.0
    for first in range(k, len(b), TOGETHER):
        some = slice(first, first + TOGETHER)
        t = np.arange(first, first + len(b[some]))
        with np.errstate(all="ignore"):  # what overflows is ∞, and is refused as that
            share = np.where(t < k + window, 1.0 / (np.minimum(t + 1.0, window) * N), 0.0)
            shares = (share * 2.0 * c).tolist(), (1.0 - share).tolist()
        rounds = zip(
            A[some].tolist(), b[some].tolist(), extra[some].tolist(), blur[some].tolist(), *shares, strict=True
        )
        now = x[first].tolist()
        for s, (A_t, b_t, h_t, p_t, direct, rest) in enumerate(rounds, first + 1):
            delta = now[point]
            moved = min(L * delta + p_t, 2.0 * c) if delta > 0 else 0.0
            now = _advanced(A_t, b_t, h_t, now, direct + rest * moved + ridge * delta)
            x[s] = now


def _advanced(A: list[list[float]], b: list[float], h: list[float], x: list[float], G: float) -> list[float]:
    """A x + b G + h, summed in the order of the compiled one."""
    after = []
    for row, b_i, h_i in zip(A, b, h, strict=True):
        total = b_i * G + h_i
        for a, one in zip(row, x, strict=True):
            if a > 0:
                total += a * one
        after.append(total if total == total else math.inf)  # an overflow proves nothing
    return after
