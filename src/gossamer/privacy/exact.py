"""Noise that is what it claims: exact discrete Laplace and Gaussian noise on a fine grid, from a keyed stream.

Floating-point samplers leak: which doubles can come out depends on the secret input (Mironov, CCS 2012). Here a value
is first put on the grid g = scale/2^40, and integer noise is added, drawn exactly from

    Laplace    P(k) ∝ exp(−|k| / 2^40)
    Gaussian   P(k) ∝ exp(−k² / 2^81)

so that what comes out is an integer whose law shifts with the input and never shows the input's own bits.

How that is done is in gossamer.privacy.table. On a GPU it is von Neumann's way: gossamer.privacy.tensors.

**What is charged.** Rounding to the grid moves each coordinate by at most half a step, and dividing by g in float64 by
a quarter more while |x| < 2^12 · scale (which is checked): two neighbouring inputs end at most 1.5 steps further apart
per coordinate. For Laplace noise we charge n · 2^−39 a message, two steps, which also covers that on a GPU a second tie
of 128 equal bits is decided by a coin. For Gaussian noise a message's shift grows by two steps in each coordinate,
which is √n · 2^−39 of σ in L2 and goes onto its μ; and ε grows by n · 2^−58, because discrete and continuous laws
differ by a factor of 1 ± 2^−60.
"""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.arrays import kind_of
from gossamer.errors import Diverged, GossamerError
from gossamer.lazy import import_once, kernels_for
from gossamer.types import Array

if TYPE_CHECKING:
    from gossamer.privacy.laws import Law

ROOM = "gossamer.privacy"
BITS = 40  # the grid is scale / 2^BITS
LARGEST = 2.0**12  # |value| / scale, so that float64 keeps the grid exact
SMALLEST = 1e-280  # scale, so that the grid is made of normal floats
AT_ONCE = 1 << 15  # values drawn at a time: they stay in the cache


def check_scale(fine: bool, scale: Any) -> None:
    """Refuse noise scales, an array or a tensor, of which not all are finite and above SMALLEST."""
    if not fine:
        raise GossamerError(f"a noise scale of {float(scale.min()):g}: expected a finite number above {SMALLEST:g}.")


def check_on_grid(worst: float) -> None:
    """Refuse values of which the largest has `worst` noise scales; NaN or ∞ where one is not finite."""
    if not math.isfinite(worst):
        raise Diverged("a value to be noised is not finite: a run that diverged, or a bad input; use smaller steps.")
    if not worst < LARGEST:
        raise GossamerError(
            f"a value is {worst:.3g} noise scales large, expected below {LARGEST:g}: what is sent would lose the grid; "
            "scale features down, use a smaller step, or more noise."
        )


def released(values: Any, scale: Any, law: Law) -> Any:
    """`values` plus exact noise of a law on the grid scale/2^40; tensors get theirs where they are."""
    kind = kind_of(values)
    if kind.place != "cpu":  # tensors in memory are noised as arrays: twenty times as fast as tensor operations
        tensors = importlib.import_module("gossamer.privacy.tensors")
        return tensors.released(values, scale, law)
    given, size = kind.to_numpy(kind.widen(values)), np.asarray(scale, dtype=float)
    by_row = given.ndim == 2 and size.shape == (len(given), 1)
    if size.ndim and not by_row:  # any other broadcasting: every value is a row of its own
        given, size = np.broadcast_arrays(given, size)
    rows = np.ascontiguousarray(given.reshape(size.size, -1) if given.size else given.reshape(0, 1))
    scales = np.ascontiguousarray(size.reshape(-1))
    least, most, worst = kernels_for(rows.size, ROOM).farthest(rows, scales)
    check_scale(least > SMALLEST and most < math.inf, size)
    check_on_grid(worst)
    return kind.make(_noised(rows, scales * 2.0**-BITS, law).reshape(given.shape))


def _noised(values: Array, grid: Array, law: Law) -> Array:
    """(rows, n) of values put on the grid of their row, each with one draw of the law."""
    add = kernels_for(values.size, ROOM).add_on_grid
    own_noise = import_once("gossamer.privacy.table").own_noise
    out, noise = np.empty(values.shape), np.zeros(min(AT_ONCE, values.size), dtype=np.int64)
    for done in range(0, values.size, AT_ONCE):
        some = noise[: values.size - done]
        if done:
            some[:] = 0
        own_noise(some, 1 << BITS, law.power)
        add(values, grid, some, done, out)
    return out
