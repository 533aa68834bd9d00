"""A made-up linear regression whose learners' data are alike, or unlike: for comparisons where θ* is known well."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from gossamer.datasets.registry import dataset
from gossamer.errors import BadValue
from gossamer.streams import OnePass, from_arrays

LEARNERS, ROUNDS = 10, 2000
TRUTH = (1.5, -1.2, 0.9, -0.6, 0.3)


@dataset(label="made-up regression", options=("split",), classes=0, model="ridge")
def regression(learners: int = LEARNERS, seed: int = 0, split: Literal["iid", "by-class"] = "iid") -> OnePass:
    """Ten learners, five features and a constant, ‖a‖₁ ≤ 1, targets within [0, 1]; the same truth for every seed.

    With split="by-class" every learner mostly sees one end of one feature.
    """
    if learners != LEARNERS:
        raise BadValue("learners", learners, f"the made-up regression is for {LEARNERS}")
    rng = np.random.default_rng([8, seed])
    X = rng.uniform(-1, 1, size=(LEARNERS, ROUNDS, len(TRUTH)))
    if split == "by-class":
        own = np.arange(LEARNERS) % len(TRUTH)
        one, end = X[np.arange(LEARNERS), :, own], np.where(np.arange(LEARNERS) < len(TRUTH), 0.5, -0.5)[:, None]
        X[np.arange(LEARNERS), :, own] = 0.5 * one + end
    y = np.clip(0.5 + X @ np.array(TRUTH) / 6 + 0.05 * rng.normal(size=X.shape[:2]), 0, 1)
    constant = np.ones((*X.shape[:2], 1))
    stream = from_arrays(np.concatenate([X, constant], axis=2) / 6, y, ranges=(-1 / 6, 1 / 6))
    stream.table = replace(stream.table, half_range=0.5)
    return stream
