"""Gradients of linear models, in one pass over the records while they are in the cache.

Each kernel sets, for every learner i with records r in start_i … start_i + filled_i,

    grad_i = mean_r w(a_rᵀθ_i, b_r) a_r

the data's part: a ridge is no record's, and is added to what has been noised. Least squares has it from sums over the
records, too, without any of them: see gossamer.models.statistics.

Coded records (see gossamer.records) lie slot by slot, so that a run of records reads one small table after another:
the forward pass looks up partial sums of θ, one per code value, the backward pass gathers weights in bins of the same
shape, and both tables are folded from and to the columns once. Laid out record by record the same look-ups took five
times as long. A learner with fewer codes than the tables have entries is read directly.
"""

from __future__ import annotations

from math import exp, floor, inf, sqrt
from typing import Any

import numpy as np

from gossamer.compiling import compiled
from gossamer.models.linear import SQUARED
from gossamer.models.polynomial import BIAS, COEFFICIENTS, FRACTION_BITS, LN2_HIGH, LN2_LOW, LOG2_E

CHUNK = 1024  # records whose margins stay in the first-level cache
C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13 = COEFFICIENTS[3:]


def _fast(function: Any) -> Any:
    # Sums may be reordered and 1/0 is infinite, for SIMD; but NaN keeps its meaning: a diverging run has to show.
    return compiled(nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})(function)


def _in_order(function: Any) -> Any:
    # Sums are never reordered: they are the same however many records come at a time.
    return compiled(nogil=True, error_model="numpy")(function)


@_fast
def to_weights(kind, margins, labels, limits, bits, powers):  # type: ignore[no-untyped-def]
    """Margins to dl/dmargin, in place, none beyond its limit where there are limits: clipping, as ‖∇l‖ = |w| ‖a‖."""
    if kind == SQUARED:
        for k in range(len(margins)):
            margins[k] -= labels[k]
    else:
        to_logistic_weights(margins, labels, bits, powers)
    if len(limits):
        for k in range(len(margins)):
            if not margins[k] <= limits[k]:  # NaN, too: whatever happened, ‖∇l‖ ≤ c
                margins[k] = limits[k]
            if margins[k] < -limits[k]:
                margins[k] = -limits[k]


@_fast
def to_logistic_weights(margins, labels, bits, powers):  # type: ignore[no-untyped-def]
    """Margins to 1/(1+e^-margin) − label, in place; `powers` shows the memory of `bits` as float64.

    The exponential is written out because the C library's is one call a record, and these loops are SIMD:
    e^x = 2^n e^r with n = round(x/ln 2), |r| ≤ ln 2/2, and Taylor's polynomial of degree 13, exact to 4e-18 there.

    A weight is within [−1, 1], since e^x ≥ 0 and rounding keeps order, and within 32u of the exact one, u = 2^-53,
    however the compiler reorders. Its derivative by log e^x is w(1 − w) ≤ 1/4 and ≤ e^-|x|. The polynomial's terms sum
    to at most e^0.35 ≤ 2.1 e^r in absolute value and each goes through less than 30 roundings: 63u of e^x, 16u of w.
    r is off by 3u (|x| + 1) at most, even with n (HIGH + LOW) in one product: 2u of w. 1 + e, 1/(1 + e) and − label
    are three roundings: 3u. Beyond ±700 w is within 1e-300 of the label's distance.
    """
    for k in range(len(margins)):
        x = -margins[k]
        if x > 700.0:
            x = 700.0
        if x < -700.0:
            x = -700.0
        n = floor(x * LOG2_E + 0.5)
        bits[k] = (np.int64(n) + BIAS) << FRACTION_BITS
        margins[k] = (x - n * LN2_HIGH) - n * LN2_LOW
    for k in range(len(margins)):
        r = margins[k]
        e = ((((C13 * r + C12) * r + C11) * r + C10) * r + C9) * r + C8
        e = (((((e * r + C7) * r + C6) * r + C5) * r + C4) * r + C3) * r + 0.5
        e = (e * r + 1.0) * r + 1.0
        margins[k] = 1.0 / (1.0 + e * powers[k]) - labels[k]


@_fast
def dense_scalar(rows, labels, limits, start, filled, theta, kind, grad):  # type: ignore[no-untyped-def]
    n = rows.shape[1]
    margins, bits = np.empty(CHUNK), np.empty(CHUNK, np.int64)
    powers = bits.view(np.float64)
    for i in range(len(filled)):
        point, slope, end = theta[i], grad[i], start[i] + filled[i]
        slope[:] = 0.0
        for first in range(start[i], end, CHUNK):
            here = rows[first : min(first + CHUNK, end)]
            count = len(here)
            for k in range(count):
                row, margin = here[k], 0.0
                for c in range(n):
                    margin += row[c] * point[c]
                margins[k] = margin
            to_weights(kind, margins[:count], labels[first:], limits[first:], bits, powers)
            whole = count - count % 4  # four records a time share one pass over the gradient
            for k in range(0, whole, 4):
                for c in range(n):
                    slope[c] += (margins[k] * here[k, c] + margins[k + 1] * here[k + 1, c]) + (
                        margins[k + 2] * here[k + 2, c] + margins[k + 3] * here[k + 3, c]
                    )
            for k in range(whole, count):
                for c in range(n):
                    slope[c] += margins[k] * here[k, c]
        share = 1.0 / max(filled[i], 1)
        for c in range(n):
            slope[c] *= share


@_fast
def coded_scalar(codes, labels, limits, book, start, filled, theta, kind, grad):  # type: ignore[no-untyped-def]
    slots, values = codes.shape[0], len(book.first) - 1
    margins, bits = np.empty(CHUNK), np.empty(CHUNK, np.int64)
    powers, sums, bins = bits.view(np.float64), np.empty(values), np.empty(values)
    for i in range(len(filled)):
        point, slope, end = theta[i], grad[i], start[i] + filled[i]
        folded = 2 * filled[i] * slots >= values  # measured: from here on folding pays
        slope[:] = 0.0
        if folded:
            bins[:] = 0.0
            for v in range(values):
                total = 0.0
                for p in range(book.first[v], book.first[v + 1]):
                    total += point[book.members[p]]
                sums[v] = total
        for first in range(start[i], end, CHUNK):
            count = min(end - first, CHUNK)
            margins[:count] = 0.0
            for g in range(slots):
                run, table = codes[g, first : first + count], sums[book.offset[g] :]
                if folded:
                    for k in range(count):
                        margins[k] += table[run[k]]
                else:
                    for k in range(count):
                        v = book.offset[g] + run[k]
                        for p in range(book.first[v], book.first[v + 1]):
                            margins[k] += point[book.members[p]]
            to_weights(kind, margins[:count], labels[first:], limits[first:], bits, powers)
            for g in range(slots):
                run, table = codes[g, first : first + count], bins[book.offset[g] :]
                if folded:
                    for k in range(count):
                        table[run[k]] += margins[k]
                else:
                    for k in range(count):
                        v = book.offset[g] + run[k]
                        for p in range(book.first[v], book.first[v + 1]):
                            slope[book.members[p]] += margins[k]
        if folded:
            for v in range(values):
                for p in range(book.first[v], book.first[v + 1]):
                    slope[book.members[p]] += bins[v]
        share = 1.0 / max(filled[i], 1)
        for c in range(len(slope)):
            slope[c] *= share


@_in_order
def add_dense(rows, labels, first, count, squares, products):  # type: ignore[no-untyped-def]
    """Each learner's new records to its sums: the upper triangle of Σ a aᵀ, and Σ b a."""
    n = rows.shape[1]
    for i in range(len(count)):
        here, given = rows[first[i] : first[i] + count[i]], labels[first[i] : first[i] + count[i]]
        for j in range(n):
            row = squares[i, j]
            for r in range(count[i]):
                one = here[r]
                mine = np.float64(one[j])
                for k in range(j, n):
                    row[k] += mine * one[k]
                products[i, j] += given[r] * mine


@_in_order
def add_coded(codes, labels, first, count, squares, products, book):  # type: ignore[no-untyped-def]
    """The same of coded records, by the columns that are 1."""
    ones, slots = np.empty(len(products[0]), np.int64), codes.shape[1]
    for i in range(len(count)):
        for r in range(first[i], first[i] + count[i]):
            found = 0
            for g in range(slots):
                v = book.offset[g] + codes[r, g]
                for p in range(book.first[v], book.first[v + 1]):
                    ones[found] = book.members[p]
                    found += 1
            for p in range(found):
                products[i, ones[p]] += labels[r]
                for q in range(found):
                    if ones[p] <= ones[q]:
                        squares[i, ones[p], ones[q]] += 1.0


@_fast
def squared_gradient(squares, products, filled, theta, grad):  # type: ignore[no-untyped-def]
    """grad_i = (A_i θ_i − Σ b a)/filled_i, with the upper triangle of A_i."""
    n = theta.shape[1]
    for i in range(len(filled)):
        point, slope = theta[i], grad[i]
        for j in range(n):
            slope[j] = -products[i, j]
        for j in range(n):
            row, mine, total = squares[i, j], point[j], squares[i, j, j] * point[j]
            for k in range(j + 1, n):
                total += row[k] * point[k]
                slope[k] += row[k] * mine
            slope[j] += total
        share = 1.0 / max(filled[i], 1)
        for j in range(n):
            slope[j] *= share


@_fast
def to_softmax_weights(margins, label, limit, order):  # type: ignore[no-untyped-def]
    """Margins to p − e_label, in place, scaled back to the limit, where there is one, in the L1 or L2 norm.

    Without the scaling ‖computed − exact‖₁ ≤ (2K + 20) u, u = 2^-53, given an `exp` that is good to 4 units in the
    last place, 8u; the C library's are good to one. With d_k = top − margin_k, e^-d_k is off by a factor within
    (d_k + 8) u, the total by Σ p_k (d_k + 8) u + (K − 1) u, and p_k by both and u. As Σ p_k d_k is at most p's
    entropy, log K, this sums to (2 log K + K + 16) u ≤ (2K + 18) u; and − 1 adds u.
    """
    top = margins[0]
    for k in range(1, len(margins)):
        top = max(top, margins[k])
    total = 0.0
    for k in range(len(margins)):
        margins[k] = exp(margins[k] - top)
        total += margins[k]
    for k in range(len(margins)):
        margins[k] /= total
    margins[int(label)] -= 1.0
    if len(limit):
        norm = 0.0
        for k in range(len(margins)):
            norm += abs(margins[k]) if order == 1 else margins[k] ** 2
        norm = norm if order == 1 else sqrt(norm)
        if norm > 0.0 and norm < inf:
            margins *= min(1.0, limit[0] / norm)
        else:  # whatever happened, ‖∇l‖ ≤ c
            margins[:] = 0.0


@_fast
def dense_softmax(rows, labels, limits, start, filled, theta, order, grad):  # type: ignore[no-untyped-def]
    """theta and grad are (m, n, K). Class by class their numbers lie side by side, and the loops are SIMD."""
    n, classes = theta.shape[1:]
    point, slope = np.empty((classes, n)), np.empty((classes, n))
    wide = np.empty((4, n))  # four records, in float64, share one pass over the gradient
    weights = np.empty((4, classes))
    for i in range(len(filled)):
        point[:] = theta[i].T
        slope[:] = 0.0
        share, end = 1.0 / max(filled[i], 1), start[i] + filled[i]
        for first in range(start[i], end, 4):
            count = min(4, end - first)
            weights[:] = 0.0
            wide[count:] = 0.0
            for q in range(count):
                record = wide[q]
                for c in range(n):
                    record[c] = rows[first + q, c]
                for k in range(classes):
                    margin, of_class = 0.0, point[k]
                    for c in range(n):
                        margin += record[c] * of_class[c]
                    weights[q, k] = margin
                to_softmax_weights(weights[q], labels[first + q], limits[first + q : first + q + 1], order)
                weights[q] *= share
            a0, a1, a2, a3 = wide[0], wide[1], wide[2], wide[3]
            for k in range(classes):
                w0, w1, w2, w3 = weights[0, k], weights[1, k], weights[2, k], weights[3, k]
                of_class = slope[k]
                for c in range(n):
                    of_class[c] += (w0 * a0[c] + w1 * a1[c]) + (w2 * a2[c] + w3 * a3[c])
        grad[i] = slope.T


@_fast
def coded_softmax(codes, labels, limits, book, start, filled, theta, order, grad):  # type: ignore[no-untyped-def]
    """theta and grad are (m, n, K)."""
    slots, classes = codes.shape[0], theta.shape[2]
    margins = np.empty(classes)
    for i in range(len(filled)):
        share = 1.0 / max(filled[i], 1)
        grad[i] = 0.0
        for r in range(start[i], start[i] + filled[i]):
            margins[:] = 0.0
            for g in range(slots):
                v = book.offset[g] + codes[g, r]
                for p in range(book.first[v], book.first[v + 1]):
                    for k in range(classes):
                        margins[k] += theta[i, book.members[p], k]
            to_softmax_weights(margins, labels[r], limits[r : r + 1], order)
            margins *= share
            for g in range(slots):
                v = book.offset[g] + codes[g, r]
                for p in range(book.first[v], book.first[v + 1]):
                    for k in range(classes):
                        grad[i, book.members[p], k] += margins[k]
