"""A stream from a user's own CSV file."""

from __future__ import annotations

import csv
import string
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gossamer.errors import GossamerError
from gossamer.records import FeatureBounds, Table, dense_table, one_hot_table
from gossamer.streams.arrays import table_of
from gossamer.streams.stream import OnePass, label_decides
from gossamer.types import Array, Integers

MOST_CATEGORIES = 1000
MISSING = {"", "?", "na", "n/a", "nan", "null", "none"}


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

    Ranges, categories and classes that are not declared are read off the file. One record can change them, and with
    them every message, so such a stream cannot be used privately; it carries a note that says so. Where all is
    declared, another value in a record changes that record's row and nothing else.
    """
    cells = read_cells(Path(path))
    ranges, categories = ranges or {}, {name: _stripped(name, listed) for name, listed in (categories or {}).items()}
    classes = None if classes is None else _stripped(target, classes)
    for name in [target, *([split_by] if split_by else []), *categorical, *categories, *drop, *ranges]:
        cells.column(name)
    features = [name for name in cells.header if name not in {target, split_by, *drop}]
    if not features:
        raise GossamerError(f"{path} has no feature columns besides {target!r}: give at least one.")
    one_hot = {*categorical, *categories}
    _check_declared(target, features, ranges, categories, one_hot, classes, regression)
    known = {**categories, target: classes or ()}
    cells.refuse_missing([target, *features, *([split_by] if split_by else [])], known)
    records = len(cells.lines)
    if split_by is None and records < learners:
        raise GossamerError(f"{path} has {records} records for {learners} learners: use --learners {records} or fewer.")

    blocks = [
        one_hot_block(cells, name, categories.get(name)) if name in one_hot else scaled(cells, name, ranges.get(name))
        for name in features
    ]
    if intercept:
        blocks.append(np.ones((records, 1)))
    labels = amounts(cells, target, ranges.get(target)) if regression else labels_of(cells, target, classes)
    undeclared = _undeclared(
        [name for name in [*features, *[target] * regression] if name not in one_hot and name not in ranges],
        [name for name in features if name in one_hot and name not in categories],
        target if classes is None and not regression else None,
    )
    if split_by == target:
        undeclared = undeclared or label_decides(f"--split-by {target}", "split by another column")
    order = _round_robin(records, learners) if split_by is None else _one_per_value(cells.column(split_by))
    names = (
        [f"{i}" for i in range(learners)]
        if split_by is None
        else np.unique(cells.column(split_by).astype(str)).tolist()
    )
    description = {"csv": Path(path).name, "target": target, "split_by": split_by, "features": features, "names": names}
    notes = [] if regression else [f"Classes of {target}: {_few(_class_names(cells, target, classes), 6)}."]
    notes += [undeclared[0].upper() + undeclared[1:]] if undeclared else []
    width = len(features) + intercept  # a number is at most 1, one column of a one-hot block is 1
    bounds = None if undeclared else FeatureBounds(width, width**0.5, 1.0)
    if undeclared:
        table = table_of(np.hstack(blocks), labels)
    else:
        table = _declared_table(blocks, labels, categories_alone=one_hot >= {*features})
    table = replace(table, bounds=bounds, undeclared=undeclared, classes=len(classes or ()))
    return OnePass(table, order, per_round, description, notes)


def _declared_table(blocks: Sequence[Array], labels: Array, categories_alone: bool) -> Table:
    """Codes or dense rows as the declaration has it, never as the values happen to be."""
    if categories_alone:
        digits = np.stack([block.argmax(axis=1) for block in blocks], axis=1)
        return one_hot_table(digits, [block.shape[1] for block in blocks], labels)
    return dense_table(np.hstack(blocks), labels)


def classes_in(path: str | Path, target: str, declared: Sequence[str] | None = None) -> tuple[int, bool]:
    """How many classes there are, and whether all are numbers: what a model can be guessed from.

    Of declared ones where given, else of the labels in the file.
    """
    if declared is not None:
        return len(declared), not any(isinstance(label(name), str) for name in declared)
    keys = _keys(read_cells(Path(path)).column(target))
    return len(set(keys)), not isinstance(keys[0], str)


class Cells(NamedTuple):
    path: Path
    header: list[str]
    lines: list[int]  # where in the file each record ends
    text: Any  # (records, columns) of strings

    def column(self, name: str) -> Any:
        if name not in self.header:
            raise GossamerError(f"{self.path} has no column {name!r}: expected one of {', '.join(self.header)}.")
        return self.text[:, self.header.index(name)]

    def refuse_missing(self, names: Sequence[str], known: Mapping[str, Sequence[str]]) -> None:
        """Refuse an empty cell, or one that says that it is; where 'none' is a declared name it means itself."""
        for name in names:
            missing = [cell.lower() in MISSING and cell not in known.get(name, ()) for cell in self.column(name)]
            if any(missing):
                line = self.lines[missing.index(True)]
                raise GossamerError(
                    f"{self.path}, line {line}: no value in column {name!r} ({sum(missing)} such in all); "
                    f"fill or remove these records, or leave the column out with --drop {name}."
                )


def lines_of(text: str, before: int = 0) -> list[tuple[int, str]]:
    """The lines that are not empty, numbered from `before` + 1; a line feed ends a line, and nothing else does.

    An empty line is no record, whatever is declared, so that leaving it out favours none: a CSV record has a target and
    a feature, with a comma in between, and a JSONL record has braces.
    """
    numbered = ((k, line.removesuffix("\r")) for k, line in enumerate(text.split("\n"), before + 1))
    return [(k, line) for k, line in numbered if line.strip(string.whitespace)]


def cells_of(place: str, line: str) -> list[str]:
    """The values of one line, from that line alone: a quote that is not closed takes no other record in."""
    try:
        csv.field_size_limit(sys.maxsize)  # no value is too long to be one
        return [cell.strip() for cell in next(csv.reader([line], strict=True), [])]
    except csv.Error as error:
        raise GossamerError(
            f"{place}: not read as CSV ({error}); correct that line, a record is one line with all its quotes closed."
        ) from None


def read_cells(path: Path) -> Cells:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise GossamerError(f"no file {path}: give the path of a CSV file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise GossamerError(
            f"{path} cannot be read as CSV ({error}): give a UTF-8 text file with a header line."
        ) from None
    rows = [(number, cells_of(f"{path}, line {number}", line)) for number, line in lines_of(text)]
    if len(rows) < 2:
        what = "is empty" if not rows else "has a header but no records"
        raise GossamerError(f"{path} {what}: expected a header line and at least one record.")
    header = rows[0][1]
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        raise GossamerError(f"{path} has the one column {header[0]!r}: its values must be separated by commas.")
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise GossamerError(f"{path} has two columns called {twice!r}: rename one.")
    for number, row in rows[1:]:
        if len(row) != len(header):
            raise GossamerError(
                f"{path}, line {number}: {len(row)} values for {len(header)} columns; correct that line."
            )
    return Cells(path, header, [number for number, _ in rows[1:]], np.array([row for _, row in rows[1:]], dtype=object))


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _numbers(cells: Cells, name: str) -> Array:
    values = [_number(cell) for cell in cells.column(name)]
    if None in values:
        k = values.index(None)
        raise GossamerError(
            f"{cells.path}, line {cells.lines[k]}: {str(cells.column(name)[k])!r} in column {name!r} "
            "is not a finite number; "
            f"correct it, use --categorical {name} if the column holds categories, --split-by {name} if it names the "
            f"learners, or --drop {name}."
        )
    return np.array(values, dtype=float)


def scaled(cells: Cells, name: str, declared: tuple[float, float] | None) -> Array:
    """A numeric column on [0, 1], by its declared range or else by what it holds."""
    values = _numbers(cells, name)
    low, high = declared if declared is not None else (float(values.min()), float(values.max()))
    if declared is None and low == high:
        raise GossamerError(
            f"{cells.path}: column {name!r} is {low:g} in every record and tells nothing; "
            f"leave it out with --drop {name}."
        )
    if not 0 < high - low < np.inf:
        raise GossamerError(
            f"range {low:g}:{high:g} of column {name!r}: expected finite ends, the lower below the upper."
        )
    outside = (values < low) | (values > high)
    if outside.any():
        k = int(outside.argmax())
        raise GossamerError(
            f"{cells.path}, line {cells.lines[k]}: {values[k]:g} in column {name!r} lies outside the declared range "
            f"{low:g}:{high:g}; correct the record or widen the range."
        )
    scaled: Array = ((values - low) / (high - low))[:, None]
    return scaled.clip(0.0, 1.0)  # rounding must not leave the range that privacy is accounted from


def one_hot_block(cells: Cells, name: str, declared: Sequence[str] | None) -> Array:
    column = cells.column(name)
    names = sorted(set(column)) if declared is None else list(declared)
    if len(names) > MOST_CATEGORIES:
        raise GossamerError(
            f"{cells.path}: column {name!r} holds {len(names)} categories, expected at most {MOST_CATEGORIES}: "
            f"group them, or leave the column out with --drop {name}."
        )
    if len(names) < 2:
        raise GossamerError(
            f"{cells.path}: column {name!r} is {names[0]!r} in every record and tells nothing; "
            f"leave it out with --drop {name}."
        )
    return np.eye(len(names))[_places(cells, name, column, names, "categories")]


def amounts(cells: Cells, target: str, declared: tuple[float, float] | None) -> Array:
    """A regression's labels."""
    words = [str(cell) for cell in cells.column(target) if _number(cell) is None]
    if words:
        raise GossamerError(f"column {target!r} holds {words[0]!r} and a regression needs numbers: change --model.")
    return scaled(cells, target, declared)[:, 0]


def labels_of(cells: Cells, target: str, declared: Sequence[str] | None) -> Array:
    column = cells.column(target)
    if declared is not None:
        return _places(cells, target, map(label, column), list(map(label, declared)), "classes").astype(float)
    keys = _keys(column)
    classes = sorted(set(keys))
    if len(classes) < 2:
        raise GossamerError(
            f"{cells.path}: column {target!r} is {classes[0]!s} in every record, expected at least two classes: "
            "name another target, or add records of another class."
        )
    return _places(cells, target, keys, classes, "classes").astype(float)


def _places(cells: Cells, name: str, values: Iterable[Any], known: Sequence[Any], what: str) -> Integers:
    """Every value's place among those known."""
    place = {value: k for k, value in enumerate(known)}
    found = np.array([place.get(value, -1) for value in values])
    if (found < 0).any():
        k = int(found.argmin())
        raise GossamerError(
            f"{cells.path}, line {cells.lines[k]}: {str(cells.column(name)[k])!r} in column {name!r} is none of the "
            f"declared {what} {_few(list(map(str, known)), 6)}; correct the record or declare it, too."
        )
    return found


def _keys(column: Any) -> list[Any]:
    """Labels as whole numbers if all are, else as numbers if all are, else as words; so 2 sorts before 10, 1 is 1.0."""
    for kind in (int, _number, str):
        try:
            keys = [kind(cell) for cell in column]
        except ValueError:
            continue
        if None not in keys:
            return keys
    raise AssertionError("every cell is a word")


def label(cell: str) -> Any:
    """One label by itself, as a number if it is one."""
    for kind in (int, _number):
        try:
            key = kind(cell)
        except ValueError:
            continue
        if key is not None:
            return key
    return cell.strip()


def _class_names(cells: Cells, target: str, declared: Sequence[str] | None) -> list[str]:
    """Names without counts: those would be one more statistic of the data in every output."""
    if declared is not None:
        return list(declared)
    column = cells.column(target)
    return [str(cell) for _, cell in sorted(dict(zip(_keys(column), column, strict=True)).items())]


def _few(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def _round_robin(records: int, learners: int) -> list[Integers]:
    if learners < 2:
        raise GossamerError(f"learners={learners}: expected at least 2, one alone has nobody to learn with.")
    return [np.arange(i, records, learners) for i in range(learners)]


def _one_per_value(column: Any) -> list[Integers]:
    values, owner = np.unique(column.astype(str), return_inverse=True)
    if len(values) < 2:
        raise GossamerError(
            f"the split column is {str(values[0])!r} in every record: it must name at least two learners."
        )
    return [np.flatnonzero(owner == i) for i in range(len(values))]


def _check_declared(
    target: str,
    features: Sequence[str],
    ranges: Mapping[str, tuple[float, float]],
    categories: Mapping[str, Sequence[str]],
    one_hot: Collection[str],
    classes: Sequence[str] | None,
    regression: bool,
) -> None:
    """Refuse declarations that contradict each other or that nothing would use."""
    for name in features:
        if name in one_hot and name in ranges:
            raise GossamerError(f"column {name!r} has a range and holds categories: declare one of the two.")
    for name, listed in categories.items():
        if name not in features:
            remedy = "declare the target's with --classes" if name == target else "leave its categories out"
            raise GossamerError(f"column {name!r} has declared categories and is no feature: {remedy}.")
        _check_list(f"--categories {name}={'|'.join(listed)}", listed)
    if classes is not None and regression:
        raise GossamerError(f"--classes {','.join(classes)}: a regression has none; leave it out, or change --model.")
    if classes is not None:
        _check_list(f"--classes {','.join(classes)}", list(map(label, classes)))


def _stripped(name: str, listed: Sequence[str]) -> list[str]:
    if isinstance(listed, str):
        raise GossamerError(f"{listed!r} for column {name!r} is one word: give a list of names.")
    return [str(one).strip() for one in listed]


def _check_list(given: str, names: Sequence[Any]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise GossamerError(f"{given}: {twice} is there twice; name each once.")
    if len(names) < 2 or "" in names:
        raise GossamerError(f"{given}: expected at least two names, none of them empty.")


def _undeclared(numbers: Sequence[str], categories: Sequence[str], target: str | None) -> str:
    """What was read off the data and how to declare it, in one sentence; nothing where all was declared."""
    read, options = [], []
    if numbers:
        read.append(f"the ranges of {_few(numbers)}")
        options.append(f"--range {numbers[0]}=LOW:HIGH")
    if categories:
        read.append(f"the categories of {_few(categories)}")
        options.append(f"--categories {categories[0]}='A|B'")
    if target is not None:
        read.append(f"the classes of {target}")
        options.append("--classes A,B")
    if not read:
        return ""
    return (
        f"{_and(read)} were read off the data, where one record can change them and no privacy budget pays for it: "
        f"declare them with {_and(options)}."
    )


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
