"""The runs whose time with exact private noise and a ledger is compared with their time without.

Ten learners, n = 100, 50 records each, 1000 rounds of Algorithm 1. Records are bounded, which noise at the source needs
to know of. Both sides of a comparison have the same records, gradients and rounds; one of them has a budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from simulator import fixed_records
from tracking import FEATURES, L2, RECORDS, ROUNDS

import gossamer as gs
from gossamer.models import Gradient
from gossamer.privacy import Mechanism
from gossamer.streams import Draws, Stream

LEARNERS, BOUND, EPSILON = 10, 0.5, 8.0  # features beyond ±0.5, five deviations, are cut off


class Comparison(NamedTuple):
    """Two functions that run once and give the seconds it took, and what their ratio is asked to be."""

    title: str
    without: Callable[[], float]
    private: Callable[[], float]
    asked: str


def comparisons() -> list[Comparison]:
    X, y = fixed_records(LEARNERS, FEATURES, RECORDS)
    fixed = gs.streams.from_arrays(np.clip(X, -BOUND, BOUND), y, per_round=RECORDS, ranges=(-BOUND, BOUND))
    places = np.arange(LEARNERS * RECORDS).reshape(LEARNERS, RECORDS)
    drawn = Draws(fixed.table, list(places), seed=0)
    at_source, on_messages = partial(seconds_of, fixed, "history"), partial(seconds_of, drawn, "latest")
    source = partial(gs.Laplace.for_budget, EPSILON, where="source")
    in_every_round = partial(source, releases=gs.every(1))
    messages = partial(gs.Laplace.for_budget, EPSILON)
    return [
        Comparison("exact noise at the source / without", at_source, partial(at_source, source), "≤ 2.5 ×"),
        Comparison("  the same, a release in every round", at_source, partial(at_source, in_every_round), ""),
        Comparison("  on messages, latest gradients / without", on_messages, partial(on_messages, messages), ""),
    ]


def seconds_of(stream: Stream, gradient: Gradient, noise: Callable[[], Mechanism] | None = None) -> float:
    """One run; finding the noise for the budget is part of it."""
    algorithm, model = gs.ldp_gradient_tracking(step=gs.decay(0.5, 0.7)), gs.LogisticRegression(l2=L2)
    start = time.perf_counter()
    run = gs.simulate(
        algorithm, gs.Network.paper(), stream, model=model, privacy=None if noise is None else noise(),
        gradient=gradient, steps=ROUNDS, evaluate_every=ROUNDS,
    )  # fmt: skip
    taken = time.perf_counter() - start
    assert (run.epsilon is None) == (noise is None)
    return taken
