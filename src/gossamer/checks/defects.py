"""Defects on purpose: each breaks a claim in a way that somebody once did, and the audit has to say so.

`gossamer audit --self-test` plants them one after the other. An audit that lets one pass is worth nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gossamer.checks.audit import findings
from gossamer.checks.finding import Finding
from gossamer.checks.worlds import Case
from gossamer.models.bounds import Reach
from gossamer.privacy import PrivateBoundary
from gossamer.types import Array, Dynamics, Out, Rows


class Defect(NamedTuple):
    """A planted defect: what it is, how a case gets it, and what its finding is about."""

    name: str
    plant: Callable[[Case], Case]
    caught_by: str
    needs: Callable[[Case], bool] = lambda case: True


def self_test(case: Case) -> Iterator[tuple[Defect, Finding | None]]:
    """Every defect that a case can have, and the first finding that failed; None where none did."""
    for defect in DEFECTS:
        if defect.needs(case):
            yield defect, next((f for f in findings(defect.plant(case)) if not f.holds), None)


# -- the boundary ------------------------------------------------------------------------------------------------------


def _with_boundary(kind: type[PrivateBoundary]) -> Callable[[Case], Case]:
    def plant(case: Case) -> Case:
        def bind(mechanism: Any, setting: Any) -> PrivateBoundary:
            made = mechanism.bind(setting)
            return kind(mechanism, made.ledgers, setting.steps)

        return replace(case, bind=bind)

    return plant


class _Weaker(PrivateBoundary):
    """Noise times a factor, for some learners, rounds or values."""

    def factor(self, t: int, value: Array) -> Any:
        raise AssertionError("each defect says which")

    def _noised(self, t: int, value: Array) -> Array:
        exact = self.clamped_to_grid(t, value)
        grid = self._scale(t) * 2.0**-40
        noise = super()._noised(t, value) - exact
        weaker: Array = np.rint((exact + self.factor(t, value) * noise) / grid) * grid
        return weaker


class FadesTooSoon(_Weaker):
    def factor(self, t: int, value: Array) -> Any:
        return 0.001 if t >= 8 else 1.0


class OneLearnerWeaker(_Weaker):
    def factor(self, t: int, value: Array) -> Any:
        return np.where(np.arange(len(value)) == len(value) // 2, 0.9, 1.0)[:, None]


class OutliersHalfNoised(_Weaker):
    def factor(self, t: int, value: Array) -> Any:
        return np.where(np.abs(value) > 100 * self._scale(t), 0.5, 1.0)


class ReusedLater(PrivateBoundary):
    """From round 6 on, the noise of round 5 again."""

    def _noised(self, t: int, value: Array) -> Array:
        exact = self.clamped_to_grid(t, value)
        if t < 6:
            self._kept = (super()._noised(t, value) - exact) / self._scale(t)
            return exact + self._kept * self._scale(t)
        grid = self._scale(t) * 2.0**-40
        again: Array = np.rint((exact + self._kept[:, : value.shape[1]] * self._scale(t)) / grid) * grid
        return again


class NeverFreezes(PrivateBoundary):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.stops = np.full_like(self.stops, 10**9)

    def charge(self, t: int) -> None:
        pass


class TakesAnything(PrivateBoundary):
    """No bound on what is received, nor on states."""

    def take(self, t: int, got: Array) -> Array:
        return got

    def hold(self, t: int, state: Array) -> Array:
        return state


class FloatingPoint(PrivateBoundary):
    """NumPy's own noise."""

    def _noised(self, t: int, value: Array) -> Array:
        rng = np.random.default_rng()
        noisy: Array = value + self.mechanism.law.seeded(rng, value.shape) * self._scale(t)
        return noisy


# -- the ledger, the recursion, the model ------------------------------------------------------------------------------


def _records_squared(case: Case) -> Case:
    def bind(mechanism: Any, setting: Any) -> PrivateBoundary:
        made: PrivateBoundary = mechanism.bind(setting._replace(records=[n**2 for n in setting.records]))
        return made

    return replace(case, bind=bind)


def _path_dropped(case: Case) -> Case:
    """The first component of x no longer reaches the others: |C_ii| in Algorithm 1."""
    genuine = case.algorithm.dynamics
    assert genuine is not None

    def careless(rows: Rows, z: Array) -> Dynamics:
        found = genuine(rows, z)
        A = found.A.copy()
        A[:, np.arange(A.shape[1])[:, None] != np.arange(A.shape[2])[None]] = 0.0
        return found._replace(A=A)

    return replace(case, algorithm=replace(case.algorithm, dynamics=careless))


def _gradient_slips_out(case: Case) -> Case:
    genuine = case.algorithm.emit

    def leaky(x: Any, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        return genuine(x, grad, rows, t) | {"extra": Out(grad, case.algorithm.mixes[0], False)}

    return replace(case, algorithm=replace(case.algorithm, emit=leaky))


class _Model:
    """A model that is another but for what a defect changes."""

    def __init__(self, genuine: Any) -> None:
        self._genuine = genuine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._genuine, name)


class _Declares(_Model):
    def __init__(self, genuine: Any, change: Callable[[Reach], Reach]) -> None:
        super().__init__(genuine)
        self._change = change

    def reach(self, *given: Any, **named: Any) -> Reach:
        return self._change(self._genuine.reach(*given, **named))


class _OneUnclipped(_Model):
    """Its middle learner's gradients are those of the model without a clipper."""

    def memory(self, table: Any, keep: Any, room: Any) -> Any:
        return _TwoMemories(
            self._genuine.memory(table, keep, room), replace(self._genuine, clip=None).memory(table, keep, room)
        )


class _TwoMemories:
    def __init__(self, clipped: Any, unclipped: Any) -> None:
        self._clipped, self._unclipped = clipped, unclipped

    def observe(self, batch: Any) -> None:
        self._clipped.observe(batch)
        self._unclipped.observe(batch)

    def gradient(self, theta: Array) -> Array:
        found: Array = self._clipped.gradient(theta)
        middle = len(found) // 2
        found[middle] = self._unclipped.gradient(theta)[middle]
        return found


def _declares(change: Callable[[Reach], Reach]) -> Callable[[Case], Case]:
    def plant(case: Case) -> Case:
        model: Any = _Declares(case.model, change)
        return replace(case, model=model)

    return plant


def _unclipped(case: Case) -> Case:
    model: Any = _OneUnclipped(case.model)
    return replace(case, model=model)


def _on_messages(case: Case) -> bool:
    return case.mechanism.where == "messages"


def _lipschitz(case: Case) -> bool:
    return _on_messages(case) and math.isfinite(case.terms[0].bound.L)


DEFECTS = (
    Defect("noise × 0.001 from round 8 on", _with_boundary(FadesTooSoon), "scale"),
    Defect("one learner's noise × 0.9", _with_boundary(OneLearnerWeaker), "scale, learner"),
    Defect("half the noise on outliers", _with_boundary(OutliersHalfNoised), "scale"),
    Defect("noise reused from round 6 on", _with_boundary(ReusedLater), "correlation"),
    Defect("floating-point noise", _with_boundary(FloatingPoint), "grid"),
    Defect("no freezing", _with_boundary(NeverFreezes), "of the budget", _on_messages),
    Defect("received messages not bounded", _with_boundary(TakesAnything), "rounding", _on_messages),
    Defect("N² for N", _records_squared, "one record", lambda case: case.per_round > 1),
    Defect(
        "a path left out of the recursion (|C_ii|)",
        _path_dropped,
        "dynamics",
        lambda case: _on_messages(case) and case.terms[0].dynamics(1).A.shape[1] > 1,
    ),
    Defect("the gradient sent beside, without noise", _gradient_slips_out, "without noise", _on_messages),
    Defect("c declared half as large", _declares(lambda r: r._replace(c=r.c / 2)), "norm"),
    Defect("L declared as 0", _declares(lambda r: r._replace(L=0.0)), "moves", _lipschitz),
    Defect("one learner left unclipped", _unclipped, "norm", lambda case: case.model.clip is not None),
)
