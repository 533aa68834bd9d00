"""Slopes on log-log paper, with intervals by resampling seeds.

The slope is that of the least-squares line through (log t, log of the mean over seeds), over marks that are spread
evenly in log t. Marks of one run depend on each other, seeds do not: so an interval is found by drawing seeds with
replacement, and fitting again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossamer.types import Array

RESAMPLED = 1000


class Slope(NamedTuple):
    """A fitted slope with its 95 % interval; `level` is the line's value at t = 1."""

    value: float
    low: float
    high: float
    level: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


class Band(NamedTuple):
    """A mean over seeds, with the 95 % interval of the mean."""

    mean: Array
    low: Array
    high: Array


def resampled(rows: Array, seed: int = 0) -> Array:
    """(RESAMPLED, marks): the mean over seeds, each time of as many seeds drawn with replacement."""
    rng = np.random.default_rng(seed)
    shares = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=RESAMPLED) / len(rows)
    return np.asarray(shares @ rows)


def fit(t: Array, rows: Array, since: float, until: float = np.inf) -> Slope:
    """The slope of the mean of `rows`, (seeds, marks), over the marks from `since` to `until`."""
    used = (t >= since) & (t <= until)
    x = np.log(t[used])
    pull = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    mean = np.log(rows[:, used].mean(axis=0))
    value = float(mean @ pull)
    low, high = np.quantile(np.log(resampled(rows[:, used])) @ pull, [0.025, 0.975])
    return Slope(value, float(low), float(high), float(np.exp(mean.mean() - value * x.mean())))


def band(rows: Array) -> Band:
    low, high = np.quantile(resampled(rows), [0.025, 0.975], axis=0)
    return Band(rows.mean(axis=0), low, high)
