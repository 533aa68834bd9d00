"""Kinds of Gaussian noise at the source, with Algorithm 1 on the mushrooms: which wins where.

    python benchmarks/correlated.py          writes docs/results/history/kinds.json

One pass of 812 rounds, δ = 1e-5, budgets of the run. latest: noise on the newest record's gradient; correlated: the
same with noise correlated over 128 releases (a matrix factorisation); history: on the mean over all records so far;
both: history with noise correlated over 8 releases. Steps fall as (t+1)^-0.6; with correlated noise they are constant,
as its coefficients are for sums with equal weights. λ0 is chosen for each among ¼ to 8 times the rule's, or 0.002 to
0.06, by the accuracy on three other seeds than those reported.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.experiments.runs import Runs
from gossamer.experiments.tasks import Task
from gossamer.spec import Spec
from gossamer.version import __version__

KINDS: dict[str, dict[str, Any]] = {
    "latest": {"gradient": "latest"},
    "correlated": {"gradient": "latest", "band": 128},
    "history": {"gradient": "history"},
    "both": {"gradient": "history", "band": 8},
}
CONSTANT = (0.002, 0.005, 0.01, 0.02, 0.06)  # steps with correlated noise
EPSILONS, TIMES, TUNING = (0.3, 1.0, 3.0, 10.0), (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), (1000, 1001, 1002)


def task(kind: str, epsilon: float, step: float | None, seed: int) -> Task:
    text = "auto" if step is None else f"{step:.6g},{0 if kind == 'correlated' else 0.6}"
    spec = Spec.of(dataset="mushrooms", draw="once", epsilon=repr(epsilon), step=text, seed=seed, **KINDS[kind])
    return Task(spec, evaluations=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs/results/history"))
    given = parser.parse_args()
    runs = Runs(given.out, given.jobs)
    cells = [(kind, e) for kind in KINDS for e in EPSILONS]
    ruled = [cell for cell in cells if cell[0] != "correlated"]
    rule = dict(zip(ruled, runs(task(*cell, None, TUNING[0]) for cell in ruled), strict=True))
    steps = {cell: [times * rule[cell]["step"] for times in TIMES] if cell in rule else CONSTANT for cell in cells}
    keys = [(cell, step, seed) for cell in cells for step in steps[cell] for seed in TUNING]
    ends = [run["accuracy"][-1] for run in runs(task(*cell, step, seed) for cell, step, seed in keys)]
    ended = dict(zip(keys, ends, strict=True))
    scores = {
        cell: {step: np.mean([ended[cell, step, seed] for seed in TUNING]) for step in steps[cell]} for cell in cells
    }
    best = {cell: max(scores[cell], key=lambda s, cell=cell: scores[cell][s]) for cell in cells}  # type: ignore[misc]
    found: dict[str, dict[str, Any]] = {}
    for cell in cells:
        shown = runs(task(*cell, best[cell], seed) for seed in range(given.seeds))
        found[" ".join(map(str, cell))] = {"step": best[cell], "accuracy": [run["accuracy"][-1] for run in shown]}
    (given.out / "kinds.json").write_text(json.dumps({"version": __version__, "cells": found}, indent=1) + "\n")
    print("| noise | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |\n|---|" + "---|" * len(EPSILONS))
    for kind in KINDS:
        rows = [found[f"{kind} {e}"]["accuracy"] for e in EPSILONS]
        print(f"| {kind} | " + " | ".join(f"{np.mean(r):.3f} ({min(r):.3f}–{max(r):.3f})" for r in rows) + " |")


if __name__ == "__main__":
    main()
