"""A regressor that scikit-learn knows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gossamer.estimator.base import DecentralizedEstimator
from gossamer.estimator.given import number_column
from gossamer.streams.columns import Column
from gossamer.types import Array

from sklearn.base import RegressorMixin  # isort: skip  (base says in one sentence where it is missing)
from sklearn.utils.validation import assert_all_finite, column_or_1d  # isort: skip


class PrivateDecentralizedRegressor(RegressorMixin, DecentralizedEstimator):
    """Ridge regression that learners fit together without a centre, each under a privacy budget of its own.

    Every fit spends its ε anew on the rows that it learns from. A GridSearchCV of k fits costs a row that is in all of
    them k budgets, and epsilon_ of the best estimator knows of one only: see docs/estimator.md.

    Parameters and attributes are those of PrivateDecentralizedClassifier, but for the labels:

    Parameters
    ----------
    target_bounds : (low, high), default None
        What y may be; values beyond are clipped. None: read off y, which is refused with epsilon.

    Attributes
    ----------
    coef_, intercept_
        (columns,) coefficients in the units that X and y have, and a number.
    """

    def __init__(
        self,
        epsilon: Any = None,
        *,
        delta: float | None = None,
        learners: int | None = None,
        network: Any = None,
        bounds: Any = None,
        categories: Any = None,
        target_bounds: Any = None,
        missing: str = "refuse",
        clip: float | None = None,
        l2: float | None = None,
        standardise: bool | None = None,
        remember: int | None = None,
        weight: str | None = None,
        algorithm: str = "ldp_gradient_tracking",
        steps: int | None = None,
        per_round: int | None = None,
        horizon: float | None = None,
        secrets: str | None = None,
        colluders: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.learners = learners
        self.network = network
        self.bounds = bounds
        self.categories = categories
        self.target_bounds = target_bounds
        self.missing = missing
        self.clip = clip
        self.l2 = l2
        self.standardise = standardise
        self.remember = remember
        self.weight = weight
        self.algorithm = algorithm
        self.steps = steps
        self.per_round = per_round
        self.horizon = horizon
        self.secrets = secrets
        self.colluders = colluders
        self.random_state = random_state

    def partial_fit(self, X: Any, y: Any, learner: Any = None) -> Self:
        """Learn from more rows, which arrive after all others; as PrivateDecentralizedClassifier.partial_fit says."""
        return self._learn_more(X, y, None, learner)

    def _labelled(self, y: Any, classes: Any, first: bool) -> Column:
        y = column_or_1d(y, warn=True)
        column = number_column(y)
        assert_all_finite(column.values, input_name="y")
        return column

    def _label_settings(self) -> dict[str, Any]:
        return {"target_bounds": self.target_bounds}

    @property
    def coef_(self) -> Array:
        """(columns,) what one unit of a column adds to what is predicted."""
        return np.asarray(self._weights()[0][0])

    @property
    def intercept_(self) -> float:
        return float(self._weights()[1][0])

    def predict(self, X: Any) -> Array:
        """(rows,) quantities in y's own units, by the mean of all learners' models."""
        margins = self._margins(X)
        return self._model.in_own_units(margins[:, 0])
