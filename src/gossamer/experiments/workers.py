"""What a worker does with a run that is sent to it, wherever it works, and how an unfit one is known.

A worker is a process with this package in it: of this machine, or of a cluster. What travels to it is a run's
description; the files, and the methods, datasets and models of a user's own, that it names do not. So their digests
travel too, and a worker that lacks one of them, or has another, refuses the run. No record is sent anywhere.
"""

from __future__ import annotations

import os
import pickle
import platform
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pkgutil import resolve_name
from typing import Any, NamedTuple, Protocol

from gossamer.errors import GossamerError

Result = dict[str, Any]
# What tells whether numbers come out alike, asked in Python's own words: whoever lacks the package has none of ours.
QUESTIONS: dict[str, tuple[Callable[..., str], Sequence[str]]] = {
    "Python": (platform.python_version, ()),
    "NumPy": (resolve_name, ("numpy:__version__",)),
    "Gossamer": (resolve_name, ("gossamer.version:__version__",)),
}
INSTALLED_AS = {"Python": "Python", "NumPy": "numpy==", "Gossamer": "gossamer-learning=="}


class Job(Protocol):
    """Plain values, whose key is of all that decides the outcome."""

    def key(self) -> str: ...
    def outcome(self) -> Result: ...
    def named(self) -> Mapping[str, str]:
        """Digests of what the job names and does not hold; of what is not there it is empty."""

    def placed(self) -> Job:
        """The same for a process that works in another folder."""

    def __hash__(self) -> int: ...


class Unfit(GossamerError):
    """A worker that lacks something, or that could come to other numbers."""


class Answer(NamedTuple):
    """What became of the run with this key: a result, or an error that the same run would meet again."""

    key: str
    result: Result | None = None
    error: Exception | None = None


def make(key: str, job: Job, named: Mapping[str, str], versions: Mapping[str, str]) -> Answer:
    """A run in a worker. Its own errors are values, so that those that an engine raises are the engine's."""
    try:
        refuse_others(versions, own_versions(), this_worker())
        refuse_unlike(named, job.named(), this_worker())
        return Answer(key, job.outcome())
    except Exception as error:
        return Answer(key, error=_portable(error))


def this_worker() -> str:
    return f"the worker {socket.gethostname()}:{os.getpid()}"


@cache
def own_versions() -> dict[str, str]:
    return {name: ask(*given) for name, (ask, given) in QUESTIONS.items()}


def refuse_others(mine: Mapping[str, str], theirs: Mapping[str, str | Exception], worker: str) -> None:
    """Refuse a worker that cannot import the package, or with another version of what numbers depend on."""
    for name, here in mine.items():
        there = theirs[name]
        remedy = f"install {INSTALLED_AS[name]}{here}, in the environment that it runs in"
        if isinstance(there, Exception):
            raise Unfit(f"{worker} cannot import {name} ({first_line(there)}): {remedy}.")
        if _that_counts(name, there) != _that_counts(name, here):
            raise Unfit(f"{worker} has {name} {there}, where {here} is needed for the same numbers: {remedy}.")


def _that_counts(name: str, version: str) -> str:
    return version.rpartition(".")[0] if name == "Python" else version  # a patch changes no number


def refuse_unlike(mine: Mapping[str, str], theirs: Mapping[str, str], worker: str) -> None:
    """Refuse a worker that has not what a run names, or something else under the same name."""
    for name, here in mine.items():
        there = theirs.get(name)
        if here and there != here:
            wrong = "another" if there else "no"
            raise Unfit(
                f"{worker} has {wrong} {name}: put the same there, or where both see it, such as a shared folder."
            )


def named_by(jobs: Sequence[Job]) -> dict[str, str]:
    """What all these jobs name, as a worker has it."""
    return {name: digest for job in jobs for name, digest in job.named().items()}


def first_line(error: Exception) -> str:
    """What an engine says, as far as a person can use it."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _portable(error: Exception) -> Exception:
    """An error that survives the way back; one that is no sentence takes along where it was raised."""
    if not isinstance(error, GossamerError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    return error
