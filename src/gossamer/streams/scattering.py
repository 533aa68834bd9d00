"""Features of images that no image but their own has a say in: wavelet scattering, whitened by images of nobody.

Scattering (Bruna & Mallat, "Invariant Scattering Convolution Networks", IEEE TPAMI 2013) with two scales j, eight
directions k and Gaussian windows φ on a pool × pool grid gives 81 maps a channel:

    S0 = x ⋆ φ      S1[j,k] = |x ⋆ ψ_jk| ⋆ φ      S2[k,l] = ||x ⋆ ψ_0k| ⋆ ψ_1l| ⋆ φ
    ψ̂_jk(ω) = ĝ(2^j ω − ξ_k) − κ ĝ(2^j ω),   ψ̂(0) = 0      Morlet: g a Gaussian twice as long across as along ξ_k

Private learning is linear learning on good features (Tramèr & Boneh, "Differentially Private Learning Needs Better
Features (or Much More Data)", ICLR 2021), and one pass of it needs features of about equal variance that do not hang
together. Means and covariances of the data would be statistics of it. Those of noise are constants: we draw random
lines or patches of colour from a fixed seed, whose maps M = log(S + e) vary in about the ways of any image's, and take

    a ∝ P (M − mean) Q,   P = (A + r‖A‖ I)^-½ and Q = (B + r‖B‖ I)^-½ in the eigenvectors of A and B,

the covariances over maps and over places. (Learning from noise in place of images: Tang, Panda, Sehwag & Mittal,
"Differentially Private Image Classification by Learning Priors from Random Processes", NeurIPS 2023.) Rows end in a
constant and have ‖a‖₂ = 1, or a little less: rounding must not take them above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from gossamer.errors import GossamerError
from gossamer.types import Array, Integers

Floats = NDArray[np.float32]
TURNS, MAPS = 8, 81  # directions; 1 + 2·8 + 8·8 maps
SIGMA, XI, SLANT = 0.8, 3 * math.pi / 4, 0.5  # ψ's width and frequency in pixels, and its width along over across
CONSTANT, BELOW = 0.1, 1 - 1e-6  # the last feature, and every row's norm
RIDGE, DRAWN, AT_ONCE = {1: 0.02, 3: 0.03}, 500, 64  # r; how many random images; images to a piece of work
FLOOR = {1: 5e-4, 3: 1e-2}  # e


def scattered(images: NDArray[np.uint8], channels: int, side: int, pool: int) -> Floats:
    """(k, channels · 81 · pool² + 1) features of k images, each a row of bytes, channels first."""
    if channels not in (1, 3):
        raise GossamerError(f"scattered(channels={channels}): expected 1 (grey) or 3 (colour).")
    if side < 8 or side % 2 or not 1 <= pool <= side // 4:
        raise GossamerError(
            f"scattered(side={side}, pool={pool}): expected an even side ≥ 8 and a pool of 1 to side/4."
        )
    if images.ndim != 2 or images.shape[1] != channels * side * side or images.dtype != np.uint8:
        raise GossamerError(
            f"images of shape {images.shape} and type {images.dtype}: expected rows of {channels * side * side} bytes, "
            f"{channels} × {side} × {side}; give the sizes that these images have."
        )
    white = _whitening(channels, side, pool)
    found = np.empty((len(images), channels * MAPS * pool**2 + 1), dtype=np.float32)

    def work(first: int) -> None:
        here = slice(first, first + AT_ONCE)
        x = images[here].reshape(-1, channels, side, side).astype(np.float32)
        maps = _maps(x / np.float32(255), pool)
        rows = (white.P @ (maps - white.mean) @ white.Q).reshape(len(maps), -1)
        norms = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        found[here, :-1] = rows * (BELOW * math.sqrt(1 - CONSTANT**2) / norms)
        found[here, -1] = BELOW * CONSTANT

    with ThreadPoolExecutor() as threads:
        list(threads.map(work, range(0, len(images), AT_ONCE)))
    return found


class Whitening(NamedTuple):
    mean: Floats  # (channels · 81, pool²), as P and Q go with
    P: Floats
    Q: Floats


@cache
def _whitening(channels: int, side: int, pool: int) -> Whitening:
    pieces = [_maps(x, pool) for x in np.array_split(random_images(DRAWN, channels, side), DRAWN // AT_ONCE)]
    drawn = np.concatenate(pieces).astype(float)
    mean = drawn.mean(axis=0)
    over = ((drawn - mean).transpose(order).reshape(drawn.shape[order[0]], -1) for order in ((1, 0, 2), (2, 0, 1)))
    P, Q = (_root(x @ x.T / DRAWN, RIDGE[channels]) for x in over)
    return Whitening(mean.astype(np.float32), P, np.ascontiguousarray(Q.T))


def _root(covariance: Array, ridge: float) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    found: Floats = (vectors / np.sqrt(values + ridge * values[-1])).T.astype(np.float32)
    return found


def random_images(count: int, channels: int, side: int) -> Floats:
    """Grey: lines, where a smooth field is zero. Colour: patches, where one of five is largest, with some texture."""
    rng = np.random.default_rng(0)
    if channels == 1:
        x = _fields(rng, (count,), side, lambda r: np.exp(-0.5 * (7 * math.pi * r) ** 2))
        away = abs(x) / np.maximum(np.hypot(*np.gradient(x, axis=(1, 2))), 1e-3)  # in pixels
        u = (np.arange(side) + 0.5) / side * 2 - 1
        x = (np.clip(2 - away, 0, 1) * (np.hypot(u, u[:, None]) < 0.72))[:, None]
        return np.asarray(x, dtype=np.float32)
    patch = _fields(rng, (count, 5), side, lambda r: np.maximum(r, 1 / 64) ** -2.0).argmax(axis=1)
    colours = rng.standard_normal((count, 5, 3)) @ [[1, 1, 1], [0.25, 0, -0.25], [0.1, -0.2, 0.1]]
    x = colours[np.arange(count)[:, None, None], patch].transpose(0, 3, 1, 2)
    texture = _fields(rng, (count, 1), side, lambda r: 1 / np.maximum(r, 1 / 64))
    x = x + texture * rng.uniform(0, 0.5, (count, 1, 1, 1))
    return np.asarray(np.clip(0.47 + x * rng.uniform(0.08, 0.3, (count, 1, 1, 1)), 0, 1), dtype=np.float32)


def _fields(rng: np.random.Generator, shape: tuple[int, ...], side: int, law: Callable[[Array], Array]) -> Array:
    """Gaussian noise, filtered by frequency on a plane twice as large, with variance 1 there."""
    f = scipy.fft.fftfreq(2 * side)
    x = scipy.fft.ifft2(
        scipy.fft.fft2(rng.standard_normal((*shape, 2 * side, 2 * side))) * law(np.hypot(f[:, None], f))
    ).real
    scaled: Array = (x / x.std(axis=(-1, -2), keepdims=True))[..., :side, :side]
    return scaled


def _maps(images: Floats, pool: int) -> Floats:
    """log(S + e) of (k, channels, side, side) images: (k, channels · 81, pool²)."""
    k, channels, side, _ = images.shape
    size, pad = _padded(side)
    x = np.pad(images.reshape(-1, 1, side, side), ((0, 0), (0, 0), (pad, pad), (pad, pad)), mode="symmetric")
    fine, coarse, rows, columns = _filters(size)
    at_full, at_half = (_windows(size, pad, side, pool, spacing) for spacing in (1, 2))
    spectrum = scipy.fft.fft2(x)
    first = abs(scipy.fft.ifft2(spectrum * fine))
    # |y ⋆ ψ_1| at every other pixel, from the frequencies around ξ: moving these to 0 leaves the modulus as it is
    second = [abs(scipy.fft.ifft2(each[..., rows, columns] * coarse)) for each in (spectrum, scipy.fft.fft2(first))]
    found = [(w @ u @ w.T).reshape(k * channels, -1, pool**2)
             for u, w in ((x, at_full), (first, at_full), *((u, at_half) for u in second))]  # fmt: skip
    logs: Floats = np.log(np.concatenate(found, axis=1).reshape(k, -1, pool**2) + np.float32(FLOOR[channels]))
    return logs


def _padded(side: int) -> tuple[int, int]:
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
    found = []
    for cos, sin in zip(*_directions(), strict=True):
        along, across = 2**scale * (cos * x + sin * y), 2**scale * (cos * y - sin * x) / SLANT
        gabor, low = (np.exp(-0.5 * SIGMA**2 * ((along - xi) ** 2 + across**2)).sum(axis=(0, 1)) for xi in (XI, 0.0))
        found.append(gabor - gabor[0, 0] / low[0, 0] * low)
    return np.stack(found)


def _directions() -> tuple[Array, Array]:
    angles = math.pi / TURNS * np.arange(TURNS)
    return np.cos(angles), np.sin(angles)


@cache
def _windows(size: int, pad: int, side: int, pool: int, spacing: int) -> Floats:
    """φ along one axis: (pool, pixels), rows that sum to 1; without tails that slow float32 down."""
    places = (np.arange(pool)[:, None] + 0.5) * side / pool - 0.5
    weights = np.exp(-0.5 * ((np.arange(0, size, spacing) - pad - places) / (0.4 * side / pool)) ** 2)
    weights[weights < 1e-9] = 0
    normal: Floats = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return normal
