"""What a comparison is run on, as plain values: a worker process, or tomorrow's resumed run, makes the same thing of
it."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gossamer import datasets
from gossamer.errors import GossamerError
from gossamer.models import Clip, LogisticRegression, Model, RidgeRegression, SoftmaxRegression
from gossamer.networks import Network, read_network
from gossamer.privacy import law_named
from gossamer.streams import Stream, from_arrays, from_csv

REGRESSION_ROUNDS = 2000


@dataclass(frozen=True)
class Problem:
    """Data, model and network.

    data    "mushrooms", "regression" (ten learners with different, made-up linear data), or "csv"
    split   "iid" or "by-class": each learner sees mostly one class (for the regression: its own part of feature space)
    rows    how Mushrooms' rows are scaled
    draw    "random", for any number of rounds, or "once"
    graph   a network's name or file
    l2      ridge
    clip    on each record's gradient, in the norm of the noise's law; the regression needs one
    csv     from_csv's arguments, and with them "model" and how many "outputs" it has
    """

    data: str = "mushrooms"
    split: str = "iid"
    rows: str = "raw"
    draw: str = "random"
    graph: str = "paper"
    l2: float = 1e-2
    clip: float | None = None
    csv: dict[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.data not in ("mushrooms", "regression", "csv"):
            raise GossamerError(f"data={self.data!r}: expected mushrooms, regression or csv.")
        if self.split not in ("iid", "by-class"):
            raise GossamerError(f"split={self.split!r}: expected iid or by-class.")

    def stream(self, seed: int) -> Stream:
        if self.data == "csv":
            return from_csv(**{name: value for name, value in self.csv.items() if name not in ("model", "outputs")})
        if self.data == "regression":
            return _regression(seed, self.split)
        return _mushrooms(seed, self.draw, self.split, self.rows)

    def network(self, learners: int | None = None) -> Network:
        return read_network(self.graph, learners)

    def model(self, law: str = "laplace") -> Model:
        clip = None if self.clip is None else Clip(law_named(law).norm, self.clip)
        kind = self.csv.get("model", "ridge" if self.data == "regression" else "logistic")
        if kind == "ridge":
            return RidgeRegression(self.l2, clip)
        if kind == "softmax":
            return SoftmaxRegression(self.csv["outputs"], self.l2, clip)
        return LogisticRegression(self.l2, clip)

    def content(self) -> str:
        """A digest of the files that are named: the data and the network may change under the same name."""
        digest = hashlib.sha256()
        for path in (self.csv.get("path"), self.graph):
            if path is not None and Path(path).is_file():
                digest.update(Path(path).read_bytes())
        return digest.hexdigest()

    def settings(self) -> dict[str, Any]:
        return asdict(self)


@lru_cache(maxsize=4)
def _mushrooms(seed: int, draw: Any, split: Any, rows: Any) -> Stream:
    stream: Stream = split_as_given(datasets.mushrooms(10, seed, draw, split, rows=rows))
    return stream


def split_as_given(stream: Any) -> Any:
    """A stream whose split is taken as given: a comparison's noise is simulated, and its ε a price, no claim."""
    stream.table = replace(stream.table, undeclared="")
    return stream


@lru_cache(maxsize=4)
def _regression(seed: int, split: Literal["iid", "by-class"]) -> Stream:
    """Ten learners, five features and a constant, ‖a‖₁ ≤ 1, targets within [0, 1]; the same truth for every seed."""
    truth = np.array([1.5, -1.2, 0.9, -0.6, 0.3])
    rng = np.random.default_rng([8, seed])
    X = rng.uniform(-1, 1, size=(10, REGRESSION_ROUNDS, 5))
    if split == "by-class":  # every learner mostly sees one end of one feature
        own = np.arange(10) % 5
        X[np.arange(10), :, own] = 0.5 * X[np.arange(10), :, own] + np.where(np.arange(10) < 5, 0.5, -0.5)[:, None]
    y = np.clip(0.5 + X @ truth / 6 + 0.05 * rng.normal(size=X.shape[:2]), 0, 1)
    constant = np.ones((*X.shape[:2], 1))
    return from_arrays(np.concatenate([X, constant], axis=2) / 6, y, ranges=(-1 / 6, 1 / 6))
