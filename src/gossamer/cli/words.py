"""An argument in the command's words: what Python calls per_round=5 is `--per-round 5` here."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args, get_origin

from gossamer.errors import Argument, near
from gossamer.quoting import typed_list

JSON, STDOUT = "--json", "-"
UNITS = {"d": 86400, "h": 3600, "min": 60, "s": 1}  # in seconds
OTHER_NAMES = {"ranges": "range"}
OWN_WORDS = {"columns": "columns (--range, --categories)"}  # where one argument is two options
PYTHON_ONLY = frozenset(  # what the command has no option for
    {"degree", "dtype", "edges", "exponent", "initial", "m", "over", "privacy", "ratio", "shape"}
)


def printable(text: str, beside: str = "") -> str:
    """Without what would move a cursor, or hide what stands there: some of it others have said."""
    return "".join(letter if letter.isprintable() or letter in beside else "?" for letter in text)


def in_command(argument: Argument) -> str:
    """`--steps 5`, or `--steps` where no value is said; "" for what the command has no option for."""
    name, value = argument.name, argument.value
    if name in PYTHON_ONLY:
        return ""
    if name in OWN_WORDS:
        return OWN_WORDS[name]
    if name == "dataset" and argument.has_value:  # the first word after `gossamer run`
        return _typed(value)
    option = OTHER_NAMES.get(name, name).replace("_", "-")
    if isinstance(value, bool):
        return f"--{option}" if value else f"--no-{option}"
    return f"--{option} {_typed(value)}" if argument.has_value else f"--{option}"


def _typed(value: Any) -> str:
    """A value as somebody would type it."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        return shlex.quote(typed_list(map(_typed, value)))
    return f"{value:g}" if isinstance(value, float) else str(value)


def in_option(kind: Any, low: float | None, high: float | None) -> str:
    """What an option's value has to be, from what was declared of it; "" where its kind says nothing."""
    if get_origin(kind) is Literal:
        return f"expected one of {', '.join(map(str, get_args(kind)))}"
    if kind not in (int, float):
        return ""
    limits = f" from {low:g} to {high:g}" if low is not None and high is not None else ""
    limits = limits or (f" ≥ {low:g}" if low is not None else f" ≤ {high:g}" if high is not None else "")
    return f"expected a {'whole ' if kind is int else ''}number{limits}"


def lasting(seconds: float) -> str:
    """A duration as people say it, in its two largest units: 45 s, 3 min 20 s, 2 h 5 min, 4 d 3 h."""
    counts, rest = list[tuple[int, str]](), round(seconds)
    for unit, size in UNITS.items():
        count, rest = divmod(rest, size)
        counts.append((count, unit))
    first = next((k for k, (count, _) in enumerate(counts) if count), len(counts) - 1)
    said = [f"{count} {unit}" for count, unit in counts[first : first + 2] if count]
    return " ".join(said) or "0 s"


def near_option(typed: str, known: Iterable[str]) -> str:
    """'perhaps --epsilon is meant': the shortest that starts so, or else the nearest; "" where none is near."""
    options = [flag for flag in known if flag.startswith("--")]
    longer = sorted((flag for flag in options if flag.startswith(typed) and len(typed) > len("--")), key=len)
    return f"perhaps {longer[0]} is meant" if longer else near(typed, options)


def with_place(words: Sequence[str]) -> list[str]:
    """A command line in which `--json` alone is `--json -`; the parser knows no option with or without a value."""
    told = list[str]()
    for word, after in zip(words, [*words[1:], None], strict=False):  # of no words, none
        told.append(word)
        if word == JSON and (after is None or (after.startswith("-") and after != STDOUT)):
            told.append(STDOUT)
    return told


def as_typed(flags: Sequence[str], words: Sequence[str]) -> str:
    """`--band 0`, of the words of a command line; the flag alone where it has none of them."""
    typed = flags[0]
    for word, after in zip(words, [*words[1:], ""], strict=True):
        flag, equals, value = word.partition("=")
        if flag in flags:
            typed = f"{flag} {value if equals else after}"
    return typed
