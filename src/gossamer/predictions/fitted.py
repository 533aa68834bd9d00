"""A linear model that has been learned, with what its columns mean: predictions of new rows, coefficients by name.

With features a, one-hot and scaled as the schema says, and a column θ_k of θ for every output, the margins are
x_k = aᵀθ_k, and what is predicted

logistic   P(second class) = 1/(1+e^−x)
softmax    P(class k) = e^{x_k} / Σ_l e^{x_l}
ridge      the target, scaled like a feature: turned back into its own units
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from gossamer.errors import GossamerError
from gossamer.predictions.rows import columns_of
from gossamer.predictions.scale import line_of, stretched
from gossamer.streams.cells import day, number
from gossamer.streams.columns import Columns, Numbers
from gossamer.streams.schema import REACH, Schema, label
from gossamer.types import Array

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

INTERCEPT = "intercept"
Coefficients = dict[str, float]


class Encoded(NamedTuple):
    """Rows as a model takes them."""

    X: Array  # (rows, columns) as θ's rows are named
    columns: Columns  # the rows as they came
    clipped: Mapping[str, int]  # how many values of a column lay outside and were clipped; only columns that have some


class Original(NamedTuple):
    """A model on rows as they are: margins, or a quantity in its own units, are values @ weights + constant."""

    names: Sequence[str]
    weights: Array  # (names, outputs)
    constant: Array  # (outputs,)


class Score(NamedTuple):
    """Predictions against targets that rows have themselves."""

    value: float  # the share predicted right, or R²; NaN where it is not defined
    simplest: float  # the same of whoever always says the most frequent class, or the mean
    rows: int  # how many rows have a target
    outside: int = 0  # of a quantity: how many of them lie outside its range, which learners took for its ends
    clipped: float = math.nan  # R² if these are taken so here, too


@dataclass(frozen=True, eq=False)
class FittedModel:
    """What one learner has learned, or all of them on average.

    kind     "logistic", "softmax" or "ridge"
    theta    (columns, outputs) parameters for scaled columns
    names    what each row of θ belongs to: age, ward=a, ward=b, intercept
    schema   what a record looks like; None where a run was given arrays: rows are then arrays of these columns
    whose    whose parameters these are, in words
    claim    what privacy the run claims
    """

    kind: str
    theta: Array
    names: Sequence[str]
    schema: Schema | None
    whose: str
    claim: str

    def __post_init__(self) -> None:
        if self.theta.shape != (len(self.names), self.theta.shape[-1]) or not np.isfinite(self.theta).all():
            raise GossamerError(
                f"the parameters have shape {self.theta.shape}, expected {len(self.names)} rows of finite numbers: "
                "the run is damaged or has diverged, run again."
            )
        if self.schema is not None and len(self.names) != self.schema.columns:
            raise GossamerError(
                f"the model has {len(self.names)} columns and its schema {self.schema.columns}: "
                "use the version of gossamer that made it, or run again."
            )
        given = 0 if self.schema is None else len(self.schema.classes)
        if given and not self.is_quantity and given != len(self.class_names):
            raise GossamerError(
                f"the model tells {len(self.class_names)} classes apart and the records have {given}: "
                "learn a model of as many classes."
            )

    @property
    def is_quantity(self) -> bool:
        """Whether it predicts a number, not a class."""
        return self.kind == "ridge"

    @property
    def class_names(self) -> list[str]:
        """The classes as the records name them; else their numbers. Of a quantity none."""
        if self.is_quantity:
            return []
        if self.schema is not None and self.schema.classes:
            return list(self.schema.classes)
        return [str(k) for k in range(max(2, self.theta.shape[1]))]

    @property
    def classes(self) -> NDArray[Any]:
        """The classes as values: numbers where all names are numbers, booleans of True and False, else the names."""
        return values_of(self.class_names)

    def read(self, rows: Any, keep: Sequence[str] = ()) -> Encoded | Array:
        """Rows in any form that `predict` takes, as the model takes them; it also says what was clipped.

        What lies outside a range is clipped even where learners refused such a record: a row has to be predicted,
        whatever it holds.
        """
        if self.schema is None:
            return self._plain_rows(rows)
        clipped: Counter[str] = Counter()
        columns = columns_of(rows, self.schema, keep)
        X = replace(self.schema, outside="clip").encode_features(columns, clipped=clipped)
        return Encoded(X, columns, clipped)

    def _plain_rows(self, rows: Any) -> Array:
        """Rows of a model that has columns without a meaning."""
        columns = len(self.names)
        wanted = f"expected a 2-D array of its {columns} columns, as the dataset or your arrays have them"
        try:
            X = np.asarray(rows, dtype=float)
        except (TypeError, ValueError):
            raise GossamerError(
                f"the rows are a {type(rows).__name__} and the run has no schema to read them by: {wanted}; "
                "a run on a CSV file has one."
            ) from None
        if X.ndim != 2 or X.shape[1] != columns:
            raise GossamerError(f"the rows have shape {X.shape}: {wanted}.")
        if not np.isfinite(X).all():
            r, c = np.argwhere(~np.isfinite(X))[0]
            raise GossamerError(f"the rows have {X[r, c]} in row {r}, column {c}: give finite numbers.")
        return X

    def margins(self, rows: Any) -> Array:
        """(rows, outputs) aᵀθ; `rows` as for predict, or as read() has them."""
        taken = rows if isinstance(rows, Encoded) else self.read(rows)
        return np.asarray((taken.X if isinstance(taken, Encoded) else taken) @ self.theta)

    def predict(self, rows: Any) -> NDArray[Any]:
        """(rows,) classes by their names, or quantities in their own units.

        rows   a file's path (CSV, .jsonl, .parquet), a pandas or polars DataFrame, a pyarrow Table, a list of dicts, a
               dict of columns, or a 2-D array, whose columns are the schema's features in the order of their names.
               A target and other columns may be there and are not looked at. Values outside a range are clipped to it.
               Of a run on arrays or a ready-made dataset: a 2-D array of the same columns as were learned from.

        Classes whose names are all numbers come back as numbers, and True and False as booleans.
        """
        margins = self.margins(rows)
        if self.is_quantity:
            return self.in_own_units(margins[:, 0])
        return np.asarray(self.classes[self.chosen(margins)])

    def predict_proba(self, rows: Any) -> Array:
        """(rows, classes) the probability of every class, in the order of `classes`."""
        if self.is_quantity:
            raise GossamerError("the model predicts a quantity, which has no probabilities: use predict.")
        return self.probabilities(self.margins(rows))

    def score(self, rows: Any) -> Score:
        """How well it predicts rows that have a target; `rows` as for predict, or as read() has them."""
        taken = rows if isinstance(rows, Encoded) else self.read(rows)
        if self.schema is None or not isinstance(taken, Encoded):
            raise GossamerError("the run has no schema, which says what the target is: compare with predict(rows).")
        truth = _targets(self.schema, taken.columns)
        there = np.isfinite(truth)
        margins, truth = self.margins(taken)[there], truth[there]
        if not len(truth):
            return Score(np.nan, np.nan, 0)
        if not self.is_quantity:
            counts = np.unique(truth, return_counts=True)[1]
            right = self.chosen(margins) == truth
            return Score(float(right.mean()), float(counts.max() / len(truth)), len(truth))
        said, learnt = self.in_own_units(margins[:, 0]), truth
        if self.schema.target in self.schema.ranges:
            learnt = truth.clip(*self.schema.ranges[self.schema.target])
        outside = int((learnt != truth).sum())
        return Score(_r2(said, truth), 0.0, len(truth), outside, _r2(said, learnt))

    def coefficients(self) -> Coefficients | dict[str, Coefficients]:
        """What each column adds, on the scale of the columns as they are, with the constant as "intercept".

        Of a quantity {name: number}: what one unit of the column adds to it, in its own units. Of classes
        {class: {name: number}}: what it adds to the class's margin; of two told apart by one margin only the second
        class has one, the logarithm of its odds. They reproduce predictions of rows within the ranges.
        """
        original = self.original()
        names = [*original.names, INTERCEPT]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise GossamerError(f"two coefficients would be called {twice!r}: rename that column and run again.")
        told = [
            dict(zip(names, map(float, [*weights, constant]), strict=True))
            for weights, constant in zip(original.weights.T, original.constant, strict=True)
        ]
        return told[0] if self.is_quantity else dict(zip(self.class_names[-len(told) :], told, strict=True))

    def original(self) -> Original:
        """The model for rows as they are: scaling is a line, so that it goes into the weights and the constant."""
        if self.schema is None:
            return Original(self.names, self.theta, np.zeros(self.theta.shape[1]))
        weights, constant = self.theta.copy(), np.zeros(self.theta.shape[1])
        names = list(self.names)
        if self.schema.intercept:
            weights, constant, names = weights[:-1], weights[-1], names[:-1]
        at = 0
        for name in self.schema.features:
            if name in self.schema.ranges:
                line = line_of(self.schema.ranges[name])
                constant = constant + line.b * weights[at]
                weights[at] *= line.a
            at += len(self.schema.columns_of(name))
        if self.is_quantity and self.schema.target in self.schema.ranges:
            line = line_of(self.schema.ranges[self.schema.target])
            weights, constant = weights / line.a, (constant - line.b) / line.a
        return Original(names, weights, constant)

    def limits(self) -> dict[str, tuple[float, float]]:
        """Between which two values each number is looked at: beyond them it is taken for the nearer one.

        The ends of its range where that was declared; where it was read off the data, REACH times as far out.
        """
        schema = self.schema
        if schema is None:
            return {}
        numbers = [name for name in schema.features if name in schema.ranges]
        return {name: stretched(schema.ranges[name], REACH if name in schema.inferred else 1.0) for name in numbers}

    def save(self, path: str | Path) -> Path:
        """Write the model as a plain JSON file, which load_model() and `gossamer predict` read."""
        from gossamer.predictions.files import save_model

        return save_model(self, Path(path))

    def to_sklearn(self) -> Pipeline:
        """The model as a fitted scikit-learn Pipeline (extra `sklearn`)."""
        from gossamer.predictions.scikit import pipeline_of

        return pipeline_of(self)

    def in_own_units(self, scaled: Array) -> Array:
        """A quantity, which is scaled like a feature, turned back."""
        if self.schema is None or self.schema.target not in self.schema.ranges:
            return scaled
        line = line_of(self.schema.ranges[self.schema.target])
        return (scaled - line.b) / line.a

    def probabilities(self, margins: Array) -> Array:
        """(rows, classes) of margins."""
        if self.kind == "softmax":
            return np.asarray(scipy.special.softmax(margins, axis=1))
        return np.hstack([scipy.special.expit(-margins), scipy.special.expit(margins)])

    def chosen(self, margins: Array) -> NDArray[Any]:
        """The number of every row's class."""
        return margins.argmax(axis=1) if self.kind == "softmax" else (margins[:, 0] > 0).astype(np.int64)


def _r2(said: Array, truth: Array) -> float:
    """NaN where all targets are the same."""
    return float(1 - ((said - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()) if np.ptp(truth) else math.nan


def values_of(names: Sequence[str]) -> NDArray[Any]:
    """Names as what they name: numbers where all are, booleans of True and False, else the names themselves."""
    if set(names) == {"True", "False"}:
        return np.array([name == "True" for name in names])
    values = [label(name) for name in names]
    return np.array(list(names) if any(isinstance(one, str) for one in values) else values)


def _targets(schema: Schema, columns: Columns) -> Array:
    """(rows,) what the rows say themselves: the class's place, −1 where it is an unknown one, or the quantity as it is.

    NaN where a row has none. That is no mistake here: nobody learns from these rows.
    """
    column = columns.column(schema.target)
    if not schema.classes and isinstance(column, Numbers):
        return column.values
    if not schema.classes:
        words = columns.words(schema.target)
        read = [day(one) if schema.target in schema.dates else number(one, words.comma) for one in words.names]
        return np.array([np.nan if one is None else one for one in read])[words.codes]
    words, absent = columns.words(schema.target), columns.missing(schema.target, schema.classes)
    place = {label(one): float(k) for k, one in enumerate(schema.classes)}
    said = np.array([place.get(label(one), -1.0) for one in words.names])[words.codes]
    return said if absent is None else np.where(absent, np.nan, said)
