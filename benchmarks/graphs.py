"""How long an edge list takes to become a network, and what a round on a network that changes costs: ratios of one run.

An edge list is measured against numpy.loadtxt, which parses the same numbers in C and does nothing with them. A round
on a network that changes is measured against the same round on the fixed network.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from simulator import show

import gossamer as gs
from gossamer import NetworkSchedule
from gossamer.networks.files import read_graph
from gossamer.streams import from_arrays

REPEATS, ROUNDS = 3, 100


def scale_free(path: Path, learners: int, links: int) -> None:
    """Links whose ends are chosen by a power law, as tab-separated ids with gaps."""
    rng = np.random.default_rng(0)
    ids = rng.permutation(learners) * 7 + 13
    ranks = (rng.pareto(1.2, size=(links, 2)) * learners / 50).astype(int) % learners
    path.write_text("# FromNodeId\tToNodeId\n" + "".join(f"{j}\t{i}\n" for j, i in ids[ranks].tolist()))


def best(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def edge_lists() -> list[tuple[str, str, str]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for links, asked in ((10**5, 2), (10**6, 20)):
            path = Path(folder) / f"{links}.txt"
            scale_free(path, 3 * links // 10, links)
            took = best(lambda path=path: read_graph(path, largest=True))  # type: ignore[misc]
            floor = best(lambda path=path: np.loadtxt(path, dtype=np.int64))  # type: ignore[misc]
            said = f"an edge list of {links:,} links, read, cut to its largest component and checked"
            rows += [(said, f"{took:.2f} s", f"≤ {asked} s"), ("  against numpy.loadtxt", f"{took / floor:.1f} ×", "")]
    return rows


def rounds() -> list[tuple[str, str, str]]:
    """Push–Pull, without noise, history gradients of a few records."""
    rows = []
    for m, n in ((10, 100), (1000, 100)):
        rng = np.random.default_rng(0)
        stream = from_arrays(rng.normal(size=(m, 2, n)), rng.normal(size=(m, 2)))
        net = gs.Network.random(m, 4)
        kinds = {
            "fixed": net,
            "failing 0.1": NetworkSchedule.of(net).failing(0.1),
            "sleeping 0.05": NetworkSchedule.of(net).sleeping(0.05),
        }

        def run(network: Any, stream: Any = stream) -> None:
            gs.simulate(
                gs.push_pull(gs.decay(0.001, 0.6)), network, stream, model=gs.RidgeRegression(l2=0.1), steps=ROUNDS,
                evaluate_every=ROUNDS,
            )  # fmt: skip

        took = {name: best(lambda kind=kind: run(kind)) for name, kind in kinds.items()}  # type: ignore[misc]
        for name in list(kinds)[1:]:
            said = f"a run of {ROUNDS} rounds, {m} learners of degree 4, n = {n}, {name}"
            rows.append((said, f"{took[name] / took['fixed']:.2f} × the fixed network's", ""))
    return rows


if __name__ == "__main__":
    show("graphs", (edge_lists(), rounds()))
