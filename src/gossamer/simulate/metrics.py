"""How far the learners are: from θ*, from F(θ*), from each other, and from predicting right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gossamer.errors import Diverged, GossamerError
from gossamer.models import Model, Objective
from gossamer.records import Population, Table, dense_rows
from gossamer.run_record import LEARNER, mean_row
from gossamer.streams import Stream
from gossamer.types import Array


def metrics_of(model: Model, stream: Stream) -> Metrics | Tested:
    if hasattr(model, "device") or getattr(stream, "test", None) is not None:
        return Tested(model, stream)
    return Metrics(model, stream.population)


ASTRAY = 1e12  # no network is that far from its start and still learns; clipped gradients may keep it finite


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
            raise Diverged(
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
        return mean_row(t, learners)


class Tested:
    """Evaluates learners by what they predict on records they never saw; no optimum is looked for.

    For neural networks, which have none that could be found, and wherever a stream has test records. `accuracy` is on
    those, `train_accuracy` on a fixed sample of the others.
    """

    SAMPLE = 2000

    def __init__(self, model: Any, stream: Stream) -> None:
        table, self._model = stream.table, model
        self.size = model.size if hasattr(model, "size") else table.columns * model.outputs
        self.optimum = np.full(1, np.nan)
        self._fleet: Any = None
        test = getattr(stream, "test", None)
        sample = self.SAMPLE if test is None else min(self.SAMPLE, len(test))
        chosen = np.random.default_rng(0).permutation(len(table))[:sample]
        self._train = replace(table, rows=table.rows[chosen], labels=table.labels[chosen])
        self._test = self._train if test is None else test
        self.notes = (
            [] if test is not None else ["Accuracy is on a sample of the training records: there are no others."]
        )

    def watch(self, fleet: Any) -> None:
        """The learners' modules, with their buffers."""
        self._fleet = fleet

    def learners(self, theta: Any, t: int) -> np.recarray[Any, Any]:
        wild = ~(np.array([float(abs(row).max()) for row in theta]) < ASTRAY)
        if wild.any():
            raise Diverged(
                f"the run diverged: learner {int(wild.argmax())} has parameters that are not finite, or beyond "
                f"{ASTRAY:g}, at round {t}; use a smaller step, or clip gradients."
            )
        found = np.recarray(len(theta), dtype=TESTED)
        found.tracking_error = found.optimality_gap = np.nan
        found.consensus_error, found.parameter_norm = _lengths(theta - theta.mean(0)), _lengths(theta)
        found.accuracy, found.train_accuracy = self._right(theta, self._test), self._right(theta, self._train)
        return found

    def _right(self, theta: Any, table: Table) -> Array:
        """The share of records that each learner predicts right."""
        if hasattr(self._model, "device"):
            found = self._fleet.predictions(theta, dense_rows(table)).cpu().numpy()
            right: Array = (found == table.labels).mean(axis=1)
            return right
        everyone = Population(table, np.full(len(table), 1 / len(table)))
        return Objective(self._model, everyone).evaluate(theta)[1]

    @staticmethod
    def mean(t: int, learners: np.recarray[Any, Any]) -> np.recarray[Any, Any]:
        return mean_row(t, learners, each=("accuracy", "train_accuracy"))


def _lengths(rows: Any) -> Array:
    if hasattr(rows, "cpu"):
        found: Array = rows.double().norm(dim=1).cpu().numpy()
        return found
    return np.asarray(np.linalg.norm(rows, axis=1))


TESTED = np.dtype([*LEARNER.descr, ("train_accuracy", "f8"), ("parameter_norm", "f8")])
