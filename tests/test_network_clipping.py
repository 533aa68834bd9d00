"""Clipping networks' gradients: never above c, in any precision, for any number of records."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gossamer as gs

torch = pytest.importorskip("torch", reason="needs the extra `nn`")
from torch import nn  # noqa: E402
from torch.nn.functional import binary_cross_entropy_with_logits  # noqa: E402

from gossamer.models.torch import NeuralNetwork  # noqa: E402
from test_neural import OneOutput, cnn, stream_of_pictures  # noqa: E402


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_what_is_clipped_keeps_below_c_over_millions_of_coordinates(norm, dtype):
    """In float32 sums over so many numbers are off by a hundredth. The sign of fsum is the exact sum's."""
    from gossamer.models.torch import clip_rows

    clip = (gs.clip_l1 if norm == 1 else gs.clip_l2)(1.0)
    rows = (torch.randn(2, 300_000) * 7).to(dtype)
    for kept in clip_rows(rows.to(torch.float64), clip):
        assert kept.dtype == torch.float64
        assert exceeds(kept.numpy(), norm, 1.0) <= 0
        assert torch.linalg.vector_norm(kept, norm) > 1 - 1e-9
    small = torch.full((1, 10), 0.01, dtype=torch.float64)
    assert torch.equal(clip_rows(small.clone(), clip), small), "what is below c stays as it is"


def exceeds(vector, norm, c):
    """‖vector‖ − c, or of the squares in L2, rounded once."""
    if norm == 1:
        return math.fsum([*np.abs(vector), -c])
    halves = (vector * (2**27 + 1)) - (vector * (2**27 + 1) - vector)  # Dekker: x² = high² + 2 high low + low², exactly
    low = vector - halves
    return math.fsum([*halves**2, *(2 * halves * low), *low**2, -(c * c)])


def test_a_gradient_that_is_not_finite_is_clipped_to_nothing():
    from gossamer.models.torch import clip_rows

    rows = torch.tensor([[1.0, float("inf")], [3.0, 4.0], [float("nan"), 0.0], [1e200, 1e200]], dtype=torch.float64)
    kept = clip_rows(rows, gs.clip_l2(1.0))
    assert kept[[0, 2, 3]].tolist() == [[0.0, 0.0]] * 3
    assert float(kept[1].norm()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("per", ["record", "round"])
def test_the_largest_round_in_the_narrowest_numbers_is_moved_by_no_more_than_is_claimed(dtype, norm, per):
    """c (1 − (2 + N) eps) was below 0 for 8000 records in float16, and the rounds 6.8 times as far apart as claimed."""
    from gossamer.models.bounds import mean_error

    count, n, c = 8000, 4, 1.0
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1, count, n)), np.arange(count)[None] % 2.0
    Y = y.copy()
    X[0, 0], Y[0, 0] = 200.0, 1 - y[0, 0]
    clip = (gs.clip_l1 if norm == 1 else gs.clip_l2)(c, per)
    model = NeuralNetwork(
        lambda: OneOutput(n), shape=(n,), loss=binary_cross_entropy_with_logits, labels=dtype, dtype=dtype, clip=clip
    )
    found = []
    for labels in (y, Y):
        stream = gs.streams.from_arrays(X, labels, per_round=count)
        memory = model.memory(stream.table, "latest", stream.room(1))
        memory.observe(stream.arrivals(0))
        found.append(memory.gradient(model.start(1, 0))[0])
        assert found[-1].dtype == torch.float64, "not narrowed before it is noised"
    moved = float(torch.linalg.vector_norm(found[0] - found[1], norm))
    parts = count if per == "record" else 1
    assert moved <= 2 * c / parts + 2 * mean_error(c, parts)
    assert per == "round" or moved > 1.99 * c / parts, "a record that counts in full"


@pytest.mark.parametrize("keep", ["latest", "history"])
def test_one_records_overflow_is_nobody_elses(keep):
    """In float16 an image of 60 000 gives an infinite gradient: it becomes 0, the others stay as they are."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(1, 70, 4)), np.arange(70)[None] % 2.0
    wild = X.copy()
    wild[0, 17] = 60_000.0

    def gradient(features):
        model = NeuralNetwork(
            lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), shape=(4,), dtype=torch.float16,
            clip=gs.clip_l2(0.1),
        )  # fmt: skip
        stream = gs.streams.from_arrays(features, y, per_round=70)
        memory = model.memory(stream.table, keep, stream.room(1))
        memory.observe(stream.arrivals(0))
        return memory.gradient(model.start(1, 0) * 100)[0]

    calm, moved = gradient(X), gradient(wild)
    assert torch.isfinite(moved).all()
    assert 0 < float((calm - moved).norm()) <= 2 * 0.1 / 70 * (1 + 1e-12)


def test_remembered_rounds_are_summed_in_float64_each_within_c():
    """Ten rounds, each clipped to c, have a mean within c and not in the model's narrow numbers."""
    model = cnn(clip=gs.clip_l1(1e-3, per="round"), dtype=torch.bfloat16)
    stream = stream_of_pictures(10, 2)
    memory = model.memory(stream.table, "history", stream.room(1))
    for t in range(10):
        memory.observe(stream.arrivals(t))
    found = memory.gradient(model.start(10, 0))
    assert found.dtype == torch.float64
    for row in found.numpy():
        assert exceeds(row, 1, 1e-3 * (1 + 15 * 2.0**-53)) <= 0


def test_a_ridge_is_no_part_of_the_gradient():
    stream = stream_of_pictures(2, 5)
    for clip in (None, gs.clip_l2(0.3), gs.clip_l2(0.3, per="round")):
        found = []
        for l2 in (0.0, 0.7):
            model = cnn(clip=clip, l2=l2)
            memory = model.memory(stream.table, "latest", stream.room(1))
            memory.observe(stream.arrivals(0))
            found.append(memory.gradient(model.start(10, 0)))
        assert torch.equal(*found)
