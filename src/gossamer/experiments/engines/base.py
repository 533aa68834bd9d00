"""What an engine is: how joblib reaches its workers, how many there are, and what they say when they are asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gossamer.errors import GossamerError
from gossamer.experiments.workers import (
    QUESTIONS,
    Job,
    Unfit,
    first_line,
    named_by,
    own_versions,
    refuse_others,
    refuse_unlike,
)

Ask = Callable[[Callable[..., Any], Sequence[Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Engine:
    """Workers, while the connection to them is open.

    backend  what joblib.parallel_config is given
    workers  how many of them joblib may use
    ahead    how many runs are sent before one is back; from then on it is one for each that is
    losses   what joblib raises where a worker is lost, and its run with it
    ask      what workers of other machines, or environments, answer to a function and what it is given, by their names;
             an exception of one that cannot. None where all workers are as this process is
    """

    backend: Mapping[str, Any]
    workers: int
    ahead: int
    losses: tuple[type[Exception], ...]
    ask: Ask | None = None


def tried_again(count: int, why: str) -> str:
    runs = "a run that was under way is" if count == 1 else f"{count} runs that were under way are"
    return f"a worker was lost, and {runs} tried again ({why})."


def check_workers(ask: Ask) -> None:
    """Refuse workers that cannot import the package, or have another version of what numbers depend on."""
    mine = own_versions()
    answers = {name: ask(*question) for name, question in QUESTIONS.items()}
    for worker in answers["Python"]:
        refuse_others(mine, {name: said[worker] for name, said in answers.items() if worker in said}, worker)


def check_named(ask: Ask, jobs: Sequence[Job]) -> None:
    """Refuse workers that have not the files, methods, datasets and models that these jobs name."""
    one_of_each = list({tuple(job.named().items()): job for job in jobs}.values())
    mine = named_by(one_of_each)
    for worker, theirs in ask(named_by, [[job.placed() for job in one_of_each]]).items():
        if isinstance(theirs, Exception):
            raise (
                theirs
                if isinstance(theirs, GossamerError)
                else Unfit(f"{worker} cannot read runs: {first_line(theirs)}")
            )
        refuse_unlike(mine, theirs, worker)
