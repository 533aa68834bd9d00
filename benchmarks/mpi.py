"""One run on ranks of MPI: what a round costs beside one process, and whether twice the ranks play twice the learners.

1. Ten learners, n = 100, 50 fixed records each, directed gradient tracking, 1000 rounds: rounds a second on two ranks
   and in one process. A round on ranks is one exchange of a few rows, so this is latency and little else.
2. 50,000 learners for each rank, degree 4, n = 100, the newest record's gradient: one process against two ranks with
   twice the learners. 1 would be perfect; half of the difference is what goes between ranks.

    python benchmarks/mpi.py                                both, in turns; `--quick` has fewer learners
    mpiexec -n 2 python benchmarks/mpi.py ten 10 FOLDER     one measurement, as rank 0 writes it down
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import gossamer as gs
from gossamer.cluster.engine import simulate as on_ranks
from gossamer.cluster.world import is_rank
from gossamer.records import dense_table
from gossamer.streams import Draws

TURNS = 3
RANKS = 2
RUNS = 6  # of ten learners, of which the quickest counts
ROUNDS = 1000
EACH = 50_000  # learners of a rank
FEW_ROUNDS = 12
LIMIT = 900.0  # seconds of one measurement


def ten(_: int) -> dict[str, Any]:
    """The row of the peers' comparison."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 50, 100)) / 10
    y = (X.sum(axis=2) + rng.normal(size=(10, 50)) > 0).astype(float)
    return {
        "network": gs.Network.paper(),
        "stream": gs.streams.from_arrays(X, y, per_round=50),
        "algorithm": gs.ldp_gradient_tracking(step=gs.decay(0.5, 0.7)),
        "steps": ROUNDS,
        "gradient": "history",
    }


def many(learners: int) -> dict[str, Any]:
    """So many learners with a record each, which they draw again in every round."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(learners, 100)) / 10
    return {
        "network": gs.Network.random(learners, degree=4),
        "stream": Draws(dense_table(X, (X.sum(axis=1) > 0).astype(float)), list(np.arange(learners)[:, None]), seed=0),
        "algorithm": gs.ldp_gradient_tracking(step=gs.decay(0.5, 0.7)),
        "steps": FEW_ROUNDS,
        "gradient": "latest",
    }


def measure(what: str, learners: int) -> dict[str, Any] | None:
    """Seconds of a round, without set-up and evaluation; at the first rank, where there are ranks."""
    given = ten(learners) if what == "ten" else many(learners)
    model, ends = gs.LogisticRegression(l2=0.01), list[float]()

    def told(_: Any) -> None:
        ends.append(time.perf_counter())

    where = given.pop("algorithm"), given.pop("network"), given.pop("stream")
    alike = {**given, "model": model, "evaluate_every": given["steps"]}
    means, medians = list[float](), list[float]()
    for _ in range(RUNS if what == "ten" else 1):  # the first run compiles
        ends.clear()
        run = on_ranks(*where, **alike, progress=told) if is_rank() else gs.simulate(*where, **alike, callback=told)
        rounds = np.diff(ends[:-1] or [0.0, 0.0])  # the last is followed by an evaluation
        means.append(float(rounds.mean()))
        medians.append(float(np.median(rounds)))
    if run is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"mean": min(means), "median": min(medians), "peak": peak, "notes": list(run.notes)}


def measured(what: str, learners: int, ranks: int) -> dict[str, Any]:
    """The same in processes of its own."""
    with TemporaryDirectory() as folder:
        mpiexec = [str(Path(sys.executable).with_name("mpiexec")), "-n", str(ranks)] if ranks > 1 else []
        command = [*mpiexec, sys.executable, __file__, what, str(learners), folder]
        subprocess.run(command, check=True, timeout=LIMIT)
        found: dict[str, Any] = json.loads((Path(folder) / "found.json").read_text())
        return found


def compared(quick: bool) -> None:
    table = Table("measurement", "one process", f"{RANKS} ranks", "ratio", "wanted", title="MPI")
    each = EACH // 10 if quick else EACH
    small, large = list[tuple[Any, Any]](), list[tuple[Any, Any]]()
    for _ in range(TURNS):
        small.append((measured("ten", 10, 1), measured("ten", 10, RANKS)))
    for _ in range(1 if quick else TURNS):
        large.append((measured("many", each, 1), measured("many", RANKS * each, RANKS)))
    alone, ranks = (min(turn[k]["mean"] for turn in small) for k in range(2))
    table.add_row(
        "10 learners, n = 100: rounds a second", f"{1 / alone:,.0f}", f"{1 / ranks:,.0f}", f"{alone / ranks:.2f} ×",
        "3 × DISROPT's, see other_software.py",
    )  # fmt: skip
    alone, ranks = (min(turn[k]["median"] for turn in large) for k in range(2))
    table.add_row(
        f"{each:,} learners for each rank: seconds a round", f"{alone:.3f}", f"{ranks:.3f}", f"{alone / ranks:.2f} ×",
        "1 × would be perfect",
    )  # fmt: skip
    alone, ranks = (max(turn[k]["peak"] for turn in large) for k in range(2))
    table.add_row(
        "the same: GB of the process, or of rank 0", f"{alone / 1e9:.2f}", f"{ranks / 1e9:.2f}", "", "",
    )  # fmt: skip
    Console(width=130).print(table)
    print(next(note for note in large[0][1]["notes"] if "ranks play" in note))


def main() -> None:
    words = sys.argv[1:]
    if len(words) == 3:
        found = measure(words[0], int(words[1]))
        if found is not None:
            (Path(words[2]) / "found.json").write_text(json.dumps(found))
    else:
        compared("--quick" in words)


if __name__ == "__main__":
    main()
