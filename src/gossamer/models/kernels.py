"""Gradients of linear models, one pass over the records while they are in the cache.

Each kernel adds up, for every learner i, Σ_r w(a_rᵀθ_i, b_r) a_r over its records r in start_i … start_i + filled_i.

Coded records (see gossamer.records) lie slot by slot, so that a run of records reads one small table after another:
the forward pass looks up partial sums of θ, one per code value, the backward pass gathers weights in bins of the same
shape, and both tables are folded from and to the columns once. Laid out record by record the same look-ups took five
times as long. A learner with fewer codes than the tables have entries is read directly. `members` points to one column
past the last where a value has no further column: θ is 0 there, and what the gradient gets there is dropped.
"""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
from numba import njit

LOGISTIC, SQUARED = 0, 1
CHUNK = 1024  # records whose margins stay in the first-level cache


def _fast(function: Any) -> Any:
    # Sums may be reordered (for SIMD), but NaN and infinity keep their meaning: a diverging run has to show.
    return njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})(function)


@_fast
def weight(kind, margin, label):  # type: ignore[no-untyped-def]
    """dl/d(aᵀθ)."""
    if kind == LOGISTIC:
        return 1.0 / (1.0 + exp(-margin)) - label
    return margin - label


@_fast
def to_softmax_weights(margins, label):  # type: ignore[no-untyped-def]
    """Margins to p − e_label, in place."""
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


@_fast
def dense_scalar(rows, labels, start, filled, theta, kind, grad):  # type: ignore[no-untyped-def]
    n = rows.shape[1]
    for i in range(len(filled)):
        for r in range(start[i], start[i] + filled[i]):
            margin = 0.0
            for c in range(n):
                margin += rows[r, c] * theta[i, c]
            w = weight(kind, margin, labels[r])
            for c in range(n):
                grad[i, c] += w * rows[r, c]


@_fast
def coded_scalar(codes, labels, offset, members, start, filled, theta, kind, grad):  # type: ignore[no-untyped-def]
    """theta and grad are (m, n+1), the last column θ = 0."""
    slots, deep, values = codes.shape[0], members.shape[1], members.shape[0]
    margins, sums, bins = np.empty(CHUNK), np.empty(values), np.empty(values)
    for i in range(len(filled)):
        end = start[i] + filled[i]
        if filled[i] * slots < values:
            for r in range(start[i], end):
                margin = 0.0
                for g in range(slots):
                    for d in range(deep):
                        margin += theta[i, members[offset[g] + codes[g, r], d]]
                w = weight(kind, margin, labels[r])
                for g in range(slots):
                    for d in range(deep):
                        grad[i, members[offset[g] + codes[g, r], d]] += w
            continue
        for v in range(values):
            sums[v] = 0.0
            bins[v] = 0.0
            for d in range(deep):
                sums[v] += theta[i, members[v, d]]
        for first in range(start[i], end, CHUNK):
            count = min(end - first, CHUNK)
            for k in range(count):
                margins[k] = 0.0
            for g in range(slots):
                here = sums[offset[g] :]
                for k in range(count):
                    margins[k] += here[codes[g, first + k]]
            for k in range(count):
                margins[k] = weight(kind, margins[k], labels[first + k])
            for g in range(slots):
                here = bins[offset[g] :]
                for k in range(count):
                    here[codes[g, first + k]] += margins[k]
        for v in range(values):
            for d in range(deep):
                grad[i, members[v, d]] += bins[v]


@_fast
def dense_softmax(rows, labels, start, filled, theta, grad, margins):  # type: ignore[no-untyped-def]
    """theta and grad are (m, n, K); margins is room for K numbers."""
    n, classes = rows.shape[1], len(margins)
    for i in range(len(filled)):
        for r in range(start[i], start[i] + filled[i]):
            margins[:] = 0.0
            for c in range(n):
                for k in range(classes):
                    margins[k] += rows[r, c] * theta[i, c, k]
            to_softmax_weights(margins, labels[r])
            for c in range(n):
                for k in range(classes):
                    grad[i, c, k] += margins[k] * rows[r, c]


@_fast
def coded_softmax(codes, labels, offset, members, start, filled, theta, grad, margins):  # type: ignore[no-untyped-def]
    """theta and grad are (m, n+1, K), the last column θ = 0."""
    slots, deep, classes = codes.shape[0], members.shape[1], len(margins)
    for i in range(len(filled)):
        for r in range(start[i], start[i] + filled[i]):
            margins[:] = 0.0
            for g in range(slots):
                for d in range(deep):
                    column = members[offset[g] + codes[g, r], d]
                    for k in range(classes):
                        margins[k] += theta[i, column, k]
            to_softmax_weights(margins, labels[r])
            for g in range(slots):
                for d in range(deep):
                    column = members[offset[g] + codes[g, r], d]
                    for k in range(classes):
                        grad[i, column, k] += margins[k]
