"""What a history costs as the rounds go on, by what learners remember: time and memory against T, fitted exponents.

    python benchmarks/history_cost.py [--out docs/results/history-cost]          a minute and a half

Four learners on a ring take in four records of 40 numbers a round, for 1000 to 8000 rounds, with noise at the source.
The time is the processor's, of all rounds but the first, the less of two runs in turns; the memory is what a
learner's memory holds after the last round. An exponent is the slope of the least-squares line through log T and the
logarithms: 1 where every round costs alike, 2 where every round costs as much as there were rounds before.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gossamer as gs
from gossamer.privacy import simulated
from gossamer.privacy.releases import Releases, every, thinning
from gossamer.setting import expected_room
from gossamer.simulate.engine import Progress
from gossamer.streams import Draws

LEARNERS, PER_ROUND, COLUMNS, POOL = 4, 4, 40, 500
ROUNDS, REPEATS = (1000, 2000, 4000, 8000), 2
WINDOW, SPACING, RATIO = 100, 32, 1.05
CLIP = gs.clip_l2(0.5)


@dataclass(frozen=True)
class Kind:
    """Something that a learner may remember, and in which rounds it takes a gradient over it."""

    name: str
    model: Any
    releases: Releases
    gradient: Any = "history"


KINDS: tuple[Kind, ...] = (
    Kind("all records, every round", gs.LogisticRegression(l2=0.01, clip=CLIP), every()),
    Kind(f"all records, every {SPACING}nd round", gs.LogisticRegression(l2=0.01, clip=CLIP), every(SPACING)),
    Kind(f"all records, releases {RATIO:g} times as late", gs.LogisticRegression(l2=0.01, clip=CLIP), thinning(RATIO)),
    Kind(f"a window of {WINDOW} rounds", gs.LogisticRegression(l2=0.01, clip=CLIP, remember=WINDOW), every()),
    Kind("the newest round", gs.LogisticRegression(l2=0.01, clip=CLIP), every(), gradient="latest"),
    Kind("least squares' sums, every round", gs.RidgeRegression(l2=0.01), every()),
    Kind(f"least squares' sums, every {SPACING}nd round", gs.RidgeRegression(l2=0.01), every(SPACING)),
    Kind("least squares with a clipper, every round", gs.RidgeRegression(l2=0.01, clip=CLIP), every()),
    Kind(
        f"least squares with a clipper, {WINDOW} rounds",
        gs.RidgeRegression(l2=0.01, clip=CLIP, remember=WINDOW),
        every(),
    ),
)
if importlib.util.find_spec("torch") is not None:
    on_tensors = gs.RidgeRegression(l2=0.01, arrays=gs.tensors("cpu", "float64"))
    KINDS += (Kind("least squares' sums, every round, on tensors", on_tensors, every()),)


def records() -> Draws:
    """Records that never end, drawn from a few hundred: only how many there are matters here."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(LEARNERS, POOL, COLUMNS)) / np.sqrt(COLUMNS)
    table = gs.streams.from_arrays(X, (X.sum(axis=2) > 0).astype(float)).table
    return Draws(table, list(np.arange(LEARNERS * POOL).reshape(LEARNERS, POOL)), 0, PER_ROUND)


def seconds(kind: Kind, rounds: int) -> float:
    """All rounds but the first: what is compiled, looked at and written is before them and after."""
    moments = dict[int, float]()

    def tell(progress: Progress) -> None:
        if progress.t in (1, rounds):
            moments[progress.t] = time.process_time()

    noise = simulated(gs.decay(0.01, 0.0), law="gaussian", where="source", releases=kind.releases)
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(0.1, 0.8))
    gs.simulate(
        algorithm, gs.Network.ring(LEARNERS), records(), model=kind.model, privacy=noise, steps=rounds,
        gradient=kind.gradient, evaluate_every=2 * rounds, callback=tell,
    )  # fmt: skip
    return moments[rounds] - moments[1]


def held(kind: Kind, rounds: int) -> float:
    """Bytes that one learner's memory takes after so many rounds."""
    stream = records()
    room = expected_room(kind.model, kind.gradient, rounds, stream)
    memory = kind.model.memory(stream.table, kind.gradient, room)
    for t in range(rounds):
        memory.observe(stream.arrivals(t))
    return float(sum(getattr(v, "nbytes", 0) for v in vars(memory).values()) / LEARNERS)


def exponent(values: list[float]) -> float:
    return float(np.polyfit(np.log(ROUNDS), np.log(values), 1)[0])


def measured(say: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row for each kind: times in turns, so that what else the machine does disturbs none of them for long."""
    times = {(kind.name, T): np.inf for kind in KINDS for T in ROUNDS}
    for kind in KINDS:
        seconds(kind, 10)
    for again in range(REPEATS):
        for T in ROUNDS:
            for kind in KINDS:
                times[kind.name, T] = min(times[kind.name, T], seconds(kind, T))
        say(f"turn {again + 1} is done")
    rows = []
    for kind in KINDS:
        taken, bytes_ = [times[kind.name, T] for T in ROUNDS], [held(kind, T) for T in ROUNDS]
        rows.append({
            "kind": kind.name, "rounds": ROUNDS, "seconds": taken, "time_exponent": exponent(taken), "bytes": bytes_,
            "memory_exponent": exponent(bytes_),
        })  # fmt: skip
    return rows


def as_table(rows: list[dict[str, Any]]) -> str:
    head = [
        "what a learner remembers", *(f"T = {T}" for T in ROUNDS), "time ∝ T^", "a round, ms",
        f"KiB a learner, T = {ROUNDS[0]}", f"T = {ROUNDS[-1]}", "memory ∝ T^",
    ]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        (first, *_, last), taken = row["bytes"], row["seconds"]
        late = 1000 * (taken[-1] - taken[-2]) / (ROUNDS[-1] - ROUNDS[-2])
        cells = [f"{one:.3g} s" for one in taken] + [f"{row['time_exponent']:.2f}", f"{late:.2g}"]
        cells += [f"{first / 1024:.0f}", f"{last / 1024:.0f}", f"{row['memory_exponent']:.2f}"]
        lines.append(f"| {row['kind']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullLocator

    figure = Figure(figsize=(9, 6.2), layout="constrained")
    places: Any = figure.subplots(1, 2)
    for axes, what, title in zip(
        places, ("seconds", "bytes"), ("seconds of the processor in all", "bytes a learner"), strict=True
    ):
        for k, row in enumerate(rows):
            label = f"{row['kind']}: time T^{row['time_exponent']:.2f}, memory T^{abs(row['memory_exponent']):.2f}"
            axes.loglog(row["rounds"], row[what], "osD^v"[k % 5] + "-", label=label, markersize=4)
        axes.xaxis.set_major_locator(FixedLocator(ROUNDS))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels(map(str, ROUNDS))
        axes.set_xlabel("rounds T")
        axes.set_title(title, fontsize=10)
    figure.legend(*places[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=7)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results/history-cost"))
    out = parser.parse_args().out
    rows = measured(lambda said: print(said, flush=True))
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(rows, indent=1) + "\n")
    draw(rows, out / "cost.png")
    print(as_table(rows))


if __name__ == "__main__":
    main()
