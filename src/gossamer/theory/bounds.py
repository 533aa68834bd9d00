"""What the theorems promise for one problem, as numbers that hold in every round.

    b = bounds(problem)
    b.squared_error([10, 100, 1000])     # E‖θ_{i,t} − θ*‖² is at most this, for every learner

Up to `rounds` the numbers come from one pass over the rounds (moments.py), after that from powers of t that survive
every further step (tail.py). Where the paper's own proof does not hold, what is here is what can be proved;
docs/errata.md says what differs and why.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gossamer.errors import GossamerError
from gossamer.theory.convex import ConvexGap
from gossamer.theory.eigenvector import lemma2
from gossamer.theory.moments import Moments, moments
from gossamer.theory.norms import Mixing
from gossamer.theory.problem import Problem
from gossamer.theory.response import response
from gossamer.theory.tail import Tail, tail
from gossamer.types import Array


@dataclass(frozen=True)
class Bounds:
    """Upper bounds on expectations in round t ≥ 0; every method takes one round or an array of rounds."""

    problem: Problem
    rounds: int
    everywhere: bool
    moments: Moments

    @property
    def mixing(self) -> Mixing:
        """The norms ‖·‖_R and ‖·‖_C with ρ_R, ρ_C and the δ of Lemma 5, u and ω."""
        return response(self.problem.network).mixing

    @cached_property
    def lemma2(self) -> tuple[float, float]:
        """(c_z, γ_z)."""
        return lemma2(self.problem.network)[:2]

    @cached_property
    def beta(self) -> float:
        """E‖θ_{i,t} − θ*‖² falls at least like t^−β by these bounds: min(1, 2v, 2ς_ζ − v, 2ς_ϑ − v)."""
        p = self.problem
        return min(1.0, 2 * p.v, 2 * p.exponent_s - p.v, 2 * p.exponent_theta - p.v)

    @cached_property
    def tail(self) -> Tail | None:
        return tail(self.problem, self.moments, self.rounds, self.everywhere)

    def tracker(self, t: Any) -> Array:
        """Lemma 7: E‖s_t − ωs̄_t‖_C²."""
        return self._of(t, self.moments.tracker, "tracker") ** 2

    def consensus(self, t: Any) -> Array:
        """Lemma 8: E‖θ_t − 1θ̄_t‖_R²."""
        return self._of(t, self.moments.consensus, "consensus") ** 2

    def disagreement(self, t: Any) -> Array:
        """Lemma 8 in the Frobenius norm, the sum over learners: E‖θ_t − 1θ̄_t‖_F²."""
        return self._of(t, self.moments.disagreement, "disagreement") ** 2

    def squared_error(self, t: Any) -> Array:
        """Theorem 2: E‖θ_{i,t} − θ*‖² of every learner i."""
        self._need_strong_convexity("Theorem 2")
        return self._error(t) ** 2

    def tracking_error(self, t: Any) -> Array:
        """Theorem 1: E‖θ_{i,t} − θ*_t‖², θ*_t the minimiser of the mean loss F_t of the records up to t.

        It follows from Theorem 2, and not the other way round: μ‖θ*_t − θ*‖ ≤ ‖∇F_t(θ*)‖, whose mean square is at
        most κ²/(t+1), because the records are independent and θ* is not random (Lemma 9, four times sharper,
        without (1L4)), where every F_t is μ-strongly convex; otherwise μ‖θ*_t − θ*‖ ≤ ‖∇F(θ*_t) − ∇F_t(θ*_t)‖, of which
        κ has to bound the largest over θ (see Problem).
        """
        self._need_strong_convexity("Theorem 1")
        rounds = np.asarray(t, dtype=float)
        return np.asarray((self._error(t) + self.problem.kappa / self.problem.mu / np.sqrt(rounds + 1)) ** 2)

    def gap(self, t: Any) -> Array:
        """Theorem 2, second part: E[F(θ_{i,t}) − F*]. Since ∇F(θ*) = 0 it is at most (L/2)E‖θ_i − θ*‖²: rate β, not
        β/2.
        """
        self._need_strong_convexity("Theorem 2")
        error = self._error(t)
        quadratic = self.problem.L / 2 * error**2
        return np.minimum(quadratic, self.problem.D * error) if self.everywhere else quadratic

    def convex_gap(self, t: Any) -> Array:
        """Theorem 3: E[F(θ_{i,t}) − F*] for convex F, μ ≥ 0, of the last iterate.

        F(θ_i) ≤ F(θ̄) + ‖∇F(θ̄)‖‖θ_i − θ̄‖ + (L/2)‖θ_i − θ̄‖² and ‖∇F‖² ≤ 2L(F − F*) give (√φ + √(L/2) √E‖θ_i − θ̄‖²)².
        """
        deviation = self._of(t, self.moments.deviation, "deviation")
        at_centre = self._each(t, self._convex.last)
        return (np.sqrt(at_centre) + math.sqrt(self.problem.L / 2) * deviation) ** 2

    def average_gap(self, t: Any) -> Array:
        """E[F(θ̃_t) − F*] of θ̃_t, the mean of θ̄_0 … θ̄_t with weights λ_k (λ_k(2 − λ_kL) where λ_k > 1/L): t ≤
        rounds.
        """
        self._within(t)
        return self._each(t, self._convex.average)

    @cached_property
    def _convex(self) -> ConvexGap:
        half = self.rounds // 2  # the proof looks back from t to t/2
        later = tail(self.problem, self.moments, half, self.everywhere)
        return ConvexGap(self.problem, self.moments, self.everywhere, self.tail, later)

    def _error(self, t: Any) -> Array:
        """√E‖θ_i − θ*‖² ≤ √E‖θ_i − θ̄‖² + √E‖θ̄ − θ*‖²."""
        return self._of(t, self.moments.deviation, "deviation") + self._of(t, self.moments.centre, "centre")

    def _of(self, t: Any, seen: Array, name: str) -> Array:
        def in_round(k: int) -> float:
            if k <= self.rounds:
                return float(seen[k])
            return getattr(self.tail, name)(k) if self.tail is not None else math.inf

        return self._each(t, in_round)

    def _each(self, t: Any, bound: Callable[[int], float]) -> Array:
        rounds = np.asarray(t)
        if not np.all((rounds >= 0) & (rounds == np.floor(rounds))):
            raise GossamerError(f"a bound in round {t}: expected whole rounds ≥ 0.")
        return np.array([bound(int(k)) for k in rounds.ravel()]).reshape(rounds.shape)

    def _within(self, t: Any) -> None:
        if np.max(t) > self.rounds:
            raise GossamerError(f"a bound in round {np.max(t)}: expected at most rounds = {self.rounds}; raise it.")

    def _need_strong_convexity(self, theorem: str) -> None:
        if self.problem.mu == 0:
            raise GossamerError(f"{theorem} needs a strongly convex F, and μ = 0: use convex_gap, which is Theorem 3.")


def bounds(problem: Problem, rounds: int = 2000, *, everywhere: bool = False) -> Bounds:
    """The bounds of Lemmas 7 and 8 and Theorems 1 to 3; computed up to `rounds`, and as a power of t after them.

    `everywhere` says that D bounds every ∇f_i at all θ, as the paper's Assumption 2(ii) has it. No strongly convex
    F on all of R^n allows that: say so only where the region is known, or for convex F. Otherwise D is needed at θ*
    alone, and L does the rest.
    """
    if rounds < 1:
        raise GossamerError(f"bounds over {rounds} rounds: expected at least 1.")
    return Bounds(problem, rounds, everywhere, moments(problem, rounds, everywhere))
