"""The best attack on messages with noise: a list of suspects, one of which is the record, and how likely each is.

What a learner sends is a function of its records, of what it received, which is on the wire, and of its noise. So
whoever knows all its records but one replays it for every suspect in that one's place, through the code that runs, and
has the exact likelihood of all that was seen. By Bayes' rule no attack that starts from the same knowledge does better:
the likeliest suspect is the best guess, the likeliest value of a column the best guess of that column, and the mean
over suspects, weighted, the guess of a number with the least squared error.

A block of learners is an array with a row for each, so k suspects are a block of k copies of one learner.

**What ε allows.** Of k suspects that are equally likely beforehand, the best guess is right with probability p. For an
(ε, δ)-private learner, with A_i the outcomes for which suspect i is named, P_i(A_i) ≤ e^ε P_j(A_i) + δ for every
j ≠ i; summed over all i and j, with Σ_i P_j(A_i) ≤ 1,

    p ≤ (e^ε + (k−1) δ) / (k − 1 + e^ε)
"""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple

import numpy as np
import scipy

from gossamer.attacks.wire import Heard, Scene, read_gradients, received
from gossamer.privacy import PrivateBoundary
from gossamer.records import Batch
from gossamer.rounds import Rounds
from gossamer.types import Array, Integers


def most_guessed(epsilon: float, delta: float, suspects: int) -> float:
    """How often one of so many suspects can be named rightly, at most, where a learner is (ε, δ)-private."""
    others = suspects - 1
    if epsilon > 700:  # e^ε is no number any more
        return 1.0
    return min(1.0, (math.exp(epsilon) + others * delta) / (others + math.exp(epsilon)))


class Posterior(NamedTuple):
    """How likely each suspect is, given all that was seen; suspects were equally likely before."""

    share: Array  # (k,), sums to 1

    @property
    def named(self) -> int:
        """The best guess."""
        return int(self.share.argmax())

    @property
    def certainty(self) -> float:
        """The chance that the best guess is right, given all that was seen. Its mean is how often it is right."""
        return float(self.share.max())


def suspect(scene: Scene, heard: Heard, learner: int, suspects: Integers, arrival: int = 0) -> Posterior:
    """Which of these records, by their numbers in the scene's table, came to a learner in round `arrival`."""
    likelihood = _log_likelihoods(scene, heard, learner, suspects, arrival)
    return Posterior(np.exp(likelihood - scipy.special.logsumexp(likelihood)))


def _log_likelihoods(scene: Scene, heard: Heard, learner: int, suspects: Integers, arrival: int) -> Array:
    k, table = len(suspects), scene.stream.table
    replayed = _Replayed(scene, heard, learner, k)
    rows = scene.network.rows([learner] * k, scene.algorithm.mixes)
    rounds = Rounds(scene.algorithm, rows, scene.memory(k), replayed, scene.ridge, finite=True)
    state = rounds.start(scene.algorithm.init(rows, scene.start[[learner] * k]))
    one = np.ones(k, dtype=np.int64)
    for t in range(scene.rounds):
        if t == arrival:
            batch = Batch(table.rows[suspects], table.labels[suspects], one)
        else:
            all_learners = scene.stream.arrivals(t)
            batch = Batch(all_learners.rows[[learner] * k], all_learners.labels[[learner] * k], one)
        gradient, out = rounds.send(state, batch, t)
        got = {channel: np.tile(sum_, (k, 1)) for channel, sum_ in received(scene, heard, t, learner).items()}
        state = rounds.receive(state, gradient, got, [c for c, each in out.items() if each.private], t)
    return replayed.likelihood


class _Replayed:
    """The run's own boundary for k copies of one learner: it draws nothing, and counts how likely what was seen is."""

    def __init__(self, scene: Scene, heard: Heard, learner: int, k: int) -> None:
        run: PrivateBoundary = heard.boundary
        own: Any = copy.copy(run)
        for name in ("_initial", "_exponent", "_ratio"):
            setattr(own, name, np.repeat(getattr(run, name)[[learner]], k, axis=0))
        own.ledgers, own.stops = [run.ledgers[learner]] * k, np.repeat(run.stops[learner], k)
        own._scaled = (-1, np.empty(0))
        self.likelihood = np.zeros(k)
        self._own, self._sent, self._learner = own, heard.sent, learner
        self._on_messages = run.mechanism.where == "messages"
        self._seen = None if self._on_messages else read_gradients(scene, heard, learner)
        self.take, self.hold, self.fresh, self.claim = own.take, own.hold, own.fresh, run.claim

    def arrived(self, t: int, records: Batch) -> None:
        pass

    def charge(self, t: int) -> None:
        pass

    def release(self, channel: str, t: int, value: Array) -> Array:
        if self._on_messages:
            self._compare(t, self._sent[t][channel][self._learner], value, self._own._split.get(channel, 1.0))
        return value

    def gradient(self, t: int, grad: Array) -> Array:
        if self._seen is None:
            return grad
        self._compare(t, self._seen[t], grad, 1.0)
        return np.tile(self._seen[t], (len(grad), 1))  # whatever the record was, this is what the learner went on with

    def _compare(self, t: int, seen: Array, meant: Array, times: float) -> None:
        """log p(seen | meant), up to what is the same for all: −|x|^p/p, x in noise scales, p the law's norm."""
        p, scale = self._own.mechanism.law.norm, times * self._own._scale(t)
        apart = (seen - self._own.clamped_to_grid(t, meant, times)) / scale
        self.likelihood -= (np.abs(apart) ** p).sum(axis=1) / p

    def kept(self, t: int) -> dict[str, Array]:
        return {}

    def go_on(self, kept: Any) -> None:
        pass
