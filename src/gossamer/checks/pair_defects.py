"""Ways to break the proof of pair secrets, planted on purpose: each is somebody's plausible mistake.

Some spoil what pairs draw, some the boundary that puts it onto gradients, and one the ledger that counts colluders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from gossamer.checks.worlds import Case
from gossamer.privacy import Mechanism, PrivateBoundary, Setting
from gossamer.privacy.pairs import DealtPairs, Grid, Steps, stream_of
from gossamer.types import Array


def with_boundary(kind: type[PrivateBoundary]) -> Callable[[Case], Case]:
    """A case with another kind of boundary around the genuine ledgers."""

    def bind(mechanism: Mechanism, setting: Setting) -> PrivateBoundary:
        genuine: Any = mechanism.bind(setting)
        return kind(mechanism, genuine.ledgers, setting.steps, genuine._pairs)

    return lambda case: replace(case, bind=bind)


def _with_pairs(spoil: Callable[[Any], DealtPairs]) -> Callable[[Case], Case]:
    """A case whose pairs draw otherwise: `spoil` makes them of the genuine ones."""

    def bind(mechanism: Mechanism, setting: Setting) -> PrivateBoundary:
        boundary: Any = mechanism.bind(setting)
        boundary._pairs = spoil(boundary._pairs)
        spoilt: PrivateBoundary = boundary
        return spoilt

    return lambda case: replace(case, bind=bind)


class _Spoilt(DealtPairs):
    """The same keys."""

    def __init__(self, genuine: DealtPairs) -> None:
        self.keys = dict(genuine.keys)


class _ReusedInRounds(_Spoilt):
    def add(self, t: int, deviation: int, rows: Steps) -> None:
        super().add(0, deviation, rows)


class _SameSign(_Spoilt):
    def add(self, t: int, deviation: int, rows: Steps) -> None:
        for (i, j), key in self.keys.items():
            for end in (i, j):
                stream_of(key, t).add_gaussian(rows[end], deviation)


class _Smaller(_Spoilt):
    def add(self, t: int, deviation: int, rows: Steps) -> None:
        super().add(t, deviation * 9 // 10, rows)


class _OneKeyForTwo(_Spoilt):
    """The last pair has the key of the one before it."""

    def __init__(self, genuine: DealtPairs) -> None:
        super().__init__(genuine)
        *_, one, other = self.keys
        self.keys[other] = self.keys[one]


class _OneLeftOut(_Spoilt):
    """The last pair adds nothing."""

    def __init__(self, genuine: DealtPairs) -> None:
        super().__init__(genuine)
        self.keys.popitem()


class _BelowFloor(PrivateBoundary):
    """The last learner's own noise is 0.8 of what is booked."""

    @cached_property
    def _grid(self) -> tuple[Grid, Array]:
        grid, weights = _genuine_grid(self)
        return grid._replace(own=(*grid.own[:-1], int(0.8 * grid.own[-1]))), weights


class _OwnGrid(PrivateBoundary):
    """The last learner's step of the grid is a thousandth larger than the others'."""

    def _hidden(self, t: int, value: Any, pairs: Any) -> Array:
        hidden = super()._hidden(t, value, pairs)
        hidden[-1] = value[-1] + (hidden[-1] - value[-1]) * (1 + 2.0**-10)
        return hidden


class _WeighedLater(PrivateBoundary):
    """Noise of weighted gradients goes onto gradients that are not weighted yet."""

    def _hidden(self, t: int, value: Any, pairs: Any) -> Array:
        weights = self._grid[1]
        return np.asarray(value + (super()._hidden(t, value, pairs) - value) * weights)


def _genuine_grid(boundary: PrivateBoundary) -> tuple[Grid, Array]:
    named: Any = PrivateBoundary.__dict__["_grid"]
    grid: tuple[Grid, Array] = named.func(boundary)
    return grid


def one_colluder_too_many(case: Case) -> Case:
    """The ledger counts one colluder less than the claim says."""

    def bind(mechanism: Mechanism, setting: Setting) -> PrivateBoundary:
        assert mechanism.secrets is not None
        fewer = replace(mechanism.secrets, colluders=mechanism.secrets.colluders - 1)
        return replace(mechanism, secrets=fewer).bind(setting)

    return replace(case, bind=bind)


reused_in_rounds = _with_pairs(_ReusedInRounds)
same_sign = _with_pairs(_SameSign)
smaller_pairs = _with_pairs(_Smaller)
one_key_for_two = _with_pairs(_OneKeyForTwo)
one_left_out = _with_pairs(_OneLeftOut)
below_floor = with_boundary(_BelowFloor)
own_grid = with_boundary(_OwnGrid)
weighed_later = with_boundary(_WeighedLater)
