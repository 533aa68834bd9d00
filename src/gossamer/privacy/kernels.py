"""The exact noise of gossamer.privacy.tensors as one Triton kernel: same law, same grid, same refusals, same charge.

With the grid g = scale/2^40, what comes out is (round(value/g) + k) · g, in float64 and then in the tensor's kind,
with the k of gossamer.privacy.exact.

**Lanes.** A lane draws for up to PER values, one after the other. It takes one block of ChaCha20 at a time, eight
words of 64 bits, and feeds them to von Neumann's comparison; when an Exp(1) variate is complete, the rest of the
block is thrown away, which keeps what is decided outside the comparison out of its inner loop. A lane that has drawn
goes on to its next value at once, so that few lanes wait for the slowest of their program.

**One word, one uniform.** The upper 63 bits of a word are a uniform u, and runs compare these. The lowest bit of the
word which opened a run takes no part in that: it is a coin of its own, and becomes the sign. Two uniforms that are
equal are extended by the halves of further words until these differ. A run forgets how its last uniform was extended,
which matters only if the next one ties with it too: 2^−126, within the charge of gossamer.privacy.exact.

**No block is used twice.** A block is ChaCha20 of (key, nonce, its state words 12 and 13), with key and nonce from
the operating system for every launch. Word 13 is the number of the lane, one of at most 2^32 (checked), and word 12
counts the lane's own blocks, below LIMIT = 2^16. Neither wraps, so two blocks differ in their lane or in their count.

**A lane that uses up its blocks is seen.** Its program leaves the loop and raises a flag, and the call is refused: no
draw is cut short. The chance: begun afresh, an exponential takes e²/(e−1) < 4.4 words on average, so less than 1.55
blocks, and a Gaussian, with two for each of 1.32 tries, less than 4.1. From whatever state, the exponential under way
takes less than e + 1.1 words more, and 4.4 if its run is even, so less than 2.1 blocks; with a second one and a draw
begun afresh that is less than 8 in all. By Markov's inequality, 16 more blocks end a draw with a chance of one half
at least, whatever came before. A lane that fails has a draw of more than LIMIT/PER = 2^12 blocks: below PER · 2^−256,
and below 2^−220 for all 2^32 lanes.

**What is charged** is what gossamer.privacy.exact charges, n · 2^−39 a message: value/g and its rounding are the same
float64 operations, |value| < 2^12 · scale is checked before anything is handed out, and the sum is exact below 2^53,
which an integer part of 2^12 or more could leave: e^−4096.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from gossamer.errors import GossamerError
from gossamer.privacy.exact import BITS, check_on_grid
from gossamer.privacy.laws import Law
from gossamer.privacy.tensors import checked_scale

KINDS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)  # what the kernel can read and write
BLOCK = 64  # lanes in a program
WARPS = 2  # a thread for every lane: what ChaCha20 works on stays in registers
PER = 16  # values that a lane draws for
LIMIT = 1 << 16  # blocks that a lane may use
LANES = 1 << 32

Tensor = Any

# Within a kernel. A run not yet begun has a previous uniform of 2^63: every word falls below it, and opens the run.
OPEN = tl.constexpr(1 << 63)
WHOLE, REST = tl.constexpr(BITS), tl.constexpr(64 - BITS)
ONE, STEP = tl.constexpr(1 << BITS), tl.constexpr(2.0**-BITS)
ROUNDS = tl.constexpr(2.0**52)  # from here on, float64 has whole numbers only
NOT_FINITE = tl.constexpr((1 << 63) - 1)  # as the bits of a float64: a NaN, above infinity and every number


@triton.jit
def _rotated(x, by: tl.constexpr):
    return (x << by) | (x >> (32 - by))


@triton.jit
def _quarter(a, b, c, d):
    a += b
    d = _rotated(d ^ a, 16)
    c += d
    b = _rotated(b ^ c, 12)
    a += b
    d = _rotated(d ^ a, 8)
    c += d
    b = _rotated(b ^ c, 7)
    return a, b, c, d


@triton.jit
def _seeded(seed, at: tl.constexpr, like):
    return tl.load(seed + at).to(tl.uint32, bitcast=True) + tl.zeros_like(like)


@triton.jit
def chacha20(seed, s12, s13):
    """A block of ChaCha20 for each lane: `seed` points to ten words of key and nonce, s12 and s13 are uint32."""
    s4, s5, s6, s7 = _seeded(seed, 0, s13), _seeded(seed, 1, s13), _seeded(seed, 2, s13), _seeded(seed, 3, s13)
    s8, s9, s10, s11 = _seeded(seed, 4, s13), _seeded(seed, 5, s13), _seeded(seed, 6, s13), _seeded(seed, 7, s13)
    s14, s15 = _seeded(seed, 8, s13), _seeded(seed, 9, s13)
    s0, s1 = tl.full(s13.shape, 0x61707865, tl.uint32), tl.full(s13.shape, 0x3320646E, tl.uint32)
    s2, s3 = tl.full(s13.shape, 0x79622D32, tl.uint32), tl.full(s13.shape, 0x6B206574, tl.uint32)
    x0, x1, x2, x3, x4, x5, x6, x7 = s0, s1, s2, s3, s4, s5, s6, s7
    x8, x9, x10, x11, x12, x13, x14, x15 = s8, s9, s10, s11, s12, s13, s14, s15
    for _ in range(10):
        x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
    return (
        _word(x0 + s0, x1 + s1), _word(x2 + s2, x3 + s3), _word(x4 + s4, x5 + s5), _word(x6 + s6, x7 + s7),
        _word(x8 + s8, x9 + s9), _word(x10 + s10, x11 + s11),
        _word(x12 + s12, x13 + s13), _word(x14 + s14, x15 + s15),
    )  # fmt: skip


@triton.jit
def _word(low, high):
    return (high.to(tl.uint64) << 32) | low.to(tl.uint64)


@triton.jit
def compared(word, first, previous, whole, odd, tied, ready):
    """Von Neumann's comparison, one word further: how each lane stands with its Exp(1) variate.

    `first` is the word which opened the run, `previous` its last uniform, `odd` the parity of its length, `whole` the
    number of even runs before it; `tied`: the last two uniforms are equal so far; `ready`: nothing moves any more.
    """
    one = tl.where(tied, word >> 32, word >> 1)
    other = tl.where(tied, word & 0xFFFFFFFF, previous)
    falls = (one < other) & ~ready
    ends = (one > other) & ~ready
    first = tl.where(falls & (previous == OPEN), word, first)
    previous = tl.where(falls & ~tied, one, previous)  # of two that tied, both have these bits
    tied = (one == other) & ~ready
    again = ends & ~odd
    whole += again.to(tl.uint64)
    previous = tl.where(again, OPEN, previous)
    ready = ready | (ends & odd)
    odd = odd ^ falls
    return first, previous, whole, odd, tied, ready


@triton.jit
def exceeds(whole, first, k, word):
    """Whether an Exp(1) variate is above (|k|−2^40)²/2^81 by its first 63 bits; equal in these; above by `word`.

    The last is for where they are equal: `word` has the variate's further bits, of which the square has 18.
    """
    apart = tl.abs(tl.abs(k) - ONE).to(tl.uint64)
    low, high = apart * apart, tl.umulhi(apart, apart)
    against, u = ((high & 0x1FFFF) << 46) | (low >> 18), first >> 1
    same = whole == (high >> 17)
    above = (whole > (high >> 17)) | (same & (u > against))
    return above, same & (u == against), (word >> 46) >= (low & 0x3FFFF)


@triton.jit
def _rounded(x):
    """The nearest whole number, the even one of two, as torch rounds; |x| < 2^52."""
    size = (tl.abs(x) + ROUNDS) - ROUNDS
    return tl.where(x < 0, -size, size)


@triton.jit
def _stored(values, grids, out, index, columns, k, emit):
    """Write the values at `index` with their noise k; |value/g| as the bits of a float64, which order as it does."""
    grid = tl.load(grids + index // columns, mask=emit, other=STEP)
    value = tl.load(values + index, mask=emit, other=0.0).to(tl.float64)
    steps = value / grid
    noisy = (_rounded(steps) + k.to(tl.float64)) * grid
    if out.dtype.element_ty != tl.float64:  # the narrower kinds by way of float32, as in torch
        noisy = noisy.to(tl.float32)
    tl.store(out + index, noisy.to(out.dtype.element_ty), mask=emit)
    return tl.where(tl.abs(value) < float("inf"), tl.abs(steps).to(tl.int64, bitcast=True), NOT_FINITE)


@triton.jit(do_not_specialize=["total", "columns"])
def _kernel(
    values, grids, out, seed, report, total, columns,
    GAUSSIAN: tl.constexpr, BLOCK: tl.constexpr, PER: tl.constexpr, LIMIT: tl.constexpr,
):  # fmt: skip
    """Noise on `total` values, with the grid of row i // columns; `report` gets the largest |value/g| and a flag."""
    program = tl.program_id(0)
    lane = program.to(tl.uint32) * BLOCK + tl.arange(0, BLOCK).to(tl.uint32)
    start = program.to(tl.int64) * (BLOCK * PER)
    end = tl.minimum(start + BLOCK * PER, total)
    index = start + tl.arange(0, BLOCK)
    no = index < 0
    first = tl.zeros([BLOCK], tl.uint64)
    previous, whole, odd, tied, ready = first + OPEN, first, no, no, no
    k, second, undecided = tl.zeros([BLOCK], tl.int64), no, no
    worst = tl.zeros([BLOCK], tl.int64)
    count = tl.zeros([BLOCK], tl.uint32)
    busy = tl.max((index < end).to(tl.int32), 0)
    while busy > 0:
        w0, w1, w2, w3, w4, w5, w6, w7 = chacha20(seed, count, lane)
        count += 1
        for _ in tl.static_range(8):
            first, previous, whole, odd, tied, ready = compared(w0, first, previous, whole, odd, tied, ready)
            w0, w1, w2, w3, w4, w5, w6, w7 = w1, w2, w3, w4, w5, w6, w7, w0

        size = ((whole << WHOLE) | (first >> REST)).to(tl.int64)
        negative = (first & 1) == 1
        drawn = ready & ((size != 0) | ~negative)  # −0 is drawn again
        renew = ready
        if GAUSSIAN:
            above, same, further = exceeds(whole, first, k, w0)
            keep = ready & second & tl.where(undecided, further, above)
            # 63 bits alike, 2^−63: the lane sits the next block out, and its first word decides
            undecided = ready & second & same & ~undecided
            renew = ready & ~undecided
            drawn = drawn & ~second
            k = tl.where(drawn, tl.where(negative, -size, size), k)
            second = tl.where(renew, drawn, second)
        else:
            k = tl.where(negative, -size, size)
            keep = drawn
        previous = tl.where(renew, OPEN, previous)
        whole = tl.where(renew, 0, whole)
        odd, ready = odd & ~renew, ready & ~renew

        emit = keep & (index < end)
        worst = tl.maximum(worst, _stored(values, grids, out, index, columns, k, emit))
        index = tl.where(emit, index + BLOCK, index)
        busy = tl.max(((index < end) & (count < LIMIT)).to(tl.int32), 0)
    tl.atomic_max(report, tl.max(worst, 0))
    tl.atomic_max(report + 1, tl.max((index < end).to(tl.int64), 0))


def released(values: Tensor, scale: Any, law: Law) -> Tensor:
    """`values` plus exact noise on the grid scale/2^40, as a tensor of the same kind in the same place."""
    size = checked_scale(scale, values.device)
    given = values.detach().expand(torch.broadcast_shapes(values.shape, size.shape)).contiguous()
    rows, columns = _by_row(size, given)
    out, worst = noised(given, rows * 2.0**-BITS, columns, law, os.urandom(40))
    check_on_grid(worst)
    return out


def _by_row(size: Tensor, given: Tensor) -> tuple[Tensor, int]:
    """(scales, columns) such that value i has scale number i // columns: one for a row, where a row shares one."""
    if size.numel() == 1:
        return size.reshape(1), max(given.numel(), 1)
    if size.shape[-1] == 1:
        return size.expand(*given.shape[:-1], 1).reshape(-1), given.shape[-1]
    return size.expand(given.shape).reshape(-1), 1


def programs_for(total: int, block: int, per: int) -> int:
    """How many programs of `block` lanes draw for so many values: no more lanes than word 13 has numbers."""
    programs = -(-total // (block * per))
    if programs * block > LANES:
        raise GossamerError(f"{total} values to noise at once, expected at most {LANES * per}: noise them in parts.")
    return programs


def noised(
    given: Tensor, grids: Tensor, columns: int, law: Law, seed: bytes,
    *, block: int = BLOCK, warps: int = WARPS, per: int = PER, limit: int = LIMIT,
) -> tuple[Tensor, float]:  # fmt: skip
    """(the values with their noise, the largest |value|/scale, or NaN where one is not finite): look at that first.

    `seed` is key and nonce, 40 bytes which no other call may ever get.
    """
    out, total = torch.empty_like(given), given.numel()
    programs = programs_for(total, block, per)
    if programs == 0:
        return out, 0.0
    words = torch.from_numpy(np.frombuffer(seed, dtype="<i4").copy()).to(given.device)
    report = torch.zeros(2, dtype=torch.int64, device=given.device)
    with torch.cuda.device_of(given):  # Triton launches on the current device
        _kernel[(programs,)](
            given, grids, out, words, report, total, columns,
            GAUSSIAN=bool(law.triton_branch), BLOCK=block, PER=per, LIMIT=limit, num_warps=warps,
        )  # fmt: skip
    bits, unfinished = report.tolist()
    if unfinished:
        raise GossamerError(
            f"a draw of noise was not done after {limit} blocks of random words, expected with a chance below "
            "2^-220: this device computes wrongly; noise on another, or on the CPU."
        )
    return out, float(np.int64(bits).view(np.float64)) * 2.0**-BITS
