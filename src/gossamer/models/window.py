"""Which records the newest R rounds have brought: what a learner with a bounded memory still remembers.

A learner remembers the records of the newest R rounds that brought it some. While records keep coming these are the
last R rounds. When they have ended, it goes on with the R rounds that were its last.
"""

from __future__ import annotations

import numpy as np

from gossamer.types import Integers

ROUNDS_AT_FIRST = 64  # counts that are kept at first: a window may be far longer than the run


class Window:
    """How many records each of k learners has from each of the newest R rounds that brought it some."""

    def __init__(self, rounds: int, learners: int) -> None:
        self._rounds = rounds
        self._counts = np.zeros((min(rounds, ROUNDS_AT_FIRST), learners), dtype=np.int64)
        self._came = np.zeros(learners, dtype=np.int64)  # rounds that brought a learner records

    def turn(self, counts: Integers) -> Integers:
        """Take note of a round's numbers of records; returns how many of its oldest each learner now forgets."""
        held = len(self._counts)
        if held < self._rounds and self._came.max(initial=0) >= held:
            more = min(2 * held, self._rounds) - held
            self._counts = np.vstack([self._counts, np.zeros((more, len(counts)), dtype=np.int64)])
        place = self._came % len(self._counts), np.arange(len(counts))
        brought = counts > 0
        oldest = self._counts[place]
        self._counts[place] = np.where(brought, counts, oldest)
        self._came = self._came + brought
        return np.where(brought, oldest, 0)
