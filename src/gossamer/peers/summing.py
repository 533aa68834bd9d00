"""The two sums of a journal's checksum: see gossamer.peers.journal. Long pieces in one pass, by a compiled function."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gossamer.lazy import FEW, import_once, worth_compiling

PLACES = np.arange(1, FEW + 1, dtype=np.uint64)


def add_words(words: NDArray[np.uint64]) -> tuple[int, int]:
    """Σ w_k and Σ k w_k over words of 64 bits, k from 1, modulo 2^64."""
    if worth_compiling(len(words)):
        plain, weighted = import_once("gossamer.peers.compiled").add_words(words)
    else:
        plain, weighted = np.add.reduce(words), words @ PLACES[: len(words)]
    return int(plain), int(weighted)
