"""What this room compiles, in a module of its own: numba is loaded with the first long vector.

The arguments are where the functions are called: gossamer.peers.mixing and .summing.
"""

from __future__ import annotations

from typing import Any

from numba import uint64

from gossamer.compiling import compiled


@compiled(nogil=True)
def set_scaled(total: Any, vector: Any, weight: Any) -> None:
    for k in range(len(vector)):
        total[k] = 0.0 + weight * vector[k]


@compiled(nogil=True)
def add_scaled(total: Any, vector: Any, weight: Any) -> None:
    for k in range(len(vector)):
        total[k] += weight * vector[k]


@compiled(nogil=True)
def all_within(vector: Any, bound: Any) -> bool:
    fine = True
    for k in range(len(vector)):
        fine &= abs(vector[k]) < bound
    return fine


@compiled(nogil=True)
def narrow(vector: Any, out: Any, most: float) -> None:
    for k in range(len(vector)):
        x = vector[k]
        x = most if x > most else x
        x = -most if x < -most else x
        out[k] = x


@compiled(nogil=True)
def add_words(words: Any) -> tuple[Any, Any]:
    plain, weighted, place = uint64(0), uint64(0), uint64(0)
    for k in range(len(words)):
        place += uint64(1)
        plain += words[k]
        weighted += place * words[k]
    return plain, weighted
