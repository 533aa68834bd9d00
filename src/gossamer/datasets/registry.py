"""Datasets by name, and what a description of a run needs to know of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from gossamer.registry import Registry


@dataclass(frozen=True)
class Dataset:
    """Data that are not the user's own file."""

    read: Callable[..., Any]  # (learners, seed, and whatever `options` names) -> a stream
    _: KW_ONLY
    label: str  # as people call it
    options: tuple[str, ...]  # the settings of a description that it takes
    classes: int = 2  # of its labels; 0: a quantity
    model: str = "logistic"  # the one that learns it, where none is named
    step: str = "1,0.8"  # the published step size and noise, where there are some
    noise: str = "0"
    steps: int = 2000  # rounds of a run that says no number
    per_round: int = 1
    shape: tuple[int, ...] | None = None  # of an image; None: no image
    own_name: str | None = None  # where it is not the function's

    @property
    def name(self) -> str:
        return self.own_name or self.read.__name__

    @property
    def images(self) -> bool:
        return self.shape is not None


OPTIONS = ("per_round", "rows", "draw", "split", "features")


def _adopt(name: str, read: Callable[..., Any]) -> Dataset:
    """A user's function that nobody declared: two classes, for a logistic regression, without noise of its own."""
    taken = tuple(option for option in OPTIONS if option in inspect.signature(read).parameters)
    return Dataset(read, label=name.partition(":")[2], options=taken, own_name=name)


DATASETS: Registry[Dataset] = Registry("dataset", "gossamer.datasets", _adopt)
dataset = DATASETS.decorator(Dataset)  # declares a function that reads data: it can then be named as a dataset
