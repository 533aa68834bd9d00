"""Norms in which one round of mixing contracts (Chen & Wang, Lemmas 3 to 5), constructed and not only known to exist.

For a matrix M of spectral radius r < 1 and any γ in (r, 1) the discrete Lyapunov equation

    P = I + (M/γ)ᵀ P (M/γ)          has the solution          P = Σ_k (M/γ)^kᵀ (M/γ)^k ⪰ I,

and in ‖x‖ = √(xᵀPx) the matrix contracts: ‖Mx‖² = γ²(‖x‖² − ‖x‖₂²) < γ²‖x‖². γ near r contracts as fast as Lemma 3
says, at the price of an ill-conditioned P. What a bound pays in the end is √cond(P)/(1 − ‖M‖): we take the γ of a
small grid for which that is least.

A norm of vectors with one entry for each learner is applied to matrices (m, n) column by column, as in the paper's
definition after Lemma 3: ‖X‖² = tr(XᵀPX). Every induced norm of a matrix is then the same for all n.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy

from gossamer.errors import GossamerError
from gossamer.networks import Network
from gossamer.types import Array

LEARNERS_UP_TO = 1024  # the bounds work with dense (m, m) matrices
TRIED = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # γ = r + share·(1 − r)


@dataclass(frozen=True)
class Norm:
    """‖x‖ = √(xᵀPx) = ‖root x‖₂, in which the matrix that it was made for has norm `factor` = 1 − ρ."""

    P: Array
    factor: float

    @property
    def rho(self) -> float:
        return 1 - self.factor

    @cached_property
    def root(self) -> Array:
        """The paper's R̃ (or C̃): the symmetric square root of P."""
        values, vectors = np.linalg.eigh(self.P)
        return np.asarray((vectors * np.sqrt(values)) @ vectors.T)

    @cached_property
    def inverse_root(self) -> Array:
        values, vectors = np.linalg.eigh(self.P)
        return np.asarray((vectors / np.sqrt(values)) @ vectors.T)

    @cached_property
    def to_frobenius(self) -> float:
        """δ_{F,·}, the least number with ‖X‖_F ≤ δ ‖X‖."""
        return float(np.linalg.eigvalsh(self.P)[0] ** -0.5)

    @cached_property
    def from_frobenius(self) -> float:
        """δ_{·,F}, the least number with ‖X‖ ≤ δ ‖X‖_F."""
        return float(np.linalg.eigvalsh(self.P)[-1] ** 0.5)

    def of(self, X: Array) -> float:
        return float(np.linalg.norm(self.root @ X))

    @staticmethod
    def euclidean(m: int) -> Norm:
        return Norm(np.eye(m), 1.0)


def gain(M: Array, into: Norm, out_of: Norm) -> float:
    """The least number with ‖MX‖_into ≤ gain · ‖X‖_out_of for all X: exact, by a singular value."""
    return float(np.linalg.norm(into.root @ M @ out_of.inverse_root, 2))


def contracting(M: Array) -> Norm:
    """A norm in which M contracts, for M of spectral radius below 1."""
    radius = float(np.abs(np.linalg.eigvals(M)).max())
    if radius >= 1:
        raise GossamerError(f"a matrix of spectral radius {radius:g} contracts in no norm: expected below 1.")
    made = [_lyapunov(M, radius + share * (1 - radius)) for share in TRIED]
    return min(made, key=lambda norm: norm.from_frobenius * norm.to_frobenius / norm.rho if norm.rho > 0 else np.inf)


def _lyapunov(M: Array, gamma: float) -> Norm:
    P = scipy.linalg.solve_discrete_lyapunov(M.T / gamma, np.eye(len(M)))
    norm = Norm(np.asarray((P + P.T) / 2), 1.0)
    return Norm(norm.P, gain(M, norm, norm) * (1 + 1e-12))  # measured, not γ: rounding in P then costs nothing


@dataclass(frozen=True)
class Mixing:
    """A network as dense matrices, with the vectors and norms that the theorems use."""

    R: Array
    C: Array
    u: Array  # uᵀ(I+R) = uᵀ, uᵀ1 = m
    omega: Array  # (I+C)ω = ω, 1ᵀω = m

    @property
    def m(self) -> int:
        return len(self.u)

    @cached_property
    def R_bar(self) -> Array:
        """I + R − 1uᵀ/m: what one round of pulling does to disagreement."""
        return np.asarray(np.eye(self.m) + self.R - np.outer(np.ones(self.m), self.u) / self.m)

    @cached_property
    def C_bar(self) -> Array:
        """I + C − ω1ᵀ/m: what one round of pushing does to s − ωs̄."""
        return np.asarray(np.eye(self.m) + self.C - np.outer(self.omega, np.ones(self.m)) / self.m)

    @cached_property
    def off_R(self) -> Array:
        return self.R - np.diag(np.diag(self.R))

    @cached_property
    def off_C(self) -> Array:
        return self.C - np.diag(np.diag(self.C))

    @cached_property
    def Pi_u(self) -> Array:
        return np.asarray(np.eye(self.m) - np.outer(np.ones(self.m), self.u) / self.m)

    @cached_property
    def Pi_omega(self) -> Array:
        return np.asarray(np.eye(self.m) - np.outer(self.omega, np.ones(self.m)) / self.m)

    @cached_property
    def norm_R(self) -> Norm:
        """‖·‖_R."""
        return contracting(self.R_bar)

    @cached_property
    def norm_C(self) -> Norm:
        """‖·‖_C."""
        return contracting(self.C_bar)


@lru_cache(maxsize=8)
def mixing_of(network: Network) -> Mixing:
    if network.m > LEARNERS_UP_TO:
        raise GossamerError(
            f"bounds for {network.m} learners: expected at most {LEARNERS_UP_TO}, since they take dense matrices."
        )
    R, C = _dense(network.R), _dense(network.C)
    conditions = np.vstack([C, np.ones(network.m)])  # Cω = 0 and 1ᵀω = m: unique by Assumption 1
    omega = np.linalg.lstsq(conditions, np.append(np.zeros(network.m), network.m), rcond=None)[0]
    return Mixing(R, C, np.asarray(network.perron), omega)


def _dense(M: Any) -> Array:
    dense: Array = M if isinstance(M, np.ndarray) else M.toarray()
    return dense
