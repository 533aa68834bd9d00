"""How far the learners are: from θ*, from F(θ*), from each other, and from predicting right."""

from __future__ import annotations

from typing import Any

import numpy as np

from gossamer.models import Model, Objective
from gossamer.records import Population
from gossamer.simulate.record import LEARNER
from gossamer.streams import Stream
from gossamer.types import Array, GossamerError


def metrics_of(model: Model, stream: Stream) -> Metrics | NeuralMetrics:
    if hasattr(model, "device"):
        return NeuralMetrics(model, stream)
    return Metrics(model, stream.population)


class Metrics:
    """Evaluates a stack of learners against the whole population."""

    def __init__(self, model: Model, population: Population) -> None:
        self._objective = Objective(model, population)
        self.notes: list[str] = []
        try:
            self.optimum = self._objective.minimiser()
            self._least = self._objective.value(self.optimum)
        except GossamerError as error:
            self.optimum, self._least = np.full(self._objective.size, np.nan), np.nan
            self.notes.append(f"Errors against θ* are not known: {error}")
        self.size = self._objective.size

    def learners(self, theta: Array, t: int) -> np.recarray[Any, Any]:
        """The four numbers of every learner; refuses parameters that are no longer finite."""
        wild = ~np.isfinite(theta).all(axis=1)
        if wild.any():
            raise GossamerError(
                f"the run diverged: learner {int(wild.argmax())} has parameters that are not finite at round {t}; "
                "use a smaller step, smaller features, or a network in which learners keep more of their own."
            )
        values, quality = self._objective.evaluate(theta)
        found = np.recarray(len(theta), dtype=LEARNER)
        found.tracking_error = np.linalg.norm(theta - self.optimum, axis=1)
        found.optimality_gap = values - self._least
        found.consensus_error = np.linalg.norm(theta - theta.mean(axis=0), axis=1)
        found.accuracy = quality
        return found

    @staticmethod
    def mean(t: int, learners: np.recarray[Any, Any]) -> np.recarray[Any, Any]:
        return _mean(t, learners)


class NeuralMetrics:
    """Evaluates learners of a neural network: no optimum is known, but what they predict on data they never saw is.

    `accuracy` is on the stream's test records where it has any, `train_accuracy` on a fixed sample of the others.
    """

    SAMPLE = 2000

    def __init__(self, model: Any, stream: Stream) -> None:
        self._model, self.size, self.optimum = model, model.size, np.full(1, np.nan)
        self._fleet: Any = None
        table = stream.table
        test = getattr(stream, "test", None)
        sample = self.SAMPLE if test is None else min(self.SAMPLE, len(test))
        chosen = np.random.default_rng(0).permutation(len(table))[:sample]
        self._train = table.rows[chosen], table.labels[chosen]
        self._test = self._train if test is None else (test.rows, test.labels)
        self.notes = (
            [] if test is not None else ["Accuracy is on a sample of the training records: there are no others."]
        )

    def watch(self, fleet: Any) -> None:
        """The learners' modules, with their buffers."""
        self._fleet = fleet

    def learners(self, theta: Any, t: int) -> np.recarray[Any, Any]:
        wild = ~np.isfinite([float(row.abs().max()) for row in theta])
        if wild.any():
            raise GossamerError(
                f"the run diverged: learner {int(wild.argmax())} has parameters that are not finite at round {t}; "
                "use a smaller step, or clip gradients."
            )
        found = np.recarray(len(theta), dtype=NEURAL)
        found.tracking_error = found.optimality_gap = np.nan
        found.consensus_error = (theta - theta.mean(0)).norm(dim=1).cpu().numpy()
        found.parameter_norm = theta.norm(dim=1).cpu().numpy()
        for name, (rows, labels) in (("accuracy", self._test), ("train_accuracy", self._train)):
            right = self._fleet.predictions(theta, rows).cpu().numpy() == labels
            found[name] = right.mean(axis=1)
        return found

    @staticmethod
    def mean(t: int, learners: np.recarray[Any, Any]) -> np.recarray[Any, Any]:
        return _mean(t, learners)


NEURAL = np.dtype([*LEARNER.descr, ("train_accuracy", "f8"), ("parameter_norm", "f8")])


def _mean(t: int, learners: np.recarray[Any, Any]) -> np.recarray[Any, Any]:
    """One row of a history."""
    names = learners.dtype.names or ()
    row = np.recarray(1, dtype=np.dtype([("t", "i8"), *((name, "f8") for name in names)]))
    row.t = t
    for name in names:
        row[name] = learners[name].mean()
    row.setflags(write=False)
    return row
