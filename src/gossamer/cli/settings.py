"""All that decides a run from the command, as it is given, kept in its folder, and read back to resume."""

from __future__ import annotations

import enum
import json
import shlex
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import get_origin, get_type_hints

from gossamer.errors import GossamerError

PAPER_STEP, PAPER_NOISE = "1,0.6", "1,0.51:0.6"
IMAGE_STEP, IMAGE_NOISE, IMAGE_STEPS = "0.6,0.6", "0.01,0.51:0.6", 1500
CNN_STEP = "0.06,0.6"  # without normalisation the published step diverges within 20 rounds
OWN_STEP, STEPS = "1,0.8", 2000
DELTA, RIDGE = 1e-5, 1e-2
IMAGES = ("mnist", "cifar10")


class Law(enum.StrEnum):
    laplace = "laplace"
    gaussian = "gaussian"


class Where(enum.StrEnum):
    messages = "messages"
    source = "source"


class Rows(enum.StrEnum):
    raw = "raw"
    l1 = "l1"
    l2 = "l2"


class Dataset(enum.StrEnum):
    mushrooms = "mushrooms"
    mnist = "mnist"
    cifar10 = "cifar10"


class Kind(enum.StrEnum):
    logistic = "logistic"
    softmax = "softmax"
    ridge = "ridge"
    resnet18 = "resnet18"
    cnn = "cnn"


class Norm(enum.StrEnum):
    batch = "batch"
    group = "group"


class Stem(enum.StrEnum):
    imagenet = "imagenet"
    cifar = "cifar"


class Per(enum.StrEnum):
    record = "record"
    round = "round"


class Gradients(enum.StrEnum):
    history = "history"
    latest = "latest"


class Draw(enum.StrEnum):
    random = "random"
    once = "once"


class Split(enum.StrEnum):
    iid = "iid"
    by_class = "by-class"


@dataclass(frozen=True)
class Settings:
    """All that decides a run; kept in its folder so that it can be resumed."""

    dataset: str | None = None
    csv: str | None = None
    target: str | None = None
    split_by: str | None = None
    categorical: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    classes: str | None = None
    drop: list[str] = field(default_factory=list)
    range: list[str] = field(default_factory=list)
    per_round: int | None = None  # None: 1, or 40 images
    model: str | None = None
    l2: float | None = None  # None: 0.01, or 0 for neural networks
    clip: float | None = None
    clip_per: str | None = None  # None: record, or round with BatchNorm
    learners: int | None = None
    steps: int | None = None
    graph: str | None = None
    step: str | None = None
    noise: str | None = None
    epsilon: str | None = None
    law: str = Law.laplace
    delta: float | None = None  # None: 1e-5 for Gaussian noise, 0 for Laplace noise
    where: str = Where.messages
    horizon: str | None = None
    rows: str = Rows.raw
    strict: bool = True
    gradient: str | None = None  # None: history, or latest where noise goes to the source
    draw: str | None = None  # None: random, or once where noise goes to the source
    split: str = Split.iid
    seed: int = 0
    evaluate_every: int | None = None
    norm: str | None = None  # None: batch
    stem: str | None = None  # None: imagenet
    device: str = "cpu"
    bf16: bool = False

    @property
    def images(self) -> bool:
        return self.dataset in IMAGES

    @property
    def ridge(self) -> float:
        return self.l2 if self.l2 is not None else 0.0 if self.images else RIDGE


DEFAULTS = Settings()


def command(name: str, settings: Settings) -> str:
    """The command line that gives these settings."""
    words = ["gossamer", name, *([settings.dataset] if settings.dataset else [])]
    for one in fields(Settings):
        value = getattr(settings, one.name)
        if one.name == "dataset" or value == getattr(DEFAULTS, one.name):
            continue
        option = f"--{one.name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(option if value else f"--no-{one.name}")
            continue
        for word in value if isinstance(value, list) else [value]:
            words += [option, f"{word:g}" if isinstance(word, float) else str(word)]
    return shlex.join(words)


def read_settings(folder: Path) -> Settings:
    """The settings that a run left in its folder; refuses what the command would not have written."""
    try:
        stored = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        settings = Settings(**{one.name: stored[one.name] for one in fields(Settings) if _expected(one.name, stored)})
        if (
            "device" not in stored and settings.csv is None
        ):  # of before there were images: the number of a CSV's records
            settings = replace(settings, per_round=None)
        _check_types(settings)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise GossamerError(f"--resume {folder}: no run of gossamer there; give its --out folder.") from None
    return settings


def _expected(name: str, stored: dict[str, object]) -> bool:
    """Whether a setting must be stored: those for images are not, in a folder of before there were any."""
    return name in stored or name not in ("norm", "stem", "device", "bf16", "clip_per")


def _check_types(settings: Settings) -> None:
    """ValueError where a stored setting is not of the kind that the command would have stored."""
    choices: dict[str, type[enum.StrEnum]] = {"law": Law, "where": Where, "rows": Rows}
    choices |= {"dataset": Dataset, "model": Kind, "gradient": Gradients, "draw": Draw, "split": Split}
    choices |= {"norm": Norm, "stem": Stem, "clip_per": Per}
    for name, kind in get_type_hints(Settings).items():
        value = getattr(settings, name)
        if get_origin(kind) is list:
            fits = isinstance(value, list) and all(isinstance(word, str) for word in value)
        else:
            fits = isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)
        if not fits:
            raise ValueError(name)
        if name in choices and value is not None:
            choices[name](value)
