"""An argument in the command's words: what Python calls per_round=5 is `--per-round 5` here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from gossamer.errors import Argument

OTHER_NAMES = {"ranges": "range"}
OWN_WORDS = {"columns": "columns (--range, --categories)"}  # where one argument is two options
PYTHON_ONLY = frozenset(  # what the command has no option for
    {"degree", "dtype", "edges", "exponent", "initial", "m", "outside", "over", "privacy", "ratio", "remember", "shape"}
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


REQUIREMENTS = {  # how the parser of options says it, and how this command does
    r".*(?:greater than or equal to |range x>=)(\S+?)\.?": r"expected \1 or more",
    r".*(?:less than or equal to |range x<=)(\S+?)\.?": r"expected \1 or less",
    r".*range (\S+?)<=x<=(\S+?)\.?": r"expected \1 to \2",
    r".*valid int.*": "expected a whole number",
    r".*valid (?:number|float).*": "expected a number",
    r".*is not one of (.*?)\.?": r"expected one of \1",
}


def in_option(says: str, flags: Sequence[str], typed: Sequence[str]) -> str:
    """What the parser says of an option's value, as `--band 0: expected 1 or more`; `typed` is the command line."""
    given = max(flags, key=len)
    for word, after in zip(typed, [*typed[1:], ""], strict=True):
        flag, equals, value = word.partition("=")
        if flag in flags:
            given = f"{flag} {value if equals else after}"
    for form, said in REQUIREMENTS.items():
        found = re.fullmatch(form, says)
        if found:
            return f"{given}: {found.expand(said)}".replace("'", "")
    return f"{given}: {says}"
