"""How far the learners are: from θ*, from F(θ*), from each other, and from predicting right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gossamer.arrays import kind_of
from gossamer.errors import Diverged, GossamerError
from gossamer.models import LinearModel, Memory, Model, Objective
from gossamer.records import Population
from gossamer.run_record import LEARNER
from gossamer.streams import Stream
from gossamer.types import Array


def metrics_of(model: Model, stream: Stream, memory: Memory) -> Metrics | Tested:
    """Errors against θ* for a linear model without test records; otherwise the accuracy of predictions."""
    if isinstance(model, LinearModel) and stream.test is None:
        return Metrics(model, stream.population)
    return Tested(stream, memory)


ASTRAY = 1e12  # no network is that far from its start and still learns; clipped gradients may keep it finite


class Metrics:
    """Evaluates a stack of learners against the whole population."""

    each: tuple[str, ...] = ()  # what a history keeps learner by learner, beside the means

    def __init__(self, model: LinearModel, population: Population) -> None:
        self._objective = Objective(model, population)
        self.notes: list[str] = []
        try:
            self.optimum = self._objective.minimiser()
            self._least = self._objective.value(self.optimum)
        except GossamerError as error:
            self.optimum, self._least = np.full(self._objective.size, np.nan), np.nan
            self.notes.append(f"Errors against θ* are not known: {error}")

    def learners(self, theta: Array, t: int) -> np.recarray[Any, Any]:
        """The four numbers of every learner; refuses parameters that are no longer finite."""
        wild = ~np.isfinite(theta).all(axis=1)
        if wild.any():
            raise Diverged(
                f"the run diverged: learner {int(wild.argmax())} has parameters that are not finite at round {t}; "
                "use a smaller step, smaller features, or a network in which learners keep more of their own."
            )
        values, quality = self._objective.evaluate(theta)
        errors = np.recarray(len(theta), dtype=LEARNER)
        errors.tracking_error = np.linalg.norm(theta - self.optimum, axis=1)
        errors.optimality_gap = values - self._least
        errors.consensus_error = np.linalg.norm(theta - theta.mean(axis=0), axis=1)
        errors.accuracy = quality
        return errors


class Tested:
    """Evaluates learners by what they predict on records they never saw; no optimum is looked for.

    For neural networks, which have none that could be found, and wherever a stream has test records. `accuracy` is on
    those, `train_accuracy` on a fixed sample of the others.
    """

    SAMPLE = 2000
    each = ("accuracy", "train_accuracy")

    def __init__(self, stream: Stream, memory: Memory) -> None:
        table, test, self._memory = stream.table, stream.test, memory
        self.optimum = np.full(1, np.nan)
        sample = self.SAMPLE if test is None else min(self.SAMPLE, len(test))
        chosen = np.random.default_rng(0).permutation(len(table))[:sample]
        self._train = replace(table, rows=table.rows[chosen], labels=table.labels[chosen])
        self._test = self._train if test is None else test
        sampled = "Accuracy is on a sample of the training records: there are no others."
        self.notes = [sampled] if test is None else []

    def learners(self, theta: Any, t: int) -> np.recarray[Any, Any]:
        wild = ~(np.array([float(abs(row).max()) for row in theta]) < ASTRAY)
        if wild.any():
            raise Diverged(
                f"the run diverged: learner {int(wild.argmax())} has parameters that are not finite, or beyond "
                f"{ASTRAY:g}, at round {t}; use a smaller step, or clip gradients."
            )
        errors = np.recarray(len(theta), dtype=TESTED)
        errors.tracking_error = errors.optimality_gap = np.nan
        lengths = kind_of(theta).row_lengths
        errors.consensus_error, errors.parameter_norm = lengths(theta - theta.mean(0)), lengths(theta)
        errors.accuracy = self._memory.quality(theta, self._test)
        errors.train_accuracy = self._memory.quality(theta, self._train)
        return errors


TESTED = np.dtype([*LEARNER.descr, ("train_accuracy", "f8"), ("parameter_norm", "f8")])
