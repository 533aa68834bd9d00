"""Gaussian and Laplace noise, exact and fast, and the same integers on every machine wherever the key is the same.

Integers k are drawn with P(k) ∝ f(k) = exp(−(|k|/S)^p / p), S a whole number, as a function of the 64-bit words of a
cipher. p = 2 is Gaussian noise, exp(−k²/2S²), and p = 1 is Laplace noise, for which S must be a power of two.
It is rejection from a histogram. |k| lies in one of 511 cells of W = 2^w integers, with 32 W ≤ S < 64 W, or in the tail
from K = 511 W on. With a whole number A, the height, and whole numbers L_j ≤ A f(k) ≤ H_j for every k of cell j, a
proposal falls into one of 1024 parts, in proportion to whole numbers, their weights:

    rectangle j   L_j          k uniform in the cell, kept
    wedge j       H_j − L_j    k uniform in the cell, kept if L_j + U (H_j − L_j) < A f(k), U uniform in [0, 1)
    tail          T            k = K + g V + a, kept if U T < 2^(g+1) (V/W) A f(k)
    nothing       the rest of 2^42

V is the largest power of two ≤ S, g ≥ 0 the number of heads before the first tails of a fair coin, a uniform below V.
A random sign makes it two-sided; −0 is drawn again. What is not kept is proposed anew.

**Why it is exact.** Per proposal, and in units of 2^−42/W, a given k of cell j is kept with probability L_j + (H_j −
L_j) · (A f(k) − L_j)/(H_j − L_j) = A f(k). In the tail T ≥ 2 (V/W) A f(K), and 2^g f(K + gV + a) ≤ f(K) because K V >
S² ln 2 (p = 2), or V = S > S ln 2 (p = 1), so what U is compared with stays below 1; k is proposed with T 2^−(g+1) W/V,
and kept with A f(k) again. So P(k) ∝ f(k) for every integer, without an error however small.
**Weights** are met exactly: Walker's alias method with whole numbers. Each part is a column of 2^32 units, of which the
first `cut` are its own and the others belong to one other part. L_j = ⌊A f((j+1)W)⌋ and H_j = ⌊A f(jW)⌋ + 1 are found
with f to 50 decimals, pushed outwards by two of the last, which is more than its error.
**Decisions** are exact. For a wedge, both sides are first computed in float64: the point with a relative error below
2^−50 and the curve below 2^−39, since k < 2^53 is a float, k²/2S² ≤ 128 is off by at most 2^−44 and k/S by nothing, and
any exp() of the world errs by less than 2^−40. Where they are closer than 2^−34 H_j, about one proposal in 2^33, and in
the tail, one in 2^42 (Laplace: 2^22), the proposal is looked at again in `propose`, in decimal arithmetic with as many
digits and further words for U as it takes. So whether k is kept depends on the words alone, and not on a machine's
exp(), or how it rounds.

**Words.** One word is, from its highest bit, 10 bits of column, 9 bits that are compared with the cut, the sign, and 44
bits of which the last w are the place in the cell. Where the 9 bits are those of the cut, a second word decides by its
first 23 bits. Then U takes words, in the tail after one word for a and those of g. Most values cost one word, and 1.02
to 1.04 on average. The words are AES-256 in counter mode: the nonce, and a counter of four bytes that starts at 0. Of
the two ciphers of the `cryptography` package that are fast it takes 0.8 ns a word, and ChaCha20 1.0, on an EPYC with
AES instructions. There the kernel adds 2.0 ns a value. Von Neumann's way, as in gossamer.privacy.tensors, takes 70.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from operator import index
from typing import Literal, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from gossamer.errors import BadValue, GossamerError
from gossamer.lazy import kernels_for
from gossamer.privacy.words import Words, own_words

CELLS = 511
TAIL = 2 * CELLS  # the parts: rectangles, wedges, the tail, and nothing
NOTHING = TAIL + 1
COLUMNS = NOTHING + 1  # 2^10
FIRST_BITS, LATER_BITS = 9, 23  # of a cut: in the word of the column, and in a word of their own
COLUMN = 1 << (FIRST_BITS + LATER_BITS)
FINENESS = 5  # W = 2^w is the largest power of two with 2^FINENESS W ≤ S
MARGIN = 2.0**-34  # of a cell's height: what float64 cannot decide
SMALLEST, LARGEST = 1 << FINENESS, (1 << 50) - 1  # of S, so that w is from 0 to 44
VALUES = 1 << 32  # of one key and nonce: the 2^33 words of a counter of 32 bits are never used up


Power = Literal[1, 2]


class Table(NamedTuple):
    scale: int  # S
    power: Power  # p
    width: int  # w
    columns: NDArray[np.uint64]  # (1024,) of a column's cut · 2^16 + the other part in it
    low: NDArray[np.float64]  # (511,) L_j, whole numbers
    span: NDArray[np.float64]  # (511,) H_j − L_j, whole numbers
    height: int  # A
    tail: int  # T

    @property
    def reach(self) -> int:
        """V, the width of the tail's cells."""
        return 1 << (self.width + FINENESS)


def _context(digits: int) -> Context:
    """Arithmetic that is the same on every machine, whatever the caller's own context is."""
    return Context(prec=digits, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def density(k: int, scale: int, power: Power, digits: int) -> Decimal:
    """exp(−(|k|/S)^p / p) with a relative error below 10^−(digits−10), while (|k|/S)^p < 10^8."""
    context = _context(digits)
    return context.exp(context.divide(Decimal(-(abs(k) ** power)), Decimal(power * scale**power)))


def _curve(scale: int, power: Power, width: int) -> list[int]:
    """10^50 f(jW) for j = 0 … 511, off by less than two.

    It is q^(j^p) with q = f(W), by products of products: 2^18 factors with errors of 10^−60 stay far below 10^−50.
    """
    context = _context(70)
    q = density(1 << width, scale, power, 70)
    value, factor, squared = Decimal(10**50), q, context.multiply(q, q) if power == 2 else Decimal(1)
    curve = []
    for _ in range(CELLS + 1):
        curve.append(int(value))
        value, factor = context.multiply(value, factor), context.multiply(factor, squared)
    return curve


@lru_cache(maxsize=64)
def table_of(scale: int, power: Power = 2) -> Table:
    """The table of one scale: the same on every machine."""
    if not SMALLEST <= scale <= LARGEST:
        raise BadValue("scale", scale, f"expected a whole number from {SMALLEST} to 2^50 − 1", "choose another grid")
    if power == 1 and scale & (scale - 1):
        raise BadValue("scale", scale, "expected a power of two for Laplace noise", "choose another grid")
    width = scale.bit_length() - 1 - FINENESS
    one, curve = 10**50, _curve(scale, power, width)
    tails = 2 << FINENESS  # 2 V/W
    height = (COLUMNS * COLUMN - COLUMNS) * one // (sum(curve[:CELLS]) + tails * curve[CELLS] + COLUMNS)
    low = [height * max(f - 2, 0) // one for f in curve[1:]]
    high = [height * (f + 2) // one + 1 for f in curve[:CELLS]]
    tail = tails * height * (curve[CELLS] + 2) // one + 1
    span = [above - below for above, below in zip(high, low, strict=True)]
    weights = [*low, *span, tail]
    columns = alias_columns([*weights, COLUMNS * COLUMN - sum(weights)])
    return Table(scale, power, width, columns, np.array(low, dtype=float), np.array(span, dtype=float), height, tail)


def alias_columns(weights: list[int]) -> NDArray[np.uint64]:
    """Cuts and others of columns that give every part exactly its weight; these sum up to all the columns."""
    left = list(weights)
    cuts, others = [COLUMN] * len(left), list(range(len(left)))
    poor = [part for part, weight in enumerate(left) if weight < COLUMN]
    rich = [part for part, weight in enumerate(left) if weight >= COLUMN]
    while poor:
        part, giver = poor.pop(), rich[-1]
        cuts[part], others[part] = left[part], giver
        left[giver] -= COLUMN - left[part]
        if left[giver] < COLUMN:
            poor.append(rich.pop())
    return np.array([cut << 16 | other for cut, other in zip(cuts, others, strict=True)], dtype=np.uint64)


def propose(table: Table, words: Words) -> int | None:
    """One proposal in exact arithmetic, from its first word on: the signed k, or None where it is not kept."""
    word = words.take()
    sign = -1 if word >> 44 & 1 else 1
    part = _part(table, word, words)
    if part == NOTHING:
        return None
    if part == TAIL:
        place, heads = words.take() & (table.reach - 1), _heads(words)
        k = (CELLS << table.width) + heads * table.reach + place
        kept = _is_below(table, k, 0, table.tail, table.height << (heads + 1 + FINENESS), words)
    else:
        cell = part % CELLS
        k = (cell << table.width) + (word & ((1 << table.width) - 1))
        low, span = int(table.low[cell]), int(table.span[cell])
        kept = part < CELLS or _is_below(table, k, low, span, table.height, words)
    return sign * k if kept and (k, sign) != (0, -1) else None


def _part(table: Table, word: int, words: Words) -> int:
    column = word >> 54
    cut, other = divmod(int(table.columns[column]), 1 << 16)
    first, bar = word >> 45 & ((1 << FIRST_BITS) - 1), cut >> LATER_BITS
    if first != bar:
        return column if first < bar else other
    return column if words.take() >> (64 - LATER_BITS) < cut & ((1 << LATER_BITS) - 1) else other


def _heads(words: Words) -> int:
    """Ones before the first zero, from the lowest bit of each word."""
    heads = 0
    while (word := words.take()) == (1 << 64) - 1:
        heads += 64
    return heads + (word ^ (word + 1)).bit_length() - 1


def _is_below(table: Table, k: int, low: int, span: int, height: int, words: Words) -> bool:
    """Whether low + U · span < height · f(k), for a uniform U of as many words as it takes."""
    bits, known = 0, 0
    while True:
        bits, known = bits + 64, known << 64 | words.take()
        digits = 20 + bits // 2
        curve, error = height * Fraction(density(k, table.scale, table.power, digits)), Fraction(1, 10 ** (digits - 10))
        if low + span * Fraction(known + 1, 1 << bits) <= curve * (1 - error):
            return True
        if low + span * Fraction(known, 1 << bits) >= curve * (1 + error):
            return False


def _add(table: Table, words: Words, out: NDArray[np.int64], sign: int) -> None:
    kernel = kernels_for(len(out), "gossamer.privacy").table_noise
    scale, power, width, columns, low, span, height, _ = table
    known = float(scale), power, width, columns, low, span, float(height), MARGIN
    done = 0
    while done < len(out):
        left = len(out) - done
        words.have(3, wanted=left + left // 16 + 8)  # a few more than they take on average
        words.used, done, is_open = kernel(words.ahead, words.used, out, done, sign, *known)
        k = propose(table, words) if is_open else None
        if k is not None:
            out[done : done + 1] += sign * k  # as a row, which wraps around as the kernel's sums do
            done += 1


def _check_room(out: NDArray[np.int64]) -> None:
    if out.dtype != np.int64 or out.ndim != 1 or not (out.flags.c_contiguous and out.flags.writeable):
        raise GossamerError(
            f"noise for {out.dtype} of shape {out.shape} and strides {out.strides}: expected a contiguous row of int64 "
            "that can be written to; draw into numpy.zeros(n, dtype=numpy.int64)."
        )


class Stream:
    """Noise of one key and nonce, for one thread: whoever has both draws the same. They must not serve two purposes."""

    def __init__(self, key: bytes, nonce: bytes) -> None:
        if len(key) != 32 or len(nonce) != 12:
            raise GossamerError(
                f"a key of {len(key)} bytes and a nonce of {len(nonce)}: expected 32 and 12; derive them with HKDF."
            )
        self._words = Words(Cipher(algorithms.AES(key), modes.CTR(nonce + bytes(4))).encryptor())
        self._drawn = 0

    def add_gaussian(self, out: NDArray[np.int64], scale: int, sign: int = 1) -> None:
        """Add sign · k to every entry, in order, where P(k) ∝ exp(−k²/2 scale²); sums wrap around at 2^63."""
        _check_room(out)
        if sign not in (1, -1):
            raise BadValue("sign", sign, "expected 1 or −1, for the two sides of a pair")
        if self._drawn + len(out) > VALUES:
            raise GossamerError(f"more than {VALUES} values of one key and nonce: take a new nonce for each round.")
        self._drawn += len(out)
        _add(table_of(index(scale)), self._words, out, sign)


def own_noise(out: NDArray[np.int64], scale: int, power: Power) -> None:
    """Add to every entry a k that nobody else can know, under the key of this process: see gossamer.privacy.words."""
    _check_room(out)
    table = table_of(index(scale), power)
    with own_words.lock:
        _add(table, own_words.words(), out, 1)


def own_gaussian(out: NDArray[np.int64], scale: int) -> None:
    """The same, with P(k) ∝ exp(−k²/2 scale²)."""
    own_noise(out, scale, 2)
