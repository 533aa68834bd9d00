"""Scattering features: what the wavelets cover, what the features ignore, and that no image has a say in another's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import fft

from gossamer.errors import GossamerError
from gossamer.records import FeatureBounds, Table
from gossamer.streams.scattering import random_images, scattered
from gossamer.streams.stream import checked_bounds
from gossamer.streams.wavelets import FLOOR, log_maps, padded, wavelets, windows


def lines(count, side=28):
    """Random drawings as bytes."""
    return (random_images(count, 1, side) * 255).astype(np.uint8).reshape(count, -1)


def patches(count):
    return (random_images(count, 3, 32) * 255).astype(np.uint8).reshape(count, -1)


@pytest.mark.parametrize(("images", "sizes", "width"), [(lines, (1, 28, 4), 1297), (patches, (3, 32, 2), 973)])
def test_rows_have_norm_one_and_never_more(images, sizes, width):
    given = np.concatenate([images(70), np.zeros_like(images(1)), np.full_like(images(1), 255)])
    found = scattered(given, *sizes)
    norms = np.linalg.norm(found.astype(float), axis=1)
    assert found.shape == (72, width)
    assert found.dtype == np.float32
    assert norms == pytest.approx(1, abs=1e-5)
    assert (norms <= 1).all()
    checked_bounds(Table(found, np.zeros(72), None, width, bounds=FeatureBounds(math.sqrt(width), 1.0, 1.0)))


def test_the_wavelets_and_the_window_cover_the_plane_and_add_no_energy():
    """Littlewood–Paley: 0.3 ≤ |φ̂|² + ½ Σ |ψ̂(ω)|² + |ψ̂(−ω)|² ≤ 1 where |ω| ≤ π, and no wavelet sees a constant."""
    w = 2 * np.pi * fft.fftfreq(32)
    radius = np.hypot(w[:, None], w)
    every = np.concatenate([wavelets(32, j) for j in (0, 1)])
    mirrored = np.roll(every[:, ::-1, ::-1], (1, 1), axis=(1, 2))
    energy = np.exp(-((1.6 * radius) ** 2)) + 0.5 * (every**2 + mirrored**2).sum(axis=0)
    assert energy.max() <= 1 + 1e-12
    assert energy[radius <= np.pi].min() >= 0.3
    assert every[:, 0, 0] == pytest.approx(0, abs=1e-12)


def test_wavelets_are_turned_and_scaled_copies_of_one():
    fine, coarse = wavelets(64, 0), wavelets(64, 1)
    assert fine[4] == pytest.approx(fine[0].T, abs=1e-12)
    assert coarse[:, 3, 2] == pytest.approx(fine[:, 6, 4], abs=0.01)  # but for what the shifts by 2π add


def test_convolution_on_half_the_pixels_is_that_on_all():
    """Second-scale moduli from half of the frequencies against the plain convolution, in their mean over an image."""
    x = random_images(8, 1, 28)
    found = np.exp(log_maps(x, 1)) - FLOOR[1]
    size, pad = padded(28)
    spectrum = fft.fft2(np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), mode="symmetric"))
    window = windows(size, pad, 28, 1, 1)[0]
    plain = abs(fft.ifft2(spectrum * wavelets(size, 1))) @ window @ window
    assert found[:, 9:17, 0] == pytest.approx(plain, rel=0.05)


def test_a_shift_by_one_pixel_moves_features_much_less_than_pixels():
    images = lines(50)
    shifted = np.roll(images.reshape(-1, 28, 28), 1, axis=2).reshape(50, -1)

    def moved(a, b):  # against how far apart different images are
        return np.linalg.norm(a - b, axis=1).mean() / np.linalg.norm(a - np.roll(a, 1, axis=0), axis=1).mean()

    pixels = moved(images.astype(float), shifted.astype(float))
    features = moved(scattered(images, 1, 28, 2), scattered(shifted, 1, 28, 2))
    assert features < 0.6 * pixels


def test_an_image_has_the_same_features_in_any_company():
    images = lines(150)
    together = scattered(images, 1, 28, 4)
    assert scattered(images[100:103], 1, 28, 4) == pytest.approx(together[100:103], abs=1e-6)
    assert scattered(images[::-1], 1, 28, 4)[::-1] == pytest.approx(together, abs=1e-6)


@pytest.mark.parametrize(
    ("images", "sizes", "words"),
    [
        (np.zeros((2, 783), np.uint8), (1, 28, 4), "expected rows of 784 bytes"),
        (np.zeros((2, 784)), (1, 28, 4), "type float64"),
        (np.zeros(784, np.uint8), (1, 28, 4), "expected rows of 784 bytes"),
        (np.zeros((2, 2 * 784), np.uint8), (2, 28, 4), "channels=2"),
        (np.zeros((2, 729), np.uint8), (1, 27, 4), "even side"),
        (np.zeros((2, 784), np.uint8), (1, 28, 8), "pool=8"),
        (np.zeros((2, 784), np.uint8), (1, 28, 0), "pool=0"),
    ],
)
def test_wrong_sizes_are_refused(images, sizes, words):
    with pytest.raises(GossamerError, match=words):
        scattered(images, *sizes)
