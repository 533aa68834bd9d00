"""How far one record can move what a learner sends: two scalar sequences, bounded round by round.

**Adjacency.** One record of one learner is replaced (or all records of one of its rounds, where the clipper works per
round). Fix everything that the learner receives. Its states are then deterministic functions of its records, all other
terms of its update cancel in the difference of two neighbouring runs, and with x_t ≥ 0 the vector of norms of the
states' differences (for Algorithm 1: δs_t and δθ_t, the L1 norm for Laplace noise, L2 for Gaussian), the triangle
inequality gives

    x_{t+1} ≤ A_t x_t + b_t G_t                    A_t, b_t ≥ 0: the algorithm's `Dynamics`
    G_t ≥ ‖g_t − g'_t‖                             the round's gradients, of the neighbouring records at their points

With N records a round, per-record gradients bounded by c, their Lipschitz constant L *in the same norm* (∞ if there is
none), a ridge r, the replaced record in round k, and δ the component of x at the gradient's point:

    history   G_t = [2c/N + (t+1−1/N) min(Lδ, 2c)]/(t+1) + rδ                   for t ≥ k
    latest    G_t = 1[t=k] 2c/N + (1 − 1[t=k]/N) min(Lδ, 2c) + rδ               for t ≥ k

because of the (t+1)N records one differs, by at most 2c, and every other has its gradient taken at points δ apart,
where it moves by at most Lδ and never by more than 2c; r θ moves by exactly rδ. Before k nothing differs: x_t = 0 for
t ≤ k.

**Worst k.** All maps are monotone. For history the run with k = 0 dominates every other from its k on, so k = 0 is
worst. For latest every k counts: `worst_latest` bounds all of them by one backward (adjoint) pass, with min(Lδ, 2c)
replaced once by Lδ and once by 2c, and then runs the exact recursion for the few k whose bound exceeds the largest
value found.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from gossamer.types import Array, Dynamics

EXACT_TRIES = 64  # how many k are run exactly before the bound itself is taken


class GradientBound(NamedTuple):
    """What is known of one record's gradient, in one norm."""

    c: float  # ‖∇l‖ ≤ c
    L: float  # ‖∇l(θ) − ∇l(θ')‖ ≤ L ‖θ − θ'‖; ∞ where there is no such bound
    ridge: float  # r: the gradient r θ of the penalty is data-free, but moves with θ
    records: int  # N, records that arrive together; 1 where adjacency is the round


def _compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True, error_model="numpy")(function)


@_compiled
def _forward(A, b, point, c, L, ridge, N, history, k, x):  # type: ignore[no-untyped-def]
    """Fill x[t] for t = 0 … T with the bounds of a record replaced in round k."""
    T, d = b.shape
    x[: k + 1] = 0.0
    for t in range(k, T):
        delta = x[t, point]
        moved = min(L * delta, 2.0 * c) if delta > 0 else 0.0
        if history:
            G = (2.0 * c / N + (t + 1.0 - 1.0 / N) * moved) / (t + 1.0) + ridge * delta
        elif t == k:
            G = 2.0 * c / N + (1.0 - 1.0 / N) * moved + ridge * delta
        else:
            G = moved + ridge * delta
        for i in range(d):
            total = b[t, i] * G
            for j in range(d):
                if A[t, i, j] > 0:
                    total += A[t, i, j] * x[t, j]
            x[t + 1, i] = total if total == total else np.inf  # an overflow proves nothing


def sensitivities(dynamics: Dynamics, bound: GradientBound, history: bool, k: int = 0) -> Array:
    """x_t for t = 0 … T−1, the rounds in which x_t is sent, with the record replaced in round k."""
    T, d = dynamics.b.shape
    x = np.zeros((T + 1, d))
    _forward(dynamics.A, dynamics.b, dynamics.point, bound.c, bound.L, bound.ridge, bound.records, history, k, x)
    return x[:-1]


def charges(x: Array, weights: Array, squared: bool) -> Array:
    """What each round costs: Σ_i x_i w_i (Laplace, w = 1/ν), or Σ_i (x_i w_i)² (Gaussian, w = 1/σ)."""
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is ∞ and is refused as that
        scaled = np.where(weights > 0, x * weights, 0.0)  # where nothing is sent, nothing is paid, however far x is
        total: Array = (scaled**2 if squared else scaled).sum(axis=1)
    return total


def worst_case(dynamics: Dynamics, bound: GradientBound, weights: Array, *, history: bool, squared: bool) -> float:
    """The largest sum of charges over all rounds k in which a record may be replaced."""
    if not len(weights):
        return 0.0
    if history:
        return float(charges(sensitivities(dynamics, bound, True), weights, squared).sum())
    return _worst_latest(dynamics, bound, weights, squared)


def _worst_latest(dynamics: Dynamics, bound: GradientBound, weights: Array, squared: bool) -> float:
    upper = np.full(len(weights), math.inf)
    for capped in (False, True):
        if capped or math.isfinite(bound.L):
            slope, constant = (bound.ridge, 2 * bound.c) if capped else (bound.L + bound.ridge, 0.0)
            arguments = (dynamics.A, dynamics.b, dynamics.point, slope, constant, 2 * bound.c / bound.records)
            nothing = np.zeros((dynamics.b.shape[1] + 1,) * 2)
            bounds = backward(*arguments, weights, squared, nothing)
            upper = np.minimum(upper, np.where(np.isnan(bounds), math.inf, bounds))  # an overflow proves nothing
    best = 0.0
    for k in np.argsort(upper)[::-1][:EXACT_TRIES]:
        if upper[k] <= best:
            return best
        exact = float(charges(sensitivities(dynamics, bound, False, int(k)), weights, squared).sum())
        best = max(best, math.inf if math.isnan(exact) else exact)
    return max(best, float(np.sort(upper)[::-1][min(EXACT_TRIES, len(upper) - 1)]))


def losses_by_lag(dynamics: Dynamics, bound: GradientBound, weights: Array) -> Array:
    """(T, d): for every number of rounds after the replaced record the largest loss x_i w_i over all k, for 'latest'.

    Whatever k is, its losses are no larger, element by element, than these.
    """
    arguments = (bound.c, bound.L, bound.ridge, bound.records)
    largest: Array = _losses_by_lag(dynamics.A, dynamics.b, dynamics.point, *arguments, weights)
    return largest


@_compiled
def _losses_by_lag(A, b, point, c, L, ridge, N, weights):  # type: ignore[no-untyped-def]
    T, d = b.shape
    x, largest = np.zeros((T + 1, d)), np.zeros((T, d))
    for k in range(T):
        _forward(A, b, point, c, L, ridge, N, False, k, x)
        for t in range(k, T):
            for i in range(d):
                largest[t - k, i] = max(largest[t - k, i], x[t, i] * weights[t, i])
    return largest


@_compiled
def backward(A, b, point, slope, constant, impulse, weights, squared, last):  # type: ignore[no-untyped-def]
    """For every k an upper bound of the sum of charges, G_t being slope·δ + constant after an impulse at k.

    The cost to go from (x, 1) at round t is a linear form (or, squared, a quadratic one) P_t of d+1 numbers:
    P_t = charge_t + P_{t+1} ∘ (one step), from P_T = `last`. Linear forms use its last row alone, as P[d] · (x, 1).
    """
    T, d = b.shape
    P = last.copy()
    bounds = np.zeros(T)
    step = np.zeros((d + 1, d + 1))
    for t in range(T - 1, -1, -1):
        # x_{k+1} after the impulse alone, then the cost to go of it
        total = 0.0
        for i in range(d + 1):
            xi = b[t, i] * impulse if i < d else 1.0
            if squared:
                for j in range(d + 1):
                    xj = b[t, j] * impulse if j < d else 1.0
                    total += xi * P[i, j] * xj
            else:
                total += P[d, i] * xi
        bounds[t] = total
        step[:] = 0.0
        step[d, d] = 1.0
        for i in range(d):
            step[i, d] = b[t, i] * constant
            for j in range(d):
                step[i, j] = A[t, i, j]
            step[i, point] += b[t, i] * slope
        if squared:
            P = step.T @ P @ step
            for i in range(d):
                P[i, i] += weights[t, i] ** 2
        else:
            row = P[d] @ step
            for i in range(d):
                row[i] += weights[t, i]
            P[d] = row
    return bounds
