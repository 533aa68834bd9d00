"""What a network does with one round's gradients and noise: how strongly, and for how long.

Disagreement Θ = θ − 1θ̄ and the tracker's S = s − ωs̄ are a linear system that gradients drive:

    (S, Θ)⁺ = A_t (S, Θ) + λ_t B_t g,     A_t = [C̄, 0; −Π_u Z_t⁻¹C, R̄],     B_t = [Π_ω; −Π_u Z_t⁻¹].

Gradients of round k are felt in round t through the matrix A_{t−1} … A_{k+1} B_k. For the last LAGS rounds its norm
is computed; for what is older the norms ‖·‖_C and ‖·‖_R take over, in which C̄ and R̄ contract. With LAGS = 0 this
would be the paper's argument for Lemmas 7 and 8 alone, which is true and some hundred times larger: it adds up what
S and g do to Θ, where in truth nearly all of it cancels.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gossamer.networks import Network
from gossamer.theory.norms import Mixing, gain, mixing_of
from gossamer.types import Array

LAGS = 32


class Gains(NamedTuple):
    """What one round passes on, for one Z_t."""

    A: Array  # (2m, 2m)
    B: Array  # (2m, m)
    zeta: Array  # (2m, 2m), covariance of what ζ of unit variance adds to (S, Θ)
    theta: Array  # (2m, 2m), likewise ϑ
    tracker_to_consensus: float  # ‖Π_u Z_t⁻¹ C‖ from ‖·‖_C into ‖·‖_R
    e: float  # ‖e_t‖₂, where e_tᵀ = uᵀZ_t⁻¹ − 1ᵀ
    e_through_push: float  # ‖e_tᵀC‖ from ‖·‖_C
    zeta_to_centre: float  # ‖uᵀZ_t⁻¹ off(C)‖²/m²
    theta_to_centre: float  # ‖uᵀ off(R)‖²/m²


class Response(NamedTuple):
    """Norms of A_{t−1} … A_{t−lag} B_{t−1−lag} for lag = 0 … LAGS, in rounds t until nothing changes any more."""

    mixing: Mixing
    gains: list[Gains]
    tracker: Array  # (T, LAGS+1), of the part in S, from ‖·‖_F into ‖·‖_C
    consensus: Array  # (T, LAGS+1), of the part in Θ, into ‖·‖_R
    disagreement: Array  # (T, LAGS+1), into ‖·‖_F
    deviation: Array  # (T, LAGS+1, m), of each learner's row of Θ

    def gains_in(self, t: int) -> Gains:
        return self.gains[min(t, len(self.gains) - 1)]

    def row(self, t: int) -> int:
        return min(t, len(self.tracker) - 1)


@lru_cache(maxsize=8)
def response(network: Network) -> Response:
    mixing = mixing_of(network)
    own = network.own_weights(int(network.settles) + 2)
    steady = np.abs(own / own[-1] - 1).max(axis=1) > 1e-13
    own = own[: int(np.flatnonzero(steady).max(initial=0)) + 2]
    passed = [gains(mixing, z) for z in own]
    rounds = len(passed) + LAGS + 1
    C_root, R_root, m = mixing.norm_C.root, mixing.norm_R.root, mixing.m
    shape = (rounds, LAGS + 1)
    seen = [np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros((*shape, m))]
    impulses = np.zeros((LAGS + 1, 2 * m, m))
    for t in range(1, rounds):
        g = passed[min(t - 1, len(passed) - 1)]
        impulses[1:] = g.A @ impulses[:-1]
        impulses[0] = g.B
        of_s, of_theta = impulses[:, :m], impulses[:, m:]
        seen[0][t] = _largest(C_root @ of_s)
        seen[1][t] = _largest(R_root @ of_theta)
        seen[2][t] = _largest(of_theta)
        seen[3][t] = np.linalg.norm(of_theta, axis=2)
    return Response(mixing, passed, *seen)


def gains(mixing: Mixing, own: Array) -> Gains:
    """`own` is [z_{i,t}]_i of every learner."""
    m = mixing.m
    w = mixing.u / (m * own)
    to_theta = mixing.Pi_u / (m * own)
    zeta = np.vstack([mixing.Pi_omega @ mixing.off_C, -to_theta @ mixing.off_C])
    theta = np.vstack([np.zeros((m, m)), mixing.Pi_u @ mixing.off_R])
    e = w - 1
    return Gains(
        np.block([[mixing.C_bar, np.zeros((m, m))], [-to_theta @ mixing.C, mixing.R_bar]]),
        np.vstack([mixing.Pi_omega, -to_theta]),
        zeta @ zeta.T,
        theta @ theta.T,
        gain(to_theta @ mixing.C, mixing.norm_R, mixing.norm_C),
        float(np.linalg.norm(e)),
        float(np.linalg.norm(e @ mixing.C @ mixing.norm_C.inverse_root)),
        float(np.sum((w @ mixing.off_C) ** 2)) / m**2,
        float(np.sum((mixing.u @ mixing.off_R) ** 2)) / m**2,
    )


def _largest(matrices: Array) -> Array:
    """The spectral norm of each of a stack of matrices."""
    return np.asarray(np.linalg.svd(matrices, compute_uv=False)[:, 0])
