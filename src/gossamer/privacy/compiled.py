"""What this room compiles, in a module of its own: numba is loaded with the first draw or budget that needs it.

The arguments are where the functions are called: gossamer.privacy.exact, .table, .counted, .recursion and .rounding.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import uint64

from gossamer.compiling import compiled
from gossamer.privacy.table import CELLS, FIRST_BITS, LATER_BITS, TAIL

TOGETHER = 512  # words that are looked at together: they, and what is made of them, stay in the nearest cache
OTHER = -(2**63)  # no proposal's value: those have 54 bits and a sign


def _with_infinities(function: Any) -> Any:
    return compiled(nogil=True, error_model="numpy")(function)


@_with_infinities
def add_on_grid(values, grid, noise, done, out):  # type: ignore[no-untyped-def]
    """out ← (the nearest step to the value + noise), from value `done` on, row after row."""
    at, columns = 0, values.shape[1]
    while at < len(noise):
        row, column = divmod(done + at, columns)
        count = min(columns - column, len(noise) - at)
        some = slice(column, column + count)
        _add_to_row(values[row, some], grid[row], noise[at : at + count], out[row, some])
        at += count


@_with_infinities
def _add_to_row(values, step, noise, out):  # type: ignore[no-untyped-def]
    """A part of one row, whose places are counted from 0: so several values are one instruction."""
    for k in range(len(noise)):
        out[k] = (np.rint(values[k] / step) + noise[k]) * step


@_with_infinities
def farthest(values, scales):  # type: ignore[no-untyped-def]
    """(the least scale, the largest, the largest |value| in scales of its row); NaN or ∞ where one of them is.

    Without their sign, the bits of floats are whole numbers that rise with |value|, and those of NaN are the highest.
    """
    without_sign, bits = np.int64(0x7FFFFFFFFFFFFFFF), values.view(np.int64)
    largest = np.zeros(len(scales), dtype=np.int64)
    for i in range(len(scales)):
        longest = np.int64(0)
        for k in range(values.shape[1]):
            longest = max(longest, bits[i, k] & without_sign)
        largest[i] = longest
    least, most, worst = np.inf, 0.0, 0.0
    for scale, one in zip(scales, largest.view(np.float64)):  # noqa: B905
        if scale != scale or one != one:
            return scale, scale, one
        least, most, worst = min(least, scale), max(most, scale), max(worst, one / scale)
    return least, most, worst


@compiled(nogil=True)
def table_noise(words, at, out, done, sign, scale, power, width, columns, low, span, height, margin):  # type: ignore[no-untyped-def]
    """Add sign · k to out[done:], until it is full or a proposal might lack words, for it takes up to three.

    (next unused word, values done, whether the proposal that starts at that word is left to exact arithmetic)

    Nearly all proposals are one word that gives one value. So words are first looked at many at a time, as if each were
    such a proposal; then in order, where runs of those that are so are added, and every other is decided by itself.
    """
    n, last, turned = len(out), len(words) - 3, np.int64(sign < 0)
    values, places = np.empty(TOGETHER, np.int64), np.empty(TOGETHER + 1, np.int64)
    while done < n and at <= last:
        first, count = at, min(TOGETHER, n - done, last + 1 - at)
        _by_themselves(words[first : first + count], width, columns, values[:count])
        others = _find_others(values[:count], places)
        places[others] = count
        for place in places[: others + 1]:
            if first + place < at:  # a word that another proposal has taken
                continue
            run = values[at - first : place]
            sums = out[done : done + len(run)]
            for j in range(len(run)):
                sums[j] += (run[j] ^ -turned) + turned
            at, done = at + len(run), done + len(run)
            if place == count:
                break
            used, k, kept, is_open = _decide(words, at, scale, power, width, columns, low, span, height, margin)
            if is_open:
                return at, done, True
            at = used
            if kept:
                out[done] += (k ^ -turned) + turned
                done += 1
    return at, done, False


@compiled(nogil=True)
def _by_themselves(words, width, columns, values):  # type: ignore[no-untyped-def]
    """The value of every word that is one in a rectangle, and in place of any other OTHER."""
    within = (uint64(1) << uint64(width)) - uint64(1)
    first_bits = (uint64(1) << uint64(FIRST_BITS)) - uint64(1)
    entries = values.view(np.uint64)
    for j in range(len(words)):  # apart from the rest, because only then several words are one instruction there
        entries[j] = columns[words[j] >> uint64(54)]
    for j in range(len(words)):
        column, first = words[j] >> uint64(54), (words[j] >> uint64(45)) & first_bits
        other, bar = entries[j] & uint64(0xFFFF), entries[j] >> uint64(16 + LATER_BITS)
        part = other ^ ((column ^ other) & -uint64(first < bar))
        minus = (words[j] >> uint64(44)) & uint64(1)
        value = ((words[j] & within | part << uint64(width)) ^ -minus) + minus
        needs_more = (first == bar) | (part >= uint64(CELLS)) | (value == uint64(0))
        entries[j] = uint64(OTHER) if needs_more else value


@compiled(nogil=True)
def _find_others(values, places):  # type: ignore[no-untyped-def]
    """How many values are OTHER, with their places in order."""
    count = 0
    for j in range(len(values)):
        places[count] = j
        count += values[j] == OTHER
    return count


@compiled(nogil=True)
def _decide(words, at, scale, power, width, columns, low, span, height, margin):  # type: ignore[no-untyped-def]
    """One proposal: (the word after it, its k, whether that is kept, whether it is left to exact arithmetic)."""
    word, used = words[at], at + 1
    column = word >> uint64(54)
    first = (word >> uint64(45)) & ((uint64(1) << uint64(FIRST_BITS)) - uint64(1))
    cut, other = columns[column] >> uint64(16), columns[column] & uint64(0xFFFF)
    part = column if first < cut >> uint64(LATER_BITS) else other
    if first == cut >> uint64(LATER_BITS):
        if words[used] >> uint64(64 - LATER_BITS) < cut & ((uint64(1) << uint64(LATER_BITS)) - uint64(1)):
            part = column
        used += 1
    k = word & ((uint64(1) << uint64(width)) - uint64(1))
    if part < uint64(CELLS):  # a rectangle under the curve
        k |= part << uint64(width)
    elif part < uint64(TAIL):  # a wedge on the curve
        cell = part - uint64(CELLS)
        k |= cell << uint64(width)
        ratio = np.float64(k) / scale
        curve = height * math.exp(-ratio if power == 1 else -0.5 * ratio * ratio)
        point = low[cell] + span[cell] * (np.float64(words[used]) * 2.0**-64)
        open_by = margin * (low[cell] + span[cell])
        used += 1
        if point >= curve - open_by:
            return used, np.int64(0), False, point <= curve + open_by
    else:  # the tail, or a proposal that is never kept
        return used, np.int64(0), False, part == uint64(TAIL)
    minus = np.int64((word >> uint64(44)) & uint64(1))
    return used, (np.int64(k) ^ -minus) + minus, k != uint64(0) or minus == 0, False  # −0 is not kept


@_with_infinities
def _advance(A, b, point, c, L, ridge, N, window, k, blur, extra, t, x, after):  # type: ignore[no-untyped-def]
    """after ← A_t x + b_t G_t + h_t, for a record replaced in round k ≤ t."""
    d, delta = len(x), x[point]
    moved = min(L * delta + blur[t], 2.0 * c) if delta > 0 else 0.0
    share = 1.0 / (min(t + 1.0, window) * N) if t < k + window else 0.0
    G = share * 2.0 * c + (1.0 - share) * moved + ridge * delta
    for i in range(d):
        total = b[t, i] * G + extra[t, i]
        for j in range(d):
            if A[t, i, j] > 0:
                total += A[t, i, j] * x[j]
        after[i] = total if total == total else np.inf  # an overflow proves nothing


@_with_infinities
def forward(A, b, point, c, L, ridge, N, window, k, blur, extra, x):  # type: ignore[no-untyped-def]
    """Fill x[t] for t = 0 … T with the bounds of a record replaced in round k."""
    x[: k + 1] = 0.0
    for t in range(k, len(b)):
        _advance(A, b, point, c, L, ridge, N, window, k, blur, extra, t, x[t], x[t + 1])


@_with_infinities
def bounds_from(A, b, point, c, L, ridge, N, window, blur, extra, weights, squared, ks, ahead, forms):  # type: ignore[no-untyped-def]
    """For every k an upper bound of its cost: the recursion for `ahead` rounds, and then the least of the forms.

    Where that reaches T it is the cost itself.
    """
    T, d = b.shape
    bounds = np.zeros(len(ks))
    x, after = np.zeros(d + 1), np.zeros(d + 1)
    for at in range(len(ks)):
        k = ks[at]
        x[:] = 0.0
        cost, end = 0.0, min(k + ahead, T)
        for t in range(k, end):
            for i in range(d):
                if weights[t, i] > 0:
                    cost += (x[i] * weights[t, i]) ** 2 if squared else x[i] * weights[t, i]
            _advance(A, b, point, c, L, ridge, N, window, k, blur, extra, t, x[:d], after[:d])
            x[:d] = after[:d]
        x[d] = 1.0
        least = 0.0 if end == T else np.inf
        for form in range(len(forms) if end < T else 0):
            rest = _cost_to_go(forms[form, end], x, squared)
            if rest < least:
                least = rest
        bounds[at] = cost + least
    return bounds


@_with_infinities
def _cost_to_go(P, x, squared):  # type: ignore[no-untyped-def]
    d, total = len(x) - 1, 0.0
    for i in range(d + 1):
        if squared:
            for j in range(d + 1):
                total += x[i] * P[i, j] * x[j]
        else:
            total += P[d, i] * x[i]
    return total


@_with_infinities
def losses_by_lag(A, b, point, c, L, ridge, N, window, blur, extra, weights):  # type: ignore[no-untyped-def]
    T, d = b.shape
    x, largest = np.zeros((T + 1, d)), np.zeros((T, d))
    for k in range(T):
        forward(A, b, point, c, L, ridge, N, window, k, blur, extra, x)
        for t in range(k, T):
            for i in range(d):
                largest[t - k, i] = max(largest[t - k, i], x[t, i] * weights[t, i])
    return largest


@_with_infinities
def costs_to_go(A, b, point, slope, constant, extra, weights, squared, last):  # type: ignore[no-untyped-def]
    """(T+1, d+1, d+1): forms P_t of (x, 1) that bound the cost of rounds t, t+1, … where G_t = slope·δ + constant_t.

    They are quadratic where costs are squares, and otherwise linear, P_t[d] · (x, 1), in their last row alone:
    P_t = charge_t + P_{t+1} ∘ (one step), from P_T = `last`.
    """
    T, d = b.shape
    P = np.zeros((T + 1, d + 1, d + 1))
    P[T] = last
    step = np.zeros((d + 1, d + 1))
    for t in range(T - 1, -1, -1):
        step[:] = 0.0
        step[d, d] = 1.0
        for i in range(d):
            step[i, d] = b[t, i] * constant[t] + extra[t, i]
            for j in range(d):
                step[i, j] = A[t, i, j]
            step[i, point] += b[t, i] * slope
        if squared:
            P[t] = step.T @ P[t + 1] @ step
            for i in range(d):
                P[t, i, i] += weights[t, i] ** 2
        else:
            for i in range(d + 1):  # a call of BLAS for so few numbers takes twenty times as long
                total = 0.0
                for j in range(d + 1):
                    if step[j, i] != 0:  # what is not reached costs nothing, also where it would be infinite
                        total += P[t + 1, d, j] * step[j, i]
                P[t, d, i] = total + weights[t, i] if i < d else total
    return P


@compiled(nogil=True)
def count_beyond(values: Any, scales: Any, far: float) -> int:
    """How many values are farther from 0 than `far` times their row's scale, as NaN is."""
    beyond = 0
    for i in range(len(values)):
        largest = far * scales[i, 0]
        for k in range(values.shape[1]):
            beyond += not abs(values[i, k]) <= largest
    return beyond


@compiled(nogil=True)
def _high(a, b):  # type: ignore[no-untyped-def]
    """The upper 64 bits of a · b."""
    half, low = uint64(32), uint64(0xFFFFFFFF)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    cross = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (cross & low)
    return a1 * b1 + (cross >> half) + (other >> half)


@compiled(nogil=True)
def _philox(counter, t, key0, key1):  # type: ignore[no-untyped-def]
    """Philox4x64-10: the four words of counter (counter, 0, 0, t)."""
    zero = uint64(0)
    c0, c1, c2, c3, k0, k1 = counter, zero, zero, t, key0, key1
    for turn in range(10):
        if turn:
            k0, k1 = k0 + uint64(0x9E3779B97F4A7C15), k1 + uint64(0xBB67AE8584CAA73B)
        m0, m1 = uint64(0xD2E7470EE14C6C93), uint64(0xCA5A826395121157)
        c0, c1, c2, c3 = _high(m1, c2) ^ c1 ^ k0, m1 * c2, _high(m0, c0) ^ c3 ^ k1, m0 * c0
    return c0, c1, c2, c3


@compiled(nogil=True)
def philox_rows(key, t, firsts, out):  # type: ignore[no-untyped-def]
    """out[k, j] ← the uniform number of word firsts[k] + j, as NumPy makes it: its counter is 1 at the first four."""
    key0, key1, unit = uint64(key[0]), uint64(key[1]), 1.0 / 9007199254740992.0
    for k in range(len(out)):
        word, j = firsts[k], 0
        while j < out.shape[1]:
            four = _philox(uint64(word // 4 + 1), t, key0, key1)
            for place in range(word % 4, 4):
                if j < out.shape[1]:
                    out[k, j] = (four[place] >> uint64(11)) * unit
                    j, word = j + 1, word + 1
