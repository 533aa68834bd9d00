"""Ten processes that do one thing together, for benchmarks: what each found, or a sentence, within a bounded time.

However a turn ends (all are done, one fails, it takes too long, Ctrl-C or SIGTERM, even `kill -9` of the benchmark),
its processes are ended and its folder is removed. A result goes through a pipe of its process's own, before that
process may end; a queue would lose what its thread had not yet written.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

LIMIT = 120.0  # seconds that a turn may take
ROOM = 3 << 30  # bytes that a process may ask for
WATCH = 0.5  # seconds between two looks whether the benchmark is still there


class Together(NamedTuple):
    """What one of the processes knows of all."""

    i: int
    folder: Path  # of them all
    ports: Any  # a number for each
    gate: Any  # where they wait for each other


Work = Callable[[Together], Any]


def in_processes(count: int, work: Work, limit: float = LIMIT) -> list[Any]:
    """What `work` returns in every one of `count` processes; SystemExit with a sentence where one did not return."""
    fork = multiprocessing.get_context("fork")
    ports, gate, pipes, processes = fork.Array("i", count), fork.Barrier(count), [], []
    with ended_by_signals(), new_folder() as folder:
        try:
            for i in range(count):
                here, there = fork.Pipe()
                about = Together(i, folder, ports, gate)
                processes.append(fork.Process(target=_in_process, args=(work, about, there, limit), daemon=True))
                processes[-1].start()
                there.close()
                pipes.append(here)
            found = _results(pipes, time.monotonic() + limit, limit)
            for pipe in pipes:
                pipe.send("all are done")
            for process in processes:
                process.join(10.0)
        finally:
            for process in processes:
                if process.is_alive():
                    process.kill()
                process.join()
            for pipe in pipes:
                pipe.close()
    return found


def _results(pipes: list[Connection], until: float, limit: float) -> list[Any]:
    found: dict[int, Any] = {}
    while len(found) < len(pipes):
        waiting = {id(pipe): k for k, pipe in enumerate(pipes) if k not in found}
        ready = wait([pipes[k] for k in waiting.values()], timeout=max(0.0, until - time.monotonic()))
        if not ready:
            raise SystemExit(f"processes {sorted(waiting.values())} of {len(pipes)} were not done after {limit:g} s")
        for pipe in ready:
            k = waiting[id(pipe)]
            try:
                fine, found[k] = pipes[k].recv()
            except EOFError:
                raise SystemExit(f"process {k} of {len(pipes)} ended without a result") from None
            if not fine:
                raise SystemExit(f"process {k} of {len(pipes)} failed:\n{found[k]}")
    return [found[k] for k in range(len(pipes))]


def _in_process(work: Work, about: Together, pipe: Connection, limit: float) -> NoReturn:
    """Work, tell, and stay until all others are done as well: they may still be sending."""
    parent = os.getppid()
    threading.Thread(target=_watch, args=(parent, about.folder, 2 * limit), daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (ROOM, ROOM))
        pipe.send((True, work(about)))
        pipe.recv()
    except BaseException:
        with contextlib.suppress(OSError):
            pipe.send((False, traceback.format_exc()))
    _leave(parent, about.folder)


def _watch(parent: int, folder: Path, most: float) -> None:
    """End this process when the benchmark is gone, or has long been due to end it."""
    until = time.monotonic() + most
    while os.getppid() == parent and time.monotonic() < until:
        time.sleep(WATCH)
    _leave(parent, folder)


def _leave(parent: int, folder: Path) -> NoReturn:
    """End this process; where the benchmark is gone take its folder away, and what others still write there."""
    for _ in range(4):
        if os.getppid() == parent:
            break
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(WATCH)
    os._exit(0)


@contextlib.contextmanager
def new_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gossamer-bench-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and Ctrl-C end the benchmark by an exception, so that all is put away, and without a traceback."""

    def end(number: int, frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
