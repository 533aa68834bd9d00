"""From a Gaussian mechanism's total μ² = Σ (sensitivity/σ)² to (ε, δ).

Exact. A sequence of Gaussian mechanisms, each chosen after seeing the ones before, whose μ_t² sum up to at most μ², is
μ-GDP (Dong, Roth & Su, "Gaussian Differential Privacy", JRSS-B 2022, Cor. 3.3): as private as one Gaussian mechanism
with sensitivity/σ = μ, for which (Balle & Wang, "Improving the Gaussian Mechanism for Differential Privacy", ICML
2018, Thm. 8)

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)

zCDP. ρ = μ²/2 (Bun & Steinke, TCC 2016), and the best conversion over Rényi orders α (Canonne, Kamath & Steinke, "The
Discrete Gaussian for Differential Privacy", NeurIPS 2020, Prop. 12)

    ε = min_{α>1} αρ + log(1 − 1/α) − (log δ + log α)/(α − 1)
"""

from __future__ import annotations

import math
from functools import lru_cache

import scipy

from gossamer.privacy.brent import find_zero


def delta_of(epsilon: float, mu: float) -> float:
    """The smallest δ at which a mechanism with sensitivity/σ = μ is (ε, δ)-private."""
    if mu == 0:
        return 0.0
    log_ndtr = scipy.special.log_ndtr
    below = math.exp(min(epsilon + log_ndtr(-mu / 2 - epsilon / mu), 0))
    return math.exp(log_ndtr(mu / 2 - epsilon / mu)) - below


def epsilon_exact(mu: float, delta: float) -> float:
    """The smallest ε, rounded up to be safe against rounding errors."""
    if mu == 0:
        return 0.0
    if delta <= 0 or not math.isfinite(mu):
        return math.inf
    if delta_of(0.0, mu) <= delta:
        return 0.0
    high = 1.0
    while delta_of(high, mu) > delta:
        high *= 2
        if not math.isfinite(high):
            return math.inf
    epsilon = find_zero(lambda e: delta_of(e, mu) - delta, 0.0, high, 1e-12, 1e-12)
    return float(epsilon) * (1 + 1e-9) + 1e-11


def epsilon_zcdp(mu: float, delta: float) -> float:
    rho = mu**2 / 2
    if mu == 0:
        return 0.0
    if delta <= 0 or not math.isfinite(mu):
        return math.inf

    def at(log_excess: float) -> float:
        alpha = 1 + math.exp(log_excess)
        return alpha * rho + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)

    least = scipy.optimize.minimize_scalar(at, bounds=(-12, 25), method="bounded", options={"xatol": 1e-10})
    return max(0.0, float(least.fun))


@lru_cache(maxsize=1024)  # learners, methods and step sizes ask for the same few budgets
def mu_for(epsilon: float, delta: float) -> float:
    """The largest μ that is (ε, δ)-private, rounded down."""
    low, high = 0.0, 1.0
    while epsilon_exact(high, delta) <= epsilon and high < 1e100:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_exact(middle, delta) <= epsilon else (low, middle)
    return low
