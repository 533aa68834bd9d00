"""Budgets without a horizon: a finite part, computed, and a tail, proved.

From round T on, A is constant and b_t = b_T ((T+1)/(t+1))^v. With M = A + b_T (L+r) e_pointᵀ ≥ every later step's
matrix:

**History.** If x_T ≤ a φ_T with φ_t = (t+1)^−(1+v) and (q I − M) a ≥ β, where q = ((T+1)/(T+2))^(1+v) ≤ φ_{t+1}/φ_t and
β = b_T (T+1)^v 2c/N, then x_t ≤ a φ_t for all t ≥ T: one step gives M a φ_t + β φ_t ≤ q a φ_t ≤ a φ_{t+1}. Such an a is
s (q I − M)⁻¹ β with s ≥ 1 as large as x_T asks, whenever M's spectral radius is below q. The rest of the budget is then

    Laplace   Σ_{t≥T} x_t (t+1)^ς/ν0 ≤ a/ν0 Σ_{t≥T} (t+1)^−(1+v−ς)             finite iff ς < v
    Gaussian  Σ_{t≥T} (x_t (t+1)^ς/σ0)² ≤ (a/σ0)² Σ_{t≥T} (t+1)^−2(1+v−ς)       finite iff ς < v + ½

and Σ_{t≥T} (t+1)^−p ≤ (T+1)^−p + (T+1)^(1−p)/(p−1).

**Latest.** A record replaced in round k is an impulse, and the rest of its cost after round T is a linear form of x_T,
at most (T+1)^ς q̄ᵀx with q̄ = w̄ + g Mᵀ q̄, g = ((T+2)/(T+1))^ς: it satisfies q̄ (t+1)^ς ≥ w_t + M_tᵀ q̄ (t+2)^ς for
every t ≥ T. (Squared: a quadratic form with Q = W̄ + g² Mᵀ Q M.) A record replaced after T costs at most what the
same bound gives at k = T, because λ_k (k+2)^ς does not grow when ς ≤ v.

**Window.** A record of round k that R rounds remember is R impulses in place of one, in rounds k + j with j < R, each
1/min(k + j + 1, R) of the latest's: its part of the mean. The bounds above are of a linear recursion, so that x is the
sum of what these impulses do by themselves. So is its cost, at most, with Laplace noise, and with Gaussian noise the
root of it, which is a norm. (Measured: 1.00 to 1.03 times what 6000 rounds cost, and 1.0 to 1.5 times their μ.)

Where there is no Lipschitz constant, or the recursion does not contract, nothing is proved and the answer is ∞.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from gossamer.privacy.recursion import GradientBound, charges, sensitivities
from gossamer.privacy.rounding import UNIT
from gossamer.types import Array, Dynamics

LONGEST = 2**22  # rounds of a window that are worked out


def worst_case_for_ever(
    dynamics: Dynamics, bound: GradientBound, initial: Array, exponent: Array, *, window: float, squared: bool
) -> float:
    """The largest sum of charges without a horizon; weights are (t+1)^exponent / initial in each component of x.

    `dynamics` has to reach beyond the round at which the graph's mixing settles. Rounding is not in it: it is charged
    as rounds are sent.
    """
    v, T = dynamics.v, len(dynamics.b) - 1
    if v is None or v < 0 or not math.isfinite(bound.L) or LONGEST < window < math.inf:
        return math.inf
    if not is_settled(dynamics, v):
        return math.inf
    M = dynamics.A[T] + np.outer(dynamics.b[T], np.eye(len(initial))[dynamics.point]) * (bound.L + bound.ridge)
    with np.errstate(over="ignore"):  # what overflows is ∞, and proves nothing
        weights = (np.arange(1.0, T + 1)[:, None]) ** exponent / initial
    given = (dynamics, v, bound, M, weights, initial, exponent, squared)
    return _history(*given) if math.isinf(window) else _over_window(_impulses(*given), int(window), squared)


def is_settled(dynamics: Dynamics, v: float) -> bool:
    """Whether A and b are, over the second half, what the tail's proof takes them for; an algorithm may be wrong."""
    half, last = len(dynamics.b) // 2, len(dynamics.b) - 1
    power = ((half + 1) / np.arange(half + 1, last + 2)[:, None]) ** v
    same_A = np.allclose(dynamics.A[half:], dynamics.A[last], rtol=1e-9, atol=1e-300)
    return same_A and bool(np.allclose(dynamics.b[half:], dynamics.b[half] * power, rtol=1e-7, atol=1e-300))


def _radius(M: Array) -> float:
    return float(np.abs(np.linalg.eigvals(M)).max())


def _history(
    dynamics: Dynamics, v: float, bound: GradientBound, M: Array, weights: Array, initial: Array, exponent: Array,
    squared: bool,
) -> float:  # fmt: skip
    T = len(weights)
    q = ((T + 1) / (T + 2)) ** (1 + v)
    powers = (2 if squared else 1) * (1 + v - exponent)
    if _radius(M) >= q or (powers <= 1).any():
        return math.inf
    x = sensitivities(dynamics, bound, math.inf)
    if not np.isfinite(x).all():
        return math.inf
    beta = dynamics.b[T] * (T + 1) ** v * 2 * bound.c / bound.records
    a = np.linalg.solve(q * np.eye(len(M)) - M, beta)
    phi = (T + 1.0) ** -(1 + v)
    grown = x[T] > 0  # a component that no difference reaches stays 0
    a *= max(1.0, float((x[T][grown] / (a * phi)[grown]).max(initial=1.0)))
    tail = (a / initial) ** (2 if squared else 1) * ((T + 1) ** -powers + (T + 1) ** (1 - powers) / (powers - 1))
    return float(charges(x[:T], weights, squared).sum() + tail.sum())


def _over_window(impulses: Array, rounds: int, squared: bool) -> float:
    """The dearest record that so many rounds remember; `impulses` as `_impulses` has them."""
    if rounds == 1 or not np.isfinite(impulses).all():
        return float(impulses.max())
    p = 2 if squared else 1
    shares = 1 / np.minimum(np.arange(1.0, len(impulses) + 1), rounds)
    each = np.pad(impulses ** (1 / p) * shares, (0, rounds), mode="edge")  # the last one's is the largest of all later
    sums = np.concatenate([[0.0], np.cumsum(each)])
    lost = 4 * len(each) * UNIT * sums[-1]  # a difference of running sums is rounded
    return float(((sums[rounds:] - sums[:-rounds]).max() + lost) ** p)


def _impulses(
    dynamics: Dynamics, v: float, bound: GradientBound, M: Array, weights: Array, initial: Array, exponent: Array,
    squared: bool,
) -> Array:  # fmt: skip
    """(T + 1,) what a record that one round remembers costs at most, by its round; the last stands for all later ones.

    ∞ where nothing is proved.
    """
    from gossamer.privacy.compiled import costs_to_go

    T, top = len(weights), float(exponent.max())
    unproved = np.full(T + 1, math.inf)
    if top > v or _radius(M) * ((T + 2) / (T + 1)) ** top >= 1:
        return unproved
    g = max(1.0, ((T + 2) / (T + 1)) ** top)
    w = (T + 1) ** (exponent - top) / initial
    if not np.isfinite(w**2).all() or not np.isfinite(weights).all():
        return unproved
    d = len(M)
    last = np.zeros((d + 1, d + 1))
    if squared:
        last[:d, :d] = (T + 1) ** (2 * top) * scipy.linalg.solve_discrete_lyapunov(g * M.T, np.diag(w**2))
    else:
        last[d, :d] = (T + 1) ** top * np.linalg.solve(np.eye(d) - g * M.T, w)
    impulse = 2 * bound.c / bound.records
    A, b, slope, nothing = dynamics.A[:T], dynamics.b[:T], bound.L + bound.ridge, np.zeros((T, d))
    P = costs_to_go(A, b, dynamics.point, slope, nothing[:, 0], nothing, weights, squared, last)
    first = np.column_stack([b * impulse, np.ones(T)])  # x_{k+1} of a record replaced in round k
    bounds = np.einsum("ti,tij,tj->t", first, P[1:], first) if squared else (first * P[1:, d]).sum(axis=1)
    x = dynamics.b[T] * impulse * g  # a record replaced at or after T: its first message is one round later
    later = float(x @ last[:d, :d] @ x) if squared else float(last[d, :d] @ x)
    found: Array = np.append(bounds, later)
    return found if np.isfinite(found).all() else unproved
