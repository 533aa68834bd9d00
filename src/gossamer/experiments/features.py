"""What real privacy costs on images: fixed features, a linear head, one pass, one image protected.

Noise on eleven million coordinates drowns what a network learns, so the learners train a linear head on features that
depend on no private image (gossamer.streams.scattering). Every image is read once; each image's gradient is clipped in
‖·‖₂, and Gaussian noise goes to a round's mean, at the source: whatever happens to it later, in whichever method, costs
nothing more, so that all methods have the same (ε, δ) with the same noise. Images a round, N, and λ0 are chosen for
every method and ε by one rule: accuracy on training images, on another seed than those reported. The tuning itself is
not charged to ε.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gossamer.errors import GossamerError
from gossamer.experiments.catalogue import METHODS, OURS
from gossamer.experiments.compare import TUNING
from gossamer.experiments.pictures import NAMES, READ
from gossamer.experiments.problems import split_as_given
from gossamer.experiments.runs import Result, Runs, code_of, epsilons
from gossamer.models import SoftmaxRegression, clip_l2
from gossamer.networks import Network
from gossamer.privacy import Gaussian, simulated
from gossamer.schedules import decay
from gossamer.simulate import simulate
from gossamer.simulate.engine import setting_of
from gossamer.version import __version__

COMPARED = (OURS, "push_pull", "stochastic_subgradient", "subgradient_rescaling", "dsgd")
EPSILONS = (2.0, 8.0, math.inf)
DELTA = 1e-5
CLIP = 0.25  # of each image's gradient, whose features have norm 1


@dataclass(frozen=True)
class Effort:
    """How much work a study is."""

    seeds: int
    rounds: tuple[int, ...]  # N, images a learner and round
    grid: tuple[float, ...]  # λ0


QUICK = Effort(2, (200,), (64.0, 256.0))
USUAL = Effort(3, (10, 50, 100, 200, 400), (64.0, 128.0, 256.0, 512.0, 1024.0))


@dataclass(frozen=True)
class FeatureTask:
    """One run, as plain values."""

    data: str
    split: str
    method: str
    epsilon: float  # of every learner, at DELTA; ∞: no noise, nothing clipped
    per_round: int
    step: float  # λ0
    seed: int

    def key(self) -> str:
        said = {"version": __version__, "code": code_of(self.method), "clip": CLIP, **asdict(self)}
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]

    def outcome(self) -> Result:
        stream, network = _stream(self.data, self.split, self.seed, self.per_round), Network.paper()
        private = math.isfinite(self.epsilon)
        model = SoftmaxRegression(10, clip=clip_l2(CLIP) if private else None)
        algorithm = METHODS[self.method].build(self.step)
        steps = int((stream.room(2**40) // self.per_round).min())  # full rounds only
        if steps == 0:
            least = int(stream.room(2**40).min())
            raise GossamerError(
                f"a learner has {least} images and a round takes {self.per_round}: use --split iid, or another seed."
            )
        said: Result = {"diverged": False, "steps": steps, "read": 10 * steps * self.per_round / len(stream.table)}
        noise = None
        if private:
            size = model.theta_size(stream.table.columns)
            setting = setting_of(algorithm, network, stream, model, "latest", steps, size)
            terms = Gaussian.for_budget(self.epsilon, DELTA, where="source").terms(setting)
            noise = simulated(decay([t.initial for t in terms], 0.0), self.seed, "gaussian", "source")
            said |= {"noise": terms[0].initial, "epsilon": max(e or math.inf for e in epsilons(terms, steps, DELTA))}
        try:
            run = simulate(
                algorithm, network, stream, model=model, privacy=noise, steps=steps, gradient="latest",
                evaluate_every=steps, seed=self.seed,
            )  # fmt: skip
        except GossamerError as error:
            return said | {"diverged": True, "why": str(error)}
        last = run.history[-1]
        return said | {
            "accuracy": float(last.accuracy),
            "train_accuracy": float(last.train_accuracy),
            "learners_accuracy": np.round(last.learners_accuracy, 4).tolist(),
        }


@lru_cache(maxsize=2)
def _stream(data: str, split: Any, seed: int, per_round: int) -> Any:
    return split_as_given(READ[data](10, seed, "once", split, per_round, features="scattering"))


@dataclass(frozen=True)
class Cell:
    """A method at an ε: what was chosen for it, and how it did."""

    method: str
    epsilon: float
    per_round: int
    step: float
    runs: list[Result]

    @property
    def accuracies(self) -> list[float]:
        return [0.1 if run["diverged"] else run["accuracy"] for run in self.runs]


@dataclass(frozen=True)
class FeatureStudy:
    data: str
    split: str
    effort: Effort
    cells: list[Cell]

    def cell(self, method: str, epsilon: float) -> Cell:
        return next(c for c in self.cells if (c.method, c.epsilon) == (method, epsilon))


def feature_study(
    data: str,
    runs: Runs,
    effort: Effort = USUAL,
    methods: Sequence[str] = COMPARED,
    split: str = "iid",
    budgets: Sequence[float] = EPSILONS,
) -> FeatureStudy:
    cases = [(method, epsilon) for epsilon in budgets for method in methods]
    choices = [(n, step) for n in effort.rounds for step in effort.grid]
    # All runs on one reading of the data stand together: a worker reads it once.
    tuning = [FeatureTask(data, split, *case, n, step, TUNING) for n, step in choices for case in cases]
    scores = dict(zip(tuning, map(_score, runs(tuning)), strict=True))
    best = {}
    for case in cases:
        by_choice = {c: scores[FeatureTask(data, split, *case, *c, TUNING)] for c in choices}
        best[case] = max(by_choice, key=by_choice.__getitem__)
    asked = [FeatureTask(data, split, *case, *best[case], seed) for seed in range(effort.seeds) for case in cases]
    found = runs(asked)
    cells = [Cell(*case, *best[case], found[k :: len(cases)]) for k, case in enumerate(cases)]
    return FeatureStudy(data, split, effort, cells)


def _score(run: Result) -> float:
    return -1.0 if run["diverged"] else float(run["train_accuracy"])


def markdown(study: FeatureStudy, command: str) -> str:
    """A page for people."""
    budgets = list(dict.fromkeys(c.epsilon for c in study.cells))
    methods = list(dict.fromkeys(c.method for c in study.cells))
    heads = [f"ε = {e:g}" if math.isfinite(e) else "no noise" for e in budgets]
    lines = [
        f"# {NAMES[study.data]} at real privacy",
        "",
        f"    {command}        # version {__version__}",
        "",
        f"Ten learners, Network.paper(), {study.split} split, no image read twice, {_read(study)}; scattering features "
        f"and a linear head; each image's gradient clipped to ‖g‖₂ ≤ {CLIP:g} (without noise not at all), Gaussian "
        f"noise at the source; ε protects one image, at δ = {DELTA:g}. Test accuracy, mean over learners and "
        f"{study.effort.seeds} seeds, in brackets the least and the greatest seed; below it the images a round and λ0, "
        "which were chosen on another seed by the accuracy on training images. That choice is not charged to ε. The "
        f"noise is seeded, of the scale that the budget asks for. {_edges(study)}",
        "",
        "| method | " + " | ".join(heads) + " |",
        "|---|" + "---|" * len(heads),
    ]
    for method in methods:
        cells = [study.cell(method, e) for e in budgets]
        lines.append(f"| {METHODS[method].label} | " + " | ".join(map(_shown, cells)) + " |")
    return "\n".join([*lines, ""])


def _read(study: FeatureStudy) -> str:
    shares = [run["read"] for cell in study.cells for run in cell.runs]
    return f"{min(shares):.0%} to {max(shares):.0%} of all read in full rounds"


def _edges(study: FeatureStudy) -> str:
    """Where the grid ends at the best choice."""
    rounds, grid = study.effort.rounds, study.effort.grid
    ends = sum(c.per_round in (min(rounds), max(rounds)) or c.step in (min(grid), max(grid)) for c in study.cells)
    return (
        f"The grid was N in {', '.join(map(str, rounds))} and λ0 in {', '.join(f'{s:g}' for s in grid)}; {ends} of "
        f"{len(study.cells)} choices lie at one of its ends, so more could be gained there."
    )


def _shown(cell: Cell) -> str:
    values = cell.accuracies
    if any(run["diverged"] for run in cell.runs):
        return "diverged"
    spread = f"**{np.mean(values):.3f}** ({min(values):.3f}–{max(values):.3f})"
    return f"{spread}<br>N = {cell.per_round}, λ0 = {cell.step:g}"


def results(study: FeatureStudy, command: str) -> dict[str, Any]:
    cells = [asdict(c) | {"epsilon": c.epsilon if math.isfinite(c.epsilon) else None} for c in study.cells]
    about = {"version": __version__, "command": command, "data": study.data, "split": study.split}
    return about | {"delta": DELTA, "clip": CLIP, "cells": cells}
