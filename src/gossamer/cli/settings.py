"""All that decides a run from the command, as it is given, kept in its folder, and read back to resume."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import get_origin, get_type_hints

from gossamer.types import GossamerError

PAPER_STEP, PAPER_NOISE = "1,0.6", "1,0.51:0.6"
OWN_STEP, STEPS = "1,0.8", 2000


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


class Kind(enum.StrEnum):
    logistic = "logistic"
    softmax = "softmax"
    ridge = "ridge"


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

    dataset: str | None
    csv: str | None
    target: str | None
    split_by: str | None
    categorical: list[str]
    drop: list[str]
    range: list[str]
    per_round: int
    model: str | None
    l2: float
    learners: int | None
    steps: int | None
    graph: str | None
    step: str | None
    noise: str | None
    epsilon: str | None
    law: str
    delta: float
    where: str
    horizon: str | None
    rows: str
    strict: bool
    gradient: str
    draw: str
    split: str
    seed: int
    evaluate_every: int | None


DEFAULTS = Settings(
    dataset=None,
    csv=None,
    target=None,
    split_by=None,
    categorical=[],
    drop=[],
    range=[],
    per_round=1,
    model=None,
    l2=1e-2,
    learners=None,
    steps=None,
    graph=None,
    step=None,
    noise=None,
    epsilon=None,
    law=Law.laplace,
    delta=1e-5,
    where=Where.messages,
    horizon=None,
    rows=Rows.raw,
    strict=True,
    gradient=Gradients.history,
    draw=Draw.random,
    split=Split.iid,
    seed=0,
    evaluate_every=None,
)


def read_settings(folder: Path) -> Settings:
    """The settings that a run left in its folder; refuses what the command would not have written."""
    try:
        stored = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        settings = Settings(**{field.name: stored[field.name] for field in fields(Settings)})
        _check_types(settings)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise GossamerError(f"--resume {folder}: no run of gossamer there; give its --out folder.") from None
    return settings


def _check_types(settings: Settings) -> None:
    """ValueError where a stored setting is not of the kind that the command would have stored."""
    choices: dict[str, type[enum.StrEnum]] = {"law": Law, "where": Where, "rows": Rows}
    choices |= {"dataset": Dataset, "model": Kind, "gradient": Gradients, "draw": Draw, "split": Split}
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
