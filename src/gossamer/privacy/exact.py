"""Noise that is what it claims: exact discrete Laplace and Gaussian noise on a fine grid, from a keyed stream.

Floating-point samplers leak: which doubles can come out depends on the secret input (Mironov, CCS 2012). Here a value
is first put on the grid g = scale/2^40, and integer noise is added, drawn exactly from

    Laplace    P(k) ∝ exp(−|k| / 2^40)
    Gaussian   P(k) ∝ exp(−k² / 2^81)

so that what comes out is an integer whose law shifts with the input and never shows the input's own bits.

**Exponential.** Von Neumann's comparison method: of uniforms u₁, u₂, … take the longest run u₁ > u₂ > … > u_r. If r
is odd, u₁ is the fraction of an Exp(1) variate and the number of even runs before it is its integer part. Uniforms
are 64-bit words, extended by further words where two are equal. 2^40 E rounded down is geometric with ratio
exp(−2^−40).
**Laplace.** A random sign, where −0 is drawn again, makes it two-sided.
**Gaussian.** exp(−k²/2σ²) ∝ exp(−|k|/σ) · exp(−(|k|−σ)²/2σ²): a Laplace k is kept if a fresh Exp(1) exceeds
(|k|−2^40)²/2^81, which is compared as an integer of 128 bits.

**What is charged.** Rounding to the grid moves each coordinate by at most half a step, and dividing by g in float64
by a quarter more while |x| < 2^12 · scale (which is checked): two neighbouring inputs end at most 1.5 steps further
apart per coordinate. For Laplace noise we charge n · 2^−39 a message, two steps, which also covers that a second tie
of 128 equal bits is decided by a coin. For Gaussian noise a message's shift grows by two steps in each coordinate,
which is √n · 2^−39 of σ in L2 and goes onto its μ; and ε grows by n · 2^−58, because discrete and continuous laws
differ by a factor of 1 ± 2^−60.

Words come from AES-256 in counter mode under a key from the operating system, a new one in every process, forks
included.
"""

from __future__ import annotations

import importlib
import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from gossamer.arrays import kind_of
from gossamer.errors import Diverged, GossamerError
from gossamer.privacy.words import BUFFER, Words
from gossamer.types import Array

if TYPE_CHECKING:
    from gossamer.privacy.laws import Law

BITS = 40  # the grid is scale / 2^BITS
LARGEST = 2.0**12  # |value| / scale, so that float64 keeps the grid exact
SMALLEST = 1e-280  # scale, so that the grid is made of normal floats
RESERVE = 2048  # words that no single draw uses up: more than 512 are needed with probability below 2^-270


class Keystream:
    """An endless stream of random words under a key that never leaves this process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew with the next draw, under a new key; also where another thread held the lock as we were forked."""
        self._process = -1
        self._lock = threading.Lock()

    @contextmanager
    def words(self) -> Iterator[Words]:
        """The words that come next, for one thread at a time: two must never draw the same."""
        with self._lock:
            if self._process != os.getpid():
                cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16)))
                self._words = Words(cipher.encryptor())
                self._process = os.getpid()
            yield self._words

    def add(self, kernel: Any, values: Array, grid: Array) -> Array:
        """(rows, n) of values put on the grid of their row, each with one draw of the kernel's law."""
        out = np.empty(values.shape)
        with self.words() as words:
            done = 0
            while done < values.size:
                words.have(RESERVE, wanted=BUFFER)
                words.used, done = kernel(words.ahead, words.used, values, grid, out, done)
        return out


own_words = Keystream()
os.register_at_fork(after_in_child=own_words.forget)


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
    check_scale(bool((np.isfinite(size) & (size > SMALLEST)).all()), size)
    by_row = given.ndim == 2 and size.shape == (len(given), 1)
    if size.ndim and not by_row:  # any other broadcasting: every value is a row of its own
        given, size = np.broadcast_arrays(given, size)
    rows = np.ascontiguousarray(given.reshape(size.size, -1) if given.size else given.reshape(0, 1))
    scales = np.ascontiguousarray(size.reshape(-1))
    farthest = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))
    worst = float((farthest / scales).max(initial=0.0)) if rows.size else 0.0
    check_on_grid(worst)
    return kind.make(own_words.add(law.on_arrays(), rows, scales * 2.0**-BITS).reshape(given.shape))
