"""How far the learners are: from θ*, from F(θ*), from each other, and from predicting right."""

from __future__ import annotations

from typing import Any

import numpy as np

from gossamer.models import Model, Objective
from gossamer.records import Population
from gossamer.simulate.record import HISTORY, LEARNER
from gossamer.types import Array, GossamerError


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
        """One row of a history."""
        row = np.recarray(1, dtype=HISTORY)
        row.t = t
        for name in LEARNER.names or ():
            row[name] = learners[name].mean()
        row.setflags(write=False)
        return row
