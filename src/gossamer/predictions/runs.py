"""The model in what a run has left: its parameters, and what it says of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gossamer.errors import BadValue, GossamerError
from gossamer.predictions.fitted import FittedModel
from gossamer.streams.schema import Schema, few
from gossamer.types import Array

KINDS = {"LogisticRegression": "logistic", "SoftmaxRegression": "softmax", "RidgeRegression": "ridge"}


def fitted_model(theta: Array, config: Mapping[str, Any], claim: str, learner: str | int | None = None) -> FittedModel:
    """The model in a run's (m, n) parameters; `config` is the run record's, or has the same model and stream."""
    said, stream = str(config["model"]), config["stream"]
    kind = KINDS.get(said.partition("(")[0])
    if kind is None or config.get("tensors"):
        raise GossamerError(
            f"the run's model is {said:.60}, and only {few(list(KINDS))} predict new rows: "
            "take its parameters, record.theta, to the code that has the model."
        )
    whose, own = _parameters_of(theta, stream.get("names"), learner)
    classes = re.search(r"\bclasses=(\d+)", said)
    outputs = int(classes[1]) if kind == "softmax" and classes else 1
    described, columns = stream.get("schema"), len(own) // outputs
    schema = None if described is None else Schema.from_description(described)
    names = [f"column {k}" for k in range(columns)] if schema is None else schema.column_names
    return FittedModel(kind, own.reshape(columns, outputs), names, schema, whose, claim)


def _parameters_of(theta: Array, names: Sequence[str] | None, learner: str | int | None) -> tuple[str, Array]:
    """Whose parameters, and (n,) those; a learner by name, else by number."""
    known = [str(k) for k in range(len(theta))] if names is None else [str(name) for name in names]
    if learner is None:
        whose = f"the mean of {len(theta)} learners" if len(theta) > 1 else f"learner {known[0]}"
        return whose, theta.mean(axis=0)
    number = str(learner)
    if isinstance(learner, str) and learner in known:
        k = known.index(learner)
    elif number.isascii() and number.isdecimal() and int(number) < len(known):
        k = int(number)
    else:
        raise BadValue("learner", learner, f"expected one of {few(known, 12)}, or a number up to {len(known) - 1}")
    return f"learner {known[k]}", np.asarray(theta[k])
