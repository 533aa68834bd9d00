"""What noise at the source costs: a record is in the mean gradient of the rounds that remember it, and moves it little.

In the rounds of a release set ρ a learner adds noise to the mean of its records' clipped gradients at its current
point: of the newest round's ("latest", R = 1), of the newest R rounds' (a window), or of all so far ("history", R = ∞).

**Proof.** Fix two worlds that differ in one record ξ, of round k. Let y_t be what is released in round t ∈ ρ. All
states and messages of the learner are functions of y_s, s ≤ t, of what it received, and of public things; the others'
are functions of its messages and of *their* records. So, given everything that was released and sent before round t,
the learner's point θ_t is the same in both worlds, and so is every other record's gradient there. The mean of n_t
clipped gradients differs by one of them:

    ‖g_t − g'_t‖ ≤ Δ_t = 2c/n_t + rounding        where round t remembers ξ: t ∈ ρ, k ≤ t < k + R;    otherwise 0

(which record is replaced changes neither n_t nor who is remembered: both follow from the numbers of records, which are
public)

and y_t, given the past, is a Laplace or Gaussian mechanism with the shift Δ_t/σ_t in noise scales, whatever the model
and the graph. Mechanisms that are each chosen after seeing all before compose as if they had been fixed from the start
(Dwork, Rothblum & Vadhan, FOCS 2010, for pure ε; Dong, Roth & Su, JRSS-B 2022, Cor. 3.3, for μ-GDP; Zhu, Dong & Wang,
AISTATS 2022, Thm. 10, for dominating pairs), so the shifts' sum, or sum of squares, is what is paid. The ridge's r θ is
a function of the state and is added after the noise. ∎

**Pair secrets.** Where learners share noise that cancels, what an observer sees of a shift is less than Δ_t/σ_t, by a
factor that is the same in every round: see gossamer.privacy.secrets.

A record of a later round is in fewer releases, and costs less. For R = ∞ the dearest is any of a round k ≤ min ρ.

**Windows.** With N records a round, n_t = min(t + 1, R) N, and a record is in the releases of exactly the R rounds
k, …, k + R − 1: its loss is the finite sum over those of them that release, however long the run is. With a release in
every round, constant noise and k ≥ R − 1 that is R (2c/(RN))²/σ² = 4c²/(R N² σ²) for μ², and 2c/(Nν) for Laplace's ε;
with one in every r-th round there are at most ⌈R/r⌉ in place of R. A record of an earlier round k < R − 1 begins in
means of fewer records, and costs more, unless nothing is released before round R − 1. `_dearest` takes the sums over
all windows that begin with a release: whatever k is, the releases that see it are in the window that begins with the
first of them. Where noise never falls and releases never get denser, the first of these windows is the dearest for
ever.

**Rounds beyond the last record.** Let a learner hold H records in all, which come in L = ⌈H/N⌉ rounds, the last of them
with what is left. From then on nothing is forgotten: the records of rounds k ≥ L − R are remembered for good, in means
of n_t = H − max(0, L − R) N records, and are charged for every release from their own round on. For R = ∞, n_t = H.

**Correlated noise.** With coefficients 1 = f_0, f_1, …, f_{b−1} ≥ 0 what is released is y_j = Σ_i f_{j−i} g_i + noise,
j and i counting releases, and the algorithm uses g̃_j = y_j − Σ_{i<j} f_{j−i} g̃_i, a function of releases: the noise in
g̃ is correlated over time (a matrix factorisation with the banded Toeplitz matrix F = (f_{j−i})). By the same argument
y_j differs by at most Σ_i f_{j−i} Δ_i over the releases i that remember ξ: that is the shift, for one participation
(R = 1) and for all (R = ∞) alike.

**For ever.** With σ_t = σ0 (t+1)^−α, history, and a release every r rounds, the rest after round T is at most
Σ_{j≥0} h(T + rj) ≤ h(T) + ∫_T^∞ h/r for the falling h(t) = (2c/(N (t+1)) · (t+1)^α/σ0)^p, p = 1 or 2: finite iff
p (1 − α) > 1. Where releases thin out, t_{j+1} + 1 ≥ q (t_j + 1), it is a geometric series, finite iff α < 1. Rounding
is in it: a mean of more than 2^25 records is never taken, and up to there it adds less than 1/8 of Δ_t.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.privacy.rounding import UNIT
from gossamer.types import Array, Integers

if TYPE_CHECKING:
    from gossamer.privacy.accountant import Terms

FAR = 2**17  # rounds computed before the tail is proved
MOST_RECORDS = 2**25  # of one mean: see gossamer.models.bounds, whose memories refuse more


def coefficients(band: int) -> tuple[float, ...]:
    """f_0 … f_{b−1} of the square root of the matrix of ones below the diagonal: f_j = (1 − 1/(2j)) f_{j−1}.

    With F² the prefix sums, g̃ = F⁻¹ y has noise whose sums stay small (Fichtenberger, Henzinger & Upadhyay, "Constant
    matters", ICML 2023); cut off after b coefficients it costs a finite amount for ever (Kalinin & Lampert, "Banded
    Square Root Matrix Factorization", NeurIPS 2024).
    """
    found = [1.0]
    for j in range(1, band):
        found.append(found[-1] * (1 - 1 / (2 * j)))
    return tuple(found)


def moves(terms: Terms, t: Integers | Array) -> Array:
    """Δ_t: how far one record, where it is remembered, moves the mean gradient of each round t."""
    rounds = np.minimum(t + 1.0, terms.window)
    if math.isfinite(terms.brings):  # the last of them may bring fewer records
        left = terms.held_at_most / terms.records_in_round - max(0.0, terms.brings - terms.window)
        rounds = np.where(t + 1.0 < terms.brings, rounds, left)
    one_of = rounds * terms.bound.records  # where adjacency is the round, that is one record
    rounding = terms.mean_error(rounds)
    if len(terms.factor) > 1:  # the sum Σ f g is rounded, too
        rounding = rounding + (len(terms.factor) + 3) * UNIT * sum(terms.factor) * terms.bound.c
    return np.asarray(2 * terms.bound.c / one_of + 2 * rounding)


def _stays(terms: Terms, k: Integers | int) -> Any:
    """Whether a record of round k is never forgotten, because no more come in whose place it would be."""
    return np.asarray(k) >= (terms.brings - terms.window if math.isfinite(terms.brings) else math.inf)


def shifts_of(terms: Terms, rounds: int, k: int) -> Array:
    """The shift, in noise scales, of every release that a record of round k is seen in."""
    t = terms.releases.before(rounds)
    t = t[t >= k]
    moved = np.where((t < k + terms.window) | _stays(terms, k), moves(terms, t), 0.0)
    if len(terms.factor) > 1 and len(t):
        moved = np.convolve(moved, terms.factor)[: len(t)]
    seen = moved > 0
    return np.asarray(moved[seen] * terms.visible(t[seen].astype(float)))


def losses_at_source(terms: Terms, rounds: int) -> Array:
    """The shifts of a record that is worst in each release after its arrival: whatever its round, its are no larger."""
    if math.isinf(terms.window):
        return shifts_of(terms, rounds, 0)
    t = terms.releases.before(rounds)
    moved, weights = moves(terms, t), terms.visible(t.astype(float))
    if terms.window == 1:
        lags = range(min(len(terms.factor), len(t)))
        return np.array([terms.factor[j] * (moved[: len(t) - j] * weights[j:]).max() for j in lags])
    largest = []
    for j in range(len(t)):
        first = t[: len(t) - j]
        seen = (t[j:] < first + terms.window) | _stays(terms, first)
        if not seen.any():
            break
        largest.append(float((moved * weights)[j:][seen].max()))
    return np.array(largest)


def _dearest(terms: Terms, rounds: int, squared: bool) -> float:
    p, t = 2 if squared else 1, terms.releases.before(rounds)
    if math.isinf(terms.window) or not len(t):
        return float((shifts_of(terms, rounds, 0) ** p).sum())
    moved, weights = moves(terms, t) ** p, terms.visible(t.astype(float)) ** p
    if terms.window == 1:  # one participation, seen in as many releases as noise is correlated over
        ahead = np.convolve(weights[::-1], np.asarray(terms.factor) ** p)[: len(t)][::-1]
        return float((moved * ahead).max())
    sums = np.concatenate([[0.0], np.cumsum(moved * weights)])
    ends = np.where(_stays(terms, t), len(t), np.searchsorted(t, t + terms.window))
    lost = 4 * len(t) * UNIT * sums[-1]  # a difference of running sums is rounded
    return float((sums[ends] - sums[:-1]).max() + lost)


def total_at_source(terms: Terms, rounds: int, squared: bool) -> float:
    """Σ shift, or Σ shift², of the record that costs most."""
    alike = terms.releases.ratio == 1 and not terms.releases.head and len(terms.factor) == 1
    if terms.window == 1 and alike and terms.ratio == 1:
        first, count = terms.releases.after, terms.releases.count(rounds)
        last = first + (count - 1) * terms.releases.step
        ends = np.array([first, last]) if count else np.empty(0)  # scales go one way with time: an end is dearest
        shifts = moves(terms, ends) * terms.visible(ends.astype(float))
        return float((shifts ** (2 if squared else 1)).max(initial=0.0))
    return _dearest(terms, rounds, squared)


def total_at_source_for_ever(terms: Terms, squared: bool) -> float:
    """The same without a horizon; ∞ where no finite bound is proved."""
    releases, band = terms.releases, len(terms.factor)
    if math.isfinite(releases.until):  # nothing is released from then on
        return total_at_source(terms, int(releases.until), squared)
    lag = band * releases.step
    if math.isinf(terms.window) or math.isfinite(terms.held_at_most):
        return _growing_for_ever(terms, squared, lag)
    if terms.exponent > 0 or terms.ratio < 1 or (band > 1 and releases.ratio > 1):
        return math.inf
    # Scales never fall and releases never get denser: a record of the first release's round is dearest.
    return total_at_source(terms, int(releases.after + terms.window + lag + 1), squared)


def _growing_for_ever(terms: Terms, squared: bool, lag: int) -> float:
    """Of records that are never forgotten: of a history's, or of a window's last."""
    releases, p = terms.releases, 2 if squared else 1
    if terms.ratio != 1 or (len(terms.factor) > 1 and releases.ratio > 1):
        return math.inf
    ended = math.isfinite(terms.held_at_most)
    last = math.ceil(terms.held_at_most / terms.records_in_round) if ended else 0  # records come no more
    T = max(FAR, 4 * (releases.after + 1), 4 * lag, last)
    if T > 2**26:
        return math.inf  # more than is worked out
    a = p * ((0.0 if ended else 1.0) - terms.exponent)
    first = _first_release_from(terms, T)
    size = first + 1.0
    spread = 1 / (1 - releases.ratio**-a) if releases.ratio > 1 and a > 0 else math.inf
    if a > 1:
        spread = min(spread, 1 + size / ((a - 1) * releases.step))
    if not math.isfinite(spread):
        return math.inf
    exact = moves(terms, np.array([first]))[0]
    rounding = 1 + MOST_RECORDS * (MOST_RECORDS + 4) * UNIT
    slower = 1 - lag / (T + 1) if len(terms.factor) > 1 else 1.0
    largest = exact * rounding * sum(terms.factor) / slower * terms.visible(np.array([first]))[0]
    return total_at_source(terms, T, squared) + float(largest**p) * spread


def _first_release_from(terms: Terms, T: int) -> float:
    before = terms.releases.before(T)
    return terms.releases.following(float(before[-1])) if len(before) else float(terms.releases.after)
