"""Theorem 4 of Chen & Wang, part 1, as printed, for comparison only.

    ε_i = Σ_{t=1}^T ϱ_{t,s}(t+1)^ς/ν_ζ + ϱ_{t,θ}(t+1)^ς/ν_ϑ                          (σ = √2 ν)
    ϱ_{t,s} = 2 c_l Σ_{p=1}^t (1 − min_j |C_jj|)^{t−p} λ_{p−1}
    ϱ_{t,θ} = Σ_{q=1}^t (1 − min_j |R_jj|)^{t−q} (c_z γ_z^{q−1} + 1/u_i) (ϱ_{q,s} + ϱ_{q−1,s})

It keeps every term at its largest for ever, so ϱ falls only like λ_t and the sum grows without bound in T. c_z, γ_z are
those of its Lemma 2, which the paper does not give: we take γ_z = |λ₂(I+R)| and the smallest c_z that satisfies it.
"""

from __future__ import annotations

import numpy as np

from gossamer.types import Array


def theorem4(
    c: float, step: Array, weights: Array, least_R: float, least_C: float, perron: float, c_z: float, gamma_z: float
) -> float:
    """Part 1 for one learner; `step` is λ_0 … λ_{T−1}, `weights` (T+1, 2) of 1/ν_ζ and 1/ν_ϑ in rounds 0 … T."""
    s_before, s, theta, total = 0.0, 0.0, 0.0, 0.0
    for t in range(1, len(step) + 1):
        s_before, s = s, (1 - least_C) * s + 2 * c * step[t - 1]
        theta = (1 - least_R) * theta + (c_z * gamma_z ** (t - 1) + 1 / perron) * (s + s_before)
        total += s * weights[t, 0] + theta * weights[t, 1]
    return float(total)


def lemma2_constant(own_weights: Array, perron: Array, gamma_z: float) -> float:
    """The smallest c_z with |1/(m z_{i,t}) − 1/u_i| ≤ c_z γ_z^t for all i and t."""
    m = len(perron)
    rounds = np.arange(len(own_weights))[:, None]
    gap = np.abs(1 / (m * own_weights) - 1 / perron)
    seen = gap > 1e-13 / perron.min()  # below, rounding is all that is left
    return float((np.where(seen, gap, 0.0) * gamma_z ** -rounds.astype(float)).max())
