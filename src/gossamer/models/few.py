"""Gradients of one learner's few records, without numba: what gossamer.models.kernels computes, in NumPy.

What is proved of those holds of these. A mean may be summed in any order (`mean_error` in gossamer.models.bounds), a
logistic weight is found by the same polynomial, with the roundings that are counted there, and NumPy's exp is good to
less than the 4 units in the last place that a softmax is given. Sums over records, which must not depend on how many
come at a time, are in the records' order here as well.

A block of one learner alone comes here, and only as a process of its own, where numba would be loaded for it: a tenth
of a second and 100 MB. Others keep the compiled ones, whose last bits may be different.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gossamer.models.linear import SQUARED
from gossamer.models.polynomial import BIAS, COEFFICIENTS, FRACTION_BITS, LN2_HIGH, LN2_LOW, LOG2_E
from gossamer.records import Codebook
from gossamer.types import Array, Integers

FEW_NUMBERS = 1 << 18  # features, or codes, in one gradient
Rows = NDArray[Any]


def are_few(records: int, width: int) -> bool:
    """Whether so many records of so many features, or codes, take NumPy no longer than a round's other work."""
    return records * width <= FEW_NUMBERS


def to_logistic_weights(margins: Array, labels: Array) -> Array:
    """1/(1+e^-margin) − label; see the function of this name in gossamer.models.kernels."""
    x = np.clip(-margins, -700.0, 700.0)  # NaN stays
    fine = np.nan_to_num(x)  # a whole number has to be made of it, and r is NaN all the same
    n = np.floor(fine * LOG2_E + 0.5)
    powers = ((n.astype(np.int64) + BIAS) << FRACTION_BITS).view(np.float64)
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    e = np.full(len(r), COEFFICIENTS[-1])
    for coefficient in COEFFICIENTS[-2::-1]:
        e = e * r + coefficient
    weights: Array = 1.0 / (1.0 + e * powers) - labels
    return weights


def _to_weights(kind: int, margins: Array, labels: Array, limits: Array) -> Array:
    with np.errstate(all="ignore"):  # a run that diverges shows in its numbers
        weights = margins - labels if kind == SQUARED else to_logistic_weights(margins, labels)
    if len(limits):
        weights = np.where(weights <= limits, weights, limits)  # NaN, too: whatever happened, ‖∇l‖ ≤ c
        weights = np.where(weights < -limits, -limits, weights)
    return weights


def dense_scalar(
    rows: Rows, labels: Array, limits: Array, start: Integers, filled: Integers, theta: Array, kind: int, grad: Array
) -> None:
    for i, count in enumerate(filled):
        place = slice(start[i], start[i] + count)
        here = rows[place].astype(np.float64, copy=False)
        with np.errstate(all="ignore"):
            weights = _to_weights(kind, here @ theta[i], labels[place], limits[place])
            grad[i] = (weights @ here) * (1.0 / max(count, 1))


def coded_scalar(
    codes: Rows, labels: Array, limits: Array, book: Codebook, start: Integers, filled: Integers, theta: Array,
    kind: int, grad: Array,
) -> None:  # fmt: skip
    for i, count in enumerate(filled):
        place = slice(start[i], start[i] + count)

        def to_weights(margins: Array, place: slice = place) -> Array:
            return _to_weights(kind, margins[:, 0], labels[place], limits[place])[:, None]

        slope = _coded(codes[:, place], book, theta[i][:, None], to_weights)
        grad[i] = slope[:, 0] * (1.0 / max(count, 1))


def _coded(codes: Rows, book: Codebook, point: Array, to_weights: Callable[[Array], Array]) -> Array:
    """Σ_r a_r w(a_rᵀ point) for features of 0 or 1 that are given by codes; point is (n, K), weights are (r, K)."""
    values = len(book.first) - 1
    value_of = np.repeat(np.arange(values), np.diff(book.first))  # of every member
    value = codes.astype(np.int64) + book.offset[:, None]
    slope = np.empty(point.shape)
    with np.errstate(all="ignore"):
        sums = [np.bincount(value_of, column[book.members], values) for column in point.T]
        weights = to_weights(np.stack([each[value].sum(axis=0) for each in sums], axis=1))
        for k, each in enumerate(weights.T):
            bins = np.bincount(value.reshape(-1), np.broadcast_to(each, value.shape).reshape(-1), values)
            slope[:, k] = np.bincount(book.members, bins[value_of], len(point))
    return slope


def to_softmax_weights(margins: Array, labels: Array, limits: Array, order: int) -> Array:
    """(r, K) margins to p − e_label, scaled back to the limits in the norm of this order, where there are some."""
    with np.errstate(all="ignore"):
        powers = np.exp(margins - margins.max(axis=1, keepdims=True, initial=-np.inf))
        weights = powers / powers.sum(axis=1, keepdims=True)
        weights[np.arange(len(labels)), labels.astype(np.int64)] -= 1.0
        if len(limits):
            size = np.abs(weights).sum(axis=1) if order == 1 else np.sqrt((weights**2).sum(axis=1))
            known = (size > 0.0) & (size < np.inf)
            weights *= np.where(known, np.minimum(1.0, limits / size), 0.0)[:, None]
            weights[~known] = 0.0  # whatever happened, ‖∇l‖ ≤ c
    return np.asarray(weights)


def dense_softmax(
    rows: Rows, labels: Array, limits: Array, start: Integers, filled: Integers, theta: Array, order: int, grad: Array
) -> None:
    """theta and grad are (m, n, K)."""
    for i, count in enumerate(filled):
        place = slice(start[i], start[i] + count)
        here = rows[place].astype(np.float64, copy=False)
        with np.errstate(all="ignore"):
            weights = to_softmax_weights(here @ theta[i], labels[place], limits[place], order)
            grad[i] = here.T @ (weights * (1.0 / max(count, 1)))


def coded_softmax(
    codes: Rows, labels: Array, limits: Array, book: Codebook, start: Integers, filled: Integers, theta: Array,
    order: int, grad: Array,
) -> None:  # fmt: skip
    """theta and grad are (m, n, K)."""
    for i, count in enumerate(filled):
        place = slice(start[i], start[i] + count)

        def to_weights(margins: Array, place: slice = place, count: int = count) -> Array:
            return to_softmax_weights(margins, labels[place], limits[place], order) * (1.0 / max(count, 1))

        grad[i] = _coded(codes[:, place], book, theta[i], to_weights)


def add_dense(rows: Rows, labels: Array, first: Integers, count: Integers, squares: Array, products: Array) -> None:
    """Each learner's new records to its sums, one after another: the upper triangle of Σ a aᵀ, and Σ b a."""
    for i in range(len(count)):
        for r in range(first[i], first[i] + count[i]):
            one = rows[r].astype(np.float64, copy=False)
            squares[i] += np.triu(np.outer(one, one))
            products[i] += labels[r] * one


def add_coded(
    codes: Rows, labels: Array, first: Integers, count: Integers, squares: Array, products: Array, book: Codebook
) -> None:
    """The same of coded records, by the columns that are 1."""
    for i in range(len(count)):
        for r in range(first[i], first[i] + count[i]):
            values = book.offset + codes[r]
            ones = np.concatenate([book.members[book.first[v] : book.first[v + 1]] for v in values])
            products[i, ones] += labels[r]
            row, column = np.meshgrid(ones, ones, indexing="ij")
            upper = row <= column
            squares[i, row[upper], column[upper]] += 1.0


def squared_gradient(squares: Array, products: Array, filled: Integers, theta: Array, grad: Array) -> None:
    """grad_i = (A_i θ_i − Σ b a)/filled_i, with the upper triangle of A_i."""
    for i, count in enumerate(filled):
        with np.errstate(all="ignore"):
            both = squares[i] @ theta[i] + np.triu(squares[i], 1).T @ theta[i]
            grad[i] = (both - products[i]) * (1.0 / max(count, 1))
