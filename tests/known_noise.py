"""Own noise that a test knows, a function of learner and round, where noise of pairs goes with it.

The product has no such switch: a test puts it in place of what draws, in a simulation and in the processes that it
starts.
"""

from __future__ import annotations

import hashlib

from gossamer.privacy import table
from gossamer.privacy.pairs import Grid


def know_own_noise(learners, put):
    """From here on these learners, in their order, draw known noise; `put` is setattr, or a monkeypatch's."""
    left, release = [], Grid.release

    def released(grid, values, step, t, pairs):
        left[:] = [(i, t) for i in learners]
        return release(grid, values, step, t, pairs)

    def own_gaussian(row, scale):
        i, t = left.pop(0)
        key = hashlib.sha256(f"learner {i}'s own".encode()).digest()
        table.Stream(key, t.to_bytes(12, "little")).add_gaussian(row, scale)

    put(Grid, "release", released)
    put(table, "own_gaussian", own_gaussian)
