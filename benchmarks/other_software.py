"""Gossamer against other software and against loops written by hand, as ratios in one run; `make bench-peers`.

    python benchmarks/other_software.py [--quick]

All solve one problem (benchmarks/tracking.py) and take turns; a ratio is the median over turns of the other's time by
ours, with its range. A run whose learners do not end at the optimum has no row. Other software is installed in
environments of its own, in .bench-peers; what cannot be installed or started is left out, and its row says why.

1. 10 learners, n = 100, 50 records each, 1000 rounds: decent-bench, which has undirected graphs only, and a NumPy loop.
2. The same with exact private noise and its accounting, against the same without.
3. The same on two ranks of MPI, against DISROPT, which takes a process for every agent.
4. Exact Laplace noise against NumPy's generator.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import IO, NamedTuple

import numpy as np
from environments import Environment, Skipped, alone, reason
from privacy import sampler
from private_tracking import comparisons
from simulator import fixed_records, hand_written, show
from tracking import FEATURES, L2, RECORDS, ROUNDS, Problem, Run, algorithm_1, both_ways, problem, push_pull

import gossamer as gs
from gossamer.types import Array

Row = tuple[str, str, str]
LAUNCHED = Path(__file__).parent / "launched"
PATIENCE = 300  # seconds that one turn of other software may take
DECENT_BENCH = Environment("decent-bench", ("decent-bench==0.3.0",), least=(3, 13))
AGENT_ROUNDS = 400  # after which both are at θ*, too; ten agents on two cores take long
DISROPT = Environment("disropt", ("disropt==0.1.9", "mpi4py==4.1.2", "mpich==5.0.2"))


def in_turns(parties: Mapping[str, tuple[Problem, Callable[[Problem], Run]]], turns: int) -> dict[str, list[float]]:
    """Seconds of every party in every turn, after a first turn that warms up; all runs are checked to end at θ*."""
    taken: dict[str, list[float]] = {who: [] for who in parties}
    for turn in range(turns + 1):
        for who, (given, party) in parties.items():
            seconds, theta = party(given)
            given.check(who, theta)
            if turn:
                taken[who].append(seconds)
    return taken


def ratio(other: list[float], ours: list[float]) -> str:
    """How many times as long the other takes, turn by turn: the median and the range."""
    each = np.array(other) / np.array(ours)
    return f"{np.median(each):.3g} × ({each.min():.3g} to {each.max():.3g})"


def a_round(seconds: list[float], rounds: int) -> str:
    return f"{np.median(seconds) / rounds * 1e6:,.0f} µs a round"


# -- 1: one process ------------------------------------------------------------------------------------------------


class Waiting(NamedTuple):
    """Other software in a process that waits between its turns."""

    name: str
    process: subprocess.Popen[str]
    said: IO[str]  # its complaints
    result: Path

    def turn(self, _: Problem) -> Run:
        """Solve the problem of its command once more."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{self.result}\n")
        self.process.stdin.flush()
        seconds = float(self.line())
        return Run(seconds, self.results()["theta"])

    def results(self) -> dict[str, Array]:
        return dict(np.load(self.result))

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.said.seek(0)
            raise Skipped(f"{self.name} cannot be run: {reason(self.said.read())}")
        return line


@contextmanager
def waiting(name: str, command: list[str], folder: Path) -> Iterator[Waiting]:
    """The process of `command` once it has imported what it needs, which it says with a line; in the end it is gone."""
    with (
        (folder / f"{name}.log").open("w+") as said,
        subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=said, text=True, env=alone()) as process,
    ):
        try:
            other = Waiting(name, process, said, folder / f"{name}.npz")
            other.line()
            yield other
        finally:
            process.kill()


def against_decent_bench(turns: int) -> list[Row]:
    """Its ATC tracking on the paper's links used both ways, with Metropolis weights, which both find for themselves."""
    given = problem(both_ways(gs.Network.paper()))
    title = "decent-bench 0.3 / gossamer, tracking over undirected links, time"
    try:
        interpreter = DECENT_BENCH.python()
        with tempfile.TemporaryDirectory() as folder:
            given.save(Path(folder) / "problem.npz")
            command = [str(interpreter), str(LAUNCHED / "decent_bench_tracking.py"), f"{folder}/problem.npz"]
            with waiting("decent-bench", command, Path(folder)) as theirs:
                parties = {"Algorithm 1": algorithm_1, "push-pull": push_pull, "decent-bench": theirs.turn}
                taken = in_turns({who: (given, party) for who, party in parties.items()}, turns)
                np.testing.assert_allclose(theirs.results()["weights"], np.eye(given.net.m) + given.net.R, atol=1e-12)
    except Skipped as why:
        return [(title, f"skipped: {why}", "≥ 8 ×")]
    return [
        (title, ratio(taken["decent-bench"], taken["Algorithm 1"]), "≥ 8 ×"),
        ("  the same, gossamer with push-pull", ratio(taken["decent-bench"], taken["push-pull"]), ""),
        ("  decent-bench", a_round(taken["decent-bench"], given.rounds), ""),
        ("  gossamer, Algorithm 1", a_round(taken["Algorithm 1"], given.rounds), ""),
    ]


def against_a_loop(turns: int) -> list[Row]:
    """Algorithm 1 as somebody would write it who needs it once, with the paper's network and a decaying step."""
    net = gs.Network.paper()
    X, y = fixed_records(net.m, FEATURES, RECORDS)
    stream, model = gs.streams.from_arrays(X, y, per_round=RECORDS), gs.LogisticRegression(l2=L2)
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(0.5, 0.7))  # the loop's step

    def ours() -> Array:
        return gs.simulate(algorithm, net, stream, model=model, steps=ROUNDS, evaluate_every=ROUNDS).theta

    def loop() -> Array:
        return hand_written(net, X, y, L2, ROUNDS)

    taken: list[tuple[float, float]] = []
    for _ in range(turns + 1):
        (by_loop, expected), (by_us, found) = timed(loop), timed(ours)
        np.testing.assert_allclose(found, expected, atol=1e-10)
        taken.append((by_loop, by_us))
    loops, engine = map(list, zip(*taken[1:], strict=True))
    return [
        ("hand-written NumPy loop / gossamer, directed tracking, time", ratio(loops, engine), "≥ 0.9 ×"),
        ("  the loop", a_round(loops, ROUNDS), ""),
    ]


def timed(run: Callable[[], Array]) -> Run:
    start = time.perf_counter()
    theta = run()
    return Run(time.perf_counter() - start, theta)


# -- 2: private noise ----------------------------------------------------------------------------------------------


def private_noise(turns: int) -> list[Row]:
    """Exact Laplace noise at ε = 8 with a ledger, against the same run without noise; here θ is not expected at θ*."""
    rows = []
    for title, without, private, asked in comparisons():
        taken = [(private(), without()) for _ in range(turns + 1)][1:]
        noisy, bare = map(list, zip(*taken, strict=True))
        rows.append((f"{title}, time", ratio(noisy, bare), asked))
    return rows


# -- 3: MPI --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ranks:
    """How a program is started on processes of MPI, one of the two sides."""

    name: str
    interpreter: Path
    ranks: int
    script: str
    words: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None

    def __call__(self, given: Problem) -> Run:
        """One start; the time is that of the rounds alone."""
        with tempfile.TemporaryDirectory() as folder:
            path, result = Path(folder) / "problem.npz", Path(folder) / "result.npz"
            given.save(path)
            mpiexec = self.interpreter.with_name("mpiexec")
            command = [mpiexec, "-n", self.ranks, self.interpreter, LAUNCHED / self.script, path, result, *self.words]
            try:
                ended = subprocess.run(
                    list(map(str, command)), capture_output=True, text=True, env=self.env, timeout=PATIENCE
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Skipped(f"{self.name} cannot be run: {error}") from None
            if ended.returncode or not result.exists():
                raise Skipped(f"{self.name} cannot be run: {reason(ended.stderr or ended.stdout)}")
            with np.load(result) as found:
                return Run(float(found["seconds"]), found["theta"])


def against_disropt(turns: int) -> list[Row]:
    """Its gradient tracking over directed graphs, on one-way links, with ten agents; and with two, each on a core.

    Ours has ten learners on two ranks in all rows. A round of DISROPT's two agents is a fifth of that work.
    """
    title = "DISROPT, ten agents / gossamer, ten learners on 2 ranks, a round"
    try:
        interpreter = DISROPT.python()
        ten, two = (
            replace(problem(net), rounds=AGENT_ROUNDS) for net in (gs.Network.paper_one_way(), gs.Network.ring(2))
        )
        start = partial(Ranks, "disropt", interpreter, script="disropt_tracking.py", env=alone())
        parties: dict[str, tuple[Problem, Callable[[Problem], Run]]] = {
            "gossamer on 2 ranks": (ten, Ranks("gossamer", Path(sys.executable), 2, "gossamer_mpi.py")),
            "gossamer in one process": (ten, algorithm_1),
            "DISROPT, ten agents": (ten, start(10, words=("closed",))),
            "DISROPT, two agents": (two, start(2, words=("closed",))),
            "DISROPT, two agents, the loss in its own functions": (two, start(2, words=("expression",))),
        }
        taken = in_turns(parties, turns)
    except Skipped as why:
        return [(title, f"skipped: {why}", "≥ 3 ×")]
    ours = taken["gossamer on 2 ranks"]
    return [
        (title, ratio(taken["DISROPT, ten agents"], ours), "≥ 3 ×"),
        ("DISROPT, two agents / the same, a round", ratio(taken["DISROPT, two agents"], ours), ""),
        *((f"  {who}", a_round(seconds, AGENT_ROUNDS), "") for who, seconds in taken.items()),
    ]


def main() -> None:
    about = __doc__ or ""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three turns each in place of nine")
    turns = 3 if parser.parse_args().quick else 9
    one_process = [*against_decent_bench(turns), *against_a_loop(turns)]
    noise = [*private_noise(turns), *sampler()[:1]]
    show("other software", (one_process, noise, against_disropt(min(turns, 3))))


if __name__ == "__main__":
    main()
