"""Lemma 2 of Chen & Wang with its constants: |1/(m[z_{i,t}]_i) − 1/u_i| ≤ c_z γ_z^t for all learners i and all t ≥ 0.

[z_{i,t}]_i is the i-th diagonal entry of (I+R)^t, and (I+R)^t = 1uᵀ/m + R̄^t for t ≥ 1. In the norm ‖·‖_R, in which R̄
contracts by γ_z = 1 − ρ_R,

    |m[z_{i,t}]_i − u_i| = m |e_iᵀ R̄^t e_i| ≤ m k_i γ_z^t        with k_i = ‖root⁻¹ e_i‖₂ ‖root e_i‖₂.

From the round T on in which m k_i γ_z^T ≤ u_i/4 this gives |1/(m z) − 1/u_i| ≤ m k_i γ_z^t / (u_i · ¾u_i), for ever. The
rounds before T are computed one by one. So c_z is certified for all t, and not only for those that were looked at.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gossamer.networks import Network
from gossamer.theory.norms import mixing_of
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
    u, m, gamma = mixing.u, mixing.m, max(mixing.norm_R.factor, LEAST)
    k = np.linalg.norm(mixing.norm_R.inverse_root, axis=0) * np.linalg.norm(mixing.norm_R.root, axis=0)
    first = math.ceil(math.log((u / (4 * m * k)).min()) / math.log(gamma))
    exact_until = max(first, 1)
    proved = (m * k / (0.75 * u**2)).max()
    measured = _gaps(network, u, exact_until) * gamma ** -np.arange(exact_until)
    return Lemma2(float(max(proved, measured.max())), gamma, exact_until)


def _gaps(network: Network, u: Array, rounds: int) -> Array:
    """max_i |1/(m[z_{i,t}]_i) − 1/u_i| in rounds 0, 1, …, with what rounding may have hidden."""
    share = 1 / (network.m * network.own_weights(rounds))
    return np.asarray((np.abs(share - 1 / u) + ROUNDING * share).max(axis=1))
