"""What an observer can know of noise that pairs share, from the equations alone: nothing here asks the accountant.

Learner i releases g_i + η_i + Σ_j ±v_ij, with its own noise, of deviation σ_i, and that of its pairs, of deviation τ.
Whoever has a learner's keys takes the noise of its pairs away. What is left of the others, x, has the covariance

    Σ = diag(σ_i²) + τ² L,       L the Laplacian of the pairs among those whose keys are not known

and the best test for a shift Δ e_i of x is the likelihood ratio, which grows with eᵢᵀ Σ⁻¹ x: μ² = Δ² (Σ⁻¹)_ii.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from gossamer.types import Array

Edges = Sequence[tuple[int, int]]

MOST_CHOICES = 2_000  # sets of keys that are tried one by one; where there are more, keys are taken greedily


def covariance(own: Array, edges: Edges, pair: float, known: Sequence[int] = ()) -> Array:
    """Σ of all releases without what these learners' keys tell, who have their own noise alone left."""
    shares = np.zeros((len(own), len(own)))
    one, other = np.array(edges).T
    shares[one, other] = shares[other, one] = pair**2
    shares[list(known)] = shares[:, list(known)] = 0.0
    return np.asarray(np.diag(np.asarray(own, dtype=float) ** 2 + shares.sum(axis=1)) - shares)


def direction(own: Array, edges: Edges, pair: float, i: int, known: Sequence[int]) -> Array:
    """Σ⁻¹ e_i: what to multiply releases with, to tell of learner i; 0 for those whose keys are known."""
    return np.linalg.solve(covariance(own, edges, pair, known), np.eye(len(own))[i])


def seen_with(own: Array, edges: Edges, pair: float, i: int, known: Sequence[int]) -> float:
    """√(σ_i² (Σ⁻¹)_ii): how much of a shift of learner i is seen, in its own deviations, with these keys."""
    return float(own[i] * math.sqrt(direction(own, edges, pair, i, known)[i]))


def worst_keys(own: Array, edges: Edges, pair: float, i: int, keys: int) -> tuple[int, ...]:
    """Whose keys tell most of learner i, of so many others."""
    others = [j for j in range(len(own)) if j != i]
    keys = min(keys, len(others))

    def seen(known: Sequence[int]) -> float:
        return seen_with(own, edges, pair, i, known)

    if math.comb(len(others), keys) <= MOST_CHOICES:
        return max(combinations(others, keys), key=seen)
    known: tuple[int, ...] = ()
    for _ in range(keys):
        known = max(((*known, j) for j in others if j not in known), key=seen)
    return known
