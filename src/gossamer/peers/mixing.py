"""Vectors as they came over a link, whatever kind of numbers they have: looked at and added in one pass each."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True, nogil=True)
def add_scaled(total: Any, vector: Any, weight: Any) -> None:
    for k in range(len(vector)):
        total[k] += weight * vector[k]


@njit(cache=True, nogil=True)
def all_within(vector: Any, bound: float) -> bool:
    """Whether every number is nearer to 0 than `bound`, which NaN is not."""
    fine = True
    for k in range(len(vector)):
        fine &= abs(vector[k]) < bound
    return fine
