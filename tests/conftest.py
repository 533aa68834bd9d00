"""Shared by the tests: networks to draw from, and a privacy object whose noise the test knows."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from gossamer import Network

settings.register_profile("gossamer", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("gossamer")


class KnownNoise:
    """Noise drawn beforehand: noise[channel][t]."""

    def __init__(self, steps: int, m: int, n: int, seed: int = 0, scale: float = 0.3) -> None:
        rng = np.random.default_rng(seed)
        self.drawn = {channel: scale * rng.laplace(size=(steps, m, n)) for channel in ("s", "theta")}
        self.asked: list[tuple[str, int]] = []

    def noise(self, channel: str, t: int, shape: tuple[int, ...]) -> np.ndarray:
        self.asked.append((channel, t))
        assert self.drawn[channel][t].shape == shape
        return self.drawn[channel][t]


@st.composite
def laplacians(draw, m: int, by: str):
    """A strongly connected digraph in Laplacian form: a ring in random order, random chords, random weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    order = rng.permutation(m)
    off = rng.uniform(0.05, 1, (m, m)) * (rng.random((m, m)) < 0.4)
    off[np.roll(order, -1), order] = rng.uniform(0.05, 1, m)
    np.fill_diagonal(off, 0)
    axis = 1 if by == "row" else 0
    off *= rng.uniform(0.2, 0.95) / off.sum(axis=axis).max()
    return off - np.diag(off.sum(axis=axis))


@st.composite
def networks(draw, most: int = 7):
    """R and C drawn apart, so that no test leans on C = Rᵀ."""
    m = draw(st.integers(2, most))
    return Network(draw(laplacians(m, "row")), draw(laplacians(m, "column")))
