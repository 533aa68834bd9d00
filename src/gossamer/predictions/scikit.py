"""A model as a fitted scikit-learn pipeline: columns as they are in, the same predictions out.

Nothing is fitted to records: a scaler that has seen the two ends of every range, and an encoder that was told the
categories, are what our schema is; the model behind them gets our θ.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.errors import GossamerError
from gossamer.predictions.encoding import slope_of
from gossamer.predictions.fitted import FittedModel
from gossamer.streams.schema import SCALED_TO, Schema

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
    return pipeline([("columns", _columns(model.schema)), last])


def _columns(schema: Schema) -> Any:
    """A transformer of features, in the order of their names, into θ's columns; fitted to ranges and categories."""
    preprocessing, names = _sklearn("preprocessing"), np.array(schema.features, dtype=object)
    steps: list[Any] = []
    table = np.empty((2, len(names)), dtype=object)
    for k, name in enumerate(schema.features):
        if name in schema.categories:
            step = preprocessing.OneHotEncoder(categories=[list(schema.categories[name])], sparse_output=False)
            table[:, k] = schema.categories[name][:2]
        else:
            step = preprocessing.MinMaxScaler(feature_range=SCALED_TO, clip=True)
            table[:, k] = schema.ranges[name]
        steps.append((f"{k} {name}".replace("__", "_"), step, [k]))
    made = _sklearn("compose").ColumnTransformer(steps).fit(table)
    made.feature_names_in_ = names  # so that a DataFrame's columns are found by name, whatever their order
    for k, (_, step, _) in enumerate(made.transformers_[: len(names)]):
        step.feature_names_in_ = names[k : k + 1]
    return made


def _estimator(model: FittedModel) -> Any:
    """The linear model behind the transformer, with θ as its coefficients."""
    linear = _sklearn("linear_model")
    theta, constant = model.theta, np.zeros(model.theta.shape[1])
    if model.schema is not None and model.schema.intercept:
        theta, constant = theta[:-1], theta[-1]
    if model.is_quantity:
        made = linear.Ridge()
        if model.schema is not None and model.schema.target in model.schema.ranges:
            line = slope_of(model.schema.ranges[model.schema.target])
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
