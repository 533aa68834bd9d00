"""The bounds for all rounds after the last that was computed: powers of t+1 that survive every further step.

The recursions of moments.py are taken with every changing coefficient at its worst in a round ≥ T, and one
A(t+1)^−p for each quantity is found by the inductions of sequences.py. The exponents are those that the theorems
claim:

    √E‖S‖², √E‖Θ‖²    like (t+1)^−ς         ς = min(ς_ζ, ς_ϑ, v)                         (Lemmas 7 and 8)
    E‖θ̄ − θ*‖²        like (t+1)^−β         β = min(1, 2v, 2ς_ζ − v, 2ς_ϑ − v)           (Theorem 2)

The last is the paper's β with α at its best, v, and without its terms v + ½ − α and 2 − v − α. Where gradients are
bounded only through θ itself, a bound on them is guessed, the rest follows from it, and the guess is verified: if
no guess holds, the steps are still too large in round T, and there is no tail from there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from gossamer.theory.eigenvector import lemma2
from gossamer.theory.moments import Moments, gradients, step
from gossamer.theory.problem import Problem
from gossamer.theory.response import LAGS, response
from gossamer.theory.sequences import power_sum, slowing_tail, steady_tail
from gossamer.types import Array


class Power(NamedTuple):
    """A(t+1)^−p."""

    A: float
    p: float

    def __call__(self, t: float) -> float:
        return float(self.A * (t + 1.0) ** -self.p)


class Tail(NamedTuple):
    """Powers that hold for all t ≥ T; `centre` and what follows from it is ∞ where μ and the noise give nothing."""

    T: int
    tracker: Power  # √E‖s − ωs̄‖_C²
    consensus: Power  # √E‖θ − 1θ̄‖_R²
    disagreement: Power  # √E‖θ − 1θ̄‖_F²
    deviation: Power  # √E‖θ_i − θ̄‖²
    centre: Power  # √E‖θ̄ − θ*‖²
    push: Power  # p_t
    fresh: Power  # n_t


def tail(problem: Problem, seen: Moments, T: int, everywhere: bool) -> Tail | None:
    """From round T on, or None where the steps are still too large there."""
    m = problem.network.m
    settled = max(len(response(problem.network).tracker), 2 * LAGS)
    if settled > T or T not in seen.covariances or step(problem, T) > 2 / (problem.mu + problem.L):
        return None
    guess = seen.gradients[T - LAGS : T + 1].max()
    for _ in range(12):
        found = _with_gradients(problem, seen, T, float(guess))
        if (
            found is None or found.centre.p < 0
        ):  # errors that may grow: the gradients' bound would be looked at too soon
            return None
        needed = gradients(problem, m, T, found.disagreement(T), found.centre(T), everywhere)
        if needed <= guess:
            return found
        guess = max(1.5 * guess, 1.1 * needed) if math.isfinite(needed) else 4 * guess
    return None


def _with_gradients(problem: Problem, seen: Moments, T: int, size: float) -> Tail | None:
    """All powers, if √E‖g‖_F² ≤ size in every round ≥ T − LAGS."""
    known = response(problem.network)
    mixing, g = known.mixing, known.gains_in(T)
    m, R, C = mixing.m, mixing.norm_R, mixing.norm_C
    low = min(problem.exponent_s, problem.exponent_theta, problem.v)
    noise = _noise(problem, seen.covariances[T], T, low)
    old_s, old_theta = _old(problem, seen, T, size)
    if noise is None or not math.isfinite(old_theta):
        return None
    recent = problem.step * size * _looking_back(problem, T)
    of_s, of_theta = noise[:m, :m], np.maximum(noise[m:, m:].diagonal(), 0.0)

    def at_most(value: float, exponent: float, wanted: float) -> float:
        """b with value·(t+1)^−exponent ≤ b(t+1)^−wanted for all t ≥ T, wanted ≤ exponent."""
        return float(value * (T + 1.0) ** (wanted - exponent))

    def power(by_noise: float, kernel: Array, by_old: float) -> Power:
        return Power(by_noise + at_most(float(kernel[:LAGS].sum()) * recent + by_old, problem.v, low), low)

    S = power(math.sqrt(np.vdot(C.P, of_s)), known.tracker[-1], old_s)
    consensus = power(math.sqrt(np.vdot(R.P, noise[m:, m:])), known.consensus[-1], old_theta)
    disagreement = power(math.sqrt(of_theta.sum()), known.disagreement[-1], R.to_frobenius * old_theta)
    rows = np.linalg.norm(R.inverse_root, axis=1)
    each = [power(math.sqrt(of_theta[i]), known.deviation[-1, :, i], rows[i] * old_theta) for i in range(m)]
    deviation = max(each)

    h = min(0.5, low)
    vanishing = _eigenvector_error(problem, T, size, S, h)
    if vanishing is None:
        return None
    B = at_most(problem.kappa, 0.5, h) + at_most(problem.L / math.sqrt(m) * disagreement.A, low, h) + vanishing
    push = Power(problem.step * B, problem.v + h)
    slowest = 2 * min(problem.exponent_s, problem.exponent_theta)
    fresh = Power(
        at_most(g.zeta_to_centre * problem.noise_s**2, 2 * problem.exponent_s, slowest)
        + at_most(g.theta_to_centre * problem.noise_theta**2, 2 * problem.exponent_theta, slowest),
        slowest,
    )
    centre = _centre(problem, seen.centre[T], push, fresh, T)
    return Tail(T, S, consensus, disagreement, deviation, centre, push, fresh)


def _looking_back(problem: Problem, T: int) -> float:
    """λ of at most LAGS rounds ago is at most this multiple of λ_t, for every t ≥ T."""
    return float(((T + 1) / (T + 1 - LAGS)) ** problem.v)


def _noise(problem: Problem, covariance: Array, T: int, low: float) -> Array | None:
    """V with Cov_t ⪯ V(t+1)^−2ς for all t ≥ T, where Cov⁺ = A Cov Aᵀ + σ_ζ²Q_ζ + σ_ϑ²Q_ϑ.

    Let Q(t+1)^−2ς be at least what a round adds, γ² = ((T+1)/(T+2))^2ς, and W = A W Aᵀ/γ² + Q. If Cov_t ⪯
    cW(t+1)^−2ς with cγ² ≥ 1, then Cov_{t+1} ⪯ (cγ²(W − Q) + Q)(t+1)^−2ς ⪯ cγ²W(t+1)^−2ς ⪯ cW(t+2)^−2ς.
    """
    g = response(problem.network).gains_in(T)
    by_s = problem.noise_s**2 * (T + 1.0) ** (2 * (low - problem.exponent_s))
    by_theta = problem.noise_theta**2 * (T + 1.0) ** (2 * (low - problem.exponent_theta))
    Q = by_s * g.zeta + by_theta * g.theta
    Q += (1e-9 * np.trace(Q) + 1e-30) * np.eye(len(Q))  # more noise than there is, so that W can be inverted
    gamma = ((T + 1) / (T + 2)) ** low
    if np.abs(np.linalg.eigvals(g.A)).max() >= gamma:
        return None
    W = scipy.linalg.solve_discrete_lyapunov(g.A / gamma, Q)
    reached = float(scipy.linalg.eigh(covariance, (W + W.T) / 2, eigvals_only=True)[-1])
    return np.asarray(max(gamma**-2, reached * (T + 1.0) ** (2 * low)) * (1 + 1e-6) * (W + W.T) / 2)


def _old(problem: Problem, seen: Moments, T: int, size: float) -> tuple[float, float]:
    """What gradients of more than LAGS rounds ago still do to S and Θ from T on, as multiples of (t+1)^−v."""
    known = response(problem.network)
    R, C, v = known.mixing.norm_R, known.mixing.norm_C, problem.v
    handed = problem.step * size * _looking_back(problem, T)
    of_s = steady_tail(seen.old_tracker[T], C.factor, float(known.tracker[-1, LAGS]) * handed, v, T)
    passed = float(known.consensus[-1, LAGS]) * handed + known.gains_in(T).tracker_to_consensus * of_s
    return of_s, steady_tail(seen.old_consensus[T], R.factor, passed, v, T)


def _eigenvector_error(problem: Problem, T: int, size: float, S: Power, h: float) -> float | None:
    """b with (1/m)(λ_t‖e_t‖·size + ‖e_tᵀC S‖) ≤ λ_t b(t+1)^−h for t ≥ T, from Lemma 2: ‖e_t‖ ≤ ‖u‖ c_z γ_z^t.

    γ_z^t (t+1)^(h+v) falls from t + 1 = (h+v)/|ln γ_z| on, so that its value in round T is the largest.
    """
    mixing, known = response(problem.network).mixing, lemma2(problem.network)
    if (T + 1) * -math.log(known.gamma_z) < h + problem.v:
        return None
    e = float(np.linalg.norm(mixing.u)) * known.c_z * known.gamma_z**T / mixing.m
    through_s = float(np.linalg.norm(mixing.C, 2)) * mixing.norm_C.to_frobenius * S(T) / step(problem, T)
    return float(e * (size + through_s) * (T + 1.0) ** h)


def _centre(problem: Problem, value: float, push: Power, fresh: Power, T: int) -> Power:
    """√E‖θ̄ − θ*‖². With μ > 0: (q√x + p)² ≤ (1 − λμ)x + (1 + λμ)p²/(λμ), because q² (1 + λμ) ≤ 1 − λμ for q = 1 − λμ.

    With μ = 0 distances may grow, by no more than Σp_t + Σn_t/(2√x_T): √((y+p)² + n) ≤ y + p + n/(2y).
    """
    v, mu = problem.v, problem.mu
    if mu == 0:
        if push.p <= 1 or fresh.p <= 1:
            return Power(math.inf, 0.0)
        grown = fresh.A * power_sum(fresh.p, T) / (2 * value) if fresh.A else 0.0
        return Power(value + push.A * power_sum(push.p, T) + grown, 0.0)
    q = min(2 * push.p - v, fresh.p)
    b = (1 + step(problem, T) * mu) / (problem.step * mu) * push.A**2 * (T + 1.0) ** (q - 2 * push.p + v)
    b += fresh.A * (T + 1.0) ** (q - fresh.p)
    A = slowing_tail(value**2, problem.step * mu, v, b, q, T)
    return Power(math.sqrt(A), (q - v) / 2)
