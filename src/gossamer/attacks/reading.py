"""Records read off the gradients of a logistic loss, without a list of guesses.

One record (a, b) has the gradient w a with w = s(aᵀθ) − b. Whoever knows a sum that every record has, an intercept's
column that is 1 or a category whose columns sum to 1, reads w off it, and then a = g/w; b is 1 where w < 0, since
0 < s < 1. Nothing of it is approximate.

A history's gradient is the mean over all records so far, at the current point. It hides nothing: if the records of
rounds 0 … t−1 are known, so are their gradients at θ_t, which is on the wire, and

    (t+1) g_t − Σ_{k<t} ∇l(θ_t, ξ_k) = ∇l(θ_t, ξ_t)

is the new record's own. So records are read one after the other, from the first on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from gossamer.attacks.layout import Layout
from gossamer.attacks.wire import Heard, Scene, read_gradients
from gossamer.types import Array

FIRST_WEIGHT = 0.5  # |w| at θ = 0, where all learners start: s(0) = ½, whatever the record


class Found(NamedTuple):
    """A record as it was read."""

    x: Array
    label: float


def read_records(scene: Scene, heard: Heard, learner: int, layout: Layout) -> list[Found]:
    """All records of a learner, in the order in which they came; exact where nothing on the wire is noised."""
    found, known = list[Found](), list[Found]()
    for t, mean in enumerate(read_gradients(scene, heard, learner)):
        own = mean
        if scene.gradient == "history":
            own = (t + 1) * mean - sum_of_gradients(heard.sent[t]["theta"][learner], known)
        found.append(read_record(own, layout))
        known.append(Found(layout.whole(found[-1].x), found[-1].label))  # else rounding would grow from round to round
    return found


def read_record(gradient: Array, layout: Layout) -> Found:
    """a and b from w a."""
    w = layout.weight(gradient)
    return Found(gradient / w, float(w < 0))


def read_first(gradient: Array, layout: Layout) -> Found:
    """The same from a gradient at θ = 0 that is noised: there |w| = ½, so that of either label the nearest record is.

    With Gaussian noise the nearer of the two is the likeliest record there can be.
    """
    guesses = [Found(layout.nearest(gradient / w), float(w < 0)) for w in (FIRST_WEIGHT, -FIRST_WEIGHT)]

    def apart(one: Found) -> float:
        return float(np.linalg.norm(gradient - (FIRST_WEIGHT - one.label) * one.x))

    return min(guesses, key=apart)


def sum_of_gradients(theta: Array, records: list[Found]) -> Array:
    """Σ ∇l(θ, ξ) over records that are known, without the ridge."""
    if not records:
        return np.zeros_like(theta)
    X, b = np.array([one.x for one in records]), np.array([one.label for one in records])
    return np.asarray((scipy.special.expit(X @ theta) - b) @ X)
