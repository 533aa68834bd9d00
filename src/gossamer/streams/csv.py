"""A stream from a user's own CSV file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.streams.arrays import table_of
from gossamer.streams.cells import Cells, number, read_cells
from gossamer.streams.schema import Schema, few, label
from gossamer.streams.stream import OnePass, label_decides
from gossamer.types import Integers


def from_csv(
    path: str | Path,
    target: str,
    learners: int = 10,
    *,
    split_by: str | None = None,
    per_round: int | Sequence[int] = 1,
    categorical: Sequence[str] = (),
    categories: Mapping[str, Sequence[str]] | None = None,
    classes: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    intercept: bool = True,
    regression: bool = False,
) -> OnePass:
    """Records from a CSV file with a header line; the column `target` is the label, all others are features.

    Each line is a record. Records go to `learners` in turn, or, with `split_by`, to one learner per value of that
    column. That column is then no feature: it says who has a record, which is public, and ε is about all the rest of
    it. `categorical` columns become one-hot columns, a column of `categories[column] = [name, …]` does so for
    those names. Numbers are scaled to [0, 1] by `ranges[column] = (low, high)`. Labels are numbers of `classes`, in the
    order given, or with `regression=True` numbers, scaled like a feature. `intercept` adds a column of ones.
    The columns lie as a `Schema` says, whatever their order in the file; `description["columns"]` has their names.

    Ranges, categories and classes that are not declared are read off the file. One record can change them, and with
    them every message, so such a stream cannot be used privately; it carries a note that says so. Where all is
    declared, another value in a record changes that record's row and nothing else.
    """
    cells = read_cells(Path(path))
    ranges, categories = ranges or {}, {name: _names(name, listed) for name, listed in (categories or {}).items()}
    classes = [] if classes is None else _names(target, classes)
    owner = [] if split_by is None else [split_by]
    for name in [target, *owner, *categorical, *categories, *drop, *ranges]:
        cells.column(name)
    features = [name for name in cells.header if name not in {target, *owner, *drop}]
    for name in [name for name in categories if name not in features]:
        remedy = ("declare the target's with ", Argument("classes")) if name == target else ("leave them out",)
        raise GossamerError(f"column {name!r} has declared categories and is no feature: ", *remedy, ".")
    if classes and regression:
        raise BadValue("classes", classes, "a regression has none", ("leave it out, or change ", Argument("model")))
    cells.refuse_missing([target, *features, *owner], {**categories, target: classes})
    words = [cell for cell in cells.column(target) if number(cell) is None] if regression else []
    if words:
        raise GossamerError(
            f"column {target!r} holds {words[0]!r} and a regression needs numbers: change ", Argument("model"), "."
        )

    # What is declared stands; what is not is read off the file.
    one_hot = [name for name in features if name in {*categorical, *categories}]
    numbers = [name for name in features if name not in one_hot] + [target] * regression
    inferred_ranges = {name: _range_in(cells, name) for name in numbers if name not in ranges}
    inferred_categories = {name: _categories_in(cells, name) for name in one_hot if name not in categories}
    inferred_classes = [] if classes or regression else _classes_of(cells, target)
    inferred = {*inferred_ranges, *inferred_categories, *([target] if inferred_classes else [])}
    used = {name: ends for name, ends in {**ranges, **inferred_ranges}.items() if name in {*features, *numbers}}
    listed = {**categories, **inferred_categories}
    schema = Schema(target, classes or inferred_classes, used, listed, intercept, inferred)

    owners = _in_turn(cells, learners) if split_by is None else _by_value(cells.column(split_by))
    X, labels = schema.encode(cells)
    undeclared = schema.undeclared
    if split_by == target and not undeclared:
        undeclared = label_decides(Argument("split_by", target), "split by another column")
    if undeclared:
        table = replace(table_of(X, labels), undeclared=undeclared, classes=schema.declared_classes)
    else:
        table = schema.packed_table(X, labels)
    description = {
        "csv": Path(path).name, "target": target, "split_by": split_by, "features": schema.features,
        "columns": schema.column_names, "names": list(owners), "schema": schema.described(),
    }  # fmt: skip
    # Names of classes without counts: those would be one more statistic of the data in every output.
    notes = [f"Classes of {target}: {few(schema.classes, 6)}."] if schema.classes else []
    notes += [undeclared.capitalised] if undeclared else []
    return OnePass(table, list(owners.values()), per_round, description, notes)


def classes_in(path: str | Path, target: str, declared: Sequence[str] | None = None) -> tuple[int, bool]:
    """How many classes there are, and whether all are numbers: what a model can be guessed from.

    Of declared ones where given, else of the labels in the file.
    """
    names = _label_names(read_cells(Path(path)).column(target)) if declared is None else declared
    return len(names), not any(isinstance(label(name), str) for name in names)


def _names(column: str, listed: Sequence[str]) -> list[str]:
    """Declared names without the spaces around them, which cells have not either."""
    if isinstance(listed, str):
        raise GossamerError(f"{listed!r} for column {column!r} is one word: give a list of names.")
    names = [str(one).strip() for one in listed]
    if not names or "" in names:
        raise GossamerError(f"column {column!r} may hold {names}: expected at least two names, none of them empty.")
    return names


def _range_in(cells: Cells, name: str) -> tuple[float, float]:
    values = cells.numbers(name)
    low, high = float(values.min()), float(values.max())
    if low == high:
        raise _tells_nothing(cells, name, f"{low:g}")
    return low, high


def _categories_in(cells: Cells, name: str) -> list[str]:
    names = sorted(set(cells.column(name)))
    if len(names) < 2:
        raise _tells_nothing(cells, name, repr(names[0]))
    return names


def _tells_nothing(cells: Cells, name: str, value: str) -> GossamerError:
    return GossamerError(
        f"{cells.path}: column {name!r} is {value} in every record and tells nothing; leave it out with ",
        Argument("drop", [name]), ".",
    )  # fmt: skip


def _classes_of(cells: Cells, target: str) -> list[str]:
    classes = _label_names(cells.column(target))
    if len(classes) < 2:
        raise GossamerError(
            f"{cells.path}: column {target!r} is {classes[0]} in every record, expected at least two classes: "
            "name another target, or add records of another class."
        )
    return classes


def _label_names(column: Sequence[str]) -> list[str]:
    """A name for every label there is, sorted: as numbers where all are, so that 2 comes before 10, else as words."""
    names = {label(cell): cell for cell in column}
    words = any(isinstance(key, str) for key in names)
    return sorted(names.values()) if words else [name for _, name in sorted(names.items())]


def _in_turn(cells: Cells, learners: int) -> dict[str, Integers]:
    """Which records are whose, where they go round."""
    if len(cells) < learners:
        raise GossamerError(
            f"{cells.path} has {len(cells)} records for {learners} learners: use ", Argument("learners", len(cells)),
            " or fewer.",
        )  # fmt: skip
    if learners < 2:
        raise BadValue("learners", learners, "expected at least 2, one alone has nobody to learn with")
    return {str(i): np.arange(i, len(cells), learners) for i in range(learners)}


def _by_value(column: Sequence[str]) -> dict[str, Integers]:
    """Which records are whose, where a column names the learners."""
    values, owner = np.unique(np.array(column), return_inverse=True)
    if len(values) < 2:
        raise GossamerError(
            f"the split column is {str(values[0])!r} in every record: it must name at least two learners."
        )
    return {str(value): np.flatnonzero(owner == i) for i, value in enumerate(values)}
