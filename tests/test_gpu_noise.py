"""The kernel against the equations: its words, its integers draw for draw, its law; on a GPU, and in the interpreter.

Triton reads TRITON_INTERPRET as it is imported, so what is interpreted runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from scipy import stats

from gossamer import GossamerError
from gossamer.privacy.laws import law_named

torch = pytest.importorskip("torch", reason="needs the extra `nn`")
triton = pytest.importorskip("triton", reason="comes with torch for CUDA")
import triton.language as tl  # noqa: E402

from gossamer.privacy import kernels, tensors  # noqa: E402

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
LAWS = [("laplace", "laplace"), ("gaussian", "norm")]
SEED = bytes(range(7, 47))


def test_all_of_this_in_the_interpreter():
    if INTERPRETED:
        pytest.skip("this is it")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", __file__],
        env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def device():
    if not INTERPRETED and not torch.cuda.is_available():
        pytest.skip("no GPU: see test_all_of_this_in_the_interpreter")
    return "cpu" if INTERPRETED else "cuda"


# The words


@triton.jit
def _blocks(seed, s12, s13, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    c, d = tl.load(s12 + at).to(tl.uint32, bitcast=True), tl.load(s13 + at).to(tl.uint32, bitcast=True)
    w0, w1, w2, w3, w4, w5, w6, w7 = kernels.chacha20(seed, c, d)
    for _ in tl.static_range(8):
        tl.store(out + at, w0.to(tl.int64, bitcast=True))
        at += BLOCK
        w0, w1, w2, w3, w4, w5, w6, w7 = w1, w2, w3, w4, w5, w6, w7, w0


def blocks(seed, s12, s13, device):
    """(lanes, 8) of words."""
    out = torch.zeros(8, len(s12), dtype=torch.int64, device=device)
    given = [torch.tensor(np.array(x, dtype="<u4").view("<i4"), device=device) for x in (s12, s13)]
    words = torch.tensor(np.frombuffer(seed, dtype="<i4").copy(), device=device)
    _blocks[(1,)](words, *given, out, BLOCK=len(s12))
    return out.cpu().numpy().view(np.uint64).T


def test_a_block_is_that_of_rfc_8439(device):
    """Section 2.3.2: counter 1, which is word 12, and a nonce of three words, 13 to 15."""
    seed = bytes(range(32)) + bytes.fromhex("0000004a00000000")
    ours = blocks(seed, [1, 1], [0x09000000, 0], device)[0].astype("<u8").tobytes()
    assert ours.hex() == (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


def test_blocks_are_those_of_another_chacha20(device):
    s12, s13 = [0, 1, 2**31, 65535], [0, 2**32 - 1, 2**31 - 1, 12345]
    ours = blocks(SEED, s12, s13, device)
    for k in range(4):
        np.testing.assert_array_equal(ours[k], stream(SEED, s13[k], s12[k])[:8])


def stream(seed, lane, at=0, count=256):
    """The words of a lane's blocks, by another ChaCha20."""
    nonce = np.array([at, lane], dtype="<u4").tobytes() + seed[32:]
    cipher = Cipher(algorithms.ChaCha20(seed[:32], nonce), mode=None)
    return np.frombuffer(cipher.encryptor().update(bytes(64 * count)), dtype="<u8")


# The integers, draw for draw


class Reader:
    """A lane of the equations: words in order, and the rest of a block thrown away after every variate."""

    def __init__(self, words):
        self.words, self.at = [int(w) for w in words], 0

    def next(self):
        self.at += 1
        return self.words[self.at - 1]  # an IndexError at the end

    def next_block(self):
        self.at = -(-self.at // 8) * 8

    def falls(self, u, v):
        """u > v for uniforms of 63 bits; further bits decide where these are equal."""
        while u == v:
            v, u = divmod(self.next(), 2**32)
        return u > v

    def exponential(self):
        whole = 0
        while True:
            first = self.next()
            length, u, v = 1, first >> 1, self.next() >> 1
            while self.falls(u, v):
                length, u, v = length + 1, v, self.next() >> 1
            if length % 2:
                return whole, first
            whole += 1

    def laplace(self):
        while True:
            whole, first = self.exponential()
            self.next_block()
            size = (whole << 40) + (first >> 24)
            if size or not first % 2:
                return -size if first % 2 else size

    def gaussian(self):
        while True:
            k = self.laplace()
            whole, first = self.exponential()
            self.next_block()
            if self.keeps(k, (whole << 63) + (first >> 1)):
                return k

    def keeps(self, k, e):
        gamma = (abs(k) - 2**40) ** 2  # over 2^81; e is over 2^63
        if e == gamma >> 18:
            e = (e << 18) + (self.next() >> 46)
            self.next_block()
            return e >= gamma
        return e > gamma >> 18


def expected(law, total, block, per, reader=Reader):
    """What the lanes draw, in the places where they put it."""
    out = np.zeros(-(-total // (block * per)) * block * per, dtype=np.int64).reshape(-1, per, block)
    for program, values in enumerate(out):
        for lane in range(block):
            words = reader(stream(SEED, program * block + lane))
            values[:, lane] = [getattr(words, law)() for _ in range(per)]
    return out.reshape(-1)[:total]


def drawn(law, total, device, **launch):
    zeros = torch.zeros(total, dtype=torch.float64, device=device)
    out, worst = kernels.noised(zeros, zeros[:1] + 2.0**-40, total, law_named(law), SEED, **launch)
    assert worst == 0
    steps = out.cpu().numpy() * 2.0**40
    assert (steps == np.rint(steps)).all(), "on the grid, exactly"
    return steps.astype(np.int64)


@pytest.mark.parametrize(("law", "_"), LAWS)
def test_integers_are_those_of_the_equations(device, law, _):
    ours = drawn(law, 200, device, block=64, per=2)
    np.testing.assert_array_equal(ours, expected(law, 200, 64, 2))


@triton.jit
def _fed(words, first_out, whole_out, ready_out, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    first = tl.zeros([BLOCK], tl.uint64)
    no = at < 0
    previous, whole, odd, tied, ready = first + kernels.OPEN, first, no, no, no
    for t in range(COUNT):
        word = tl.load(words + t * BLOCK + at).to(tl.uint64, bitcast=True)
        first, previous, whole, odd, tied, ready = kernels.compared(word, first, previous, whole, odd, tied, ready)
    tl.store(first_out + at, first.to(tl.int64, bitcast=True))
    tl.store(whole_out + at, whole.to(tl.int64, bitcast=True))
    tl.store(ready_out + at, ready.to(tl.int64))


def test_ties_are_decided_by_further_bits(device):
    """Words of so few values that every other comparison is a tie, and a second and third tie follow."""
    rng, lanes, count = np.random.default_rng(3), 1024, 24
    few = [0, 1, 2, 2**32, 2**32 + 1, 2**63, 2**63 + 2**31, 2**63 + 2**32]  # signed, those of 2^63 would come first
    words = rng.choice(np.array(few, dtype=np.uint64), (count, lanes)).view(np.int64)
    first, whole, ready = (torch.zeros(lanes, dtype=torch.int64, device=device) for _ in range(3))
    _fed[(1,)](torch.tensor(words, device=device), first, whole, ready, COUNT=count, BLOCK=lanes)
    complete = 0
    for k in range(lanes):
        try:
            variate = Reader(words.view(np.uint64)[:, k]).exponential()
        except IndexError:
            assert not ready[k]
            continue
        complete += 1
        assert ready[k]
        assert (int(whole[k]), int(first[k]) % 2**64) == variate
    assert complete > lanes / 2


@triton.jit
def _decided(whole, first, k, word, above, same, further, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    e, u = tl.load(whole + at).to(tl.uint64, bitcast=True), tl.load(first + at).to(tl.uint64, bitcast=True)
    a, s, f = kernels.exceeds(e, u, tl.load(k + at), tl.load(word + at).to(tl.uint64, bitcast=True))
    tl.store(above + at, a.to(tl.int64))
    tl.store(same + at, s.to(tl.int64))
    tl.store(further + at, f.to(tl.int64))


def test_a_gaussian_is_kept_by_81_bits(device):
    rng = np.random.default_rng(4)
    k = rng.choice([0, 1, 2**40 - 1, 2**40, 2**40 + 1, 2**42 + 12345, 2**46 + 987654321, 30 * 2**40 + 17], 256)
    k = np.where(rng.random(256) < 0.5, -k, k)
    gamma = [(abs(int(v)) - 2**40) ** 2 for v in k]
    near = rng.integers(-1, 2, (2, 256)).tolist()
    e = [max((g >> 18) + d, 0) for g, d in zip(gamma, near[0], strict=True)]
    words = [min(max(g % 2**18 + d, 0), 2**18 - 1) << 46 for g, d in zip(gamma, near[1], strict=True)]
    given = [[v >> 63 for v in e], [2 * v % 2**64 + 1 for v in e], [int(v) % 2**64 for v in k], words]
    sent = [torch.tensor(np.array(g, dtype=np.uint64).view(np.int64), device=device) for g in given]
    above, same, further = (torch.zeros(256, dtype=torch.int64, device=device) for _ in range(3))
    _decided[(1,)](*sent, above, same, further, BLOCK=256)
    for i in range(256):
        assert bool(above[i]) == (e[i] > gamma[i] >> 18)
        assert bool(same[i]) == (e[i] == gamma[i] >> 18)
        assert bool(further[i]) == ((words[i] >> 46) >= gamma[i] % 2**18)
    assert 20 < int(same.sum()) < 236


@triton.jit
def _often_undecided(whole, first, k, word):
    far = tl.abs(k) > 2 * kernels.ONE
    return (whole > 0) & ~far, whole == 0, (word & 1) == 1


class OftenUndecided(Reader):
    def keeps(self, k, e):
        if e >> 63 == 0:
            further = self.next() % 2 == 1
            self.next_block()
            return further
        return abs(k) <= 2 * 2**40


def test_a_lane_that_is_undecided_sits_one_block_out(device, monkeypatch):
    """What has a chance of 2^−63, made common: most are undecided, and the next block's first word decides."""
    if not INTERPRETED:
        pytest.skip("what is compiled cannot be replaced")
    monkeypatch.setattr(kernels, "exceeds", _often_undecided)
    ours = drawn("gaussian", 64, device, block=64, per=1)
    np.testing.assert_array_equal(ours, expected("gaussian", 64, 64, 1, OftenUndecided))


def test_a_lane_that_uses_up_its_blocks_is_not_cut_short(device):
    with pytest.raises(GossamerError, match=r"not done after 2 blocks .* below 2\^-220: .* noise on another"):
        drawn("gaussian", 128, device, limit=2)


def test_no_more_lanes_than_there_are_numbers_for():
    assert kernels.programs_for(2**36, kernels.BLOCK, kernels.PER) * kernels.BLOCK == 2**32
    with pytest.raises(
        GossamerError, match=f"{2**36 + 1} values to noise at once, expected at most {2**36}: noise them in parts"
    ):
        kernels.programs_for(2**36 + 1, kernels.BLOCK, kernels.PER)


# The law


@pytest.mark.parametrize(("law", "name"), LAWS)
def test_the_law(device, law, name):
    k = drawn(law, 4096, device, block=4096, per=1) if INTERPRETED else drawn(law, 4_000_000, device)
    x = k / 2.0**40
    assert stats.kstest(x, name).pvalue > 1e-5
    assert stats.chisquare(np.bincount(k & 15, minlength=16)).pvalue > 1e-5
    assert stats.binomtest(int((k < 0).sum()), len(k)).pvalue > 1e-5
    assert stats.ks_2samp(x[x > 0], -x[x < 0]).pvalue > 1e-5, "sign and size are independent"
    assert len(np.unique(k)) > len(k) - 50, "no draw twice, but for chance meetings"
    edges = stats.laplace.ppf(np.arange(1, 32) / 32) if law == "laplace" else stats.norm.ppf(np.arange(1, 32) / 32)
    assert stats.chisquare(np.bincount(np.searchsorted(edges, x), minlength=32)).pvalue > 1e-5


# What is released


def released(values, scale, law="laplace"):
    return kernels.released(values, scale, law_named(law))


def noised(values, scales, columns, seed=SEED):
    return kernels.noised(values, scales * 2.0**-40, columns, law_named("laplace"), seed)[0]


def test_values_are_rounded_to_the_grid_as_torch_rounds(device):
    """Halves to even; and the values that are largest still have every step."""
    halves = torch.arange(-8, 9, dtype=torch.float64) / 2 * 2.0**-40
    values = torch.cat([halves, torch.tensor([0.1, -0.3, 4095.9, -4095.9, 1e-300], dtype=torch.float64)]).to(device)
    one = torch.ones(1, dtype=torch.float64, device=device)
    noise = noised(torch.zeros_like(values), one, len(values)) * 2.0**40
    steps = noised(values, one, len(values)) * 2.0**40
    assert torch.equal(steps - noise, (values * 2.0**40).round())


def test_rows_have_scales_of_their_own(device):
    zeros = torch.zeros(3, 50, dtype=torch.float64, device=device)
    one = torch.ones(3, dtype=torch.float64, device=device)
    scales = torch.tensor([2.0**-10, 1.0, 8.0], dtype=torch.float64, device=device)
    assert torch.equal(noised(zeros, scales, 50), noised(zeros, one, 50) * scales[:, None])
    spread = released(zeros + 1e-3, scales[:, None]).sub(1e-3).abs().mean(dim=1) / scales
    assert bool(((spread > 0.4) & (spread < 2)).all())


@pytest.mark.parametrize(
    ("values", "scale", "shape"),
    [
        ((), (), ()),
        ((3,), (2, 1), (2, 3)),
        ((2, 3), (1, 3), (2, 3)),
        ((2, 1, 3), (4, 1), (2, 4, 3)),
        ((0, 4), (), (0, 4)),
        ((0, 4), (0, 1), (0, 4)),
    ],
)
def test_scales_that_broadcast(device, values, scale, shape):
    scales = 2.0 ** -torch.arange(torch.Size(scale).numel()).double().reshape(scale)
    given = torch.zeros(values, device=device, dtype=torch.float64)
    rows, columns = kernels._by_row(scales, given.expand(shape))
    by_index = [float(rows[i // columns]) for i in range(given.expand(shape).numel())]
    assert by_index == scales.expand(shape).reshape(-1).tolist()
    out = released(given, scales)
    assert out.shape == shape
    assert len(out.unique()) == out.numel()


@pytest.mark.parametrize("dtype", kernels.KINDS)
def test_a_tensor_stays_what_it_is(device, dtype):
    values = torch.full((8, 4), 0.7, dtype=dtype, device=device, requires_grad=True)
    out = released(values.T, 0.5)  # not contiguous
    assert (out.dtype, out.shape, out.device, out.requires_grad) == (dtype, (4, 8), values.device, False)
    half = torch.full((1,), 0.5, dtype=torch.float64, device=device)
    given = values.detach()
    narrow, wide = noised(given, half, 32), noised(given.double(), half, 32)
    if INTERPRETED and dtype == torch.bfloat16:  # which the interpreter cuts off instead of rounding it
        assert torch.allclose(narrow.double(), wide, rtol=2.0**-7)
    else:
        assert torch.equal(narrow, wide.to(dtype))


def test_two_calls_share_no_draw(device):
    zeros = torch.zeros(64, dtype=torch.float64, device=device)
    assert not np.intersect1d(released(zeros, 1.0).cpu(), released(zeros, 1.0).cpu()).size


@pytest.mark.parametrize(
    ("value", "scale", "says"),
    [
        (5000.0, 1.0, "a value is 5e\\+03 noise scales large, expected below 4096: .* use a smaller step"),
        (-4096.0, 1.0, "a value is 4.1e\\+03 noise scales large"),
        (float("nan"), 1.0, "not finite: .* use smaller steps"),
        (-float("inf"), 1.0, "not finite"),
        (1.0, 0.0, "a noise scale of 0: expected a finite number above 1e-280"),
        (1.0, float("inf"), "a noise scale of inf"),
    ],
)
def test_what_has_no_grid_is_refused_in_the_same_words_and_changes_nothing(device, value, scale, says):
    values = torch.tensor([0.0, value, 1.0], device=device)
    before = values.clone()
    with pytest.raises(GossamerError, match=says) as ours:
        released(values, scale)
    with pytest.raises(GossamerError) as theirs:
        tensors.released(values.cpu(), scale, law_named("laplace"))
    assert str(ours.value) == str(theirs.value)
    assert torch.equal(values.nan_to_num(), before.nan_to_num())


def test_tensors_on_a_gpu_take_the_kernel(device, monkeypatch):
    if INTERPRETED:
        pytest.skip("needs a GPU")
    assert tensors._kernels(torch.zeros(1, device=device).device) is kernels
    monkeypatch.setattr(tensors, "Words", None)  # which the tensor operations could not do without
    assert tensors.released(torch.zeros(5, device=device), 1.0, law_named("gaussian")).shape == (5,)


def test_where_triton_cannot_build_the_tensor_operations_stay(monkeypatch):
    def fails(*_):
        raise RuntimeError("Failed to find C compiler")

    monkeypatch.setattr(kernels, "released", fails)
    with pytest.warns(
        UserWarning, match=r"cannot build for cpu \(Failed to find C compiler\): exact noise takes longer"
    ):
        assert tensors._kernels.__wrapped__("cpu") is None
