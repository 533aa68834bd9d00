"""The two sums of a journal's checksum, in one pass: see gossamer.peers.journal."""

from __future__ import annotations

from typing import Any

from numba import njit, uint64


@njit(cache=True, nogil=True)
def add_words(words: Any) -> tuple[Any, Any]:
    """Σ w_k and Σ k w_k over words of 64 bits, k from 1, modulo 2^64."""
    plain, weighted, place = uint64(0), uint64(0), uint64(0)
    for k in range(len(words)):
        place += uint64(1)
        plain += words[k]
        weighted += place * words[k]
    return plain, weighted
