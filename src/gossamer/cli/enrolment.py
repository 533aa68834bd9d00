"""What people are told who let parties into a run, or are let in."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape

from gossamer.peers.enrolment import Enrolled

BY_TELEPHONE = "Compare these words with every other party by telephone. Others mean another run, or somebody between:"


def in_fours(words: str) -> list[str]:
    """Four words a line, as one reads them out."""
    each = words.split()
    return [" ".join(each[k : k + 4]) for k in range(0, len(each), 4)]


def say(console: Console, sentence: str) -> None:
    console.print(f"[yellow]•[/] {escape(sentence)}", highlight=False, soft_wrap=True)


def say_words(console: Console, words: str) -> None:
    say(console, BY_TELEPHONE)
    for line in in_fours(words):
        console.print(f"    [bold]{line}[/]", highlight=False)


def show_enrolled(console: Console, done: Enrolled) -> None:
    for i, request in sorted(done.here.items()):
        where = "" if request.address is None else f" at {request.address}"
        say(console, f"learner {i}: {request.name}{where}, asked on {request.made}: {request.words}")
    for sentence in _next(done):
        say(console, sentence)
    if done.words:
        say_words(console, done.words)


def _next(done: Enrolled) -> Iterator[str]:
    if done.missing:
        listed = ", ".join(map(str, done.missing))
        yield f"Waiting for the requests of learners {listed}; nothing goes back before all are in."
    for i, path in sorted(done.bundles.items()):
        yield f"Send {path} to learner {i}, which takes it with: gossamer party join FOLDER {path.name}"
