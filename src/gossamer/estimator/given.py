"""Rows, labels and whose they are, as an estimator is given them, as columns that the library reads records from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import GossamerError
from gossamer.estimator.asked import SOURCE
from gossamer.streams.cells import is_missing
from gossamer.streams.columns import Column, Columns, Numbers, Words, text_of, words_of
from gossamer.streams.frames import columns_of_frame
from gossamer.types import Array, Integers


class Given(NamedTuple):
    """Records as columns; `owner` is the column that says whose each is, None where they are dealt."""

    columns: Columns
    target: str
    owner: str | None


def is_frame(X: Any) -> bool:
    """Whether X has columns with names: a frame of pandas or polars, a table of pyarrow; numbered ones are none."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return names is not None and all(isinstance(name, str) for name in names)


def features_of_frame(X: Any, words: Collection[str]) -> Columns:
    """A frame's columns, those of `words` as text even where they hold numbers."""
    return _counted_from_0(columns_of_frame(SOURCE, X, words))


def features_of_array(X: NDArray[Any], names: Sequence[str], words: Collection[str] = ()) -> Columns:
    """An array's columns by these names."""
    columns: dict[str, Column] = {}
    for name, values in zip(names, X.T, strict=True):
        plain = name not in words and values.dtype.kind in "iufb"
        columns[name] = Numbers(np.array(values, dtype=float)) if plain else words_of(values.tolist())
    return _counted_from_0(Columns(SOURCE, columns, np.arange(len(X))))


def _counted_from_0(columns: Columns) -> Columns:
    """Rows are numbered as X[…] and X.iloc[…] number them."""
    return replace(columns, lines=np.arange(len(columns)), unit="row (from 0)")


def given_of(features: Columns, target: Column, target_name: str, learner: Any) -> Given:
    """Features with their labels and, where it is said, whose each row is; neither takes a feature's name."""
    name = free_name(target_name, features.columns)
    columns = {**features.columns, name: target}
    if learner is None:
        return Given(replace(features, columns=columns), name, None)
    owner = free_name("learner", columns)
    words = words_of(_texts(learner))
    if len(words) != len(features):
        raise GossamerError(f"X has {len(features)} rows and learner {len(words)}: say whose each row is.")
    nameless = int(np.array([is_missing(one) for one in words.names])[words.codes].sum())
    if nameless:
        rows = "1 row" if nameless == 1 else f"{nameless} rows"
        raise GossamerError(f"learner has no name for {rows}: say whose each is, or leave them out.")
    return Given(replace(features, columns={**columns, owner: words}), name, owner)


def labels_decide(y: Any, learner: Any, first: bool) -> bool:
    """Whether whose a row is, is its label. A later call's few rows may hold the same by chance."""
    if learner is None:
        return False
    name = getattr(learner, "name", None)
    if learner is y or (isinstance(name, str) and name == getattr(y, "name", None)):
        return True
    return first and _texts(learner) == _texts(y)


def refuse_one_name(learner: Any) -> None:
    """Whose each row is takes one name a row."""
    if isinstance(learner, str):
        raise GossamerError(
            f"learner={learner!r} is one word, expected a name for each row: give learner=X[{learner!r}], if that "
            "is the column that says it."
        )
    if learner is not None and np.ndim(learner) != 1:
        raise GossamerError(f"learner has {np.ndim(learner)} dimensions, expected one name or number for each row.")


def _texts(values: Any) -> list[str]:
    return [text_of(one) for one in (values.to_list() if hasattr(values, "to_list") else np.asarray(values).tolist())]


def free_name(name: str, taken: Mapping[str, Any]) -> str:
    while name in taken:
        name += "_"
    return name


def name_of_labels(y: Any, usual: str = "target") -> str:
    """What the labels are called, where they know it."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else usual


def class_names(classes: NDArray[Any]) -> list[str]:
    """Classes as the library names them."""
    return [text_of(one) for one in classes.tolist()]


def class_column(y: NDArray[Any], classes: NDArray[Any]) -> Words:
    """Labels as words; refuses one that is not among the classes."""
    strange = np.setdiff1d(y, classes)
    if len(strange):
        raise GossamerError(
            f"y has the class {strange.tolist()[0]!r}, expected one of {classes.tolist()!r}: correct the label, or "
            "name it in classes=."
        )
    return Words(np.searchsorted(classes, y).astype(np.int32), class_names(classes))


def number_column(y: Array) -> Numbers:
    return Numbers(np.asarray(y, dtype=float))


def in_order(given: Given, rows: Integers) -> Given:
    """Some records, in another order; errors still say where each was."""
    columns = {name: _taken(column, rows) for name, column in given.columns.columns.items()}
    return given._replace(columns=replace(given.columns, columns=columns, lines=given.columns.lines[rows]))


def _taken(column: Column, rows: Integers) -> Column:
    if isinstance(column, Numbers):
        return replace(column, values=column.values[rows])
    return replace(column, codes=column.codes[rows])
