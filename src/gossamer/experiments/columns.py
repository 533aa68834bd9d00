"""Hundreds of runs at once: where a loss falls apart into coordinates, every coordinate is a run of its own.

The rounds are the algorithm's own `init`, `emit` and `step` on arrays with a row for each learner and a column for
each seed; between them stands noise on messages, or at the source, that this file draws. Learner i's records are
numbers ξ, uniform on [a_i − 1, a_i + 1], with centres a_i whose mean is 0, so that learners differ and θ* = 0.

    quadratic   l(θ, ξ) = μ/2 (θ − ξ)²                                   ∇f_{i,t}(θ) = μ (θ − mean of ξ so far)
    convex      l(θ, ξ) = φ(θ) + ξθ,  φ = |θ|¹⁰ up to 1, then straight    ∇f_{i,t}(θ) = φ'(θ) + mean of ξ so far

All that a gradient over all records so far needs of them is their mean. The quadratic's gradients are bounded only
on the region that a run visits; the convex one's are bounded everywhere, by 10 + |a_i| + 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gossamer.algorithms import ldp_gradient_tracking
from gossamer.networks import Network
from gossamer.schedules import Decay, decay
from gossamer.types import Array

POWER = 10


@dataclass(frozen=True)
class Loss:
    """A loss of one number θ, with its minimum 0 at θ = 0 for all learners together."""

    name: str
    start: float  # θ_0
    mu: float
    L: float
    pull: float  # by how much a record moves ∇l if it is 1 farther away
    steepest: float  # |∇F| at any θ
    gradient: Callable[[Array, Array], Array]  # of θ and the mean of the records so far
    gap: Callable[[Array], Array]  # F(θ) − F*


def quadratic(mu: float = 1.0, start: float = 1.0) -> Loss:
    return Loss(
        "quadratic",
        start,
        mu,
        mu,
        mu,
        math.inf,
        lambda theta, mean: mu * (theta - mean),
        lambda theta: mu / 2 * theta**2,
    )


def convex(start: float = 0.5) -> Loss:
    """|θ|¹⁰, so flat around 0 that only convexity is left of it there."""

    def slope(theta: Array, mean: Array) -> Array:
        return POWER * np.clip(theta, -1, 1) ** (POWER - 1) + mean

    def gap(theta: Array) -> Array:
        size = np.abs(theta)
        return np.asarray(np.minimum(size, 1) ** POWER + POWER * np.maximum(size - 1, 0))

    return Loss("convex", start, 0.0, POWER * (POWER - 1.0), 1.0, POWER, slope, gap)


@dataclass(frozen=True)
class Plan:
    """Steps λ_t, Laplace noise of these scales on messages, by channel, and Gaussian noise at the source."""

    step: Decay
    noise: Mapping[str, Decay] = field(default_factory=dict)
    source: Decay | None = None


def on_messages(v: float, s_zeta: float, s_theta: float, step: float = 1.0, noise: float = 1.0) -> Plan:
    return Plan(decay(step, v), {"s": decay(noise, s_zeta), "theta": decay(noise, s_theta)})


def at_source(v: float, alpha: float, step: float = 1.0, noise: float = 1.0) -> Plan:
    return Plan(decay(step, v), source=decay(noise, alpha))


class Trace(NamedTuple):
    """States of all learners and seeds at some rounds."""

    network: Network
    loss: Loss
    t: Array  # (marks,)
    theta: Array  # (marks, m, seeds)
    s: Array
    steepest: float  # the largest |∇f_i| at any point that was visited, of the true f_i

    @property
    def squared_error(self) -> Array:
        """(seeds, marks) of ‖θ_i − θ*‖², the mean over learners."""
        return _by_seed(self.theta**2)

    @property
    def gap(self) -> Array:
        return _by_seed(self.loss.gap(self.theta))

    @property
    def consensus(self) -> Array:
        """‖θ − 1θ̄‖², θ̄ with the Perron weights of I+R, summed over learners as in Lemma 8."""
        centre = self.network.perron @ self.theta / self.network.m
        return _by_seed((self.theta - centre[:, None]) ** 2) * self.network.m

    @property
    def tracker(self) -> Array:
        """‖s − ωs̄‖², ω the right Perron vector of I+C, summed over learners as in Lemma 7."""
        omega = right_perron(self.network)
        return _by_seed((self.s - omega[:, None] * self.s.mean(axis=1, keepdims=True)) ** 2) * self.network.m


def _by_seed(values: Array) -> Array:
    mean: Array = values.mean(axis=1).T
    return mean


def right_perron(network: Network) -> Array:
    """ω with (I+C) ω = ω and 1ᵀω = m."""
    C = np.asarray(network.off_diagonal("C"))
    values, vectors = np.linalg.eig(C - np.diag(C.sum(axis=0)))
    omega = np.abs(np.real(vectors[:, np.argmin(np.abs(values))]))
    return np.asarray(omega * network.m / omega.sum())


def centres(m: int) -> Array:
    """Where each learner's records lie: from −1 to 1, not in the order of the ring."""
    spread = np.linspace(-1, 1, m)
    return np.asarray(spread[np.random.default_rng(m).permutation(m)][:, None])


@dataclass(frozen=True)
class Columns:
    """A loss on a network with a plan, to be run with many seeds at once."""

    loss: Loss
    network: Network
    plan: Plan

    @cached_property
    def _weights(self) -> dict[str, Array]:
        return {over: np.asarray(self.network.off_diagonal(over)) for over in ("R", "C")}

    def run(self, rounds: int, seeds: int, seed: int = 0, marks: int = 80) -> Trace:
        """So many rounds of all seeds, with the states at about `marks` rounds that are spread evenly in log t."""
        rng = np.random.default_rng([seed, rounds, seeds])
        shape, loss, plan = (self.network.m, seeds), self.loss, self.plan
        algorithm, rows = ldp_gradient_tracking(plan.step, strict=False), self.network.rows()
        at = np.unique(np.geomspace(1, rounds, marks).round().astype(np.int64))
        state = algorithm.init(rows, np.full(shape, loss.start))
        mean, middle, steepest = np.zeros(shape), centres(self.network.m), 0.0
        kept: list[tuple[Array, Array]] = []
        for t in range(rounds):
            mean += (middle + rng.uniform(-1, 1, shape) - mean) / (t + 1)
            gradient = loss.gradient(state.theta, mean)
            if plan.source is not None:
                gradient = gradient + plan.source(t) * rng.normal(size=shape)
            got = {}
            for channel, out in algorithm.emit(state, gradient, rows, t).items():
                noise = plan.noise.get(channel)
                sent = out.value if noise is None else out.value + noise(t) * rng.laplace(size=shape)
                got[channel] = self._weights[out.over] @ sent
            state = algorithm.step(state, got, gradient, rows, t)
            if t + 1 == at[len(kept)]:
                steepest = max(steepest, float(np.abs(loss.gradient(state.theta, middle)).max()))
                kept.append((state.theta, state.s))
        theta, s = (np.array(parts) for parts in zip(*kept, strict=True))
        return Trace(self.network, loss, at.astype(float), theta, s, steepest)
