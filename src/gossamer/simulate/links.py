"""One matrix's links in every round of a network that changes: which are up, and what learners keep of their own.

A round of a changing network has weights of its own, R(t), C(t), W(t) and D(t), and what a fixed network guarantees
once has to hold in each of them:

    pull (R, W, D)    rows add to 0: the weight of what does not come stays on the learner's own value, so that
                      (I+R(t)) 1 = 1, and learners that agree stay agreed, whatever is lost
    push (C, W)       columns add to 0: the weight of what is not sent stays with its sender, so that
                      1ᵀ(I+C(t)) = 1ᵀ. What is sent and does not come is another matter: gossamer.simulate.lost

A learner that has just joined has no value of its own worth keeping. It listens: its weights on what comes are scaled
to add up to 1, and it starts from that mean of its neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from gossamer.networks import NetworkSchedule
from gossamer.networks.changing import Mask, Now
from gossamer.types import Array, Integers, Matrix


class Weighed(NamedTuple):
    """A matrix in one round."""

    off: scipy.sparse.csr_array  # without its diagonal; what does not come has a weight of 0
    own: Array  # (m,): its diagonal


class Links:
    """The links of one matrix over all rounds, sorted by receiver; link e goes from senders[e] to receivers[e]."""

    def __init__(self, schedule: NetworkSchedule, over: Matrix) -> None:
        self._schedule, self._m = schedule, schedule.m
        edges = [schedule.network_of(phase).edge_arrays(over) for phase in range(schedule.phases)]
        entries = [receivers * self._m + senders for senders, receivers, _ in edges]
        numbers = np.unique(np.concatenate(entries))
        self.receivers, self.senders = np.divmod(numbers, self._m)
        self._starts = np.searchsorted(self.receivers, np.arange(self._m + 1))
        self._weights, self._own, self._in_turn = list[Array](), list[Array](), list[Mask]()
        for phase, (mine, (_, _, given)) in enumerate(zip(entries, edges, strict=True)):
            weights = np.zeros(len(numbers))
            weights[np.searchsorted(numbers, mine)] = given
            self._weights.append(weights)
            self._own.append(schedule.network_of(phase).laplacian(over).diagonal())
            self._in_turn.append(schedule.in_turn(over, phase, self.senders, self.receivers))

    def pull(self, now: Now) -> Weighed:
        """The weights with which everybody hears the others in a round; rows add to 0."""
        up = self._in_turn[now.phase] & now.acts[self.senders] & now.awake[self.receivers] & ~self.failed(now)
        weights, own = self._kept(now, up, self.receivers)
        if now.listens.any():
            total = np.bincount(self.receivers, weights=weights, minlength=self._m)
            hears = now.listens & (total > 0)
            weights = weights / np.where(hears, total, 1.0)[self.receivers]
            own = np.where(hears, -1.0, own)
        return Weighed(self.matrix(weights), own)

    def push(self, now: Now, kept: bool) -> tuple[Array, Array]:
        """The weight of every link that is used in a round, and what it leaves each sender; columns add to 0.

        `kept`: senders know which of their messages do not come, and keep those as well.
        """
        up = self._in_turn[now.phase] & now.acts[self.senders] & now.acts[self.receivers]
        return self._kept(now, up & ~self.failed(now) if kept else up, self.senders)

    def _kept(self, now: Now, up: Mask, keepers: Integers) -> tuple[Array, Array]:
        """The weights of the links that are up, and the diagonal, to which those go that are not."""
        weights, own = self._weights[now.phase], self._own[now.phase]
        if up.all():
            return weights, own
        missing = np.where(up, 0.0, weights)
        return weights - missing, own + np.bincount(keepers, weights=missing, minlength=self._m)

    def heirs(self, learner: int, present: Mask) -> tuple[Integers, Array]:
        """To whom a learner that leaves hands over, and which share to whom: as it pushes, over all phases."""
        mine = (self.senders == learner) & present[self.receivers]
        weights = np.sum([weights[mine] for weights in self._weights], axis=0)
        return self.receivers[mine], weights / max(weights.sum(), 1e-300)

    def failed(self, now: Now) -> Mask:
        """Which links lose what is sent over them."""
        return self._schedule.fail(now.t, self.senders, self.receivers)

    def matrix(self, weights: Array) -> scipy.sparse.csr_array:
        """These weights as a matrix: with it, everybody adds up what comes."""
        return scipy.sparse.csr_array((weights, self.senders, self._starts), shape=(self._m, self._m))

    def added(self, which: Integers, values: Array) -> Array:
        """(m, n): for every receiver, the sum of values[k] over the links which[k]."""
        receives = np.searchsorted(self.receivers[which], np.arange(self._m + 1))
        gathers = scipy.sparse.csr_array(
            (np.ones(len(which)), np.arange(len(which)), receives), shape=(self._m, len(which))
        )
        return np.asarray(gathers @ values)
