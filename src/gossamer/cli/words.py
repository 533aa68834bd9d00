"""An argument in the command's words: what Python calls per_round=5 is `--per-round 5` here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gossamer.errors import Argument

OTHER_NAMES = {"ranges": "range"}
OWN_WORDS = {"columns": "columns (--range, --categories)"}  # where one argument is two options
PYTHON_ONLY = frozenset(  # what the command has no option for
    {"degree", "dtype", "edges", "exponent", "initial", "m", "over", "privacy", "ratio", "remember", "shape"}
)


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
        return ",".join(map(_typed, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
