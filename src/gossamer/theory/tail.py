"""The bounds for all rounds after the last that was computed: powers of t+1 that survive every further step.

The recursions of moments.py are taken with every changing coefficient at its worst in a round ≥ T, and one A(t+1)^−p for
each quantity is found by the inductions of sequences.py. The exponents are those that the theorems claim:

    √E‖S‖², √E‖Θ‖²  fall like (t+1)^−ς,   ς = min(ς_ζ, ς_ϑ, v)                                             (Lemmas 7 and 8)
    E‖θ̄ − θ*‖²      falls like (t+1)^−min(1, 2ς − v)                                                      (Theorem 2)

The last is the paper's β with α at its best, v, and without its terms v + ½ − α and 2 − v − α. Where gradients are bounded
only through θ itself, a bound on them is guessed, the rest follows from it, and the guess is verified: if no guess holds,
the steps are still too large in round T, and there is no tail from there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gossamer.theory.eigenvector import lemma2
from gossamer.theory.moments import Moments, gradients, step
from gossamer.theory.norms import Norm, gain
from gossamer.theory.problem import Problem
from gossamer.theory.response import response
from gossamer.theory.sequences import power_sum, slowing_tail, steady_tail


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
    if T < 1 or T < len(response(problem.network).gains) or step(problem, T) > 2 / (problem.mu + problem.L):
        return None
    guess = seen.gradients[T]
    for _ in range(1 if everywhere else 12):
        found = _with_gradients(problem, seen, T, float(guess))
        if found is None:
            return None
        needed = gradients(problem, m, T, found.disagreement(T), found.centre(T), everywhere)
        if needed <= guess:
            return found
        guess = max(1.5 * guess, 1.1 * needed) if math.isfinite(needed) else 4 * guess
    return None


def _with_gradients(problem: Problem, seen: Moments, T: int, size: float) -> Tail | None:
    """All powers, if √E‖g‖_F² ≤ size in every round ≥ T."""
    known = response(problem.network)
    mixing, g = known.mixing, known.gains_in(T)
    m, R, C, flat = mixing.m, mixing.norm_R, mixing.norm_C, Norm.euclidean(mixing.m)
    low = min(problem.exponent_s, problem.exponent_theta, problem.v)

    def at_most(value: float, exponent: float, wanted: float) -> float:
        """b with value·(t+1)^−exponent ≤ b(t+1)^−wanted for all t ≥ T, wanted ≤ exponent."""
        return value * (T + 1.0) ** (wanted - exponent)

    def driven(to_s: float, to_theta: float, by_gradients: float) -> float:
        """What fresh noise and gradients add to a root of a mean square, as a multiple of (t+1)^−low."""
        noise_s = at_most(math.sqrt(to_s) * problem.noise_s, problem.exponent_s, low)
        noise_theta = at_most(math.sqrt(to_theta) * problem.noise_theta, problem.exponent_theta, low)
        return math.hypot(noise_s, noise_theta) + at_most(by_gradients * problem.step * size, problem.v, low)

    into_s = driven(float(np.vdot(C.P, g.zeta[:m, :m])), 0.0, gain(g.B[:m], C, flat))
    S = Power(steady_tail(seen.tracker[T], C.factor, into_s, low, T), low)
    of_theta = [float(np.vdot(R.P, added[m:, m:])) for added in (g.zeta, g.theta)]
    into_theta = driven(*of_theta, gain(g.B[m:], R, flat)) + g.tracker_to_consensus * S.A
    consensus = Power(steady_tail(seen.consensus[T], R.factor, into_theta, low, T), low)
    if not math.isfinite(consensus.A):
        return None
    disagreement = Power(max(R.to_frobenius * consensus.A, seen.disagreement[T] * (T + 1.0) ** low), low)
    rows = float(np.linalg.norm(R.inverse_root, axis=1).max())
    deviation = Power(max(rows * consensus.A, seen.deviation[T] * (T + 1.0) ** low), low)

    h = min(0.5, low)
    vanishing = _eigenvector_error(problem, T, size, S, h)
    if vanishing is None:
        return None
    B = at_most(problem.kappa, 0.5, h) + at_most(problem.L / math.sqrt(m) * disagreement.A, low, h) + vanishing
    push = Power(problem.step * B, problem.v + h)
    fresh = Power(
        at_most(g.zeta_to_centre * problem.noise_s**2, 2 * problem.exponent_s, 2 * low)
        + at_most(g.theta_to_centre * problem.noise_theta**2, 2 * problem.exponent_theta, 2 * low),
        2 * low,
    )
    centre = _centre(problem, seen.centre[T], push, fresh, T)
    return Tail(T, S, consensus, disagreement, deviation, centre, push, fresh)


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
