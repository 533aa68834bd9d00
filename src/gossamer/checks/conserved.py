"""What an algorithm `conserves`, against a rehearsal: whether noise that cancels between learners leaves the model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.checks import Finding
from gossamer.influence import Influence, influence_of
from gossamer.networks import Network
from gossamer.types import Array

EXACT = 1e-9  # unevenness that float64 alone may leave
SEEN = 1e-6  # the share of pair noise from which learners' own models are said to have kept more than the common one


def conserved_finding(algorithm: Algorithm[Any], net: Network, rounds: int) -> Finding:
    """Each learner's gradient of one round, had once mixing has settled, followed for three times as long again.

    Where mixing settles later than a quarter of `rounds`, only what is exact even so can be judged.
    """
    start = int(min(net.settles, rounds // 4))
    found = influence_of(algorithm, net, [start], 4 * start + 16)
    uneven = _unevenness(found.weights[0], _declared_weights(algorithm, net))
    check = f"conserves the sum of gradients: {_seen(found)}"
    if algorithm.conserves is None:
        return Finding(check, uneven, math.inf, True)
    if uneven <= EXACT:
        return Finding(check, uneven, EXACT, True)
    if start < net.settles:
        late = f"mixing settles in round {net.settles:.0f}: run the suite with four times as many rounds"
        return Finding(f"{check}; not judged, as {late}", uneven, math.inf, True)
    return Finding(f"{check}; it declares {algorithm.conserves!r}", uneven, EXACT, False)


def _declared_weights(algorithm: Algorithm[Any], net: Network) -> Array:
    """What each learner's gradient is to count, 1 in the mean."""
    if algorithm.conserves != "weighted" or algorithm.weights is None:
        return np.ones(net.m)
    weights: Array = algorithm.weights(net.perron)
    return np.asarray(weights / weights.mean())


def _unevenness(weights: Array, declared: Array) -> float:
    """The largest deviation from what is declared, relatively; ∞ where the gradients move nothing in the sum."""
    uneven = float(np.abs(weights / declared - 1).max())
    return uneven if math.isfinite(uneven) else math.inf


def _seen(found: Influence) -> str:
    """What the rehearsal saw of a round's gradients in the common model, and whether learners' own models are there."""
    weights, after = found.weights[0], found.until - found.rounds[0]
    if not np.isfinite(weights).all():
        return f"not at all, {after} rounds later the common model has moved by nothing or without bounds"
    if _unevenness(weights, np.ones_like(weights)) <= EXACT:
        seen = "exactly"
    else:
        seen = f"with weights {weights.min():.3g} to {weights.max():.3g}, {found.left:.2g} of pair noise is left"
    if found.left_in_one <= found.left + SEEN:
        return seen
    own = f"{after} rounds later {found.left_in_one:.2g} of pair noise is left in their own models"
    return f"{seen}, in the learners' average; {own}"
