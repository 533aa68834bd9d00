"""What the eigenvalues of I+R say: the Perron vector, how fast values mix, and when mixing has settled."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import eigs

from gossamer.types import Array

DENSE_UP_TO = 1024  # below this, dense linear algebra is faster and surer than Arnoldi iterations


def perron(R: csr_array) -> Array:
    """The left eigenvector u of I+R for eigenvalue 1, uᵀ1 = m (Lemma 1)."""
    m = R.shape[0]
    if m <= DENSE_UP_TO:
        equations = np.vstack([R.toarray().T, np.ones((1, m))])
        u = np.linalg.lstsq(equations, np.append(np.zeros(m), m), rcond=None)[0]
    else:
        _, vectors = eigs((R + eye_array(m)).T, k=1, which="LM", v0=np.ones(m), tol=1e-14)
        u = np.real(vectors[:, 0])
        u = u * (m / u.sum())
    return np.asarray(u, dtype=float)


def spectral_gap(R: csr_array) -> float:
    """1 − |λ₂(I+R)|: the share of disagreement that one round of mixing removes in the long run."""
    m = R.shape[0]
    if m <= DENSE_UP_TO:
        values = np.linalg.eigvals(R.toarray() + np.eye(m))
    else:
        values = eigs(R + eye_array(m), k=2, which="LM", v0=np.linspace(1, 2, m), return_eigenvectors=False, tol=1e-10)
    return float(1 - np.sort(np.abs(values))[-2])


def settling_round(R: csr_array) -> float:
    """The first round t at which the rows of (I+R)^t agree to within 2^-48, relatively; ∞ where that costs too much.

    The spread of a column of (I+R)^t never grows with t (each row of I+R is an average), so from this round on
    the eigenvector estimates z no longer move in float64: a function of the public graph alone, known beforehand.
    Found by squaring up to a settled power and then adding the smaller powers back, largest first.
    """
    m = R.shape[0]
    if m > DENSE_UP_TO:
        return math.inf
    powers = [R.toarray() + np.eye(m)]
    while not _settled(powers[-1]):
        if len(powers) > 40:
            return math.inf
        powers.append(powers[-1] @ powers[-1])
    if len(powers) == 1:
        return 1
    unsettled, exponent = powers[-2], 1 << (len(powers) - 2)
    for k in range(len(powers) - 3, -1, -1):
        further = unsettled @ powers[k]
        if not _settled(further):
            unsettled, exponent = further, exponent + (1 << k)
    return exponent + 1


def diagonal_of_powers(R: csr_array, steps: int) -> Array:
    """(steps + 1, m): the diagonal of (I+R)^t for t = 0 … steps."""
    m = R.shape[0]
    power, found = np.eye(m), np.empty((steps + 1, m))
    for t in range(steps + 1):
        found[t] = power.diagonal()
        power = power + R @ power  # as z does, (9)
    return found


def _settled(power: Array) -> bool:
    top = power.max(axis=0)
    return bool((top - power.min(axis=0) <= top * 2.0**-48).all())
