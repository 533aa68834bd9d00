"""F(θ) = 1/m Σ_i f_i(θ) over the whole population, its derivatives, and its minimiser θ*."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import scipy

from gossamer.arrays import dense
from gossamer.errors import Argument, GossamerError
from gossamer.records import Population, Table
from gossamer.types import Array

if TYPE_CHECKING:
    from gossamer.models.linear import LinearModel

GRADIENT_TOLERANCE = 1e-10
LARGEST = 1e20  # of features and labels: beyond it Newton's method overflows, or never ends
WHOLE, FEATURES = 1000, 2**25  # parameters, and numbers in all records, up to which the Hessian is had whole
STEPS = 100  # of Newton's, from 0
MARGINS_AT_ONCE = 2**20  # bounds the memory of an evaluation: 8 MiB of margins
NUMBERS_AT_ONCE = 2**20  # likewise of a Hessian: 8 MiB of records
_minimisers: WeakKeyDictionary[Population, dict[LinearModel, Array]] = WeakKeyDictionary()


class Objective:
    """F of a linear model on a population. Values for many learners come from one matrix product."""

    def __init__(self, model: LinearModel, population: Population) -> None:
        self.model, self.population = model, population
        self.size = population.table.columns * model.outputs
        self._ridge = model.ridge(population.table.columns) * self._variances()

    def _variances(self) -> Array | float:
        """What l2 is multiplied with: the variance of every number that is standardised."""
        if self.model.standardise is None or not self.model.standardise.columns:
            return 1.0
        each, where = np.ones(self.population.table.columns), list(self.model.standardise.columns)
        numbers, share = self.population.table.rows[:, where], self.population.share
        middles = share @ numbers if self.model.intercept else np.zeros(len(where))
        each[where] = share @ (numbers - middles) ** 2
        return np.repeat(each, self.model.outputs)

    def margins(self, theta: Array) -> Array:
        """(records, learners, K) of aᵀθ."""
        columns, outputs = self.population.table.columns, self.model.outputs
        stacked = theta.reshape(-1, columns, outputs).transpose(1, 0, 2).reshape(columns, -1)
        product: Array = self.population.matrix @ stacked
        return product.reshape(len(product), -1, outputs)

    def margins_of_many(self, theta: Array) -> Iterator[tuple[slice, Array]]:
        """The margins of some rows of θ after the other, as many at once as memory is well used for."""
        at_once = max(1, MARGINS_AT_ONCE // (len(self.population.table) * self.model.outputs))
        for k in range(0, len(theta), at_once):
            block = slice(k, k + at_once)
            with np.errstate(over="ignore", invalid="ignore"):
                yield block, self.margins(theta[block])

    def evaluate(self, theta: Array) -> tuple[Array, Array]:
        """F(θ_i) and the share of the population predicted right (R² for a regression), of every row of θ."""
        share, labels = self.population.share, self.population.table.labels
        values, quality = np.empty(len(theta)), np.empty(len(theta))
        for block, margins in self.margins_of_many(theta):
            with np.errstate(over="ignore", invalid="ignore"):  # a loss that overflows is ∞
                values[block] = share @ self.model.losses(margins, labels)
                quality[block] = self.model.quality(margins, labels, share)
        return values + 0.5 * (theta**2 @ self._ridge), quality

    def value(self, theta: Array) -> float:
        """F at one θ."""
        return float(self.evaluate(theta[None])[0][0])

    def gradient(self, theta: Array) -> Array:
        """∇F at one θ."""
        weights = self.model.weights(self.margins(theta[None]), self.population.table.labels)
        return self._back(weights) + self._ridge * theta

    def hessian_times(self, theta: Array, direction: Array) -> Array:
        """∇²F(θ) · direction."""
        moved = self.model.curve(self.margins(theta[None]), self.margins(direction[None]))
        return self._back(moved) + self._ridge * direction

    def _back(self, weights: Array) -> Array:
        value: Array = self.population.matrix.T @ (weights[:, 0] * self.population.share[:, None])
        return value.ravel()

    def minimiser(self) -> Array:
        """θ* with ‖∇F(θ*)‖ ≤ 1e-10; found once for a population and a model."""
        table = self.population.table
        ends = [f(part, initial=0) for part in (table.rows, table.labels) for f in (np.max, np.min)]
        largest = float(np.abs(ends).max())  # without a copy of all records
        if not largest <= LARGEST:
            raise GossamerError(f"records hold numbers up to {largest:.1e}: scale them to below {LARGEST:g}.")
        known = _minimisers.setdefault(self.population, {})
        if self.model not in known:
            known[self.model] = self._minimise()
        return known[self.model]

    def _minimise(self) -> Array:
        """A trust-region Newton method, and from where F is flat to rounding, which stops it, plain Newton steps.

        Where the Hessian is small enough to be had whole, damped Newton steps do without the former: features that are
        nearly one another's multiples, or far from 0, do not slow them down.

        A small gradient alone is not enough: on separable classes without a ridge it fades as θ runs off to infinity,
        while Newton's step stays long. Where that is so there is no minimiser, and we say so.
        """
        theta = self._descended() if self._small else self._trusted()
        for _ in range(10):
            gradient = self.gradient(theta)
            onward = self._newton_step(theta, gradient)
            if np.linalg.norm(gradient) <= GRADIENT_TOLERANCE:
                break
            theta = theta + onward
        norm, length, size = (float(np.linalg.norm(v)) for v in (gradient, onward, theta))
        typical = 1 / math.sqrt(max(self._squares() / len(self.population.share), 1e-300))
        settled = norm <= GRADIENT_TOLERANCE or length <= 1e-12 * size  # or as close as rounding allows
        if not settled or length > 1e-3 * (size + typical):
            raise GossamerError(
                f"F has no minimiser that Newton's method could find (‖θ‖ = {size:.1e}, ‖∇F‖ = {norm:.1e}, "
                f"next step {length:.1e}, l2 = {self.model.l2:g}): with separable classes use ",
                Argument("l2", "above 0", python="l2 > 0"), ".",
            )  # fmt: skip
        return theta

    def _trusted(self) -> Array:
        """Where a trust-region Newton method comes to from 0."""
        minimum = scipy.optimize.minimize(
            self.value,
            np.zeros(self.size),
            jac=self.gradient,
            hessp=self.hessian_times,
            method="trust-ncg",
            options={"gtol": GRADIENT_TOLERANCE, "maxiter": 500},
        )
        return np.asarray(minimum.x)

    def _descended(self) -> Array:
        """Where damped Newton steps come to from 0: each is halved until F falls by a share of what it promises."""
        theta, value = np.zeros(self.size), self.value(np.zeros(self.size))
        for _ in range(STEPS):
            gradient = self.gradient(theta)
            onward = self._newton_step(theta, gradient)
            promised, share = float(gradient @ onward), 1.0
            while share > 1e-6 and not self.value(theta + share * onward) <= value + 1e-4 * share * promised:
                share /= 2
            if share <= 1e-6 or np.linalg.norm(gradient) <= GRADIENT_TOLERANCE:
                break
            theta = theta + share * onward
            value = self.value(theta)
        return theta

    @cached_property
    def _steep(self) -> Array:
        """The ridge, and 1 in every direction in which F does not change."""
        flat = np.stack([self._flat(one) for one in np.eye(self.size)], axis=1)
        return np.asarray(np.diag(np.broadcast_to(self._ridge, self.size)) + flat)

    @property
    def _small(self) -> bool:
        return self.size <= WHOLE and len(self.population.share) * self.population.table.columns <= FEATURES

    def _records_at_once(self) -> list[slice]:
        """All records, as many at once as there is room for another copy of."""
        records, at_once = len(self.population.share), max(1, NUMBERS_AT_ONCE // self.population.table.columns)
        return [slice(k, k + at_once) for k in range(0, records, at_once)]

    def _squares(self) -> float:
        """The sum of all features' squares."""
        features = self.population.matrix
        return math.fsum(float((abs(features[some]) ** 2).sum()) for some in self._records_at_once())

    def _hessian(self, theta: Array) -> Array:
        """∇²F, with the directions in which F does not change made as steep as any."""
        features, share = dense(self.population.matrix), self.population.share
        margins, K = self.margins(theta[None]), self.model.outputs
        n, whole = features.shape[1], np.zeros((features.shape[1], K, features.shape[1], K))
        for k in range(K):
            curved = self.model.curve(margins, np.broadcast_to(np.eye(K)[k], margins.shape))[:, 0]
            for j in range(k + 1):
                weights, block = (share * curved[:, j])[:, None], np.zeros((n, n))
                for some in self._records_at_once():
                    block += features[some].T @ (weights[some] * features[some])
                whole[:, k, :, j], whole[:, j, :, k] = block, block.T
        return whole.reshape(self.size, self.size) + self._steep

    def _newton_step(self, theta: Array, gradient: Array) -> Array:
        """−∇²F⁻¹∇F."""
        if self._small:
            try:
                factor = scipy.linalg.cho_factor(self._hessian(theta))
                return np.asarray(scipy.linalg.cho_solve(factor, self._flat(gradient) - gradient))
            except (scipy.linalg.LinAlgError, ValueError):  # flat to rounding, or not finite
                pass
        from scipy.sparse.linalg import LinearOperator, cg

        def curved(v: Array) -> Array:
            return self.hessian_times(theta, v) + self._flat(v)

        hessian: LinearOperator = LinearOperator((self.size, self.size), curved, dtype=float)
        step, _ = cg(hessian, self._flat(gradient) - gradient, rtol=1e-6, maxiter=10 * self.size)
        return np.asarray(step)

    def _flat(self, v: Array) -> Array:
        """The part of v along which F does not change: of several classes, what all weights of a free column share."""
        if self.model.outputs == 1:
            return np.zeros_like(v)
        each = v.reshape(-1, self.model.outputs)
        shared = np.where(self._ridge.reshape(each.shape) == 0, each.mean(axis=1, keepdims=True), 0.0)
        return np.asarray(shared.ravel())


def quality_of(model: LinearModel, theta: Array, table: Table) -> Array:
    """How well every row of θ predicts a table's records, each of which counts as much as another."""
    everyone = Population(table, np.full(len(table), 1 / len(table)))
    return Objective(model, everyone).evaluate(theta)[1]
