"""Private ridge regression two ways: noised sufficient statistics against clipped history, both noised at the source.

    python benchmarks/ridge.py [--seeds 2] [--csv NAME=FILE …] [--only NAME …]

statistics   once, in round W, a learner releases A = mean a aᵀ and b = mean a y with Gaussian noise. With ‖a‖ ≤ R,
             |y| ≤ B and weights √2 on what is beside A's diagonal and κ on b, two records move them by at most

                 max ‖(aaᵀ, κ a y) − (a'a'ᵀ, κ a'y')‖ = √2 (R² + κ²B²/2)/n        for κB ≤ √2 R

             (for norms R the square is 2R⁴ − 2p² + 2κ²B² (R² + |p|) at most, p = aᵀa', largest at |p| = κ²B²/2).
             From then on gradients A θ − b cost nothing. A public ridge of S times the noise's √(n/m) is added.
history      clipped gradients of all records so far, as the library does it, with the best of a grid of clippers

Here statistics have seeded noise, not exact noise: this is a study, and no part of the library.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gossamer as gs
from gossamer.automatic import Noise, found_step, rehearsed
from gossamer.datasets.regression import regression
from gossamer.privacy.gaussian import mu_for
from gossamer.privacy.laws import GAUSSIAN
from gossamer.records import Batch, FeatureBounds, Table
from gossamer.setting import setting_of
from gossamer.types import Array

LEARNERS, DELTA, EPSILONS = 10, 1e-5, (0.3, 1.0, 3.0)
CLIPS = (0.1, 0.3, 1.0)  # times R B
SHIFTS, SHORT = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0), (0.4, 0.55, 0.75, 1.0)


@dataclass(frozen=True)
class Data:
    """Records as (learners, T, n) and (learners, T), within ranges that are taken as declared."""

    X: Array
    y: Array
    R: float  # ‖a‖ at most
    B: float  # |y| at most

    def stream(self) -> gs.streams.OnePass:
        stream = gs.streams.from_arrays(self.X, self.y, ranges=(-self.most, self.most))
        bounds = FeatureBounds(self.R * math.sqrt(self.X.shape[2]), self.R, self.most)
        stream.table = replace(stream.table, bounds=bounds)
        return stream

    @property
    def most(self) -> float:
        return float(np.abs(self.X).max())

    def shortened(self, short: float) -> Data:
        """Records scaled back, label and all, to ‖a‖ ≤ short · R, so that a release takes less noise."""
        factor = np.minimum(1, short * self.R / np.linalg.norm(self.X, axis=2))
        return Data(self.X * factor[..., None], self.y * factor, short * self.R, self.B)

    def score(self, theta: Array) -> float:
        """R² on all records."""
        X, y = self.X.reshape(-1, self.X.shape[2]), self.y.ravel()
        return float(1 - ((X @ theta - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())

    @property
    def best(self) -> Array:
        """Least squares on all records."""
        return np.asarray(np.linalg.lstsq(self.X.reshape(-1, self.X.shape[2]), self.y.ravel(), rcond=None)[0])


def made_up(columns: int, seed: int, rounds: int = 2000) -> Data:
    """Features in [−1, 1] and a constant; labels in [−1, 1], a tenth of them noise."""
    rng, truth = np.random.default_rng([9, seed]), np.random.default_rng(7).normal(size=columns)
    X = rng.uniform(-1, 1, size=(LEARNERS, rounds, columns))
    y = X @ truth / (math.sqrt(3) * np.linalg.norm(truth)) + 0.1 * rng.normal(size=X.shape[:2])
    return Data(np.concatenate([X, np.ones((*X.shape[:2], 1))], axis=2), np.clip(y, -1, 1), math.sqrt(columns + 1), 1.0)


def correlated(seed: int, rounds: int = 1000) -> Data:
    """20 features that go together, off centre and skewed, few of which matter; half of the labels' spread is noise."""
    rng, once = np.random.default_rng([12, seed]), np.random.default_rng(13)
    mix, truth = once.normal(size=(5, 20)), once.normal(size=20) * (np.arange(20) < 6)
    hidden = rng.normal(size=(LEARNERS, rounds, 5)) @ mix / math.sqrt(5) + 0.5 * rng.normal(size=(LEARNERS, rounds, 20))
    X = np.clip(np.exp(0.5 * hidden) / 3 - 0.5, -1, 1)
    y = np.clip(0.3 * (X @ truth - (X @ truth).mean()) + 0.15 * rng.normal(size=X.shape[:2]), -1, 1)
    return Data(np.concatenate([X, np.ones((*X.shape[:2], 1))], axis=2), y, math.sqrt(21), 1.0)


def categories(seed: int, rounds: int = 1000) -> Data:
    """Six columns of five categories each, one-hot, and a constant; labels in [0, 1]."""
    rng, once = np.random.default_rng([14, seed]), np.random.default_rng(15)
    chosen = rng.choice(5, p=[0.4, 0.3, 0.15, 0.1, 0.05], size=(LEARNERS, rounds, 6))
    X = np.eye(5)[chosen].reshape(LEARNERS, rounds, 30)
    y = np.clip(0.4 + 0.08 * (X @ once.normal(size=30)) + 0.05 * rng.normal(size=X.shape[:2]), 0, 1)
    return Data(np.concatenate([X, np.ones((*X.shape[:2], 1))], axis=2), y, math.sqrt(7), 1.0)


def library(seed: int) -> Data:
    stream = regression(seed=seed)
    T = len(stream.table) // LEARNERS
    R = stream.table.bounds.l2 if stream.table.bounds else math.nan
    return Data(stream.table.rows.reshape(LEARNERS, T, -1), stream.table.labels.reshape(LEARNERS, T), R, 1.0)


def from_file(path: Path, low: float, seed: int) -> Data:
    """A file of numbers without a header, the label last; every column goes to [low, 1] by its range in the file."""
    cells = np.loadtxt(path, delimiter=",")
    cells = np.random.default_rng([10, seed]).permutation(cells)[: len(cells) // LEARNERS * LEARNERS]
    least, most = cells.min(axis=0), cells.max(axis=0)
    cells = low + (1 - low) * (cells - least) / (most - least)
    parts = cells.reshape(LEARNERS, -1, cells.shape[1])
    X = np.concatenate([parts[..., :-1], np.ones((*parts.shape[:2], 1))], axis=2)
    return Data(X, parts[..., -1], math.sqrt(X.shape[2]), 1.0)


class Statistics:
    """A memory that releases noised statistics once, after round `at`, and is silent before."""

    def __init__(self, data: Data, epsilon: float, at: int, seed: int, shift: float = 1.0) -> None:
        self._at, self._t = at, 0
        R, B, n, d = data.R, data.B, at + 1, data.X.shape[2]
        kappa = R / B
        self.deviation = math.sqrt(2) * (R**2 + kappa**2 * B**2 / 2) / n / mu_for(epsilon, DELTA)
        self.ridge = shift * self.deviation * math.sqrt(d / LEARNERS)
        rng, X, y = np.random.default_rng([11, seed]), data.X[:, :n], data.y[:, :n]
        upper = np.triu(rng.normal(size=(LEARNERS, d, d)), 1) / math.sqrt(2)
        noise = upper + upper.transpose(0, 2, 1) + rng.normal(size=(LEARNERS, d))[:, None] * np.eye(d)
        self.A = np.einsum("itj,itk->ijk", X, X) / n + self.deviation * noise + self.ridge * np.eye(d)
        self.b = np.einsum("itj,it->ij", X, y) / n + self.deviation / kappa * rng.normal(size=(LEARNERS, d))

    def solved(self) -> Array:
        """Where the rounds lead to."""
        return np.asarray(np.linalg.solve(self.A.mean(axis=0), self.b.mean(axis=0)))

    def observe(self, batch: Batch) -> None:
        self._t += 1

    def gradient(self, theta: Array) -> Array:
        if self._t <= self._at:
            return 0 * theta
        return np.asarray(np.einsum("ijk,ik->ij", self.A, theta) - self.b)

    def kept(self) -> dict[str, Array]:
        return {}


@dataclass(frozen=True)
class Remembers(gs.RidgeRegression):
    """Ridge regression on a memory that was made before."""

    made: Any = None

    def memory(self, table: Table, keep: Any, room: Any, alone: bool = False) -> Any:
        return self.made


def by_statistics(data: Data, epsilon: float, seed: int) -> float:
    """R² after the rounds, with the release at ¾ of them."""
    T, net = data.X.shape[1], gs.Network.paper()
    memory = Statistics(data, epsilon, 3 * T // 4, seed)
    silent = Noise(np.zeros((T, LEARNERS)), GAUSSIAN, True, True, gs.every(1, after=3 * T // 4))
    jumped = rehearsed(gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.6)), net, silent, T).jumped
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(1 / ((data.R**2 + memory.ridge) * jumped), 0.6))
    run = gs.simulate(
        algorithm, net, data.stream(), model=Remembers(made=memory), steps=T, evaluate_every=T
    )  # fmt: skip
    return float(run.history.accuracy[-1])


def at_best(sets: list[Data], epsilon: float) -> float:
    """R² where the rounds lead to with all records in the release, and the best ridge and bound of ‖a‖ of a grid."""
    T = sets[0].X.shape[1]

    def mean(short: float, shift: float) -> float:
        made = [Statistics(d.shortened(short), epsilon, T - 1, seed, shift) for seed, d in enumerate(sets)]
        return float(np.mean([d.score(one.solved()) for d, one in zip(sets, made, strict=True)]))

    return max(mean(short, shift) for short in SHORT for shift in SHIFTS)


def steps_for(data: Data, epsilon: float, clip: float) -> dict[str, float]:
    """λ0 by rule where no range of labels is declared, multiples of it, and where one is."""
    T, net, stream = data.X.shape[1], gs.Network.paper(), data.stream()
    model, privacy = gs.RidgeRegression(0.0, gs.clip_l2(clip)), budget(epsilon, T)
    algorithm = gs.ldp_gradient_tracking(step="auto")
    setting = partial(setting_of, algorithm, net, stream, model, "history", T)
    plain, ranged = (replace(stream.table, half_range=half) for half in (0.0, float(np.ptp(data.y)) / 2))
    first, known = (found_step(algorithm, net, model, table, privacy, T, setting) for table in (plain, ranged))
    return {"auto": first, "× 3": 3 * first, "× 10": 10 * first, "range": known}


def budget(epsilon: float, rounds: int) -> gs.Gaussian:
    return gs.Gaussian.for_budget(epsilon, DELTA, where="source", horizon=rounds)


def by_history(data: Data, epsilon: float, clip: float) -> dict[str, float]:
    """R² after the rounds with this clipper, for every rule of the steps."""
    T, found = data.X.shape[1], {}
    for name, first in steps_for(data, epsilon, clip).items():
        run = gs.simulate(
            gs.ldp_gradient_tracking(step=gs.decay(first, 0.6)), gs.Network.paper(), data.stream(),
            model=gs.RidgeRegression(0.0, gs.clip_l2(clip)), privacy=budget(epsilon, T), steps=T, evaluate_every=T,
        )  # fmt: skip
        found[name] = float(run.history.accuracy[-1])
    return found


def study(name: str, sets: list[Data]) -> None:
    """Rows of a table: R², the mean over seeds and learners."""
    n, T, best = sets[0].X.shape[2], sets[0].X.shape[1], np.mean([d.score(d.best) for d in sets])
    for epsilon in EPSILONS:
        stats = np.mean([by_statistics(d, epsilon, s) for s, d in enumerate(sets)])
        runs = {c: [by_history(d, epsilon, c * d.R * d.B) for d in sets] for c in CLIPS}
        means = {c: {rule: np.mean([one[rule] for one in each]) for rule in each[0]} for c, each in runs.items()}
        told = " | ".join(" ".join(f"{means[c][rule]:.2f}" for c in CLIPS) for rule in ("auto", "range", "× 3", "× 10"))
        print(
            f"| {name}, {n} × {T} | {best:.3f} | {epsilon:g} | {stats:.3f} | {at_best(sets, epsilon):.3f} | "
            f"{max(one['auto'] for one in means.values()):.3f} | {max(one['range'] for one in means.values()):.3f} | "
            f"{max(max(one.values()) for one in means.values()):.3f} | {told} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--csv", nargs="*", default=[])
    parser.add_argument("--only", nargs="*", default=None)
    given = parser.parse_args()
    makers: dict[str, Any] = {"regression": library}
    makers |= {f"made up, {d}": (lambda seed, d=d: made_up(d, seed)) for d in (10, 30, 100)}
    makers |= {"correlated": correlated, "categories": categories}
    for one in given.csv:
        name, path = one.split("=")
        for low in (-1, 0):
            makers[f"{name} in [{low}, 1]"] = lambda seed, path=path, low=low: from_file(Path(path), low, seed)
    for name, make in makers.items():
        if given.only is None or any(name.startswith(one) for one in given.only):
            study(name, [make(seed) for seed in range(given.seeds)])


if __name__ == "__main__":
    main()
