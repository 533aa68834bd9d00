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

BLOCK, WARPS = 128, 4


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


@triton.jit(do_not_specialize=["seed"])
def _advance(
    x_at, g_at, m_at, n, x_stride, g_stride, seed,
    X: tl.constexpr, G: tl.constexpr, NOISE: tl.constexpr, ROWS: tl.constexpr, GAUSSIAN: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x_stride, g_stride = tl.cast(x_stride, tl.int64), tl.cast(g_stride, tl.int64)  # rows lie far apart
    row = tl.arange(0, ROWS)
    after = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for j in tl.static_range(X):
        value = tl.load(x_at + j * x_stride + at, mask=inside, other=0.0)
        after += tl.load(m_at + j * ROWS + row)[:, None] * value[None, :]
    for j in tl.static_range(G):
        value = tl.load(g_at + j * g_stride + at, mask=inside, other=0.0)
        after += tl.load(m_at + (X + j) * ROWS + row)[:, None] * value[None, :]
    for q in tl.static_range((NOISE + 3) // 4):
        at32 = at.to(tl.uint32)
        zero = at32 * 0
        a, b, c, d = tl.philox(seed, at32, zero + q, zero, zero)
        weights = m_at + (X + G + 4 * q) * ROWS + row  # rows of zeros follow the last
        after += tl.load(weights)[:, None] * _unit(a, b, True, GAUSSIAN)[None, :]
        after += tl.load(weights + ROWS)[:, None] * _unit(b, a, False, GAUSSIAN)[None, :]
        after += tl.load(weights + 2 * ROWS)[:, None] * _unit(c, d, True, GAUSSIAN)[None, :]
        after += tl.load(weights + 3 * ROWS)[:, None] * _unit(d, c, False, GAUSSIAN)[None, :]
    tl.debug_barrier()  # a warp must not overwrite what another has still to read
    wide = row[:, None] * x_stride + at[None, :]
    tl.store(x_at + wide, after, mask=(row < X)[:, None] & inside[None, :])


def advance(x: Any, grad: Any, matrix: Any, seed: int, law: str) -> None:
    """x, (X, n), becomes matrix · (x, grad, noise), where the noise rows are as many as the matrix has columns left.

    Rows of numbers that start at multiples of 16 are read fastest.
    """
    noise = matrix.shape[1] - len(x) - len(grad)
    rows = triton.next_power_of_2(len(x))
    padded = torch.zeros(len(x) + len(grad) + -(-noise // 4) * 4, rows, dtype=torch.float32, device=x.device)
    padded[: matrix.shape[1], : len(x)] = matrix.T
    n = x.shape[1]
    _advance[(triton.cdiv(n, BLOCK),)](
        x, grad, padded, n, x.stride(0), grad.stride(0), seed,
        X=len(x), G=len(grad), NOISE=noise, ROWS=rows, GAUSSIAN=law == "gaussian", BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
