"""Runs that one process and many ranks make alike: `mpiexec -n 4 python tests/cluster_cases.py FOLDER`.

Every case is played by all four ranks, and by two of them for each half of the cases; what rank 0 has goes to FOLDER.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gossamer as gs
from gossamer.algorithms import METHODS, find_method
from gossamer.models.standard import Standardise
from gossamer.networks import network
from gossamer.streams import Draws

M, ROUNDS, FEATURES = 9, 8, 5
EDGES = [(i, (i + 1) % M) for i in range(M)] + [(0, 4), (7, 2), (3, 8)]
NETWORKS = {
    "directed": gs.Network.from_edges(M, EDGES, C_edges=[*EDGES, (5, 1)]),
    "undirected": gs.Network.from_edges(M, [*EDGES, *((i, j) for j, i in EDGES)], weight=0.1),
}
Simulate = Callable[..., Any]


def stream(classes: int = 2, per_round: int = 1) -> Any:
    """Records of nine learners, of whom some have fewer than others."""
    rng = np.random.default_rng(7)
    X = [rng.uniform(-1, 1, size=(per_round * (4 + i), FEATURES)) for i in range(M)]
    labels = [(a @ np.arange(1.0, FEATURES + 1) > 0) + (a[:, 0] > 0.3) * (classes > 2) for a in X]
    return gs.streams.from_arrays(X, [np.asarray(b, dtype=float) for b in labels], per_round, ranges=(-1, 1))


def cases() -> Iterator[tuple[str, Callable[[Simulate], Any]]]:
    """Each by its name, as a run by whatever simulates it."""
    for name in METHODS.entries():
        for where, links in NETWORKS.items():
            for noise in (None, gs.decay(0.05, [0.6 + 0.01 * i for i in range(M)])):
                method = find_method(name).make(gs.decay(0.1, 0.8), noise, strict=False)
                yield f"{name}-{where}-{'noise' if noise else 'quiet'}", run_of(method, links)
    directed = NETWORKS["directed"]
    tracking = gs.ldp_gradient_tracking(gs.decay(0.1, 0.8))
    yield "latest", run_of(tracking, directed, steps=4, gradient="latest")
    yield "softmax", run_of(tracking, directed, gs.SoftmaxRegression(classes=3, l2=0.01), stream(3))
    ridge = gs.RidgeRegression(l2=0.01)
    yield "ridge", run_of(tracking, directed, ridge)
    yield "ridge-clipped", run_of(tracking, directed, gs.RidgeRegression(l2=0.01, clip=gs.clip_l2(1.0)))
    yield "window", run_of(tracking, directed, gs.LogisticRegression(l2=0.01, remember=3))
    weighted = stream().within(None, "records")
    yield "weighted", run_of(tracking, directed, records=weighted)
    seen = gs.LogisticRegression(l2=0.01, standardise=Standardise((0, 1), False, 3.0))
    yield "standardised", run_of(tracking, directed, seen)
    by_rule = find_method("ldp_gradient_tracking").make("auto")
    yield "step-by-rule", run_of(by_rule, directed)
    pools = np.array_split(np.arange(40), M)
    drawn = Draws(stream().table, pools, seed=2, per_round=2)
    yield "draws", run_of(tracking, directed, records=drawn)
    yield "many", as_of_many(run_of(tracking, directed))


def run_of(
    method: Any, links: gs.Network, model: Any = None, records: Any = None, **more: Any
) -> Callable[[Simulate], Any]:
    def run(simulate: Simulate) -> Any:
        given = {"steps": ROUNDS, "seed": 5, "evaluate_every": 3} | more
        chosen = gs.LogisticRegression(l2=0.01) if model is None else model
        return simulate(method, links, stream() if records is None else records, model=chosen, **given)

    return run


def as_of_many(run: Callable[[Simulate], Any]) -> Callable[[Simulate], Any]:
    """The same with the exact shares in the place of z, as runs of thousands have them."""

    def few_are_many(simulate: Simulate) -> Any:
        usual, network.ITERATED_UP_TO = network.ITERATED_UP_TO, M - 1
        try:
            return run(simulate)
        finally:
            network.ITERATED_UP_TO = usual

    return few_are_many


def quiet(simulate: Simulate, **more: Any) -> Any:
    """Seeded noise, for a run that goes on."""
    method = gs.ldp_gradient_tracking(gs.decay(0.1, 0.8), gs.decay(0.05, 0.6))
    return run_of(method, NETWORKS["directed"], **more)(simulate)


def private(simulate: Simulate, **more: Any) -> Any:
    """Exact noise for budgets that differ, one of which is spent before the end."""
    budgets = [1.0 + i for i in range(M)]
    mechanism = gs.Laplace.for_budget(budgets, horizon=6)
    model = gs.LogisticRegression(l2=0.01)
    tracking = gs.ldp_gradient_tracking(gs.decay(0.1, 0.8))
    rng = np.random.default_rng(7)
    X = rng.uniform(-1, 1, size=(M, 2 * ROUNDS, FEATURES))
    records = gs.streams.from_arrays(X, (X[..., 0] > 0).astype(float), ranges=(-1, 1))
    given = {"steps": ROUNDS, "seed": 5} | more
    return simulate(tracking, NETWORKS["directed"], records, model=model, privacy=mechanism, **given)


def arrays_of(record: Any) -> dict[str, Any]:
    """What must be alike."""
    named = {f"state.{name}": value for name, value in record.state.items()}
    named |= {f"history.{name}": record.history[name] for name in record.history.dtype.names}
    named |= {"confusion": np.array(record.config.get("confusion", 0.0))}
    return named | {f"learners.{name}": record.learners[name] for name in record.learners.dtype.names}


def main(folder: Path) -> None:
    from mpi4py import MPI

    from gossamer.cluster import simulate

    world = MPI.COMM_WORLD
    half = world.Split(world.rank // 2)
    alike: dict[str, Any] = {}
    for k, (name, run) in enumerate(cases()):
        made = run(simulate)
        if made is not None:
            alike |= {f"4 {name} {key}": value for key, value in arrays_of(made).items()}
        if k % 2 == world.rank // 2:
            made = run(lambda *given, **more: simulate(*given, comm=half, **more))
            if made is not None:
                alike |= {f"2 {name} {key}": value for key, value in arrays_of(made).items()}
    if half.rank == 0:
        np.savez(folder / f"{world.rank}.npz", **alike)
    for name, run in (("private", private), ("quiet", quiet)):
        made = run(simulate)
        if made is not None:
            made.save(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
