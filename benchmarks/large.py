"""Very many learners: how near a round comes to what it cannot do without.

python benchmarks/large.py cpu     m = 10^5, degree 4, n = 100, float64, NumPy
python benchmarks/large.py check   whether a GPU plays what the equations say
python benchmarks/large.py gpu     m = 10^6, degree 10, n = 100, float32, one GPU; needs numpy, scipy and torch alone

On a CPU a round is set against its two sparse products alone (SciPy's CSR @ dense, in turns in the same process), and
the memory of a whole run, in a fresh process, against Algorithm 1's state, 2 m n numbers.

On a GPU it is set against the bytes that must move, at 4.3 TB/s, which a plain copy reaches on an H200:

    once      every learner's row of the state is read and written once, and so are its links and records read
    gathers   and every link reads its sender's row from memory once more, since no cache holds a million rows

Where learners hear others near to them, rows are still in the cache when they are gathered, and `once` is what counts.
In a random network nothing is near, and `gathers` must move. Records of a round lie on the device already.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy

import gossamer as gs
from gossamer.algorithms import METHODS, find_method
from gossamer.networks import Network
from gossamer.privacy import Unproved, simulated
from gossamer.records import Batch, dense_table
from gossamer.rounds import Rounds
from gossamer.simulate.mixer import Mixer
from gossamer.simulate.play import Whole, play_of
from gossamer.streams.stream import Draws

REPEATS = 7
IN_A_ROW = 10  # rounds that are timed together: the processor prepares one while the device plays another
NEAR = {"near": 1000, "next": 50}  # how far learners are who hear each other
BANDWIDTH = 4.3e12  # bytes a second that a device-to-device copy moves on an H200


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# -- networks ---------------------------------------------------------------------------------------------------------


def near(m: int, degree: int, within: int) -> Network:
    """Everybody hears those at the same `degree` distances, none of them beyond `within`."""
    rng = np.random.default_rng(0)
    others = np.setdiff1d(np.arange(-within, within + 1), [-1, 0])
    distances = np.concatenate([[-1], rng.choice(others, degree - 1, replace=False)])
    senders = np.sort((np.arange(m)[:, None] + distances) % m, axis=1)
    weight = min(0.25, 1 / (degree + 1))
    starts = np.arange(0, m * degree + 1, degree)
    off = scipy.sparse.csr_array((np.full(m * degree, weight), senders.ravel(), starts), shape=(m, m))
    return Network(off - scipy.sparse.diags_array(np.full(m, weight * degree)))


# -- a CPU ------------------------------------------------------------------------------------------------------------


def cpu(options: argparse.Namespace) -> dict[str, Any]:
    m, n = options.learners, options.numbers
    found = rounds_against_products(m, n, options.degree)
    asked = [
        sys.executable,
        __file__,
        "memory",
        "--learners",
        str(m),
        "--numbers",
        str(n),
        "--degree",
        f"{options.degree}",
    ]
    found |= json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    for name, value in found.items():
        print(f"{name}: {value:.3g}")
    return found


def records_of(m: int, n: int) -> Draws:
    """One record of each learner."""
    X = np.random.default_rng(0).normal(size=(m, n)) / n**0.5
    return Draws(dense_table(X, (X.sum(axis=1) > 0).astype(float)), list(np.arange(m)[:, None]), seed=0)


def rounds_against_products(m: int, n: int, degree: int) -> dict[str, float]:
    """Rounds of a run, arrivals included, and the two products that are in each of them, in turns."""
    network, stream = Network.random(m, degree), records_of(m, n)
    model, method = gs.LogisticRegression(l2=0.01), gs.ldp_gradient_tracking(gs.decay(0.5, 0.6))
    R, C = network.off_diagonal("R"), network.off_diagonal("C")
    one, other = np.random.default_rng(1).normal(size=(2, m, n))
    taken: dict[str, list[float]] = {"rounds": [], "with noise": [], "products": []}
    turns: dict[str, Callable[[], Any]] = {"products": lambda: (R @ one, C @ other)}
    for name, noise in (("rounds", None), ("with noise", simulated(gs.decay(0.1, 0.6)))):
        turns[name] = a_round(method, network, stream, model, noise)
    for _ in range(3 + REPEATS):  # the first ones get their memory
        for name, work in turns.items():
            taken[name].append(seconds(work))
    best = {name: min(each[3:]) for name, each in taken.items()}
    return {
        "a round, s": best["rounds"],
        "its two products alone, s": best["products"],
        "round / products": best["rounds"] / best["products"],
        "round with seeded noise / products": best["with noise"] / best["products"],
    }


def a_round(method: Any, network: Network, stream: Draws, model: Any, noise: Any) -> Callable[[], Any]:
    """Plays one more round, as simulate() does it."""
    n, rows = stream.table.columns, network.rows(mixes=method.mixes)
    memory = model.memory(stream.table, "latest", stream.room(1))
    rounds = Rounds(method, rows, memory, Unproved(noise), model.ridge(n), finite=False)
    now = SimpleNamespace(state=method.init(rows, model.start(network.m, 0, n)), t=0)
    play: Any = play_of(
        method, network, rows, model, memory, model.ridge(n), None, noise, rounds, now.state, 0
    )  # fmt: skip

    def one() -> None:
        now.state, now.t = play(now.state, stream.arrivals(now.t), now.t), now.t + 1

    return one


def memory(options: argparse.Namespace) -> dict[str, float]:
    """What a run adds to the memory of a process that has imported all it needs, in states: once with its records."""
    m, n = options.learners, options.numbers
    model, method = gs.LogisticRegression(l2=0.01), gs.ldp_gradient_tracking(gs.decay(0.5, 0.6))
    gs.simulate(method, Network.random(5000, 4), records_of(5000, 3), model=model, steps=2, gradient="latest")
    before = peak()
    stream = records_of(m, n)
    given = stream.table.rows.nbytes
    run = gs.simulate(
        method, Network.random(m, options.degree), stream, model=model, steps=10, gradient="latest", evaluate_every=10
    )
    while_running = peak() - before
    with tempfile.TemporaryDirectory() as folder:
        run.save(Path(folder, "record"))
    state = 2 * m * n * 8
    return {
        "peak memory / state, without the records given": (while_running - given) / state,
        "peak memory / state, all of it": while_running / state,
        "peak memory / state, all of it, with saving": (peak() - before) / state,
    }


def peak() -> int:
    """Bytes that this process has had at most; getrusage() would count its parent's, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


# -- a GPU ------------------------------------------------------------------------------------------------------------


def milliseconds(work: Callable[[], Any], times: int = 5) -> float:
    """Of one piece of work among many in a row, as in a run, on the device's own clock; the median of so many."""
    import torch

    for _ in range(3):
        work()
    taken: list[float] = []
    for _ in range(times):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        for _ in range(IN_A_ROW):
            work()
        end.record()
        torch.cuda.synchronize()
        taken.append(start.elapsed_time(end) / IN_A_ROW)
    return statistics.median(taken)


def copied_at(size: int) -> float:
    """TB/s, of so many float32, counting bytes read and bytes written."""
    import torch

    one = torch.randn(size, device="cuda")
    other = torch.empty_like(one)
    return 2 * 4 * size / milliseconds(lambda: other.copy_(one)) / 1e9


def bytes_of(m: int, n: int, links: int, records: int, size: int = 4) -> tuple[float, float]:
    """What a round of Algorithm 1 must move: each row once; and with every link's row from memory."""
    state = 2 * 2 * m * n * size
    graph = 2 * (links * (4 + size) + m * 8)
    once = state + graph + records * m * (n + 1) * size
    return once, once + 2 * links * n * size


class OnDevice:
    """A million learners on a GPU, and how they are played."""

    def __init__(self, network: Network, n: int, gradient: Any, records: int) -> None:
        import torch

        m = network.m
        self.network, self.n, self.records = network, n, records
        self.model = gs.LogisticRegression(l2=0.01, arrays=gs.tensors("cuda", "float32"))
        self.algorithm = gs.ldp_gradient_tracking(gs.decay(0.5, 0.6))
        self.rows = network.rows(mixes=self.algorithm.mixes).of_kind(self.model.arrays)
        self.memory: Any = self.model.memory(
            dense_table(np.zeros((1, n)), np.zeros(1)), gradient, np.ones(m, dtype=np.int64)
        )
        generator = torch.Generator(device="cuda").manual_seed(0)
        counts, none = np.ones(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
        for _ in range(records):
            X = torch.randn(m, n, generator=generator, device="cuda") / n**0.5
            rows: Any = X
            self.batch = Batch(rows, (X.sum(dim=1) > 0).float(), counts)
            self.memory.observe(self.batch)
        if gradient == "history":
            self.batch = Batch(X[:0], X[:0, 0], none)
        self.rounds = Rounds(self.algorithm, self.rows, self.memory, Unproved(None), self.model.ridge(n), finite=False)
        self.state = self.algorithm.init(self.rows, self.model.start(m, 0, n))

    def fast(self) -> Any:
        """How a run plays it."""
        return play_of(
            self.algorithm, self.network, self.rows, self.model, self.memory, self.model.ridge(self.n), None, None,
            self.rounds, self.state, 0,
        )  # fmt: skip

    def whole(self) -> Any:
        """Round by round in torch's own operations."""
        return Whole(self.rounds, Mixer(self.network, self.algorithm.mixes, self.model.arrays))

    def round_of(self, play: Any) -> Callable[[], Any]:
        now = SimpleNamespace(state=self.state, t=0)

        def one() -> None:
            now.state, now.t = play(now.state, self.batch, now.t), now.t + 1

        return one


def gpu(options: argparse.Namespace) -> dict[str, Any]:
    try:
        import torch
    except ImportError:
        return skipped("it needs torch, the extra nn")
    if not torch.cuda.is_available():
        return skipped("this machine has no GPU that torch can use")
    m, n, degree = options.learners, options.numbers, options.degree
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "m": m, "n": n}
    found["copy TB/s"] = copied_at(min(2**30, m * n))
    print(f"{found['device']}, torch {torch.__version__}: a copy moves {found['copy TB/s']:.2f} TB/s", flush=True)
    for name in options.networks.split(","):
        start = time.perf_counter()
        network = near(m, degree, NEAR[name]) if name in NEAR else Network.random(m, degree)
        built = time.perf_counter() - start
        weighed = seconds(lambda: network.perron)  # noqa: B023
        print(f"{name}: {network.links:,} links, built in {built:.1f} s, Perron vector {weighed:.1f} s", flush=True)
        found[name] = {"links": network.links, "built s": built, "perron s": weighed}
        for gradient, records in (("latest", 1), ("history", 4)):
            found[name][gradient] = one = on_gpu(network, n, gradient, records, options)
            print(f"{name}, {gradient} of {records}: " + ", ".join(f"{k} {v:.3g}" for k, v in one.items()), flush=True)
            torch.cuda.empty_cache()
    return found


def skipped(why: str) -> dict[str, Any]:
    print(f"a round of very many learners on a GPU: skipped, {why}.", flush=True)
    return {}


def on_gpu(network: Network, n: int, gradient: str, records: int, options: argparse.Namespace) -> dict[str, float]:
    import torch

    torch.cuda.reset_peak_memory_stats()
    case = OnDevice(network, n, gradient, records)
    before = torch.cuda.memory_allocated()
    play = case.fast()
    took = milliseconds(case.round_of(play))
    once, gathers = bytes_of(network.m, n, network.links, records)
    found = {
        "ms": took,
        "× once": took / (once / BANDWIDTH * 1e3),
        "× with gathers": took / (gathers / BANDWIDTH * 1e3),
        "GiB": torch.cuda.max_memory_allocated() / 2**30,
        "of it before": before / 2**30,
    }
    if options.variants and gradient == "latest":
        found |= variants(case, play)
    return found


def variants(case: OnDevice, play: Any) -> dict[str, float]:
    """Other ways to play the same round, in milliseconds."""
    found = {"by " + type(play).__name__: 1.0}
    if hasattr(play, "_links"):
        links = play._links
        for at_once in (4, 5, 8, 10, 12, 16):
            play._links = links._replace(at_once=at_once)
            found[f"{at_once} rows at once"] = milliseconds(case.round_of(play))
        play._links = links
        found["the table of the method alone"] = milliseconds(lambda: play._table(case.state, 1))
    whole = case.whole()
    found["torch's own operations"] = milliseconds(case.round_of(whole), 2)
    state = case.state

    def products() -> None:
        whole._mix("R", state.theta)
        whole._mix("C", state.s)

    found["cuSPARSE products alone"] = milliseconds(products, 2)
    return found


# -- whether a GPU plays what the equations say -----------------------------------------------------------------------


def check(options: argparse.Namespace) -> dict[str, Any]:
    """A run on a GPU against (7) and (8) in NumPy, and every method in one pass against torch's own operations."""
    m, n, steps = options.learners, 37, 5
    network, rng = Network.random(m, options.degree), np.random.default_rng(0)
    X = rng.normal(size=(m, n)) / n**0.5
    stream = Draws(dense_table(X, (X.sum(axis=1) > 0).astype(float)), list(np.arange(m)[:, None]), seed=0)
    R, C, u = network.R, network.C, network.perron
    s, theta = np.zeros((m, n)), np.zeros((m, n))
    for t in range(steps):
        batch = stream.arrivals(t)
        p = 1 / (1 + np.exp(-(batch.rows * theta).sum(axis=1)))
        after = s + C @ s + 0.5 * (t + 1) ** -0.6 * ((p - batch.labels)[:, None] * batch.rows + 0.01 * theta)
        theta, s = theta + R @ theta - (after - s) / u[:, None], after
    tracking, found = gs.ldp_gradient_tracking(gs.decay(0.5, 0.6)), dict[str, Any]()
    for dtype, most in (("float64", 1e-12), ("float32", 1e-4)):
        model = gs.LogisticRegression(l2=0.01, arrays=gs.tensors(options.device, dtype))
        for gradient in ("latest", "history"):  # each learner has one record, again and again: both are the same
            run = gs.simulate(
                tracking, network, stream, model=model, steps=steps, gradient=gradient, evaluate_every=steps
            )
            off = found[f"simulate, {dtype}, {gradient}"] = apart(run.theta, theta)
            print(f"simulate, {dtype}, {gradient}: off by {off:.1e}", flush=True)
            assert off < most, (dtype, gradient, off)
    for name in METHODS.entries():
        for dtype, most in (("float64", 1e-12), ("float32", 1e-3)):
            for noise in (None, simulated(gs.decay(0.1, 0.6))):
                method = find_method(name).build(0.1)
                gone = one_pass_against_whole(method, network, stream, dtype, noise, options.device)
                case = f"{name}, {dtype}, {'no noise' if noise is None else 'noise'}"
                print(f"{case}: {'whole rounds' if gone is None else f'off by {gone:.1e}'}", flush=True)
                found[case] = gone
                assert gone is None or gone < most, (case, gone)
    return found


def apart(one: Any, other: Any) -> float:
    return float(np.abs(np.asarray(one) - np.asarray(other)).max() / np.abs(np.asarray(other)).max())


def one_pass_against_whole(
    method: Any, network: Network, stream: Any, dtype: str, noise: Any, device: str
) -> float | None:
    """How far two ways to play three rounds get from each other; None where a method is not played in one pass."""
    model = gs.RidgeRegression(l2=0.1, arrays=gs.tensors(device, dtype))
    kind, n = model.arrays, stream.table.columns
    rows, start = network.rows(mixes=method.mixes).of_kind(kind), np.random.default_rng(1).normal(size=(network.m, n))
    ends = []
    for fast in (True, False):
        memory = model.memory(stream.table, "latest", stream.room(1))
        state = method.init(rows, kind.make(start))
        rounds = Rounds(method, rows, memory, Unproved(noise), model.ridge(n), finite=False)
        play: Any = Whole(rounds, Mixer(network, method.mixes, kind))
        if fast:
            play = play_of(method, network, rows, model, memory, model.ridge(n), None, noise, rounds, state, 0)
            if isinstance(play, Whole):
                return None
        for t in range(3):
            state = play(state, stream.arrivals(t), t)
        ends.append(kind.to_numpy(state.theta))
    return apart(*ends)


COMMANDS = {"cpu": cpu, "memory": memory, "gpu": gpu, "check": check}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=sorted(COMMANDS))
    parser.add_argument("--learners", type=int, default=None)
    parser.add_argument("--degree", type=int, default=None)
    parser.add_argument("--numbers", type=int, default=100)
    parser.add_argument("--device", default="cuda", help="of check")
    parser.add_argument("--networks", default="random,near,next")
    parser.add_argument("--variants", action="store_true", help="other ways to play the same round, too")
    options = parser.parse_args()
    many, degree = {"gpu": (10**6, 10), "check": (5000, 5), "cpu": (10**5, 4), "memory": (10**5, 4)}[options.what]
    options.learners, options.degree = options.learners or many, options.degree or degree
    found = COMMANDS[options.what](options)
    if "OUT" in os.environ:
        Path(os.environ["OUT"], f"large-{options.what}.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
