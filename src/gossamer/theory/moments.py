"""How far, in mean square, Algorithm 1 can be from its goal in each round: one pass over the rounds, every step
proved.

Write S = s − ωs̄, Θ = θ − 1θ̄ with θ̄ = uᵀθ/m, Z_t = diag(m[z_{i,t}]_i), w_tᵀ = uᵀZ_t⁻¹ (which tends to 1ᵀ), e_t =
w_t − 1. Then (7) and (8), with Cω = 0, 1ᵀC = 0 and uᵀR = 0, say exactly

    S⁺ = C̄ S + λ_t Π_ω g + Π_ω off(C)ζ                                                          (Lemma 7)
    Θ⁺ = R̄ Θ − Π_u Z_t⁻¹(C S + λ_t g) + Π_u (off(R)ϑ − Z_t⁻¹ off(C)ζ)                           (Lemma 8)
    θ̄⁺ = θ̄ − (λ_t/m) w_tᵀg − (1/m) e_tᵀC S + (1/m)(uᵀoff(R)ϑ − w_tᵀoff(C)ζ)                     (Theorems 1 to 3)

S and Θ are linear in noise and gradients. What noise does to them is known exactly: a covariance. What gradients do
is at most Σ_k ‖A_{t−1} … A_{k+1} B_k‖ λ_k √E‖g_k‖_F² (see response.py). Both are added as roots of mean squares
(Minkowski's inequality), because the gradients depend on earlier noise. In θ̄ the fresh noise is independent of all
else, so its variance n_t is added to the square of the rest. That rest is θ̄ − λ_t∇F_t(θ̄) and a push of mean
square at most p_t²:

    p_t = λ_t κ/√(t+1) + λ_t (L/√m) √E‖Θ‖_F² + (λ_t/m) ‖e_t‖ √E‖g‖_F² + (1/m) ‖e_tᵀC‖ √E‖S‖_C².

The first term is ∇F_t − ∇F: E‖∇F_t(θ*)‖² ≤ κ²/(t+1), because the records up to t are independent and θ* does not
depend on them. The second is what gradients at θ_i differ from gradients at θ̄. The gradient step of a μ-strongly
convex function with L-Lipschitz gradient moves any two points nearer by q_t = max(|1 − λ_tμ|, |1 − λ_tL|), hence

    E‖θ̄⁺ − θ*‖² ≤ (q_t √E‖θ̄ − θ*‖² + p_t)² + n_t.

The paper's own route to E‖θ̄ − θ*_t‖² keeps λ_t²D² and the drift of θ*_t, both of which this one does not need.
Where no D holds everywhere — a strongly convex function has none — the gradients are bounded by their values at the
optimum:

    √E‖g‖_F² ≤ √(m(D² + κ²/(t+1))) + L √E‖Θ‖_F² + L√m √E‖θ̄ − θ*‖².

κ enters at θ* alone where every F_t is itself μ-strongly convex; otherwise it has to hold at all θ at once (see
Problem).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gossamer.theory.problem import Problem
from gossamer.theory.response import LAGS, response
from gossamer.types import Array

LARGEST = 1e140  # a bound beyond, whose square float64 can hardly hold, is said to be ∞ from there on


class Moments(NamedTuple):
    """Roots of mean squares in rounds 0 … T, at most; what is about a round's step has no entry for the last."""

    tracker: Array  # √E‖s − ωs̄‖_C²
    consensus: Array  # √E‖θ − 1θ̄‖_R²
    disagreement: Array  # √E‖θ − 1θ̄‖_F²
    deviation: Array  # the largest √E‖θ_i − θ̄‖² of a learner
    centre: Array  # √E‖θ̄ − θ*‖²
    gradients: Array  # √E‖g‖_F²
    push: Array  # p_t
    fresh: Array  # n_t, a mean square
    old_tracker: Array  # of `tracker`, what gradients of more than LAGS rounds ago still do
    old_consensus: Array  # of `consensus`, likewise
    covariances: dict[int, Array]  # (2m, 2m), of what noise did to (S, Θ), in the middle round and in the last


def moments(problem: Problem, rounds: int, everywhere: bool) -> Moments:
    """Rounds 0 … rounds. `everywhere`: D bounds every ∇f_i at all θ, and not only at θ*."""
    known = response(problem.network)
    m, R, C = known.mixing.m, known.mixing.norm_R, known.mixing.norm_C
    rows = np.linalg.norm(R.inverse_root, axis=1)  # ‖Θ_i‖ ≤ rows_i ‖Θ‖_R
    covariance, y = np.zeros((2 * m, 2 * m)), math.sqrt(problem.start)
    old_s, old_theta = 0.0, 0.0  # what gradients of more than LAGS rounds ago still do, in ‖·‖_C and ‖·‖_R
    recent = np.zeros(LAGS + 1)  # λ_k √E‖g_k‖_F² of rounds t−1, t−2, …
    seen, covariances = np.empty((rounds + 1, 10)), {}
    for t in range(rounds + 1):
        g, row = known.gains_in(t), known.row(t)
        lam, zeta, theta = step(problem, t), variance_s(problem, t), variance_theta(problem, t)
        of_s, of_theta = covariance[:m, :m], np.maximum(covariance[m:, m:].diagonal(), 0.0)
        last = recent[:LAGS]
        tracker = math.sqrt(np.vdot(C.P, of_s)) + float(known.tracker[row, :LAGS] @ last) + old_s
        consensus = math.sqrt(np.vdot(R.P, covariance[m:, m:])) + float(known.consensus[row, :LAGS] @ last) + old_theta
        disagreement = float(known.disagreement[row, :LAGS] @ last) + R.to_frobenius * old_theta
        disagreement += math.sqrt(of_theta.sum())
        deviation = (np.sqrt(of_theta) + last @ known.deviation[row, :LAGS] + rows * old_theta).max()
        size = gradients(problem, m, t, disagreement, y, everywhere)
        push = lam * problem.kappa / math.sqrt(t + 1) + lam * problem.L / math.sqrt(m) * disagreement
        push += (lam * g.e * size + g.e_through_push * tracker) / m
        fresh = g.zeta_to_centre * zeta + g.theta_to_centre * theta
        seen[t] = tracker, consensus, disagreement, deviation, y, size, push, fresh, old_s, old_theta
        if seen[t].max() > LARGEST:
            seen[t:] = math.inf
            break
        if t in (rounds // 2, rounds):
            covariances[t] = covariance
        covariance = g.A @ covariance @ g.A.T + zeta * g.zeta + theta * g.theta
        recent[1:], recent[0] = recent[:-1].copy(), lam * size
        handed, after = recent[LAGS], known.row(t + 1)
        old_theta = R.factor * old_theta + g.tracker_to_consensus * old_s
        old_theta += float(known.consensus[after, LAGS] * handed)
        old_s = C.factor * old_s + float(known.tracker[after, LAGS] * handed)
        y = math.hypot(shrink(problem, lam) * y + push, math.sqrt(fresh))
    return Moments._make([*(seen * (1 + 1e-9)).T, covariances])  # rounding in the pass is far below 1e-9


def step(problem: Problem, t: float) -> float:
    return float(problem.step * (t + 1) ** -problem.v)


def variance_s(problem: Problem, t: float) -> float:
    return float(problem.noise_s**2 * (t + 1) ** (-2 * problem.exponent_s))


def variance_theta(problem: Problem, t: float) -> float:
    return float(problem.noise_theta**2 * (t + 1) ** (-2 * problem.exponent_theta))


def shrink(problem: Problem, lam: float) -> float:
    """q_t: what a gradient step does to distances."""
    return max(abs(1 - lam * problem.mu), abs(1 - lam * problem.L))


def gradients(problem: Problem, m: int, t: float, disagreement: float, centre: float, everywhere: bool) -> float:
    """√E‖g‖_F² at most: from the optimum and L, and where D holds at all θ also from D."""
    spread = problem.kappa / math.sqrt(t + 1)
    near = math.sqrt(m) * math.hypot(problem.D, spread) + problem.L * (disagreement + math.sqrt(m) * centre)
    return min(near, math.sqrt(m) * (problem.D + spread)) if everywhere else near
