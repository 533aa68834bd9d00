"""A neighbour that breaks noise through rounding, if it can.

It parks a learner's point P where a · P, what the learner keeps of it, lies at U/2, one world just below and the other
just above; pushes it by 2^52 U, where float64 knows multiples of U only, so that the worlds are rounded to different
ones; and pulls it back. If nothing bounds what a learner takes in, the two worlds are U apart from then on, and U is
as large as one likes. See gossamer.privacy.rounding for what bounds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gossamer.checks.climb import levered
from gossamer.checks.worlds import Case, Replayed, Worlds
from gossamer.types import Array

LARGER = 2.0**44  # U, in units of the worlds' distance: float64 still tells them apart at U/2
PARKED = 2  # the round in which the point is parked


def steered_losses(case: Case, *, seed: int = 0) -> Array:
    """The largest loss of each learner that a park, a push and a pull reached."""
    return np.asarray(np.max([attempt.losses for attempt in attempts(case, seed)], axis=0))


def attempts(case: Case, seed: int = 0) -> Iterator[Replayed]:
    """Parks, pushes and pulls, for each weight by which a step might keep a point."""
    rng = np.random.default_rng(seed)
    worlds, rows = Worlds(case), case.network.rows(mixes=case.algorithm.mixes)
    given, first = levered(case, rng), np.zeros(case.learners, dtype=np.int64)
    yield worlds.replay(given, first)
    if case.rounds <= PARKED + 2:
        return
    own = [getattr(rows, f"{over.removeprefix('I+')}_ii") for over in case.algorithm.mixes]
    whole = np.ones((case.learners, case.size))
    response = worlds.responses[PARKED]
    weak = whole if response is None else response[1]
    for kept, push in [(1 + each, whole) for each in own] + [(each, weak) for each in own]:
        correction = np.zeros((case.learners, case.size))
        for _ in range(4):  # the first tells by how much the other terms of the step are off
            attack = _Attack(case, kept, push, correction)
            yield worlds.replay(given, first, attack)
            correction = attack.correction


class _Attack:
    """Targets for the rounds that park, push and pull; elsewhere those that were given."""

    def __init__(self, case: Case, kept: Array, push: Array, correction: Array) -> None:
        self._case, self._kept, self._push = case, np.where(np.abs(kept) > 1e-3, kept, 1.0), push
        self.correction = correction
        self._unit = np.ones((case.learners, case.size))

    def __call__(self, t: int, states: Any, targets: Array, alone: Any) -> Array:
        points = [self._case.algorithm.point(state) for state in states]
        apart = points[1] - points[0]
        if t == PARKED - 1:
            self._unit = np.exp2(np.round(np.log2(np.maximum(np.abs(apart), 1e-12) * LARGER))).astype(float)
            parked: Array = self._unit / 2 / self._kept - apart / 2 + self.correction
            return parked
        if t == PARKED:
            ahead = [self._case.algorithm.point(state) for state in alone]
            off = self._unit / 2 - (ahead[0] + ahead[1]) / 2
            self.correction = self.correction + np.where(np.abs(off) < self._unit / 4, off / self._kept, 0.0)
            return 1.5 * 2.0**52 * self._unit * self._push  # between powers of two, where the step of float64 is U
        return 0 * targets if t > PARKED else targets
