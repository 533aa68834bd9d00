"""Lemma 2 of Chen & Wang with its constants: |1/(m[z_{i,t}]_i) − 1/u_i| ≤ c_z γ_z^t for all learners i and all t ≥ 0.

[z_{i,t}]_i is the i-th diagonal entry of (I+R)^t, and (I+R)^t = 1uᵀ/m + R̄^t for t ≥ 1. In the norm ‖·‖_R, in which R̄
contracts by γ_z = 1 − ρ_R,

    |m[z_{i,t}]_i − u_i| = m |e_iᵀ R̄^(t−T) R̄^T e_i| ≤ m k_i γ_z^t     for t ≥ T,
    k_i = ‖root⁻¹e_i‖₂ ‖root R̄^T e_i‖₂ γ_z^−T.

From a round T on in which m k_i γ_z^T ≤ u_i/4 this gives |1/(m z) − 1/u_i| ≤ m k_i γ_z^t / (u_i · ¾u_i), for ever.
The rounds before T are computed one by one. So c_z is certified for all t, and not only for those that were looked
at. Of several T the one with the smallest c_z is kept.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gossamer.networks import Network
from gossamer.theory.norms import Mixing, mixing_of
from gossamer.types import Array

ROUNDING = 1e-12  # of 1/(m z), relative to its size: more than the few hundred products before T can lose
LEAST = 1e-3  # a γ_z below would gain nothing, and powers of it leave float64


class Lemma2(NamedTuple):
    c_z: float
    gamma_z: float
    exact_until: int  # before this round c_z was measured, from it on it is proved


@lru_cache(maxsize=8)
def lemma2(network: Network) -> Lemma2:
    """(c_z, γ_z) of Lemma 2, true in every round."""
    mixing = mixing_of(network)
    gamma, T = max(mixing.norm_R.factor, LEAST), 1
    found: Lemma2 | None = None
    while found is None or gamma**T > ROUNDING**0.5:
        fading, proved = _from_round(mixing, gamma, T)
        measured = float((_gaps(network, mixing.u, T) * gamma ** -np.arange(T)).max())
        if fading and (found is None or max(proved, measured) < found.c_z):
            found = Lemma2(max(proved, measured), gamma, T)
        T *= 2
    return found


def _from_round(mixing: Mixing, gamma: float, T: int) -> tuple[bool, float]:
    """Whether m k_i γ^T ≤ u_i/4 for all i, and the c_z that then holds from T on."""
    u, root, inverse = mixing.u, mixing.norm_R.root, mixing.norm_R.inverse_root
    left = root @ np.linalg.matrix_power(mixing.R_bar, T)
    error = mixing.m * np.linalg.norm(inverse, axis=0) * np.linalg.norm(left, axis=0) + ROUNDING * u
    return bool(np.all(error <= u / 4)), float((error / (0.75 * u**2)).max() * gamma**-T)


def _gaps(network: Network, u: Array, rounds: int) -> Array:
    """max_i |1/(m[z_{i,t}]_i) − 1/u_i| in rounds 0, 1, …, with what rounding may have hidden."""
    share = 1 / (network.m * network.own_weights(rounds))
    return np.asarray((np.abs(share - 1 / u) + ROUNDING * share).max(axis=1))
