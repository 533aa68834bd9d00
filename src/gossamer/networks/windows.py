"""How long it takes until rounds that each have some links have together connected everybody.

A window of B rounds connects where the links that some of its rounds have, taken together, satisfy what Assumption 1
asks of one network: over R's everybody reaches everybody, and what anybody pushes over C can reach one common learner.
The least B for which every window connects is what proofs for networks that change ask to be finite.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from gossamer.networks.changing import Mask, NetworkSchedule, Now
from gossamer.types import Matrix

NEVER = -1
MATRICES: tuple[Matrix, ...] = ("R", "C")


class Windows(NamedTuple):
    """What was seen in some rounds."""

    rounds: int
    least: int | None  # the least B; None where the rounds do not suffice
    up: float  # the mean share of R's links that are up in a round


class _Seen:
    """When each link of a matrix was up last."""

    def __init__(self, schedule: NetworkSchedule, over: Matrix) -> None:
        self._schedule, self._pulls = schedule, over == "R"
        edges = [schedule.network_of(phase).edge_arrays(over) for phase in range(schedule.phases)]
        numbers = [senders * schedule.m + receivers for senders, receivers, _ in edges]
        known = np.unique(np.concatenate(numbers))
        self._senders, self._receivers = np.divmod(known, schedule.m)
        self._last = np.full(len(known), NEVER)
        self._has = [
            np.isin(known, mine) & schedule.in_turn(over, phase, self._senders, self._receivers)
            for phase, mine in enumerate(numbers)
        ]

    def happen(self, now: Now) -> float:
        """Take a round in; the share of the links that were up."""
        hear = now.awake if self._pulls else now.acts
        up = self._has[now.phase] & now.acts[self._senders] & hear[self._receivers]
        up = up & ~self._schedule.fail(now.t, self._senders, self._receivers)
        self._last[up] = now.t
        return float(up.mean())

    def connect(self, start: int, present: Mask) -> bool:
        """Whether the links that were up from round `start` on connect those who are there."""
        from scipy.sparse.csgraph import connected_components

        up = (self._last >= start) & present[self._senders] & present[self._receivers]
        place, count = np.cumsum(present) - 1, int(present.sum())
        senders, receivers = place[self._senders[up]], place[self._receivers[up]]
        links = scipy.sparse.csr_array((np.ones(len(senders)), (senders, receivers)), shape=(count, count))
        parts, part = connected_components(links, directed=True, connection="strong")
        if self._pulls or parts == 1:
            return bool(parts == 1)
        leaves = part[senders] != part[receivers]
        return len(np.unique(part[senders][leaves])) == parts - 1  # one component pushes to no other


def windows_of(schedule: NetworkSchedule, rounds: int) -> Windows:
    """Rounds 0 … rounds−1, as they are drawn; a window lies between two changes of who is there."""
    seen = {over: _Seen(schedule, over) for over in MATRICES}
    least, ups, first, present = 0, 0.0, 0, np.empty(0, dtype=bool)
    since: int | None = None  # the latest round from which on everything is connected by now
    for t in range(rounds):
        now = schedule.at(t)
        if not np.array_equal(now.present, present):
            if t and since is None:
                return Windows(t, None, ups / t)
            first, since, present = t, None, now.present
        ups += {over: each.happen(now) for over, each in seen.items()}["R"]

        def connects(start: int, there: Mask = present) -> bool:
            return all(each.connect(start, there) for each in seen.values())

        if since is None and connects(first):
            since, least = first, max(least, t - first + 1)
        while since is not None and since < t and connects(since + 1):
            since += 1
        least = least if since is None else max(least, t - since + 1)
    return Windows(rounds, None if since is None else least, ups / rounds)
