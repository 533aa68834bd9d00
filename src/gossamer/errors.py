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


class Sentence:
    """Something to be said, in which arguments are not spelt out yet."""

    def __init__(self, *parts: Part) -> None:
        self.parts = parts

    def said(self, words: Callable[[Argument], str]) -> str:
        """The sentence, with every argument in the reader's own words."""
        return "".join(words(part) if isinstance(part, Argument) else str(part) for part in self.parts)

    def __str__(self) -> str:
        return self.said(in_python)


class GossamerError(Sentence, ValueError):
    """A mistake that the caller can mend: one sentence with the value, the requirement and the remedy."""

    def __init__(self, *parts: Part) -> None:
        Sentence.__init__(self, *parts)
        ValueError.__init__(self, *parts)


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
