"""How records are laid out: dense rows, or codes for binary features, so that work goes by non-zeros, not by columns.

**Joint categories.** A one-hot block (one column of s is 1) is a digit in 0..s−1, a lone binary column a digit in 0..1.
Several digits share one byte, a *slot*, as a mixed-radix number. A linear model then needs one look-up per slot: the 22
categories of a mushroom (117 columns) are 9 slots, and six lone columns are one.
Wide sparse rows, where even that would cost more than their non-zeros, list the non-zeros' column numbers instead.
Both are one structure, the codebook: which columns are 1 for every value of every slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from gossamer.arrays import dense
from gossamer.types import Array, Integers

Codes = NDArray[Any]  # unsigned integers, (records, slots)
SLOT_VALUES = 64  # measured: fuller slots mean fewer look-ups, but larger tables to fold every round
LONE_COLUMNS = 6  # binary columns that fit one slot: 2^6 = 64


class Codebook(NamedTuple):
    """With v = offset[g] + (the code in slot g), the columns members[first[v] : first[v + 1]] are 1."""

    columns: int
    offset: Integers  # (slots,)
    first: Integers  # (values + 1,)
    members: Integers


class FeatureBounds(NamedTuple):
    """What every record's features obey, known without looking at the records: a declaration or a file's schema."""

    l1: float  # ‖a‖₁
    l2: float  # ‖a‖₂
    most: float  # ‖a‖_∞


@dataclass(frozen=True, eq=False)
class Table:
    """Records with their labels; `rows` are features where `codebook` is None, else codes for features 0 or `scale`."""

    rows: NDArray[Any]
    labels: Array
    codebook: Codebook | None
    columns: int
    scale: float = 1.0
    bounds: FeatureBounds | None = None  # None: nothing was declared
    undeclared: str = ""  # what one record's value could change for others, and what to do, in words: no privacy then
    classes: int = 0  # how many were declared for the labels; 0: none were
    half_range: float = 0.0  # of a quantity's labels, as declared; 0: none was. For step sizes, never for privacy
    numbers: tuple[int, ...] = ()  # the columns that hold numbers, where a schema says so; others are of categories
    width: float = 0.0  # E‖a‖² where every number has variance 1; 0: no schema says it. For step sizes and clippers
    spread: float = 1.0  # λ_max(E aaᵀ)/‖a‖², about, if it is known without looking: for step sizes, never for privacy

    def __len__(self) -> int:
        return len(self.labels)


class Batch(NamedTuple):
    """The records that arrive in one round: learner 0's first, then learner 1's, …"""

    rows: NDArray[Any]
    labels: Array
    counts: Integers  # (m,) how many are whose


def runs(start: Integers, count: Integers) -> Integers:
    """start_0, start_0 + 1, … (count_0 of them), start_1, …: where records lie that each learner keeps in one piece."""
    if (count == 1).all():
        return start
    before = np.cumsum(count) - count
    return np.repeat(start - before, count) + np.arange(count.sum())


@dataclass(frozen=True, eq=False)
class Population:
    """All records that learners draw from, each with its share of F(θ) = 1/m Σ_i f_i(θ); shares sum to 1."""

    table: Table
    share: Array

    @cached_property
    def matrix(self) -> Any:
        """The features as a matrix: dense, or sparse for coded rows."""
        return features_of(self.table)


def dense_table(X: Array, y: Array) -> Table:
    return Table(np.ascontiguousarray(X, dtype=float), np.asarray(y, dtype=float), None, X.shape[1])


def binary_table(X: NDArray[Any], y: Array) -> Table:
    """Rows of zeros and ones as codes: six columns a byte, or column numbers where rows have few ones."""
    columns = X.shape[1]
    most = int(X.astype(bool).sum(axis=1).max(initial=0))
    if columns <= LONE_COLUMNS * most:
        codebook, codes = encode_digits(X.astype(np.uint8), [1] * columns, optional=True)
    else:
        codebook, codes = _encode_indices(X, most)
    return Table(codes, np.asarray(y, dtype=float), codebook, columns)


def one_hot_table(digits: Codes, sizes: Sequence[int], y: Array) -> Table:
    """Categories 0..size−1, one per block, as codes; the columns are the blocks' one-hot columns side by side."""
    codebook, codes = encode_digits(digits, sizes, optional=False)
    bounds = FeatureBounds(len(sizes), len(sizes) ** 0.5, 1.0)  # one column of each block is 1, whatever the record
    return Table(codes, np.asarray(y, dtype=float), codebook, sum(sizes), bounds=bounds)


def encode_digits(digits: Codes, sizes: Sequence[int], *, optional: bool) -> tuple[Codebook, Codes]:
    """Pack blocks into slots. `optional`: digit 0 means no column, digit d the block's column d−1."""
    radix = [size + optional for size in sizes]
    column = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    slots = _pack(radix)
    values = [int(np.prod([radix[b] for b in blocks])) for blocks in slots]
    codes = np.zeros((len(digits), len(slots)), dtype=np.min_scalar_type(max(values) - 1))
    members: list[list[int]] = []
    for g, blocks in enumerate(slots):
        place, meaning = 1, [list[int]() for _ in range(values[g])]
        for b in blocks:
            codes[:, g] += digits[:, b].astype(codes.dtype) * codes.dtype.type(place)
            for v, columns in enumerate(meaning):
                digit = v // place % radix[b]
                columns += [int(column[b]) + digit - optional] if digit >= optional else []
            place *= radix[b]
        members += meaning
    return _codebook(sum(sizes), np.cumsum(values) - np.array(values), members), codes


def _codebook(columns: int, offset: Integers, members: list[list[int]]) -> Codebook:
    first = np.cumsum([0, *(len(part) for part in members)])
    return Codebook(columns, np.asarray(offset), first, np.array([c for part in members for c in part], dtype=np.int64))


def _pack(radix: Sequence[int]) -> list[list[int]]:
    """First-fit decreasing: blocks into as few slots as that finds; a block too large for a slot has one of its own."""
    slots: list[list[int]] = []
    room: list[int] = []
    for b in sorted(range(len(radix)), key=lambda b: -radix[b]):
        g = next((g for g, used in enumerate(room) if used * radix[b] <= SLOT_VALUES), None)
        if g is None:
            slots.append([b])
            room.append(radix[b])
        else:
            slots[g].append(b)
            room[g] *= radix[b]
    return slots


def _encode_indices(X: NDArray[Any], most: int) -> tuple[Codebook, Codes]:
    columns = X.shape[1]
    codes = np.full((len(X), most), columns, dtype=np.min_scalar_type(columns))
    row, column = np.nonzero(X)
    position = np.arange(len(row)) - np.searchsorted(row, row)
    codes[row, position] = column
    return _codebook(columns, np.zeros(most, dtype=np.int64), [*([c] for c in range(columns)), []]), codes


def features_of(table: Table) -> Any:
    """The feature matrix that a table stands for."""
    if table.codebook is None:
        return table.rows
    book = table.codebook
    value = table.rows.astype(np.int64) + book.offset
    count = (book.first[value + 1] - book.first[value]).ravel()
    ones = book.members[runs(book.first[value].ravel(), count)]
    row = np.repeat(np.repeat(np.arange(len(table)), len(book.offset)), count)
    return scipy.sparse.csr_array((np.full(len(row), table.scale), (row, ones)), shape=(len(table), book.columns))


def dense_rows(table: Table) -> NDArray[Any]:
    """The features record by record: as they lie, bytes as bytes, or unpacked from codes."""
    return dense(features_of(table))
