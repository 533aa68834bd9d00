"""What a logger is, and how a run speaks to several of them: one that fails is left, and the run goes on."""

from __future__ import annotations

import importlib.util
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from gossamer.errors import GossamerError
from gossamer.run_record import Record, frozen_json

Numbers = Mapping[str, float | Sequence[float]]  # a number of the whole run by its name, or one for each learner
DIGESTS = ("fingerprint", "test")  # in a stream's description: of all records, and of those of the test


class Logger(Protocol):
    """Is told of a run while it runs. Whatever it raises is said once, as a LoggerFailed warning, and ends only itself.

    It is told what the run's record holds, and nothing else of the records that are learned from. Of a private run
    that means: ε is of what learners send; errors and accuracies, which a logger is told as well, are not noised.
    """

    def start(self, config: Mapping[str, Any]) -> None:
        """Once, before the first number.

        `config` is the record's own, without digests of the records, and with `claim`, what privacy the run may claim;
        `notes`; and `from`, the rounds that were done before: 0, or where the run that is gone on with had stopped.
        """

    def log(self, t: int, numbers: Numbers) -> None:
        """After every evaluation: `t` rounds are done. NaN is what is not known, such as the distance to no optimum.

        Names are those of a record's history, means over the learners; `learners_…` has one number for each learner.
        Of a private run, `epsilon` is what each learner has spent so far, at the mechanism's δ, and with pair secrets
        `epsilon_if_all_collude` what that is if all others collude.
        """

    def end(self, outcome: Record | BaseException) -> None:
        """Once, after the last number: the record, or what ended the run without one. To be resumed, it is stopped."""


class LoggerFailed(UserWarning):
    """A logger that failed, and why, in one sentence: the run goes on without it."""


class Loggers:
    """Those of one run."""

    def __init__(self, loggers: Sequence[Logger]) -> None:
        self._loggers = list(loggers)
        for one in self._loggers:
            missing = [name for name in ("start", "log", "end") if not callable(getattr(one, name, None))]
            if missing:
                raise GossamerError(
                    f"loggers: {type(one).__name__} has no {' and no '.join(missing)}(): give what has the methods of "
                    "gossamer.loggers.Logger."
                )

    def __bool__(self) -> bool:
        return bool(self._loggers)

    @contextmanager
    def told(self, config: Mapping[str, Any]) -> Iterator[None]:
        """Tell them of the start, and of whatever ends the run without a record."""
        if self._loggers:
            kept = frozen_json(_without_digests(config))
            self._each(lambda one: one.start(kept))
        try:
            yield
        except BaseException as error:
            self.end(error)
            raise

    def log(self, row: np.recarray[Any, Any], epsilon: Mapping[str, Sequence[float]]) -> None:
        """One row of a history, and what each learner has spent."""
        numbers = {name: row[name][0].tolist() for name in row.dtype.names or () if name != "t"}
        self._each(lambda one: one.log(int(row.t[0]), {**numbers, **epsilon}))

    def end(self, outcome: Record | BaseException) -> None:
        self._each(lambda one: one.end(outcome))

    def _each(self, tell: Callable[[Logger], None]) -> None:
        for one in list(self._loggers):
            try:
                tell(one)
            except KeyboardInterrupt:  # which was meant for the run
                raise
            except BaseException as error:  # whatever a service, a disk or a user's own code may raise, SystemExit too
                self._loggers.remove(one)
                why = one_line(error)
                _warn(f"the logger {type(one).__name__} failed ({why}): the run goes on without it.")


def _warn(said: str) -> None:
    """As a warning; where warnings are errors it is shown all the same, and ends nothing."""
    try:
        warnings.warn(said, LoggerFailed, stacklevel=5)
    except LoggerFailed as warning:
        warnings.showwarning(warning, LoggerFailed, __file__, 0)


def _without_digests(config: Mapping[str, Any]) -> dict[str, Any]:
    """Without those of records: whoever knows all records but one could try values for it until the digest is right."""
    stream = {name: value for name, value in (config.get("stream") or {}).items() if name not in DIGESTS}
    return {**config, "stream": stream}


def one_line(error: BaseException, most: int = 200) -> str:
    """The first line of what an error says."""
    try:
        said = str(error)
    except Exception:  # of a class whose own words fail
        said = ""
    text = next((line.strip() for line in said.splitlines() if line.strip()), "")
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return (text if len(text) <= most else text[: most - 1] + "…").rstrip(".")


def by_tag(numbers: Numbers, learners: Sequence[str] = ()) -> dict[str, float]:
    """Single numbers by a name that every tracker takes; of each learner as `epsilon/3`, or `epsilon/3-north`.

    What is not finite is left out: trackers draw it as 0, or refuse it.
    """
    single: dict[str, float] = {}
    for name, value in numbers.items():
        if isinstance(value, Sequence):
            single |= {f"{name}/{_label(i, learners)}": float(one) for i, one in enumerate(value)}
        else:
            single[name] = float(value)
    return {tag: value for tag, value in single.items() if math.isfinite(value)}


def learners_in(config: Mapping[str, Any]) -> Sequence[str]:
    """The learners' names, where the run has any."""
    return (config.get("stream") or {}).get("names") or ()


def _label(i: int, learners: Sequence[str]) -> str:
    return f"{i}-{re.sub(r'[^-0-9A-Za-z_.]', '_', str(learners[i]))}" if i < len(learners) else str(i)


def needs(module: str, install: str) -> None:
    """Refuse a logger whose library is not there, before any work."""
    try:
        found = importlib.util.find_spec(module) is not None
    except ValueError:  # it was put there by hand, and has no spec
        found = True
    if not found:
        raise GossamerError(f"logging to {module} needs it: install {install}.")
