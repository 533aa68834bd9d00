"""Problems whose constants are known, and Algorithm 1 on them, with one independent run in each column.

A problem with one parameter, n columns: columns never mix, so that n columns are n runs with their own records and
noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

import gossamer as gs
from gossamer.networks import Network
from gossamer.theory import Problem

SCHEDULES = [(0.6, 0.55, 0.52), (0.75, 0.7, 0.6), (0.9, 0.6, 0.8)]  # v, ς_ζ, ς_ϑ
SCALE = 0.2  # of the Laplace noise in round 0


class Seen(NamedTuple):
    """One round of all runs: s and θ are (m, runs), θ*_t is (runs,)."""

    t: int
    s: Any
    theta: Any
    best: Any


@dataclass(frozen=True)
class Quadratic:
    """l(θ, ξ) = ½ h_i (θ − ξ)², ξ uniform on b_i ± width: F is a parabola with μ = mean h_i, every ∇l has L = max
    h_i.
    """

    h: Any
    b: Any
    width: float = 0.5

    @staticmethod
    def draw(m: int, seed: int) -> Quadratic:
        rng = np.random.default_rng(seed)
        return Quadratic(rng.uniform(0.5, 1.5, m), rng.uniform(-1, 1, m))

    @property
    def optimum(self) -> float:
        return float(self.h @ self.b / self.h.sum())

    def gap(self, theta: Any) -> Any:
        return self.h.mean() / 2 * (theta - self.optimum) ** 2

    def gradients(self, theta: Any, mean_record: Any) -> Any:
        return self.h[:, None] * (theta - self.b[:, None] - mean_record)

    def best(self, mean_record: Any) -> Any:
        return self.h @ (self.b[:, None] + mean_record) / self.h.sum()

    def problem(self, network: Network, step: float, v: float, s: float, theta: float) -> Problem:
        return Problem(
            network, step, v, SCALE * 2**0.5, s, SCALE * 2**0.5, theta,
            mu=self.h.mean(), L=self.h.max(), D=np.abs(self.h * (self.optimum - self.b)).max(),
            kappa=self.h.max() * self.width / 3**0.5, start=self.optimum**2,
        )  # fmt: skip


@dataclass
class Flat:
    """l(θ, ξ) = log cosh(θ − b_i) + ½ ridge θ² + ξθ, ξ uniform on ±width: L = 1 + ridge and μ = ridge.

    Without a ridge it is convex, nowhere strongly, and |∇f_i| ≤ 1 everywhere.
    """

    b: Any
    width: float = 0.5
    ridge: float = 0.0

    @cached_property
    def optimum(self) -> float:
        return float(brentq(lambda x: np.tanh(x - self.b).mean() + self.ridge * x, -2, 2, xtol=1e-14))

    def gap(self, theta: Any) -> Any:
        def F(x: Any) -> Any:
            return np.mean([np.logaddexp(x - b, b - x) for b in self.b], axis=0) + self.ridge / 2 * x**2

        return F(theta) - F(self.optimum)

    def gradients(self, theta: Any, mean_record: Any) -> Any:
        return np.tanh(theta - self.b[:, None]) + self.ridge * theta + mean_record

    def best(self, mean_record: Any) -> Any:
        return np.full(mean_record.shape[1], np.nan)

    def problem(self, network: Network, step: float, v: float, s: float, theta: float) -> Problem:
        return Problem(
            network, step, v, SCALE * 2**0.5, s, SCALE * 2**0.5, theta,
            mu=self.ridge, L=1.0 + self.ridge,
            D=np.abs(np.tanh(self.optimum - self.b) + self.ridge * self.optimum).max() if self.ridge else 1.0,
            kappa=self.width / 3**0.5, start=self.optimum**2,
        )  # fmt: skip


def run(task: Quadratic | Flat, problem: Problem, rounds: int, runs: int, seed: int) -> Iterator[Seen]:
    """The library's Algorithm 1, its messages noised here; states before every round."""
    network, rng = problem.network, np.random.default_rng(seed)
    algorithm = gs.ldp_gradient_tracking(gs.decay(problem.step, problem.v))
    rows, off = network.rows(), {over: network.off_diagonal(over) for over in ("R", "C")}
    x = algorithm.init(rows, np.zeros((network.m, runs)))
    mean_record = np.zeros((network.m, runs))
    exponents = {"s": problem.exponent_s, "theta": problem.exponent_theta}
    for t in range(rounds + 1):
        record = rng.uniform(-task.width, task.width, (network.m, runs))
        mean_record += (record - mean_record) / (t + 1)
        yield Seen(t, x.s, x.theta, task.best(mean_record))
        grad = task.gradients(x.theta, mean_record)
        got = {}
        for name, out in algorithm.emit(x, grad, rows, t).items():
            noise = rng.laplace(0, SCALE * (t + 1.0) ** -exponents[name], out.value.shape) if out.private else 0.0
            got[name] = off[out.over] @ (out.value + noise)
        x = algorithm.step(x, got, grad, rows, t)


def digraph(seed: int) -> Network:
    """3 to 6 learners, strongly connected, in- and out-degrees that differ."""
    m = 3 + seed % 4
    return Network.random(m, degree=1 + seed % min(3, m - 1), seed=seed)
