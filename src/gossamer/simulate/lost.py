"""What becomes of pushes that are lost: mass that was sent and did not come.

A tracker's values are mass: what leaves one learner must come to another, because 1ᵀs (or 1ᵀy) is the sum of all
gradients, and θ follows it. A sender that does not know which of its messages come sends C_ij x_j over every link and
is left with (1+C_jj) x_j, whatever happens. Then the mass on a link is owed to its receiver:

    owed_ij⁺ = owed_ij + C_ij x_j − what receiver i adds in this round

and 1ᵀx + Σ owed is what 1ᵀx is on a network that loses nothing, in every round, for whatever pattern of losses. What a
receiver adds, for a link that is down and for one that is up:

    sums      down: 0.  Up: all that is owed. Senders send running sums of their messages, and a receiver subtracts the
              last it had (Hadjicostis, Vaidya & Domínguez-García, "Robust Distributed Average Consensus via Exchange of
              Running Sums", IEEE TAC 61(6), 2016)
    ahead     down: what came in the last round in which it was up, once more. Up: all that is owed, which may be less
              than nothing. So a tracker that has come to rest is not stirred by losses: it is read ahead rightly
    kept      nothing is owed: senders learn in the same round what does not come, and keep it (C's columns say so)
    dropped   down: 0. Up: this round's only. What was owed is forgotten, and 1ᵀx is no longer what it must be: every
              loss biases what is learned for good. Not a method, but what breaks without one

Running sums of what was released are functions of what was released, so none of the four tells more of a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.networks import NetworkSchedule
from gossamer.networks.changing import Lost, Mask, Now
from gossamer.simulate.links import Links
from gossamer.types import Array, Integers


def lost_of(algorithm: Algorithm[Any], schedule: NetworkSchedule) -> Lost:
    """What becomes of lost pushes: as was asked, or what the method works with where senders know nothing."""
    about = algorithm.over_time
    if schedule.lost is not None:
        return schedule.lost
    if about is None or not about.pushed or (schedule.both_ways and "kept" in about.lost):
        return "kept"
    return next((one for one in about.lost if one != "kept"), "kept")


class Pushes:
    """One channel's mass on its way, over links of which some lose what is sent.

    It is kept for the links that have lost something and not had it since, or that are read ahead.
    """

    def __init__(self, links: Links, width: int, lost: Lost) -> None:
        self._links, self._lost = links, lost
        self._behind: Integers = np.empty(0, dtype=np.int64)  # links, ascending
        self._owed: Array = np.empty((0, width))
        self._read: Array = np.empty((0, width))  # what is added for each while it is down
        self._last_weights: Array = np.zeros(len(links.senders))
        self._last: Array | None = None  # what was sent a round ago

    def own(self, now: Now) -> Array:
        """(m,): C_ii of the round."""
        return self._links.push(now, self._lost == "kept")[1]

    def __call__(self, now: Now, sent: Array) -> Array:
        """What everybody adds in round t; `sent` is (m, n)."""
        weights, _ = self._links.push(now, self._lost == "kept")
        failed, used = self._links.failed(now), weights > 0
        came = used & ~failed
        if self._lost in ("kept", "dropped"):
            got: Array = self._links.matrix(np.where(came, weights, 0.0)) @ sent
            return got
        self._catch_up(used & failed, sent)
        owed = self._owed + weights[self._behind, None] * sent[self._links.senders[self._behind]]
        here = came[self._behind]
        down = (used & failed)[self._behind]
        adds = np.where(here[:, None], owed, np.where(down[:, None], self._read, 0.0))
        alone = came.copy()
        alone[self._behind] = False  # the others have this round's and nothing else
        got = self._links.matrix(np.where(alone, weights, 0.0)) @ sent + self._links.added(self._behind, adds)
        left = ~here
        self._behind, self._owed, self._read = self._behind[left], (owed - adds)[left], self._read[left]
        self._last_weights, self._last = np.where(came, weights, 0.0), sent
        return got

    def _catch_up(self, lost: Mask, sent: Array) -> None:
        """Make room for the links that lose something for the first time since they were up."""
        lost[self._behind] = False
        new = np.flatnonzero(lost)
        if not len(new):
            return
        read = np.zeros((len(new), sent.shape[1]))
        if self._lost == "ahead" and self._last is not None:
            read = self._last_weights[new, None] * self._last[self._links.senders[new]]
        order = np.argsort(np.concatenate([self._behind, new]), kind="stable")
        self._behind = np.concatenate([self._behind, new])[order]
        self._owed = np.vstack([self._owed, np.zeros_like(read)])[order]
        self._read = np.vstack([self._read, read])[order]

    def settle(self, learner: int, values: Array) -> Array:
        """With what is owed on a learner's links paid: to it by its senders' values, which take it back, and by it."""
        senders, receivers = self._links.senders[self._behind], self._links.receivers[self._behind]
        mine = (senders == learner) | (receivers == learner)
        if not mine.any():
            return values
        paid = values.copy()
        whose = np.where(receivers == learner, senders, receivers)[mine]
        np.add.at(paid, whose, self._owed[mine])
        self._behind, self._owed, self._read = self._behind[~mine], self._owed[~mine], self._read[~mine]
        return paid

    @property
    def owed(self) -> Array:
        """(n,): all that is on its way."""
        total: Array = self._owed.sum(axis=0)
        return total

    def kept(self) -> dict[str, Array]:
        """What a run that goes on has to know."""
        last = {} if self._last is None else {"weights": self._last_weights, "last": self._last}
        return {"behind": self._behind.astype(float), "owed": self._owed, "read": self._read, **last}

    def go_on(self, kept: Mapping[str, Array]) -> None:
        self._behind = kept["behind"].astype(np.int64)
        self._owed, self._read = kept["owed"].copy(), kept["read"].copy()
        if "last" in kept:
            self._last_weights, self._last = kept["weights"].copy(), kept["last"].copy()
