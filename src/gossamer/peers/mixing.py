"""total += weight · vector in one pass, whatever kind of numbers the vector has as it came over a link."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True, nogil=True)
def add_scaled(total: Any, vector: Any, weight: Any) -> None:
    for k in range(len(vector)):
        total[k] += weight * vector[k]
