"""What people give for noise, checked: budgets, scales and splits, as numbers or as texts that are numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from gossamer.errors import BadValue, GossamerError
from gossamer.schedules import Decay, decay

Numbers = float | Sequence[float]


def checked_split(given: Any) -> tuple[tuple[str, float], ...]:
    """A factor for each channel, from a mapping or from pairs."""
    try:
        pairs = [(str(channel), number(times)) for channel, times in dict(given).items()]
        if not isinstance(given, Mapping) and len(given) != len(pairs):
            raise ValueError("a channel is named twice")
    except (TypeError, ValueError):
        raise BadValue("split", given, 'expected a factor for each channel, once, such as {"s": 2.0}') from None
    if any(not 1e-6 <= times <= 1e6 for _, times in pairs):
        raise BadValue("split", dict(pairs), "expected a factor from 1e-6 to 1e6 for each channel")
    return tuple(pairs)


def of_learner(value: Any, i: int) -> float:
    return float(value[i] if isinstance(value, tuple) else value)


def each_budget(epsilon: Numbers) -> tuple[float, ...] | float:
    several = isinstance(epsilon, Sequence | np.ndarray) and not isinstance(epsilon, str | bytes) and np.ndim(epsilon)
    budgets = tuple(map(number, epsilon)) if several else number(epsilon)  # type: ignore[arg-type]
    if np.isnan(budgets).any():
        raise BadValue("epsilon", epsilon, "expected a number above 0, or one for each learner")
    return budgets


class Short(float):
    """A number that is shown in a few digits."""

    def __repr__(self) -> str:
        return f"{float(self):g}"


def number(value: Any) -> float:
    """A number, or a text that is one, as a float; NaN, which no range holds, for anything else."""
    if not isinstance(value, Real | str) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def checked_scale(scale: Any) -> Decay:
    """Noise as a schedule in floats; one number, or one for each learner, is noise that stays as it is."""
    schedule = isinstance(scale, Decay)
    initial, exponent, ratio = (scale.initial, scale.exponent, scale.ratio) if schedule else (scale, 0.0, 1.0)
    try:
        given = None if isinstance(initial, bool | str | bytes) else decay(initial, exponent)
    except (TypeError, OverflowError):
        given = None
    if given is None or min(np.ravel(given.initial)) <= 0 or not 0 < number(ratio) < math.inf:
        raise GossamerError(f"noise of scale {scale!r}: expected finite numbers above 0, such as decay(1.0, 0.6).")
    return replace(given, ratio=number(ratio))
