"""A run that is watched: a progress bar, and ctrl-C that loses nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from gossamer.simulate import Progress, Record

KEPT_EVERY = 600.0  # seconds
COUNT = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
LINE_EVERY = 5.0  # seconds between the lines of a log


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C waits until all files are written."""
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def watched(
    score: str, keep: Callable[[Record], None] | None = None, follow: Callable[[Progress], None] | None = None
) -> Iterator[Any]:
    """A callback that shows progress and, at ctrl-C, stops the run with nothing lost; a second one ends it at once.

    Every ten minutes `keep` is given the record so far: that is what is left after a crash. `follow` sees every round.
    """
    interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        interrupted = True
        signal.signal(signal.SIGINT, previous)

    speed, score_so_far = TextColumn("{task.fields[speed]:>8}"), TextColumn("{task.fields[error]}")
    bar = Bar(*COUNT, speed, TimeRemainingColumn(), score_so_far, console=Console(stderr=True))
    task = bar.add_task("rounds", total=None, speed="", error="")
    started: list[float] = []
    shown, kept = 0.0, time.monotonic()

    def callback(progress: Progress) -> bool:
        nonlocal shown, kept
        if follow is not None:
            follow(progress)
        now = time.monotonic()
        if not started:
            started.extend([now, progress.t])
            bar.start()
        if now - shown > 0.1 or progress.t == progress.steps:
            shown, last = now, progress.last
            speed = (progress.t - started[1]) / max(now - started[0], 1e-9)
            known = last.tracking_error[0] == last.tracking_error[0]  # not NaN
            error = f"{score} {last.accuracy[0]:.3f}"
            error = f"‖θ−θ*‖ {last.tracking_error[0]:.3g}  {error}" if known else error
            bar.update(task, total=progress.steps, completed=progress.t, speed=f"{speed:,.0f}/s", error=error)
        if keep is not None and now - kept > KEPT_EVERY:
            keep(progress.record())
            kept = time.monotonic()
        return interrupted

    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        yield callback
    finally:
        if started:
            bar.stop()
        signal.signal(signal.SIGINT, previous)


@contextmanager
def counted(what: str, kept: bool = True) -> Iterator[Callable[[int, int], None]]:
    """A callback (done, of) that shows how many runs are done, on a terminal or in a log; ctrl-C keeps those.

    `kept`: whether what is done is there when the same is asked for again.
    """
    console = Console(stderr=True)
    try:
        if console.is_terminal:
            with Bar(*COUNT, TimeRemainingColumn(), console=console, transient=True) as bar:
                task = bar.add_task(f"{what}: runs", total=None)
                yield lambda done, of: bar.update(task, completed=done, total=of)
        else:
            yield _lines(what)
    except KeyboardInterrupt:
        again = (
            f"what is done is kept: give the same gossamer {what} again to go on."
            if kept
            else "nothing is kept, and what was charged is spent."
        )
        typer.echo(f"Stopped; {again}", err=True)
        raise typer.Exit(130) from None


def told(what: str) -> Callable[[str], None]:
    """A callback that says a sentence beside what is shown of the work."""
    return lambda sentence: typer.echo(f"{what}: {sentence}", err=True)


def _lines(what: str) -> Callable[[int, int], None]:
    """For a log: a line for every run, unless runs are quick."""
    shown = time.monotonic() - LINE_EVERY

    def say(done: int, of: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if done == of or now - shown >= LINE_EVERY:
            shown = now
            typer.echo(f"{what}: {done} of {of} runs done", err=True)

    return say
