"""Wavelet scattering of images, as logarithms.

Scattering (Bruna & Mallat, "Invariant Scattering Convolution Networks", IEEE TPAMI 2013) with two scales j, eight
directions k and Gaussian windows φ on a pool × pool grid gives 81 maps a channel:

    S0 = x ⋆ φ      S1[j,k] = |x ⋆ ψ_jk| ⋆ φ      S2[k,l] = ||x ⋆ ψ_0k| ⋆ ψ_1l| ⋆ φ
    ψ̂_jk(ω) = ĝ(2^j ω − ξ_k) − κ ĝ(2^j ω),   ψ̂(0) = 0      Morlet: g a Gaussian twice as long across as along ξ_k
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import scipy
from numpy.typing import NDArray

from gossamer.types import Array, Integers

Floats = NDArray[np.float32]
TURNS, MAPS = 8, 81  # directions; 1 + 2·8 + 8·8 maps
SIGMA, XI, SLANT = 0.8, 3 * math.pi / 4, 0.5  # ψ's width and frequency in pixels, and its width along over across
FLOOR = {1: 5e-4, 3: 1e-2}  # e, for grey and coloured images


def log_maps(images: Floats, pool: int) -> Floats:
    """log(S + e) of (k, channels, side, side) images: (k, channels · 81, pool²)."""
    k, channels, side, _ = images.shape
    size, pad = padded(side)
    x = np.pad(images.reshape(-1, 1, side, side), ((0, 0), (0, 0), (pad, pad), (pad, pad)), mode="symmetric")
    fine, coarse, rows, columns = _filters(size)
    at_full, at_half = (windows(size, pad, side, pool, spacing) for spacing in (1, 2))
    spectrum = scipy.fft.fft2(x)
    first = abs(scipy.fft.ifft2(spectrum * fine))
    # |y ⋆ ψ_1| at every other pixel, from the frequencies around ξ: moving these to 0 leaves the modulus as it is
    second = [abs(scipy.fft.ifft2(each[..., rows, columns] * coarse)) for each in (spectrum, scipy.fft.fft2(first))]
    maps = [(w @ u @ w.T).reshape(k * channels, -1, pool**2)
            for u, w in ((x, at_full), (first, at_full), *((u, at_half) for u in second))]  # fmt: skip
    logs: Floats = np.log(np.concatenate(maps, axis=1).reshape(k, -1, pool**2) + np.float32(FLOOR[channels]))
    return logs


def padded(side: int) -> tuple[int, int]:
    size = 8 * math.ceil((side + 4) / 8)
    return size, (size - side) // 2


@cache
def _filters(size: int) -> tuple[Floats, Floats, Integers, Integers]:
    """ψ̂_0 of all directions, ψ̂_1 on half as many frequencies around each ξ, and which rows and columns these are."""
    half, fine, coarse = size // 2, wavelets(size, 0), wavelets(size, 1)
    centre = np.rint(XI / 2 * size / (2 * math.pi) * np.stack(_directions())).astype(np.int64)
    columns, rows = (centre[:, :, None] - half // 2 + np.arange(half)) % size
    rows, columns = rows[:, :, None], columns[:, None, :]
    picked = coarse[np.arange(TURNS)[:, None, None], rows, columns] / 4  # as an inverse DFT of a quarter of the size
    return fine.astype(np.float32), picked.astype(np.float32), rows, columns


def wavelets(size: int, scale: int) -> Array:
    """ψ̂_jk on the DFT's frequencies, (directions, size, size); periodic, as the sum over shifts by 2π."""
    shifts = 2 * math.pi * (scipy.fft.fftfreq(size) + np.arange(-2, 3)[:, None])
    x, y = shifts[None, :, None, :], shifts[:, None, :, None]
    every = []
    for cos, sin in zip(*_directions(), strict=True):
        along, across = 2**scale * (cos * x + sin * y), 2**scale * (cos * y - sin * x) / SLANT
        gabor, low = (np.exp(-0.5 * SIGMA**2 * ((along - xi) ** 2 + across**2)).sum(axis=(0, 1)) for xi in (XI, 0.0))
        every.append(gabor - gabor[0, 0] / low[0, 0] * low)
    return np.stack(every)


def _directions() -> tuple[Array, Array]:
    angles = math.pi / TURNS * np.arange(TURNS)
    return np.cos(angles), np.sin(angles)


@cache
def windows(size: int, pad: int, side: int, pool: int, spacing: int) -> Floats:
    """φ along one axis: (pool, pixels), rows that sum to 1; without tails that slow float32 down."""
    places = (np.arange(pool)[:, None] + 0.5) * side / pool - 0.5
    weights = np.exp(-0.5 * ((np.arange(0, size, spacing) - pad - places) / (0.4 * side / pool)) ** 2)
    weights[weights < 1e-9] = 0
    normal: Floats = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return normal
