"""How much each learner's gradient of one round counts in the model that the learners come to share.

Every method is linear: a gradient of 1 that learner i alone has in round t moves the common model, in the end, by some
D_i. Two learners with a common secret add v and −v to their gradients, and what the model keeps of it is (D_i − D_j) v.
Where all D_i are equal, the *sum* of gradients is all that counts, and noise that cancels in the sum leaves no trace.

With v_ij = −v_ji of variance τ² between all pairs of m learners, the common model keeps τ² Σ_{i<j} (D_i − D_j)² of it.
Each learner's noise has the variance (m−1) τ². Drawn by every learner for itself, noise of that size would leave
(m−1) τ² Σ D_i². The share that is left is therefore

    Σ_{i<j} (D_i − D_j)² / ((m−1) Σ D_i²)          0 where all count alike, 1 where one learner alone counts

It is more than 1 where learners pull in opposite directions. Nothing here looks at a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.networks import Network
from gossamer.rehearsal import consensus_weights, states_of
from gossamer.types import Array


class Influence(NamedTuple):
    """What a gradient of 1, had by one learner in one round, has done to the models when round `until` begins."""

    rounds: tuple[int, ...]  # in which the gradient was had
    until: int
    models: Array  # (rounds, m, m): [t, k, i] is how far learner k's model moved for learner i's gradient
    common: Array  # (rounds, m): the same of the common model, D_i

    @property
    def weights(self) -> Array:
        """(rounds, m): m D_i / Σ D_j, all 1 where the sum of gradients is what counts; not finite where Σ D_j = 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            weights: Array = self.common / self.common.mean(axis=1, keepdims=True)
        return weights

    @property
    def left(self) -> float:
        """The share of pair noise, had in all these rounds, that is left in the common model."""
        return share_left(self.common)

    @property
    def left_in_one(self) -> float:
        """The share that is left in a learner's own model: the mean over learners.

        Learners that have not come to agree yet have kept more of it than their common model has.
        """
        return float(np.mean([share_left(self.models[:, k]) for k in range(self.models.shape[1])]))


def influence_of(algorithm: Algorithm[Any], network: Network, rounds: Sequence[int], until: int) -> Influence:
    """Rehearses every learner's gradient of 1 in each of `rounds`, alone, and looks at the models in round `until`."""
    m, starts = network.m, {t: k * network.m for k, t in enumerate(dict.fromkeys(rounds))}
    width = m * len(starts)

    def gradient(t: int, point: Array) -> Array:
        grad = np.zeros((m, width))
        if t in starts:
            grad[:, starts[t] : starts[t] + m] = np.eye(m)
        return grad

    with np.errstate(over="ignore", invalid="ignore"):  # a method may diverge, and whoever asked will see it
        last = next(islice(states_of(algorithm, network, width, gradient), until, None))
        models = last.theta.reshape(m, len(starts), m).transpose(1, 0, 2)
        return Influence(tuple(starts), until, models, consensus_weights(algorithm, network) @ models)


def share_left(moved: Array) -> float:
    """Σ_{i<j} (D_i − D_j)² / ((m−1) Σ D_i²), both sums over all rounds; `moved` is (rounds, m)."""
    m = moved.shape[-1]
    apart = moved[:, :, None] - moved[:, None, :]
    total = float((m - 1) * (moved**2).sum())
    return float((apart**2).sum() / 2) / total if total else 0.0
