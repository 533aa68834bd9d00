"""Vectors as they came over a link, whatever kind of numbers they have: looked at and added in one pass each."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True, nogil=True)
def set_scaled(total: Any, vector: Any, weight: Any) -> None:
    """The first term of a sum, as if it were added to zeros."""
    for k in range(len(vector)):
        total[k] = 0.0 + weight * vector[k]


@njit(cache=True, nogil=True)
def add_scaled(total: Any, vector: Any, weight: Any) -> None:
    for k in range(len(vector)):
        total[k] += weight * vector[k]


@njit(cache=True, nogil=True)
def all_within(vector: Any, bound: Any) -> bool:
    """Whether every number is nearer to 0 than `bound`, which NaN is not."""
    fine = True
    for k in range(len(vector)):
        fine &= abs(vector[k]) < bound
    return fine


@njit(cache=True, nogil=True)
def narrow(vector: Any, out: Any, most: float) -> None:
    """The numbers in the precision of `out`, cut off at ±most; NaN stays."""
    for k in range(len(vector)):
        x = vector[k]
        x = most if x > most else x
        x = -most if x < -most else x
        out[k] = x
