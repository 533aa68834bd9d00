"""What nobody has declared of own records, read off them: ranges, categories, classes, and columns that tell nothing.

One record can change what is read off, so that nothing private comes of it. It is for runs that claim nothing, and it
says what to declare instead.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gossamer.errors import Argument, GossamerError, Part, Sentence
from gossamer.quoting import typed
from gossamer.streams.cells import MAY_BE_CLASSES, is_missing, number
from gossamer.streams.columns import Columns, Numbers, Words
from gossamer.streams.schema import MOST_CATEGORIES, Schema, few, label
from gossamer.types import Integers

QUANTILES = (0.01, 0.99)  # of a feature's numbers, which become the ends of its range
MOST_SAID = 40  # columns of which a line to copy is written out


@dataclass
class Inferred:
    """What was read off, beside what was declared."""

    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    extremes: dict[str, tuple[float, float]] = field(default_factory=dict)  # the least and the largest number there is
    categories: dict[str, list[str]] = field(default_factory=dict)
    automatic: list[str] = field(default_factory=list)  # columns taken as categories because they hold words
    classes: list[str] = field(default_factory=list)
    constant: dict[str, str] = field(default_factory=dict)  # columns that tell nothing, and what they hold


def infer(
    columns: Columns, others: Columns | None, training: Integers | None, features: Sequence[str],
    categorical: Collection[str], missing: str,
) -> Inferred:  # fmt: skip
    """Of features that nothing is declared of. Categories are those of all records, ranges those of `training` ones."""
    found = Inferred()
    for name in features:
        column = columns.column(name)
        if name in categorical or (isinstance(column, Words) and _holds_words(columns, name, column)):
            names = _names_in(columns, others, name)
            if name not in categorical:
                _refuse_many(columns, name, names)
            if len(names) < 2 and name in categorical:
                raise _tells_nothing(columns, name, names)
            if len(names) + (missing == "category" and columns.missing(name) is not None) < 2:
                found.constant[name] = repr(names[0]) if names else "empty"
                continue
            found.categories[name] = names
            found.automatic += [] if name in categorical else [name]
        else:
            _infer_range(found, columns, training, name, missing)
    return found


def _infer_range(found: Inferred, columns: Columns, training: Integers | None, name: str, missing: str) -> None:
    column = columns.column(name)
    if isinstance(column, Numbers) and column.dates:
        column = columns.words(name)
    if isinstance(column, Words):  # dates, or numbers with a word among them: refused in a sentence
        columns.numbers(name)
    values = columns.numbers(name)
    every = values[~np.isnan(values)]
    some = every if training is None else values[training][~np.isnan(values[training])]
    if not len(every) or every.min() == every.max():
        found.constant[name] = f"{every[0]:.15g}" if len(every) else "empty"
        return
    with np.errstate(over="ignore"):  # ends too far apart are refused in a sentence
        low, high = np.quantile(some, QUANTILES) if len(some) else (0.0, 0.0)
    if not low < high:
        low, high = (some.min(), some.max()) if len(some) and some.min() < some.max() else (every.min(), every.max())
    found.ranges[name] = (float(low), float(high))
    found.extremes[name] = (float(every.min()), float(every.max()))


def infer_quantity(found: Inferred, columns: Columns, training: Integers | None, target: str) -> None:
    """A quantity's range is all of it: what is to be predicted is not clipped."""
    values = columns.numbers(target)
    some = values if training is None else values[training]
    low, high = float(some.min()), float(some.max())
    if low == high:
        raise GossamerError(
            f"{columns.source}: column {target!r} is {low:.15g} in every record, expected a quantity that varies: "
            "name another target."
        )
    found.ranges[target] = (low, high)
    found.extremes[target] = (float(values.min()), float(values.max()))


def infer_classes(found: Inferred, columns: Columns, others: Columns | None, target: str) -> None:
    names = label_names(columns, others, target)
    if len(names) < 2:
        raise GossamerError(
            f"{columns.source}: column {target!r} is {names[0]} in every record, expected at least two classes: "
            "name another target, or add records of another class."
        )
    found.classes = names


def label_names(columns: Columns, others: Columns | None, target: str) -> list[str]:
    """A name for every label there is, sorted: as numbers where all are, so that 2 comes before 10, else as words."""
    means_itself = class_words(columns, target)
    held = {*_held(columns, target)} | ({*_held(others, target)} if others is not None else set())
    names = {label(one): one for one in sorted(held, reverse=True) if not is_missing(one) or one in means_itself}
    words = any(isinstance(key, str) for key in names)
    return sorted(names.values()) if words else [name for _, name in sorted(names.items())]


def class_words(columns: Columns, target: str) -> list[str]:
    """Words such as none and NA that name a class, because the target's other values are words, too."""
    held = _held(columns, target)
    if not any(number(one) is None and not is_missing(one) for one in held):
        return []
    return [one for one in held if one.lower() in MAY_BE_CLASSES]


def _held(columns: Columns, name: str) -> list[str]:
    words = columns.words(name)
    return [words.names[k] for k in np.unique(words.codes)]


def _holds_words(columns: Columns, name: str, column: Words) -> bool:
    """Whether text is what a column holds: not dates, and not numbers with a few slips among them."""
    there = [one for one in column.names if not is_missing(one)]
    numbers = sum(number(one, column.comma) is not None for one in there)
    return not columns.holds_dates(name) and 2 * numbers < len(there)


def _names_in(columns: Columns, others: Columns | None, name: str) -> list[str]:
    held = {*_held(columns, name)} | ({*_held(others, name)} if others is not None else set())
    return sorted(one for one in held if not is_missing(one))


def _refuse_many(columns: Columns, name: str, names: Sequence[str]) -> None:
    if len(names) > MOST_CATEGORIES:
        raise GossamerError(
            f"{columns.source}: column {name!r} holds {len(names)} unlike words, expected at most {MOST_CATEGORIES} to "
            "take them as categories: group them, or leave the column out with ", Argument("drop", [name]), ".",
        )  # fmt: skip


def _tells_nothing(columns: Columns, name: str, names: Sequence[str]) -> GossamerError:
    return GossamerError(
        f"{columns.source}: column {name!r} is {names[0] if names else ''!r} in every record and tells nothing; leave "
        "it out with ", Argument("drop", [name]), ".",
    )  # fmt: skip


def notes_of(found: Inferred, schema: Schema) -> list[Sentence]:
    """What a user should know of what was read off, and what to copy into the next command."""
    notes = []
    if found.constant:
        said = ", ".join(f"{name} ({value})" for name, value in list(found.constant.items())[:MOST_SAID])
        notes.append(Sentence(f"Left out, because every record has the same value there: {said}."))
    if found.automatic:
        words = list(map(typed, found.automatic))
        notes.append(Sentence(f"Columns that hold words were taken as categories: {few(words, MOST_SAID)}."))
    undeclared = undeclared_of(found, schema)
    return notes + ([undeclared.capitalised] if undeclared is not None else [])


def undeclared_of(found: Inferred, schema: Schema) -> Sentence | None:
    """What was read off the data and how to declare it; None where all was declared."""
    what, options = list[Part](), list[Part]()
    constant, categories = (list(map(typed, names)) for names in (found.constant, sorted(found.categories)))
    numbers = [name for name in [*schema.features, schema.target] if name in found.ranges]
    if numbers:
        what.append(f"the ranges of {few(list(map(typed, numbers)))}")
        options.append(range_argument({name: found.extremes[name] for name in numbers}))
    if found.categories:
        what.append(f"the categories of {few(categories)}")
        options += [_categories_argument(name, found.categories[name]) for name in sorted(found.categories)[:MOST_SAID]]
    if found.classes:
        what.append(f"the classes of {schema.target}")
        options.append(Argument("classes", found.classes[:MOST_SAID]))
    if found.constant:
        what.append(f"what {few(constant)} may hold")
        options.append(Argument("drop", list(found.constant)[:MOST_SAID]))
    if not what:
        return None
    return Sentence(
        *_listed(what), " were read off the data, where one record can change them and no privacy budget pays for "
        "it: declare them with ", *_spaced(options), " (as this file has it: say what you would say without it).",
    )  # fmt: skip


def range_argument(extremes: Mapping[str, tuple[float, float]]) -> Argument:
    """The line to copy: every number that there is lies within, and the ends are round."""
    ends = {name: rounded_out(*each) for name, each in list(extremes.items())[:MOST_SAID]}
    text = ",".join(f"{typed(name)}={low:.15g}:{high:.15g}" for name, (low, high) in ends.items())
    return Argument("range", shlex.quote(text), f"ranges={ends!r}")


def rounded_out(low: float, high: float) -> tuple[float, float]:
    """Ends of two digits of their distance, as people would say them: 17.3 and 89.6 are 17 and 90."""
    unit = math.floor(math.log10(high - low)) - 1
    down, up = math.floor(_shifted(low, -unit)), math.ceil(_shifted(high, -unit))
    return _plain(_shifted(down, unit), low, min), _plain(_shifted(up, unit), high, max)


def _shifted(value: float, digits: int) -> float:
    """value · 10^digits, with divisors that floats hold exactly."""
    return value * 10.0**digits if digits >= 0 else value / 10.0**-digits


def _plain(rounded: float, end: float, outer: Any) -> float:
    """Whole where it can be; never within the numbers that there are."""
    kept = outer(rounded, end)
    return int(kept) if float(kept).is_integer() and abs(kept) < 2**53 else float(f"{kept:.15g}")


def _categories_argument(name: str, names: Sequence[str]) -> Argument:
    said = list(names) if len(names) <= MOST_SAID else ["A", "B", "…"]
    text = f"{typed(name)}={'|'.join(typed(each, '|') for each in said)}"
    return Argument("categories", shlex.quote(text), f"categories={{{name!r}: {said!r}}}")


def _listed(parts: Sequence[Part]) -> list[Part]:
    """a, b and c."""
    *others, last = parts
    joined = [each for part in others for each in (part, ", ")]
    return [*joined[:-1], " and ", last] if others else [last]


def _spaced(options: Sequence[Part]) -> list[Part]:
    """As they are typed, one after the other, so that they can be copied."""
    return [part for option in options for part in (" ", option)][1:]
