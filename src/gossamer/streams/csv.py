"""A stream from a user's own CSV file."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gossamer.records import FeatureBounds
from gossamer.streams.arrays import table_of
from gossamer.streams.stream import OnePass
from gossamer.types import Array, GossamerError, Integers

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
    drop: Sequence[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    intercept: bool = True,
    regression: bool = False,
) -> OnePass:
    """Records from a CSV file with a header line; the column `target` is the label, all others are features.

    Records go to `learners` in turn, or, with `split_by`, to one learner per value of that column (which is then no
    feature). `categorical` columns become one-hot columns. Numbers are scaled to [0, 1] by `ranges[column] = (low,
    high)` or, where that is not given, by what the file holds: a statistic of the data, which no privacy budget pays
    for, so the stream carries a note that says so. `intercept` adds a column of ones. Labels are classes, numbered in
    sorted order, or numbers with `regression=True`, which are scaled like a feature.
    """
    cells = _read(Path(path))
    for name in [target, *([split_by] if split_by else []), *categorical, *drop, *(ranges or {})]:
        cells.column(name)
    features = [name for name in cells.header if name not in {target, split_by, *drop}]
    if not features:
        raise GossamerError(f"{path} has no feature columns besides {target!r}: give at least one.")
    cells.refuse_missing([target, *features, *([split_by] if split_by else [])])
    records = len(cells.lines)
    if split_by is None and records < learners:
        raise GossamerError(f"{path} has {records} records for {learners} learners: use --learners {records} or fewer.")

    blocks, guessed = [], []
    for name in features:
        if name in categorical:
            blocks.append(_one_hot(cells, name))
            continue
        scaled, was_guessed = _scaled(cells, name, (ranges or {}).get(name))
        blocks.append(scaled)
        guessed += [name] * was_guessed
    if intercept:
        blocks.append(np.ones((records, 1)))
    labels = _labels(cells, target, regression, ranges or {})
    if regression and target not in (ranges or {}):
        guessed.append(target)
    order = _round_robin(records, learners) if split_by is None else _one_per_value(cells.column(split_by))
    names = (
        [f"{i}" for i in range(learners)]
        if split_by is None
        else np.unique(cells.column(split_by).astype(str)).tolist()
    )
    description = {"csv": Path(path).name, "target": target, "split_by": split_by, "features": features, "names": names}
    notes = _notes(guessed) if regression else [_classes(cells, target), *_notes(guessed)]
    declared = not guessed and not categorical  # a list of categories read off the data is a statistic of it, too
    width = len(features) + intercept
    bounds = FeatureBounds(width, width**0.5, 1.0) if declared else None
    return OnePass(table_of(np.hstack(blocks), labels, bounds), order, per_round, description, notes)


def classes_in(path: str | Path, target: str) -> tuple[int, bool]:
    """How many different labels the file holds, and whether all are numbers: what a model can be guessed from."""
    keys = _keys(_read(Path(path)).column(target))
    return len(set(keys)), not isinstance(keys[0], str)


class _Cells(NamedTuple):
    path: Path
    header: list[str]
    lines: list[int]  # where in the file each record ends
    text: Any  # (records, columns) of strings

    def column(self, name: str) -> Any:
        if name not in self.header:
            raise GossamerError(f"{self.path} has no column {name!r}: expected one of {', '.join(self.header)}.")
        return self.text[:, self.header.index(name)]

    def refuse_missing(self, names: Sequence[str]) -> None:
        for name in names:
            missing = [cell.lower() in MISSING for cell in self.column(name)]
            if any(missing):
                line = self.lines[missing.index(True)]
                raise GossamerError(
                    f"{self.path}, line {line}: no value in column {name!r} ({sum(missing)} such in all); "
                    f"fill or remove these records, or leave the column out with --drop {name}."
                )


def _read(path: Path) -> _Cells:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except FileNotFoundError:
        raise GossamerError(f"no file {path}: give the path of a CSV file.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise GossamerError(
            f"{path} cannot be read as CSV ({error}): give a UTF-8 text file with a header line."
        ) from None
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
    return _Cells(
        path, header, [number for number, _ in rows[1:]], np.array([row for _, row in rows[1:]], dtype=object)
    )


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _numbers(cells: _Cells, name: str) -> Array:
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


def _scaled(cells: _Cells, name: str, declared: tuple[float, float] | None) -> tuple[Array, bool]:
    """A numeric column on [0, 1], and whether its range had to be read off the data."""
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
    return ((values - low) / (high - low))[:, None], declared is None


def _one_hot(cells: _Cells, name: str) -> Array:
    names, digits = np.unique(cells.column(name).astype(str), return_inverse=True)
    if len(names) > MOST_CATEGORIES:
        raise GossamerError(
            f"{cells.path}: column {name!r} holds {len(names)} categories, expected at most {MOST_CATEGORIES}: "
            f"group them, or leave the column out with --drop {name}."
        )
    if len(names) < 2:
        raise GossamerError(
            f"{cells.path}: column {name!r} is {str(names[0])!r} in every record and tells nothing; "
            f"leave it out with --drop {name}."
        )
    return np.eye(len(names))[digits]


def _labels(cells: _Cells, target: str, regression: bool, ranges: Mapping[str, tuple[float, float]]) -> Array:
    column = cells.column(target)
    if regression:
        words = [str(cell) for cell in column if _number(cell) is None]
        if words:
            raise GossamerError(f"column {target!r} holds {words[0]!r} and a regression needs numbers: change --model.")
        return _scaled(cells, target, ranges.get(target))[0][:, 0]
    keys = _keys(column)
    classes = sorted(set(keys))
    number = {name: k for k, name in enumerate(classes)}
    if len(classes) < 2:
        raise GossamerError(
            f"{cells.path}: column {target!r} is {classes[0]!s} in every record, expected at least two classes: "
            "name another target, or add records of another class."
        )
    return np.array([number[key] for key in keys], dtype=float)


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


def _classes(cells: _Cells, target: str) -> str:
    names, counts = np.unique(cells.column(target).astype(str), return_counts=True)
    shown = ", ".join(f"{name} ({count})" for name, count in zip(names[:6], counts[:6], strict=True))
    return f"Classes of {target}: {shown}{', …' if len(names) > 6 else ''}."


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


def _notes(guessed: Sequence[str]) -> list[str]:
    if not guessed:
        return []
    named = ", ".join(guessed[:4]) + (", …" if len(guessed) > 4 else "")
    return [
        f"The ranges of {named} were read off the data, which no privacy budget pays for: declare them with --range."
    ]
