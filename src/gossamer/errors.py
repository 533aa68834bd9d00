"""Mistakes that a caller can mend, as values: which argument, what it was, what is required, and what to do.

One mistake reaches people in three ways: a Python caller wrote `steps=5`, a user of the command `--steps 5`, and the
owner of a file `steps = 5`. So a sentence does not spell an argument out: it has an `Argument` in it, and whoever
shows the sentence says it in the reader's own words.

    raise BadValue("steps", steps, "expected a whole number ≥ 1")
    raise GossamerError("the data last for fewer rounds: use fewer ", Argument("steps"), ".")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

UNSAID: Any = object()  # no value is given: the argument is only named


class Argument:
    """An argument in a sentence, by its name in Python, with the value that it has or should have."""

    def __init__(self, name: str, value: Any = UNSAID) -> None:
        self.name, self.value = name, value

    @property
    def has_value(self) -> bool:
        return self.value is not UNSAID

    def __repr__(self) -> str:
        return in_python(self)


Part = str | Argument
Parts = Part | Sequence[Part]


def in_python(argument: Argument) -> str:
    """steps=5, or steps where no value is said."""
    return f"{argument.name}={argument.value!r}" if argument.has_value else argument.name


class Sentence(str):
    """A sentence that is kept, such as a note: it reads in Python's words, and has its parts for other readers."""

    parts: tuple[Part, ...]

    def __new__(cls, *parts: Part) -> Sentence:
        sentence = super().__new__(cls, in_words(parts, in_python))
        sentence.parts = parts
        return sentence

    @property
    def capitalised(self) -> Sentence:
        first, *rest = self.parts
        return Sentence(str(first)[:1].upper() + str(first)[1:], *rest)


def in_words(parts: Sequence[Part], words: Callable[[Argument], str]) -> str:
    """One sentence of its parts, with every argument in the reader's own words."""

    def said(part: Part) -> str:
        if isinstance(part, Argument):
            return words(part)
        return in_words(part.parts, words) if isinstance(part, Sentence) else str(part)

    return "".join(map(said, parts))


class GossamerError(ValueError):
    """A mistake that the caller can mend: one sentence with the value, the requirement and the remedy."""

    def __init__(self, *parts: Part) -> None:
        super().__init__(*parts)
        self.parts = parts

    def said(self, words: Callable[[Argument], str]) -> str:
        """The sentence, with every argument in the reader's own words."""
        return in_words(self.parts, words)

    def __str__(self) -> str:
        return self.said(in_python)


class BadValue(GossamerError):
    """An argument whose value is not what is required."""

    def __init__(self, argument: str, value: Any, requirement: Parts, remedy: Parts = ()) -> None:
        self.argument, self.value = argument, value
        self.requirement, self.remedy = _parts(requirement), _parts(remedy)
        middle = ("; ", *self.remedy) if self.remedy else ()
        super().__init__(Argument(argument, value), ": ", *self.requirement, *middle, ".")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.argument, self.value, self.requirement, self.remedy)


class Diverged(GossamerError):
    """A run whose parameters are no longer finite."""


class NotProvable(GossamerError):
    """A privacy claim that cannot be proved for these settings."""


class BudgetSpent(GossamerError):
    """A round that a learner's budget does not allow."""


def _parts(given: Parts) -> tuple[Part, ...]:
    return (given,) if isinstance(given, str | Argument) else tuple(given)
