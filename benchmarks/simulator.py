"""Speed of the simulator, as ratios in one run; `make bench` prints the table.

1. Gradient tracking on 50 fixed records a learner (m = 10, n = 100) against a hand-written NumPy loop of the same
   matrices, and the cost of a round at the end of a long run against one at the beginning.
2. The history gradient on Mushrooms (m = 10, T = 2000, whole run) against dense BLAS over the stacked float64 history,
   and the memory it takes against the packed data.
3. A round of m = 1000 learners on a sparse digraph against the flops-proportional extrapolation from m = 10.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import replace
from timeit import repeat

import numpy as np
from rich.console import Console
from rich.table import Table

import gossamer as gs
from gossamer.records import dense_table, features_of
from gossamer.rounds import with_ridge
from gossamer.simulate.mixer import Mixer
from gossamer.streams import Draws
from gossamer.types import Array

REPEATS = 7


def alternately(*tasks: Callable[[], object]) -> list[float]:
    """The least time of each task, run in turns, so that what else the machine does disturbs none of them for long."""
    times: list[list[float]] = [[] for _ in tasks]
    for task in tasks:
        task()
    for _ in range(REPEATS):
        for task, taken in zip(tasks, times, strict=True):
            start = time.perf_counter()
            task()
            taken.append(time.perf_counter() - start)
    return [min(taken) for taken in times]


# -- 1: overhead of the engine ------------------------------------------------------------------------------------


def fixed_records(m: int, n: int, records: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, records, n)) / np.sqrt(n)
    return X, (X.sum(axis=2) + rng.normal(size=(m, records)) > 0).astype(float)


def hand_written(net: gs.Network, X: Array, y: Array, l2: float, steps: int) -> Array:
    """Algorithm 1 as somebody would write it who needs it once."""
    m, records, n = X.shape
    pull, push = np.eye(m) + net.R, np.eye(m) + net.C
    s, theta, z = np.zeros((m, n)), np.zeros((m, n)), np.eye(m)
    for t in range(steps):
        margins = np.matmul(X, theta[:, :, None])[:, :, 0]
        weights = 1 / (1 + np.exp(-margins)) - y
        g = np.matmul(weights[:, None, :], X)[:, 0] / records + l2 * theta
        s_new = push @ s + 0.5 / (t + 1) ** 0.7 * g
        theta = pull @ theta - (s_new - s) / (m * np.diag(z))[:, None]
        s, z = s_new, pull @ z
    return theta


def engine_against_a_loop() -> list[tuple[str, str, str]]:
    net, steps = gs.Network.paper(), 1000
    X, y = fixed_records(10, 100, 50)
    stream, model = gs.streams.from_arrays(X, y, per_round=50), gs.LogisticRegression(l2=0.01)
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(0.5, 0.7))

    def ours(rounds: int = steps) -> Array:
        return gs.simulate(algorithm, net, stream, model=model, steps=rounds, evaluate_every=rounds).theta

    np.testing.assert_allclose(ours(), hand_written(net, X, y, 0.01, steps), atol=1e-10)
    engine, loop = alternately(ours, lambda: hand_written(net, X, y, 0.01, steps))
    short, long = alternately(lambda: ours(2000), lambda: ours(16_000))
    return [
        ("engine / hand-written NumPy loop, speed", f"{loop / engine:.2f} ×", "≥ 0.7 ×"),
        ("cost of a round, 16 000 rounds / 2000 rounds", f"{long / short / 8:.2f} ×", "about 1 ×"),
    ]


def parts_of_a_round() -> list[tuple[str, str, str]]:
    """The functions that a round without noise calls, one by one, once z has settled; with the loop's problem."""
    net, n, l2, t = gs.Network.paper(), 100, 0.01, 1000
    stream = gs.streams.from_arrays(*fixed_records(net.m, n, 50), per_round=50)
    algorithm, model = gs.ldp_gradient_tracking(step=gs.decay(0.5, 0.7)), gs.LogisticRegression(l2=l2)
    rows, mixer = net.rows(mixes=algorithm.mixes), Mixer(net, algorithm.mixes)
    memory = model.memory(stream.table, "history", stream.room(1))
    memory.observe(stream.arrivals(0))
    state = algorithm.init(rows, np.random.default_rng(1).normal(size=(net.m, n)))
    state = state._replace(z=np.broadcast_to(net.perron / net.m, (net.m, net.m)).copy())
    gradient = with_ridge(memory.gradient(state.theta), l2, state.theta)
    got = mixer.all(algorithm.emit(state, gradient, rows, t))
    parts: dict[str, Callable[[], object]] = {
        "gradient": lambda: memory.gradient(state.theta),
        "its ridge": lambda: with_ridge(gradient, l2, state.theta),
        "what is sent, and mixed": lambda: mixer.all(algorithm.emit(state, gradient, rows, t)),
        "step": lambda: algorithm.step(state, got, gradient, rows, t),
    }
    least = {name: min(repeat(part, number=1000, repeat=REPEATS)) * 1e3 for name, part in parts.items()}
    return [(f"  of a round: {name}", f"{taken:.1f} µs", "") for name, taken in least.items()]


# -- 2: the history gradient on Mushrooms -------------------------------------------------------------------------


def history_gradient() -> list[tuple[str, str, str]]:
    m, T = 10, 2000
    stream = gs.datasets.mushrooms(learners=m, seed=0)
    model = gs.LogisticRegression(l2=0.01)
    theta = np.random.default_rng(0).normal(size=(m, 117))
    batches = [stream.arrivals(t) for t in range(T)]
    one_hot = [features_of(replace(stream.table, rows=b.rows, labels=b.labels)).toarray() for b in batches]
    rows = np.array(one_hot)
    X, y = np.ascontiguousarray(rows.transpose(1, 0, 2)), np.array([b.labels for b in batches]).T

    def ours() -> Array:
        memory = model.memory(stream.table, "history", stream.room(T))
        for batch in batches:
            memory.observe(batch)
            grad = memory.gradient(theta)
        return grad

    def dense() -> Array:
        for t in range(1, T + 1):
            margins = np.matmul(X[:, :t], theta[:, :, None])[:, :, 0]
            weights = 1 / (1 + np.exp(-margins)) - y[:, :t]
            grad: Array = np.matmul(weights[:, None, :], X[:, :t])[:, 0] / t  # the ridge is added after the noise
        return grad

    np.testing.assert_allclose(ours(), dense(), atol=1e-10)
    coded, blas = alternately(ours, dense)
    tracemalloc.start()
    ours()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    packed = m * T * (22 + 8)  # 22 category bytes and a float64 label a record
    lookups = m * T * (T + 1) / 2 * 2 * stream.table.rows.shape[1]
    return [
        ("history gradient / dense BLAS, speed", f"{blas / coded:.2f} ×", "≥ 2 ×, aim 4 ×"),
        ("  its time per table look-up", f"{coded / lookups * 1e9:.2f} ns", ""),
        ("  peak memory / packed data", f"{peak / packed:.2f} ×", "≤ 1.5 ×"),
    ]


# -- 3: many learners ---------------------------------------------------------------------------------------------


def flops(net: gs.Network, n: int, steps: int) -> float:
    """Multiplications and additions of a run: two mixings, z until it settles, gradient, updates."""
    m, links = net.m, len(net.edges())
    z_rounds = min(steps, net.settles)
    return steps * (2 * 2 * links * n + m * n * (4 + 12)) + z_rounds * (2 * links * m + 2 * m * m)


def time_of_rounds(net: gs.Network, n: int, steps: int) -> float:
    """Seconds from the first round to the last, without set-up and evaluation; every learner draws from 20 records."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20 * net.m, n)) / np.sqrt(n)
    stream = Draws(dense_table(X, X.sum(axis=1)), list(np.arange(20 * net.m).reshape(net.m, 20)), seed=0)
    ends: list[float] = []

    def note(progress: object) -> None:
        ends.append(time.perf_counter())

    gs.simulate(
        gs.ldp_gradient_tracking(step=gs.decay(0.1, 0.8)),
        net,
        stream,
        model=gs.RidgeRegression(l2=0.01),
        steps=steps,
        gradient="latest",
        evaluate_every=steps,
        callback=note,
    )
    return ends[-2] - ends[0]


def many_learners() -> list[tuple[str, str, str]]:
    n, steps = 100, 1000
    small, large = (gs.Network.random(m, degree=3, seed=0) for m in (10, 1000))
    times = [(time_of_rounds(small, n, steps), time_of_rounds(large, n, steps)) for _ in range(REPEATS)]
    few, many = (min(column) for column in zip(*times, strict=True))
    predicted = few * flops(large, n, steps) / flops(small, n, steps)
    return [
        ("1000 learners / extrapolated from 10 by flops, cost", f"{many / predicted:.2f} ×", "≤ 3 ×"),
        ("  a round of 1000 learners, z included", f"{many / steps * 1e3:.2f} ms", ""),
    ]


def show(title: str, sections: Iterable[list[tuple[str, str, str]]]) -> None:
    table = Table("measured in one run", "result", "asked", title=f"gossamer {gs.__version__}, {title}")
    for rows in sections:
        for row in rows:
            table.add_row(*row)
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    show("simulator", ([*engine_against_a_loop(), *parts_of_a_round()], history_gradient(), many_learners()))
