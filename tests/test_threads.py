"""A learner's process computes in one thread, whatever was loaded before, or is loaded later."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("grpc", reason="needs the extra `peers`")

SCRIPT = """
import numpy as np
from threadpoolctl import threadpool_info
many = max(one["num_threads"] for one in threadpool_info())
from gossamer.peers.threads import compute_in_one_thread
compute_in_one_thread()
import scipy.linalg
print(many, max(one["num_threads"] for one in threadpool_info()))
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="BLAS has one thread on one core")
def test_a_learner_computes_in_one_thread():
    many = {name: value for name, value in os.environ.items() if not name.endswith("NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=many, capture_output=True, text=True, timeout=300)
    before, after = done.stdout.split()
    assert int(before) > 1, "or nothing is tried"
    assert int(after) == 1, done
