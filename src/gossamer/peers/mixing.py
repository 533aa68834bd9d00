"""Vectors as they came over a link, whatever kind of numbers they have: looked at and added.

Long ones in one pass each, by compiled functions; short ones by NumPy, with the same bits: every number is treated by
itself, in float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gossamer.lazy import import_once, worth_compiling
from gossamer.types import Array


def set_scaled(total: Array, vector: Array, weight: float) -> None:
    """The first term of a sum, as if it were added to zeros."""
    if worth_compiling(len(vector)):
        _compiled().set_scaled(total, vector, weight)
    else:
        np.add(0.0, weight * vector.astype(np.float64), out=total)


def add_scaled(total: Array, vector: Array, weight: float) -> None:
    if worth_compiling(len(vector)):
        _compiled().add_scaled(total, vector, weight)
    else:
        total += weight * vector.astype(np.float64)


def add_terms(total: Array, terms: Iterable[tuple[Sequence[Array], float]]) -> None:
    """total ← Σ weight · vector, in the order of the terms; each vector in the pieces in which it came."""
    for k, (pieces, weight) in enumerate(terms):
        at, add = 0, add_scaled if k else set_scaled
        for piece in pieces:
            add(total[at : at + len(piece)], piece, weight)
            at += len(piece)


def all_within(vector: Array, bound: Any) -> bool:
    """Whether every number is nearer to 0 than `bound`, which NaN is not."""
    if worth_compiling(len(vector)):
        return bool(_compiled().all_within(vector, bound))
    return bool((np.abs(vector) < bound).all())


def narrow(vector: Array, out: NDArray[np.float32], most: float) -> None:
    """The numbers in the precision of `out`, cut off at ±most; NaN stays."""
    if worth_compiling(len(vector)):
        _compiled().narrow(vector, out, most)
    else:
        out[:] = np.clip(vector, -most, most)


def _compiled() -> Any:
    return import_once("gossamer.peers.compiled")
