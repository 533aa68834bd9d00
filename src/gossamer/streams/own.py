"""A stream of somebody's own records, from columns: what is declared, what is read off, and who has which record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.records import Table
from gossamer.streams.arrays import table_of
from gossamer.streams.cells import is_missing, number
from gossamer.streams.columns import Columns, Words
from gossamer.streams.inferring import (
    Inferred,
    class_words,
    infer,
    infer_classes,
    infer_quantity,
    notes_of,
    undeclared_of,
)
from gossamer.streams.schema import REACH, End, Missing, Outside, Schema, few, range_of
from gossamer.streams.stream import OnePass, fingerprint, label_decides
from gossamer.types import Integers


@dataclass(frozen=True)
class Declared:
    """What is said of own records, by those who know them."""

    target: str
    categorical: Sequence[str] = ()
    categories: Mapping[str, Sequence[str]] | None = None
    classes: Sequence[str] | None = None
    drop: Sequence[str] = ()
    ranges: Mapping[str, tuple[End, End]] | None = None
    outside: Outside = "clip"
    missing: Missing = "refuse"
    intercept: bool = True
    regression: bool = False


@dataclass(frozen=True)
class Dealing:
    """Who gets which records, and which are kept for a test."""

    learners: int = 10
    split_by: str | None = None
    per_round: int | Sequence[int] = 1
    test: Columns | None = None
    test_fraction: float | None = None
    seed: int = 0
    aside: float | None = None  # of the records, the first: left out
    only_aside: bool = False  # or the only ones that are not


def stream_of(columns: Columns, declared: Declared, dealing: Dealing, about: Mapping[str, Any]) -> OnePass:
    """Records in the order of the columns, to learners in turn or by a column's values, without those of the test."""
    training, tested = _kept_for_test(len(columns), dealing, _left(columns, dealing))
    schema, found, left_out = schema_of(columns, declared, dealing, training)
    clipped, clipped_test = Counter[str](), Counter[str]()
    X, labels = schema.encode(columns, training, clipped)
    owners = _owners(columns, dealing, training)
    undeclared = undeclared_of(found, schema)
    if dealing.split_by == declared.target and not undeclared:
        undeclared = label_decides(Argument("split_by", declared.target), "split by another column")
    if undeclared:
        table = replace(table_of(X, labels), undeclared=undeclared, classes=schema.declared_classes)
        table = replace(table, width=schema.width, numbers=schema.numbers if table.codebook is None else ())
    else:
        table = schema.packed_table(X, labels)
    test = None
    if dealing.test is not None or tested is not None:
        rows = schema.encode(columns if dealing.test is None else dealing.test, tested, clipped_test)
        test = _like(table, schema, *rows)
    description = {
        **about, "target": declared.target, "split_by": dealing.split_by, "features": schema.features,
        "columns": schema.column_names, "names": list(owners), "classes": schema.classes,
        "schema": schema.described(),
        **({} if test is None else {"test": fingerprint(test, [])}),  # no run goes on with other ones
    }  # fmt: skip
    # Names of classes without counts: those would be one more statistic of the data in every output.
    notes: list[str] = [*columns.notes]
    if dealing.aside is not None and not dealing.only_aside:
        whose = "the records" if dealing.split_by is None else "every learner's records"
        notes.append(f"Set aside, and not learnt from: the first {dealing.aside:.4g} of {whose}.")
    notes += [f"Left out, because the name says that it only numbers the records: {name}." for name in left_out]
    notes += [f"Classes of {declared.target}: {few(schema.classes, 6)}."] if schema.classes else []
    notes += clipped_notes(schema, clipped) + clipped_notes(schema, clipped_test, " in the test")
    notes += notes_of(found, schema)
    if undeclared and not undeclared_of(found, schema):
        notes.append(undeclared.capitalised)
    stream = OnePass(table, list(owners.values()), dealing.per_round, description, notes)
    stream.test = test
    stream.clipped = {name: count / len(labels) for name, count in clipped.items() if count}
    return stream


def schema_of(
    columns: Columns, declared: Declared, dealing: Dealing, training: Integers | None = None
) -> tuple[Schema, Inferred, list[str]]:
    """What is declared stands; what is not is read off the columns. Also the columns that only number the records."""
    target, categorical = declared.target, list(declared.categorical)
    ranges = {name: range_of(name, ends) for name, ends in (declared.ranges or {}).items()}
    categories = {name: _names(name, listed) for name, listed in (declared.categories or {}).items()}
    classes = [] if declared.classes is None else _names(target, declared.classes)
    owner = [] if dealing.split_by is None else [dealing.split_by]
    said = [target, *owner, *categorical, *categories, *declared.drop, *ranges]
    for name in said:
        columns.column(name)
    numbering = [name for name in columns.header if name.startswith("Unnamed: ") and name not in said]
    features = [name for name in columns.header if name not in {target, *owner, *declared.drop, *numbering}]
    _check(declared, features, classes, categories)
    _refuse_words(columns, declared)
    columns.refuse_missing(target, classes or class_words(columns, target), target=True)
    for name in owner:
        columns.refuse_missing(name)
    if declared.missing == "refuse":
        for name in features:
            columns.refuse_missing(name, categories.get(name, ()))
    open_ = [name for name in features if name not in ranges and name not in categories]
    found = infer(columns, dealing.test, training, open_, categorical, declared.missing)
    if declared.regression and target not in ranges:
        infer_quantity(found, columns, training, target)
    elif not declared.regression and not classes:
        infer_classes(found, columns, dealing.test, target)
    used = {name for name in features if name not in found.constant} | ({target} if declared.regression else set())
    ends = {name: each for name, (each, _) in ranges.items() if name in used} | found.ranges
    dates = [name for name, (_, date) in ranges.items() if date and name in used]
    inferred = {*found.ranges, *found.categories, *([target] if found.classes else [])}
    schema = Schema(
        target, classes or found.classes, ends, {**categories, **found.categories}, declared.intercept, inferred, dates,
        declared.outside, declared.missing,
    )  # fmt: skip
    return schema, found, numbering


def _check(
    declared: Declared, features: Sequence[str], classes: Sequence[str], categories: Mapping[str, Sequence[str]]
) -> None:
    for name in [name for name in categories if name not in features]:
        remedy = ("declare the target's with ", Argument("classes")) if name == declared.target else ("leave them out",)
        raise GossamerError(f"column {name!r} has declared categories and is no feature: ", *remedy, ".")
    if classes and declared.regression:
        raise BadValue("classes", classes, "a regression has none", ("leave it out, or change ", Argument("model")))


def _refuse_words(columns: Columns, declared: Declared) -> None:
    """A quantity is a number."""
    column = columns.column(declared.target)
    if not declared.regression or not isinstance(column, Words) or columns.holds_dates(declared.target):
        return
    words = [one for one in column.names if number(one, column.comma) is None and not is_missing(one)]
    if words:
        raise GossamerError(
            f"column {declared.target!r} holds {words[0]!r} and a regression needs numbers: change ",
            Argument("model"), ".",
        )  # fmt: skip


def clipped_notes(schema: Schema, clipped: Mapping[str, int], where: str = "") -> list[str]:
    """How many values lay outside, by column."""
    notes = []
    for name, count in sorted(clipped.items()):
        values, were = ("value", "was") if count == 1 else ("values", "were")
        if name in schema.inferred:
            said = f"lay more than {REACH:g} times as far out as most of its values, {schema.said_range(name)},"
        else:
            said = f"lay outside {schema.said_range(name)}"
        notes.append(f"{count} {values} of {name}{where} {said} and {were} clipped.")
    return notes


def _like(table: Table, schema: Schema, X: Any, y: Any) -> Table:
    """A test's records, laid out as those that are learnt from."""
    if table.codebook is None:
        return replace(schema.table(X, y), bounds=table.bounds)
    return schema.packed_table(X, y) if not table.undeclared else table_of(X, y)


def _left(columns: Columns, dealing: Dealing) -> Integers | None:
    """Which records are there where some were set aside; None: all.

    Neither a seed nor the number of learners decides it: whoever paid for something that was done before, such as
    tuning, must not pay for the run as well.
    """
    if dealing.aside is None:
        return None
    owner: Any = np.zeros(len(columns), dtype=np.int64)
    if dealing.split_by is not None:
        owner = columns.words(dealing.split_by).codes
    aside = np.zeros(len(columns), dtype=bool)
    for code in np.unique(owner):
        own = np.flatnonzero(owner == code)
        cut = round(dealing.aside * len(own))
        if not 0 < cut < len(own):
            requirement = f"that is {cut} of {len(own)} records{' of a learner' * (dealing.split_by is not None)}"
            raise BadValue("aside", dealing.aside, [requirement, ", expected some, and not all"])
        aside[own[:cut]] = True
    return np.flatnonzero(aside if dealing.only_aside else ~aside)


def _kept_for_test(count: int, dealing: Dealing, left: Integers | None) -> tuple[Integers | None, Integers | None]:
    """Which records are learnt from and which are not, by chance and by how many there are alone; None: all, none."""
    fraction = dealing.test_fraction
    if fraction is None:
        return left, None
    count = count if left is None else len(left)
    if dealing.test is not None:
        raise GossamerError(
            Argument("test"),
            " names records of the test and ",
            Argument("test_fraction"),
            " takes some of these: give one.",
        )
    kept = round(fraction * count)
    if not 0 < fraction < 1 or not 0 < kept < count:
        raise BadValue("test_fraction", fraction, f"expected above 0 and below 1, and at least one of {count} records")
    test = np.zeros(count, dtype=bool)
    test[np.random.default_rng(dealing.seed).permutation(count)[:kept]] = True
    if left is None:
        return np.flatnonzero(~test), np.flatnonzero(test)
    return left[~test], left[test]


def _owners(columns: Columns, dealing: Dealing, training: Integers | None) -> dict[str, Integers]:
    """Which of the records that are learnt from are whose."""
    count = len(columns) if training is None else len(training)
    if dealing.split_by is None:
        return _in_turn(columns.source, count, dealing.learners)
    words = columns.words(dealing.split_by)
    codes = words.codes if training is None else words.codes[training]
    held = {words.names[k]: k for k in np.unique(codes)}
    if len(held) < 2:
        raise GossamerError(
            f"the split column is {next(iter(held))!r} in every record: it must name at least two learners."
        )
    return {name: np.flatnonzero(codes == held[name]) for name in in_turn_of_names(held)}


def in_turn_of_names(names: Iterable[str]) -> list[str]:
    """Learners as everything lists them: by number where all names are whole numbers, else by name."""
    listed = sorted(names)
    return sorted(listed, key=int) if all(name.isascii() and name.isdigit() for name in listed) else listed


def _in_turn(source: str, count: int, learners: int) -> dict[str, Integers]:
    if count < learners:
        raise GossamerError(
            f"{source} has {count} records for {learners} learners: use ", Argument("learners", count), " or fewer."
        )
    if learners < 2:
        raise BadValue("learners", learners, "expected at least 2, one alone has nobody to learn with")
    return {str(i): np.arange(i, count, learners) for i in range(learners)}


def _names(column: str, listed: Sequence[str]) -> list[str]:
    """Declared names without the spaces around them, which cells have not either."""
    if isinstance(listed, str):
        raise GossamerError(f"{listed!r} for column {column!r} is one word: give a list of names.")
    names = [str(one).strip() for one in listed]
    if not names or "" in names:
        raise GossamerError(f"column {column!r} may hold {names}: expected at least two names, none of them empty.")
    return names
