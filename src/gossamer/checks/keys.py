"""What a learner's keys tell: the noise of its pairs, drawn again by whoever has them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gossamer.privacy import PrivateBoundary, Terms
from gossamer.privacy.pairs import CLAMP, stream_of
from gossamer.types import Array


class Keys:
    """All keys of a simulation, and the public numbers of what is drawn with them: τ, the agreed σ, the grid."""

    def __init__(self, boundary: PrivateBoundary, terms: Sequence[Terms]) -> None:
        shared = [each.shared for each in terms if each.shared is not None]
        assert len(shared) == len(terms)
        dealt: Any = boundary
        self.by_pair: Mapping[tuple[int, int], bytes] = dealt._pairs.keys
        self.edges = shared[0].edges  # who shares a key, as it is claimed
        self.pair, self._floor = shared[0].pair, shared[0].floor
        self.weights = np.array([[each.weight] for each in shared])  # of the learners' gradients
        self._terms = terms[0]

    def fade(self, t: int) -> float:
        """How large round t's noise is, in that of round 0."""
        return self._terms.scale(t) / self._terms.initial

    def grid(self, t: int) -> float:
        """2^−40 of the smaller of σ and τ in round t: everybody's weighted releases are whole numbers of it."""
        return min(self.pair, self._floor) * self.fade(t) * 2.0**-40

    @property
    def steps(self) -> int:
        """τ in steps of the grid, rounded up."""
        return math.ceil(self.pair / min(self.pair, self._floor) * 2.0**40)

    def reach(self, t: int) -> Array:
        """How far gradients may be away from 0, for every learner."""
        return np.asarray(CLAMP * self.grid(t) / self.weights)

    @property
    def incidence(self) -> Array:
        """(m, pairs): +1 for the end that adds a pair's noise, −1 for the end that takes it away."""
        found = np.zeros((len(self.weights), len(self.edges)))
        for at, (i, j) in enumerate(self.edges):
            found[i, at], found[j, at] = 1.0, -1.0
        return found

    def drawn(self, t: int, n: int) -> NDArray[np.int64]:
        """(pairs, n) of the noise of round t in steps; 0 of a pair that has no key."""
        found = np.zeros((len(self.edges), n), dtype=np.int64)
        for row, pair in zip(found, self.edges, strict=True):
            if pair in self.by_pair:
                stream_of(self.by_pair[pair], t).add_gaussian(row, self.steps)
        return found

    def in_gradients(self, t: int, n: int) -> Array:
        """(m, n): what pairs add to every learner's gradient in round t, which all of them together know."""
        return np.asarray(self.incidence @ self.drawn(t, n) * self.grid(t) / self.weights)
