"""μ, L, D and κ of a problem: what Assumptions 2, 3 and 5 ask of a loss, in numbers, and how each was obtained.

For a linear model ∇l(θ) = a ⊗ w + l2 θ with the weights w of a record's margins (gossamer.models.bounds), and in L2

    |∇l − l2 θ| ≤ ‖w‖ ‖a‖ =: pull     logistic ‖a‖     softmax √2 ‖a‖     squared: no bound, unless a clipper sets one
    L = slope ‖a‖² + l2               slope ¼          ½                  1

    D   ‖∇f_i‖ ≤ pull where l2 = 0. With l2 > 0 the ridge's l2 θ has no bound over all θ, so that there is no D. There
        is one on a ball: ∇F(θ*) = 0 puts θ* within ‖θ‖ ≤ pull/l2, and there ‖∇f_i‖ ≤ 2 pull.
    μ   l2. A logistic or softmax loss adds nothing, because its Hessian fades as margins grow; nor is there a ridge on
        an intercept. A squared loss adds the smallest eigenvalue of E aaᵀ, the same everywhere.
    κ   E‖∇l − ∇f_i‖² ≤ E‖a ⊗ w‖² ≤ pull² for every θ: the ridge is the same for all records and cancels. Of a round
        with N records the theorems see the mean, and the bound is pull/√N where these are independent.
    c   ‖a ⊗ w‖₁, for Assumption 5.

μ > 0 and a D for all of Rⁿ exclude each other: D ≥ ‖∇F(θ)‖ ≥ μ ‖θ − θ*‖ for every θ. Assumption 2(ii) together with
2(iii) at μ > 0, as Theorems 1 and 2 ask for, can be had on a bounded region only.

‖a‖ is what was declared of every record, or else the largest one among the records at hand. With a clipper of each
record's gradient to ‖·‖ ≤ c, pull is at most c. That leaves L as it is where a record has one margin, and in L2, where
it is a projection; in L1 the map w ↦ c w/‖w‖₁ has the derivative c/‖w‖₁ (I − w sign(w)ᵀ/‖w‖₁), of norm ≤ 1 + √K.

Learners with weights count w_i f_i instead of f_i, with weights of mean 1: all constants but μ and the radius are then
those of the largest weight.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gossamer.arrays import dense
from gossamer.errors import GossamerError
from gossamer.models import LinearModel, Model, Objective
from gossamer.models.bounds import Clip
from gossamer.records import FeatureBounds, Population, Table
from gossamer.types import Array

MOST_COLUMNS = 2000  # whose E aaᵀ is decomposed: beyond it that takes longer than a run
MOST_NUMBERS = 1e8  # features times outputs, of all records: beyond it θ* is not looked for


class Known(NamedTuple):
    """A constant and how it was obtained; ∞ where there is none, NaN where it cannot be known."""

    value: float
    how: str

    def times(self, factor: float) -> Known:
        return self._replace(value=self.value * factor)


class Constants(NamedTuple):
    """What is known of a loss. Each is an upper bound, but for μ, which is a lower one."""

    mu: Known  # F is μ-strongly convex
    L: Known  # ∇l is L-Lipschitz in θ, in L2
    D: Known  # ‖∇f_i(θ)‖₂ ≤ D for all θ
    kappa: Known  # deviation of a round's gradient from ∇f_i, in L2, for all θ
    pull: Known  # ‖∇l − l2 θ‖₂: the records' part
    c: Known  # ‖∇l − l2 θ‖₁
    convex: bool | None = True  # None: not known
    radius: float = math.nan  # with a ridge: θ* lies within ‖θ‖ ≤ radius, an intercept aside
    near: float = math.nan  # and D there
    seen: Known | None = None  # κ as it is at θ = 0 and at θ*, the larger one, where records may be looked at


NOTHING = Known(math.nan, "nothing is declared")
UNBOUNDED = Known(math.inf, "the ridge's l2 θ has no bound")


def constants(
    model: Model,
    table: Table | None = None,
    population: Population | None = None,
    *,
    records: int = 1,
    weight: float = 1.0,
) -> Constants:
    """The constants of a model on records of which `table` says what is declared.

    population  the records themselves, where they may be looked at: never in a private run
    records     that arrive at a learner in a round, at least, independently of each other
    weight      the largest of the learners' weights in the objective
    """
    if not isinstance(model, LinearModel):
        return _of_other(model, records, weight)
    if model.standardise is not None:
        return _of_standardised(model, table, weight)
    columns = None if table is None else table.columns
    features, how = _features(table, population)
    size = math.nan if columns is None else float(columns * model.outputs)
    pull = _pull(model, features, how)
    slope = Known(math.nan if features is None else model.known_weights(2).slope * features.l2**2, how)
    one = model.outputs == 1 or model.clip is None or model.clip.norm == 2
    steeper = slope.value * (1 if one else 1 + math.sqrt(model.outputs)) + model.l2
    return Constants(
        mu=_mu(model, columns, population),
        L=Known(steeper, how).times(weight),
        D=(pull if model.l2 == 0 else UNBOUNDED).times(weight),
        kappa=pull.times(weight / math.sqrt(_at_once(model, records))),
        pull=pull.times(weight),
        c=_in_l1(model, features, how, size).times(weight),
        radius=pull.value / model.l2 if model.l2 > 0 else math.nan,
        near=2 * pull.value * weight if model.l2 > 0 else math.nan,
        seen=None if population is None else _seen(model, population).times(weight / math.sqrt(records)),
    )


def _features(table: Table | None, population: Population | None) -> tuple[FeatureBounds | None, str]:
    """Norms that no record exceeds: as declared, or the largest ones at hand."""
    if table is not None and table.bounds is not None:
        return table.bounds, "declared"
    if population is None:
        return None, NOTHING.how
    used = np.flatnonzero(population.share)
    size = abs(population.matrix).astype(np.float64)
    largest = [size.sum(axis=1), np.sqrt((size**2).sum(axis=1)), size.max(axis=1)]
    l1, l2, most = (float(np.ravel(dense(norm))[used].max()) for norm in largest)
    return FeatureBounds(l1, l2, most), f"the largest of {len(used)} records"


def _pull(model: LinearModel, features: FeatureBounds | None, how: str) -> Known:
    natural = _natural(model, features, 2)
    if model.clip is None or natural <= model.clip.c:  # ‖·‖₂ ≤ ‖·‖₁: a clipper in L1 bounds L2 as well
        return Known(natural, how)
    return Known(model.clip.c, "the clipper")


def _in_l1(model: LinearModel, features: FeatureBounds | None, how: str, size: float) -> Known:
    natural = _natural(model, features, 1)
    if model.clip is None:
        return Known(natural, how)
    cut = model.clip.c * _to_l1(model.clip, size)
    return Known(natural, how) if natural <= cut else Known(cut, "the clipper")


def _natural(model: LinearModel, features: FeatureBounds | None, norm: int) -> float:
    """What a record's gradient can be at most without a clipper; ∞ where nothing bounds it, NaN where not known."""
    most = model.known_weights(1 if norm == 1 else 2).most
    if math.isinf(most):
        return math.inf
    return math.nan if features is None else most * (features.l1 if norm == 1 else features.l2)


def clips(model: Model, table: Table | None) -> bool:
    """Whether a clipper may change a gradient: one that lets all pass that declared features allow does not."""
    if model.clip is None:
        return False
    if not isinstance(model, LinearModel) or model.standardise is not None or table is None:
        return True
    return not _natural(model, table.bounds, model.clip.norm) <= model.clip.c


def _mu(model: LinearModel, columns: int | None, population: Population | None) -> Known:
    least = model.l2 if columns is None or not model.intercept else float(model.ridge(columns).min())
    if model.bounded:
        return Known(least, "the ridge" if least or not model.l2 else "no ridge on the intercept")
    if population is None:
        return Known(least, "the ridge, and what records add is not looked at")
    if population.table.columns > MOST_COLUMNS:
        return Known(least, f"the ridge alone: of {population.table.columns} columns no eigenvalues are found")
    X = dense(population.matrix).astype(np.float64)
    moments = X.T @ (population.share[:, None] * X) + np.diag(model.ridge(population.table.columns))
    found = max(least, float(np.linalg.eigvalsh(moments)[0]))
    return Known(found, f"the ridge and the smallest eigenvalue of E aaᵀ of {len(population.share)} records")


def minimiser(model: LinearModel, population: Population) -> Array:
    """θ*; refuses where there is none, or looking for it would take too long."""
    numbers = len(population.share) * model.theta_size(population.table.columns)
    if numbers > MOST_NUMBERS:
        raise GossamerError(f"θ* of {numbers:.0e} numbers is not looked for: it would take too long.")
    return Objective(model, population).minimiser()


def _seen(model: LinearModel, population: Population) -> Known:
    """The deviation of one record's gradient at θ = 0 and, where there is one, at θ*: the larger."""
    size = population.table.columns * model.outputs
    points, where = [np.zeros(size)], "at θ = 0"
    try:
        points.append(minimiser(model, population))
        where = "at θ = 0 and θ*, the larger"
    except GossamerError:
        pass
    found = max(deviation(model, population, point) for point in points)
    return Known(found, f"estimated from {np.count_nonzero(population.share)} records {where}")


def deviation(model: LinearModel, population: Population, theta: Array) -> float:
    """√E‖∇l(θ, ξ) − E∇l(θ, ξ)‖² over a population, its records taken together, as they are clipped."""
    margins = Objective(model, population).margins(theta[None])
    weights = model.weights(margins, population.table.labels)[:, 0]
    matrix, share = population.matrix, population.share
    if model.clip is not None and model.clip.per == "record":
        weights = weights * _cut(model.clip, _norms(matrix, model.clip.norm), weights)
    mean = matrix.T @ (share[:, None] * weights)
    squares = share @ (_norms(matrix, 2) ** 2 * (weights**2).sum(axis=1))
    return math.sqrt(max(0.0, float(squares - (dense(mean) ** 2).sum())))


def _norms(matrix: Any, norm: int) -> Array:
    size = abs(matrix).astype(np.float64)
    each = size.sum(axis=1) if norm == 1 else np.sqrt((size**2).sum(axis=1))
    return np.ravel(dense(each))


def _cut(clip: Clip, lengths: Array, weights: Array) -> Array:
    """What a clipper multiplies each record's gradient with."""
    size = abs(weights).sum(axis=1) if clip.norm == 1 else np.linalg.norm(weights, axis=1)
    return np.asarray(np.minimum(1.0, clip.c / np.maximum(lengths * size, 1e-300))[:, None])


def _to_l1(clip: Clip | None, size: float) -> float:
    """‖·‖₁ ≤ √n ‖·‖₂: what a clipper in L2 leaves in L1."""
    return 1.0 if clip is None or clip.norm == 1 else math.sqrt(size)


def _at_once(model: Model, records: int) -> int:
    """How many records a bound of `pull` is shared by: a clipper of whole rounds takes one for a record."""
    return 1 if model.clip is not None and model.clip.per == "round" else records


def _of_standardised(model: LinearModel, table: Table | None, weight: float) -> Constants:
    """Numbers are seen in units of their spread, which learners find on the way: little is known beforehand."""
    unknown = Known(math.nan, "numbers are standardised, and how they are seen is found on the way")
    mu = Known(0.0, "the ridge is in units of spreads that are not known beforehand")
    pull = _by_clipper(model.clip, unknown, weight)
    size = math.nan if table is None else float(table.columns * model.outputs)
    return Constants(mu, unknown, unknown, unknown, pull, pull.times(_to_l1(model.clip, size)))


def _of_other(model: Model, records: int, weight: float) -> Constants:
    """A network, or a model of somebody's own: a clipper bounds what is used; nothing else is known for all θ."""
    network = model.arrays.tensors
    pull = _by_clipper(model.clip, Known(math.nan, "nothing bounds its gradients"), weight)
    unknown = Known(math.nan, "nothing is known of this model")
    return Constants(
        mu=Known(math.nan, "a network is not convex") if network else unknown,
        L=Known(math.inf, "a network's gradient changes without bound, and with ReLU it jumps") if network else unknown,
        D=pull if model.l2 == 0 else UNBOUNDED,
        kappa=pull.times(1 / math.sqrt(_at_once(model, records))),
        pull=pull,
        c=pull.times(_to_l1(model.clip, model.theta_size(0))),
        convex=False if network else None,
    )


def _by_clipper(clip: Clip | None, otherwise: Known, weight: float) -> Known:
    return otherwise if clip is None else Known(clip.c * weight, "the clipper")
