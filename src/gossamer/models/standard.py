"""Numbers seen from their middle, in units of their spread: standardised features that no learner has to disclose.

A gradient method learns slowly where features lie far from 0 or spread little: declared ranges are wide, and most
records fill a small part of them. Scikit-learn's users standardise first. Learners that do not show their records can
do the same, with one more thing to learn, and with a small share of their budget:

1. **The moments.** In a few rounds, the head of the release schedule, a learner's gradient is not the loss's but

       −κ · mean over its records of (a_j, a_j² − 1)_j           j over the numbers, and the label if it is a quantity

   in coordinates ψ of their own, behind θ; and −1 in one last coordinate, which is no record's and gets no noise. Its
   records are those that it remembers: a window's, where the model has one. The
   algorithm sums and mixes them as it does any gradient. So ψ_i/ψ_i,last tends to the mean over all learners, with the
   noise averaged out. There is nothing new on the wire, in the journal or in the ledger: κ is such that a record's part
   has norm ≤ c, the clipper's, so that a release of moments costs what a release of gradients costs.
2. **A pause** of a few rounds, in which learners mix and agree.
3. **Learning.** With middles μ_j and spreads d_j from its own ψ_i a learner sees a'_j = (a_j − μ_j)/d_j, that is
   a' = T a with the intercept's column left alone, and labels likewise. Gradients are taken, clipped and noised for a',
   at φ = T^−ᵀ θ: the same margins. Then Tᵀ takes them back to the coordinates of θ, which are the declared ones, alike
   for all. So learners mix the same θ as ever; if their ψ_i still differ a little, so do their directions, and nothing
   else. A step along Tᵀ g' is a step of gradient descent on φ. What a learner hands to its algorithm is a running mean
   of such directions, v⁺ = β v + (1−β) g' with β = MOMENTUM: the heavy ball of Polyak (USSR Comput. Math. Math. Phys.
   4(5), 1964). Correlated features make a long valley, along which it is 1/(1−β) times as fast, because steps may be
   so much longer before they overshoot. The ridge is on φ, so that it means the same whatever ranges were declared.

**Privacy.** Given all that was released before, T and φ are fixed, in both worlds of the proof in
gossamer.privacy.source, as θ is. The released mean is over vectors of norm ≤ c, record by record, in both phases. What
is done to it later (leaving coordinates out, T, the ridge, running means, ψ's last coordinate) looks at no record.
With x = a_j² ≤ 1, ‖(a_j, a_j² − 1)‖² = x + (1 − x)² = 1 − x (1 − x) ≤ 1, and numbers beyond 1 are cut off for it:
κ = c/√k for k numbers, less 2^−30 for rounding. No larger κ would do, because records at opposite ends are 2√k apart.
That is in L2; in L1 |a_j| + 1 − a_j² ≤ 5/4, and κ = c/(5k/4).

Whatever a record holds, what is seen of it is finite, and clipped. A sum of moments is rounded as any sum of vectors of
norm ≤ c is, which is in the ledger's price. How many records a learner has is public: replacing one changes neither
that, nor weights, the rounds that release, κ or the least spread. What a run's record keeps of this (middles, spreads,
running means) are functions of releases; who does not release in a round keeps what it had.

A spread is not taken to be below what the noise in the moments would make of none at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gossamer.arrays import dense
from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.models.bounds import LARGEST, Norm
from gossamer.models.memory import LinearMemory
from gossamer.records import Batch, Population, Table
from gossamer.types import Array, Integers

if TYPE_CHECKING:
    from gossamer.models.linear import LinearModel
    from gossamer.models.statistics import StatisticsMemory

NARROWEST = 1e-6  # variance of a number that ranges from −1 to 1
SAFE = 1 - 2.0**-30  # for the few roundings of a record's moments
LATER = 2**62  # a round after all looks at moments
SEEN = "seen."  # what the names of all that is kept start with
NAMES = (f"{SEEN}middles", f"{SEEN}spreads", f"{SEEN}running")
MOMENTUM = 0.9


@dataclass(frozen=True)
class Standardise:
    """Which columns of the features are numbers, whether the label is one, and how long records then are, squared."""

    columns: tuple[int, ...]
    label: bool = False
    width: float = 1.0

    @property
    def numbers(self) -> int:
        return len(self.columns) + self.label

    @property
    def extra(self) -> int:
        """How many coordinates go behind θ."""
        return 2 * self.numbers + 1

    def unit(self, c: float, norm: Norm) -> float:
        """κ: how much of a record's moments is released, so that its norm is at most c."""
        numbers = max(self.numbers, 1)
        return SAFE * c / (1.25 * numbers if norm == 1 else math.sqrt(numbers))


class Looks(NamedTuple):
    """When to look at moments, when to learn, and below which variance a spread is noise, learner by learner."""

    first: int  # of the rounds of moments
    last: int
    learns: int  # the first round that learns
    least: Array  # (k,)

    def at_moments(self, t: int) -> bool:
        return self.first <= t <= self.last

    def idle(self, t: int) -> bool:
        """Whether round t does neither."""
        return t < self.learns and not self.at_moments(t)


def usual_looks(steps: int, quiet: int, learners: int) -> Looks:
    """Without noise one look will do: after a tenth of the rounds, and then a pause, no longer than that."""
    tenth = steps // 10
    return Looks(tenth, tenth, tenth + 1 + min(quiet, tenth), np.zeros(learners))


def no_looks(learners: int) -> Looks:
    """Where all features are categories there is nothing to standardise: learning begins at once."""
    return Looks(1, 0, 0, np.zeros(learners))


class Frame(NamedTuple):
    """Middles and spreads of every learner: (k, numbers), the label's last."""

    middles: Array
    spreads: Array


def seen_by_all(model: LinearModel, population: Population, theta: Array) -> tuple[Array, Array]:
    """A population's features as learners would see them with exact moments, and φ of a θ."""
    assert model.standardise is not None
    table, share, where = population.table, population.share, list(model.standardise.columns)
    numbers = np.column_stack([table.rows[:, where], *([table.labels] if model.standardise.label else [])])
    middles = share @ numbers if model.intercept else np.zeros(numbers.shape[1])
    frame = Frame(middles[None], np.sqrt(np.maximum(share @ (numbers - middles) ** 2, NARROWEST))[None])
    seeing = StandardMemory(model, table, LinearMemory(model, table, "history", np.ones(1, dtype=np.int64)))
    seeing.adopt(frame)
    nobody = np.zeros(len(table), dtype=np.int64)
    features = seeing.see(table.rows, nobody) if where else dense(population.matrix)
    return features, seeing.to_seen(theta[None])[0]


def _check_columns(about: Standardise, table: Table) -> None:
    """Refuse to see numbers where the table has none: codes of categories, bytes, or no such column."""
    strange = [k for k in about.columns if not 0 <= k < table.columns]
    if strange or len(set(about.columns)) < len(about.columns):
        requirement = f"expected numbers of columns, each once, from 0 to {table.columns - 1}"
        raise BadValue("standardise", about.columns, requirement, python=f"Standardise({about.columns!r})")
    if about.columns and (table.codebook is not None or table.rows.dtype != np.float64):
        raise GossamerError(
            "the features are packed, and what is standardised are numbers: give them as floats, or ",
            Argument("standardise", False), ".",
        )  # fmt: skip


class StandardMemory:
    """A linear model's memory of k learners, which looks at standardised records from some round on."""

    def __init__(self, model: LinearModel, table: Table, inner: LinearMemory | StatisticsMemory) -> None:
        assert model.standardise is not None
        _check_columns(model.standardise, table)
        self._model, self._inner, self.about = model, inner, model.standardise
        self._columns, self._outputs = table.columns, model.outputs
        self._change_records = isinstance(inner, LinearMemory)  # sums of records are of records as declared
        self._windowed = model.remember is not None
        self._where = np.array(self.about.columns, dtype=np.int64)
        self._sums = np.zeros((len(inner.filled), 2 * self.about.numbers))
        clip = model.clip
        self._unit = 1.0 if clip is None else self.about.unit(clip.c, clip.norm)
        self._looks: Looks | None = None
        self._frame: Frame | None = None
        self._running = np.zeros((len(inner.filled), table.columns * model.outputs))

    @property
    def unit(self) -> float:
        """κ: how much of a record's moments is released."""
        return self._unit

    @property
    def filled(self) -> Integers:
        return self._inner.filled

    def prepare(self, looks: Looks) -> None:
        """Say when to look at what; before the first gradient."""
        self._looks = looks

    def idle(self, t: int) -> bool:
        """Whether no gradient is asked for in round t."""
        return self._looks is not None and self._looks.idle(t)

    def observe(self, batch: Batch) -> None:
        """Take in a round's records: their moments, and themselves as they are seen."""
        if self._frame is None and not self._windowed:
            self._add(batch)
        elif self._frame is not None and self._change_records:
            owner = np.repeat(np.arange(len(batch.counts)), batch.counts)
            batch = batch._replace(rows=self.see(batch.rows, owner), labels=self._seen_labels(batch.labels, owner))
        self._inner.observe(batch)

    def _add(self, batch: Batch) -> None:
        owner = np.repeat(np.arange(len(batch.counts)), batch.counts)
        np.add.at(self._sums, owner, self._moments(batch.rows, batch.labels))

    def _moments(self, rows: Array, labels: Array) -> Array:
        """(a_j, a_j² − 1)_j of every record."""
        numbers = rows[:, self._where] if len(self._where) else np.empty((len(labels), 0))
        if self.about.label:
            numbers = np.column_stack([numbers, labels])
        if self._model.clip is not None:
            # Which declared ranges see to; the budget does not rest on it, whatever a record holds.
            numbers = np.nan_to_num(numbers, nan=0.0).clip(-1.0, 1.0)
        return np.hstack([numbers, numbers**2 - 1.0])

    def _summed(self) -> Array:
        """Every learner's moments, summed over all records so far, or over those in its window, and no others."""
        if isinstance(self._inner, LinearMemory) and self._windowed:
            each = (self._inner.records_of(i) for i in range(len(self._sums)))
            return np.array([self._moments(rows, labels).sum(axis=0) for rows, labels in each])
        return self._sums

    def seen(self, theta: Array, t: int) -> Array:
        """What is released in round t, before noise: moments, or the mean gradient of records as they are seen."""
        grad = np.zeros_like(theta)
        parameters = self._columns * self._outputs
        if self._looks is not None and self._looks.at_moments(t):
            grad[:, parameters:-1] = -self._unit * self._summed() / np.maximum(self._inner.filled, 1)[:, None]
            return grad
        if self._frame is None:
            self._look(theta[:, parameters:])
        theta = theta[:, :parameters]
        if self._change_records:
            grad[:, :parameters] = self._inner.gradient(self.to_seen(theta))
        else:
            grad[:, :parameters] = self._turned(self._inner.gradient(theta))
        return grad

    def gradient(self, theta: Array) -> Array:
        """The mean gradient of each learner's records as they are seen, once learning has begun."""
        return self.seen(theta, LATER)

    def used(self, noised: Array, theta: Array, t: int, fresh: Any = True) -> Array:
        """What the step uses of what was released, by those who did release: no record is looked at here."""
        step = np.zeros_like(noised)
        parameters = self._columns * self._outputs
        if self._looks is not None and self._looks.at_moments(t):
            step[:, parameters:-1], step[:, -1] = noised[:, parameters:-1], -1.0
            return step
        ridge = self._model.ridge(self._columns) * self.to_seen(theta[:, :parameters])
        newest = MOMENTUM * self._running + (1 - MOMENTUM) * (noised[:, :parameters] + ridge)
        # Of who did not release, nothing is kept: it is noised, and was not paid for.
        self._running = np.where(np.reshape(fresh, (-1, 1)), newest, self._running)
        step[:, :parameters] = self._from_seen(self._running)
        return step

    def _look(self, psi: Array) -> None:
        """Middles and spreads from what the learners agreed on; 0 and 1 for who has heard nothing."""
        k = self.about.numbers
        heard = psi[:, -1:] > 0
        moments = np.where(heard, psi[:, :-1] / np.where(heard, psi[:, -1:], 1.0) / self._unit, 0.0)
        middles = moments[:, :k] if self._model.intercept else np.zeros_like(moments[:, :k])
        within = self._model.clip is not None  # numbers within −1 … 1: no more than they have, whatever neighbours sent
        middles = middles.clip(-1.0, 1.0) if within else middles
        variance = moments[:, k:] + 1.0 - middles**2
        variance = np.minimum(variance, 1.0) if within else variance
        least = np.reshape(np.maximum(NARROWEST, 0.0 if self._looks is None else self._looks.least), (-1, 1))
        spreads = np.where(heard, np.sqrt(np.maximum(variance, least)), 1.0)
        self.adopt(Frame(np.where(heard, middles, 0.0), spreads))

    def adopt(self, frame: Frame) -> None:
        """See all records from now on, and those remembered, by these middles and spreads."""
        self._frame = frame
        if isinstance(self._inner, LinearMemory):
            self._inner.change(self.see, self._seen_labels)

    def see(self, rows: Array, owner: Integers) -> Array:
        """Records of these learners as they see them."""
        assert self._frame is not None
        if not len(self._where):
            return rows
        k, seen = len(self._where), rows.copy()
        with np.errstate(over="ignore"):
            each = (rows[:, self._where] - self._frame.middles[owner, :k]) / self._frame.spreads[owner, :k]
        seen[:, self._where] = each.clip(-LARGEST, LARGEST)  # an infinite one would weigh 0 · ∞, clipped or not
        return seen

    def _seen_labels(self, labels: Array, owner: Integers) -> Array:
        assert self._frame is not None
        if not self.about.label:
            return labels
        seen: Array = (labels - self._frame.middles[owner, -1]) / self._frame.spreads[owner, -1]
        return seen

    def _label(self) -> tuple[Array, Array]:
        """The label's middle and spread, as columns."""
        assert self._frame is not None
        if not self.about.label:
            return np.zeros((len(self._frame.middles), 1)), np.ones((len(self._frame.middles), 1))
        return self._frame.middles[:, -1:], self._frame.spreads[:, -1:]

    def to_seen(self, theta: Array) -> Array:
        """φ = T^−ᵀ θ, with the same margins; of a quantity (θ − μ_b e)/d_b instead of θ."""
        assert self._frame is not None
        k, (middle, spread) = len(self._where), self._label()
        each = (theta / spread).reshape(len(theta), self._columns, self._outputs).copy()
        if self._model.intercept:
            each[:, -1] += np.einsum("ij,ijk->ik", self._frame.middles[:, :k], each[:, self._where])
            each[:, -1] -= middle / spread
        each[:, self._where] *= self._frame.spreads[:, :k, None]
        return each.reshape(theta.shape)

    def _from_seen(self, grad: Array) -> Array:
        """Tᵀ g' · d_b: the direction in the declared coordinates."""
        assert self._frame is not None
        k, (_, spread) = len(self._where), self._label()
        each = grad.reshape(len(grad), self._columns, self._outputs).copy()
        each[:, self._where] /= self._frame.spreads[:, :k, None]
        if self._model.intercept:
            each[:, -1] -= (self._frame.middles[:, :k, None] * each[:, self._where]).sum(axis=1)
        back: Array = each.reshape(grad.shape) * spread
        return back

    def _turned(self, grad: Array) -> Array:
        """T g/d_b: a gradient for θ as one for φ."""
        assert self._frame is not None
        k, (_, spread) = len(self._where), self._label()
        each = (grad / spread).reshape(len(grad), self._columns, self._outputs)
        if self._model.intercept:
            each[:, self._where] -= self._frame.middles[:, :k, None] * each[:, -1:]
        each[:, self._where] /= self._frame.spreads[:, :k, None]
        turned: Array = each.reshape(grad.shape)
        return turned

    def quality(self, theta: Array, table: Table) -> Array:
        """How well every row of θ predicts a table's records, as declared."""
        return self._inner.quality(self._model.parameters(theta, self._columns), table)

    def kept(self) -> dict[str, Array]:
        """How records are seen, and the running means: a run that goes on has the same."""
        return {} if self._frame is None else dict(zip(NAMES, (*self._frame, self._running), strict=True))

    def go_on(self, kept: Mapping[str, Array]) -> None:
        if NAMES[0] in kept:
            middles, spreads, self._running = (np.array(kept[name], dtype=np.float64) for name in NAMES)
            self.adopt(Frame(middles, spreads))
