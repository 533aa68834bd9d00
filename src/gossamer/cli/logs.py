"""`gossamer run --log …`: the loggers of a run, and what is said when one fails."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from gossamer.loggers.base import Logger, LoggerFailed
from gossamer.loggers.jsonl import Jsonl
from gossamer.loggers.named import logger_named

EVENTS = "events.jsonl"
NOT_NOISED = (
    "gossamer: errors, accuracies and counts of clipped values of this private run are not noised, and go to {} as "
    "they are: keep that as you keep the records."
)


def loggers_of(named: Sequence[str], folder: Path | None, private: bool) -> list[Logger]:
    """The lines in a run's folder, and the loggers that are named; refused here where a library is not there."""
    name = f"run-{time.strftime('%Y%m%d-%H%M%S')}" if folder is None else _name(folder)
    others = [logger_named(text, name) for text in named]
    if private and others:
        typer.echo(NOT_NOISED.format(", ".join(named)), err=True)
    return [*([] if folder is None else [Jsonl(folder / EVENTS)]), *others]


def _name(folder: Path) -> str:
    """The folder's own, and for one of several seeds its parent's before it."""
    place = folder.absolute()
    return f"{place.parent.name}-{place.name}" if place.name.startswith("seed-") else place.name


@contextmanager
def failures_said() -> Iterator[None]:
    """A logger that fails is said in one line; other warnings are shown as they would be."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", LoggerFailed)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *about: Any, **more: Any) -> None:
            if issubclass(category, LoggerFailed):
                typer.echo(f"gossamer: {message}", err=True)
            else:
                usual(message, category, *about, **more)

        warnings.showwarning = show
        yield
