"""One study: cases × what is tuned × seeds. All is chosen on other seeds than those reported, by one rule for all.

A case is a method at a budget. At every choice its noise is found anew, so that each learner's ε over the whole run is
the case's *by that method's own recursion*. The choice with the best mean score on the tuning seeds is run on the seeds
that are reported; the score is the quantity that the study reports. How choices are searched is in
gossamer.experiments.search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gossamer.algorithms import find_method
from gossamer.algorithms.registry import Exponents
from gossamer.experiments import search
from gossamer.experiments.replay import Replay
from gossamer.experiments.runs import Runs
from gossamer.experiments.search import Choice
from gossamer.experiments.tasks import Task
from gossamer.experiments.workers import Result
from gossamer.spec import Spec

TUNING = 1000  # the first tuning seed; evaluation counts from 0
OURS = "ldp_gradient_tracking"
LATE = 32.0  # λ_t = λ0/(t+1)^v has fallen so far by the time that a history is released


@dataclass(frozen=True)
class Effort:
    """How much work a study is.

    steps          rounds; None: as many full ones as the data have
    grid           of λ0
    refined        whether tuning goes on from the grid's best: to its √2 neighbours, other exponents, other splits
    tuning_rounds  that tuning runs, of which ε is spent over all; None: all
    epsilons       the budgets, where a study has several; None: no noise
    per_round      records a round, where that is tuned as well
    replayed       rounds in which the largest loss is looked for by replaying; 0: it is not
    """

    steps: int | None
    seeds: int
    grid: tuple[float, ...]
    tuning_seeds: int = 1
    tuning_rounds: int | None = None
    evaluations: int = 40
    epsilons: tuple[float | None, ...] = ()
    per_round: tuple[int | None, ...] = (None,)
    refined: bool = False
    replayed: int = 0


@dataclass(frozen=True)
class Case:
    """A method at a budget; `which` says how its step was chosen, or that step or noise are the published ones.

    `by` names the quantity that it is tuned for, where a study reports several.
    """

    method: str
    epsilon: float | None  # of every learner; None: no noise, or the published one
    which: str = "best"
    published: float | None = None  # the first scale of the paper's own noise
    law: str = "laplace"
    where: str = "messages"
    gradient: str | None = None  # None: as a run with such noise has it
    band: int | None = None  # over how many releases noise is correlated
    secrets: str | None = None  # the graph of pair secrets, with which noise cancels; any one learner may be curious
    by: str = ""

    @property
    def releases_again(self) -> bool:
        """Whether noise goes to the source, and to the mean over all records so far."""
        return self.where == "source" and self.gradient != "latest"


@dataclass(frozen=True)
class Entry:
    """A case with what was chosen for it, over the seeds that are reported."""

    case: Case
    choice: Choice
    runs: list[Result]
    replayed: Result | None = None  # the largest loss that was found, and the recursion's, where that was looked for

    @property
    def method(self) -> str:
        return self.case.method

    @property
    def which(self) -> str:
        return self.case.which

    @property
    def step(self) -> float:
        return self.choice.step

    @property
    def exponents(self) -> Exponents:
        return self.choice.exponents or find_method(self.case.method).exponents[0]

    @property
    def label(self) -> str:
        return find_method(self.case.method).label

    @property
    def diverged(self) -> bool:
        """Whether a seed did."""
        return any(run["diverged"] for run in self.runs)

    def final(self, name: str, worst: float = math.inf) -> list[float]:
        """A quantity at the end of every seed's run, `worst` where it diverged."""
        return [worst if run["diverged"] else run[name][-1] for run in self.runs]

    def curve(self, name: str) -> tuple[Any, Any] | None:
        """(t, one row for each seed), or None where a seed diverged."""
        if self.diverged:
            return None
        return np.array(self.runs[0]["t"]), np.array([run[name] for run in self.runs])


@dataclass(frozen=True)
class Studied:
    """What a study found."""

    problem: Spec
    effort: Effort
    entries: list[Entry]
    tried: dict[Case, dict[Choice, list[float]]]  # the scores on the tuning seeds; less is better
    epsilon: float = math.nan  # of every case, where they share one

    def entry(self, method: str, which: str) -> Entry | None:
        return next((e for e in self.entries if e.method == method and e.which == which), None)

    def methods(self) -> list[str]:
        return list(dict.fromkeys(e.method for e in self.entries))


Tried = dict[Case, dict[Choice, list[Result]]]


class Study:
    """Runs cases on a problem; `score` of a run is less where it is better, `vary` fits the problem to a case."""

    def __init__(
        self,
        problem: Spec,
        effort: Effort,
        runs: Runs,
        score: Callable[[Result], float],
        vary: Callable[[Spec, Case], Spec] = lambda problem, case: problem,
    ) -> None:
        self.problem, self.effort, self._runs = problem, effort, runs
        self._score, self._vary = score, vary

    def task(self, case: Case, choice: Choice, seed: int, tuning: bool = False) -> Task:
        exponents = choice.exponents or find_method(case.method).exponents[0]
        settings: dict[str, Any] = {
            "algorithm": case.method,
            "step": f"{choice.step!r},{exponents.step!r}",
            "epsilon": None if case.epsilon is None else repr(case.epsilon),
            "law": case.law,
            "where": case.where,
            "gradient": case.gradient or self.problem.algorithm.gradient,
            "band": case.band,
            "secrets": case.secrets,
            "steps": self.effort.steps,
            "seed": seed,
        }
        settings |= {"per_round": choice.per_round} if choice.per_round is not None else {}
        rounds = self.effort.tuning_rounds if tuning else None
        evaluations = 1 if rounds is not None else self.effort.evaluations
        spec = self._vary(self.problem, case).but(**settings)
        noise = None if choice.exponents is None else (exponents.noise, exponents.ratio)
        return Task(spec, case.published, rounds, evaluations, noise, choice.split)

    def tune(self, cases: Sequence[Case]) -> Tried:
        """Every case at every choice of the grid, on the tuning seeds, and from its best on where that is refined."""
        tried: Tried = {case: {} for case in cases}
        self._try({case: self._grid(case) for case in cases}, tried)
        if not self.effort.refined:
            return tried
        self._near(tried)
        self._try({case: self._others(case, self.best(by)) for case, by in tried.items()}, tried)
        self._near(tried)
        self._try({case: search.with_splits(self.best(by), self._splits(case)) for case, by in tried.items()}, tried)
        self._near(tried)
        return tried

    def _grid(self, case: Case) -> list[Choice]:
        """The effort's; steps that begin to count when most rounds are over start larger."""
        times = LATE if case.releases_again else 1.0
        return [Choice(times * step, n) for n in self.effort.per_round for step in self.effort.grid]

    def _near(self, tried: Tried) -> None:
        """The √2 neighbours of every best, again where one of them is better: also beyond the ends of the grid."""
        for _ in range(search.REFINEMENTS):
            wanted = {case: search.neighbours(self.best(by)) for case, by in tried.items()}
            if not self._try(wanted, tried):
                return

    def _others(self, case: Case, best: Choice) -> list[Choice]:
        """The best with other exponents of the method."""
        usual, *others = find_method(case.method).exponents
        if case.where == "source":  # whose noise does not follow the method
            others = [Exponents(v, usual.noise, usual.ratio) for v in {other.step for other in others} - {usual.step}]
        return search.with_exponents(best, usual, sorted(others), self.effort.steps or search.ROUNDS)

    def _splits(self, case: Case) -> tuple[float, ...]:
        return find_method(case.method).splits if case.where == "messages" else ()

    def _try(self, wanted: Mapping[Case, Sequence[Choice]], tried: Tried) -> int:
        """Run what was not tried yet, on the tuning seeds; how many choices that were."""
        new = [
            (c, choice) for c, choices in wanted.items() for choice in dict.fromkeys(choices) if choice not in tried[c]
        ]
        seeds = [TUNING + k for k in range(self.effort.tuning_seeds)]
        # All runs on one reading of the data stand together: a worker reads it once.
        keys = [(case, choice, seed) for seed in seeds for case, choice in sorted(new, key=_reading)]
        results = dict(zip(keys, self._runs(self.task(*key, tuning=True) for key in keys), strict=True))
        for case, choice in new:
            tried[case][choice] = [results[case, choice, seed] for seed in seeds]
        return len(new)

    def best(self, tried: dict[Choice, list[Result]]) -> Choice:
        """The choice with the least mean score; of equals the first that was tried."""
        return min(tried, key=lambda choice: float(np.mean([self._score(run) for run in tried[choice]])))

    def evaluate(self, wanted: Iterable[tuple[Case, Choice]]) -> list[Entry]:
        """The chosen ones on the seeds that are reported, seed by seed: what a stopped study has is of use."""
        pairs, seeds = list(wanted), range(self.effort.seeds)
        results = self._runs(self.task(case, choice, seed) for seed in seeds for case, choice in pairs)
        return [Entry(case, choice, results[k :: len(pairs)]) for k, (case, choice) in enumerate(pairs)]

    def replay(self, entries: list[Entry], which: Collection[str]) -> list[Entry]:
        """With the largest loss that replaying finds for some of them, beside what the recursion charges."""
        wanted = [e for e in entries if e.which in which] if self.effort.replayed else []
        found = self._runs(Replay(self.task(e.case, e.choice, 0), self.effort.replayed) for e in wanted)
        by_case = {e.case: result for e, result in zip(wanted, found, strict=True)}
        return [replace(e, replayed=by_case.get(e.case) or None) for e in entries]

    def report(self, entries: list[Entry], tried: Tried, epsilon: float = math.nan) -> Studied:
        scores = {
            c: {choice: [self._score(run) for run in runs] for choice, runs in by.items()} for c, by in tried.items()
        }
        return Studied(self.problem, self.effort, entries, scores, epsilon)

    def run(self, cases: Sequence[Case]) -> Studied:
        """Tune every case, and report each at its best."""
        tried = self.tune(cases)
        return self.report(self.evaluate((case, self.best(tried[case])) for case in cases), tried)


def _reading(pair: tuple[Case, Choice]) -> tuple[str, int]:
    """What decides which data a run reads, beside its seed."""
    return pair[0].law, pair[1].per_round or 0


def least(name: str) -> Callable[[Result], float]:
    """The score that wants a quantity small at the end; ∞ where the run diverged."""
    return lambda run: math.inf if run["diverged"] else float(run[name][-1])


def most(name: str) -> Callable[[Result], float]:
    """The score that wants a quantity large at the end."""
    return lambda run: math.inf if run["diverged"] else -float(run[name][-1])
