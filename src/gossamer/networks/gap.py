"""The spectral gap: how fast learners come together. Exact where that is quick, otherwise an estimate that says so.

Eigenvalues of a large random network crowd at the edge of a disc, and those of a long ring near 1. Iterations that look
for one eigenvalue do not end there. What values do is simple all the same: after k rounds what learners disagree about,
(I+R − 1uᵀ/m)^k x, has shrunk to about |λ₂|^k of what it was, also where λ₂ is complex and its direction turns. So an
estimate plays rounds of mixing and measures that. They are as many as a given amount of work allows.

Where few rounds say another rate than many, what mixes most slowly is not to be seen yet. What is seen is faster: the
gap is the estimate or less.

**What may rest on it.** No proof. Rules wait 3/gap rounds, a tenth of the run at most: before moments are used, before
the first release with pair secrets, after the last one. Rules weigh with it how much noise pairs add, and how far apart
releases lie. All of these are choices, public before the run, and ε is accounted for whatever was chosen. An estimate
above the gap costs accuracy: noise has mixed less than the rule took for granted. One below it costs rounds. Bounds
that do need the gap, such as Theorem 4's, take an exact one alone.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy

from gossamer.networks.spectrum import DENSE_UP_TO
from gossamer.types import Array

SURELY_UP_TO = 1536  # learners up to which all eigenvalues are found where iterations do not end: some seconds
ARNOLDI, MIXING = 2 * 10**8, 5 * 10**8  # multiplications, about: a few seconds in all
VECTORS = 20  # of Arnoldi's iterations
STARTS = 3  # of mixing
FEWEST, MOST = 64, 2000  # rounds of mixing
AGREE = 1.2  # rates that are not farther apart say the same


@dataclass(frozen=True)
class Gap:
    """1 − |λ₂(I+R)|, and how sure that is."""

    value: float
    known: Literal["exactly", "about", "at most about"] = "exactly"

    @property
    def exact(self) -> bool:
        return self.known == "exactly"

    @property
    def above(self) -> bool:
        """Whether the gap may be well below the value."""
        return self.known == "at most about"

    @property
    def notes(self) -> list[str]:
        """What a run by rules says of an estimate."""
        if self.exact:
            return []
        return [
            f"The network's spectral gap, {self}, is an estimate. Rules that wait for mixing take it; no ε rests on it."
        ]

    def __str__(self) -> str:
        if self.exact:
            return f"{self.value:.4f}" if self.value >= 0.001 else f"{self.value:.2g}"
        return f"about {self.value:g}" + " or less" * self.above


def gap_of(R: scipy.sparse.csr_array, u: Array) -> Gap:
    """The gap of I+R, whose left Perron vector is u."""
    m = R.shape[0]
    second = _by_arnoldi(R) if m > DENSE_UP_TO else None
    if second is None and m <= SURELY_UP_TO:
        second = _second(np.linalg.eigvals(R.toarray() + np.eye(m)))
    return estimated(R, u) if second is None else Gap(max(0.0, 1 - second))


def _by_arnoldi(R: scipy.sparse.csr_array) -> float | None:
    """|λ₂|; None where it is not found in time."""
    from scipy.sparse.linalg import ArpackError, eigs

    m = R.shape[0]
    restarts = ARNOLDI // (VECTORS * (R.nnz + 2 * VECTORS * m))
    P, start = R + scipy.sparse.eye_array(m), np.linspace(1, 2, m)
    asked: dict[str, Any] = {"k": 2, "which": "LM", "v0": start, "return_eigenvectors": False}
    with contextlib.suppress(ArpackError):
        if restarts:
            return _second(eigs(P, ncv=VECTORS, tol=1e-10, maxiter=min(restarts, 200), **asked))
    return None


def _second(values: Any) -> float:
    return float(np.sort(np.abs(values))[-2])


def estimated(R: scipy.sparse.csr_array, u: Array) -> Gap:
    """From how much smaller disagreement becomes in the later half of some rounds, and whether it did so before.

    The first digits of a rate are what such rounds tell, so two are kept: they are the same on every machine.
    """
    rounds = int(np.clip(MIXING // (STARTS * R.nnz), FEWEST, MOST)) // 4 * 4
    shrunk = _disagreement(R, u, rounds)
    quarter, half = shrunk[rounds // 4], shrunk[rounds // 2]
    early, late = ((a - b).mean() / n for a, b, n in ((quarter, half, rounds // 4), (half, shrunk[-1], rounds // 2)))
    value = float(f"{-np.expm1(-max(late, 0.0)):.2g}")
    return Gap(value, "about" if early <= AGREE * late else "at most about")


def _disagreement(R: scipy.sparse.csr_array, u: Array, rounds: int) -> Array:
    """(rounds + 1, starts): the logarithm of what learners disagree about, from values drawn at random."""
    P = scipy.sparse.csr_array(R + scipy.sparse.eye_array(R.shape[0]))
    x = np.random.default_rng(0).normal(size=(R.shape[0], STARTS))
    logs = np.zeros((rounds + 1, STARTS))
    for t in range(rounds + 1):
        x -= u @ x / len(u)  # what all agree on stays, and rounding brings some of it back
        size = np.sqrt(np.einsum("ij,ij->j", x, x)) + np.finfo(float).tiny
        logs[t] = np.log(size) + (logs[t - 1] if t else 0.0)
        x = P @ (x / size)
    return logs
