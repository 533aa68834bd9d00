"""The problem that all software in benchmarks/other_software.py is given, and our own ways of solving it.

Learners with 50 fixed records of 100 features each, logistic loss and a ridge, gradient tracking with a constant step.
The problem has one optimum θ*, which Newton's method finds here without any of the software that is compared. A run
counts only if every learner of it ends at θ*: software that solves another problem, or this one badly, has no row.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from simulator import fixed_records

import gossamer as gs
from gossamer.algorithms.base import Algorithm
from gossamer.types import Array

FEATURES, RECORDS, ROUNDS = 100, 50, 1000
L2, STEP = 0.01, 5.0  # with this step all methods here are at θ*, to rounding, after 1000 rounds
NEAR = 1e-8  # how far from θ* a learner may end, as a part of ‖θ*‖


class NotTheSameProblem(Exception):
    """A run that did not end at the optimum of the problem that it was given."""


class Run(NamedTuple):
    """What one run took, without start-up, and where its learners ended."""

    seconds: float
    theta: Array


@dataclass(frozen=True)
class Problem:
    """Records (m, records, n) and labels (m, records) of m learners, and the network that joins them."""

    net: gs.Network
    X: Array
    y: Array
    l2: float = L2
    step: float = STEP
    rounds: int = ROUNDS

    @cached_property
    def optimum(self) -> Array:
        """θ*, the minimiser of the mean over learners of their mean losses, by Newton's method."""
        A, b = self.X.reshape(-1, self.X.shape[2]), self.y.ravel()
        theta, ridge = np.zeros(A.shape[1]), self.l2 * np.eye(A.shape[1])
        for _ in range(50):
            p = 1 / (1 + np.exp(-A @ theta))
            gradient = A.T @ (p - b) / len(b) + self.l2 * theta
            theta = theta - np.linalg.solve((A.T * (p * (1 - p))) @ A / len(b) + ridge, gradient)
        return theta

    def distance(self, theta: Array) -> float:
        """How far the learner that is farthest from θ* is from it, as a part of ‖θ*‖."""
        return float(np.linalg.norm(theta - self.optimum, axis=1).max() / np.linalg.norm(self.optimum))

    def check(self, who: str, theta: Array) -> None:
        """Refuse a run in which a learner did not end at θ*."""
        shape = len(self.X), self.X.shape[2]
        if theta.shape != shape:
            raise NotTheSameProblem(f"{who} ended with parameters of shape {theta.shape}, expected {shape}.")
        distance = self.distance(theta)
        if not distance <= NEAR:
            raise NotTheSameProblem(f"{who} ended {distance:.1e} ‖θ*‖ from θ*, expected at most {NEAR:g}.")

    def save(self, path: Path) -> None:
        """As a file that other software is given: the same numbers, not the same seed."""
        R, C = (np.asarray(M) for M in (self.net.R, self.net.C))
        np.savez(path, X=self.X, y=self.y, R=R, C=C, l2=self.l2, step=self.step, rounds=self.rounds)


def problem(net: gs.Network) -> Problem:
    return Problem(net, *fixed_records(net.m, FEATURES, RECORDS))


def both_ways(net: gs.Network) -> gs.Network:
    """The same links used both ways, with Metropolis weights: what software for undirected graphs can run on."""
    return gs.Network(net.W, net.W)


def algorithm_1(given: Problem) -> Run:
    """Chen & Wang's Algorithm 1 without noise. It converges here with a constant step, of which they prove nothing."""
    return _simulated(given, gs.ldp_gradient_tracking(step=gs.decay(given.step, 0.0), strict=False))


def push_pull(given: Problem) -> Run:
    """θ⁺ = (I+R)θ − λy, y⁺ = (I+C)y + g⁺ − g: where R = C, what DISROPT calls gradient tracking, and others DIGing."""
    return _simulated(given, gs.push_pull(step=gs.decay(given.step, 0.0)))


def _simulated(given: Problem, algorithm: Algorithm[Any]) -> Run:
    stream = gs.streams.from_arrays(given.X, given.y, per_round=given.X.shape[1])
    model = gs.LogisticRegression(l2=given.l2)
    start = time.perf_counter()
    run = gs.simulate(
        algorithm, given.net, stream, model=model, steps=given.rounds, evaluate_every=given.rounds
    )  # fmt: skip
    return Run(time.perf_counter() - start, run.theta)
