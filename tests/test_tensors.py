"""Exact noise on tensors: the stream against another ChaCha20, the arithmetic against whole numbers, the law."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from scipy import stats

from gossamer import GossamerError
from gossamer.privacy import exact_gaussian, exact_laplace, law_named

torch = pytest.importorskip("torch", reason="needs the extra `nn`")
from gossamer.privacy import tensors  # noqa: E402

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def tensor_laplace(values, scale):
    """In tensor operations, as where a GPU has no Triton."""
    return tensors.released(values, scale, law_named("laplace"))


def tensor_gaussian(values, scale):
    return tensors.released(values, scale, law_named("gaussian"))


LAPLACE = [exact_laplace, tensor_laplace]
LAWS = [*((draw, "laplace") for draw in LAPLACE), (exact_gaussian, "norm"), (tensor_gaussian, "norm")]


@pytest.mark.parametrize("device", DEVICES)
def test_words_are_those_of_chacha20(device):
    key, nonce = bytes(range(32)), b"\x07\x06\x05\x04\x03\x02\x01\x00"
    words = tensors.Words(device, key, nonce)
    ours = torch.cat([words.take(3), words.take(5000), words.take(1)]).cpu().numpy()
    theirs = Cipher(algorithms.ChaCha20(key, bytes(8) + nonce), mode=None).encryptor().update(bytes(8 * 5004))
    np.testing.assert_array_equal(ours, np.frombuffer(theirs, dtype="<i8"))


def test_a_square_over_2_81_is_exact():
    apart = [0, 1, 2**24 - 1, 2**24, 2**40, 2**40 + 12345, 2**46 + 987654321, 2**47 - 1]
    whole, u, last = tensors._squared_over_2_81(torch.tensor(apart))
    for k, a in enumerate(apart):
        bits = (int(whole[k]) << 81) | ((int(u[k]) + 2**63) << 17) | int(last[k])
        assert bits == a * a


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("draw", "law"), LAWS)
def test_the_law_the_grid_and_the_kind_of_tensor(device, draw, law):
    for dtype in (torch.float64, torch.float32):
        values = torch.full((4, 50_000), 0.25, dtype=dtype, device=device, requires_grad=True)
        scale = torch.tensor([[0.5], [1.0], [2.0], [4.0]], device=device)
        out = draw(values, scale)
        assert (out.dtype, out.shape, out.device) == (dtype, values.shape, values.device)
        noise = ((out.double() - 0.25) / scale.double()).cpu().numpy()
        assert stats.kstest(noise.ravel(), law).pvalue > 1e-6
        assert abs(np.corrcoef(noise[0], noise[1])[0, 1]) < 0.03
    steps = draw(torch.zeros(1000, dtype=torch.float64, device=device), 1.0).cpu().numpy() * 2.0**40
    assert (steps == np.rint(steps)).all()


@pytest.mark.parametrize("draw", [draw for draw, _ in LAWS])
def test_low_bits_are_fair(draw):
    """The lowest bits of the integer noise are as good as uniform: no float has been there."""
    steps = (draw(torch.zeros(200_000, dtype=torch.float64), 1.0).numpy() * 2.0**40).astype(np.int64)
    counts = np.bincount(steps & 63, minlength=64)
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("draw", LAPLACE)
def test_scales_that_broadcast_give_every_value_its_own_draw(draw):
    out = draw(torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64), torch.tensor([[1.0], [3.0]]))
    assert out.shape == (2, 3)
    assert not torch.allclose((3 * out[0] - out[1]) / 2, torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64), atol=1e-3)


@pytest.mark.parametrize("draw", LAPLACE)
def test_two_calls_share_no_draw(draw):
    one, other = (draw(torch.zeros(20_000, dtype=torch.float64), 1.0).numpy() for _ in range(2))
    assert len(np.intersect1d(one, other)) <= 2


@pytest.mark.parametrize("draw", LAPLACE)
@pytest.mark.parametrize(
    ("value", "scale", "says"),
    [(5000.0, 1.0, "noise scales large"), (float("nan"), 1.0, "not finite"), (0.0, 0.0, "noise scale of 0")],
)
def test_what_has_no_grid_is_refused(draw, value, scale, says):
    with pytest.raises(GossamerError, match=says):
        draw(torch.tensor([value]), scale)
