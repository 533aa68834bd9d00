"""Large pages for a learner's long vectors: asked for where glibc and Linux can, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gossamer.peers.memory import LONG, keep_large_pages

ASK = """
import numpy as np
from gossamer.peers.memory import keep_large_pages, heaps
asked = keep_large_pages(100_000)
vectors = [np.full(100_000, float(k)) for k in range(20)]
places = [vector.ctypes.data for vector in vectors]
within = sum(any(start <= place < end for start, end in heaps()) for place in places)
text = open("/proc/self/smaps").read()
advised = " hg" in text.split("[heap]", 1)[1].split("VmFlags:", 1)[1].splitlines()[0]
print(asked, within, advised, all((vector == k).all() for k, vector in enumerate(vectors)))
"""


@pytest.mark.skipif(sys.platform != "linux" or not Path("/proc/self/smaps").exists(), reason="Linux alone has them")
def test_long_vectors_lie_in_a_heap_of_large_pages():
    """In a process of its own, since this is for all of its life."""
    asked, within, advised, right = subprocess.check_output([sys.executable, "-c", ASK], text=True).split()
    if asked == "False":
        pytest.skip("this C library is not glibc")
    assert int(within) >= 18, "vectors are still mapped one by one"
    assert advised == right == "True"


def test_short_vectors_change_nothing(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: pytest.fail("asked for"))
    assert not keep_large_pages(LONG // 8 - 1)
    monkeypatch.setattr("sys.platform", "darwin")
    assert not keep_large_pages(10**6)
