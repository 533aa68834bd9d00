"""ε over the rounds: what every learner has spent after each of a few dozen rounds.

It follows from the plan alone, as every ε does, and never from records: it is the same before a run and after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gossamer.privacy.accountant import Accountant, Terms, epsilon_curve

MOST_SHOWN, FEWEST_SHOWN = 40, 8
SHOWN_AT_A_COST = 12  # where every one of them is a search for its worst record
MOST_NUMBERS = 4000  # of all learners together: what a record keeps of it stays small


def rounds_shown(rounds: int, learners: int = 1, first: int = 0, most: int = MOST_SHOWN) -> NDArray[np.int64]:
    """Rising numbers of rounds from 0 to `rounds`; from the `first` release on half even, half dense at the start."""
    shown = max(FEWEST_SHOWN, min(most, MOST_NUMBERS // max(learners, 1)))
    first = min(first, rounds)
    even, early = np.linspace(first, rounds, shown // 2), first + np.geomspace(1, rounds - first + 1, shown // 2) - 1
    return np.unique(np.round(np.concatenate([[0], even, early])).astype(np.int64).clip(0, rounds))


def first_release(terms: Sequence[Terms]) -> int:
    """The first round in which anybody releases anything."""
    first = (one.releases.after - one.releases.pause - one.releases.head for one in terms if one.where == "source")
    return min(first, default=0)


def course(
    terms: Sequence[Terms], rounds: NDArray[np.int64], delta: float, *, stops: Sequence[int] | None = None
) -> list[list[float]]:
    """Every learner's ε after each of the rising numbers of rounds; a learner that has stopped spends no more."""
    known: dict[Any, list[float]] = {}
    each = []
    for i, one in enumerate(terms):
        sent = rounds if stops is None else np.minimum(rounds, stops[i])
        key = alike(one), tuple(sent.tolist())
        if key not in known:
            known[key] = _course_of(one, sent, delta)
        each.append(known[key])
    return each


def alike(terms: Terms) -> Any:
    """What ε follows from: at the source the dynamics are not among it, and learners of like data cost alike."""
    if terms.where != "source":
        return id(terms)
    return replace(terms, dynamics=_none, rounding=None)


def _none(rounds: int) -> Any:
    """Stands for dynamics that nothing depends on."""
    raise AssertionError(f"dynamics of {rounds} rounds were asked for, and noise at the source depends on none")


def _course_of(terms: Terms, rounds: NDArray[np.int64], delta: float) -> list[float]:
    rising = np.unique(rounds[rounds > 0])
    if not len(rising):
        return [0.0] * len(rounds)
    ledger = Accountant(terms, delta=delta)
    booked = ledger.epsilon_at(int(rising[-1]), delta)
    if delta and not terms.law.needs_delta:  # a δ that the law does not need is worth the sharper of several bounds
        spent = [ledger.epsilon_at(int(t), delta) for t in rising[:-1]]
    else:
        spent = epsilon_curve(terms, rising.astype(float), delta)[:-1].tolist()
    spent = [*(min(one, booked) for one in spent), booked]  # which rounds in another order
    after: Mapping[int, float] = {0: 0.0, **dict(zip(rising.tolist(), spent, strict=True))}
    return [after[int(t)] for t in rounds]
