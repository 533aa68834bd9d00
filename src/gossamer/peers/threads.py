"""One thread for a learner's linear algebra.

BLAS starts a thread for every core, and those that wait for each other keep their cores busy meanwhile. Where ten
learners share two cores, a sum of 100 000 squares then costs more than all else in a round. A learner's work is passes
over vectors, which one thread does as quickly as memory gives them.
"""

from __future__ import annotations

import os

from threadpoolctl import threadpool_limits

NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def compute_in_one_thread() -> None:
    """For the rest of the process: for libraries that are loaded, and for those that will be."""
    for name in NAMES:
        os.environ[name] = "1"
    threadpool_limits(1)
