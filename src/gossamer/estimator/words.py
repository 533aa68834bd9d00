"""The library's sentences in the words of an estimator: what a run calls ranges, an estimator calls bounds."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gossamer.errors import Argument, GossamerError, Part, Sentence, Words, in_python, in_words

SAME = {"graph": "network", "split_by": "learner", "seed": "random_state"}  # another name for the same value


def words_for(target: str) -> Words:
    """Arguments as parameters of an estimator, whose labels are in a column of this name."""

    def words(argument: Argument) -> str:
        if argument.name in ("range", "ranges"):
            return _bounds(argument, target)
        if argument.name == "categorical":
            return ""  # a column of words is read as such
        if argument.name == "split_by" and argument.has_value:
            return f"learner=X[{argument.value!r}]"
        if argument.name in SAME:
            value = f"={argument.value!r}" if argument.has_value else ""
            return f"{SAME[argument.name]}{value}"
        if argument.name == "drop" and argument.has_value:
            return f"X.drop(columns={argument.value!r})"
        return in_python(argument)

    return words


def _bounds(argument: Argument, target: str) -> str:
    """bounds={…}, and the target's in a parameter of its own."""
    said = (argument.python or "").removeprefix("ranges=")
    try:
        ranges: Any = ast.literal_eval(said)
    except (SyntaxError, ValueError):
        return "bounds"
    own = ranges.pop(target, None)
    parts = [f"bounds={ranges!r}"] * bool(ranges) + [f"target_bounds={own!r}"] * (own is not None)
    return ", ".join(parts)


@contextmanager
def said_by(words: Words) -> Iterator[None]:
    """A mistake that is found here is told in these words."""
    try:
        yield
    except GossamerError as error:
        error.parts = (in_words(_merged(error.parts), words),)
        raise


def told(notes: Sequence[str], words: Words) -> list[str]:
    """Notes in these words."""
    return [in_words(_merged(note.parts), words) if isinstance(note, Sentence) else note for note in notes]


def _merged(parts: Sequence[Part]) -> list[Part]:
    """Sentences within a sentence laid open, and the categories of all columns, each said by itself, said at once."""
    flat = [each for part in parts for each in (_merged(part.parts) if isinstance(part, Sentence) else [part])]
    known: dict[str, Any] = {}
    kept = list[Part]()
    for part in flat:
        if not (isinstance(part, Argument) and part.name == "categories" and part.python):
            kept.append(part)
            continue
        if not known:
            kept.append(part)
        elif kept[-1] == " ":
            kept.pop()
        known |= ast.literal_eval(part.python.removeprefix("categories="))
    whole = Argument("categories", known, f"categories={known!r}")
    kept = [whole if isinstance(part, Argument) and part.name == "categories" and known else part for part in kept]
    return [", " if part == " " else part for part in kept]
