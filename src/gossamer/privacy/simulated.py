"""Seeded noise: for simulation and tests only, and not private.

Two things keep it from being private: whoever knows the seed can subtract the noise, and floating-point Laplace samples
leave gaps that tell neighbouring inputs apart (Mironov, "On Significance of the Least Significant Bits for Differential
Privacy", CCS 2012). Records of runs with it say "not private" wherever a budget would be shown.
"""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from gossamer.arrays import NUMPY, kind_of
from gossamer.privacy.laws import LAPLACE, Law, law_named
from gossamer.privacy.releases import Releases
from gossamer.schedules import Schedule
from gossamer.types import Array

NOT_PRIVATE = "not private: seeded noise, for simulation only"


@dataclass(frozen=True)
class SimulatedNoise:
    """Noise of scale ν_{i,t} for every learner i; a function of (seed, channel, t), so that a stopped run can go on."""

    scale: Schedule
    seed: int
    law: Law = LAPLACE
    where: Literal["messages", "source"] = "messages"
    releases: Releases | None = None  # at the source: the rounds that use a gradient; None: all
    claim = NOT_PRIVATE

    def like(self, channel: str, t: int, value: Any) -> Any:
        """Noise for a value: an array's as below, a tensor's drawn where it is, by torch's own seeded generator."""
        if kind_of(value) is NUMPY:
            return self.noise(channel, t, value.shape)
        tensors = importlib.import_module("gossamer.privacy.tensors")
        seed = np.random.SeedSequence([self.seed, _number(channel), t]).generate_state(1, np.uint64)[0]
        return tensors.seeded(value, self.scale(t), self.law, int(seed >> np.uint64(1)))

    def noise(self, channel: str, t: int, shape: tuple[int, ...]) -> Array:
        key = np.array([self.seed, _number(channel)], dtype=np.uint64)
        rng = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, t]))
        drawn: Array = self.law.seeded(rng, shape) * self.scale(t)
        return drawn

    def __str__(self) -> str:
        return f"simulated {self.law} noise of scale {self.scale} on {self.where}, seed {self.seed}"


@cache
def _number(channel: str) -> int:
    return int.from_bytes(hashlib.blake2b(channel.encode(), digest_size=8).digest(), "little")


def simulated(
    scale: Schedule,
    seed: int = 0,
    law: Law | str = LAPLACE,
    where: Literal["messages", "source"] = "messages",
    releases: Releases | None = None,
) -> SimulatedNoise:
    """Seeded noise with the scales of a schedule, such as decay(1.0, [0.51, 0.52, 0.53]). Not private."""
    return SimulatedNoise(scale, seed, law if isinstance(law, Law) else law_named(law), where, releases)
