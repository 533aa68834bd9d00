"""River's face: learners of a network that lives in one process, each an estimator of its own.

    network = gs.LearnerNetwork(("north", "south"), epsilon=3.0, bounds={"age": (18, 100)}, classes=(False, True))
    north, south = network.classifier("north"), network.classifier("south")
    north.learn_one({"age": 41}, False)

A record that a learner is given waits until all learners have as many as a round takes in. Then the learners exchange a
round, and each goes on with its own model. Records that come one by one cannot be looked at beforehand: so what a
feature may be, and what a label, is declared, with a budget and without. A feature that a record does not have is the
middle of its range, or none of its categories; one that was not declared is not looked at.

With a budget no value decides whether a record is taken, because how many there are in a round is public: what is no
number is the middle, and a label that is no class counts as the first. Without a budget such a label is refused.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.estimator.asked import Asked
from gossamer.estimator.ongoing import Ongoing
from gossamer.estimator.planning import plan_of
from gossamer.estimator.unprotected import warn_unless_said
from gossamer.run_record import Record
from gossamer.streams.columns import text_of
from gossamer.streams.schema import SCALED_TO, Schema
from gossamer.types import Array

try:
    from river import base
except ImportError:
    raise GossamerError("river's learners need river: pip install 'gossamer-learning[river]'.") from None

TARGET = "target"
log = logging.getLogger(__name__)  # no warning, which a filter could turn into an error once the record is taken


class LearnerNetwork(base.Base):
    """Learners that learn one model together, record by record, each under a privacy budget of its own.

    Parameters
    ----------
    learners
        How many, or their names.
    epsilon
        The budget ε of every record, for ever, or one for each learner: a list in the order of `learners`, or
        {learner: ε}. None learns without noise and warns; math.inf does so without a warning.
    delta
        δ of the claim [default: 1e-5].
    graph
        Who talks to whom: a Network, or the name or file of one [default: a random one].
    bounds
        {feature: (low, high)}: what numbers may be; values beyond are clipped.
    categories
        {feature: (name, …)}: what words may be.
    classes
        What labels may be, where they are classes.
    target_bounds
        (low, high): what labels may be, where they are a quantity.
    per_round
        Records of every learner that a round takes in.
    steps
        Rounds that noise and step sizes are planned for; the learners go on after them.
    horizon
        Rounds that the budget is meant for [default: for ever].
    clip, l2, standardise, remember, algorithm, secrets, colluders
        As for PrivateDecentralizedClassifier.

    """

    def __init__(
        self,
        learners: Any = 2,
        epsilon: Any = None,
        delta: float | None = None,
        graph: Any = None,
        bounds: Any = None,
        categories: Any = None,
        classes: Any = None,
        target_bounds: Any = None,
        per_round: int = 1,
        steps: int = 1000,
        horizon: float | None = None,
        clip: float | None = None,
        l2: float | None = None,
        standardise: bool | None = None,
        remember: int | None = None,
        algorithm: str = "ldp_gradient_tracking",
        secrets: str | None = None,
        colluders: int | None = None,
    ) -> None:
        self.learners = learners
        self.epsilon = epsilon
        self.delta = delta
        self.graph = graph
        self.bounds = bounds
        self.categories = categories
        self.classes = classes
        self.target_bounds = target_bounds
        self.per_round = per_round
        self.steps = steps
        self.horizon = horizon
        self.clip = clip
        self.l2 = l2
        self.standardise = standardise
        self.remember = remember
        self.algorithm = algorithm
        self.secrets = secrets
        self.colluders = colluders
        if isinstance(per_round, bool) or not isinstance(per_round, int | np.integer) or per_round < 1:
            raise BadValue("per_round", per_round, "expected a whole number ≥ 1")
        self._run: Ongoing | None = None
        self._schema = self._declared()
        self._layout = _Layout.of_schema(self._schema)
        self._names = _names_of(learners)
        warn_unless_said(epsilon, 2)

    def _declared(self) -> Schema:
        """What a record looks like; refuses to guess."""
        if (self.classes is None) == (self.target_bounds is None):
            raise GossamerError(
                "records that come one by one cannot be looked at beforehand: say what labels may be, either ",
                Argument("classes", (False, True)), " or ", Argument("target_bounds", (0, 100)), ".",
            )  # fmt: skip
        if not self.bounds and not self.categories:
            raise GossamerError(
                "records that come one by one cannot be looked at beforehand: say what features may be, ",
                Argument("bounds", {"age": (18, 100)}), " for numbers and ",
                Argument("categories", {"sex": ("f", "m")}), " for words.",
            )  # fmt: skip
        if TARGET in {str(name) for name in (*(self.bounds or ()), *(self.categories or ()))}:
            raise GossamerError(
                f"a feature may not be called {TARGET!r}, which is what the label is called here: declare the label's "
                "with classes= or target_bounds=, or give the feature another name."
            )
        ranges = {str(name): (float(low), float(high)) for name, (low, high) in (self.bounds or {}).items()}
        categories = {str(name): [text_of(one) for one in kinds] for name, kinds in (self.categories or {}).items()}
        if self.target_bounds is not None:
            ranges[TARGET] = (float(self.target_bounds[0]), float(self.target_bounds[1]))
        return Schema(TARGET, [text_of(one) for one in self.classes or ()], ranges, categories)

    def classifier(self, learner: str | int) -> ClassifyingLearner:
        """The learner of this name or number, which tells classes apart."""
        return ClassifyingLearner(self, learner)

    def regressor(self, learner: str | int) -> PredictingLearner:
        """The learner of this name or number, which predicts a quantity."""
        return PredictingLearner(self, learner)

    @property
    def run(self) -> Ongoing:
        """The rounds so far; they begin when they are first asked for."""
        if self._run is None:
            asked = Asked(
                epsilon=self.epsilon, delta=self.delta, network=self.graph,
                classes=None if self.classes is None else self._schema.classes, target_bounds=self.target_bounds,
                clip=self.clip, l2=self.l2, standardise=self.standardise, remember=self.remember,
                algorithm=self.algorithm, steps=self.steps, horizon=self.horizon, secrets=self.secrets,
                colluders=self.colluders,
            ).among(self._names)  # fmt: skip
            pace = np.full(len(self._names), self.per_round)
            self._run = Ongoing(plan_of(asked, self._schema, self._schema.table(), self._names, pace))
        return self._run

    @property
    def record(self) -> Record:
        """The run record of this moment: budgets, how it went, what is claimed; it saves and exports the model."""
        return self.run.record()

    def place(self, learner: str | int) -> int:
        """A learner's number, by its name or number."""
        if str(learner) in self._names:
            return self._names.index(str(learner))
        if isinstance(learner, int) and 0 <= learner < len(self._names):
            return learner
        raise BadValue("learner", learner, f"expected one of {', '.join(self._names[:12])}, or a number")

    def row_of(self, x: Mapping[Any, Any]) -> Array:
        """A record's features as θ's columns are laid out; what is missing adds nothing."""
        row = np.zeros(self._schema.columns)
        row[-1] = 1.0
        layout = self._layout
        if layout.numbers:
            row[layout.columns] = layout.scale.of([x.get(name) for name in layout.numbers])
        for name, places in layout.words.items():
            place = places.get(_word(x.get(name)))
            if place is not None:
                row[place] = 1.0
        return row

    def label_of(self, y: Any) -> float:
        """A quantity on the scale of its bounds."""
        return float(_Scale.of_ranges([self._schema.ranges[TARGET]]).of([y])[0])


class _Scale(NamedTuple):
    """How numbers are scaled by their ranges, and clipped to them."""

    low: Array
    width: Array

    @classmethod
    def of_ranges(cls, ranges: Sequence[tuple[float, float]]) -> _Scale:
        low, high = np.array(ranges, dtype=float).reshape(-1, 2).T
        return cls(low, high - low)

    def of(self, values: Sequence[Any]) -> Array:
        """What is no finite number is the middle."""
        bottom, top = SCALED_TO
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = bottom + (top - bottom) * (_numbers(values) - self.low) / self.width
        return np.where(np.isfinite(scaled), scaled.clip(bottom, top), (bottom + top) / 2)


class _Layout(NamedTuple):
    """Where a record's features lie in a row."""

    numbers: list[str]
    columns: list[int]
    scale: _Scale
    words: dict[str, dict[str, int]]  # of every column of words, where each of its categories lies

    @classmethod
    def of_schema(cls, schema: Schema) -> _Layout:
        place = {name: k for k, name in enumerate(schema.column_names)}
        numbers = [name for name in schema.features if name in schema.ranges]
        scale = _Scale.of_ranges([schema.ranges[name] for name in numbers])
        words = {name: {one: place[f"{name}={one}"] for one in listed} for name, listed in schema.categories.items()}
        return cls(numbers, [place[name] for name in numbers], scale, words)


def _numbers(values: Sequence[Any]) -> Array:
    """Numbers, NaN for what is none."""
    try:
        numbers = np.array(values, dtype=float)
    except Exception:  # each by itself, then
        numbers = np.empty(())
    return numbers if numbers.shape == (len(values),) else np.array([_number(one) for one in values])


def _number(value: Any) -> float:
    try:
        return float(value)
    except Exception:  # whatever a value does when it is asked for a number, its record is taken
        return math.nan


def _word(value: Any) -> str:
    try:
        return text_of(value)
    except Exception:  # such as a number of more digits than Python writes
        return ""


class _Learner(base.Estimator):
    """What both kinds of learners share: a network, and a place in it."""

    def __init__(self, network: LearnerNetwork, learner: str | int = 0) -> None:
        self.network = network
        self.learner = learner
        self._place = network.place(learner)

    def _margins(self, x: Mapping[Any, Any]) -> Array:
        return self.network.run.margins(self._place, self.network.row_of(x))

    @property
    def epsilon(self) -> float:
        """ε that this learner has spent so far; ∞ where nothing is claimed."""
        return self.network.run.spent(self._place)


class ClassifyingLearner(_Learner, base.Classifier):
    """One learner of a LearnerNetwork, which tells classes apart.

    Parameters
    ----------
    network
        The network, with what was declared of records.
    learner
        Which of its learners this is, by name or number.

    """

    def __init__(self, network: LearnerNetwork, learner: str | int = 0) -> None:
        if network.classes is None:
            raise GossamerError("the network learns a quantity: use regressor(), or declare classes=.")
        super().__init__(network, learner)
        self._number = {one: k for k, one in enumerate(network.classes)}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"network": LearnerNetwork(2, float("inf"), bounds={"x": (0, 1)}, classes=(False, True))}

    @property
    def _multiclass(self) -> bool:
        return len(self._number) > 2

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Take in one record; a round is run once every learner has as many as it takes."""
        number, run = self._number_of(y), self.network.run
        if number is None and run.plan.mechanism is None:
            known = list(self._number)
            raise BadValue("y", y, f"expected one of the classes {known!r}", "name it in classes= from the start")
        if number is None:
            run.no_class += 1
        run.learn_encoded(self._place, self.network.row_of(x), float(number or 0))
        if number is None and run.no_class == 1:
            log.warning("a label is none of the classes, and counts as the first of them; the notes count such")

    def _number_of(self, y: Any) -> int | None:
        """A class's number, None for what is no class."""
        try:
            return self._number.get(y)
        except Exception:  # a list has no hash, for example
            return None

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Every class's probability, by this learner's own model."""
        fitted = self._margins(x)[None]
        if fitted.shape[1] == 1:
            second = float(1 / (1 + np.exp(-fitted[0, 0].clip(-700, 700))))
            return dict(zip(self._number, (1 - second, second), strict=True))
        shares = np.exp(fitted[0] - fitted[0].max())
        return dict(zip(self._number, (shares / shares.sum()).tolist(), strict=True))


class PredictingLearner(_Learner, base.Regressor):
    """One learner of a LearnerNetwork, which predicts a quantity.

    Parameters
    ----------
    network
        The network, with what was declared of records.
    learner
        Which of its learners this is, by name or number.

    """

    def __init__(self, network: LearnerNetwork, learner: str | int = 0) -> None:
        if network.target_bounds is None:
            raise GossamerError("the network tells classes apart: use classifier(), or declare target_bounds=.")
        super().__init__(network, learner)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"network": LearnerNetwork(2, float("inf"), bounds={"x": (0, 1)}, target_bounds=(0, 1))}

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Take in one record; a round is run once every learner has as many as it takes."""
        self.network.run.learn_encoded(self._place, self.network.row_of(x), self.network.label_of(y))

    def predict_one(self, x: dict[Any, Any]) -> float:
        """The quantity, in its own units, by this learner's own model."""
        low, high = self.network.target_bounds
        bottom, top = SCALED_TO
        return float(low + (self._margins(x)[0] - bottom) / (top - bottom) * (high - low))


def _names_of(learners: Any) -> list[str]:
    names = [str(k) for k in range(learners)] if isinstance(learners, int) else [str(one) for one in learners]
    if len(names) < 2 or len(set(names)) < len(names):
        raise BadValue("learners", learners, "expected at least 2, or at least two unlike names")
    return names
