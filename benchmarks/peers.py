"""Rounds a second of ten learners as processes on this machine, against bare gRPC streams in the same run.

python benchmarks/peers.py [n ...]          100, 100000 and 1000000 parameters by default
python benchmarks/peers.py secrets [n ...]  what noise that cancels adds to a round; 100000 parameters by default

Each learner sends both of Algorithm 1's vectors to two others, draws exact Laplace noise (on both messages, or on the
gradient at the source), commits every round to its journal, and speaks mutual TLS. Vectors travel as float64 or
float32. Bare: the same bytes over the same streams, and nothing else: no noise, no journal, no checks. Memory is what a
learner's process grows by from its first rounds on, in messages of one round (all that it sends and receives).

Secrets: Gaussian noise at the source, alone and with that of pairs, where every learner has nine partners. The same
ten processes, turn by turn; one learner's round by itself (gradient, noise, journal, encoding), and the noise of its
pairs by itself, in time of the processor.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import numpy as np

import gossamer as gs
from gossamer.peers import certificates
from gossamer.peers.certificates import Identities, Pair
from gossamer.peers.journal import Journal
from gossamer.peers.links import LARGEST, Links
from gossamer.peers.node import Node
from gossamer.peers.party import Party, rounds_kept
from gossamer.peers.transport import Wiring
from gossamer.peers.wire import PAYLOAD_LIMIT, Dtype
from gossamer.privacy import Gaussian, Laplace, Mechanism, PrivateBoundary, Secrets
from gossamer.privacy.pairs import OwnPairs, pair_key
from gossamer.records import Batch, FeatureBounds, Table
from gossamer.setting import setting_for

LEARNERS, OUT = 10, 2
SIZES = [(f"grpc.max_{way}_message_length", LARGEST) for way in ("receive", "send")]
ASKED = {100: 150.0, 100_000: 15.0, 1_000_000: 1.5}
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
    """What all processes of one measurement know."""

    n: int
    dtype: Dtype
    noise: str
    steps: int
    folder: str
    trusted: bytes
    ports: Any
    gate: Any
    out: Any


def learner(i: int, own: Pair, task: Task) -> None:
    asyncio.run(_learner(i, own, task))


async def _learner(i: int, own: Pair, task: Task) -> None:
    n, dtype, steps, folder = task.n, task.dtype, task.steps, Path(task.folder)
    trusted, ports, gate, out = task.trusted, task.ports, task.gate, task.out
    journal = Journal(folder / f"{i}.db", "bench", i, "", "process", rounds_kept(n, dtype, 0))
    party = party_of(i, n, dtype, task.noise, steps, journal)
    wiring = Wiring(
        i, "127.0.0.1:0", dict.fromkeys(party.tells, ""), party.hears, own, Identities(trusted),
        take=lambda arrived: node.take(arrived), hello=lambda: node.hello,
    )  # fmt: skip
    links = Links(wiring)
    node = Node(party, links, "bench", journal.epoch)
    await links.start()
    ports[i] = links.port
    await asyncio.to_thread(gate.wait)
    for j in party.tells:
        links.reach(j, f"127.0.0.1:{ports[j]}")
    links.dial()
    warm = max(2, steps // 10)
    while party.round < warm:
        await asyncio.sleep(0.02)
    start, first, memory_then, cpu = time.perf_counter(), party.round, _rss(), time.process_time()
    while not party.finished:
        await asyncio.sleep(0.02)
    seconds, spent = time.perf_counter() - start, time.process_time() - cpu
    while not node.over:
        await asyncio.sleep(0.01)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    out.put(((steps - first) / seconds, spent / (steps - first), peak, memory_then))
    await asyncio.to_thread(gate.wait)
    await links.close()
    journal.close()


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


def bare(i: int, own: Pair, task: Task) -> None:
    asyncio.run(_bare(i, own, task))


async def _bare(i: int, own: Pair, task: Task) -> None:
    n, dtype, steps, trusted = task.n, task.dtype, task.steps, task.trusted
    ports, gate, out = task.ports, task.gate, task.out
    size = 2 * n * (8 if dtype == "f8" else 4)  # two vectors
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
    ports[i] = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    await asyncio.to_thread(gate.wait)
    streams = []
    for j in ((i + k) % LEARNERS for k in range(1, OUT + 1)):
        options = [*SIZES, ("grpc.ssl_target_name_override", certificates.name_of(j))]
        own_side = grpc.ssl_channel_credentials(trusted, *own)
        channel = grpc.aio.secure_channel(f"127.0.0.1:{ports[j]}", own_side, options)
        streams.append(channel.stream_stream("/bare.L/O")(wait_for_ready=True))
    warm, start, cpu = max(2, steps // 10), 0.0, 0.0
    for t in range(steps):
        if t == warm:
            start, cpu = time.perf_counter(), time.process_time()
        for chunk in chunks:
            for stream in streams:
                await stream.write(chunk)
        while min(got.values()) < (t + 1) * len(chunks):
            some.clear()
            await some.wait()
    out.put(((steps - warm) / (time.perf_counter() - start), (time.process_time() - cpu) / (steps - warm), 0, 0))
    await asyncio.to_thread(gate.wait)
    os._exit(0)


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measured(work: Callable[..., None], n: int, dtype: Dtype, noise: str, steps: int) -> tuple[float, float, float]:
    """Rounds a second of the slowest, processor milliseconds a learner and round, the most memory of one, in bytes."""
    fork = multiprocessing.get_context("fork")
    signer = certificates.make_authority("bench")
    ports, gate, out = fork.Array("i", LEARNERS), fork.Barrier(LEARNERS), fork.Queue()
    with tempfile.TemporaryDirectory() as folder:
        task = Task(n, dtype, noise, steps, folder, signer.certificate, ports, gate, out)
        processes = [
            fork.Process(target=work, args=(i, certificates.issue_certificate(signer, i), task))
            for i in range(LEARNERS)
        ]
        for process in processes:
            process.start()
        found = [out.get(timeout=100) for _ in processes]
        for process in processes:
            process.join(30)
    speeds, cpu, peaks, before = zip(*found, strict=True)
    return min(speeds), 1e3 * sum(cpu) / len(cpu), max(np.subtract(peaks, before))


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
            party._outbox.clear()
            party._acked = dict.fromkeys(party._acked, t)
        journal.close()
    return float(np.median(seconds[-rounds:]))  # releases begin before the second half


def secrets(n: int) -> None:
    """What noise that cancels adds, as ratios in one run."""
    print(f"n = {n}, nine partners, asked: at most {MOST:g} × the round with source noise alone")
    steps, alone, shared = 60, "Gaussian", "that cancels"
    for dtype in ("f8", "f4"):
        rounds: dict[str, list[float]] = {alone: [], shared: []}
        cpu: dict[str, list[float]] = {alone: [], shared: []}
        for noise in (alone, shared) * 3:  # turn by turn, since the machine is not always as fast
            speed, spent, _ = measured(learner, n, dtype, noise, steps)
            rounds[noise].append(1e3 / speed)
            cpu[noise].append(spent)
        before, after = min(rounds[alone]), min(rounds[shared])
        print(
            f"   {dtype} ten processes     {before:7.1f} ms a round, {after:7.1f} with pairs: {after / before:.2f} ×   "
            f"({min(cpu[alone]):.1f} and {min(cpu[shared]):.1f} ms of processor each)",
            flush=True,
        )
        own = [[one_round(n, dtype, noise, 20) for noise in (alone, shared)] for _ in range(3)]
        before, after = 1e3 * np.min(own, axis=0)
        print(f"   {dtype} one learner's own {before:7.1f} ms a round, {after:7.1f} with pairs: {after / before:.2f} ×")
    row, pairs, seconds = np.zeros((1, n), dtype=np.int64), pairs_of(0), []
    for t in range(20):
        start = time.process_time()
        pairs.add(t, 1 << 40, row)
        seconds.append(time.process_time() - start)
    took = float(np.median(seconds[5:]))
    print(f"   noise of pairs       {1e3 * took:7.1f} ms a round, {1e9 * took / n / (LEARNERS - 1):.1f} ns a number")


def main() -> None:
    logging.getLogger("gossamer.peers").setLevel(logging.ERROR)
    compile_all()
    if sys.argv[1:2] == ["secrets"]:
        for n in [int(word) for word in sys.argv[2:]] or [100_000]:
            secrets(n)
        return
    for n in [int(word) for word in sys.argv[1:]] or list(ASKED):
        steps, asked = {100: 1500, 100_000: 60, 1_000_000: 12}.get(n, 60), ASKED.get(n)
        print(f"n = {n}" + ("" if asked is None else f", asked: at least {asked:g} rounds a second"))
        for dtype in ("f8", "f4"):
            floor, floor_cpu, _ = measured(bare, n, dtype, "none", steps)
            print(f"   {dtype} bare gRPC          {floor:7.2f} rounds/s   {floor_cpu:6.2f} ms of processor each")
            for noise in ("on messages", "at the source"):
                speed, cpu, grown = measured(learner, n, dtype, noise, steps)
                messages = 2 * OUT * 2 * n * (8 if dtype == "f8" else 4)  # sent and received, two vectors each
                print(
                    f"   {dtype} noise {noise:13} {speed:7.2f} rounds/s   {cpu:6.2f} ms, {speed / floor:.2f} × bare, "
                    f"memory {grown / 2**20:.1f} MiB, {grown / messages:.2f} × a round's messages",
                    flush=True,
                )


if __name__ == "__main__":
    main()
