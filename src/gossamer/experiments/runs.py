"""Many runs on all cores, each done once: results are kept by content, so that a stopped study goes on."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from gossamer.experiments.tasks import Result
from gossamer.files import replace_file


class Job(Protocol):
    """Plain values, whose key is of all that decides the outcome."""

    def key(self) -> str: ...
    def outcome(self) -> Result: ...
    def __hash__(self) -> int: ...


def _outcome(job: Job) -> Result:
    return job.outcome()


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes that are started meanwhile never hear ctrl-C, which a terminal sends to all: whoever started them does.

    They would print where it hit them, even in their first imports. A blocked signal is blocked for children, too, and
    here it only waits.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Runs:
    """Runs tasks on `jobs` processes and keeps every outcome in `folder`/runs."""

    def __init__(
        self, folder: Path, jobs: int | None = None, progress: Callable[[int, int], None] | None = None
    ) -> None:
        self._folder = folder / "runs"
        self._jobs = jobs if jobs is not None else os.cpu_count() or 1
        self._progress = progress or (lambda done, of: None)
        self.made = 0  # how many were not kept from before

    def __call__(self, tasks: Iterable[Job]) -> list[Result]:
        tasks = list(tasks)
        results = {task: self._kept(task) for task in dict.fromkeys(tasks)}
        missing = [task for task, result in results.items() if result is None]
        done = len(results) - len(missing)
        self._progress(done, len(results))
        for task, fresh in self._new(missing):
            results[task] = fresh
            done += 1
            self._progress(done, len(results))
        return [result for task in tasks if (result := results[task]) is not None]

    def _new(self, tasks: list[Job]) -> Iterable[tuple[Job, Result]]:
        if not tasks:
            return
        if self._jobs == 1:
            for task in tasks:
                yield task, self._keep(task, task.outcome())
            return
        # One BLAS thread for each process: the matrices are small and the cores are all taken.
        before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        os.environ.update(dict.fromkeys(before, "1"))
        try:
            with ProcessPoolExecutor(self._jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
                others = set(multiprocessing.active_children())
                try:
                    with _deaf_children():
                        waiting = {pool.submit(_outcome, task): task for task in tasks}
                    for future in as_completed(waiting):
                        yield waiting[future], self._keep(waiting[future], future.result())
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    for process in set(multiprocessing.active_children()) - others:
                        process.terminate()
                    raise
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    def _kept(self, task: Job) -> Result | None:
        try:
            kept = json.loads((self._folder / f"{task.key()}.json").read_text())
            return dict(kept["result"]) if kept["key"] == task.key() else None
        except (OSError, ValueError, KeyError, TypeError):  # not there, or damaged: run it
            return None

    def _keep(self, task: Job, result: Result) -> Result:
        replace_file(self._folder / f"{task.key()}.json", json.dumps({"key": task.key(), "result": result}).encode())
        self.made += 1
        return result
