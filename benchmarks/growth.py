"""What grows how: processor time and peak memory against learners, features, links and rounds, with exponents.

    OMP_NUM_THREADS=1 python benchmarks/growth.py --out docs/results/growth [--quick]        five minutes, idle cores

Every point is a process of its own that plays one run, after a small one that loads what is loaded once; points take
turns, and the least of all turns counts. Time is the process's, so that what else the machine does costs little of it.
Memory is the peak of the run beyond its records. An exponent is the slope of a line through logarithms, by least
squares, over the points from which on what grows outweighs what does not (`fitted_from`); others are drawn hollow.

Networks are Network.random of degree 4, models have 100 features, and rounds are of Algorithm 1 without noise, where
nothing else is said. Records and networks are drawn from seed 0.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from growth_page import page, picture

import gossamer as gs
from gossamer.models import Gradient, LinearModel
from gossamer.records import dense_table
from gossamer.streams import Draws, Stream
from gossamer.version import __version__

MANY = 4200  # learners of a small run that is played as runs of very many are
Variable = Literal["m", "n", "degree", "rounds"]


@dataclass(frozen=True)
class Point:
    """One run: m learners of mean out-degree `degree`, n features, so many rounds."""

    m: int
    n: int = 100
    degree: int = 4
    rounds: int = 8
    model: str = "logistic"  # or ridge
    gradient: Gradient = "latest"
    remember: int | None = None

    def stream(self) -> Stream:
        """A record for every learner that it draws anew, or, for a history, one that arrives in every round."""
        rng = np.random.default_rng(0)
        each = self.rounds if self.gradient == "history" else 1
        X = rng.normal(size=(self.m, each, self.n))
        X /= np.sqrt(self.n)
        y = (X.sum(axis=2) > 0).astype(float)
        if self.gradient == "history":
            return gs.streams.from_arrays(X, y)
        return Draws(dense_table(X[:, 0], y[:, 0]), list(np.arange(self.m)[:, None]), seed=0)

    def linear_model(self) -> LinearModel:
        made = gs.LogisticRegression if self.model == "logistic" else gs.RidgeRegression
        return made(l2=0.01, remember=self.remember)


class Cost(NamedTuple):
    """Processor seconds of a run's parts, and bytes at its peak beyond its records."""

    network: float
    start: float  # from records and network to the first round: θ*, a first evaluation, whatever rounds need
    rounds: float
    end: float  # a last evaluation, and the record
    memory: float


def played(point: Point) -> Cost:
    stream, model = point.stream(), point.linear_model()
    before = _peak_from_here()
    times = [time.process_time()]
    net = gs.Network.random(point.m, degree=point.degree, seed=0)
    times.append(time.process_time())
    ends: list[float] = []
    gs.simulate(
        gs.ldp_gradient_tracking(step=gs.decay(0.1, 0.8)), net, stream, model=model, steps=point.rounds,
        gradient=point.gradient, evaluate_every=point.rounds, callback=lambda _: ends.append(time.process_time()),
    )  # fmt: skip
    rounds = (ends[-2] - ends[0]) * point.rounds / (point.rounds - 2)  # the last is followed by an evaluation
    started = times[1] + max(0.0, ends[0] - times[1] - rounds / point.rounds)
    end = max(0.0, time.process_time() - ends[-2] - rounds / point.rounds)
    return Cost(times[1] - times[0], started - times[1], rounds, end, _status("VmHWM") - before)


def _peak_from_here() -> int:
    """Bytes in use now; the kernel's peak starts anew from them (Linux alone says so)."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


# -- what is varied ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    """Runs that differ in one number; `expected` is how their rounds, and their memory, should grow with it."""

    name: str
    variable: Variable
    values: tuple[int, ...]
    base: Point
    fitted_from: int
    expected: tuple[float, float]

    def points(self, quick: bool) -> list[Point]:
        values = self.values[:-1] if quick else self.values
        return [Point(**{**asdict(self.base), self.variable: value}) for value in values]


FEW = Point(m=20, rounds=0)
T = (500, 1000, 2000, 4000)
SWEEPS = (
    Sweep("learners", "m", (10_000, 20_000, 50_000, 100_000, 200_000), Point(0), 20_000, (1, 1)),
    Sweep("learners that iterate z", "m", (1100, 1600, 2300, 3300), Point(0, n=20), 1100, (2, 2)),
    Sweep("features", "n", (50, 100, 200, 400, 800), Point(5000), 100, (1, 1)),
    Sweep("links", "degree", (4, 8, 16, 32, 64), Point(5000), 16, (1, 1)),
    Sweep("rounds, newest records", "rounds", T, replace(FEW, m=100), 500, (1, 0)),
    Sweep("rounds, all records so far, logistic", "rounds", T[:-1], replace(FEW, gradient="history"), 500, (2, 1)),
    Sweep(
        "rounds, all records so far, ridge", "rounds", T, replace(FEW, gradient="history", model="ridge"), 500, (1, 0)
    ),
    Sweep("rounds, a window of 50, logistic", "rounds", T, replace(FEW, gradient="history", remember=50), 500, (1, 0)),
)


class Grown(NamedTuple):
    """What came of a sweep: costs by value, and exponents of set-up, rounds, end and memory."""

    sweep: Sweep
    costs: dict[int, Cost]
    exponents: dict[str, float]


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of the line through (log x, log y), by least squares."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def grown(sweep: Sweep, costs: Mapping[int, Cost]) -> Grown:
    """The exponents over the points from `fitted_from` on; a cost that never shows has none, which is NaN."""
    fitted = [value for value in sorted(costs) if value >= sweep.fitted_from]
    parts = {
        "set-up": [costs[v].network + costs[v].start for v in fitted],
        "rounds": [costs[v].rounds for v in fitted],
        "end": [costs[v].end for v in fitted],
        "memory": [costs[v].memory for v in fitted],
    }
    found = {name: exponent(fitted, y) if min(y) > 0 else float("nan") for name, y in parts.items()}
    return Grown(sweep, dict(costs), found)


def measured(sweeps: Iterable[Sweep], quick: bool, turns: int) -> list[Grown]:
    """Every point in a process of its own, turn after turn."""
    points = {sweep: sweep.points(quick) for sweep in sweeps}
    found: dict[Sweep, dict[int, list[Cost]]] = {sweep: {} for sweep in points}
    for _ in range(turns):
        for sweep, of_sweep in points.items():
            for point in of_sweep:
                found[sweep].setdefault(getattr(point, sweep.variable), []).append(in_a_process(point))
    least = {s: {v: Cost(*np.min(costs, axis=0).tolist()) for v, costs in of.items()} for s, of in found.items()}
    return [grown(sweep, costs) for sweep, costs in least.items()]


def in_a_process(point: Point) -> Cost:
    command = [sys.executable, __file__, "--point", json.dumps(asdict(point))]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return Cost(*json.loads(said.splitlines()[-1]))


def main() -> None:
    about = __doc__ or ""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write results.json, growth.png and README.md into this folder")
    parser.add_argument("--quick", action="store_true", help="one turn, without the largest points")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.point is not None:
        point = Point(**json.loads(given.point))
        played(replace(point, m=MANY if point.m > MANY else 10, n=5, rounds=4))
        print(json.dumps(played(point)))
        return
    if sys.platform != "linux":
        raise SystemExit("the peak of a process's memory is read from /proc, which only Linux has.")
    turns = 1 if given.quick else 2
    start, found = time.perf_counter(), measured(SWEEPS, given.quick, turns)
    taken = time.perf_counter() - start
    results = {"version": __version__, "seed": 0, "quick": given.quick, "turns": turns, "seconds": taken, **_machine()}
    results["sweeps"] = [_plain(one) for one in found]
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        (given.out / "README.md").write_text(page(results))
        picture(results).savefig(given.out / "growth.png")
    print(page(results))


def _machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}


def _plain(one: Grown) -> dict[str, Any]:
    costs = {str(value): cost._asdict() for value, cost in one.costs.items()}
    return {**asdict(one.sweep), "costs": costs, "exponents": one.exponents}


if __name__ == "__main__":
    main()
