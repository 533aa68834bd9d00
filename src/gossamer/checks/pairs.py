"""The observer against whom pair secrets are claimed: it sees every release, and has the keys of q learners.

It takes away what these keys tell and computes the likelihood ratio of two neighbouring worlds, in which one learner's
gradient differs, with the covariance that is left (gossamer.checks.covariance). It chooses whose keys it has so that
they tell most. All that it sees comes through the boundary that a run has. Looked at are

    the best test      μ, the distance of its means in the two worlds over its deviation: not above what is claimed
    one key more       must break the claim: an observer who is not stronger with it would not see a colluder too many
    sums               over learners, without own noise exactly those of the gradients; with it, of own noise alone
    every two          covariance −τ² of learners that share a key, 0 of others, σ² + τ² for each partner of one
    rounds             no noise of one is seen in another

Rounds and coordinates are repetitions of one experiment: a few rounds of many coordinates say as much as many runs.
Own noise, once all keys are known, is looked at in gossamer.checks.noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from gossamer.checks import ALARM, Finding, within
from gossamer.checks.covariance import covariance, direction, seen_with, worst_keys
from gossamer.checks.keys import Keys
from gossamer.checks.noise import SourceReleases, independence
from gossamer.checks.worlds import Case
from gossamer.privacy.pairs import OwnPairs
from gossamer.types import Array

ROUNDS = 5
COORDINATES = 20_000
MOST_DRAWS = 2_000_000  # of pairs in one round, where there are many of them
CLAIMED = 10.0  # μ of the shifts that are tried, by what is claimed: the mean is then known as well as the deviation
SURELY = 1.02  # of the claim, at the least that chance leaves of it, is what one key more must tell to be looked for
MANY = 100  # coordinates for sums that must be exact


class Watched(NamedTuple):
    """What came through two boundaries: in the second, every learner's gradient differs in some coordinates."""

    noise: Array  # (rounds, m, coordinates) of weighted gradients, in round 0's units
    drawn: list[Array]  # by round, (pairs, coordinates): what keys tell, likewise
    shifted: Array  # (rounds, m, coordinates) of the other world: noise and shift
    drawn_there: list[Array]


def pair_findings(case: Case) -> Iterator[Finding]:
    """Everything about the noise that pairs share; the learner, or the two, that come out worst in each check."""
    boundary, rounds = case.boundary(), [int(t) for t in case.released(200)[:ROUNDS]]
    keys = Keys(boundary, case.terms)
    gradients = np.random.default_rng(0).integers(-(2**45), 2**45, size=(case.learners, MANY))
    dealt = _dealt(boundary, keys, rounds[0], gradients)
    left = int(np.abs(dealt.sum(axis=0) - gradients.sum(axis=0)).max())
    yield within("steps of the grid that pairs leave in the sum over learners", left, 0)
    watched = _watch(case, keys, rounds)
    expected = covariance(case.own, keys.edges, keys.pair)
    apart = np.linalg.inv(np.linalg.cholesky(expected))  # makes noise that is no longer correlated over learners
    flat = (apart @ watched.noise).reshape(len(rounds), -1)
    yield independence("rounds that pairs share noise in", flat, [f"round {t}" for t in rounds])
    yield _deviation_of_sum(watched.noise, case.own)
    yield _covariances(watched.noise, expected, keys.edges, keys.pair)
    yield from _claims(case, keys, watched)
    drawn = np.array(list(_own_draws(keys, rounds[0], gradients)))
    differs = int(np.abs(drawn - dealt).max())
    yield within("steps by which a learner's own draw differs from what is dealt to it", differs, 0)


# -- what is seen ------------------------------------------------------------------------------------------------------


def _watch(case: Case, keys: Keys, rounds: Sequence[int]) -> Watched:
    n = max(MANY, min(COORDINATES, MOST_DRAWS // len(keys.edges)))
    sizes = 3 * np.random.default_rng(0).normal(size=(case.learners, n))
    still, around, drawn = _released(case, rounds, sizes, 0.0)
    moved, _, drawn_there = _released(case, rounds, sizes, _mine(case.learners, n))
    return Watched(still - around, drawn, moved - around, drawn_there)


def _mine(m: int, n: int) -> Array:
    """(m, n) of ones and zeros: which coordinates are shifted for which learner, about n/m for each."""
    return np.asarray(np.arange(n) % m == np.arange(m)[:, None], dtype=float)


def _released(
    case: Case, rounds: Sequence[int], sizes: Array, shifts: Array | float
) -> tuple[Array, Array, list[Array]]:
    """What a fresh boundary releases of gradients of these sizes and shifts, in noise scales and by what is claimed.

    Also what the releases are noise around, and what the keys tell of it; all are weighted, and in round 0's units.
    """
    boundary = case.boundary()
    boundary.stops[:] = 10**9  # the noise is looked at, not the budget
    releases, keys, factor = SourceReleases(boundary, case), Keys(boundary, case.terms), case.terms[0].factor
    released, around, drawn, moved = [], [], [], list[Array | float]()
    for t in rounds:
        scales = np.array([[terms.scale(t)] for terms in case.terms])
        unit = np.array([CLAIMED / terms.visible(np.array([float(t)])) for terms in case.terms])
        before = sum((f * each for f, each in zip(factor[1:], reversed(moved), strict=False)), 0.0)
        moved.append(unit * shifts - before)  # so that the release, Σ f g, moves by unit · shifts
        noisy = releases.release("gradient", t, scales * sizes + moved[-1])
        to_start = keys.weights / keys.fade(t)
        released.append(noisy * to_start)
        around.append((releases.meant(t, noisy) - unit * shifts) * to_start)
        drawn.append(np.asarray(keys.drawn(t, sizes.shape[1]) * (keys.grid(t) / keys.fade(t)), dtype=float))
    return np.array(released), np.array(around), drawn


# -- sums and covariances ----------------------------------------------------------------------------------------------


def _dealt(boundary: Any, keys: Keys, t: int, gradients: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whole numbers with the noise of pairs alone, as a simulation deals it."""
    rows = gradients.copy()
    boundary._pairs.add(t, keys.steps, rows)
    return rows


def _own_draws(keys: Keys, t: int, gradients: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The same, drawn by every learner for itself, as parties do."""
    for i, row in enumerate(gradients.copy()):
        mine = {a + b - i: key for (a, b), key in keys.by_pair.items() if i in (a, b)}
        OwnPairs(i, mine).add(t, keys.steps, row[None])
        yield row


def _deviation_of_sum(noise: Array, own: Array) -> Finding:
    """That of Σ η_i, and not more nor less."""
    sums, expected = noise.sum(axis=1), math.sqrt(float((own**2).sum()))
    low, high = _deviation_within(sums.size, ALARM)
    measured = math.sqrt(float((sums**2).mean())) / expected
    return Finding("deviation of the sum over learners, of own noise alone", measured, 1.0, low <= measured <= high)


def _covariances(noise: Array, expected: Array, edges: Sequence[tuple[int, int]], pair: float) -> Finding:
    """The two learners, or the one, whose covariance is farthest from what it has to be, in what chance allows."""
    m, count = noise.shape[1], noise.shape[0] * noise.shape[2]
    flat = noise.transpose(1, 0, 2).reshape(m, -1)
    measured, variances = flat @ flat.T / count, np.diagonal(expected)
    spread = np.sqrt((np.outer(variances, variances) + expected**2) / count)
    off = np.abs(measured - expected) / spread
    a, b = sorted(int(at) for at in np.unravel_index(int(off.argmax()), off.shape))
    allowed = -float(scipy.special.ndtri(ALARM / (m * (m + 1))))
    whom = f"variance of learner {a}" if a == b else f"covariance of learners {a} and {b}"
    kind = "" if a == b else ", who share a key" if (a, b) in edges else ", who share no key"
    holds = bool(off.max() <= allowed)
    return Finding(f"{whom}{kind}, in τ²", float(measured[a, b] / pair**2), float(expected[a, b] / pair**2), holds)


def _deviation_within(count: int, alarm: float) -> tuple[float, float]:
    """What a measured deviation, of 1, lies between but with probability `alarm`, of so many draws."""
    low, high = (float(scipy.special.chdtri(count, p)) for p in (1 - alarm / 2, alarm / 2))
    return math.sqrt(low / count), math.sqrt(high / count)


# -- the likelihood ratio ----------------------------------------------------------------------------------------------


def _claims(case: Case, keys: Keys, watched: Watched) -> Iterator[Finding]:
    """The best test with as many keys as the claim allows, and with one more."""
    assert case.mechanism.secrets is not None
    q, own, edges = case.mechanism.secrets.colluders, case.own, keys.edges
    claimed = np.array([terms.shared.seen if terms.shared else 1.0 for terms in case.terms])
    with_keys = f"the best test with the keys of {q}" if q else "the best test without any key"
    test = _Tests(case, keys, watched, _chosen(case, keys, q))
    i = int(test.measured.argmax())
    yield Finding(f"{with_keys}, μ of the claimed, learner {i}", float(test.measured[i]), 1.0, bool(test.low[i] <= 1))
    expected = case.seen / claimed
    i = int(np.abs(np.log(test.measured / expected)).argmax())
    as_expected = bool(test.low[i] <= expected[i] <= test.high[i])
    yield Finding(
        f"{with_keys}, μ of what Σ says, learner {i}", float(test.measured[i] / expected[i]), 1.0, as_expected
    )
    if q + 1 >= case.learners:
        return
    chosen = _chosen(case, keys, q + 1)
    test = _Tests(case, keys, watched, chosen)
    above = np.array([seen_with(own, edges, keys.pair, i, some) for i, some in enumerate(chosen)]) / claimed
    telling = above * test.low > SURELY * test.measured  # what Σ says is beyond what chance might hide
    if telling.any():
        i = int(np.where(telling, test.measured, math.inf).argmin())
        name = f"the best test with the keys of {q + 1}, one too many, must be above the claim: μ, learner {i}"
        yield Finding(name, float(test.measured[i]), 1.0, bool(test.low[i] > 1))


def _chosen(case: Case, keys: Keys, count: int) -> list[tuple[int, ...]]:
    """For every learner, whose keys are known: of those that tell most of it, so many."""
    return [worst_keys(case.own, keys.edges, keys.pair, i, count) for i in range(case.learners)]


class _Tests:
    """The best tests for all learners, with the keys of those who were chosen for each.

    `measured` is μ as a share of what is claimed, and `low` and `high` are what chance leaves it between.
    """

    def __init__(self, case: Case, keys: Keys, watched: Watched, chosen: Sequence[Sequence[int]]) -> None:
        own, edges, m = case.own, keys.edges, case.learners
        along = np.array([direction(own, edges, keys.pair, i, some) for i, some in enumerate(chosen)])
        told = np.array([[bool(set(pair) & set(some)) for pair in edges] for some in chosen])
        weights = (along @ keys.incidence) * told  # of what keys tell, in each test
        still = self._statistics(along, weights, watched.noise, watched.drawn)
        there = self._statistics(along, weights, watched.shifted, watched.drawn_there)
        mine = _mine(m, still.shape[2]) > 0
        moved = np.array([there[:, i, mine[i]].mean() - still[:, i, mine[i]].mean() for i in range(m)])
        deviation = np.sqrt((still**2).mean(axis=(0, 2)))
        self.measured = moved / deviation / CLAIMED
        alarm = ALARM / m
        least, most = _deviation_within(still.shape[0] * still.shape[2], alarm / 2)
        count = still.shape[0] * int(mine.sum(axis=1).min())
        chance = -float(scipy.special.ndtri(alarm / 4)) * math.sqrt(2 / count) / CLAIMED
        self.low, self.high = (self.measured - chance) * least, (self.measured + chance) * most

    @staticmethod
    def _statistics(along: Array, weights: Array, noise: Array, drawn: list[Array]) -> Array:
        """(rounds, tests, coordinates) of eᵢᵀ Σ⁻¹ times what is left of the releases, without what keys tell."""
        return np.array([along @ seen - weights @ known for seen, known in zip(noise, drawn, strict=True)])
