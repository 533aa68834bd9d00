"""How many records are booked to come in each round: a record among fewer would weigh more than what is charged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gossamer.errors import NotProvable
from gossamer.privacy.accountant import Terms
from gossamer.types import Array, Integers


class Booked:
    """Learner i's ledger books N_i records a round, until it has all that there are."""

    def __init__(self, terms: Sequence[Terms]) -> None:
        self._each = np.array([one.records_in_round for one in terms], dtype=float)
        self._held = np.array([one.held_at_most for one in terms], dtype=float)
        rounds = self._held / self._each
        self._all_come, self._none_comes = float(rounds.min()), float(rounds.max())
        self._nothing = np.zeros(len(terms))

    def in_round(self, t: int) -> Array:
        """Every learner's number in round t."""
        if t + 1 <= self._all_come:
            return self._each
        if t >= self._none_comes:
            return self._nothing
        come: Array = np.minimum((t + 1) * self._each, self._held) - np.minimum(t * self._each, self._held)
        return come

    def check(self, t: int, counts: Integers, ids: Integers) -> None:
        """Refuse other numbers in round t than are booked; `ids` are what the learners are called."""
        booked = self.in_round(t)
        other = counts != booked
        if other.any():
            i = int(other.argmax())
            raise NotProvable(
                f"learner {ids[i]} has {counts[i]} new records in round {t}, and {booked[i]:g} are booked: privacy is "
                "proved for a stream that brings what it says."
            )
