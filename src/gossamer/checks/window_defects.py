"""Ways to break what is booked of a window of rounds, planted on purpose.

A record's loss is the sum over R rounds of what it moves a mean of R rounds' records by. It is larger where the mean is
of fewer rounds than that, and where a record stays for longer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gossamer.checks.worlds import Case
from gossamer.records import Batch
from gossamer.types import Array


def one_round_short(case: Case) -> Case:
    """The window forgets one round too early: a mean of R − 1 rounds is booked as one of R."""
    shorter = _remembering(case, (case.model.remember or 2) - 1)
    return replace(case, remember=lambda model, *given: shorter.memory(*given))


def first_round_stays(case: Case) -> Case:
    """The slot of round 0 is never written again: its records stay, and those of the R − 1 newest rounds with them."""
    newest, first = _remembering(case, (case.model.remember or 2) - 1), _remembering(case, None)
    return replace(case, remember=lambda model, *given: _Stuck(first.memory(*given), newest.memory(*given)))


def _remembering(case: Case, rounds: int | None) -> Any:
    model: Any = case.model  # a frozen dataclass, as all linear models are
    return replace(model, remember=rounds)


class _Stuck:
    """The mean over two memories' records, the first of which takes in one round and no more."""

    def __init__(self, first: Any, newest: Any) -> None:
        self._first, self._newest = first, newest

    def observe(self, batch: Batch) -> None:
        (self._newest if self._first.filled.any() else self._first).observe(batch)

    def gradient(self, theta: Array) -> Array:
        old, new = self._first.filled[:, None], self._newest.filled[:, None]
        mean: Array = (old * self._first.gradient(theta) + new * self._newest.gradient(theta)) / (old + new)
        return mean
