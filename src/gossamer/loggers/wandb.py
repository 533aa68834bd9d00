"""Weights & Biases, and trackio, which has the same calls and keeps everything on this machine."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from gossamer.loggers.base import Numbers, by_tag, learners_in, needs
from gossamer.run_record import Record, plain

PROJECT = "gossamer"


class Wandb:
    """A run of a project of Weights & Biases; `wandb offline` keeps it on this machine. trackio with module="trackio".

    project  which
    name     what the run is called there
    module   the library: any that has init(), and a run with log() and finish(), as wandb has them
    """

    def __init__(self, project: str | None = None, name: str | None = None, module: str = "wandb") -> None:
        needs(module, {"trackio": "gossamer-learning[trackio]"}.get(module, module))
        self._module, self._project, self._name = module, project or PROJECT, name
        self._learners: Sequence[str] = ()
        self._run: Any = None

    def start(self, config: Mapping[str, Any]) -> None:
        self._learners = learners_in(config)
        with contextlib.redirect_stdout(sys.stderr):  # these libraries greet, and standard output is for results
            library = importlib.import_module(self._module)
            name = self._name or str(config["title"])
            self._run = library.init(project=self._project, name=name, config=plain(config))

    def log(self, t: int, numbers: Numbers) -> None:
        self._run.log(by_tag(numbers, self._learners), step=t)

    def end(self, outcome: Record | BaseException) -> None:
        with contextlib.redirect_stdout(sys.stderr):
            self._run.finish()
