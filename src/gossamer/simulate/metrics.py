"""How far the learners are: from θ*, from F(θ*), from each other, and from predicting right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gossamer.arrays import kind_of
from gossamer.errors import Diverged, GossamerError
from gossamer.models import LinearModel, Memory, Model, Objective
from gossamer.records import Population, Table
from gossamer.run_record import LEARNER
from gossamer.simulate.shard import EVERYBODY, Shard
from gossamer.streams import Stream
from gossamer.types import Array

ASTRAY = 1e12  # no network is that far from its start and still learns; clipped gradients may keep it finite
MOST_NUMBERS = 1e8  # features times outputs: beyond it a search for θ* would take longer than many a run
MOST_PREDICTIONS = 10**8  # in one evaluation of all learners: beyond it, it is of a sample of the records
MOST_PRODUCTS = 10**10  # of a number and a parameter, likewise
NUMBERS_AT_ONCE = 1 << 21  # of θ of the learners that are evaluated at a time: 16 MiB
LEAST_RECORDS = 1000  # that such a sample has
MOST_CLASSES = 10  # a larger confusion table is not read
EACH = ("accuracy", "train_accuracy")  # what a history keeps learner by learner where there are test records
TESTED = np.dtype([*LEARNER.descr, ("train_accuracy", "f8"), ("parameter_norm", "f8")])


def metrics_of(model: Model, stream: Stream, memory: Memory, shard: Shard = EVERYBODY) -> Metrics | Tested:
    """Errors against θ* and accuracy for a linear model; for others, and for large images, accuracy alone."""
    if isinstance(model, LinearModel):
        numbers = len(stream.table) * model.theta_size(stream.table.columns)
        if stream.test is None or numbers <= MOST_NUMBERS:
            return Metrics(model, stream.population, stream.test, stream.learners, shard)
    return Tested(stream, memory, shard)


class Metrics:
    """Evaluates a stack of learners on the population that they learn from and, where there are any, on test records.

    Errors are against θ* of the population. `accuracy` is on the test records, and `train_accuracy` then on the
    population; without test records `accuracy` is on the population.
    """

    def __init__(
        self,
        model: LinearModel,
        population: Population,
        test: Table | None = None,
        learners: int = 1,
        shard: Shard = EVERYBODY,
    ) -> None:
        self._shard = shard
        whole = Objective(model, population)
        columns, predictions = population.table.columns, learners * model.outputs
        most = max(LEAST_RECORDS, min(MOST_PREDICTIONS, MOST_PRODUCTS // columns) // predictions)
        self._objective = whole if len(population.table) <= most else Objective(model, _sample(population, most))
        self._judged = self._objective if test is None else Objective(model, _alike(test))
        self._tested = test is not None
        self.each: tuple[str, ...] = EACH if self._tested else ()
        self.notes: list[str] = []
        if self._objective is not whole:
            self.notes.append(f"F and accuracy are on {most:,} of {len(population.table):,} records, drawn by a seed.")
        try:
            self.optimum = whole.minimiser()
            self._least = self._objective.value(self.optimum)
        except GossamerError as error:
            self.optimum, self._least = np.full(self._objective.size, np.nan), np.nan
            self.notes.append(f"Errors against θ* are not known: {error}")

    def learners(self, theta: Array, t: int) -> np.recarray[Any, Any]:
        """The numbers of every learner; refuses parameters that are no longer finite."""
        wild = ~np.isfinite(theta).all(axis=1)
        if wild.any():
            raise Diverged(
                f"the run diverged: learner {_first(wild, self._shard)} has parameters that are not finite at round "
                f"{t}; use a smaller step, smaller features, or a network in which learners keep more of their own."
            )
        errors, mean = np.recarray(len(theta), dtype=TESTED if self._tested else LEARNER), self._shard.mean(theta)
        at_once = max(1, NUMBERS_AT_ONCE // theta.shape[1])
        for k in range(0, len(theta), at_once):  # of very many learners some at a time: a difference is as large as θ
            self._judge(theta[k : k + at_once], mean, errors[k : k + at_once])
        return errors

    def _judge(self, theta: Array, mean: Array, errors: Any) -> None:
        """The numbers of some learners into their places."""
        values, quality = self._objective.evaluate(theta)
        errors.tracking_error = np.linalg.norm(theta - self.optimum, axis=1)
        errors.optimality_gap = values - self._least
        errors.consensus_error = np.linalg.norm(theta - mean, axis=1)
        errors.accuracy = quality
        if self._tested:
            errors.accuracy, errors.train_accuracy = self._judged.evaluate(theta)[1], quality
            errors.parameter_norm = np.linalg.norm(theta, axis=1)

    def beside(self, theta: Array) -> dict[str, Any]:
        """What an accuracy is read beside: on how many records it is, what needs no learning, what θ* reaches.

        `majority` is the accuracy of whoever always says the class that is most frequent where was learnt; of a
        quantity it is 0, the R² of its mean. `confusion[a][b]` is how many records of class a are taken for class b,
        as a mean over the learners. Without test records all are weighed as F weighs them.
        """
        judged, known = self._judged.population, np.isfinite(self.optimum).all()
        told: dict[str, Any] = {"records": _records(judged), "tested": self._tested, "majority": self._majority()}
        told["optimum"] = float(self._judged.evaluate(self.optimum[None])[1][0]) if known else None
        if self._tested:
            told["learnt_from"] = _records(self._objective.population)
        confusion = self._confusion(theta)
        return {"baselines": told} | ({} if confusion is None else {"confusion": confusion})

    def _majority(self) -> float:
        if not self._objective.model.bounded:
            return 0.0
        learnt, judged = self._objective.population, self._judged.population
        most = np.bincount(learnt.table.labels.astype(int), weights=learnt.share).argmax()
        return float(judged.share @ (judged.table.labels == most))

    def _confusion(self, theta: Array) -> list[list[float]] | None:
        model, judged = self._objective.model, self._judged.population
        classes = max(model.outputs, 2)
        if not model.bounded or classes > MOST_CLASSES:
            return None
        own, shares = classes * judged.table.labels.astype(int), np.zeros(classes**2)
        for _, margins in self._judged.margins_of_many(theta):
            taken_for = margins[:, :, 0] > 0 if model.outputs == 1 else margins.argmax(axis=2)
            for told in taken_for.T:  # a learner
                shares += np.bincount(own + told, weights=judged.share, minlength=classes**2)
        shares, learners = self._shard.total(shares), self._shard.total(len(theta))
        counts: list[list[float]] = (shares * _records(judged) / learners).reshape(classes, -1).tolist()
        return counts


def _first(wild: Any, shard: Shard) -> int:
    """The first of the shard's learners of which it is true, as the run counts them."""
    return int(wild.argmax() if shard.ids is None else shard.ids[wild.argmax()])


def _sample(population: Population, records: int) -> Population:
    """So many records, drawn by their share of F: each then counts as much as another."""
    chosen = np.random.default_rng(0).choice(len(population.table), records, p=population.share)
    table = population.table
    return _alike(replace(table, rows=table.rows[chosen], labels=table.labels[chosen]))


def _alike(table: Table) -> Population:
    """Records each of which counts as much as another."""
    return Population(table, np.full(len(table), 1 / len(table)))


def _records(population: Population) -> int:
    """How many records count."""
    return int(np.count_nonzero(population.share))


class Tested:
    """Evaluates learners by what they predict on records they never saw; no optimum is looked for.

    For neural networks, which have none that could be found, and for linear models of so many features and records
    that looking for it would take too long. `accuracy` is on test records, `train_accuracy` on a fixed sample of the
    others.
    """

    SAMPLE = 2000
    each = EACH

    def __init__(self, stream: Stream, memory: Memory, shard: Shard = EVERYBODY) -> None:
        self._shard = shard
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
                f"the run diverged: learner {_first(wild, self._shard)} has parameters that are not finite, or beyond "
                f"{ASTRAY:g}, at round {t}; use a smaller step, or clip gradients."
            )
        errors = np.recarray(len(theta), dtype=TESTED)
        errors.tracking_error = errors.optimality_gap = np.nan
        lengths = kind_of(theta).row_lengths
        errors.consensus_error, errors.parameter_norm = lengths(theta - self._shard.mean(theta)), lengths(theta)
        errors.accuracy = self._memory.quality(theta, self._test)
        errors.train_accuracy = self._memory.quality(theta, self._train)
        return errors

    def beside(self, theta: Any) -> dict[str, Any]:
        """Nothing: no optimum is known."""
        return {}
