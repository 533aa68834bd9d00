"""Every method at the same ε, tuned alike: Figure 2 of the paper, with the seeds, the step sizes and the ε shown.

The rule. Exponents are fixed within each paper's constraints (gossamer.experiments.catalogue); λ0 = 2^k is tried
over a grid, and at every λ0 the noise is found anew so that each learner's ε over the whole run is the target, *by
that method's own recursion*. The target is Algorithm 1's largest ε_i under its published settings, unless one is
given. Tuning and evaluation use different seeds. Two step sizes are reported: the best, and the paper's "edge" one,
the largest that works where the next of the grid fails (diverges, or ends no nearer to θ* than it began). Algorithm
1 is tuned like the others, and shown with its published step and noise as well; so is Push–Pull, under the same
noise, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gossamer.errors import GossamerError
from gossamer.experiments.catalogue import COMPARED, METHODS, OURS
from gossamer.experiments.problems import Problem
from gossamer.experiments.runs import PUBLISHED, Result, Runs, Task, epsilons
from gossamer.privacy import Laplace
from gossamer.schedules import decay
from gossamer.simulate.engine import setting_of

TUNING = 1000  # the first tuning seed; evaluation counts from 0
PUBLISHED_STEP = 1.0


@dataclass(frozen=True)
class Plan:
    """How much work a comparison is."""

    steps: int
    seeds: int
    tuning_seeds: int
    grid: tuple[float, ...]  # of λ0


QUICK = Plan(steps=200, seeds=3, tuning_seeds=1, grid=tuple(2.0**k for k in range(-8, 4, 2)))
USUAL = Plan(steps=1000, seeds=5, tuning_seeds=2, grid=tuple(2.0**k for k in range(-9, 4)))
FULL = Plan(steps=2000, seeds=20, tuning_seeds=3, grid=tuple(2.0**k for k in range(-10, 7)))


@dataclass(frozen=True)
class Entry:
    """One method at one step size over the evaluation seeds."""

    method: str
    which: str  # "best", "edge" or "published"
    step: float
    runs: list[Result]

    @property
    def label(self) -> str:
        return METHODS[self.method].label

    def final(self, name: str) -> list[float]:
        return [math.inf if run["diverged"] else run[name][-1] for run in self.runs]

    def curve(self, name: str) -> tuple[Any, Any] | None:
        """(t, one row for each seed), or None where a seed diverged."""
        if any(run["diverged"] for run in self.runs):
            return None
        return np.array(self.runs[0]["t"]), np.array([run[name] for run in self.runs])


@dataclass(frozen=True)
class Comparison:
    problem: Problem
    plan: Plan
    epsilon: float
    entries: list[Entry]
    tried: dict[str, dict[float, list[float]]]  # final tracking errors by method and λ0, on the tuning seeds

    def entry(self, method: str, which: str) -> Entry | None:
        return next((e for e in self.entries if e.method == method and e.which == which), None)


def compare(
    problem: Problem,
    runs: Runs,
    plan: Plan = USUAL,
    methods: Sequence[str] = COMPARED,
    epsilon: float | None = None,
) -> Comparison:
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise GossamerError(f"no method {unknown[0]!r}: expected some of {', '.join(METHODS)}.")
    published = epsilon is None
    target = published_epsilon(problem, plan.steps) if epsilon is None else epsilon
    tuning = [
        Task(problem, method, step, TUNING + k, plan.steps, target)
        for method in methods
        for step in plan.grid
        for k in range(plan.tuning_seeds)
    ]
    tuned = iter(runs(tuning))
    tried: dict[str, dict[float, list[Result]]] = {
        method: {step: [next(tuned) for _ in range(plan.tuning_seeds)] for step in plan.grid} for method in methods
    }
    chosen = [(method, which, step) for method in methods for which, step in _choices(tried[method]).items()]
    wanted: list[tuple[str, str, float, float | str]] = [(m, which, step, target) for m, which, step in chosen]
    if published:
        wanted += [(m, PUBLISHED, PUBLISHED_STEP, PUBLISHED) for m in (OURS, "push_pull") if m in methods]
    evaluation = [
        Task(problem, method, step, seed, plan.steps, noise)
        for method, _, step, noise in wanted
        for seed in range(plan.seeds)
    ]
    evaluated = iter(runs(evaluation))
    entries = [Entry(m, which, step, [next(evaluated) for _ in range(plan.seeds)]) for m, which, step, _ in wanted]
    return Comparison(
        problem,
        plan,
        target,
        entries,
        {m: {s: [_score(r) for r in rs] for s, rs in by.items()} for m, by in tried.items()},
    )


def published_epsilon(problem: Problem, steps: int) -> float:
    """Algorithm 1's largest ε_i over the run, under the paper's step and noise."""
    stream = problem.stream(0)
    network, model = problem.network(stream.learners), problem.model()
    algorithm = METHODS[OURS].build(PUBLISHED_STEP)
    size = model.theta_size(stream.table.columns)
    setting = setting_of(algorithm, network, stream, model, "history", steps, size)
    terms = Laplace(decay(1.0, [0.5 + 0.01 * (i + 1) for i in range(network.m)])).terms(setting)
    found = epsilons(terms, steps, 0.0)
    if None in found:
        raise GossamerError("Algorithm 1's published settings have no finite ε here: give --epsilon.")
    return max(e for e in found if e is not None)


def _score(run: Result) -> float:
    """The error that is tuned for: at the end, ∞ where the run diverged."""
    return math.inf if run["diverged"] else float(run["tracking_error"][-1])


def _fails(runs: list[Result]) -> bool:
    """Diverged, or no nearer to θ* at the end than at the start, on any seed."""
    return any(run["diverged"] or run["tracking_error"][-1] >= run["tracking_error"][0] for run in runs)


def _choices(tried: dict[float, list[Result]]) -> dict[str, float]:
    """The best λ0, and the edge: the largest that works where the next one fails; none where none does, or all do."""
    best = min(tried, key=lambda step: float(np.mean([_score(run) for run in tried[step]])))
    steps = sorted(tried)
    edges = [a for a, b in pairwise(steps) if not _fails(tried[a]) and _fails(tried[b])]
    return {"best": best} | ({"edge": edges[-1]} if edges else {})
