"""Seeded noise: for simulation and tests only, and not private.

Two things keep it from being private: whoever knows the seed can subtract the noise, and floating-point Laplace samples
leave gaps that tell neighbouring inputs apart (Mironov, "On Significance of the Least Significant Bits for Differential
Privacy", CCS 2012). Records of runs with it say "not private" wherever a budget would be shown.
"""

from __future__ import annotations

import hashlib
import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import scipy

from gossamer.arrays import NUMPY, kind_of
from gossamer.privacy.counted import uniforms
from gossamer.privacy.laws import LAPLACE, Law, law_named
from gossamer.privacy.releases import Releases
from gossamer.privacy.secret_graphs import Edges, root_of
from gossamer.schedules import Decay, Schedule
from gossamer.types import Array, Integers

if TYPE_CHECKING:
    from gossamer.privacy.accountant import Terms

_PAST: dict[Any, list[Any]] = {}  # correlated noise of the run that is under way
NOT_PRIVATE = "not private: seeded noise, for simulation only"


class PairLaw(NamedTuple):
    """Noise of pairs in law: on gradients that weigh alike it cancels in the sum over learners."""

    edges: Edges
    scale: Decay  # τ
    weights: tuple[float, ...]  # of the learners' gradients, which come after the noise

    @property
    def mixing(self) -> Any:
        """What independent noise, a row for each of its columns, becomes the noise of pairs with; sparse of many."""
        root, weights = root_of(self.edges, len(self.weights)), np.array(self.weights)
        return root / weights[:, None] if isinstance(root, np.ndarray) else scipy.sparse.diags_array(1 / weights) @ root


@dataclass(frozen=True)
class SimulatedNoise:
    """Noise of scale ν_{i,t} for every learner i; a function of (seed, channel, t, i).

    So a run that stopped can go on, and whoever plays some of the learners draws what one process draws for all.
    """

    scale: Schedule
    seed: int
    law: Law = LAPLACE
    where: Literal["messages", "source"] = "messages"
    releases: Releases | None = None  # at the source: the rounds that use a gradient; None: all
    factor: tuple[float, ...] = (1.0,)  # at the source: how noise is correlated over releases
    split: tuple[tuple[str, float], ...] = ()  # on messages: a channel's scale is this many times the learner's
    pairs: PairLaw | None = None  # at the source: noise that cancels
    claim = NOT_PRIVATE

    def like(self, channel: str, t: int, value: Any) -> Any:
        """Noise for a value: an array's as below, a tensor's drawn where it is, by torch's own seeded generator."""
        if kind_of(value) is NUMPY:
            return self.noise(channel, t, value.shape)
        tensors = importlib.import_module("gossamer.privacy.tensors")
        seed = np.random.SeedSequence([self.seed, _number(channel), t]).generate_state(1, np.uint64)[0]
        scale = dict(self.split).get(channel, 1.0) * self.scale(t)
        drawn = tensors.seeded(value, scale, self.law, int(seed >> np.uint64(1)))
        if self.pairs is None:
            return drawn
        kind, other = kind_of(value), int(seed >> np.uint64(2)) | 1 << 62
        mixing = self.pairs.mixing
        alike = value.new_empty((mixing.shape[1], *value.shape[1:]))
        return drawn + kind.make_matrix(mixing) @ tensors.seeded(alike, self.pairs.scale(t), self.law, other)

    def noise(self, channel: str, t: int, shape: tuple[int, ...], rows: Integers | None = None) -> Array:
        """(m, n) of all learners, which `shape` is; or of these learners alone, the same numbers."""
        if len(self.factor) > 1:
            return self._correlated(channel, t, shape, rows)
        return self._drawn(channel, t, shape, rows)

    def _correlated(self, channel: str, t: int, shape: tuple[int, ...], rows: Integers | None) -> Array:
        """x_j = z_j − Σ_{i≥1} f_i x_{j−i} over releases: from the one before, or from the first where a run goes on."""
        releases = list((self.releases or Releases()).before(t + 1))
        kept = self, channel, shape, None if rows is None else rows.tobytes()
        past = _PAST.get(kept)
        if past is None or len(past) + 1 != len(releases):
            past = []
        for release in releases[len(past) :]:
            value = self._drawn(channel, int(release), shape, rows)
            for f, old in zip(self.factor[1:], reversed(past), strict=False):
                value = value - f * old
            past.append(value)
        _PAST.clear()  # a study has one run at a time
        _PAST[kept] = past
        newest: Array = past[-1]
        return newest

    def _drawn(self, channel: str, t: int, shape: tuple[int, ...], rows: Integers | None) -> Array:
        key, (m, n) = np.array([self.seed, _number(channel)], dtype=np.uint64), (shape[0], math.prod(shape[1:]))
        drawn: Array = self.law.quantile(uniforms(key, t, rows, (m, n))) * _of(self.scale(t), rows)
        if self.pairs is not None:
            mixing = self.pairs.mixing
            both = self.law.quantile(uniforms(key, t, None, (mixing.shape[1], n), first=m * n))  # for both of a pair
            drawn += _of(mixing, rows) @ both * self.pairs.scale(t)
        times = dict(self.split).get(channel, 1.0)
        return (drawn if times == 1 else times * drawn).reshape(-1, *shape[1:])

    def __str__(self) -> str:
        return f"simulated {self.law} noise of scale {self.scale} on {self.where}, seed {self.seed}"


def _of(values: Any, rows: Integers | None) -> Any:
    """The rows of a column with one for each learner; what is the same for all stays as it is."""
    return values if rows is None or np.ndim(values) == 0 or values.shape[0] == 1 else values[rows]


@cache
def _number(channel: str) -> int:
    return int.from_bytes(hashlib.blake2b(channel.encode(), digest_size=8).digest(), "little")


def simulated(
    scale: Schedule,
    seed: int = 0,
    law: Law | str = LAPLACE,
    where: Literal["messages", "source"] = "messages",
    releases: Releases | None = None,
    factor: tuple[float, ...] = (1.0,),
    split: tuple[tuple[str, float], ...] = (),
    pairs: PairLaw | None = None,
) -> SimulatedNoise:
    """Seeded noise with the scales of a schedule, such as decay(1.0, [0.51, 0.52, 0.53]). Not private."""
    known = law if isinstance(law, Law) else law_named(law)
    return SimulatedNoise(scale, seed, known, where, releases, factor, split, pairs)


def pair_law(terms: Sequence[Terms]) -> PairLaw | None:
    """The law of the pairs' noise in exact noise with these terms, one for each learner of the run."""
    shared = [each.shared for each in terms if each.shared is not None]
    if not shared:
        return None
    scale = Decay(shared[0].pair, terms[0].exponent, terms[0].ratio)
    return PairLaw(shared[0].edges, scale, tuple(each.weight for each in shared))
