"""A model as a plain JSON file that says all that it takes to use it, with or without gossamer. Nothing is executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.predictions.fitted import FittedModel
from gossamer.streams.schema import ABSENT, SCALED_TO, Schema
from gossamer.version import __version__

FORMAT, VERSION = "gossamer model", 1


def save_model(model: FittedModel, path: Path) -> Path:
    if path.suffix != ".json":
        raise GossamerError(f"{path}: a model is written as JSON, expected a name that ends in .json.")
    replace_file(path, (json.dumps(described(model), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())
    return path


def described(model: FittedModel) -> dict[str, Any]:
    """The model as plain JSON values."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "made_by": f"gossamer {__version__}",
        "how_to_predict": how(model),
        "model": model.kind,
        "whose": model.whose,
        "privacy": model.claim,
        "classes": model.class_names,
        "columns": list(model.names),
        "theta": model.theta.tolist(),
        "coefficients": model.coefficients(),
        "limits": {name: list(ends) for name, ends in model.limits().items()},
        "schema": None if model.schema is None else model.schema.described(),
    }


def how(model: FittedModel) -> list[str]:
    """How a prediction is computed, in sentences."""
    schema, (bottom, top) = model.schema, SCALED_TO
    said = []
    if schema is not None:
        said += [
            "Take a row's features. A number beyond its two limits is taken for the nearer one. A category c of column "
            "name is 1 for the coefficient called name=c and 0 for those of the column's other categories.",
        ]
    if schema is not None and schema.dates:
        said += [f"A date is a number, days since 1970-01-01: {', '.join(sorted(schema.dates))}."]
    if schema is not None and schema.missing != "refuse":
        said += ["A number that is missing is the middle of its range in schema.ranges."]
    if schema is not None and schema.missing == "category":
        said += [
            f"What is missing is also a category of its own: 1 for the coefficient called name={ABSENT} of a column of "
            f"categories, or 'name {ABSENT}' of a number, else 0.",
        ]
    said += ["x = intercept + the sum of coefficient times feature, with the numbers under coefficients."]
    said += {
        "logistic": [
            "There is one x, for the second of classes: its probability is 1/(1 + exp(−x)), and it is predicted where "
            "x > 0.",
        ],
        "softmax": [
            "There is an x_k for every class: its probability is exp(x_k) divided by the sum of all exp(x), and the "
            "class with the largest x_k is predicted.",
        ],
        "ridge": ["x is the predicted target, in its own units."],
    }[model.kind]
    if schema is not None:
        said += [
            f"The same in scaled coordinates: a number is {bottom:g} + {top - bottom:g} (value − low)/(high − low), "
            "the column intercept is 1, and x is the sum of theta times these, row by row as columns names them.",
        ]
    if schema is not None and model.is_quantity:
        said += ["There x is the target scaled like a number: turn it back with the target's range."]
    return said


def load_model(path: str | Path) -> FittedModel:
    """Read what save() or export() wrote."""
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise GossamerError(f"no file {path}: give the path of a model that was exported.") from None
    except (OSError, ValueError) as error:
        raise GossamerError(
            f"{path} cannot be read as JSON ({error}): restore it, or export the model again."
        ) from None
    if not is_model(content):
        raise GossamerError(f"{path} is no model: give a JSON file that export() or 'gossamer export' wrote.")
    if content.get("version") != VERSION:
        raise GossamerError(f"{path} is of version {content.get('version')}, expected {VERSION}: export it again.")
    try:
        schema = None if content["schema"] is None else Schema.from_description(content["schema"])
        theta, names = np.array(content["theta"], dtype=float), [str(name) for name in content["columns"]]
        kind, whose, claim = (str(content[key]) for key in ("model", "whose", "privacy"))
        if kind not in ("logistic", "softmax", "ridge") or theta.ndim != 2:
            raise ValueError(f"a model {kind!r} with parameters of shape {theta.shape}")
        return FittedModel(kind, theta, names, schema, whose, claim)
    except GossamerError as error:
        raise GossamerError(f"{path}: ", *error.parts) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise GossamerError(f"{path} is damaged ({error!r}): restore it, or export the model again.") from None


def is_model(content: Any) -> bool:
    """Whether a JSON file's content is a model of ours."""
    return isinstance(content, Mapping) and content.get("format") == FORMAT
