"""F(θ) = 1/m Σ_i f_i(θ) over the whole population, its derivatives, and its minimiser θ*."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from gossamer.models.linear import Model
from gossamer.records import Population
from gossamer.types import Array, GossamerError

GRADIENT_TOLERANCE = 1e-10
MARGINS_AT_ONCE = 2**20  # bounds the memory of an evaluation: 8 MiB of margins
_minimisers: WeakKeyDictionary[Population, dict[Model, Array]] = WeakKeyDictionary()


class Objective:
    """F of a linear model on a population. Values for many learners come from one matrix product."""

    def __init__(self, model: Model, population: Population) -> None:
        self.model, self.population = model, population
        self.size = population.table.columns * model.outputs

    def margins(self, theta: Array) -> Array:
        """(records, learners, K) of aᵀθ."""
        columns, outputs = self.population.table.columns, self.model.outputs
        stacked = theta.reshape(-1, columns, outputs).transpose(1, 0, 2).reshape(columns, -1)
        product: Array = self.population.matrix @ stacked
        return product.reshape(len(product), -1, outputs)

    def evaluate(self, theta: Array) -> tuple[Array, Array]:
        """F(θ_i) and the share of the population predicted right (R² for a regression), of every row of θ."""
        share, labels = self.population.share, self.population.table.labels
        values, quality = np.empty(len(theta)), np.empty(len(theta))
        at_once = max(1, MARGINS_AT_ONCE // (len(labels) * self.model.outputs))
        for k in range(0, len(theta), at_once):
            block = slice(k, k + at_once)
            margins = self.margins(theta[block])
            values[block] = share @ self.model.losses(margins, labels)
            quality[block] = self.model.quality(margins, labels, share)
        return values + 0.5 * self.model.l2 * (theta**2).sum(axis=1), quality

    def value(self, theta: Array) -> float:
        """F at one θ."""
        return float(self.evaluate(theta[None])[0][0])

    def gradient(self, theta: Array) -> Array:
        """∇F at one θ."""
        weights = self.model.weights(self.margins(theta[None]), self.population.table.labels)
        return self._back(weights) + self.model.l2 * theta

    def hessian_times(self, theta: Array, direction: Array) -> Array:
        """∇²F(θ) · direction."""
        moved = self.model.curve(self.margins(theta[None]), self.margins(direction[None]))
        return self._back(moved) + self.model.l2 * direction

    def _back(self, weights: Array) -> Array:
        value: Array = self.population.matrix.T @ (weights[:, 0] * self.population.share[:, None])
        return value.ravel()

    def minimiser(self) -> Array:
        """θ* with ‖∇F(θ*)‖ ≤ 1e-10; found once for a population and a model."""
        known = _minimisers.setdefault(self.population, {})
        if self.model not in known:
            known[self.model] = self._minimise()
        return known[self.model]

    def _minimise(self) -> Array:
        """Newton's method with conjugate gradients inside.

        A small gradient alone is not enough: on separable classes without a ridge it fades as θ runs off to infinity,
        and Newton's step stays long. Where that is so there is no minimiser, and we say so.
        """
        theta = np.zeros(self.size)
        gradient = self.gradient(theta)
        for _ in range(100):
            norm = float(np.linalg.norm(gradient))
            direction = self._newton_direction(theta, gradient, min(0.1, norm)) if norm else gradient
            if norm <= GRADIENT_TOLERANCE:
                if np.linalg.norm(direction) <= 1e-3 * (1 + np.linalg.norm(theta)):
                    return theta
                break
            theta, gradient = self._line_search(theta, gradient, direction)
        raise GossamerError(
            f"F has no minimiser that Newton's method could find (‖θ‖ = {np.linalg.norm(theta):.1e}, "
            f"‖∇F‖ = {np.linalg.norm(gradient):.1e}, l2 = {self.model.l2:g}): with separable classes use l2 > 0."
        )

    def _newton_direction(self, theta: Array, gradient: Array, tolerance: float) -> Array:
        """−∇²F⁻¹∇F by conjugate gradients, to a residual of `tolerance`·‖∇F‖."""
        direction, residual = np.zeros_like(theta), -gradient
        search, square = residual.copy(), float(residual @ residual)
        goal = (tolerance**2) * square
        for _ in range(10 * self.size):
            if square <= goal:
                break
            image = self.hessian_times(theta, search)
            curvature = float(search @ image)
            if curvature <= 1e-300:  # flat to rounding: further this way is noise
                break
            length = square / curvature
            direction = direction + length * search
            residual = residual - length * image
            before, square = square, float(residual @ residual)
            search = residual + (square / before) * search
        return direction if direction.any() else -gradient

    def _line_search(self, theta: Array, gradient: Array, direction: Array) -> tuple[Array, Array]:
        """Halve the step until F falls enough, or, where F is flat to rounding, until ‖∇F‖ does."""
        value, slope = self.value(theta), float(gradient @ direction)
        length = 1.0
        for _ in range(60):
            trial = theta + length * direction
            trial_gradient = self.gradient(trial)
            falls = self.value(trial) <= value + 1e-4 * length * slope
            if falls or np.linalg.norm(trial_gradient) < 0.9 * np.linalg.norm(gradient):
                break
            length /= 2
        return trial, trial_gradient
