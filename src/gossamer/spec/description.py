"""One description of a run: data, network, algorithm, model, privacy and length.

Everything that a run depends on is here, as plain values that can be compared, hashed, stored and sent to a worker.
The command's options, a TOML file, the settings kept in a run's folder, a party's file and the keys under which a study
keeps its runs are views of it. `None` means: decided by a rule (gossamer.spec.rules), which may look at declarations
and never at records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gossamer.privacy.laws import LAWS
from gossamer.spec.fields import Setting, check_all, check_names, setting, settings_in

RIDGE, DELTA = 1e-2, 1e-5
OWN_STEP, STEPS, OWN_STEPS = "1,0.8", 2000, 1000


@dataclass(frozen=True)
class Data:
    """Which records there are, who has them, and how they arrive."""

    dataset: str | None = setting(
        help="Built-in data: mushrooms, mnist, cifar10 or regression; or package.module:name."
    )
    csv: str | None = setting(help="Your own file instead, CSV (or .gz of it), .parquet or .jsonl; needs --target.")
    target: str | None = setting(help="The CSV column to predict.")
    split_by: str | None = setting(
        help="A CSV column: one learner per value, in sorted order [default: records in turn]."
    )
    categorical: tuple[str, ...] = setting((), help="CSV columns that hold categories: a,b,c; may be repeated.")
    categories: tuple[str, ...] = setting(
        (), help="What a column of categories may hold, in quotes: 'ward=a|b|c'; may be repeated."
    )
    classes: str | None = setting(help="What --target may hold, as classes: 0,1.")
    drop: tuple[str, ...] = setting((), help="CSV columns to leave out: a,b,c; may be repeated.")
    range: tuple[str, ...] = setting(
        (),
        help="What CSV columns may hold: age=0:120,dose=0:5, or day=2020-01-01:2024-12-31; a name with , or = in "
        "quotes: '\"weight, kg\"=0:200'.",
    )
    outside: Literal["clip", "refuse"] = setting("clip", help="What becomes of numbers outside of a declared --range.")
    missing: Literal["refuse", "mean-of-range", "category"] = setting(
        "refuse", help="What becomes of a CSV record's missing value: the middle of its --range, or a category."
    )
    separator: str | None = setting(help="What separates a CSV's values: , ; | or tab [default: as in its header].")
    encoding: str | None = setting(help="How a CSV is encoded [default: utf-8, what its mark says, or cp1252].")
    test: str | None = setting(help="A CSV file of records that nobody learns from.")
    test_fraction: float | None = setting(
        help="How many of the CSV's records, drawn by --seed, nobody learns from: 0.2.", least=0, most=1
    )
    aside: float | None = setting(
        help="How many of every learner's records, its first, this run leaves out: `gossamer tune` has used them.",
        least=0,
        most=1,
    )
    per_round: int | None = setting(
        help="Records that arrive at each learner in a round [default: as many as it takes to read a CSV in half of "
        "--steps, or 1 with --gradient latest or --where messages; 40 images, or 5 of scattering features with "
        "--epsilon].",
        least=1,
    )
    weight: Literal["equal", "records"] | None = setting(
        help="What a learner's records count in what is learnt: as much as every other learner's, as in the paper, or "
        "by how many there are [default: records of a CSV; equal with --per-round or noise on messages]."
    )
    rows: Literal["raw", "l1", "l2"] = setting("raw", help="Mushrooms as they are, or scaled to ‖a‖₁ = 1 or ‖a‖₂ = 1.")
    draw: Literal["random", "once"] | None = setting(
        help="Built-in records with replacement for ever, or each once [default: random; once with noise at the "
        "source]."
    )
    split: Literal["iid", "by-class"] = setting(
        "iid", help="Built-in records alike for all learners, or unlike mixtures of classes."
    )
    features: Literal["pixels", "scattering"] = setting(
        "pixels", help="Images as they are, or fixed features that depend on no image, for a linear model."
    )
    tested: int | None = setting(help="How many test images are looked at [default: all].", least=1)


@dataclass(frozen=True)
class Graph:
    """Who talks to whom."""

    learners: int | None = setting(help="How many learners [default: the graph's, or 10].", least=2)
    graph: str | None = setting(
        help="Network file or name, see 'gossamer graph' [default: paper for ten learners, else random]."
    )
    largest_component: bool = setting(
        False,
        help="Of a --graph file, keep the learners that all reach one another, as many as there are, and leave out the "
        "rest.",
        flags="--largest-component",
    )
    failures: float | None = setting(
        help="The probability with which a link loses what is sent over it in a round, as --seed draws it.",
        least=0,
        most=1,
    )
    sleep: float | None = setting(
        help="The probability with which a learner sleeps through a round, as --seed draws it.", least=0, most=1
    )
    schedule: str | None = setting(
        help="A file that says how the network changes from round to round, see docs/networks.md."
    )

    @property
    def changes(self) -> bool:
        """Whether rounds have networks of their own."""
        return bool(self.failures or self.sleep or self.schedule)


@dataclass(frozen=True)
class Method:
    """The algorithm, its step size, and what its gradients are taken over."""

    algorithm: str = setting(
        "ldp_gradient_tracking", help="The method, by its name, or package.module:name of your own."
    )
    step: str | None = setting(
        help="Step size λ0,v: λ0/(t+1)^v, or auto, by rule from what is declared [default: 1,0.6 for mushrooms, "
        "0.6,0.6 for images, 0.06,0.6 with --model cnn; auto for a CSV, and with --epsilon and noise at the source; "
        f"else {OWN_STEP}]."
    )
    strict: bool = setting(
        True,
        help="Refuse --step and --noise that break the method's assumptions, such as Assumption 4 (max ς < v < 1, ς > "
        "½); the paper's own, the default for mushrooms and images, do and are run as published.",
    )
    gradient: Literal["history", "latest"] | None = setting(
        help="Over all records so far (or of the newest --remember rounds), or the newest only [default: history; "
        "latest for networks without --remember]."
    )


@dataclass(frozen=True)
class Model:
    """What is learnt."""

    model: str | None = setting(
        help="logistic, softmax, ridge, resnet18, cnn, or package.module:name [default: by --classes; ridge if --range "
        "declares the target; else by what the target holds; resnet18 for images]."
    )
    l2: float | None = setting(
        help=f"Ridge penalty l2/2 ‖θ‖², without a CSV's intercept [default: {RIDGE:g}; 1/records of a CSV; "
        "0 for images]."
    )
    standardise: bool | None = setting(
        help="Look at a CSV's numbers from their middle, in units of their spread, which learners find together; with "
        "--epsilon a tenth of the budget pays for it [default: yes, unless --gradient latest, --where messages or "
        "--device cuda]."
    )
    clip: float | None = setting(
        help="Scale back each record's gradient to this length, ‖·‖₂ (‖·‖₁ with --law laplace) [default: with noise at "
        "the source and classes, half of what features allow]."
    )
    clip_per: Literal["record", "round"] | None = setting(
        help="Images: clip each record's gradient, which protects an image, or a round's mean, which protects a "
        "round's images [default: record; round with BatchNorm]."
    )
    norm: Literal["batch", "group"] | None = setting(help="ResNet's normalisation [default: batch].")
    stem: Literal["imagenet", "cifar"] | None = setting(
        help="ResNet's first layer: 7 × 7 and pooling, or 3 × 3 [default: imagenet]."
    )
    remember: int | None = setting(
        help="Over how many rounds' records --gradient history is the mean: memory and work a round grow no further "
        "[default: all; 10 of networks].",
        least=1,
    )
    device: str = setting(
        "cpu",
        help="Where models are trained: cpu, cuda, cuda:1, …; linear models on a GPU are in float32 and not private.",
    )
    bf16: bool = setting(False, help="Train networks in mixed precision.", flags="--bf16")


@dataclass(frozen=True)
class Privacy:
    """Noise: a budget to find it for, or its scales, which claim nothing."""

    noise: str | None = setting(
        help="Seeded Laplace noise, not private, of scales ν0/(t+1)^ς as ν0,ς or, evenly over the learners, "
        "ν0,ς_first:ς_last; 0 is none [default: 1,0.51:0.6; images: 0.01,0.51:0.6; none for a CSV]."
    )
    epsilon: str | None = setting(
        help="Private instead: exact noise for this budget ε, one for all learners or one each, in the order of the "
        "table: 1,2,4,…"
    )
    law: str | None = setting(
        choices=LAWS,
        help="With --epsilon: Gaussian noise (ε at --delta) or Laplace (pure ε) [default: gaussian; laplace with "
        "--where messages].",
    )
    delta: float | None = setting(help=f"δ of --law gaussian [default: {DELTA:g}, less for more than 50,000 records].")
    where: Literal["messages", "source"] | None = setting(
        help="With --epsilon: noise on the gradient over a learner's records, or on messages, as in the paper "
        "[default: source; messages with --draw random]."
    )
    releases: str | None = setting(
        help="At the source: the rounds that release a gradient, r,W for every r-th from round W on, r,W,E for none "
        "from round E on, or thin:q,W for each q times as late as the one before [default: by rule]."
    )
    band: int | None = setting(
        help="At the source: over how many releases noise is correlated [default: 1, not at all].", least=1
    )
    secrets: str | None = setting(
        help="At the source: noise that learners share pair by pair, and that cancels: complete, 4-regular for four "
        "partners each, or a file of pairs [default: none]."
    )
    colluders: int | None = setting(
        help="With --secrets: how many of the others may put their secrets together, and ε still holds; a curious "
        "learner by itself is one [default: 1; 0 is against outsiders alone].",
        least=0,
    )
    share: str | None = setting(
        help="With --secrets: the noise of a pair in units of a learner's own, or auto [default: auto, by rule]."
    )
    horizon: str | None = setting(help="With --epsilon: rounds it is meant for, or inf [default: --steps].")


@dataclass(frozen=True)
class Length:
    """How many rounds, how often the learners are looked at, and what decides chance."""

    steps: int | None = setting(
        help="Rounds [default: 2000, images 1500, a CSV 1000; with --where messages or --gradient latest no more than "
        "the data fill].",
        least=1,
    )
    evaluate_every: int | None = setting(help="Rounds between evaluations [default: steps/100].", least=1)
    seed: int = setting(0, help="Decides the records' order and the seeded noise.", least=0)


@dataclass(frozen=True)
class Spec:
    """A run, described."""

    data: Data = Data()
    network: Graph = Graph()
    algorithm: Method = Method()
    model: Model = Model()
    privacy: Privacy = Privacy()
    length: Length = Length()

    @classmethod
    def of(cls, **values: Any) -> Spec:
        """From settings by name, all others at their defaults: Spec.of(dataset="mushrooms", steps=100)."""
        return cls().but(**values)

    def but(self, **values: Any) -> Spec:
        """The same with other values of some settings; refuses names that are not known, and values of another kind."""
        check_names(values, SETTINGS, "the description of a run")
        checked = check_all(SETTINGS, values)
        parts = {
            table: {name: value for name, value in checked.items() if SETTINGS[name].table == table}
            for table in {SETTINGS[name].table for name in values}
        }
        changed = {table: dataclasses.replace(getattr(self, table), **inner) for table, inner in parts.items()}
        return dataclasses.replace(self, **changed)

    def flat(self) -> dict[str, Any]:
        """All settings by name."""
        return {name: getattr(getattr(self, one.table), name) for name, one in SETTINGS.items()}

    def given(self) -> dict[str, Any]:
        """The settings that differ from their defaults."""
        return {name: value for name, value in self.flat().items() if value != SETTINGS[name].default}

    def tables(self) -> Mapping[str, Mapping[str, Any]]:
        """What was given, in the tables of a TOML file."""
        tables: dict[str, dict[str, Any]] = {}
        for name, value in self.given().items():
            tables.setdefault(SETTINGS[name].table, {})[name] = value
        return tables

    @property
    def private(self) -> bool:
        """Whether a budget is asked for."""
        return self.privacy.epsilon is not None


PARTS: dict[str, type] = {
    "data": Data, "network": Graph, "algorithm": Method, "model": Model, "privacy": Privacy, "length": Length,
}  # fmt: skip
SETTINGS: dict[str, Setting] = {
    name: one for table, part in PARTS.items() for name, one in settings_in(part, table).items()
}
