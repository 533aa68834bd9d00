"""Loggers by name, as a command line gives them: tensorboard, mlflow:http://host:5000, trackio:my-project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gossamer.errors import BadValue, near
from gossamer.loggers.base import Logger
from gossamer.loggers.mlflow import Mlflow
from gossamer.loggers.tensorboard import TensorBoard
from gossamer.loggers.wandb import Wandb

RUNS = "runs"  # where tensorboard looks for runs, if nothing else is said
LOGGERS: dict[str, Callable[[str | None, str], Logger]] = {  # from a place, and the name of the run
    "tensorboard": lambda place, name: TensorBoard(Path(place or RUNS) / name),
    "mlflow": Mlflow,
    "trackio": lambda place, name: Wandb(place, name, module="trackio"),
    "wandb": Wandb,
}


def logger_named(text: str, run: str) -> Logger:
    """The logger that NAME or NAME:PLACE names, for the run of that name; refused where its library is not there."""
    name, _, place = text.partition(":")
    if name not in LOGGERS:
        remedy = near(name, LOGGERS) or "give NAME or NAME:PLACE"
        raise BadValue("log", text, f"it is not one of {', '.join(LOGGERS)}", remedy)
    return LOGGERS[name](place or None, run)
