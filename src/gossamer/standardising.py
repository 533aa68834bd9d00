"""When learners look at their records' moments, and how much of what they see is noise: see models/standard.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gossamer.models.standard import Looks, StandardMemory, no_looks, usual_looks
from gossamer.networks import Network
from gossamer.privacy import PrivateBoundary, Releases, SimulatedNoise
from gossamer.setting import quiet_rounds
from gossamer.types import Array, Integers

DEVIATIONS = 2.0  # of the noise in a second moment: a variance below that is taken to be that


def looks_of(
    memory: StandardMemory,
    boundary: Any,
    privacy: Any,
    steps: int,
    network: Network,
    weights: Array | None = None,
    ids: Integers | None = None,
) -> Looks:
    """As the releases say, where there are some, with the noise of the learners' own; otherwise by rule.

    `ids` are the learners whose memory it is; None: all of the run.
    """
    learners = len(memory.filled)
    if not memory.about.numbers:
        return no_looks(learners)
    if isinstance(boundary, PrivateBoundary):
        terms = boundary.ledgers[0].terms
        scales = np.array([ledger.terms.scale(int(terms.releases.first[0])) for ledger in boundary.ledgers])
        return _looks(memory, terms.releases, math.sqrt(terms.law.variance) * scales, network, weights)
    if isinstance(privacy, SimulatedNoise) and privacy.releases is not None and privacy.releases.head:
        first = int(privacy.releases.first[0])
        scales = np.broadcast_to(np.ravel(privacy.scale(first)), network.m) * math.sqrt(privacy.law.variance)
        scales = scales if ids is None else scales[ids]
        return _looks(memory, privacy.releases, scales, network, weights)
    return usual_looks(steps, quiet_rounds(network), learners)


def _looks(
    memory: StandardMemory, releases: Releases, deviations: Array, network: Network, weights: Array | None
) -> Looks:
    """A learner knows its own noise; it takes the others' to be alike, and the mean of all to be √m times less."""
    own = deviations * (1.0 if weights is None else weights)
    averaged = own / (memory.unit * math.sqrt(releases.head * network.m))
    first = releases.first
    return Looks(int(first[0]), int(first[-1]), releases.after, DEVIATIONS * averaged)
