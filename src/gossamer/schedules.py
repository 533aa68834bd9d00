"""Sequences over time: step sizes λ_t, noise scales ν_t, weakening factors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import BadValue, GossamerError
from gossamer.types import Array


@dataclass(frozen=True)
class Decay:
    """initial · ratio^t / (t+1)^exponent; a scalar for all learners, or one value per learner as an (m, 1) column."""

    initial: float | tuple[float, ...]
    exponent: float | tuple[float, ...]
    ratio: float = 1.0
    _columns: tuple[Array, Array] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("initial", "exponent", "ratio"):  # float64, whatever was given: budgets follow from these numbers
            given = getattr(self, name)
            try:
                value = tuple(map(float, given)) if isinstance(given, tuple) else float(given)
            except (TypeError, ValueError):
                requirement = "expected a number, or one per learner"
                raise BadValue(name, given, requirement, python=f"a schedule with {name}={given!r}") from None
            object.__setattr__(self, name, value)
        if min(self.initial if isinstance(self.initial, tuple) else (self.initial,)) < 0:
            raise GossamerError(f"a schedule that starts at {_short(self.initial)}: expected no negative value.")
        if not 0 < self.ratio < math.inf:
            python = f"a schedule with ratio={self.ratio:g}"
            raise BadValue("ratio", self.ratio, "expected a finite number above 0", python=python)
        columns = None
        if isinstance(self.initial, tuple) or isinstance(self.exponent, tuple):
            initial, exponent = np.broadcast_arrays(np.asarray(self.initial), np.asarray(self.exponent))
            columns = (initial[:, None].astype(float), -exponent[:, None].astype(float))
        object.__setattr__(self, "_columns", columns)

    def __call__(self, t: int | NDArray[np.int64]) -> float | Array:
        """The value at round t; of a schedule that is one for all learners also at an array of rounds."""
        if self._columns is None:
            value: Any = self.initial / (t + 1) ** self.exponent  # type: ignore[operator]
            return value if self.ratio == 1 else value * self.ratio**t  # type: ignore[no-any-return]
        initial, minus_exponent = self._columns
        scaled: Array = initial * (t + 1.0) ** minus_exponent
        return scaled if self.ratio == 1 else scaled * self.ratio**t

    @property
    def learners(self) -> int | None:
        """For how many learners this schedule was written; None where one value serves all."""
        return None if self._columns is None else len(self._columns[0])

    def exponents(self) -> list[float]:
        return list(self.exponent) if isinstance(self.exponent, tuple) else [self.exponent]

    def __str__(self) -> str:
        power = f"{_short(self.initial)}/(t+1)^{_short(self.exponent)}"
        return power if self.ratio == 1 else f"{power}·{self.ratio:g}^t"


Schedule = Callable[[int], float | Array]


def decay(initial: float | Sequence[float], exponent: float | Sequence[float]) -> Decay:
    """initial / (t+1)^exponent, as the paper writes both its step size and its noise scales.

    Either argument may be a sequence with one value per learner:
    `decay(1.0, [0.51, 0.52, 0.53])` is ν_{i,t} = 1/(t+1)^(0.50 + 0.01 i) for three learners.
    """
    start, power = _values("initial", initial), _values("exponent", exponent)
    if isinstance(start, tuple) and isinstance(power, tuple) and len(start) != len(power):
        raise GossamerError(
            f"decay() has {len(start)} initial values and {len(power)} exponents: give one of each per learner."
        )
    if min(start if isinstance(start, tuple) else (start,)) < 0:
        raise _refused("decay", "initial", initial, "an initial value must not be negative")
    if max(abs(p) for p in (power if isinstance(power, tuple) else (power,))) > 100:
        raise _refused("decay", "exponent", exponent, "expected an exponent of at most 100 in size")
    return Decay(start, power)


def geometric(initial: float | Sequence[float], ratio: float) -> Decay:
    """initial · ratio^t, 0 < ratio ≤ 1."""
    if not 0 < ratio <= 1:
        raise _refused("geometric", "ratio", ratio, "expected above 0 and at most 1")
    return Decay(decay(initial, 0.0).initial, 0.0, float(ratio))


def over_rounds(schedule: Schedule, rounds: int, *, signed: bool = False) -> Array:
    """The sizes |λ_t| of a schedule that is one for all learners, at rounds 0, 1, …; with their signs where asked."""
    if isinstance(schedule, Decay) and schedule.learners is not None:
        raise GossamerError(f"the schedule {schedule} has a value for each learner: privacy is proved for one for all.")
    if isinstance(schedule, Decay):  # never negative
        return np.full(rounds, 1.0) * schedule(np.arange(rounds))
    values = np.array([float(schedule(t)) for t in range(rounds)])
    return values if signed else np.abs(values)


def power_of(schedule: Schedule) -> float | None:
    """v where a schedule is λ0/(t+1)^v for all learners, None where it is not."""
    if isinstance(schedule, Decay) and isinstance(schedule.exponent, float) and schedule.ratio == 1:
        return schedule.exponent
    return None


def _values(name: str, given: float | Sequence[float]) -> float | tuple[float, ...]:
    try:
        values = tuple(float(v) for v in given) if isinstance(given, Sequence | np.ndarray) else (float(given),)
    except (TypeError, ValueError):
        values = ()
    if not values or not all(math.isfinite(v) for v in values):
        raise _refused("decay", name, given, "expected a finite number, or one per learner")
    return values if isinstance(given, Sequence | np.ndarray) else values[0]


def _refused(function: str, name: str, value: Any, requirement: str) -> BadValue:
    return BadValue(name, value, requirement, python=f"{function}({name}={value!r})")


def _short(value: float | tuple[float, ...]) -> str:
    if isinstance(value, tuple):
        return f"[{value[0]:g} … {value[-1]:g}]" if len(set(value)) > 1 else f"{value[0]:g}"
    return f"{value:g}"
