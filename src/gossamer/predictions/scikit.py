"""A model as a fitted scikit-learn pipeline: columns as they are in, the same predictions out.

Nothing is fitted to records: a scaler that has seen the two ends of every range, and an encoder that was told the
categories, are what our schema is; the model behind them gets our θ.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import GossamerError
from gossamer.predictions.fitted import FittedModel, values_of
from gossamer.predictions.scale import line_of
from gossamer.streams.schema import Schema

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


def pipeline_of(model: FittedModel) -> Pipeline:
    """Steps "columns", where there is a schema, and "model": a LogisticRegression or Ridge with coef_ set.

    It takes a DataFrame with the features, or an array of them in the order of their names; of a model without a
    schema, an array of its columns.
    """
    pipeline = _sklearn("pipeline").Pipeline
    last = ("model", _estimator(model))
    if model.schema is None:
        return pipeline([last])
    if model.schema.dates or model.schema.missing == "category":
        what = "dates" if model.schema.dates else "a category for missing values"
        raise GossamerError(f"the schema has {what}, which scikit-learn's columns do not: export the model as JSON.")
    return pipeline([("columns", _columns(model.schema, model.limits())), last])


def _columns(schema: Schema, limits: Mapping[str, tuple[float, float]]) -> Any:
    """A transformer of features, in the order of their names, into θ's columns; fitted to ranges and categories."""
    names = np.array(schema.features, dtype=object)
    steps: list[Any] = []
    table = np.empty((2, len(names)), dtype=object)
    for k, name in enumerate(schema.features):
        if name in schema.categories:
            values = _sorted(schema.categories[name])[0]
            step, table[:, k] = _one_hot(values), values[:2]
        else:
            step, table[:, k] = _scaler(schema, name, limits[name]), limits[name]
        steps.append((f"{k} {name}".replace("__", "_"), step, [k]))
    made = _sklearn("compose").ColumnTransformer(steps).fit(table)
    made.feature_names_in_ = names  # so that a DataFrame's columns are found by name, whatever their order
    for k, (_, step, _) in enumerate(made.transformers_[: len(names)]):
        first = step.steps[0][1] if hasattr(step, "steps") else step
        first.feature_names_in_ = names[k : k + 1]
        if names[k] in schema.categories:
            first.categories_ = [_sorted(schema.categories[names[k]])[0]]  # numbers as such, not as objects
    return made


def _sorted(categories: Sequence[str]) -> tuple[NDArray[Any], list[int]]:
    """Categories as a DataFrame holds them, and their places: scikit-learn wants numbers in order."""
    values = values_of(categories)
    order = np.argsort(values) if values.dtype.kind in "if" else np.arange(len(values))
    return values[order], order.tolist()


def _one_hot(values: NDArray[Any]) -> Any:
    return _sklearn("preprocessing").OneHotEncoder(categories=[values.tolist()], sparse_output=False)


def _rows(schema: Schema) -> list[int]:
    """Which row of θ each column behind the transformer has."""
    rows, at = list[int](), 0
    for name in schema.features:
        rows += [at + k for k in (_sorted(schema.categories[name])[1] if name in schema.categories else [0])]
        at += len(schema.columns_of(name))
    return rows


def _scaler(schema: Schema, name: str, limits: tuple[float, float]) -> Any:
    """From the limits to where they lie on the scale; a missing number is the middle, where there may be one."""
    line, (low, high) = line_of(schema.ranges[name]), limits
    ends = (line.a * low + line.b, line.a * high + line.b)
    scaler = _sklearn("preprocessing").MinMaxScaler(feature_range=ends, clip=True)
    if schema.missing == "refuse":
        return scaler
    middle = _sklearn("impute").SimpleImputer(strategy="constant", fill_value=sum(ends) / 2)
    return _sklearn("pipeline").make_pipeline(scaler, middle)


def _estimator(model: FittedModel) -> Any:
    """The linear model behind the transformer, with θ as its coefficients."""
    linear = _sklearn("linear_model")
    theta, constant = model.theta, np.zeros(model.theta.shape[1])
    if model.schema is not None:
        constant = theta[-1] if model.schema.intercept else constant
        theta = theta[_rows(model.schema)]
    if model.is_quantity:
        made = linear.Ridge()
        if model.schema is not None and model.schema.target in model.schema.ranges:
            line = line_of(model.schema.ranges[model.schema.target])
            theta, constant = theta / line.a, (constant - line.b) / line.a
        made.coef_, made.intercept_ = theta[:, 0], float(constant[0])
    else:
        made = linear.LogisticRegression()
        if theta.shape[1] == 2:  # two classes have one margin there: that of the second over the first
            theta, constant = theta[:, 1:] - theta[:, :1], constant[1:] - constant[:1]
        made.coef_, made.intercept_, made.classes_ = theta.T.copy(), constant, model.classes
    made.n_features_in_ = len(theta)
    return made


def _sklearn(part: str) -> Any:
    try:
        return importlib.import_module(f"sklearn.{part}")
    except ImportError:
        raise GossamerError(
            "a scikit-learn model needs scikit-learn: install gossamer-learning[sklearn], or export the model as JSON."
        ) from None
