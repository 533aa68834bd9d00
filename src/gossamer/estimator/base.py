"""What both estimators share: from rows to a run, and from a run to predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from gossamer.errors import GossamerError, NotProvable
from gossamer.estimator.asked import Asked, column_named
from gossamer.estimator.given import (
    Given,
    features_of_array,
    features_of_frame,
    given_of,
    is_frame,
    labels_decide,
    name_of_labels,
    refuse_one_name,
)
from gossamer.estimator.ongoing import Ongoing, start
from gossamer.estimator.training import Trained, train
from gossamer.estimator.unprotected import warn_unless_said
from gossamer.estimator.words import said_by, words_for
from gossamer.networks import Network
from gossamer.predictions import FittedModel
from gossamer.run_record import Record
from gossamer.streams.columns import Column, Columns
from gossamer.types import Array

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data
except ImportError:
    raise GossamerError("an estimator needs scikit-learn: pip install 'gossamer-learning[sklearn]'.") from None

MOST_SEED = 2**31 - 1
NO_LABELS = "no_validation"  # what scikit-learn takes for labels that are not there
OF_LABELS = ("classes", "target_bounds")  # parameters that a classifier or a regressor has of its own


class DecentralizedEstimator(BaseEstimator, ABC):
    """Parameters, rows in and predictions out; a classifier and a regressor differ in their labels."""

    @abstractmethod
    def _labelled(self, y: Any, classes: Any, first: bool) -> Column:
        """The labels as a column; at the first call also what is to be known of them."""

    @abstractmethod
    def _label_settings(self) -> dict[str, Any]:
        """What is asked of the labels, as `Asked` takes it."""

    # -- learning ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, learner: Any = None) -> Self:
        """Learn from rows X with labels y, in one run.

        `learner` says whose each row is, by name or number: one learner for each. None: rows are dealt at random, by
        `random_state`, to `learners` of them. Every call is a run of its own and, with `epsilon`, costs that budget.
        """
        for name in [name for name in vars(self) if name.endswith("_") or name in ("_run", "_model")]:
            delattr(self, name)
        given = self._given(X, y, learner, None, first=True, least=2)
        with said_by(words_for(given.target)):
            self._ended(train(self._asked(), given))
        warn_unless_said(self.epsilon, 2)
        return self

    def _learn_more(self, X: Any, y: Any, classes: Any, learner: Any) -> Self:
        first = not self.__sklearn_is_fitted__()
        if not first and isinstance(self._run, Trained):
            raise GossamerError(
                "partial_fit after fit: what fit has learnt is a run that has ended, with its budget; learn from all "
                "rows with fit, or from the first on with partial_fit, on a clone."
            )
        if isinstance(run := vars(self).get("_run"), Ongoing):
            run.refuse_more()
        given = self._given(X, y, learner, classes, first)
        with said_by(words_for(given.target)):
            run = start(self._asked(), given) if first else self._run
            assert isinstance(run, Ongoing)
            run.take(given)
            if first:
                self._ended(run)  # before anything is sent: whatever stops the rounds, no second run begins anew
            run.advance()
            self._ended(run)
            run.done()
        if first:
            warn_unless_said(self.epsilon, 3)
        return self

    def _ended(self, run: Trained | Ongoing) -> None:
        self._run, self._model = run, run.fitted()

    def _asked(self) -> Asked:
        shared = {name: value for name, value in self.get_params(deep=False).items() if name not in OF_LABELS}
        del shared["random_state"]
        return Asked(**shared, **self._label_settings(), seed=self._seed())

    def _seed(self) -> int:
        given = self.random_state
        if isinstance(given, int | np.integer) and not isinstance(given, bool):
            return int(given)
        return int(check_random_state(given).randint(MOST_SEED))

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _given(self, X: Any, y: Any, learner: Any, classes: Any, first: bool, least: int = 1) -> Given:
        """Rows and labels as the library's columns."""
        refuse_one_name(learner)
        name = name_of_labels(y) if first else self._model.schema.target  # type: ignore[union-attr]
        features, checked = self._features(X, y, first, least)
        labels = self._labelled(checked, classes, first)
        if len(labels) != len(features):
            raise GossamerError(f"X has {len(features)} rows and y {len(labels)}: give a label for every row.")
        run = None if first else self._run  # a run that goes on is as private as it began
        private = run.plan.mechanism is not None if isinstance(run, Ongoing) else Asked(epsilon=self.epsilon).private
        if private and labels_decide(y, learner, first):
            raise NotProvable(
                "privacy cannot be proved: learner= holds what y holds, so that a row's label decides whose it is, and "
                "with that in which round others are used: give learner= something that is known without the labels."
            )
        return given_of(features, labels, name, learner)

    def _features(self, X: Any, y: Any, first: bool, least: int = 1) -> tuple[Columns, Any]:
        """Rows, and labels where there are some, checked as scikit-learn checks them."""
        if is_frame(X):
            validate_data(self, X, y, reset=first, skip_check_array=True)
            return features_of_frame(X, self._words()), y
        kind = self._kind(first)
        finite = False if kind is object else "allow-nan" if self.missing != "refuse" else True
        checked = validate_data(self, X, y, reset=first, dtype=kind, ensure_all_finite=finite, ensure_min_samples=least)
        X, y = checked if isinstance(checked, tuple) else (checked, y)
        return features_of_array(X, self._names(), self._words()), y

    def _margins(self, X: Any) -> Array:
        """(rows, outputs) aᵀθ of rows without labels."""
        check_is_fitted(self)
        with said_by(words_for("")):
            return self._model.margins(self._features(X, NO_LABELS, first=False)[0])

    def _names(self) -> list[str]:
        """What the columns are called: as in the frame, else x0, x1, …"""
        named = getattr(self, "feature_names_in_", None)
        return [f"x{k}" for k in range(self.n_features_in_)] if named is None else [str(one) for one in named]

    def _words(self) -> Sequence[str]:
        """Columns of declared categories, which are words even where they look like numbers."""
        return [column_named("categories", key, self._names()) for key in self.categories or ()]

    def _kind(self, first: bool) -> Any:
        """What arrays hold: numbers, unless some columns are declared, or known from a frame, to hold words."""
        known = {} if first else self._model.schema.categories  # type: ignore[union-attr]
        return object if self.categories or known else np.float64

    # -- what came of it -----------------------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = Asked(epsilon=self.epsilon).private  # noise comes from no seed
        tags.input_tags.allow_nan = self.missing != "refuse"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "_run" in vars(self)

    @property
    def record_(self) -> Record:
        """The run record: what was run, how it went, what it claims; it saves, plots and exports the model."""
        check_is_fitted(self)
        return self._run.record()

    @property
    def network_(self) -> Network:
        """Who talked to whom."""
        check_is_fitted(self)
        return self._run.network

    @property
    def notes_(self) -> list[str]:
        """What a reader must know: what was read off the data, what was decided by rule, what was clipped."""
        check_is_fitted(self)
        return self._run.notes()

    @property
    def claim_(self) -> str:
        """What privacy the model may claim, and against whom."""
        return self.record_.claim

    @property
    def epsilon_(self) -> float:
        """ε that was spent on these rows so far, the largest of all learners'; ∞ where nothing is claimed."""
        check_is_fitted(self)
        return self._run.spent()

    @property
    def coef_names_(self) -> list[str]:
        """What every column of coef_ belongs to, in the order of X's: age, ward=emergency, ward=surgery."""
        check_is_fitted(self)
        schema = self._model.schema
        assert schema is not None
        known = {*schema.ranges, *schema.categories}
        return [column for name in self._names() for column in (schema.columns_of(name) if name in known else [name])]

    def _weights(self) -> tuple[Array, Array]:
        """(outputs, columns) coefficients in X's units, 0 for what was left out, and (outputs,) constants."""
        names, original = self.coef_names_, self._model.original()
        place = {name: k for k, name in enumerate(original.names)}
        rows = [original.weights[place[name]] if name in place else 0 * original.constant for name in names]
        return np.array(rows).T, original.constant

    _run: Trained | Ongoing
    _model: FittedModel
