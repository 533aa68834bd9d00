"""A secrets graph in numbers: its Laplacian, how well it is connected, and what its pairs' noise is in law.

Nothing of m × m numbers is made for more than SQUARE_UP_TO learners.

**A circle** in which learner i has the partners i ± s for some steps s, and perhaps the one opposite, has the
eigenvalues

    λ_k = Σ_s 4 sin²(π s k/m) + 2 (k odd, where there is one opposite),       k = 0 … m − 1,

with the Fourier vectors. All terms are at least 0, and each is worked out to a few units of its last place, from an
angle that is reduced in whole numbers. So is λ₂, the least but for λ_0 = 0, however small it is.

**A graph of one's own** with more learners has no such form. Iterations would find an eigenvalue, and not prove that
none is smaller, while privacy needs a bound. λ₂ ≥ 0 is one: what is seen of a shift is then bounded by stars alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from gossamer.types import Array

Edges = tuple[tuple[int, int], ...]
SQUARE_UP_TO = 4096  # learners for whom m × m numbers may be made


def laplacian_of(edges: Edges, learners: int) -> Array:
    """Degrees on the diagonal, −1 for every edge."""
    laplacian = np.zeros((learners, learners))
    for i, j in edges:
        laplacian[[i, j], [i, j]] += 1
        laplacian[[i, j], [j, i]] -= 1
    return laplacian


def steps_of(degree: int, learners: int) -> list[int]:
    """How far ahead partners are in a circle: the nearest, and where the degree is odd, the one opposite as well."""
    return [*range(1, degree // 2 + 1), *([learners // 2] if degree % 2 else [])]


@lru_cache(maxsize=64)
def connectivity_of_circle(degree: int, learners: int) -> float:
    """λ₂ of the circle."""
    k = np.arange(1, learners // 2 + 1)  # λ_{m−k} = λ_k
    values = np.where(k % 2, 2.0, 0.0) if degree % 2 else np.zeros(len(k))
    for step in range(1, degree // 2 + 1):
        turned = step * k % learners
        values += 4 * np.sin(np.pi * np.minimum(turned, learners - turned) / learners) ** 2
    return float(values.min())


@lru_cache(maxsize=16)
def connectivity_of(edges: Edges, learners: int) -> float:
    """A lower bound on λ₂: what is found, less the most that rounding moves an eigenvalue, m 2⁻⁵² ‖L‖."""
    if learners > SQUARE_UP_TO:
        return 0.0
    values = np.linalg.eigvalsh(laplacian_of(edges, learners))
    return max(0.0, float(values[1] - learners * np.finfo(float).eps * values[-1]))


@lru_cache(maxsize=16)
def root_of(edges: Edges, learners: int) -> Any:
    """A with A Aᵀ = L: what independent noise of deviation τ becomes the noise of pairs with, in law.

    Of few learners it is L^½, dense; of many it has a column for every pair, and is sparse.
    """
    if learners > SQUARE_UP_TO:
        return _incidence(edges, learners)
    values, vectors = np.linalg.eigh(laplacian_of(edges, learners))
    return np.asarray((vectors * np.sqrt(values.clip(0.0))) @ vectors.T)


def _incidence(edges: Edges, learners: int) -> scipy.sparse.csr_array:
    """+1 for who adds a pair's noise and −1 for who takes it away."""
    ends = np.array(edges, dtype=np.int64)
    pairs = np.arange(len(ends))
    signs = np.repeat([1.0, -1.0], len(ends))
    places = ends.T.ravel(), np.concatenate([pairs, pairs])
    return scipy.sparse.csr_array(scipy.sparse.coo_array((signs, places), shape=(learners, len(ends))))


def partners_of(edges: Sequence[tuple[int, int]], i: int) -> list[int]:
    """Everybody that learner i shares a secret with."""
    return sorted({a + b - i for a, b in edges if i in (a, b)})
