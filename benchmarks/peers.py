"""Rounds a second of ten learners as processes on this machine, against bare gRPC streams in the same run.

python benchmarks/peers.py [n ...]          100, 100000 and 1000000 parameters by default
python benchmarks/peers.py --stages [n ...] where a learner's time goes in a round, stage by stage
python benchmarks/peers.py --secrets [n ...] what noise that cancels adds to a round; 100000 parameters by default

Each learner sends both of Algorithm 1's vectors to two others, draws exact Laplace noise (on both messages, or on the
gradient at the source), commits every round to its journal, and speaks mutual TLS. Vectors travel as float64 or
float32. Bare: the same bytes over the same streams, and nothing else: no noise, no journal, no checks. All halves are
run in turns, `--turns` times; a ratio is that of a turn to the bare one before it, and its median, least and largest
are shown, once of rounds a second and once of processor time, which says more where other programs run beside it.
Memory is what a learner's process grows by from its first rounds on, in messages of one round (all that it sends and
receives).

Stages: time of the processor, of one learner in one round while all ten run, measured inside of its process; what gRPC
does in threads of its own is the process's time without that of the learner's thread.

Secrets: Gaussian noise at the source, alone and with that of pairs, where every learner has nine partners. The same
ten processes, turn by turn; one learner's round by itself (gradient, noise, journal, encoding), and the noise of its
pairs by itself, in time of the processor.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import logging
import os
import resource
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import numpy as np
from processes import Together, in_processes

import gossamer as gs
from gossamer import rounds as rounds_module
from gossamer.peers import certificates, wire
from gossamer.peers import party as party_module
from gossamer.peers import turns as turns_module
from gossamer.peers.certificates import Identities, Pair
from gossamer.peers.journal import Journal
from gossamer.peers.links import Links
from gossamer.peers.memory import keep_large_pages
from gossamer.peers.node import Node
from gossamer.peers.outbox import Outbox
from gossamer.peers.party import Party
from gossamer.peers.threads import compute_in_one_thread
from gossamer.peers.transport import Wiring
from gossamer.peers.turns import rounds_kept
from gossamer.peers.wire import MESSAGE_LIMIT, PAYLOAD_LIMIT, Dtype
from gossamer.privacy import Gaussian, Laplace, Mechanism, PrivateBoundary, Secrets
from gossamer.privacy.pairs import OwnPairs, pair_key
from gossamer.records import Batch, FeatureBounds, Table
from gossamer.rounds import Rounds
from gossamer.setting import setting_for

LEARNERS, OUT = 10, 2
SIZES = [(f"grpc.max_{way}_message_length", MESSAGE_LIMIT) for way in ("receive", "send")]
ASKED = {100: 150.0, 100_000: 15.0, 1_000_000: 1.5}
SHARE = 0.5  # of bare gRPC's rounds a second
STEPS = {100: 1000, 100_000: 60, 1_000_000: 30}  # rounds of a turn
PATIENCE, LIMIT = 60.0, 120.0  # seconds that processes wait for each other, and that a turn may take
MOST = 1.5  # times the round with source noise alone, asked for with secrets
MECHANISMS: dict[str, Mechanism] = {
    "on messages": Laplace.for_budget(100.0, where="messages"),
    "at the source": Laplace.for_budget(100.0, where="source"),
    "Gaussian": Gaussian.for_budget(100.0, 1e-5, where="source"),
    "that cancels": Gaussian.for_budget(100.0, 1e-5, where="source", secrets=Secrets(colluders=2)),
}


def network() -> gs.Network:
    """Everybody sends to the next two, over both matrices the same."""
    around = np.eye(LEARNERS)
    R = sum(0.25 * (np.roll(around, -k, axis=1) - around) for k in range(1, OUT + 1))
    return gs.Network(R, R)


class Same:
    """A feed whose records are all alike."""

    def __init__(self, n: int) -> None:
        self._batch = Batch(np.full((1, n), 1 / n), np.ones(1), np.ones(1, dtype=np.int64))

    def here(self, t: int) -> bool:
        return True

    def read(self, t: int) -> str:
        return ""

    def arrivals(self, t: int) -> Batch:
        return self._batch


class Task(NamedTuple):
    """What all processes of one turn know."""

    n: int
    dtype: Dtype
    noise: str
    steps: int
    trusted: bytes
    own: Sequence[Pair]
    stages: bool = False


class Found(NamedTuple):
    """Of one process in one turn."""

    speed: float  # rounds a second
    spent: float  # processor seconds a round
    grown: int  # bytes
    stages: dict[str, float]  # processor seconds a round


STAGES = [
    ("frames read: checksum, header", wire, "unpack"),
    ("numbers checked, kept", Party, "receive"),
    ("mixing", Party, "_mixed"),
    ("frames written: checksum, copy", turns_module, "pack_vectors"),
    ("numbers as they travel", party_module, "encode"),
    ("noise", PrivateBoundary, "_noised"),
    ("noise", PrivateBoundary, "release"),
    ("bounds on what comes and stays", PrivateBoundary, "take"),
    ("bounds on what comes and stays", PrivateBoundary, "hold"),
    ("bounds on what comes and stays", rounds_module, "near"),
    ("gradient", Rounds, "_gradient"),
    ("step", Rounds, "receive"),
    ("journal", Journal, "commit"),
    ("rest of the round", Party, "advance"),
    ("rest of the node", Node, "take"),
]


def learner(task: Task, about: Together) -> Found:
    return asyncio.run(_learner(task, about))


async def _learner(task: Task, about: Together) -> Found:
    i, n, dtype, steps = about.i, task.n, task.dtype, task.steps
    keep_large_pages(n)
    compute_in_one_thread()
    stages = Stages() if task.stages else None
    journal = Journal(about.folder / f"{i}.db", "bench", i, "", "process", rounds_kept(n, dtype, 0))
    party = party_of(i, n, dtype, task.noise, steps, journal)
    wiring = Wiring(
        i, "127.0.0.1:0", dict.fromkeys(party.tells, ""), party.hears, task.own[i], Identities(task.trusted),
        take=lambda arrived: node.take(arrived), hello=lambda: node.hello,
    )  # fmt: skip
    links = Links(wiring)
    node = Node(party, links, "bench", journal.epoch)
    await links.start()
    about.ports[i] = links.port
    await asyncio.to_thread(about.gate.wait, PATIENCE)
    for j in party.tells:
        links.reach(j, f"127.0.0.1:{about.ports[j]}")
    links.dial()
    warm = max(2, steps // 10)
    while party.round < warm:
        await asyncio.sleep(0.02)
    start, first, memory_then = time.perf_counter(), party.round, _rss()
    cpu, own_cpu = time.process_time(), time.thread_time()
    if stages is not None:
        stages.spent.clear()
    while not party.finished:
        await asyncio.sleep(0.02)
    rounds, seconds = steps - first, time.perf_counter() - start
    spent, own_spent = time.process_time() - cpu, time.thread_time() - own_cpu
    told = {} if stages is None else stages.told(rounds, spent, own_spent)
    while not node.over:
        await asyncio.sleep(0.01)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    await asyncio.to_thread(about.gate.wait, PATIENCE)  # the last words of this one may still be under way
    await links.close()
    journal.close()
    return Found(rounds / seconds, spent / rounds, max(0, peak - memory_then), told)


class Stages:
    """Counts the thread's time in some functions of this process, each without what it spends in others of them."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._within: list[float] = []  # of each function under way, what others spent in it
        for stage, place, name in STAGES:
            setattr(place, name, self._counted(stage, getattr(place, name)))

    def _counted(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def counted(*given: Any, **named: Any) -> Any:
            self._within.append(0.0)
            start = time.thread_time()
            try:
                return function(*given, **named)
            finally:
                took = time.thread_time() - start
                self.spent[stage] += took - self._within.pop()
                if self._within:
                    self._within[-1] += took

        return counted

    def told(self, rounds: int, process: float, thread: float) -> dict[str, float]:
        stages = {stage: seconds / rounds for stage, seconds in self.spent.items()}
        return stages | rest_of(rounds, process, thread - sum(self.spent.values()), thread)


def rest_of(rounds: int, process: float, loop: float, thread: float | None = None) -> dict[str, float]:
    """What the streams cost a round, in the learner's thread and beside it."""
    beside = process - (loop if thread is None else thread)
    return {"event loop and gRPC's Python": loop / rounds, "gRPC's threads": beside / rounds}


def party_of(i: int, n: int, dtype: Dtype, noise: str, steps: int, journal: Journal) -> Party:
    algorithm, graph, model = gs.ldp_gradient_tracking(gs.decay(0.1, 0.8)), network(), gs.LogisticRegression(l2=0.01)
    table = Table(np.empty((0, n)), np.empty(0), None, n, bounds=FeatureBounds(1.0, 1.0, 1.0))
    setting = setting_for(
        [i], algorithm, graph, model, table, gradient="latest", steps=steps, size=n, per_round=[1], read_once=True
    )
    mechanism = MECHANISMS[noise].over(steps)
    boundary: PrivateBoundary = mechanism.bind(setting, None if mechanism.secrets is None else pairs_of(i))
    memory = model.memory(table, "latest", np.ones(1, dtype=np.int64))
    return Party(i, algorithm, graph, Same(n), memory, boundary, journal, size=n, steps=steps, ridge=0.0, dtype=dtype)


def pairs_of(i: int) -> OwnPairs:
    """Learner i with nine partners, under keys that everybody here knows."""
    return OwnPairs(i, {j: pair_key(bytes(32), min(i, j), max(i, j)) for j in range(LEARNERS) if j != i})


def bare(task: Task, about: Together) -> Found:
    return asyncio.run(_bare(task, about))


async def _bare(task: Task, about: Together) -> Found:
    i, steps, trusted, own = about.i, task.steps, task.trusted, task.own[about.i]
    size = 2 * task.n * (8 if task.dtype == "f8" else 4)  # two vectors
    chunks = [os.urandom(min(PAYLOAD_LIMIT, size - k)) for k in range(0, size, PAYLOAD_LIMIT)]
    got, some = dict.fromkeys([(i - k) % LEARNERS for k in range(1, OUT + 1)], 0), asyncio.Event()

    async def taken(frames: Any, context: Any) -> Any:
        j = certificates.learner_of(context.auth_context()["x509_common_name"][0].decode())
        async for _ in frames:
            got[j] += 1  # type: ignore[index]
            some.set()
        yield b""

    credentials = grpc.ssl_server_credentials([tuple(own)], trusted, require_client_auth=True)
    server = grpc.aio.server(options=SIZES)
    method = {"O": grpc.stream_stream_rpc_method_handler(taken)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bare.L", method),))
    about.ports[i] = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    await asyncio.to_thread(about.gate.wait, PATIENCE)
    streams = []
    for j in ((i + k) % LEARNERS for k in range(1, OUT + 1)):
        options = [*SIZES, ("grpc.ssl_target_name_override", certificates.name_of(j))]
        own_side = grpc.ssl_channel_credentials(trusted, *own)
        channel = grpc.aio.secure_channel(f"127.0.0.1:{about.ports[j]}", own_side, options)
        streams.append(channel.stream_stream("/bare.L/O")(wait_for_ready=True))
    warm = max(2, steps // 10)
    start = cpu = own_cpu = 0.0
    for t in range(steps):
        if t == warm:
            start, cpu, own_cpu = time.perf_counter(), time.process_time(), time.thread_time()
        for chunk in chunks:
            for stream in streams:
                await stream.write(chunk)
        while min(got.values()) < (t + 1) * len(chunks):
            some.clear()
            await some.wait()
    seconds, spent, own_spent = time.perf_counter() - start, time.process_time() - cpu, time.thread_time() - own_cpu
    for stream in streams:
        await stream.done_writing()
    for stream in streams:
        await stream.read()  # its other side has seen the end
    await asyncio.to_thread(about.gate.wait, PATIENCE)
    await server.stop(PATIENCE)
    return Found((steps - warm) / seconds, spent / (steps - warm), 0, rest_of(steps - warm, spent, own_spent))


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Turn(NamedTuple):
    """Of all processes in one turn."""

    speed: float  # rounds a second of the slowest
    spent: float  # processor milliseconds a learner and round
    grown: int  # the most memory of one, in bytes
    stages: dict[str, float]  # processor milliseconds a learner and round


def measured(work: Callable[[Task, Together], Found], task: Task) -> Turn:
    found: list[Found] = in_processes(LEARNERS, functools.partial(work, task), LIMIT)
    stages = {stage: 1e3 * statistics.mean(one.stages[stage] for one in found) for stage in found[0].stages}
    spent = 1e3 * statistics.mean(one.spent for one in found)
    return Turn(min(one.speed for one in found), spent, max(one.grown for one in found), stages)


def compile_all() -> None:
    """Before there are ten processes, each of which would do it."""
    for noise in MECHANISMS:
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(Path(folder) / "0.db", "bench", 0, "", "process", rounds_kept(3, "f8", 0))
            party_of(0, 3, "f8", noise, 20, journal)
            journal.close()


def one_round(n: int, dtype: Dtype, noise: str, rounds: int) -> float:
    """Processor seconds of one learner's round by itself: gradient, noise, journal, encoding; the median."""
    with tempfile.TemporaryDirectory() as folder:
        steps = 2 * rounds
        journal = Journal(Path(folder) / "0.db", "bench", 0, "", "process", steps + 2)
        party = party_of(0, n, dtype, noise, steps, journal)
        seconds = []
        for t in range(1, steps):
            start = time.process_time()
            party._prepare(t, party.state, ())
            seconds.append(time.process_time() - start)
            party._outbox = Outbox(party.tells)
            party._outbox.used = dict.fromkeys(party.tells, t)
        journal.close()
    return float(np.median(seconds[-rounds:]))  # releases begin before the second half


def secrets(n: int, run: Run) -> None:
    """What noise that cancels adds, as ratios in one run."""
    print(f"n = {n}, nine partners, asked: at most {MOST:g} × the round with source noise alone")
    alone, shared = "Gaussian", "that cancels"
    for dtype in run.dtypes:
        ratios, cpu = [], []
        for _ in range(run.turns):  # turn by turn, since the machine is not always as fast
            before, after = [measured(learner, run.task(n, dtype, noise)) for noise in (alone, shared)]
            ratios.append(before.speed / after.speed)
            cpu.append((before.spent, after.spent))
        own, with_pairs = np.median(cpu, axis=0)
        print(
            f"   {dtype} ten processes     with pairs {spread(ratios)} × the time   "
            f"({own:.1f} and {with_pairs:.1f} ms of processor each)",
            flush=True,
        )
        own_rounds = [[one_round(n, dtype, noise, 20) for noise in (alone, shared)] for _ in range(run.turns)]
        first, second = 1e3 * np.min(own_rounds, axis=0)
        print(f"   {dtype} one learner's own {first:7.1f} ms a round, {second:7.1f} with pairs: {second / first:.2f} ×")
    row, pairs, seconds = np.zeros((1, n), dtype=np.int64), pairs_of(0), []
    for t in range(20):
        start = time.process_time()
        pairs.add(t, 1 << 40, row)
        seconds.append(time.process_time() - start)
    took = float(np.median(seconds[5:]))
    print(f"   noise of pairs       {1e3 * took:7.1f} ms a round, {1e9 * took / n / (LEARNERS - 1):.1f} ns a number")


def spread(ratios: Sequence[float]) -> str:
    """Median, least and largest."""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


class Run(NamedTuple):
    """What was asked for, and the certificates that all turns use."""

    turns: int
    dtypes: Sequence[Dtype]
    noises: Sequence[str]
    trusted: bytes
    own: Sequence[Pair]

    def task(self, n: int, dtype: Dtype, noise: str, stages: bool = False) -> Task:
        return Task(n, dtype, noise, STEPS.get(n, 60), self.trusted, self.own, stages)


def against_bare(n: int, run: Run) -> None:
    """Rounds a second of learners and of bare streams, in turns."""
    asked = f", asked: at least {ASKED[n]:g} rounds a second" if n in ASKED else ""
    print(f"n = {n}{asked} and {SHARE:g} × bare with f4; median (least to largest) of {run.turns} turns")
    for dtype in run.dtypes:
        floors: list[Turn] = []
        turns: dict[str, list[Turn]] = {noise: [] for noise in run.noises}
        for _ in range(run.turns):
            floors.append(measured(bare, run.task(n, dtype, "none")))
            for noise, found in turns.items():
                found.append(measured(learner, run.task(n, dtype, noise)))
        print(f"   {dtype} bare gRPC            {told(floors)}", flush=True)
        for noise, found in turns.items():
            ratios = [one.speed / floor.speed for one, floor in zip(found, floors, strict=True)]
            work = [floor.spent / one.spent for one, floor in zip(found, floors, strict=True)]
            grown, messages = max(one.grown for one in found), 2 * OUT * 2 * n * (8 if dtype == "f8" else 4)
            print(
                f"   {dtype} noise {noise:13}  {told(found)}   {spread(ratios)} × bare, "
                f"{spread(work)} × by processor time   memory {grown / 2**20:.1f} MiB, "
                f"{grown / messages:.2f} × a round's messages",
                flush=True,
            )


def told(turns: Sequence[Turn]) -> str:
    speeds = [one.speed for one in turns]
    cpu = statistics.median(one.spent for one in turns)
    least, largest = min(speeds), max(speeds)
    return f"{statistics.median(speeds):7.2f} ({least:7.2f} to {largest:7.2f}) rounds/s   {cpu:6.2f} ms of processor"


def stage_by_stage(n: int, run: Run) -> None:
    """Milliseconds of processor that a learner spends in every stage of a round."""
    for dtype in run.dtypes:
        floor = measured(bare, run.task(n, dtype, "none"))
        print(f"n = {n}, {dtype}: bare gRPC takes {floor.spent:.2f} ms of processor a learner and round")
        for stage, milliseconds in floor.stages.items():
            print(f"      {milliseconds:6.2f}  {stage}")
        for noise in run.noises:
            found = [measured(learner, run.task(n, dtype, noise, stages=True)) for _ in range(run.turns)]
            print(f"   noise {noise}: {statistics.median(one.spent for one in found):.2f} ms")
            for stage in sorted(found[0].stages, key=lambda stage: -found[0].stages[stage]):
                print(f"      {statistics.median(one.stages[stage] for one in found):6.2f}  {stage}", flush=True)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("sizes", nargs="*", type=int, metavar="n", help="how many parameters")
    kind = words.add_mutually_exclusive_group()
    kind.add_argument("--stages", action="store_true", help="where a round's time goes")
    kind.add_argument("--secrets", action="store_true", help="what noise that cancels adds")
    words.add_argument("--turns", type=int, default=3, help="how often each half is run")
    words.add_argument("--numbers", choices=("f8", "f4"), help="how vectors travel; both by default")
    words.add_argument("--noise", choices=("messages", "source"), help="where noise goes; both by default")
    given = words.parse_args()
    logging.getLogger("gossamer.peers").setLevel(logging.ERROR)
    compile_all()
    signer = certificates.make_authority("bench")
    noises = {"messages": ["on messages"], "source": ["at the source"], None: ["on messages", "at the source"]}
    dtypes: list[Dtype] = [given.numbers] if given.numbers else ["f8", "f4"]
    own = [certificates.issue_certificate(signer, i) for i in range(LEARNERS)]
    run = Run(given.turns, dtypes, noises[given.noise], signer.certificate, own)
    measure = secrets if given.secrets else stage_by_stage if given.stages else against_bare
    for n in given.sizes or ([100_000] if given.secrets or given.stages else list(ASKED)):
        measure(n, run)


if __name__ == "__main__":
    main()
