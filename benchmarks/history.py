"""Algorithm 1 with history at the source: accuracy at each ε, tuned and by rule alone, written to docs/results/history.

    python benchmarks/history.py mushrooms          budgets that hold for ever
    python benchmarks/history.py mnist cifar10      budgets of the run, after which nothing is released

Every run is one pass over the data by ten learners on the paper's graph; δ = 1e-5; one record is protected. What is
tuned (λ0 as a multiple of the rule's, the first release, the clipper, the ridge) is chosen by the accuracy on training
records, on other seeds than those reported: for the mushrooms coordinate by coordinate, for images among all
combinations of λ0, start and clipper. Runs are kept: a stopped study goes on.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.experiments.runs import Runs
from gossamer.experiments.tasks import Task
from gossamer.spec import Spec
from gossamer.version import __version__

TUNING = 1000  # the first tuning seed; evaluation counts from 0
EXPONENT = 0.6  # of the step


@dataclass(frozen=True)
class Problem:
    """Data, budgets, rounds, the quantity that tuning looks at, and what the issue asks for."""

    spec: Spec
    epsilons: tuple[float, ...]
    rounds: int
    score: str
    asked: tuple[float, ...]
    clips: tuple[float, ...]
    ridges: tuple[float, ...] = (0.0,)
    steps: tuple[float, ...] = (0.5, 2.0, 4.0)
    starts: tuple[float, ...] = (0.5,)
    spacings: tuple[int, ...] = ()
    tuning: int = 2  # seeds
    product: bool = False  # all clippers with all starts and steps, rather than one coordinate after the other

    @property
    def seeds(self) -> range:
        return range(TUNING, TUNING + self.tuning)


IMAGES = Spec.of(dataset="mnist", features="scattering", draw="once", per_round=5)
PROBLEMS = {
    "mushrooms": Problem(
        Spec.of(dataset="mushrooms", draw="once", horizon="inf", steps=812), (0.3, 1.0, 3.0, 10.0), 812, "accuracy",
        (0.87, 0.93, 0.965, 0.975), (0.6, 1.2, 4.7), (1e-3,), (0.5, 2.0, 4.0), (0.35, 0.65), (4,), tuning=10,
    ),
    "mnist": Problem(
        IMAGES, (0.5, 1.0, 2.0, 8.0), 1200, "train_accuracy", (0.96, 0.969, 0.975, 0.982), (0.12, 0.25, 0.5),
        (), (0.5, 1.0, 2.0), (0.5, 0.75), product=True,
    ),
    "cifar10": Problem(
        IMAGES.but(dataset="cifar10"), (0.5, 1.0, 2.0, 8.0), 1000, "train_accuracy", (0.44, 0.51, 0.56, 0.625),
        (0.12, 0.25, 0.5), (), (0.5, 0.7, 1.0, 1.4, 2.0), (0.5, 0.75, 0.85), product=True,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """What is tuned; None: as the rule has it."""

    step: float = 1.0  # times the rule's λ0 with the same releases and clipper
    start: float | None = None  # the first release, as a share of the run
    every: int = 1  # rounds from release to release
    clip: float | None = None
    l2: float | None = None


def task(problem: Problem, epsilon: float, choice: Choice, seed: int, found: float | None) -> Task:
    """The run of a choice; `found` is the rule's λ0 for it, None: it is still to be found."""
    spec = problem.spec.but(epsilon=repr(epsilon), seed=seed, clip=choice.clip, l2=choice.l2, step="auto")
    if choice.start is not None or choice.every > 1:
        first = int((0.5 if choice.start is None else choice.start) * problem.rounds)
        end = "" if problem.spec.privacy.horizon == "inf" else f",{problem.rounds - 12}"
        spec = spec.but(releases=f"{choice.every},{first}{end}")
    if found is not None and choice.step != 1:
        spec = spec.but(step=f"{found * choice.step:.6g},{EXPONENT}")
    return Task(spec, evaluations=1)


class Tuner:
    """One coordinate after the other, from the best so far, for all budgets at once: both cores have work."""

    def __init__(self, problem: Problem, runs: Runs) -> None:
        self._problem, self._runs = problem, runs
        self.tried: dict[tuple[float, Choice], float] = {}
        self._found: dict[tuple[float, Choice], float] = {}

    def scores(self, wanted: list[tuple[float, Choice]]) -> None:
        new = [pair for pair in dict.fromkeys(wanted) if pair not in self.tried]
        plain = [(e, replace(c, step=1.0)) for e, c in new if (e, replace(c, step=1.0)) not in self._found]
        rule = [task(self._problem, e, c, self._problem.seeds[0], None) for e, c in plain]
        for pair, result in zip(plain, self._runs(rule), strict=True):
            self._found[pair] = result["step"]
        keys = [(pair, seed) for pair in new for seed in self._problem.seeds]
        results = self._runs(self.task(*pair, seed) for pair, seed in keys)
        for pair in new:
            ends = [r[self._problem.score][-1] for (p, _), r in zip(keys, results, strict=True) if p == pair]
            self.tried[pair] = float(np.mean(ends))

    def task(self, epsilon: float, choice: Choice, seed: int) -> Task:
        return task(self._problem, epsilon, choice, seed, self._found.get((epsilon, replace(choice, step=1.0))))

    def _score(self, epsilon: float, choice: Choice) -> float:
        return self.tried[epsilon, choice]

    def best(self) -> dict[float, Choice]:
        problem, best = self._problem, dict.fromkeys(self._problem.epsilons, Choice())
        if problem.product:
            choices = [Choice(*one) for one in product(problem.steps, problem.starts, (1,), problem.clips)]
            self.scores([(e, choice) for e in best for choice in choices])
            return {e: max(choices, key=partial(self._score, e)) for e in best}
        coordinates: list[tuple[str, tuple[Any, ...]]] = [
            ("clip", problem.clips), ("every", problem.spacings), ("start", problem.starts), ("l2", problem.ridges),
            ("step", problem.steps),
        ]  # fmt: skip
        for name, values in coordinates:
            near = {e: [choice, *(replace(choice, **{name: v}) for v in values)] for e, choice in best.items()}
            self.scores([(e, choice) for e, choices in near.items() for choice in choices])
            best = {e: max(choices, key=partial(self._score, e)) for e, choices in near.items()}
        return best


def measure(
    name: str, seeds: int, folder: Path, jobs: int, tuned: bool, epsilons: tuple[float, ...] | None = None
) -> dict[str, Any]:
    problem = PROBLEMS[name]
    if epsilons is not None:
        by_budget = dict(zip(problem.epsilons, problem.asked, strict=True))
        problem = replace(problem, epsilons=epsilons, asked=tuple(by_budget[e] for e in epsilons))
    runs = Runs(folder, jobs, lambda done, of: print(f"\r{name} {done}/{of}   ", end="", flush=True))
    tuner = Tuner(problem, runs)
    best = tuner.best() if tuned else dict.fromkeys(problem.epsilons, Choice())
    shown = ("tuned", "automatic") if tuned else ("automatic",)
    plain = unsaid(problem).but(step="auto")
    wanted = {
        (e, which, seed): tuner.task(e, best[e], seed) if which == "tuned" else automatic(plain, e, seed)
        for e in problem.epsilons
        for which in shown
        for seed in range(seeds)
    }
    results = dict(zip(wanted, runs(wanted.values()), strict=True))
    rows = []
    for e, asked in zip(problem.epsilons, problem.asked, strict=True):
        ends = {w: [results[e, w, seed]["accuracy"][-1] for seed in range(seeds)] for w in shown}
        one, other = results[e, shown[0], 0], results[e, "automatic", 0]
        about = {"step": one["step"], "automatic_step": other["step"], "spent": max(one["epsilon"])}
        rows.append({"epsilon": e, "asked": asked, "choice": asdict(best[e]), **ends, **about})
    tried = [{"epsilon": e, **asdict(c), "score": s} for (e, c), s in tuner.tried.items()]
    return {"version": __version__, "tuning_seeds": list(problem.seeds), "rows": rows, "tried": tried}


def automatic(plain: Spec, epsilon: float, seed: int) -> Task:
    return Task(plain.but(epsilon=repr(epsilon), seed=seed), evaluations=1)


def unsaid(problem: Problem) -> Spec:
    """What a user says who tunes nothing: the data and, where it is to hold for ever, the budget's horizon."""
    horizon = problem.spec.privacy.horizon
    if problem.spec.data.dataset == "mushrooms":
        return Spec.of(dataset="mushrooms", horizon=horizon, steps=problem.rounds)
    return Spec.of(dataset=problem.spec.data.dataset, features="scattering")


def table(found: dict[str, Any]) -> str:
    """The results as a table: mean over seeds, in brackets the least and the greatest."""

    def cell(values: list[float]) -> str:
        return f"**{np.mean(values):.4f}** ({min(values):.4f}–{max(values):.4f})"

    lines = ["| ε | asked | tuned | by rule alone | tuned: what was chosen |", "|---|---|---|---|---|"]
    for row in found["rows"]:
        chosen = ", ".join(f"{k} {v:g}" for k, v in row["choice"].items() if v is not None and (k, v) != ("every", 1))
        tuned, auto = cell(row["tuned"]) if "tuned" in row else "–", cell(row["automatic"])
        how = f"{chosen}, λ0 = {row['step']:.4g}" if "tuned" in row else "–"
        lines.append(f"| {row['epsilon']:g} | {row['asked']:g} | {tuned} | {auto} | {how} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+", choices=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", help="some of the budgets: 2,8")
    parser.add_argument("--untuned", action="store_true", help="by rule alone")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs/results/history"))
    given = parser.parse_args()
    for name in given.data:
        some = None if given.epsilons is None else tuple(map(float, given.epsilons.split(",")))
        found = measure(name, given.seeds, given.out, given.jobs, not given.untuned, some)
        (given.out / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        print(f"\n\n{name}\n\n{table(found)}", flush=True)


if __name__ == "__main__":
    main()
