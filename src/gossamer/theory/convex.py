"""Theorem 3 without its step that fails: how large F(θ̄_t) − F* can be in mean where F is convex with L-Lipschitz
gradient.

The paper bounds the λ-weighted mean of all earlier gaps, and then says that each of them is at least the last. It
need not be: E[F − F*] can rise. What its argument does prove is a bound for the mean (`average_gap`). For the last
iterate there are two proofs, and a bound may use the smaller. In both, θ̄⁺ = θ̄ − λ∇F(θ̄) − b + ν with E‖b‖² ≤ p²,
E‖ν‖² = n, ν fresh and of mean zero (moments.py), x_t ≥ E‖θ̄_t − θ*‖² and φ_t = E[F(θ̄_t) − F*].

**Descent.** With z = Lλ ≤ 1, F(θ̄⁺) ≤ F − λ(1 − z/2)‖∇F‖² + (1 − z)‖∇F‖‖b‖ + (L/2)(‖b‖² + ‖ν‖²) in mean. Half of
the first term pays for the second by Young's inequality. The other half is at least λ(1 − z/2)/2 · φ²/x, because φ
≤ E[‖∇F‖‖θ̄ − θ*‖] and by Cauchy and Schwarz. Hence φ⁺ ≤ φ − λ(1 − z/2)φ²/(2x) + ((1 − z)²/(2λ(1 − z/2)) + L/2)p² +
(L/2)n: rate min(1 − v, ς − v/2).

**Earlier iterates as goals** (Shamir & Zhang, "Stochastic gradient descent for non-smooth optimization", ICML
2013). For any earlier iterate y = θ̄_j, expanding ‖θ̄⁺ − y‖² and convexity give

    2λ_t E[F(θ̄_t) − F(y)] ≤ E‖θ̄_t − y‖² − E‖θ̄_{t+1} − y‖² + 2p_t(d + λ_t g_t) + λ_t²g_t² + p_t² + n_t,

g_t ≥ √E‖∇F(θ̄_t)‖², d ≥ √E‖θ̄_t − y‖². Summed over t = T−k … T with y = θ̄_{T−k} this is W_k ≥ Σ_t E[F(θ̄_t) −
F(θ̄_{T−k})]. With S_k the mean of φ over those rounds, S_{k−1} ≤ S_k + W_k/(k(k+1)), so φ_T ≤ S_K + Σ_{k≤K}
W_k/(k(k+1)): rate 1 − v, times a logarithm.
"""

from __future__ import annotations

import math

import numpy as np

from gossamer.theory.moments import Moments
from gossamer.theory.problem import Problem
from gossamer.theory.tail import Tail
from gossamer.types import Array


class ConvexGap:
    """Bounds on E[F(θ̄_t) − F*] in the rounds that `seen` covers, and after them where there is a tail."""

    def __init__(self, problem: Problem, seen: Moments, everywhere: bool, now: Tail | None, half: Tail | None) -> None:
        """`now` is the tail from the last round of `seen` on, `half` the one from its middle on."""
        self._L, self._problem, self._now, self._half = problem.L, problem, now, half
        self._rounds = len(seen.centre) - 1
        self._lam = problem.step * np.arange(1, self._rounds + 2) ** -problem.v
        self._x, self._p, self._n = seen.centre**2, seen.push, seen.fresh
        slope = problem.L * seen.centre  # √E‖∇F(θ̄)‖², since ∇F(θ*) = 0
        self._slope = np.minimum(slope, problem.D) if everywhere else slope
        self._descent = self._descend()

    def last(self, t: int) -> float:
        """φ_t."""
        if t <= self._rounds:
            return min(float(self._descent[t]), self._earlier_goals(t))
        return min(self._descent_later(t), self._earlier_goals_later(t))

    def average(self, t: int) -> float:
        """E[F(θ̃) − F*] of the mean θ̃ of θ̄_0 … θ̄_t with weights λ'_k: what the paper's proof of Theorem 3 shows.

        2λ'_k φ_k ≤ x_k − x_{k+1} + 2√x_k p_k + p_k² + n_k, where λ' = λ min(1, 2 − λL): for λ > 1/L some of the gap
        is needed to pay for λ²‖∇F‖² ≤ 2Lλ²(F − F*). Rounds with λ ≥ 2/L count for nothing, and what they add to x
        is known.
        """
        counted = np.flatnonzero(self._weights[: t + 1] > 0)
        if not len(counted) or math.isinf(self._x[t]):
            return math.inf
        k = slice(int(counted[0]), t + 1)
        gained = 2 * np.sqrt(self._x[k]) * self._p[k] + self._p[k] ** 2 + self._n[k]
        return float((self._x[k.start] + gained.sum()) / (2 * self._weights[k].sum()))

    @property
    def _weights(self) -> Array:
        return np.asarray(self._lam * np.clip(2 - self._lam * self._L, 0.0, 1.0))

    def _descend(self) -> Array:
        phi = self._L / 2 * self._x  # F − F* ≤ (L/2)‖θ̄ − θ*‖²
        for t in range(self._rounds):
            lam, z = self._lam[t], self._lam[t] * self._L
            if z > 1 or not 0 < phi[t] < math.inf:
                continue
            paid = lam * (1 - z / 2) / 2 * phi[t] ** 2 / self._x[t]
            added = ((1 - z) ** 2 / (2 * lam * (1 - z / 2)) + self._L / 2) * self._p[t] ** 2 + self._L / 2 * self._n[t]
            phi[t + 1] = min(phi[t + 1], phi[t] - paid + added)
        return phi

    def _earlier_goals(self, T: int) -> float:
        K = T // 2
        if K < 1 or self._lam[T - K] * self._L >= 2 or math.isinf(self._x[T]):
            return math.inf
        back = slice(T - K, T + 1)
        lam, p, n, slope = (part[back][::-1] for part in (self._lam, self._p, self._n, self._slope))  # T, T−1, …
        far = 2 * math.sqrt(float(self._x[back].max()))
        k = np.arange(1, K + 1)
        moved = np.cumsum(lam * slope + p)[1:] + np.sqrt(np.cumsum(n)[1:])  # from round T−k to any round up to T
        d = np.minimum(far, moved)
        costs = np.cumsum((2 * p * lam * slope + (lam * slope) ** 2 + p**2 + n) / (2 * lam))[1:]
        W = d**2 * (1 / lam[0] - 1 / lam[k]) / 2 + d * np.cumsum(p / lam)[1:] + costs
        return self._mean_gap(T, K) + float(np.sum(W / (k * (k + 1))))

    def _mean_gap(self, T: int, K: int) -> float:
        """S_K, by Abel's summation of (x_t − x_{t+1})/(2λ'_t)."""
        back = slice(T - K, T + 1)
        half, x, p, n = 1 / (2 * self._weights[back]), self._x[back], self._p[back], self._n[back]
        telescoped = x[0] * half[0] + np.sum(x[1:] * np.maximum(np.diff(half), 0.0))
        return float(telescoped + np.sum((2 * np.sqrt(x) * p + p**2 + n) * half)) / (K + 1)

    def _descent_later(self, t: int) -> float:
        """A(t+1)^−p survives the descent's step from the last round T on, p = min(1 − v, ς − v/2).

        The step is φ⁺ ≤ φ − Kφ²(t+1)^−v + E(t+1)^−e with e ≥ 2p + v, and it needs pA + E ≤ KA²: the left side of
        A(t+1)^−p − KA²(t+1)^−(2p+v) + E(t+1)^−e ≤ A(t+2)^−p is then small enough, because 2p + v ≤ p + 1.
        """
        tail, T, v, lam0 = self._now, self._rounds, self._problem.v, self._problem.step
        z = lam0 * (T + 1.0) ** -v * self._L
        if tail is None or z > 1 or not math.isfinite(tail.centre(T)):
            return math.inf
        e = min(2 * tail.push.p - v, tail.fresh.p)
        if e < v:  # no power of t survives the step
            return math.inf
        p = min(1 - v, (e - v) / 2)
        by_push = (1 / (2 * lam0 * (1 - z / 2)) + self._L / 2 * (T + 1.0) ** -v) * tail.push.A**2
        E = by_push * (T + 1.0) ** (e - 2 * tail.push.p + v)
        E += self._L / 2 * tail.fresh.A * (T + 1.0) ** (e - tail.fresh.p)
        K = lam0 * (1 - z / 2) / 2 / tail.centre(T) ** 2
        A = max(float(self._descent[T]) * (T + 1.0) ** p, (p + math.sqrt(p**2 + 4 * K * E)) / (2 * K))
        near = self._L / 2 * tail.centre(t) ** 2
        if A * (T + 1.0) ** -p > self._L * tail.centre(T) ** 2:
            return near  # beyond that the step would not grow with φ, as the induction needs
        return float(min(A * (t + 1.0) ** -p, near))

    def _earlier_goals_later(self, t: int) -> float:
        """The second proof with every term at its worst in rounds ≥ t/2 ≥ the tail's first."""
        tail, problem = self._half, self._problem
        if (
            tail is None
            or t < 2 * tail.T
            or tail.fresh.p <= problem.v
            or problem.step * (t / 2 + 1) ** -problem.v > 1 / problem.L
        ):
            return math.inf
        half, K, lam0, v = t / 2, t // 2, problem.step, problem.v
        y = tail.centre(half)
        lam = lam0 * (half + 1) ** -v
        p_by_lam = tail.push(half) / lam  # falls like (t+1)^−h
        n_by_lam = tail.fresh.A / lam0 * (half + 1) ** (v - tail.fresh.p)
        cost = p_by_lam * (2 * y + lam * self._L * y) + lam * (self._L * y) ** 2 / 2
        cost += p_by_lam * tail.push(half) / 2 + n_by_lam / 2
        moved = 2 * y**2 * v * half ** (v - 1) / lam0  # 1/λ grows by at most v(t/2)^(v−1)/λ_0 a round
        mean = y**2 * (t + 1) ** v / (2 * lam0 * (K + 1)) + cost
        return float(mean + (cost + moved) * (1 + math.log(K)))
