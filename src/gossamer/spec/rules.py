"""What a description leaves open, decided by rules that never look at a record; and what it must not say."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from gossamer.algorithms import find_method
from gossamer.algorithms.base import AUTO
from gossamer.datasets import DATASETS, Dataset
from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.models.registry import MODELS, Kind
from gossamer.privacy.laws import law_named
from gossamer.records import FeatureBounds
from gossamer.spec.description import DELTA, OWN_STEP, OWN_STEPS, RIDGE, SETTINGS, Spec
from gossamer.spec.languages import (
    class_names,
    column_categories,
    column_ranges,
    names,
    noise_schedule,
    separator_of,
)
from gossamer.streams.csv import classes_in, count_classes, reading_of
from gossamer.streams.files import Reading

CSV_SETTINGS = (
    "target", "split_by", "categorical", "categories", "classes", "drop", "range", "outside", "missing", "separator",
    "encoding", "test", "test_fraction", "aside", "per_round", "weight",
)  # fmt: skip
BUDGET_SETTINGS = ("law", "delta", "where", "horizon", "releases", "band", "secrets", "colluders", "share")
ALGORITHM_1 = "ldp_gradient_tracking"
CNN_STEP = "0.06,0.6"  # without normalisation the published step diverges within 20 rounds
OWN_RIDGE = 1.0  # divided by the number of records, as scikit-learn's C = 1
CLIP = 0.5  # of the largest gradient of a logistic loss
FEATURES_A_ROUND = 5  # of images with fixed features: a thousand rounds or so, which steps and noise are spread over
MOST_CLASSES = 200  # that are read off a file: beyond it the column is a name, a date or an identifier
CLASSES_AT_MOST = 20  # a numeric target with more values than this is taken for a quantity


class Learnt(NamedTuple):
    """Which kind of model learns the data, and how many outputs it has."""

    kind: Kind
    outputs: int


def dataset_of(spec: Spec) -> Dataset | None:
    """The built-in data; None where the records are in a CSV file. Refuses settings that such data do not take."""
    name, csv = spec.data.dataset, spec.data.csv
    if name is None and csv is None:
        known = ", ".join(DATASETS.entries())
        raise GossamerError(
            f"nothing to learn from: give a dataset ({known}), or ", Argument("csv", "FILE"), " ",
            Argument("target", "COLUMN"), ".",
        )  # fmt: skip
    if name is not None and csv is not None:
        raise GossamerError(f"two things to learn from, {name} and {csv}: give one.")
    if name is not None and name.lower().endswith((".csv", ".csv.gz", ".parquet", ".jsonl")):
        raise GossamerError(
            f"{name} is a file: give it as ", Argument("csv", name), " ", Argument("target", "COLUMN"), "."
        )
    dataset = None if name is None else DATASETS.find(name)
    taken = CSV_SETTINGS if dataset is None else dataset.options
    for setting, value in spec.given().items():
        if SETTINGS[setting].table == "data" and setting not in (*taken, "dataset", "csv"):
            raise GossamerError(Argument(setting, value), " is for ", *_takers(setting), ": leave it out.")
    return dataset


def _takers(setting: str) -> list[str | Argument]:
    """Which data take a setting, in words."""
    if setting in (*CSV_SETTINGS, "csv"):
        return [Argument("csv", "FILE")]
    return [", ".join(name for name, dataset in DATASETS.entries().items() if setting in dataset.options)]


def where_of(spec: Spec, dataset: Dataset | None) -> Literal["messages", "source"]:
    """Where the noise of a private run goes: to the source, where records can be read once, unless it was said."""
    if spec.privacy.where is not None:
        return spec.privacy.where
    once = dataset is None or ("draw" in dataset.options and spec.data.draw != "random")
    return "source" if spec.private and once else "messages"


def law_of(spec: Spec, dataset: Dataset | None) -> str:
    """The noise's law: the paper's on messages, Gaussian at the source."""
    return spec.privacy.law or ("gaussian" if where_of(spec, dataset) == "source" else "laplace")


def decide_noise(spec: Spec, dataset: Dataset | None) -> Spec:
    """The description with where noise goes, its law, and the gradient and the draw that go with it."""
    where, law = where_of(spec, dataset), law_of(spec, dataset)
    source = where == "source"
    if source and spec.data.draw == "random":
        raise GossamerError(
            Argument("where", "source"), " needs every record to be read once: use ", Argument("draw", "once"),
            ", or ", Argument("where", "messages"), ".",
        )  # fmt: skip
    chosen: dict[str, str] = {}
    if spec.algorithm.gradient is None:
        images = dataset is not None and dataset.images and spec.model.remember is None
        chosen["gradient"] = "latest" if images and (spec.data.features == "pixels" or not source) else "history"
    if spec.data.draw is None and dataset is not None and "draw" in dataset.options:
        chosen["draw"] = "once" if source else "random"
    return spec.but(**chosen, where=where, law=law)


def clip_of(spec: Spec, learnt: Learnt, features: FeatureBounds | None) -> float | None:
    """The length that gradients are clipped to: the given one, or half of what features of declared size allow.

    Noise is in proportion to it. Of classes, only records that are far on the wrong side are cut back by that: what is
    learnt still says which class is likelier. A quantity has no natural length unless it is standardised, and a
    network has no bound.
    """
    given = spec.model.clip
    if given is not None or not spec.private or spec.privacy.where != "source" or features is None:
        return given
    if (learnt.kind.quantity and not spec.model.standardise) or learnt.kind.images:
        return None
    return float(f"{CLIP * (features.l1 if law_named(spec.privacy.law or 'laplace').norm == 1 else features.l2):.4g}")


def learnt_by(spec: Spec, dataset: Dataset | None) -> Learnt:
    """The model for the data: the one that is named, or what declarations, or else the target's values, suggest."""
    named = None if spec.model.model is None else MODELS.find(spec.model.model)
    if dataset is None:
        return _learnt_from_csv(spec, named)
    usual = "softmax" if spec.data.features == "scattering" else dataset.model
    kind = named or MODELS.find(usual)
    if kind.images and not dataset.images:
        pictures = " and ".join(name for name, one in DATASETS.entries().items() if one.images)
        raise GossamerError(Argument("model", kind.name), f" is for {pictures}: leave it out.")
    if dataset.images and not kind.images and spec.data.features == "pixels":
        raise BadValue(
            "model", kind.name, "images are learnt by resnet18 or cnn",
            ["name one, or use ", Argument("features", "scattering")],
        )  # fmt: skip
    if kind.quantity != (dataset.classes == 0) or dataset.classes > (kind.classes_at_most or math.inf):
        what = "a quantity to predict" if dataset.classes == 0 else f"{_count(dataset.classes)} classes"
        raise BadValue("model", kind.name, f"{dataset.label} has {what}", f"use {dataset.model}")
    check_model_settings(spec, kind)
    if spec.model.standardise is not None:
        raise GossamerError(Argument("standardise", spec.model.standardise), " is for ", *_takers("csv"), ".")
    return Learnt(kind, max(dataset.classes, 1))


def reading(spec: Spec) -> Reading:
    """How own records are read; whoever asks for the same twice gets what was read the first time."""
    data = spec.data
    assert data.csv is not None
    assert data.target is not None
    words = [*names(data.categorical), *column_categories(data.categories), *([data.split_by] if data.split_by else [])]
    separator = separator_of(data.separator)
    return reading_of(data.csv, data.target, words, separator, data.encoding, data.classes is not None)


def _learnt_from_csv(spec: Spec, named: Kind | None) -> Learnt:
    target, csv = spec.data.target, spec.data.csv
    if target is None or csv is None:
        raise GossamerError(Argument("csv", csv), " needs ", Argument("target"), ": name the column to predict.")
    declared = class_names(spec.data.classes)
    classes, numeric = classes_in(reading(spec)) if declared is None else count_classes(declared)
    quantity = declared is None and (
        target in column_ranges(spec.data.range) or (numeric and classes > CLASSES_AT_MOST)
    )
    if declared is None and not quantity and classes > MOST_CLASSES:
        raise GossamerError(
            f"column {target!r} has {classes} values and is no quantity, expected at most {MOST_CLASSES} classes: name "
            "another target, or say which they are with ", Argument("classes", ["A", "B"]), ".",
        )  # fmt: skip
    kind = named or MODELS.find("ridge" if quantity else "logistic" if classes <= 2 else "softmax")
    if classes > (kind.classes_at_most or math.inf):
        raise BadValue(
            "model", kind.name, f"column {target!r} has {classes} classes, expected {kind.classes_at_most}",
            "use softmax",
        )  # fmt: skip
    if kind.images:
        raise GossamerError(Argument("model", kind.name), " is for mnist and cifar10: leave it out.")
    check_model_settings(spec, kind)
    return Learnt(kind, 1 if kind.quantity else classes)


def _count(number: int) -> str:
    return {2: "two", 10: "ten"}.get(number, str(number))


def check_model_settings(spec: Spec, kind: Kind) -> None:
    """Nothing that is said may be ignored."""
    for setting, value in spec.given().items():
        if SETTINGS[setting].table == "model" and setting not in (*kind.options, "model", "l2", "clip"):
            takers = [name for name, one in MODELS.entries().items() if setting in one.options]
            raise GossamerError(
                Argument(setting, value), " is for ", Argument("model", " or ".join(takers)), ": leave it out."
            )
    if spec.model.remember is not None and spec.algorithm.gradient == "latest":
        raise GossamerError(
            Argument("remember", spec.model.remember), " is for ", Argument("gradient", "history"),
            ": use it, or leave it out.",
        )  # fmt: skip
    if spec.model.clip_per is not None and spec.model.clip is None:
        raise GossamerError(
            Argument("clip_per", spec.model.clip_per), " goes with ", Argument("clip"),
            ": give a length, or leave it out.",
        )  # fmt: skip
    l2 = spec.model.l2
    if l2 is not None and not 0 <= l2 < math.inf:
        raise BadValue("l2", l2, "expected a finite number ≥ 0")
    if spec.model.clip is not None and not 0 < spec.model.clip < math.inf:
        raise BadValue("clip", spec.model.clip, "expected a finite number above 0")


def ridge_of(spec: Spec, kind: Kind, records: int | None = None) -> float:
    """The given l2; of `records` of a user's own, whose number is public, one that fades with them."""
    if spec.model.l2 is not None:
        return spec.model.l2
    if records is not None:
        return float(f"{OWN_RIDGE / records:.2g}")
    return 0.0 if kind.images or spec.data.features == "scattering" else RIDGE


def per_round_of(spec: Spec, dataset: Dataset) -> int:
    """Built-in records a round: the given number, the usual one, or few where noise is spread over a history."""
    if spec.data.per_round is not None:
        return spec.data.per_round
    spread = spec.private and spec.privacy.where == "source" and spec.algorithm.gradient == "history"
    return FEATURES_A_ROUND if spread and spec.data.features == "scattering" else dataset.per_round


def goes_on(spec: Spec, dataset: Dataset | None) -> bool:
    """Whether learners read a file at the run's own pace (`read_within`), and go on over what they remember of it."""
    return _over_history(spec, dataset) and spec.data.per_round is None


def read_within(spec: Spec) -> int:
    """In how many rounds own records are read where learners go on: the first half, or with a window all of the run."""
    steps = spec.length.steps or OWN_STEPS
    return steps if spec.model.remember is not None else steps // 2 or 1


def standardises(spec: Spec, dataset: Dataset | None) -> bool:
    """Whether learners look at numbers from their middle, in units of their spread."""
    if spec.model.standardise is None:
        return spec.model.device == "cpu" and _over_history(spec, dataset)
    return spec.model.standardise


def _over_history(spec: Spec, dataset: Dataset | None) -> bool:
    """Whether own records are learnt from over and over; noise on messages is for one look at each, as in the paper."""
    seeded = spec.privacy.noise is not None and noise_schedule(spec.privacy.noise, 1) is not None
    messages = seeded or (spec.private and where_of(spec, dataset) == "messages")
    return dataset is None and spec.algorithm.gradient != "latest" and not messages


def small_delta(records: int) -> float:
    """δ below 1/records, and at most the usual one."""
    return min(DELTA, 10.0 ** -math.ceil(math.log10(2 * records)))


def step_of(spec: Spec, dataset: Dataset | None) -> str:
    """The step size: the one that is given, the published one, or one within the method's assumptions."""
    if spec.algorithm.step is not None:
        return spec.algorithm.step
    if (spec.private and where_of(spec, dataset) == "source") or goes_on(spec, dataset):
        return AUTO
    if spec.algorithm.algorithm != ALGORITHM_1:
        return f"1,{find_method(spec.algorithm.algorithm).step_exponent}"
    if dataset is None or spec.private:
        return OWN_STEP
    return CNN_STEP if spec.model.model == "cnn" else dataset.step


def noise_of(spec: Spec, dataset: Dataset | None) -> str:
    """The scales of seeded noise: the given ones, or the published ones of Algorithm 1."""
    if spec.privacy.noise is not None:
        return spec.privacy.noise
    if spec.algorithm.algorithm != ALGORITHM_1 or dataset is None:
        return "0"  # nobody's own data are made worse unless they ask for it
    return dataset.noise


def is_published(spec: Spec) -> bool:
    """The paper's own step and noise break Assumption 4; they are run as published, and the run says so."""
    named = spec.data.dataset is not None and spec.algorithm.algorithm == ALGORITHM_1
    return named and spec.algorithm.step is None and spec.privacy.noise is None and not spec.private


def delta_of(spec: Spec) -> float:
    """δ of the claim: Gaussian noise has one, Laplace noise has none."""
    if not law_named(spec.privacy.law or "laplace").needs_delta:
        return 0.0
    return DELTA if spec.privacy.delta is None else spec.privacy.delta


def check_secrets(spec: Spec) -> None:
    """Refuse settings of pair secrets that are not asked for: nothing would use them."""
    for setting in () if spec.privacy.secrets is not None else ("colluders", "share"):
        if setting in spec.given():
            raise GossamerError(Argument(setting), " goes with ", Argument("secrets", "complete"), ": give both.")


def check_privacy(spec: Spec) -> None:
    """Refuse settings of a budget that is not asked for, and two ways to say the noise."""
    given = spec.given()
    if not spec.private:
        for setting in BUDGET_SETTINGS:
            if setting in given:
                raise GossamerError(
                    Argument(setting), " goes with ", Argument("epsilon"), ": give a budget, or leave it out."
                )
        return
    if spec.privacy.noise is not None:
        raise GossamerError(
            Argument("epsilon"), " finds the noise and ", Argument("noise"), " states it: give one of them."
        )
    check_secrets(spec)
    check_delta(spec)
    laplace = spec.privacy.law == "laplace" or (spec.privacy.law is None and spec.privacy.where == "messages")
    if spec.privacy.delta is not None and laplace:
        raise BadValue(
            "delta", spec.privacy.delta, "Laplace noise keeps its budget without δ",
            ["leave it out, or ", Argument("law", "gaussian")],
        )  # fmt: skip


def check_delta(spec: Spec) -> None:
    delta = spec.privacy.delta
    if delta is not None and not 0 < delta < 1:
        raise BadValue("delta", delta, "expected above 0 and below 1, such as 1e-5")
