"""Data-independent features of images: wavelet scattering (`wavelets.py`), whitened by statistics of random images.

Private learning is linear learning on good features (Tramèr & Boneh, "Differentially Private Learning Needs Better
Features (or Much More Data)", ICLR 2021), and one pass of it needs features of about equal variance that do not hang
together. Means and covariances of the data would be statistics of it. Those of noise are constants: we draw random
lines or patches of colour from a fixed seed, whose log-maps M vary in about the ways of any image's, and take

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

from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.streams.wavelets import MAPS, Floats, log_maps
from gossamer.types import Array

CONSTANT, BELOW = 0.1, 1 - 1e-6  # the last feature, and every row's norm
SPREAD = 0.1  # of all that features hold, in one direction: 0.035 of random images, and three times that to be safe
RIDGE, DRAWN, AT_ONCE = {1: 0.02, 3: 0.03}, 500, 64  # r; how many random images; images to a piece of work


def scattered(images: NDArray[np.uint8], channels: int, side: int, pool: int) -> Floats:
    """(k, channels · 81 · pool² + 1) features of k images, each a row of bytes, channels first."""
    if channels not in (1, 3):
        raise BadValue("channels", channels, "expected 1 (grey) or 3 (colour)")
    if side < 8 or side % 2 or not 1 <= pool <= side // 4:
        sizes = Argument("side", side), ", ", Argument("pool", pool)
        raise GossamerError(*sizes, ": expected an even side ≥ 8 and a pool of 1 to side/4.")
    if images.ndim != 2 or images.shape[1] != channels * side * side or images.dtype != np.uint8:
        raise GossamerError(
            f"images of shape {images.shape} and type {images.dtype}: expected rows of {channels * side * side} bytes, "
            f"{channels} × {side} × {side}; give the sizes that these images have."
        )
    white = _whitening(channels, side, pool)
    features = np.empty((len(images), channels * MAPS * pool**2 + 1), dtype=np.float32)

    def work(first: int) -> None:
        here = slice(first, first + AT_ONCE)
        x = images[here].reshape(-1, channels, side, side).astype(np.float32)
        maps = log_maps(x / np.float32(255), pool)
        rows = (white.P @ (maps - white.mean) @ white.Q).reshape(len(maps), -1)
        norms = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        features[here, :-1] = rows * (BELOW * math.sqrt(1 - CONSTANT**2) / norms)
        features[here, -1] = BELOW * CONSTANT

    with ThreadPoolExecutor() as threads:
        list(threads.map(work, range(0, len(images), AT_ONCE)))
    return features


class Whitening(NamedTuple):
    mean: Floats  # (channels · 81, pool²), as P and Q go with
    P: Floats
    Q: Floats


@cache
def _whitening(channels: int, side: int, pool: int) -> Whitening:
    pieces = [log_maps(x, pool) for x in np.array_split(random_images(DRAWN, channels, side), DRAWN // AT_ONCE)]
    drawn = np.concatenate(pieces).astype(float)
    mean = drawn.mean(axis=0)
    over = ((drawn - mean).transpose(order).reshape(drawn.shape[order[0]], -1) for order in ((1, 0, 2), (2, 0, 1)))
    P, Q = (_root(x @ x.T / DRAWN, RIDGE[channels]) for x in over)
    return Whitening(mean.astype(np.float32), P, np.ascontiguousarray(Q.T))


def _root(covariance: Array, ridge: float) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    vectors = vectors * np.sign(largest)  # libraries choose either sign, and features would differ between machines
    root: Floats = (vectors / np.sqrt(values + ridge * values[-1])).T.astype(np.float32)
    return root


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
