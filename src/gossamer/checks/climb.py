"""An adversary that climbs: from the worst records and points that we can think of, to worse ones.

**Where to begin.** For a loss with weights w(aᵀθ, b), a record (a, b) and its replacement (a', b) differ most where
both weights are as large as they get and a' = −a. One coordinate of θ, the lever, is pushed so far that both margins
are large (a and a' share a small part of that coordinate), while the others stay at 0, where the other records' weights
move fastest. Then random moves of everything, learner by learner, each kept where it costs that learner more.

At the source the others' weights do not matter, so the lever is pulled in every round, hard, and the shared part is
tiny: the two gradients are opposite and as long as they get in all releases that remember the record.

Of standardised records all numbers are the lever's opposite, as large as they get: so are their moments, as far apart
as two can be. What the learners agreed on, behind θ, is tried as well: at first nothing, with which T is the identity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gossamer.checks.worlds import BEYOND, FEATURES, Candidate, Case, Worlds, replace_where
from gossamer.types import Array, Integers

SHARE = 0.03  # of a record's norm, that lies in the lever
STEADY_SHARE, STEADY_PULL = 1e-4, 5.5  # at the source: likewise, and how hard the lever is pulled, in powers of ten
ARRIVALS = 12  # rounds, about, that are tried where not all are
CLEARLY = 1.1  # times what is claimed: a loss that needs no climbing any more to refute it


class Worst(NamedTuple):
    """The worst that was found for each learner."""

    candidate: Candidate
    k: Integers  # (m,) the round whose record is replaced
    losses: Array  # (m,)


def worst_found(
    case: Case, *, tries: int = 12, climbs: int = 120, seed: int = 0, claims: Array | float = math.inf
) -> Worst:
    """Records, points and the round of the replaced record on which each learner's messages differ most.

    The search ends early where it has clearly refuted one of the `claims`.
    """
    rng = np.random.default_rng(seed)
    worlds = Worlds(case)
    m = case.learners
    worst = Worst(levered(case, rng), np.zeros(m, dtype=np.int64), np.full(m, -1.0))
    for k in _arrivals(case):
        for attempt in range(tries):
            steady = case.mechanism.where == "source" and attempt % 2 == 1
            given = levered(case, rng, k, steady) if attempt % 4 else _random(case, rng)
            worst = _better(worlds, worst, given, np.full(m, k))
            if _refutes(worst, claims):
                return worst
    for step in range(climbs):
        worst = _better(worlds, worst, _moved(worst.candidate, 0.5 * 0.98**step, rng, case.classes), worst.k)
        if _refutes(worst, claims):
            return worst
    return worst


def _refutes(worst: Worst, claims: Array | float) -> bool:
    return bool((worst.losses > CLEARLY * np.asarray(claims)).any())


def _arrivals(case: Case) -> Iterable[int]:
    """Rounds in which the replaced record may arrive; with a history the first is dearest."""
    if case.gradient == "latest":
        return range(case.rounds)  # which is dearest differs from learner to learner
    if case.mechanism.where == "messages":
        return [0] * 4 if case.model.remember is None else range(case.rounds)
    released = case.released()  # a record that is new then is looked at as well: it may slip out though it is cheap
    return [0, 0, *(int(t) for t in released[:: max(1, len(released) // ARRIVALS)])]


def _better(worlds: Worlds, worst: Worst, given: Candidate, k: Integers) -> Worst:
    losses = worlds.replay(given, k).losses
    more = losses > worst.losses
    candidate = Candidate(*replace_where(more, worst.candidate, given))
    return Worst(candidate, np.where(more, k, worst.k), np.maximum(losses, worst.losses))


def levered(case: Case, rng: np.random.Generator, k: int = 0, steady: bool = False) -> Candidate:
    """Records along the first coordinate, replaced by their opposite, with the lever pulled: often, or throughout."""
    m, T, N, outputs = case.learners, case.rounds, case.per_round, case.model.outputs
    along, share, lever = np.zeros(FEATURES), STEADY_SHARE if steady else SHARE, case.lever
    along[0], along[lever] = 1 - share, share
    if case.standardised:
        along[np.arange(FEATURES) != lever] = BEYOND
    against = along * np.where(np.arange(FEATURES) == lever, 1, -1)
    records = np.zeros((m, T, N, FEATURES))
    records[..., 0] = rng.choice([-1.0, 1.0], size=(m, T, N)) * (1 - SHARE)
    records[..., 2] = rng.choice([0.0, SHARE], size=(m, 1, 1))
    label = rng.integers(0, case.classes, size=m)
    records[:, :, 0] = np.where(rng.random((m, T, 1)) < 0.5, along, records[:, :, 0])
    first = slice(None) if case.setting.per_round else slice(0, 1)  # what is replaced of round k
    records[:, k, first] = along
    labels = rng.integers(0, case.classes, size=(m, T, N)).astype(float)
    labels[:, :, first] = label[:, None, None]
    power = STEADY_PULL if steady else rng.uniform(0, 3.5, size=(m, 1))
    pull = 10.0**power * rng.choice([-1.0, 1.0], size=(m, 1))
    targets = np.zeros((m, T, FEATURES, outputs))
    spread = rng.choice([-1.0, 1.0], size=(m, 1, outputs)) if outputs > 1 else 1.0
    pulled = np.ones((m, T)) if steady else rng.choice([1.0, 1.0, 0.0], size=(m, T))
    targets[:, :, lever] = (pull * pulled)[..., None] * spread
    messages = rng.normal(size=(m, T, case.size)) * rng.choice([0.0, 1.0], size=(m, 1, 1))
    points = np.zeros((m, T, case.size))
    points[..., : FEATURES * outputs] = targets.reshape(m, T, -1)
    standard = case.model.standardise
    other = 1 - label if standard is not None and standard.label else label
    return Candidate(records, labels, np.tile(against, (m, 1)), other.astype(float), points, messages)


def _random(case: Case, rng: np.random.Generator) -> Candidate:
    m, T, N = case.learners, case.rounds, case.per_round
    records = 3 * rng.normal(size=(m, T, N, FEATURES))
    return Candidate(
        records,
        rng.integers(0, case.classes, size=(m, T, N)).astype(float),
        -records[:, 0, 0] + rng.normal(size=(m, FEATURES)),
        rng.integers(0, case.classes, size=m).astype(float),
        rng.normal(size=(m, T, case.size)) * 10.0 ** rng.uniform(-1, 2, size=(m, 1, 1)),
        rng.normal(size=(m, T, case.size)),
    )


def _moved(given: Candidate, size: float, rng: np.random.Generator, classes: int) -> Candidate:
    """Some of it moved by a little; labels now and then."""

    def shaken(part: Array, scale: float) -> Array:
        some = rng.random(part.shape) < 0.3
        return part + scale * some * rng.normal(size=part.shape)

    def relabelled(labels: Array) -> Array:
        return np.where(rng.random(labels.shape) < 0.03, rng.integers(0, classes, size=labels.shape), labels)

    farther = 1 + size * rng.normal(size=given.targets.shape) * (rng.random(given.targets.shape) < 0.3)
    return Candidate(
        shaken(given.records, size),
        relabelled(given.labels),
        shaken(given.other, size),
        relabelled(given.other_label),
        shaken(given.targets * farther, size),
        shaken(given.messages, size),
    )
