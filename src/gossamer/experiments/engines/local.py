"""Processes of this machine, which joblib's loky starts and keeps from one part of a study to the next."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

import scipy.linalg  # noqa: F401  what brings a BLAS of its own must be there when threads are limited
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import BrokenProcessPool
from threadpoolctl import threadpool_limits

from gossamer.errors import BadValue
from gossamer.experiments.engines.base import Engine

# One thread for each process: the matrices are small and the cores are all taken. Who has no run for a minute ends.
LOKY = {"backend": "loky", "inner_max_num_threads": 1, "idle_worker_timeout": 60}

WORKERS_A_CORE = 8  # at most: each is a process with a run of its own


@contextmanager
def connect(jobs: int | None) -> Iterator[Engine]:
    cores = os.cpu_count() or 1
    workers = jobs or cores
    if workers > WORKERS_A_CORE * cores:
        most = WORKERS_A_CORE * cores
        raise BadValue("jobs", workers, f"expected at most {most}, {WORKERS_A_CORE} for each of this machine's cores")
    if workers == 1:
        with threadpool_limits(1):  # as in a worker: BLAS adds up in another order where it has more threads
            yield Engine({"backend": "sequential"}, 1, 1, ())
        return
    resource_tracker.ensure_running()  # now, for its start lets ctrl-C through: to the workers, if these came first
    try:
        yield Engine(LOKY, workers, 2 * workers, (BrokenProcessPool,))
    finally:
        get_reusable_executor().shutdown(kill_workers=True)
