"""Settings that know themselves: their kind, default, limits and help, written once, beside the field.

A command's option, a key of a TOML file and a stored setting are views of the same field.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from gossamer.errors import BadValue, GossamerError, near


def setting(
    default: Any = None,
    *,
    help: str,
    least: float | None = None,
    most: float | None = None,
    choices: Collection[str] = (),
    flags: str = "",
) -> Any:
    """A field of a description; `flags` are the option's names on the command, where they differ from the field's.

    `choices` are the only values that it may have, where its type does not say so.
    """
    about = {"help": help, "least": least, "most": most, "flags": flags.split(), "choices": tuple(choices)}
    return dataclasses.field(default=default, metadata=about)


class Setting(NamedTuple):
    """What is known of one field."""

    name: str
    table: str  # the part of the description that it belongs to, which is its table in a TOML file
    kind: type  # str, int, float or bool; of a list, that of its items
    many: bool  # a list of such values
    optional: bool  # None is a value: it is decided by a rule
    default: Any
    help: str
    least: float | None
    most: float | None
    flags: list[str]
    choices: tuple[str, ...]  # the only values that it may have; (): any

    def check(self, value: Any) -> Any:
        """The value as a description keeps it; BadValue where it is of another kind, or beyond its limits."""
        if value is None and self.optional:
            return None
        if self.many:
            value = [value] if isinstance(value, str) else value
            if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
                raise BadValue(self.name, value, "expected a list of texts")
            return tuple(value)
        if self.kind is str and isinstance(value, list | tuple):
            value = ",".join(map(str, value))  # in a file, step = [1, 0.8] says what step = "1,0.8" does
        if self.kind is str and isinstance(value, int | float) and not isinstance(value, bool):
            value = f"{value!r}"
        if self.kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1000:
            value = float(value)
        if type(value) is not self.kind:
            raise BadValue(self.name, value, f"expected {_KINDS[self.kind]}")
        if self.choices and value not in self.choices:
            raise BadValue(self.name, value, f"expected {_listed(self.choices)}", near(str(value), self.choices))
        low = -math.inf if self.least is None else self.least
        high = math.inf if self.most is None else self.most
        if isinstance(value, int | float) and not low <= value <= high:
            limits = f" from {low:g}" * (low > -math.inf) + f" to {high:g}" * (high < math.inf)
            raise BadValue(self.name, value, f"expected {_KINDS[self.kind]}{limits}")
        return value


_KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def settings_in(part: type, table: str) -> dict[str, Setting]:
    """The settings of one part of a description, by name."""
    kinds = get_type_hints(part)
    known = {}
    for one in dataclasses.fields(part):
        kind, optional = _without_none(kinds[one.name])
        many = get_origin(kind) is tuple
        kind = get_args(kind)[0] if many else kind
        about = dict(one.metadata)
        if get_origin(kind) is Literal:
            kind, about["choices"] = str, get_args(kind)
        known[one.name] = Setting(one.name, table, kind, many, optional, one.default, **about)
    return known


def _without_none(kind: Any) -> tuple[Any, bool]:
    """int | None is an int that may be None."""
    if get_origin(kind) not in (types.UnionType, Union):
        return kind, False
    (only,) = [one for one in get_args(kind) if one is not type(None)]
    return only, True


def check_names(given: Collection[str], known: Collection[str], place: str) -> None:
    """Refuse a name that is not known, and say which one was probably meant."""
    for name in given:
        if name not in known:
            raise GossamerError(f"{place} has no {name!r}: {near(name, known) or 'expected ' + _listed(known)}.")


def _listed(names: Collection[str]) -> str:
    return f"one of {', '.join(names)}" if len(names) > 1 else ", ".join(names)


def check_all(settings: Mapping[str, Setting], values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: settings[name].check(value) for name, value in values.items()}
