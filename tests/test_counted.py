"""Seeded noise is counted: some learners' rows are those of the whole draw, whoever draws them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

import gossamer as gs
from gossamer.privacy import Unproved, simulated
from gossamer.privacy.counted import uniforms
from gossamer.privacy.laws import LAPLACE, LAWS

KEY = np.array([7, 2**64 - 5], dtype=np.uint64)


@pytest.mark.parametrize("n", [1, 3, 4, 17])
@pytest.mark.parametrize("rows", [[0], [5], [2, 3, 4], [6, 0, 3], [1, 5], [], [0, 1, 2, 3, 4, 5, 6]])
def test_any_rows_are_those_of_numpys_generator(rows: list[int], n: int) -> None:
    """The reference draws everything in one go, and what comes first before it."""
    for first in (0, 7 * n):
        rng = np.random.Generator(np.random.Philox(key=KEY, counter=[0, 0, 0, 11]))
        whole = rng.random(first + 7 * n)[first:].reshape(7, n)
        some = np.array(rows, dtype=np.int64)
        np.testing.assert_array_equal(uniforms(KEY, 11, some, (7, n), first), whole[some])
    assert uniforms(KEY, 11, None, (7, n)).shape == (7, n)


@pytest.mark.parametrize("law", LAWS.values(), ids=str)
def test_quantiles_are_those_of_the_law(law) -> None:
    u = np.array([2.0**-53, 1e-9, 0.1, 0.4999, 0.5, 0.7, 1 - 1e-9, 1 - 2.0**-53])
    expected = getattr(scipy.stats, law.in_scipy).ppf(u)
    np.testing.assert_allclose(law.quantile(u), expected, rtol=1e-9, atol=1e-12)
    assert np.isfinite(law.quantile(np.array([0.0, 1 - 2.0**-53]))).all()


def test_laplace_noise_is_numpys_to_the_last_digits() -> None:
    drawn = LAPLACE.seeded(np.random.default_rng(3), (1000,))
    np.testing.assert_allclose(drawn, np.random.default_rng(3).laplace(size=1000), rtol=1e-11)


@pytest.mark.parametrize("options", [{}, {"law": "gaussian"}, {"where": "source", "factor": (1.0, 0.5, 0.25)}], ids=str)
def test_a_few_learners_draw_what_all_draw(options) -> None:
    noise, some = simulated(gs.decay(1.0, [0.6, 0.7, 0.8, 0.9]), 5, **options), np.array([3, 0])
    for t in range(4):
        whole = noise.noise("gradient", t, (4, 6))
        np.testing.assert_array_equal(noise.noise("gradient", t, (4, 6), some), whole[some])


def test_a_boundary_of_some_learners_adds_their_rows() -> None:
    class Own:
        """A user's noise, which knows nothing of rows."""

        def noise(self, channel: str, t: int, shape: tuple[int, ...]):
            return np.arange(float(np.prod(shape))).reshape(shape)

    some = np.array([2, 0])
    for privacy in (Own(), simulated(gs.decay(1.0, 0.6), 1)):
        whole = Unproved(privacy).release("s", 3, np.zeros((3, 2)))
        np.testing.assert_array_equal(Unproved(privacy, some, 3).release("s", 3, np.zeros((2, 2))), whole[some])
