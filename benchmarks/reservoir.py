"""Would a reservoir do as a bounded memory? What it costs in noise, and how accurate it is on Mushrooms at ε = 3.

    python benchmarks/reservoir.py [--seeds 5] [--out docs/results/history-cost]          about a minute

A reservoir holds K records, a uniform sample of all so far: record t enters with probability K/(t+1), in the place of
one that is drawn. Which places are drawn depends on no record, so that two worlds that differ in one record hold
reservoirs that differ in it alone, for as long as it stays. A release moves by 2c/K then, and a record that is held at
round W is still held at round T with probability W/T or so: no time bounds how long it stays.

    worst draws     the record of round 0 stays to the end: μ² = Σ_{t ≥ W} (2c/K)²/σ_t²
    mean of draws   the draws are the same in both worlds and δ(ε) is jointly convex, so that the mean of δ(ε; stays
                    until round j) over the draws bounds δ(ε): less noise, proved because no record decides a draw

Noise here is seeded, of the scale that each accounting asks for: a study of accuracy, and no part of the library.
Kinds of memory share the data, the clipper, the ridge and the rule for steps; releases are each kind's own best by
rule.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import gossamer as gs
from gossamer.models.memory import LinearMemory
from gossamer.privacy import simulated
from gossamer.privacy.gaussian import mu_for
from gossamer.privacy.releases import Releases, every
from gossamer.records import Batch
from gossamer.setting import setting_of
from gossamer.spec import Spec
from gossamer.spec.build import build
from gossamer.types import Array, Integers

EPSILON, DELTA, ROUNDS = 3.0, 1e-5, 812
SIZES = (50, 100, 200)


@dataclass(frozen=True, repr=False)
class ReservoirRegression(gs.LogisticRegression):
    """Logistic regression over a reservoir of so many records of every learner."""

    size: int = 100
    seed: int = 0

    def _records(self, table: Any, keep: Any, room: Integers, alone: bool = False) -> LinearMemory:
        return Reservoir(self, table, keep, np.minimum(room, self.size))


class Reservoir(LinearMemory):
    """A uniform sample of all records so far, one of which comes to each learner in a round."""

    def __init__(self, model: ReservoirRegression, table: Any, keep: Any, room: Integers) -> None:
        super().__init__(model, table, keep, room)
        self._size, self._seen, self._rng = model.size, 0, np.random.default_rng(model.seed)

    def observe(self, batch: Batch) -> None:
        self._seen += 1
        if self._seen <= self._size:
            super().observe(batch)
            return
        slots = self._rng.integers(0, self._seen, size=len(batch.counts))
        for i in np.flatnonzero(slots < self._size):
            self.rows[:, self.start[i] + slots[i]] = batch.rows[i]
            self.labels[self.start[i] + slots[i]] = batch.labels[i]
            self.limits[self.start[i] + slots[i]] = self._limit(batch, i)

    def _limit(self, batch: Batch, i: Any) -> float:
        from gossamer.models.memory import limits_of

        assert self._clip_each is not None
        one = replace(self._table, rows=batch.rows[i : i + 1], labels=batch.labels[i : i + 1])
        return float(limits_of(one, self._clip_each, self._model.outputs)[0])


def delta_of(mu: Array, epsilon: float) -> Array:
    """δ(ε) of a Gaussian mechanism with this μ; 0 for μ = 0."""
    safe = np.maximum(mu, 1e-12)
    left = scipy.special.ndtr(safe / 2 - epsilon / safe)
    return np.where(mu > 0, left - math.exp(epsilon) * scipy.special.ndtr(-safe / 2 - epsilon / safe), 0.0)


def noise_of_a_reservoir(size: int, c: float, first: int, rounds: int, averaged: bool) -> float:
    """σ with which the record of round 0 costs ε; it is the dearest, because it can be in every release."""
    releases = np.arange(first, rounds)
    if not averaged:
        return math.sqrt(len(releases)) * 2 * c / size / mu_for(EPSILON, DELTA)
    stays = np.minimum(1.0, size / (releases + 1.0))  # that it is held in this release
    leaves = -np.diff(np.append(stays, 0.0))  # that this is the last it is held in
    seen = np.arange(1, len(releases) + 1)

    def too_much(sigma: float) -> float:
        return float((leaves * delta_of(np.sqrt(seen) * 2 * c / size / sigma, EPSILON)).sum() - DELTA)

    worst = noise_of_a_reservoir(size, c, first, rounds, averaged=False)
    return float(scipy.optimize.brentq(too_much, worst / 100, worst * 1.001))


def run(spec: Spec, seed: int, model: Any = None, noise: float | None = None, first: int = 0) -> tuple[float, float]:
    """Accuracy and σ0 of a kind of memory with noise at the source, by rule but for what is given."""
    parts = build(spec.but(seed=seed))
    assert parts.mechanism is not None
    model = model(parts.model) if model is not None else parts.model
    if noise is None:
        gradient: Any = parts.spec.algorithm.gradient
        setting = setting_of(parts.algorithm, parts.network, parts.stream, model, gradient, ROUNDS)
        terms = parts.mechanism.terms(setting)[0]
        scale, releases = gs.decay(terms.initial, terms.exponent), terms.releases
    else:
        scale, releases, gradient = gs.decay(noise, 0.0), every(1, after=first, until=ROUNDS - 13), "history"
    record = gs.simulate(
        parts.algorithm, parts.network, parts.stream, model=model, steps=ROUNDS, gradient=gradient, seed=seed,
        privacy=simulated(scale, seed, "gaussian", "source", releases), evaluate_every=ROUNDS,
    )  # fmt: skip
    return float(record.history.accuracy[-1]), float(scale(first_of(releases)))


def first_of(releases: Releases) -> int:
    return int(releases.before(ROUNDS)[0])


def measured(seeds: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    spec = Spec.of(dataset="mushrooms", draw="once", steps=ROUNDS, epsilon=str(EPSILON))
    c = build(spec).model.clip.c  # type: ignore[union-attr]
    kinds: list[tuple[str, Spec, Any, float | None, int]] = [
        ("all records", spec, None, None, 0),
        ("the newest", spec.but(gradient="latest"), None, None, 0),
    ]
    for size in SIZES:
        kinds.append((f"a window of {size}", spec.but(remember=size), None, None, 0))
        first = max(size, ROUNDS // 4)
        for averaged in (False, True):
            scale = noise_of_a_reservoir(size, c, first, ROUNDS - 13, averaged)
            name = f"a reservoir of {size}, {'mean of draws' if averaged else 'worst draws'}"
            kinds.append((name, spec, lambda base, size=size: reservoir_of(base, size), scale, first))
    rows = []
    for name, its, model, noise, first in kinds:
        found = [run(its, seed, model, noise, first) for seed in range(seeds)]
        accuracies = [accuracy for accuracy, _ in found]
        rows.append({"memory": name, "noise": found[0][1], "accuracy": accuracies})
        spread = f"{min(accuracies):.3f} – {max(accuracies):.3f}"
        say(f"| {name} | {found[0][1]:.3g} | {np.mean(accuracies):.3f} | {spread} |")
    return rows


def reservoir_of(base: Any, size: int) -> ReservoirRegression:
    return ReservoirRegression(base.l2, base.clip, base.intercept, size=size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("docs/results/history-cost"))
    given = parser.parse_args()
    print("| memory | noise in the first release | accuracy | from – to |\n|---|---|---|---|")
    rows = measured(given.seeds, lambda said: print(said, flush=True))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "reservoir.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
