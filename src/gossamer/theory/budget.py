"""Theorem 4 of Chen & Wang with every constant a number: part 1, a budget for T rounds, and part 2, one for ever.

One record of learner i is replaced. With c_C = min_j |C_jj|, c_R = min_j |R_jj| and ‖∇l‖₁ ≤ c_l, its states in the
two worlds differ (in L1, the messages that it receives being the same) by at most

    δs⁺ = (1 − c_C) δs + λ_t G_t
    δθ⁺ = (1 − c_R) δθ + (c_z γ_z^t + 1/u_i)(δs⁺ + δs)

    G_t = 2c_l                                        part 1, (4T3)
    G_t = min(2c_l, (√n L t δθ + 2c_l)/(t+1))         part 2, (4T8)

and ε_i = Σ_{t≥1} δs_t/ν_ζ,t + δθ_t/ν_ϑ,t. The minimum with 2c_l is ours: both bounds hold, and without it δ would grow
exponentially until round T_0.

**Part 2.** With C_3 = min(c_R, c_C)/4 and C_0 = 4/(u_i(c_C − 2C_3)) let V = δθ + (C_0 − 1/u_i) δs. (The paper
prints a minimum of this and 1/u_i; it is the maximum that its next line needs.) Let T_0 be a round
from which on √n L λ_t (c_z γ_z^t + C_0) ≤ c_R/2 and (2 − c_C) c_z γ_z^t ≤ C_0 c_C/2. Both left sides fall with t, so
that what holds once holds for ever, and with it (4333):

    V⁺ ≤ (1 − C_3) V + 2c_l λ_0 (c_z γ_z^t + C_0)/(t+1)^(1+v),

so that V_t ≤ A(t+1)^−(1+v) for ever by the first induction of sequences.py, and the rest of the budget is a sum of
(t+1)^−(1+v−ς), finite if ς < v. The paper's C_4 takes Lemma 12 from round 0 on, where (4333) need not hold, and has
2/(1 − C_3) where that lemma has 2/C_3; ours is the number with V_t ≤ C_4 · 2c_l C_0 λ_t/(t+1) in every round.

These are the theorem's numbers, for comparison: the accountant's own recursion (docs/privacy.md) is smaller by far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gossamer.errors import BadValue, GossamerError
from gossamer.theory.eigenvector import lemma2
from gossamer.theory.problem import Problem
from gossamer.theory.sequences import power_sum, steady_tail

ROUNDS_AT_MOST = 10**9  # a pass of some seconds


@dataclass(frozen=True)
class Theorem4:
    """The budget of one learner, each of its messages noised with Laplace noise of scale ν_0/(t+1)^ς."""

    problem: Problem
    c_l: float  # ‖∇l‖₁ ≤ c_l, Assumption 5
    n: int  # parameters
    learner: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.c_l) and self.c_l > 0):
            raise BadValue("c_l", self.c_l, "expected a finite bound above 0 on ‖∇l‖₁", python=f"c_l={self.c_l}")
        if self.n < 1:
            raise BadValue("n", self.n, "expected at least 1 parameter", python=f"n={self.n}")
        if not 0 <= self.learner < self.problem.network.m:
            requirement = f"expected a learner from 0 to {self.problem.network.m - 1}"
            raise BadValue("learner", self.learner, requirement, python=f"learner={self.learner}")
        if min(self.problem.noise_s, self.problem.noise_theta) == 0:
            raise GossamerError("a message without noise has no budget: expected noise_s and noise_theta above 0.")

    @property
    def scales(self) -> tuple[float, float]:
        """ν_ζ and ν_ϑ in round 0: E‖ζ‖² = 2nν²."""
        root = math.sqrt(2 * self.n)
        return self.problem.noise_s / root, self.problem.noise_theta / root

    @property
    def u(self) -> float:
        return float(self.problem.network.perron[self.learner])

    @property
    def c_C(self) -> float:
        return float(np.abs(self.problem.network.rows().C_ii).min())

    @property
    def c_R(self) -> float:
        return float(np.abs(self.problem.network.rows().R_ii).min())

    @property
    def C_3(self) -> float:
        return min(self.c_R, self.c_C) / 4

    @property
    def C_0(self) -> float:
        return 4 / (self.u * (self.c_C - 2 * self.C_3))

    @cached_property
    def T_0(self) -> int:
        """The first round from which (4333) holds for ever; each condition, once true, stays true."""
        c_z, gamma_z, _ = lemma2(self.problem.network)
        p, keep = self.problem, 1 - self.C_3

        def holds(t: int) -> bool:
            fading = c_z * gamma_z**t
            moved = math.sqrt(self.n) * p.L * p.step * (t + 1.0) ** -p.v * (fading + self.C_0)
            survives = ((t + 1) / (t + 2)) ** (1 + p.v) > keep + self.C_3 / 2
            return moved <= self.c_R / 2 and (2 - self.c_C) * fading <= self.C_0 * self.c_C / 2 and survives

        above = 1
        while not holds(above):
            above *= 2
        below = above // 2
        while above - below > 1:
            middle = (above + below) // 2
            below, above = (below, middle) if holds(middle) else (middle, above)
        return above

    def part1(self, rounds: int) -> float:
        """ε_i of rounds 1 … rounds by (4T3) and (4T6): grows without end, like Σ t^(ς−v)."""
        return self._pass(rounds + 1, capped=False)[2]

    def part2(self) -> float:
        """ε_i for ever; ∞ where ς ≥ v, which Assumption 4 excludes."""
        p, A = self.problem, self._A
        if max(p.exponent_s, p.exponent_theta) >= p.v:
            return math.inf
        nu_s, nu_theta = self.scales
        rest = power_sum(1 + p.v - p.exponent_theta, self.T_0) / nu_theta
        rest += power_sum(1 + p.v - p.exponent_s, self.T_0) / (nu_s * self._weight)
        return self._pass(self.T_0, capped=True)[2] + A * rest

    @cached_property
    def C_4(self) -> float:
        """V_t ≤ C_4 · 2c_l C_0 λ_t/(t+1) in every round."""
        largest = max(self._A, self._pass(self.T_0, capped=True)[3])
        return largest / (2 * self.c_l * self.C_0 * self.problem.step)

    @property
    def _weight(self) -> float:
        return self.C_0 - 1 / self.u

    @cached_property
    def _A(self) -> float:
        """V_t ≤ A(t+1)^−(1+v) from T_0 on."""
        c_z, gamma_z, _ = lemma2(self.problem.network)
        p, T = self.problem, self.T_0
        s, theta, _, _ = self._pass(T, capped=True)
        b = 2 * self.c_l * p.step * (c_z * gamma_z**T + self.C_0)
        return steady_tail(theta + self._weight * s, 1 - self.C_3, b, 1 + p.v, T)

    def _pass(self, rounds: int, capped: bool) -> tuple[float, float, float, float]:
        from gossamer.theory.compiled import sensitivities_until  # only now: numba takes long to load

        if rounds > ROUNDS_AT_MOST:
            raise GossamerError(
                f"Theorem 4 holds from round {rounds:.2g} on, expected at most {ROUNDS_AT_MOST:.0e}: "
                "a smaller step, L or n brings it nearer."
            )
        c_z, gamma_z, _ = lemma2(self.problem.network)
        p = self.problem
        found = sensitivities_until(
            rounds, 1 - self.c_C, 1 - self.c_R, p.step, p.v, c_z, gamma_z, 1 / self.u, math.sqrt(self.n) * p.L,
            self.c_l, capped, (p.exponent_s, p.exponent_theta), self.scales, self._weight,
        )  # fmt: skip
        return tuple(map(float, found))  # type: ignore[return-value]


def budget_bound(problem: Problem, c_l: float, n: int, learner: int) -> Theorem4:
    """Theorem 4 for one learner (counted from 0): .part1(rounds), .part2(), and C_0, C_3, C_4, T_0."""
    return Theorem4(problem, float(c_l), n, learner)
