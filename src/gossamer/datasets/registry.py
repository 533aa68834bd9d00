"""Datasets by name, and what a description of a run needs to know of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from gossamer.registry import Registry

Read = TypeVar("Read", bound=Callable[..., Any])


class Dataset(NamedTuple):
    """Data that are not the user's own file."""

    name: str
    label: str  # as people call it
    read: Callable[..., Any]  # (learners, seed, and whatever `options` names) -> a stream
    options: tuple[str, ...]  # the settings of a description that it takes
    classes: int  # of its labels; 0: a quantity
    model: str  # the one that learns it, where none is named
    step: str  # the published step size and noise, where there are some
    noise: str
    steps: int  # rounds of a run that says no number
    per_round: int
    shape: tuple[int, ...] | None  # of an image; None: no image

    @property
    def images(self) -> bool:
        return self.shape is not None


OPTIONS = ("per_round", "rows", "draw", "split", "features")


def _adopt(name: str, read: Callable[..., Any]) -> Dataset:
    """A user's function that nobody declared: two classes, for a logistic regression, without noise of its own."""
    taken = tuple(option for option in OPTIONS if option in inspect.signature(read).parameters)
    return Dataset(name, name.partition(":")[2], read, taken, 2, "logistic", "1,0.8", "0", 2000, 1, None)


DATASETS: Registry[Dataset] = Registry("dataset", "gossamer.datasets", _adopt)


def dataset(
    *,
    label: str,
    options: tuple[str, ...],
    classes: int = 2,
    model: str = "logistic",
    step: str = "1,0.8",
    noise: str = "0",
    steps: int = 2000,
    per_round: int = 1,
    shape: tuple[int, ...] | None = None,
) -> Callable[[Read], Read]:
    """Declare a function that reads data: it can then be named wherever a dataset can."""

    def declare(read: Read) -> Read:
        name = read.__name__
        about = Dataset(name, label, read, options, classes, model, step, noise, steps, per_round, shape)
        DATASETS.declare(name, read, about)
        return read

    return declare
