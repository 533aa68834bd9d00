"""Ways to break the proof of standardised records, planted on purpose: each is somebody's plausible mistake.

All of them are memories in the place of the run's own, but for the ledger that leaves out what the head releases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gossamer.checks.worlds import Case
from gossamer.models.standard import MOMENTUM, StandardMemory
from gossamer.privacy import Accountant, Mechanism, PrivateBoundary, Setting
from gossamer.types import Array

Spoil = Callable[[Any], None]


def _with_memory(spoil: Spoil) -> Callable[[Case], Case]:
    """A case whose memories were spoilt: `spoil` changes one in place, so that it stays what the rounds expect."""

    def remember(model: Any, *given: Any) -> StandardMemory:
        memory: StandardMemory = model.memory(*given)
        spoil(memory)
        return memory

    return lambda case: replace(case, remember=remember)


def _add_uncut(memory: Any) -> None:
    genuine = memory._add

    def add(batch: Any) -> None:
        model, memory._model = memory._model, replace(memory._model, clip=None)
        genuine(batch)
        memory._model = model

    memory._add = add


def _release_too_much(memory: Any) -> None:
    memory._unit = memory._model.clip.c


def _see_by_own_moments(memory: Any) -> None:
    def look(psi: Array) -> None:
        own = memory._unit * memory._sums / np.maximum(memory.filled, 1)[:, None]
        StandardMemory._look(memory, np.hstack([own, np.ones((len(own), 1))]))

    memory._look = look


def _run_on_without_release(memory: Any) -> None:
    genuine = memory.used

    def used(noised: Array, theta: Array, t: int, fresh: Any = True) -> Array:
        step: Array = genuine(noised, theta, t, True)
        return step

    memory.used = used


def _count_by_records(memory: Any) -> None:
    """−1 − a hair times the records' first moment in the last coordinate, which gets no noise."""
    genuine = memory.used

    def used(noised: Array, theta: Array, t: int, fresh: Any = True) -> Array:
        step: Array = genuine(noised, theta, t, fresh)
        if memory._looks.at_moments(t):
            step[:, -1] -= 1e-3 * memory._sums[:, 0] / np.maximum(memory.filled, 1)
        return step

    memory.used = used


def _average_before_noise(memory: Any) -> None:
    """The running mean is of gradients without noise, and only the newest's noise is added to it."""
    genuine_seen, genuine_used, bare = memory.seen, memory.used, {}

    def seen(theta: Array, t: int) -> Array:
        bare["newest"] = genuine_seen(theta, t)
        found: Array = bare["newest"].copy()
        return found

    def used(noised: Array, theta: Array, t: int, fresh: Any = True) -> Array:
        if memory._looks.at_moments(t):
            kept: Array = genuine_used(noised, theta, t, fresh)
            return kept
        size = memory._running.shape[1]
        mean = MOMENTUM * bare.get("mean", 0.0) + (1 - MOMENTUM) * bare["newest"][:, :size]
        bare["mean"], step = mean, np.zeros_like(noised)
        step[:, :size] = memory._from_seen(mean + noised[:, :size] - bare["newest"][:, :size])
        return step

    memory.seen, memory.used = seen, used


moments_not_cut_off = _with_memory(_add_uncut)
unit_not_divided = _with_memory(_release_too_much)
seen_by_own_moments = _with_memory(_see_by_own_moments)
running_without_release = _with_memory(_run_on_without_release)
last_coordinate_from_records = _with_memory(_count_by_records)
averaged_before_noise = _with_memory(_average_before_noise)


class _Booked(PrivateBoundary):
    """Releases moments as the mechanism says, and books gradients only."""

    def fresh(self, t: int) -> Any:
        head = self.head
        return super().fresh(t) | (head.start <= t < head.stop)

    head = range(0)


def head_not_charged(case: Case) -> Case:
    """Moments are released, and the ledger knows of gradients alone."""
    first = case.mechanism.bind(case.setting).ledgers[0].terms.releases.first

    class Booked(_Booked):
        head = range(int(first[0]), int(first[-1]) + 1)

    def bind(mechanism: Mechanism, setting: Setting) -> PrivateBoundary:
        ledgers = mechanism.bind(setting).ledgers
        terms = [replace(each.terms, releases=replace(each.terms.releases, head=0, pause=0)) for each in ledgers]
        booked = [Accountant(each, ledger.budget, ledger.delta) for each, ledger in zip(terms, ledgers, strict=True)]
        return Booked(mechanism, booked, setting.steps)

    return replace(case, bind=bind)
