"""Runs on an engine: whichever ends first is handed over first, and what a lost worker had is tried again.

A worker may be lost at any time: out of memory, switched off, cut off. Nobody says which of the runs that were under
way then was the cause, if one was. So all of them are tried once more, after all others. What is lost twice is tried
alone, so that a third loss is its own doing: then it is given up, which is said when all others are done.
"""

from __future__ import annotations

import signal
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager

import joblib

from gossamer.errors import GossamerError
from gossamer.experiments.engines import Engine, tried_again
from gossamer.experiments.workers import Answer, Job, first_line, make, own_versions

ALONE, GIVEN_UP = 2, 3  # losses after which a run is tried alone, and no more
NO_NEWS = (  # of joblib's: workers end when they have had nothing to do, and when we stop
    "A worker stopped while some jobs were given",
    ".*tasks which were still being processed",
    ".*tasks have been successfully executed but not used",
)


def run_all(engine: Engine, jobs: Sequence[Job], say: Callable[[str], None]) -> Generator[tuple[Job, Answer]]:
    """Every job with what became of it, as they end."""
    waiting, losses, given_up = {job.key(): job for job in jobs}, Counter[str](), 0
    while waiting:
        keys, begun = list(waiting), list[str]()
        several = [key for key in keys if losses[key] < ALONE] or keys[:1]
        try:
            for answer in _run(engine, [(key, waiting[key]) for key in several], begun):
                yield waiting.pop(answer.key), answer
        except engine.losses as error:
            begun = [key for key in begun if key in waiting]
            if not begun:
                raise GossamerError(f"workers are lost before a run has begun: {first_line(error)}") from error
            losses.update(begun)
            waiting |= {key: waiting.pop(key) for key in begun}  # now the last ones
            for key in begun:
                if losses[key] == GIVEN_UP:
                    del waiting[key]
                    given_up += 1
            again = sum(key in waiting for key in begun)
            if again:
                say(tried_again(again, first_line(error)))
        except Exception as error:  # of a cluster that is gone, or of a worker that came late and cannot read a run
            if engine.ask is None or isinstance(error, GossamerError):
                raise
            raise GossamerError(
                f"the cluster could not go on ({first_line(error)}): what is done is kept; give the same again."
            ) from error
    if given_up:
        raise GossamerError(
            f"{given_up} of {len(jobs)} runs took their worker with them {GIVEN_UP} times, at last each alone, perhaps "
            "for want of memory; the others are done and kept: give the same again where there is more."
        )


def _run(engine: Engine, jobs: Sequence[tuple[str, Job]], begun: list[str]) -> Iterator[Answer]:
    """Once, on as many workers as there are; `begun` fills with the keys of what is sent to them."""
    versions = own_versions()

    def calls() -> Iterator[object]:
        for key, job in jobs:
            begun.append(key)
            yield joblib.delayed(make)(key, job.placed() if engine.ask else job, job.named(), versions)

    with warnings.catch_warnings():
        for message in NO_NEWS:
            warnings.filterwarnings("ignore", message)
        with joblib.parallel_config(**engine.backend):
            parallel = joblib.Parallel(
                n_jobs=engine.workers, return_as="generator_unordered", batch_size=1, pre_dispatch=engine.ahead,
                max_nbytes=None,
            )  # fmt: skip
        with deaf_children():
            answers = parallel(calls())
        yield from answers


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes that are started meanwhile never hear ctrl-C, which a terminal sends to all: whoever started them does.

    They would print where it hit them, even in their first imports. A blocked signal is blocked for children, too, and
    here it only waits.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
