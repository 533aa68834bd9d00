"""Mistakes that a caller can mend, as values: which argument, what it was, what is required, and what to do.

One mistake reaches people in three ways: a Python caller wrote `steps=5`, a user of the command `--steps 5`, and the
owner of a file `steps = 5`. So a sentence does not spell an argument out: it has an `Argument` in it, and whoever
shows the sentence says it in the reader's own words.

    raise BadValue("steps", steps, "expected a whole number ≥ 1")
    raise GossamerError("the data last for fewer rounds: use fewer ", Argument("steps"), ".")

What only Python has, such as the shape of a neural network's records, may be spelled out.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any


class UNSAID:
    """No value is given: the argument is only named. A class, because pickling keeps those what they are."""


@dataclass(frozen=True, repr=False)
class Argument:
    """An argument in a sentence, by its name, with the value that it has or should have.

    `python` is how Python says it, where that is not name=value: what the command calls `--clip C` is clip=clip_l1(c).
    """

    name: str
    value: Any = UNSAID
    python: str | None = None

    @property
    def has_value(self) -> bool:
        return self.value is not UNSAID

    def __repr__(self) -> str:
        return in_python(self)


class AnyOf:
    """Several remedies, of which a reader is told those whose arguments all exist for him."""

    def __init__(self, *remedies: Parts) -> None:
        self.remedies = tuple(_parts(remedy) for remedy in remedies)

    def said(self, words: Words) -> str:
        open_to_him = [
            remedy for remedy in self.remedies if all(words(part) for part in remedy if isinstance(part, Argument))
        ]
        return ", or ".join(in_words(remedy, words) for remedy in open_to_him or self.remedies)


class Sentence(str):
    """A sentence that is kept, such as a note: it reads in Python's words, and has its parts for other readers."""

    parts: tuple[Part, ...]

    def __new__(cls, *parts: Part) -> Sentence:
        sentence = super().__new__(cls, in_words(parts, in_python))
        sentence.parts = parts
        return sentence

    def said(self, words: Words) -> str:
        return in_words(self.parts, words)

    def __reduce__(self) -> tuple[Any, ...]:
        return Sentence, self.parts

    @property
    def capitalised(self) -> Sentence:
        first, *rest = self.parts
        return Sentence(str(first)[:1].upper() + str(first)[1:], *rest)


Part = str | Argument | AnyOf  # a Sentence is a str
Parts = Part | Sequence[Part]
Words = Callable[[Argument], str]  # an argument in a reader's words; "" where it does not exist for him


def in_python(argument: Argument) -> str:
    """steps=5, or steps where no value is said."""
    if argument.python is not None:
        return argument.python
    return f"{argument.name}={argument.value!r}" if argument.has_value else argument.name


def in_words(parts: Sequence[Part], words: Words) -> str:
    """One sentence of its parts, with every argument in the reader's own words, or in Python's where he has none."""

    def said(part: Part) -> str:
        if isinstance(part, Argument):
            return words(part) or in_python(part)
        return part.said(words) if isinstance(part, Sentence | AnyOf) else part

    return "".join(map(said, parts))


def _parts(given: Parts) -> tuple[Part, ...]:
    return (given,) if isinstance(given, str | Argument | AnyOf) else tuple(given)


class GossamerError(ValueError):
    """A mistake that the caller can mend: one sentence with the value, the requirement and the remedy."""

    def __init__(self, *parts: Part) -> None:
        super().__init__(*parts)
        self.parts = parts

    def said(self, words: Words) -> str:
        return in_words(self.parts, words)

    def __str__(self) -> str:
        return self.said(in_python)


class BadValue(GossamerError):
    """An argument whose value is not what is required; `python` as for an Argument."""

    def __init__(
        self, argument: str, value: Any, requirement: Parts, remedy: Parts = (), python: str | None = None
    ) -> None:
        self.argument, self.value, self.python = argument, value, python
        self.requirement, self.remedy = _parts(requirement), _parts(remedy)
        middle = ("; ", *self.remedy) if any(self.remedy) else ()
        super().__init__(Argument(argument, value, python), ": ", *self.requirement, *middle, ".")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.argument, self.value, self.requirement, self.remedy, self.python)


class Diverged(GossamerError):
    """A run whose parameters are no longer finite."""


class NotProvable(GossamerError):
    """A privacy claim that cannot be proved for these settings."""


class BudgetUnmet(NotProvable):
    """A budget that no noise meets."""


class BudgetSpent(GossamerError):
    """A round that a learner's budget does not allow."""


AT_SOURCE = ("noise at the source (", Argument("where", "source"), ")")  # a remedy where messages cannot be noised


def near(name: str, known: Collection[str]) -> str:
    """'perhaps steps is meant', or nothing where no name is near."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"perhaps {close[0]} is meant" if close else ""
