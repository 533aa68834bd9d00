"""The exact noise of gossamer.privacy.exact for torch tensors, drawn where they are: same law, same grid, same charge.

Words come from ChaCha20 (Bernstein 2008; 32-bit form of RFC 8439, with a 64-bit counter), in tensor operations, under a
new key from the operating system for every call: nothing is kept, so neither threads nor forks nor restarts can share
a draw. Torch has signed integers only. A uniform word orders as well signed as unsigned; u = word − 2^63 stands for the
fraction word/2^64 throughout.

On a GPU with Triton, gossamer.privacy.kernels does the same in one kernel; tensors on a CPU get the noise of arrays.
"""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from gossamer.privacy.exact import BITS, SMALLEST, check_on_grid, check_scale
from gossamer.privacy.laws import LAPLACE, Law

LOWEST = -(2**63)
QUARTERS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<i4")

Tensor = Any


class Words:
    """A stream of uniform 64-bit words on a device."""

    def __init__(self, device: Any, key: bytes | None = None, nonce: bytes | None = None) -> None:
        self._device = device
        self._key = np.frombuffer(key or os.urandom(32), dtype="<i4")
        self._nonce = np.frombuffer(nonce or os.urandom(8), dtype="<i4")
        self._blocks = 0
        self._spare: Tensor = torch.empty(0, dtype=torch.int64, device=device)

    def take(self, count: int) -> Tensor:
        if len(self._spare) < count:
            needed = -(-max(count - len(self._spare), 4096) // 8)
            self._spare = torch.cat([self._spare, self._chacha(needed)])
        taken, self._spare = self._spare[:count], self._spare[count:]
        return taken

    def _chacha(self, blocks: int) -> Tensor:
        """`blocks` times 64 bytes, as 8 words each."""
        counter = torch.arange(self._blocks, self._blocks + blocks, dtype=torch.int64, device=self._device)
        self._blocks += blocks
        start = [torch.full_like(counter, int(word), dtype=torch.int32) for word in (*CONSTANTS, *self._key)]
        start += [counter.to(torch.int32), (counter >> 32).to(torch.int32)]
        start += [torch.full_like(counter, int(word), dtype=torch.int32) for word in self._nonce]
        x = list(start)
        for _ in range(10):
            for a, b, c, d in (*QUARTERS, *DIAGONALS):
                x[a] = x[a] + x[b]
                x[d] = _rotated(x[d] ^ x[a], 16)
                x[c] = x[c] + x[d]
                x[b] = _rotated(x[b] ^ x[c], 12)
                x[a] = x[a] + x[b]
                x[d] = _rotated(x[d] ^ x[a], 8)
                x[c] = x[c] + x[d]
                x[b] = _rotated(x[b] ^ x[c], 7)
        whole = torch.stack([a + b for a, b in zip(x, start, strict=True)], dim=1)
        return whole.view(torch.int64).reshape(-1)


def _rotated(x: Tensor, by: int) -> Tensor:
    return (x << by) | ((x >> (32 - by)) & ((1 << by) - 1))


def _exponential(words: Words, count: int) -> tuple[Tensor, Tensor]:
    """(integer part, u of the fraction) of Exp(1) variates, by von Neumann's comparison of runs."""
    whole = torch.zeros(count, dtype=torch.int64, device=words._device)
    fraction = torch.zeros_like(whole)
    open_ = torch.arange(count, device=words._device)
    while len(open_):
        first = words.take(len(open_))
        odd = _run_is_odd(words, first)
        fraction[open_] = first
        whole[open_[~odd]] += 1
        open_ = open_[~odd]
    return whole, fraction


def _run_is_odd(words: Words, first: Tensor) -> Tensor:
    """Whether the longest falling run of uniforms that starts with `first` has odd length."""
    odd = torch.ones(len(first), dtype=torch.bool, device=first.device)
    running = torch.arange(len(first), device=first.device)
    previous = first
    while len(running):
        word = words.take(len(running))
        falls = word < previous
        same = word == previous
        if bool(same.any()):  # probability 2^-64: further bits decide
            falls = falls | (same & _further_bits_fall(words, len(word)))
        running, previous = running[falls], word[falls]
        odd[running] = ~odd[running]
    return odd


def _further_bits_fall(words: Words, count: int) -> Tensor:
    one, other = words.take(count), words.take(count)
    return torch.where(one == other, words.take(count) < 0, one < other)


def _size(whole: Tensor, u: Tensor) -> Tensor:
    """⌊2^40 E⌋."""
    return (whole << BITS) + (u >> (64 - BITS)) + (1 << (BITS - 1))


def laplace(words: Words, count: int) -> Tensor:
    """Integers with P(k) ∝ exp(−|k|/2^40)."""

    def draw(count: int) -> tuple[Tensor, Tensor]:
        size, negative = _size(*_exponential(words, count)), words.take(count) < 0
        return torch.where(negative, -size, size), ~(negative & (size == 0))

    return _accepted(words, count, draw)


def gaussian(words: Words, count: int) -> Tensor:
    """Integers with P(k) ∝ exp(−k²/2^81): a Laplace k is kept if an Exp(1) exceeds (|k|−2^40)²/2^81."""

    def draw(count: int) -> tuple[Tensor, Tensor]:
        size, negative = _size(*_exponential(words, count)), words.take(count) < 0
        whole, u, last = _squared_over_2_81((size - (1 << BITS)).abs())
        e_whole, e_u = _exponential(words, count)
        further = ((words.take(count) >> 47) & 0x1FFFF) >= last
        keep = (e_whole > whole) | ((e_whole == whole) & ((e_u > u) | ((e_u == u) & further)))
        return torch.where(negative, -size, size), keep & ~(negative & (size == 0))

    return _accepted(words, count, draw)


def _squared_over_2_81(apart: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """apart²/2^81 as its integer part, u of the first 64 bits of its fraction, and the last 17 bits; apart < 2^47."""
    mask = (1 << 24) - 1
    high, low = apart >> 24, apart & mask
    square = low * low
    middle = 2 * high * low + (square >> 24)
    top = high * high + (middle >> 24)
    d1, d0 = middle & mask, square & mask
    u = (((top & ((1 << 33) - 1)) << 31) | (d1 << 7) | (d0 >> 17)) ^ LOWEST
    return top >> 33, u, d0 & 0x1FFFF


def _accepted(words: Words, count: int, draw: Any) -> Tensor:
    """`count` values of draw(n) = (values, which are accepted), drawn again where they are not."""
    out = torch.empty(count, dtype=torch.int64, device=words._device)
    open_ = torch.arange(count, device=words._device)
    while len(open_):
        values, fine = draw(len(open_))
        out[open_[fine]] = values[fine]
        open_ = open_[~fine]
    return out


def checked_scale(scale: Any, device: Any) -> Tensor:
    size = torch.as_tensor(scale, dtype=torch.float64, device=device)
    check_scale(bool((torch.isfinite(size) & (size > SMALLEST)).all()), size)
    return size


@functools.cache
def _kernels(device: Any) -> Any:
    """gossamer.privacy.kernels where Triton is installed and can build them for `device`, else None."""
    try:
        kernels = importlib.import_module("gossamer.privacy.kernels")
    except ImportError:
        return None
    try:
        kernels.released(torch.zeros(1, device=device), 1.0, LAPLACE)
    except Exception as why:  # Triton needs a C compiler, and fails in many ways without
        warnings.warn(f"Triton cannot build for {device} ({why}): exact noise takes longer there.", stacklevel=2)
        return None
    return kernels


def released(values: Tensor, scale: Any, law: Law) -> Tensor:
    """`values` plus exact noise on the grid scale/2^40, as a tensor of the same kind in the same place."""
    by_kernel = values.is_cuda and law.triton_branch is not None
    if by_kernel and (kernels := _kernels(values.device)) and values.dtype in kernels.KINDS:
        return kernels.released(values, scale, law)
    given = values.detach().to(torch.float64)
    size = checked_scale(scale, given.device)
    check_on_grid(float((given.abs() / size).max()) if given.numel() else 0.0)  # the largest of any with NaN is NaN
    given, size = torch.broadcast_tensors(given, size)  # every value that comes out has a draw of its own
    grid = size * 2.0**-BITS
    noise = law.on_tensors().integers(Words(given.device), given.numel()).reshape(given.shape)
    return ((given / grid).round() + noise.to(torch.float64)).mul(grid).to(values.dtype)


def seeded(values: Tensor, scale: Any, law: Law, seed: int) -> Tensor:
    """Noise in floating point from torch's own generator: for simulation, fast, and not private."""
    generator = torch.Generator(device=values.device)
    generator.manual_seed(seed)
    drawn = torch.empty(values.shape, dtype=values.dtype, device=values.device)
    return law.on_tensors().seeded(drawn, generator).mul_(values.new_tensor(scale))


class Draws(NamedTuple):
    """How tensors get the noise of one law. Seeded noise has scale 1 and may overwrite the tensor that it is given."""

    integers: Callable[[Words, int], Tensor]  # so many exact draws on the grid of 2^-40
    seeded: Callable[[Tensor, Any], Tensor]  # by a generator
    seeded_by_size: Callable[[Tensor, Any], Tensor]  # likewise, but sign and size apart, as rounds by matrix draw it


def _seeded_laplace(out: Tensor, generator: Any) -> Tensor:
    out.uniform_(-1.0, 1.0, generator=generator)
    size = torch.log1p(-out.abs().clamp_max_(1 - 2.0**-24))  # −1 itself is drawn once in 2^24
    return torch.copysign(size, out)


def _seeded_laplace_by_size(out: Tensor, generator: Any) -> Tensor:
    sign = out.new_empty(out.shape).bernoulli_(generator=generator).mul_(2).sub_(1)
    return out.exponential_(generator=generator).mul_(sign)


def _seeded_gaussian(out: Tensor, generator: Any) -> Tensor:
    return out.normal_(generator=generator)


LAPLACE_DRAWS = Draws(laplace, _seeded_laplace, _seeded_laplace_by_size)
GAUSSIAN_DRAWS = Draws(gaussian, _seeded_gaussian, _seeded_gaussian)
