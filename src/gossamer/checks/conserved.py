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
    """Each learner's gradient of one round, had once mixing has settled, followed for three times as long again."""
    start = int(min(net.settles, rounds // 4))
    found = influence_of(algorithm, net, [start], 4 * start + 16)
    uneven = _unevenness(found.weights[0], _declared_weights(algorithm, net))
    right = uneven <= EXACT
    said = [f"conserves the sum of gradients: {_what_is_seen(found)}"]
    if algorithm.conserves is None:
        return Finding("; ".join(said), uneven, math.inf, True)
    if not right and start < net.settles:
        said.append(f"not judged, as mixing settles in round {net.settles:.0f}: give 4 times as many `rounds`")
        return Finding("; ".join(said), uneven, math.inf, True)
    if not right:
        said.append(f"it declares {algorithm.conserves!r}")
    return Finding("; ".join(said), uneven, EXACT, right)


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


def _what_is_seen(found: Influence) -> str:
    weights, after = found.weights[0], found.until - found.rounds[0]
    if not np.isfinite(weights).all():
        return f"not at all, {after} rounds later the common model has moved by nothing or without bounds"
    exactly = _unevenness(weights, np.ones_like(weights)) <= EXACT
    seen = "exactly" if exactly else f"with weights {weights.min():.3g} to {weights.max():.3g}"
    left, in_one = found.left, found.left_in_one
    if not exactly:
        seen += f", which leave {left:.2g} of pair noise"
    if in_one > left + SEEN:
        seen += (
            f", in the learners' average: {after} rounds later their own models still have {in_one:.2g} of pair noise"
        )
    return seen
