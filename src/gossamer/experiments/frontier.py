"""What privacy costs: accuracy and optimality gap against ε, for every method and every kind of noise.

One pass over the data. At each ε and for each method and kind of noise, λ0 is chosen on tuning seeds by the error at
the end, and what is shown are other seeds. Noise on messages goes with all data so far ("history"), noise at the
source with the newest record, as its proof asks. Rows are scaled to norm 1 in the noise's norm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gossamer.experiments.catalogue import COMPARED
from gossamer.experiments.compare import TUNING
from gossamer.experiments.problems import Problem
from gossamer.experiments.runs import Result, Runs, Task
from gossamer.privacy.accountant import Where

DELTA = 1e-5
KINDS: dict[str, tuple[str, Where]] = {
    "Laplace on messages": ("laplace", "messages"),
    "Gaussian on messages": ("gaussian", "messages"),
    "Laplace at the source": ("laplace", "source"),
    "Gaussian at the source": ("gaussian", "source"),
}


@dataclass(frozen=True)
class Effort:
    """How much work a frontier is."""

    steps: int
    seeds: int
    epsilons: tuple[float, ...]
    grid: tuple[float, ...]


QUICK = Effort(100, 2, (1.0, 100.0, 1e4), (2.0**-4, 1.0, 8.0))
USUAL = Effort(812, 3, (0.1, 1.0, 10.0, 100.0, 1e3, 1e4), tuple(2.0**k for k in range(-7, 6, 3)))
FULL = Effort(
    812, 5, (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4), tuple(2.0**k for k in range(-9, 6, 2))
)


@dataclass(frozen=True)
class Point:
    method: str
    kind: str
    epsilon: float
    step: float
    runs: list[Result]

    def final(self, name: str, worst: float) -> list[float]:
        return [worst if run["diverged"] else run[name][-1] for run in self.runs]


@dataclass(frozen=True)
class Frontier:
    problem: Problem
    effort: Effort
    points: list[Point]

    def curve(self, method: str, kind: str, name: str, worst: float) -> tuple[Any, Any]:
        points = sorted((p for p in self.points if (p.method, p.kind) == (method, kind)), key=lambda p: p.epsilon)
        return np.array([p.epsilon for p in points]), np.array([p.final(name, worst) for p in points]).T


def frontier(
    problem: Problem,
    runs: Runs,
    effort: Effort = USUAL,
    methods: Sequence[str] = COMPARED,
    kinds: Sequence[str] = tuple(KINDS),
) -> Frontier:
    cells = [(m, kind, epsilon) for m in methods for kind in kinds for epsilon in effort.epsilons]
    tuning = iter(runs(_task(problem, *cell, step, TUNING, effort) for cell in cells for step in effort.grid))
    best = [min([(_score(next(tuning)), step) for step in effort.grid])[1] for _ in cells]
    asked = [
        _task(problem, *cell, step, seed, effort)
        for cell, step in zip(cells, best, strict=True)
        for seed in range(effort.seeds)
    ]
    found = iter(runs(asked))
    points = [
        Point(*cell, step, [next(found) for _ in range(effort.seeds)]) for cell, step in zip(cells, best, strict=True)
    ]
    return Frontier(problem, effort, points)


def _task(problem: Problem, method: str, kind: str, epsilon: float, step: float, seed: int, effort: Effort) -> Task:
    law, where = KINDS[kind]
    scaled = replace(problem, draw="once", rows="l1" if law == "laplace" else "l2")
    delta = DELTA if law == "gaussian" else 0.0
    return Task(scaled, method, step, seed, effort.steps, epsilon, law, where, delta, evaluations=1)


def _score(run: Result) -> float:
    return math.inf if run["diverged"] else float(run["optimality_gap"][-1])
