"""x ← M (x, g, ξ) in one pass over the coordinates, for a GPU: the noise ξ is drawn in registers, x is overwritten.

A program takes BLOCK coordinates of all rows, so that nobody else reads what it writes. Noise comes from Philox
(Salmon, Moraes, Dror & Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011), counted by (coordinate, four
rows) under the round's seed: 32 random bits a value, for simulation.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from gossamer.privacy.laws import Law

BLOCK, WARPS = 64, 1


@triton.jit
def _unit(word, other, FIRST: tl.constexpr, GAUSSIAN: tl.constexpr):
    """A unit Laplace value of `word`, or one of the two unit Gaussian ones of both words."""
    if GAUSSIAN:
        if FIRST:
            radius, angle = word, other
        else:
            radius, angle = other, word
        length = tl.sqrt(-2.0 * tl.log((radius.to(tl.float32) + 0.5) * 2.3283064365386963e-10))
        turn = angle.to(tl.float32) * 1.4629180792671596e-09  # 2π/2^32
        drawn = length * (tl.cos(turn) if FIRST else tl.sin(turn))
    else:
        size = -tl.log(((word >> 1).to(tl.float32) + 0.5) * 4.656612873077393e-10)
        drawn = tl.where((word & 1) == 1, size, -size)
    return drawn


@triton.jit
def _added(top, rest, weights, value, TOP: tl.constexpr, REST: tl.constexpr):
    """One more column of the matrix, times one more row of values, on both parts of the result."""
    top += tl.load(weights + tl.arange(0, TOP))[:, None] * value[None, :]
    rest += tl.load(weights + TOP + tl.arange(0, REST))[:, None] * value[None, :]
    return top, rest


@triton.jit(do_not_specialize=["seed", "x_stride", "g_stride"])  # as aligned rows, layouts pass through shared memory
def _advance(
    x_at, g_at, m_at, n, x_stride, g_stride, seed,
    X: tl.constexpr, G: tl.constexpr, NOISE: tl.constexpr, TOP: tl.constexpr, REST: tl.constexpr,
    GAUSSIAN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x_stride, g_stride = tl.cast(x_stride, tl.int64), tl.cast(g_stride, tl.int64)  # rows lie far apart
    ROWS: tl.constexpr = TOP + REST
    top, rest = tl.zeros((TOP, BLOCK), dtype=tl.float32), tl.zeros((REST, BLOCK), dtype=tl.float32)
    for j in range(X):
        value = tl.load(x_at + j * x_stride + at, mask=inside, other=0.0)
        top, rest = _added(top, rest, m_at + j * ROWS, value, TOP, REST)
    for j in range(G):
        value = tl.load(g_at + j * g_stride + at, mask=inside, other=0.0)
        top, rest = _added(top, rest, m_at + (X + j) * ROWS, value, TOP, REST)
    for q in range((NOISE + 3) // 4):
        at32 = at.to(tl.uint32)
        zero = at32 * 0
        a, b, c, d = tl.philox(seed, at32, zero + q, zero, zero)
        weights = m_at + (X + G + 4 * q) * ROWS  # rows of zeros follow the last
        top, rest = _added(top, rest, weights, _unit(a, b, True, GAUSSIAN), TOP, REST)
        top, rest = _added(top, rest, weights + ROWS, _unit(b, a, False, GAUSSIAN), TOP, REST)
        top, rest = _added(top, rest, weights + 2 * ROWS, _unit(c, d, True, GAUSSIAN), TOP, REST)
        top, rest = _added(top, rest, weights + 3 * ROWS, _unit(d, c, False, GAUSSIAN), TOP, REST)
    tl.debug_barrier()  # a warp must not overwrite what another has still to read
    row = tl.arange(0, TOP)[:, None]
    tl.store(x_at + row * x_stride + at[None, :], top, mask=inside[None, :])
    row = TOP + tl.arange(0, REST)[:, None]
    tl.store(x_at + row * x_stride + at[None, :], rest, mask=(row < X) & inside[None, :])


def advance(x: Any, grad: Any, matrix: Any, seed: int, law: Law) -> None:
    """x, (X, n), becomes matrix · (x, grad, noise), where the noise rows are as many as the matrix has columns left."""
    noise = matrix.shape[1] - len(x) - len(grad)
    top = 1 << (len(x).bit_length() - 1)  # tiles have powers of two: 20 rows are 16 and 4
    rest = triton.next_power_of_2(max(len(x) - top, 1))
    rows = top + rest
    padded = torch.zeros(len(x) + len(grad) + -(-noise // 4) * 4, rows, dtype=torch.float32, device=x.device)
    padded[: matrix.shape[1], : len(x)] = matrix.T
    n = x.shape[1]
    _advance[(triton.cdiv(n, BLOCK),)](
        x, grad, padded, n, x.stride(0), grad.stride(0), seed,
        X=len(x), G=len(grad), NOISE=noise, TOP=top, REST=rest, GAUSSIAN=bool(law.triton_branch),
        BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
