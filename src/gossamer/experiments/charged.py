"""Tuning that is itself private: every look at a record is paid for, by records that the run then leaves out.

Every learner's records are cut into three parts, by their places in the file and by a seed, whatever they hold:

    A    learnt from by all K candidates; each is a private run as any, exact Gaussian noise at the source
    B    predicted by what the candidates have learnt: each learner counts which of its own it predicts right, and
         sends that number with Laplace noise
    C    the run that comes after, with the settings that were chosen

**The claim.** All that is sent, by tuning and by the run together, is (ε, δ)-private for replacing one record.

*A record of C* is looked at by the run alone. Tuning does not depend on it; given what tuning sent, so are the run's
settings fixed, and the run is (ε, δ)-private.

*A record of A* is seen by the K candidates' releases and by nothing else: counts and the run are functions of what was
released, of other records and of fresh noise. Candidate k's releases have Σ (shift/σ)² ≤ μ_k², each chosen after the
ones before; which candidate comes next follows from what was sent. So all of them together are μ-GDP with μ² = Σ μ_k²
(Dong, Roth & Su, JRSS-B 2022, Cor. 3.3), and μ_k = μ(ε, δ)/√K makes that μ(ε, δ). The ledger adds up what candidates
really release, the grid's surcharge included, and a candidate that would exceed ε is refused before its first round.

*A record of B* is seen by K numbers, each of which it moves by at most 1 (of a quantity: by 1 in thousandths, all of
which are whole numbers). Laplace noise of scale s makes each 1/s-private, and K of them K/s ≤ ε, with δ = 0; the grid's
surcharge is added.

The three parts are disjoint. So a record costs the largest of the three, and not their sum: ε. Whoever gives the
command again spends again.

A learner counts with its own θ_i, and adds its own noise: nobody is trusted with sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gossamer.arrays import dense
from gossamer.errors import Argument, BudgetSpent, Diverged, GossamerError
from gossamer.experiments.tuning import Candidate, settled, terms_of, with_steps
from gossamer.models import LinearModel
from gossamer.privacy import Terms
from gossamer.privacy.accountant import total
from gossamer.privacy.gaussian import epsilon_exact, mu_for
from gossamer.privacy.laws import GAUSSIAN, LAPLACE, Shifts
from gossamer.records import Table, features_of
from gossamer.simulate import simulate
from gossamer.spec import Spec
from gossamer.spec.build import build
from gossamer.spec.languages import budgets
from gossamer.spec.rules import decide_noise, delta_of
from gossamer.streams import OnePass
from gossamer.types import Array

PREDICTED = 0.5  # of the records that tuning may use: counts are noisier than gradients
THOUSANDTHS = 1000  # a quantity's points: as many as it has thousandths of being right
FAR_OFF = 0.5  # a prediction this far off, in halves of the quantity's range, has no point
NARROW = 1 - 1e-6  # of a budget that is aimed for, so that rounding does not exceed it
COUNTABLE = 4000  # noise scales that a count may have: see gossamer.privacy.exact


class Ledger:
    """What tuning has cost each learner: a record of A, and a record of B."""

    def __init__(self, budgets: Sequence[float], delta: float, runs: int) -> None:
        self.budgets, self.delta, self.runs = tuple(budgets), delta, runs
        self._totals, self._numbers = np.zeros(len(self.budgets)), np.zeros(len(self.budgets))
        self._shifts, self._counts = np.zeros(len(self.budgets)), 0

    @property
    def each(self) -> list[float]:
        """ε of one candidate's run, learner by learner: with K of them, all is spent."""
        return [epsilon_exact(NARROW * mu_for(e, self.delta) / math.sqrt(self.runs), self.delta) for e in self.budgets]

    def charge_run(self, terms: Sequence[Terms], rounds: int) -> None:
        """Book a candidate's releases, before the first; changes nothing where one learner cannot afford them."""
        totals = self._totals + [total(one, rounds, True) for one in terms]
        numbers = self._numbers + [one.numbers(rounds) for one in terms]
        self._refuse(_gaussian(totals, numbers, self.delta))
        self._totals, self._numbers = totals, numbers

    def charge_counts(self, shifts: Array) -> None:
        """Book a number from each learner, which one record moves by so many noise scales."""
        self._refuse(_laplace(self._shifts + shifts, self._counts + 1))
        self._shifts, self._counts = self._shifts + shifts, self._counts + 1

    def _refuse(self, spent: Sequence[float]) -> None:
        for i, (now, budget) in enumerate(zip(spent, self.budgets, strict=True)):
            if not now <= budget:
                raise BudgetSpent(f"one more candidate would cost learner {i} ε = {now:.6g} of {budget:g}: no more.")

    @property
    def spent(self) -> list[float]:
        """ε of the dearest record, learner by learner."""
        learnt, predicted = _gaussian(self._totals, self._numbers, self.delta), _laplace(self._shifts, self._counts)
        return [max(pair) for pair in zip(learnt, predicted, strict=True)]


def _gaussian(totals: Array, numbers: Array, delta: float) -> list[float]:
    """ε of so many noised numbers with these Σ shift²."""

    def one(whole: float, n: float) -> float:
        return GAUSSIAN.epsilon(Shifts(int(n), lambda squared: whole if squared else math.inf), delta)

    return [one(float(whole), float(n)) for whole, n in zip(totals, numbers, strict=True)]


def _laplace(shifts: Array, counts: int) -> list[float]:
    """ε of so many numbers with these Σ shift, at δ = 0."""

    def one(whole: float) -> float:
        return LAPLACE.epsilon(Shifts(counts, lambda squared: math.inf if squared else whole), 0.0)

    return [one(float(whole)) for whole in shifts]


class Charged:
    """Scores candidates by private runs on A and noisy counts on B; `used` are the records of both."""

    def __init__(self, spec: Spec, used: OnePass, runs: int, seed: int) -> None:
        decided = decide_noise(spec, None)
        if (decided.privacy.law, decided.privacy.where) != ("gaussian", "source"):
            raise GossamerError(
                "tuning is charged for Gaussian noise at the source, whose runs add up exactly: leave ",
                Argument("law"), " and ", Argument("where"), " out, or tune on public records.",
            )  # fmt: skip
        self._counted, self._learnt = used.drawn(PREDICTED, seed)
        delta = delta_of(decided)
        self.ledger = Ledger(budgets(spec.privacy.epsilon or "", used.learners), delta, runs)
        self._spec = spec.but(epsilon=",".join(map(repr, self.ledger.each)), delta=delta)
        self._records = np.array([len(self._counted.own(i)) for i in range(used.learners)])

    def __call__(self, candidate: Candidate) -> float:
        """The noisy share of points; −∞ where the run diverged, which all can see from what was sent."""
        parts = build(settled(self._spec, candidate, self._learnt), self._learnt)
        gradient: Any = parts.spec.algorithm.gradient
        self.ledger.charge_run(terms_of(parts), parts.steps)
        try:
            run = simulate(
                with_steps(parts), parts.network, parts.stream, model=parts.model, privacy=parts.mechanism,
                steps=parts.steps, gradient=gradient, evaluate_every=parts.steps,
            )  # fmt: skip
        except Diverged:
            return -math.inf
        model: Any = parts.model
        theta = model.parameters(run.state["theta"], parts.stream.table.columns)
        most = most_points(model)
        points = [points_of(model, one, self._counted.own(i)) for i, one in enumerate(theta)]
        scales = self._scales(most)
        self.ledger.charge_counts(most / scales)
        noisy = LAPLACE.exact(np.array(points, dtype=float)[:, None], scales[:, None])
        return float(noisy.sum() / (most * self._records.sum()))

    def _scales(self, most: int) -> Array:
        """Of each learner's noise: K counts cost its budget, or less where a count is large beside its noise."""
        needed = most * self.ledger.runs / (NARROW * np.array(self.ledger.budgets))
        return np.maximum(needed, most * self._records / COUNTABLE)

    @property
    def margin(self) -> float:
        """What a better candidate must be better by: the deviation of the noise in a difference of two scores."""
        return float(np.sqrt(2 * (LAPLACE.variance * self._scales(1) ** 2).sum()) / self._records.sum())


def most_points(model: LinearModel) -> int:
    """How many points a record can have."""
    return 1 if model.bounded else THOUSANDTHS


def points_of(model: LinearModel, theta: Array, table: Table) -> int:
    """How many points θ has on these records: one for each that is predicted right, or thousandths of a quantity's."""
    margins = dense(features_of(table) @ theta.reshape(table.columns, model.outputs))
    if not model.bounded:
        right = 1 - np.minimum(abs(margins[:, 0] - table.labels) / FAR_OFF, 1.0)
        return int(np.round(THOUSANDTHS * right).astype(np.int64).sum())
    told = margins[:, 0] > 0 if model.outputs == 1 else margins.argmax(axis=1)
    return int((told == table.labels).sum())
