"""A classifier that scikit-learn knows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import BadValue, GossamerError
from gossamer.estimator.base import DecentralizedEstimator
from gossamer.estimator.given import class_column, class_names
from gossamer.streams.columns import Column
from gossamer.types import Array

from sklearn.base import ClassifierMixin  # isort: skip  (base says in one sentence where it is missing)
from sklearn.utils.multiclass import check_classification_targets  # isort: skip
from sklearn.utils.validation import assert_all_finite, column_or_1d  # isort: skip


MOST_CLASSES = 50  # that are read off labels: more are a quantity, or are named


class PrivateDecentralizedClassifier(ClassifierMixin, DecentralizedEstimator):
    """Logistic regression that learners fit together without a centre, each under a privacy budget of its own.

    It learns what `gossamer run --csv` learns of the same rows, with the same defaults. Two classes are told apart by
    logistic regression, more by softmax regression.

    Every fit spends its ε anew on the rows that it learns from. A GridSearchCV of k fits costs a row that is in all of
    them k budgets, and epsilon_ of the best estimator knows of one only: see docs/estimator.md.

    Parameters
    ----------
    epsilon : float, or {learner: float}; default None
        The budget ε of every row. Where learners have no names but numbers, 0, 1, …, it may be a list in that order.
        None trains without noise and warns; math.inf does so without a warning.
    delta : float, default None
        δ of the claim. None: 1e-5, or less where there are 50,000 rows or more.
    learners : int, default None
        How many learners rows are dealt to where nobody says whose they are. None: ten, or fewer where rows are few.
    network : Network, or the name or file of one, default None
        Who talks to whom. None: the paper's for ten learners, else a random one.
    bounds : (low, high), or {column: (low, high)}, default None
        What numbers may be, as you would say it without the data; values beyond are clipped. Ends are numbers, or one
        for each column. None: read off the rows, which is refused with epsilon.
    categories : {column: [name, …]}, default None
        What columns of words may hold. Others' are read off the rows, which is refused with epsilon.
    classes : list, default None
        What labels may be. None: read off y, which is refused with epsilon.
    missing : "refuse", "mean-of-range" or "category", default "refuse"
        What becomes of a value that a row does not have.
    clip : float, default None
        The length that every row's gradient is clipped to. None: by rule.
    l2 : float, default None
        The ridge penalty, l2/2 ‖θ‖². None: 1/rows.
    standardise : bool, default None
        Whether learners look at numbers from their middle, in units of their spread. None: yes.
    remember : int, default None
        Learn from the rows of so many rounds, the newest, and not from all so far: a round of partial_fit then takes
        no more time and memory, however many came before. None: from all.
    weight : "records" or "equal", default None
        Whether learners count by how many rows they have, or all alike. None: by their rows.
    algorithm : str, default "ldp_gradient_tracking"
        The method, by its name, or package.module:name of your own.
    steps : int, default None
        Rounds. None: as many as there are rows, from 100 to 1000; for partial_fit 1000 are planned.
    per_round : int, default None
        For partial_fit: rows of every learner that a round takes in. None: what makes a hundred rounds of the first
        call's rows, or fewer where a learner has fewer.
    horizon : float, default None
        Rounds that the budget is meant for. None: fit's `steps`; for ever with partial_fit.
    secrets : str, default None
        Noise that learners share pair by pair and that cancels: "complete" or "4-regular".
    colluders : int, default None
        With secrets: how many others may put their secrets together, and ε still holds. None: 1.
    random_state : int, RandomState or None, default 0
        Decides whom rows are dealt to. Noise with a budget comes from the operating system, never from a seed.

    Attributes
    ----------
    classes_, coef_, intercept_, coef_names_, n_features_in_, feature_names_in_
        As in scikit-learn; coefficients are in the units that X has, and coef_names_ says what each belongs to.
    epsilon_, claim_, notes_
        ε that was spent, what is claimed and against whom, and what a reader must know.
    record_, network_
        The run record, which saves, plots and exports the model, and the network.
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
        classes: Any = None,
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
        self.classes = classes
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

    def partial_fit(self, X: Any, y: Any, classes: Any = None, learner: Any = None) -> Self:
        """Learn from more rows, which arrive after all others.

        A round is run as soon as every learner has `per_round` rows; what is left over waits for the next call. Rows
        without a `learner` go to the learners in turn. `classes` are declared by the first call, here or as a
        parameter. The budget is for all calls together: see docs/estimator.md.
        """
        return self._learn_more(X, y, classes, learner)

    def _labelled(self, y: Any, classes: Any, first: bool) -> Column:
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        said = self.classes if classes is None else classes
        if first and said is None:
            _refuse_quantity(y)
        check_classification_targets(y)
        if first:
            self.classes_ = np.unique(y if said is None else np.asarray(said))
            self._read_off = self.classes_.tolist() if said is None else None
            if len(self.classes_) < 2:
                raise GossamerError(
                    f"y has one class, {self.classes_.tolist()[0]!r}, expected at least two: add rows of another "
                    "class, or name the others in classes=."
                )
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise BadValue("classes", classes, f"the first call had {self.classes_.tolist()!r}", "leave it out")
        return class_column(y, self.classes_)

    def _label_settings(self) -> dict[str, Any]:
        return {"classes": class_names(self.classes_), "read_off": self._read_off}

    @property
    def coef_(self) -> Array:
        """(1, columns) of two classes, (classes, columns) of more: what one unit of a column adds to a margin."""
        return self._weights()[0]

    @property
    def intercept_(self) -> Array:
        return self._weights()[1]

    def predict(self, X: Any) -> NDArray[Any]:
        """(rows,) the likeliest class of every row, by the mean of all learners' models."""
        margins = self._margins(X)
        return np.asarray(self.classes_[self._model.chosen(margins)])

    def predict_proba(self, X: Any) -> Array:
        """(rows, classes) every class's probability, in the order of classes_."""
        margins = self._margins(X)
        return self._model.probabilities(margins)


def _refuse_quantity(y: NDArray[Any]) -> None:
    """Whole numbers of many values are no classes that anybody meant; scikit-learn refuses other numbers itself."""
    whole = y.dtype.kind != "f" or bool((y == np.floor(y)).all())
    if whole and (count := len(set(y.tolist()))) > MOST_CLASSES:
        raise GossamerError(
            f"y has {count} distinct labels, expected at most {MOST_CLASSES} classes: for a quantity use "
            "PrivateDecentralizedRegressor, or name the classes in classes=."
        )
