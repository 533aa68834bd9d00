"""`gossamer run --engine mpi`: the command starts itself as many ranks, and each rank plays its part of the run."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

import typer

from gossamer.cli import interrupt
from gossamer.cli.commands import sentence_of
from gossamer.cli.logs import failures_said
from gossamer.cli.watch import LINE_EVERY
from gossamer.cluster.engine import refuse_unshared, simulate
from gossamer.cluster.launching import check_room, end_with_input, launch
from gossamer.cluster.sharing import partition
from gossamer.cluster.world import world
from gossamer.errors import Argument, GossamerError
from gossamer.loggers.base import Logger
from gossamer.run_record import Record
from gossamer.simulate import Progress
from gossamer.spec.build import Parts, build
from gossamer.spec.description import Spec
from gossamer.spec.rules import dataset_of


def start(ranks: int | None) -> NoReturn:
    """Start the ranks from a process that is none of them, and end as they end."""
    if ranks is None:
        raise GossamerError(Argument("engine", "mpi"), " needs a number of ranks: give ", Argument("ranks", 4), ".")
    check_room(ranks)
    raise typer.Exit(launch(ranks, sys.argv[1:]))


def join(ranks: int | None) -> None:
    """Be one of the ranks that were started."""
    if ranks is not None and ranks != world().ranks:
        raise GossamerError(
            Argument("ranks", ranks), f", and mpiexec has started {world().ranks}: leave ", Argument("ranks"), " out."
        )
    end_with_input()


def check_alone(given: Mapping[str, bool]) -> None:
    """Refuse options that are for one process; `given` says which of them were given."""
    refused = [name for name, was_given in given.items() if was_given]
    if refused:
        raise GossamerError(
            Argument("engine", "mpi"), f" plays one run from its beginning to its end: leave {refused[0]} out."
        )


@contextmanager
def together() -> Iterator[None]:
    """Where this rank fails, all end, and one of them says why."""
    world().told = told_of
    try:
        yield
    except typer.Exit:
        raise
    except BaseException as error:
        world().fail(error)


def told_of(error: BaseException) -> tuple[str, int]:
    """What is said of a failure, and the exit code."""
    if isinstance(error, KeyboardInterrupt | typer.Abort) or interrupt.was_asked():
        return interrupt.SAID, interrupt.CODE
    sentence = sentence_of(error) if isinstance(error, Exception) else None
    if sentence is None:
        return "".join(traceback.format_exception(error)), 1
    return f"gossamer: {sentence}", 2


def is_first() -> bool:
    """Whether this is the rank that writes the record and shows it."""
    return world().rank == 0


def build_after_first(spec: Spec) -> Parts:
    """A run's parts at another rank: what the first one downloads, or works out once and keeps, is there by then."""
    if _keeps_files(spec):
        world().comm.Barrier()
    return build(spec)


def _keeps_files(spec: Spec) -> bool:
    dataset = dataset_of(spec)
    return dataset is not None and dataset.images


def lead(parts: Parts, loggers: Sequence[Logger]) -> Record:
    """The first rank's part of the run, and the record of all."""
    if _keeps_files(parts.spec):
        world().comm.Barrier()  # the others build theirs
    with failures_said():
        record = _play(parts, loggers)
    assert record is not None
    return record


def follow(parts: Parts) -> None:
    """Another rank's part of the run."""
    _play(parts, [])


def _play(parts: Parts, loggers: Sequence[Logger]) -> Record | None:
    refuse_unshared(world().ranks, parts.network, parts.model, parts.mechanism)
    shares = partition(parts.network, world().ranks, parts.algorithm.mixes)
    if is_first():
        for note in shares.notes:
            typer.echo(f"run: {note}", err=True)
    return simulate(
        parts.algorithm,
        parts.network,
        parts.stream,
        **parts.arguments,
        loggers=loggers,
        progress=_in_lines(parts.model.score),
        shares=shares,
    )


def _in_lines(score: str) -> Callable[[Progress], None]:
    """A line now and then: what ranks say goes through pipes, in which no bar can move."""
    begun = shown = 0.0

    def tell(progress: Progress) -> None:
        nonlocal begun, shown
        now = time.monotonic()
        if not begun:
            begun = shown = now
        elif now - shown >= LINE_EVERY:
            shown, speed = now, (progress.t - 1) / (now - begun)
            reached = f"{score} {progress.last.accuracy[0]:.3f}"
            typer.echo(f"run: round {progress.t:,} of {progress.steps:,}, {speed:,.0f}/s, {reached}", err=True)

    return tell
