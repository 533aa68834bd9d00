"""What the powers of I+R tend to: the Perron vector, and when mixing has settled."""

from __future__ import annotations

import math

import numpy as np
import scipy

from gossamer.types import Array

ITERATIONS = 3000  # a network whose gap is 0.02 or more has settled by then
DENSE_UP_TO = 1024  # below this, dense linear algebra is faster and surer than Arnoldi iterations


def perron(R: scipy.sparse.csr_array) -> Array:
    """The left eigenvector u of I+R for eigenvalue 1, uᵀ1 = m (Lemma 1)."""
    m = R.shape[0]
    if m <= DENSE_UP_TO:
        u = _stationary(R.toarray())
    else:
        found = _iterated(R)
        u = _solved(R) if found is None else found
    return np.asarray(u * (m / u.sum()), dtype=float)


def _iterated(R: scipy.sparse.csr_array) -> Array | None:
    """u by u ← (I+R)ᵀ u, which only adds numbers above 0; None where mixing is too slow to wait for.

    It ends when no entry moves by more than 2^-50 of itself, or when the largest such move no longer shrinks.
    """
    pushed = scipy.sparse.csr_array(R.T + scipy.sparse.eye_array(R.shape[0]))
    u, least, since = np.ones(R.shape[0]), math.inf, 0
    for _ in range(ITERATIONS):
        further = pushed @ u
        moved = float(np.abs(further / u - 1).max())
        u = further
        least, since = (moved, 0) if moved < least / 2 else (least, since + 1)
        if moved <= 2.0**-50 or (moved <= 2.0**-44 and since > 20):
            return np.asarray(u)
    return None


def _solved(R: scipy.sparse.csr_array) -> Array:
    """With u_m = 1 the others solve a system whose matrix is a nonsingular M-matrix; quick where links are local."""
    from scipy.sparse.linalg import splu

    last = R.T.tocsr()[:-1, [-1]].toarray().ravel()
    return np.append(splu(scipy.sparse.csc_array(-R.T)[:-1, :-1].tocsc()).solve(last), 1.0)


def _stationary(R: Array) -> Array:
    """Grassmann, Taksar & Heyman's elimination (Oper. Res. 1985): no subtraction, so every entry has full precision."""
    M = R.copy()
    m = len(M)
    for k in range(m - 1, 0, -1):
        M[:k, k] /= M[k, :k].sum()
        M[:k, :k] += np.outer(M[:k, k], M[k, :k])
    u = np.ones(m)
    for k in range(1, m):
        u[k] = u[:k] @ M[:k, k]
        if u[k] > 1e200:
            u[: k + 1] /= u[k]
    return u


def settling_round(R: scipy.sparse.csr_array) -> float:
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


def diagonal_of_powers(R: scipy.sparse.csr_array, steps: int) -> Array:
    """(steps + 1, m): the diagonal of (I+R)^t for t = 0 … steps."""
    m = R.shape[0]
    power, diagonals = np.eye(m), np.empty((steps + 1, m))
    keeps = 1 + R.diagonal()[:, None]
    off = scipy.sparse.csr_array(R - scipy.sparse.diags_array(R.diagonal()))
    for t in range(steps + 1):
        diagonals[t] = power.diagonal()
        power = keeps * power + off @ power  # as a learner computes z, (9): where 1 + R_ii is small, (I + R) z is not
    return diagonals


def _settled(power: Array) -> bool:
    top = power.max(axis=0)
    return bool((top - power.min(axis=0) <= top * 2.0**-48).all())
