"""A learner's whole round in one program, for a GPU: its own row, its neighbours' rows, its records, and its new row.

    g     = mean_r w(a_rᵀx_p, b_r) a_r + l2 x_p        or as it is given
    got_c = Σ_j W_ij sent_c,j                          UNROLL rows are on their way at once
    x_f⁺  = Σ_h table_fh x_h + table_f,F g + Σ_c table_f,F+1+c got_c

Every row of the state is read once as a learner's own, written once, and read once more for each link that leaves it,
unless the cache still has it. One warp plays one learner: tiles of several learners were slower, and so were programs
that play many learners one after the other.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

GIVEN = 2  # a gradient that is given; else a model's kernel, as gossamer.models.linear numbers them


@triton.jit
def _heard(
    sent, starts, senders, weights, i, learners, c, column, N: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr
):
    """Σ_j W_ij sent_j over the links of channel c."""
    first, end = tl.load(starts + c * (learners + 1) + i), tl.load(starts + c * (learners + 1) + i + 1)
    got = tl.zeros((BLOCK,), dtype=sent.dtype.element_ty)
    for k in range(first, end, UNROLL):
        for u in tl.static_range(UNROLL):
            there = k + u < end
            sender = tl.load(senders + k + u, mask=there, other=0).to(tl.int64)
            weight = tl.load(weights + k + u, mask=there, other=0.0)
            got += weight * tl.load(sent + sender * N + column, mask=there & (column < N), other=0.0)
    return got


@triton.jit
def _slope(
    point, rows, labels, filled, ridge, i, room, column, N: tl.constexpr, BLOCK: tl.constexpr, LOSS: tl.constexpr
):
    """The mean gradient of a learner's records, and the penalty's."""
    slope = tl.zeros((BLOCK,), dtype=point.dtype)
    count = tl.load(filled + i)
    for r in range(0, count):
        record = i * room + r
        features = tl.load(rows + record * N + column, mask=column < N, other=0.0)
        margin = tl.sum(features * point, axis=0)
        if LOSS == 0:
            margin = 1.0 / (1.0 + tl.exp(-margin))
        slope += (margin - tl.load(labels + record)) * features
    return slope / tl.maximum(count, 1).to(point.dtype) + tl.load(ridge + column, mask=column < N, other=0.0) * point


@triton.jit
def _learner(
    old, new, table, sent0, sent1, sent2, starts, senders, weights, grad, rows, labels, filled, ridge, learners, room,
    N: tl.constexpr, BLOCK: tl.constexpr, FIELDS: tl.constexpr, CHANNELS: tl.constexpr,
    POINT: tl.constexpr, LOSS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    learners = tl.cast(learners, tl.int64)
    column = tl.arange(0, BLOCK)
    inside, own, width = column < N, i * N + column, FIELDS + 1 + CHANNELS
    if CHANNELS > 0:
        got0 = _heard(sent0, starts, senders, weights, i, learners, 0, column, N, BLOCK, UNROLL)
    if CHANNELS > 1:
        got1 = _heard(sent1, starts, senders, weights, i, learners, 1, column, N, BLOCK, UNROLL)
    if CHANNELS > 2:
        got2 = _heard(sent2, starts, senders, weights, i, learners, 2, column, N, BLOCK, UNROLL)
    if LOSS == 2:
        slope = tl.load(grad + own, mask=inside, other=0.0)
    else:
        point = tl.load(old + POINT * learners * N + own, mask=inside, other=0.0)
        slope = _slope(point, rows, labels, filled, ridge, i, room, column, N, BLOCK, LOSS)
    for f in tl.static_range(FIELDS):
        at = table + (f * learners + i) * width
        value = tl.load(at + FIELDS) * slope
        for h in tl.static_range(FIELDS):
            value += tl.load(at + h) * tl.load(old + h * learners * N + own, mask=inside, other=0.0)
        if CHANNELS > 0:
            value += tl.load(at + FIELDS + 1) * got0
        if CHANNELS > 1:
            value += tl.load(at + FIELDS + 2) * got1
        if CHANNELS > 2:
            value += tl.load(at + FIELDS + 3) * got2
        tl.store(new + f * learners * N + own, value, mask=inside)


def one_round(
    old: Any, new: Any, table: Any, sent: list[Any], links: Any, grad: Any, memory: Any, point: int | None, ridge: Any,
    loss: int | None,
) -> None:  # fmt: skip
    """Fills `new`, (fields, m, n), from `old`; without `grad` with that of the memory's records at field `point`.

    `sent` are (m, n) arrays, `table` is (fields, m, fields + 1 + channels).
    """
    fields, learners, n = old.shape
    every = (*(value.contiguous() for value in sent), *[old] * (3 - len(sent)))  # what no channel reads may be anything
    if grad is None:
        given = old, memory.rows, memory.labels, memory.counts, ridge, learners, memory.rows.shape[1]
    else:
        given = grad.contiguous(), old, old, links.senders, ridge, learners, 1
    _learner[(learners,)](
        old, new, table, *every, links.starts, links.senders, links.weights, *given,
        N=n, BLOCK=triton.next_power_of_2(n), FIELDS=fields, CHANNELS=len(sent), POINT=point or 0,
        LOSS=GIVEN if grad is not None else loss, UNROLL=links.at_once, num_warps=1,
    )  # fmt: skip
