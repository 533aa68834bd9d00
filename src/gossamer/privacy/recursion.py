"""How far one record can move what a learner sends: a few scalar sequences, bounded round by round.

**Adjacency.** One record of one learner is replaced (or all records of one of its rounds, where the clipper works per
round). Fix everything that the learner receives. Its states are then deterministic functions of its records, all other
terms of its update cancel in the difference of two neighbouring runs, and with x_t ≥ 0 the vector of norms of the
states' differences (for Algorithm 1: δs_t and δθ_t, the L1 norm for Laplace noise, L2 for Gaussian), the triangle
inequality gives

    x_{t+1} ≤ A_t x_t + b_t G_t + h_t              A_t, b_t ≥ 0: the algorithm's `Dynamics`
    G_t ≥ ‖g_t − g'_t‖                             the round's gradients, of the neighbouring records at their points

With N records a round, per-record gradients bounded by c, their Lipschitz constant L *in the same norm* (∞ if there is
none), a ridge r, the replaced record in round k, a gradient over the newest R rounds (R = 1 is "latest", R = ∞ is
"history"), M = min(t+1, R) N records in it, and δ the component of x at the gradient's point:

    G_t = 1[t < k+R] 2c/M + (1 − 1[t < k+R]/M) min(Lδ + p_t, 2c) + rδ               for t ≥ k

because of the M records one differs, by at most 2c, as long as it is remembered, and every other has its gradient
taken at points δ apart, where it moves by at most Lδ and never by more than 2c; r θ moves by exactly rδ. Before k
nothing differs: x_t = 0 for t ≤ k.

**Rounding.** p_t is what rounding adds to the difference of one record's gradients at two points, and h_t what it adds
to the difference of the new states (`Slack`; 0 in exact arithmetic). Where the two runs are still the same, bit by
bit, they round the same: at δ = 0 no p_t is due.

**Worst k.** All maps are monotone. For history the run with k = 0 dominates every other from its k on, so k = 0 is
worst. Otherwise every k counts, and `worst_case` finds the largest: two linear bounds of G_t give, by one backward
(adjoint) pass each, bounds of the cost of every k; the recursion itself is run from a k for more and more rounds before
such a bound is taken, until no k's bound exceeds the largest cost found.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gossamer.lazy import kernels_for
from gossamer.types import Array, Dynamics

MOST_STEPS = 100_000_000  # of the recursion, before the bounds themselves are taken: about a second
CLOSE = 1 + 1e-6  # a bound that is so close to the largest cost found need not be improved


class GradientBound(NamedTuple):
    """What is known of one record's gradient, in one norm."""

    c: float  # ‖∇l‖ ≤ c, as computed
    L: float  # ‖∇l(θ) − ∇l(θ')‖ ≤ L ‖θ − θ'‖; ∞ where there is no such bound
    ridge: float  # r: the gradient r θ of the penalty is data-free, but moves with θ
    records: int  # N, records that arrive together; 1 where adjacency is the round
    error: float = 0.0  # a record's computed gradient is within error + error_per_size · max|θ_k| of the exact one
    error_per_size: float = 0.0


class Slack(NamedTuple):
    """What rounding adds, round by round."""

    blur: Array  # (T,) p_t
    extra: Array  # (T, d) h_t


def no_slack(dynamics: Dynamics) -> Slack:
    """Exact arithmetic."""
    return Slack(np.zeros(len(dynamics.b)), np.zeros(dynamics.b.shape))


def _arguments(dynamics: Dynamics, bound: GradientBound, window: float) -> tuple[Any, ...]:
    numbers = (float(bound.c), float(bound.L), float(bound.ridge), float(bound.records), float(window))
    return (np.ascontiguousarray(dynamics.A), np.ascontiguousarray(dynamics.b), dynamics.point, *numbers)


def sensitivities(
    dynamics: Dynamics, bound: GradientBound, window: float, k: int = 0, slack: Slack | None = None
) -> Array:
    """x_t for t = 0 … T−1, the rounds in which x_t is sent, with the record replaced in round k."""
    T, d = dynamics.b.shape
    x = np.zeros((T + 1, d))
    forward = kernels_for(T, "gossamer.privacy").forward
    forward(*_arguments(dynamics, bound, window), k, *(slack or no_slack(dynamics)), x)
    return x[:-1]


def charges(x: Array, weights: Array, squared: bool) -> Array:
    """What each round costs: Σ_i x_i w_i (Laplace, w = 1/ν), or Σ_i (x_i w_i)² (Gaussian, w = 1/σ)."""
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is ∞ and is refused as that
        scaled = np.where(weights > 0, x * weights, 0.0)  # where nothing is sent, nothing is paid, however far x is
        total: Array = (scaled**2 if squared else scaled).sum(axis=1)
    return total


def worst_case(
    dynamics: Dynamics,
    bound: GradientBound,
    weights: Array,
    *,
    window: float,
    squared: bool,
    slack: Slack | None = None,
) -> float:
    """The largest sum of charges over all rounds k in which a record may be replaced."""
    if not len(weights):
        return 0.0
    if math.isinf(window):
        return float(charges(sensitivities(dynamics, bound, window, 0, slack), weights, squared).sum())
    from gossamer.privacy.compiled import bounds_from, costs_to_go

    slack = slack or no_slack(dynamics)
    T, d = dynamics.b.shape
    arguments = _arguments(dynamics, bound, window)
    forms = [
        costs_to_go(*arguments[:3], slope, constant, slack.extra, weights, squared, np.zeros((d + 1, d + 1)))
        for slope, constant in _linear_bounds(bound, window, slack.blur)
    ]
    arguments = (*arguments, *slack, weights, squared)
    stack, still = np.array(forms), np.arange(T)
    costs, best, work, ahead = np.full(T, math.inf), 0.0, 0, 1
    while len(still) and work < MOST_STEPS:
        work += int(np.minimum(ahead, T - still).sum()) + T
        bounds = bounds_from(*arguments, still, ahead, stack)
        costs[still] = np.minimum(costs[still], np.where(np.isnan(bounds), math.inf, bounds))
        top = int(costs.argmax())
        exact = bounds_from(*arguments, np.array([top]), T, stack)
        costs[top] = math.inf if math.isnan(exact[0]) else float(exact[0])
        best = max(best, costs[top])
        still = still[costs[still] > best * CLOSE]
        ahead *= 4
    return float(costs.max())


def _linear_bounds(bound: GradientBound, window: float, blur: Array) -> list[tuple[float, Array]]:
    """(slope, constant) with G_t ≤ slope · δ + constant_t after round k: by L, where there is one, and by 2c."""
    T = len(blur)
    capped = (bound.ridge, np.full(T, 2.0 * bound.c))
    if not math.isfinite(bound.L):
        return [capped]
    direct = 2 * bound.c / (np.minimum(np.arange(1.0, T + 1), window) * bound.records) if window > 1 else np.zeros(T)
    return [(bound.L + bound.ridge, blur + direct), capped]


def losses_by_lag(
    dynamics: Dynamics, bound: GradientBound, weights: Array, window: float, slack: Slack | None = None
) -> Array:
    """(T, d): for every number of rounds after the replaced record the largest loss x_i w_i over all k.

    Whatever k is, its losses are no larger, element by element, than these.
    """
    from gossamer.privacy import compiled

    arguments = (*_arguments(dynamics, bound, window), *(slack or no_slack(dynamics)), weights)
    largest: Array = compiled.losses_by_lag(*arguments)
    return largest
