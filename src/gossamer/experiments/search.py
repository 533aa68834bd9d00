"""What a study tunes, and in which order: one coordinate after the other, each from the best so far.

    λ0           a coarse grid of powers of 2, then the √2 neighbours of its best, until none of them is better
    exponents    the method's others, at the λ0 with which the steps add up to the same, and its neighbours
    split        more noise on one channel and less on the other, likewise

A search by coordinates is no full product: an exponent that is best with another split only is not found. It is the
same for every method.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from gossamer.algorithms.registry import Exponents

REFINEMENTS = 6  # moves to a better neighbour, at most: three doublings beyond the grid
ROUNDS = 1000  # where a study runs as many as the data have


@dataclass(frozen=True)
class Choice:
    """What is tuned."""

    step: float  # λ0
    per_round: int | None = None  # None: as the problem says
    exponents: Exponents | None = None  # None: the method's usual ones
    split: float | None = None  # the first channel's noise, in units of the second one's; None: the same

    @property
    def usual(self) -> bool:
        """Whether λ0 alone was chosen."""
        return self.exponents is None and self.split is None


def on_grid(step: float) -> float:
    """The power of √2 next to λ0; powers of 2 stay as they are, digit by digit."""
    half = round(2 * math.log2(step))
    return 2.0 ** (half // 2) * (math.sqrt(2) if half % 2 else 1.0)


def neighbours(best: Choice) -> list[Choice]:
    """λ0/√2 and √2 λ0, all else as it is."""
    return [replace(best, step=on_grid(best.step * factor)) for factor in (1 / math.sqrt(2), math.sqrt(2))]


def with_exponents(best: Choice, usual: Exponents, others: Iterable[Exponents], rounds: int) -> list[Choice]:
    """The best with other exponents; steps that fall faster begin larger, so that they add up to the same."""

    def length(v: float) -> float:
        return float((np.arange(1.0, rounds + 1) ** -v).sum())

    now = best.exponents or usual
    steps = {other: on_grid(best.step * length(now.step) / length(other.step)) for other in others}
    return [one for other, step in steps.items() for one in _and_neighbours(replace(best, step=step, exponents=other))]


def with_splits(best: Choice, splits: Iterable[float]) -> list[Choice]:
    return [one for split in splits for one in _and_neighbours(replace(best, split=split))]


def _and_neighbours(choice: Choice) -> list[Choice]:
    return [choice, *neighbours(choice)]
