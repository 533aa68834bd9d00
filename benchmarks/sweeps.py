"""What joblib costs a study: a small comparison on each engine, against a pool of processes by hand.

Each way makes the same runs from nothing, its workers' start included, in turns; a row is the median of the ratios. The
results of all ways are compared, byte by byte.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, cast

from simulator import show

from gossamer.experiments.compare import compare
from gossamer.experiments.runs import Runs
from gossamer.experiments.study import Effort
from gossamer.experiments.workers import Job, Result
from gossamer.files import replace_file
from gossamer.spec import Spec

METHODS = ("ldp_gradient_tracking", "dsgd")
PROBLEM = Spec.of(dataset="mushrooms", l2=1e-2, graph="paper")
WORKERS = 2


class Pool:
    """Runs without joblib: a pool of new processes for each part of a study, and a file for each outcome."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "runs"

    def __call__(self, tasks: Iterable[Job]) -> list[Result]:
        tasks = list(tasks)
        results: dict[Job, Result] = {}
        if not tasks:
            return []
        with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
            waiting = {pool.submit(outcome_of, task): task for task in dict.fromkeys(tasks)}
            for future in as_completed(waiting):
                task = waiting[future]
                results[task] = future.result()
                kept = json.dumps({"key": task.key(), "result": results[task]}).encode()
                replace_file(self._folder / f"{task.key()}.json", kept)
        return [results[task] for task in tasks]


def outcome_of(job: Job) -> Result:
    return job.outcome()


def by_hand(folder: Path, effort: Effort) -> None:
    compare(PROBLEM, cast(Any, Pool(folder)), effort, METHODS)


def on(engine: str, jobs: int = WORKERS) -> Callable[[Path, Effort], None]:
    def study(folder: Path, effort: Effort) -> None:
        with Runs(folder, jobs, engine=engine) as runs:
            compare(PROBLEM, runs, effort, METHODS)

    return study


def seconds_of(way: Callable[[Path, Effort], None], effort: Effort) -> tuple[float, dict[str, bytes]]:
    with tempfile.TemporaryDirectory() as place:
        start = time.perf_counter()
        way(Path(place), effort)
        taken = time.perf_counter() - start
        return taken, {file.name: file.read_bytes() for file in (Path(place) / "runs").iterdir()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    effort = Effort(steps=given.steps, seeds=2, tuning_seeds=1, grid=tuple(2.0**k for k in range(-6, 2)))
    base = "a pool of processes by hand"
    ways = {base: by_hand, f"joblib, {WORKERS} processes": on("local"), "this process alone": on("local", 1)}
    if importlib.util.find_spec("ray") is not None:
        ways[f"Ray started for it, {WORKERS} workers"] = on("ray")
    taken: dict[str, list[float]] = {name: [] for name in ways}
    kept: dict[str, bytes] = {}
    for _ in range(given.repeats):
        for name, way in ways.items():
            seconds, files = seconds_of(way, effort)
            taken[name].append(seconds)
            kept = kept or files
            if files != kept:
                raise SystemExit(f"{name}: other results than {base}")
    rows = [(f"{len(kept)} runs of {given.steps} rounds, {base}", f"{statistics.median(taken[base]):.2f} s", "")]
    for name in list(ways)[1:]:
        ratios = [mine / theirs for mine, theirs in zip(taken[name], taken[base], strict=True)]
        spread = f"× {statistics.median(ratios):.2f} the time ({min(ratios):.2f} to {max(ratios):.2f})"
        rows.append((f"the same bytes, {name}", spread, "≤ 1.1" if "joblib" in name else ""))
    show("sweeps", [rows])


if __name__ == "__main__":
    main()
