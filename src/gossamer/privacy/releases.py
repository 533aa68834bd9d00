"""In which rounds learners release their gradients: a schedule as a value.

    every(r, after=W)       W, W+r, W+2r, …
    thinning(q, after=W)    W, and then ever more rarely: round t is followed by round ⌈q (t+1)⌉ − 1, or t+1 at least
    …, until=E              and none from round E on: what was spent by then is what is spent for ever

Until round W, between releases, and after the last, a learner only mixes: its algorithm's own step with a gradient of
zero. A few such rounds at the end bring the learners together, which averages their noise out and costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gossamer.errors import BadValue
from gossamer.types import Integers

LATEST_START = 10**7  # rounds before the first release
FARTHEST = 2.0**62  # rounds are whole numbers of 64 bits


@dataclass(frozen=True)
class Releases:
    """Round `after`, and then one in `step` rounds, or `ratio` times as late where that is later."""

    step: int = 1
    after: int = 0
    ratio: float = 1.0
    until: float = math.inf

    def __post_init__(self) -> None:
        for name, python, least in (("step", "r", 1), ("after", "after", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= LATEST_START:
                requirement = f"expected a whole number of rounds from {least} to {LATEST_START:g}"
                raise BadValue("releases", value, requirement, python=f"releases with {python}={value!r}")
            object.__setattr__(self, name, int(value))
        if not isinstance(self.ratio, int | float) or not 1 <= self.ratio < math.inf:
            python = f"thinning({self.ratio!r})"
            raise BadValue("releases", self.ratio, "expected a number from 1 on, such as 1.1", python=python)
        if not isinstance(self.until, int | float) or not self.after < self.until:
            python = f"releases with until={self.until!r}"
            raise BadValue("releases", self.until, f"expected a round after {self.after}", python=python)
        object.__setattr__(self, "ratio", float(self.ratio))

    def before(self, rounds: int) -> Integers:
        """The rounds, of rounds 0 … rounds−1, in which gradients are released."""
        end = int(min(rounds, self.until))
        if self.ratio == 1:
            return np.arange(self.after, max(end, self.after), self.step)
        return _thinned(self, end)

    def count(self, rounds: float) -> int:
        """How many there are in so many rounds."""
        end = min(rounds, self.until, FARTHEST)
        if self.ratio == 1:
            return math.ceil(max(0.0, end - self.after) / self.step)
        return len(_thinned(self, int(end)))

    def includes(self, t: int) -> bool:
        """Whether round t releases."""
        if self.ratio == 1 or t >= self.until:
            return self.after <= t < self.until and (t - self.after) % self.step == 0
        return bool(t in _thinned(self, 1 << (t + 1).bit_length()))  # looked up where it was worked out before

    def following(self, t: float) -> float:
        """The release after that of round t."""
        return max(t + self.step, math.ceil(self.ratio * (t + 1)) - 1)

    def __str__(self) -> str:
        rest = f"after={self.after}" + (f", until={self.until:g}" if math.isfinite(self.until) else "")
        return f"thinning({self.ratio:g}, {rest})" if self.ratio > 1 else f"every({self.step}, {rest})"


@lru_cache(maxsize=64)
def _thinned(releases: Releases, rounds: int) -> Integers:
    found, t = [], float(releases.after)
    while t < min(rounds, FARTHEST):
        found.append(int(t))
        t = releases.following(t)
    return np.array(found, dtype=np.int64)


EVERY_ROUND = Releases()


def every(r: int = 1, *, after: int = 0, until: float = math.inf) -> Releases:
    """A release in round `after` and in every r-th from there on, and none from round `until` on."""
    return Releases(r, after, until=until)


def thinning(ratio: float, *, after: int = 0, until: float = math.inf) -> Releases:
    """A release in round `after`, and then each about `ratio` times as late as the one before.

    There are about log(T/after)/log(ratio) of them in T rounds: with them Laplace noise keeps a budget for ever.
    """
    return Releases(1, after, ratio, until)
