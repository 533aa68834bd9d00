"""How long to wait before a link is dialled again: a moment where it was lost, up to a minute where it is refused.

A link that was lost is wanted back at once. A neighbour that refuses this learner, because its graph or its settings
are others, will do so until a person has changed something: every dial costs both of them work and lines in their logs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum

FIRST, LOST, REFUSED = 0.1, 2.0, 60.0  # seconds: the first wait, and the longest ones
SETTLED = 10.0  # seconds after which a link that ends was in order


class Outcome(Enum):
    """How a link ended, with the longest wait before the next one."""

    LOST = LOST
    REFUSED = REFUSED


class Backoff:
    """The waits of one link. They double while the same goes on, and begin anew as soon as it is something else."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self._chance, self._last, self._wait = chance, Outcome.LOST, FIRST

    def after(self, outcome: Outcome, lasted: float = 0.0) -> float:
        """The seconds to wait, now that a link has ended that was open for so long.

        One that the other side ends again and again as soon as it is open is a refusal as well, of a release that does
        not say so. Parties that dial the same neighbour do not all come back at the same moment: a long wait is
        shortened by up to a half.
        """
        if lasted >= SETTLED or outcome != self._last:
            self._wait = FIRST
        self._last = outcome
        wait, self._wait = self._wait, min(2 * self._wait, outcome.value)
        return wait if wait <= LOST else wait * (1 - self._chance() / 2)
