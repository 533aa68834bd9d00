"""In which rounds learners release their gradients: a schedule as a value.

    every(r, after=W)       W, W+r, W+2r, …
    thinning(q, after=W)    W, and then ever more rarely: round t is followed by round ⌈q (t+1)⌉ − 1, or t+1 at least
    …, until=E              and none from round E on: what was spent by then is what is spent for ever
    …, head=M, pause=q      and M more, one a round, that end q rounds before W: releases of what records are like, from
                            which a model learns how to look at them (see gossamer.models.standard)

Until round W, between releases, and after the last, a learner only mixes: its algorithm's own step with a gradient of
zero. A few such rounds at the end bring the learners together, which averages their noise out and costs nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np

from gossamer.errors import Argument, BadValue
from gossamer.types import Integers

LATEST = 10**7  # rounds before the first release, and up to the last where there is one
SLOWEST, FASTEST = 1.0001, 1e6  # from one thinned release to the next
FARTHEST = 2.0**62  # rounds are whole numbers of 64 bits


@dataclass(frozen=True)
class Releases:
    """Round `after`, and then one in `step` rounds, or `ratio` times as late where that is later."""

    step: int = 1
    after: int = 0
    ratio: float = 1.0
    until: float = math.inf
    head: int = 0
    pause: int = 0

    def __post_init__(self) -> None:
        whole = (("step", "r", 1), ("after", "after", 0), ("until", "until", self.after + 1))
        for name, said, least in (*whole, ("head", "head", 0), ("pause", "pause", 0)):
            value = getattr(self, name)
            if name == "until" and value == math.inf:
                continue
            if not _is_whole(value) or not least <= value <= LATEST:
                requirement = f"expected a whole number of rounds from {least} to {LATEST:g}"
                if name == "until":
                    requirement = f"expected a round after {self.after}, up to {LATEST:g}"
                raise BadValue("releases", value, requirement, python=f"releases with {said}={value!r}")
            object.__setattr__(self, name, int(value))
        if self.after < self.head + self.pause:
            requirement = f"expected room for {self.head} releases and {self.pause} rounds before round {self.after}"
            raise BadValue("releases", str(self), requirement, python=f"releases={self}")
        number = isinstance(self.ratio, Real) and not isinstance(self.ratio, bool | np.bool_)
        if not number or not (self.ratio == 1 or SLOWEST <= self.ratio <= FASTEST):
            python = f"thinning({self.ratio!r})"
            requirement = f"expected a number from {SLOWEST:g} to {FASTEST:g}, such as 1.1"
            raise BadValue("releases", self.ratio, requirement, python=python)
        object.__setattr__(self, "ratio", float(self.ratio))

    def before(self, rounds: int) -> Integers:
        """The rounds, of rounds 0 … rounds−1, in which gradients are released."""
        return np.concatenate([self.first[self.first < rounds], self.learning(rounds)])

    def learning(self, rounds: int) -> Integers:
        """Those of them that are not in the head."""
        end = int(min(rounds, self.until))
        if self.ratio == 1:
            return np.arange(self.after, max(end, self.after), self.step)
        return _thinned(self, end)

    @property
    def first(self) -> Integers:
        """The rounds of the head."""
        return np.arange(self.after - self.pause - self.head, self.after - self.pause)

    def count(self, rounds: float) -> int:
        """How many there are in so many rounds."""
        end = min(rounds, self.until, FARTHEST)
        head = int((self.first < rounds).sum())
        if self.ratio == 1:
            return head + math.ceil(max(0.0, end - self.after) / self.step)
        return head + len(_thinned(self, int(end)))

    def includes(self, t: int) -> bool:
        """Whether round t releases."""
        if self.after - self.pause - self.head <= t < self.after - self.pause:
            return True
        if self.ratio == 1 or t >= self.until:
            return self.after <= t < self.until and (t - self.after) % self.step == 0
        return bool(t in _thinned(self, 1 << (t + 1).bit_length()))  # looked up where it was worked out before

    def following(self, t: float) -> float:
        """The release after that of round t."""
        return max(t + self.step, math.ceil(self.ratio * (t + 1)) - 1)

    @property
    def argument(self) -> Argument:
        """As somebody gives it: r,W or r,W,E or thin:q,W to the command, and in Python as it is shown."""
        first = f"thin:{self.ratio:g}" if self.ratio > 1 else f"{self.step}"
        end = f",{self.until:.0f}" if math.isfinite(self.until) else ""
        return Argument("releases", f"{first},{self.after}{end}", f"releases={self}")

    def __str__(self) -> str:
        rest = f"after={self.after}" + (f", until={self.until:g}" if math.isfinite(self.until) else "")
        rest += f", head={self.head}, pause={self.pause}" if self.head else ""
        return f"thinning({self.ratio:g}, {rest})" if self.ratio > 1 else f"every({self.step}, {rest})"


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)


@lru_cache(maxsize=64)
def _thinned(releases: Releases, rounds: int) -> Integers:
    found, t = [], float(releases.after)
    while t < min(rounds, FARTHEST):
        found.append(int(t))
        t = releases.following(t)
    return np.array(found, dtype=np.int64)


def spans(rounds: Iterable[int], step: int = 1, most: int = 8) -> str:
    """Rounds in words, those that follow each other within `step` as one: "rounds 120-125, 130"."""
    found: list[list[int]] = []
    for t in sorted(set(rounds)):
        if found and t - found[-1][1] <= step:
            found[-1][1] = t
        else:
            found.append([t, t])
    said = [f"{first}-{last}" if first < last else f"{first}" for first, last in found]
    noun = "round" if found and found[0][0] == found[-1][1] else "rounds"
    return f"{noun} {', '.join(said[:most])}" + (", …" if len(said) > most else "")


def first_round(said: str) -> int:
    """The first release of a schedule as it is written, in a run record."""
    told = {name: int(number) for name, number in re.findall(r"(after|head|pause)=(\d+)", said)}
    return told["after"] - told.get("head", 0) - told.get("pause", 0)


EVERY_ROUND = Releases()


def every(r: int = 1, *, after: int = 0, until: float = math.inf) -> Releases:
    """A release in round `after` and in every r-th from there on, and none from round `until` on."""
    return Releases(r, after, until=until)


def thinning(ratio: float, *, after: int = 0, until: float = math.inf) -> Releases:
    """A release in round `after`, and then each about `ratio` times as late as the one before.

    There are about log(T/after)/log(ratio) of them in T rounds: with them Laplace noise keeps a budget for ever.
    """
    return Releases(1, after, ratio, until)
