"""What a record may look like, and which column of its features means what.

Parties that never see each other's records declare all of it beforehand: the features of one then mean the same as
another's, and no record can move how others are seen. Whoever has a whole file may leave parts to be read off it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

import numpy as np

from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.records import FeatureBounds, Table, one_hot_table
from gossamer.streams.cells import day, number
from gossamer.streams.columns import Columns, text_of
from gossamer.types import Array, Integers

MOST_CATEGORIES = 1000
VERSION = 2  # of a schema's description: 1 had numbers on 0 … 1
SCALED_TO = (-1.0, 1.0)  # where a number lies within its range, as a feature or as a target
REACH = 3.0  # how far a number may lie out where its range is no declaration but most of the data's
ABSENT = "missing"  # the category of what has none

End = float | str  # of a range: a number, or a date such as 2020-01-31
Outside = Literal["clip", "refuse"]
Missing = Literal["refuse", "mean-of-range", "category"]


@dataclass(frozen=True)
class Schema:
    """Features with a range each, or a list of categories; `classes` of the target, or () for a quantity in its range.

    There is one layout: features in the alphabetical order of their names, the intercept last. Neither the order of a
    file's columns, which differs from party to party, nor the order in which somebody declared them may decide what
    θ_k means. Parties compare what they have declared as a set; if its order mattered, they could agree on all that
    they compare, and mix unlike θ. A feature's categories, and the classes, are lists that parties do compare in order.

    Numbers are scaled to −1 … 1 by their ranges. `dates` are columns whose ranges are from day to day, in days since
    1970-01-01. What lies `outside` of a declared range is clipped to it, or refused. `missing` is what becomes of a
    feature that a record does not have: it is refused; or taken for the middle of the range; or of a category of its
    own, which is the middle and a 1 in a further column for a number. All of this goes by one record alone.

    `inferred` are the columns, target included, that were not declared but read off the data. The range of such a
    feature holds most of its numbers and not all: they are scaled by it, and clipped at −3 … 3.
    """

    target: str
    classes: Sequence[str]
    ranges: Mapping[str, tuple[float, float]]
    categories: Mapping[str, Sequence[str]]
    intercept: bool = True
    inferred: Collection[str] = ()
    dates: Collection[str] = ()
    outside: Outside = "clip"
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        twice = set(self.ranges) & set(self.categories)
        if twice:
            raise GossamerError(f"column {min(twice)!r} has a range and holds categories: declare one of the two.")
        if not self.features:
            raise GossamerError(f"there are no feature columns besides {self.target!r}: give at least one.")
        if not self.classes and self.target not in self.ranges:
            raise GossamerError(f"the target {self.target!r} has neither classes nor a range: declare one.")
        for name, (low, high) in self.ranges.items():
            if not 0 < high - low < np.inf:
                raise GossamerError(
                    f"range {low:g}:{high:g} of column {name!r}: expected finite ends, the lower below the upper."
                )
        for name, listed in self.categories.items():
            self._check_names(name, listed, listed)
            if len(listed) > MOST_CATEGORIES:
                raise GossamerError(
                    f"column {name!r} holds {len(listed)} categories, expected at most {MOST_CATEGORIES}: "
                    "group them, or leave the column out with ", Argument("drop", [name]), ".",
                )  # fmt: skip
        if self.classes:
            self._check_names(self.target, self.classes, [label(one) for one in self.classes])
        check_one_of("outside", self.outside, Outside)
        check_one_of("missing", self.missing, Missing)

    def _check_names(self, column: str, listed: Sequence[str], meant: Sequence[Any]) -> None:
        """Refuse names that no cell could hold, or that cannot be told apart."""
        if column in self.inferred:
            return  # cells do hold them
        odd = next((one for one in listed if one != one.strip() or "\n" in one or "\r" in one), None)
        if odd is not None:
            raise GossamerError(
                f"column {column!r} may hold {odd!r}: expected names without line breaks, or spaces at their ends."
            )
        if len(set(meant)) < max(2, len(listed)):
            said = ", ".join(listed) or "nothing"
            raise GossamerError(f"column {column!r} may hold {said}: expected at least two names, all unlike.")

    @cached_property
    def features(self) -> list[str]:
        return sorted({*self.ranges, *self.categories} - {self.target})

    def listed(self, name: str) -> list[str]:
        """A feature's categories, with the one for what is missing where there is one."""
        given = list(self.categories[name])
        return given + [ABSENT] * (self.missing == "category" and ABSENT not in given)

    @cached_property
    def column_names(self) -> list[str]:
        """What every column of the features is called, and with it every θ_k: age, ward=a, ward=b, intercept."""
        named = [column for name in self.features for column in self.columns_of(name)]
        return named + ["intercept"] * self.intercept

    def columns_of(self, name: str) -> list[str]:
        """The columns that a feature becomes."""
        if name in self.categories:
            return [f"{name}={one}" for one in self.listed(name)]
        return [name] + [f"{name} missing"] * (self.missing == "category")

    @property
    def columns(self) -> int:
        return len(self.column_names)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The columns that hold numbers, as opposed to categories."""
        starts = np.cumsum([0, *(len(self.columns_of(name)) for name in self.features)])
        return tuple(int(k) for k, name in zip(starts, self.features, strict=False) if name not in self.categories)

    @property
    def width(self) -> float:
        """How long records are, squared, where every number has a variance of 1."""
        return float(len(self.features) + self.intercept)

    @property
    def bounds(self) -> FeatureBounds:
        """Of every record that is as declared: a number is at most 1 in size, and one column of a category's is 1.

        A number that is missing is 0, so that the 1 in its further column adds to nothing.
        """
        width = len(self.features) + self.intercept
        return FeatureBounds(width, width**0.5, 1.0)

    @property
    def declared_classes(self) -> int:
        """How many classes were declared; 0 where none were."""
        return 0 if self.target in self.inferred else len(self.classes)

    @property
    def half_range(self) -> float:
        """Half of the range of a quantity as it was declared, which is scaled to −1 … 1; 0 where none was."""
        return 0.0 if self.classes or self.target in self.inferred else 1.0

    def described(self) -> dict[str, Any]:
        """All of it as plain JSON values, for whoever meets the model without the records."""
        return {
            "version": VERSION, "target": self.target, "classes": list(self.classes),
            "ranges": {name: list(map(float, ends)) for name, ends in self.ranges.items()},
            "categories": {name: list(listed) for name, listed in self.categories.items()},
            "intercept": self.intercept, "inferred": sorted(self.inferred), "scaled_to": list(SCALED_TO),
            "dates": sorted(self.dates), "outside": self.outside, "missing": self.missing,
        }  # fmt: skip

    @classmethod
    def from_description(cls, described: Mapping[str, Any]) -> Schema:
        """The schema that `described` was made from; refuses one whose numbers were scaled otherwise than here."""
        if (described["version"], tuple(described["scaled_to"])) != (VERSION, SCALED_TO):
            raise GossamerError(
                f"the schema is of version {described['version']}, numbers on {described['scaled_to']}, expected "
                f"{VERSION} and {list(SCALED_TO)}: use the version of gossamer that made it, or run again."
            )
        ranges = {name: (float(low), float(high)) for name, (low, high) in described["ranges"].items()}
        categories = {name: tuple(listed) for name, listed in described["categories"].items()}
        return cls(
            described["target"], tuple(described["classes"]), ranges, categories, described["intercept"],
            tuple(described["inferred"]), tuple(described["dates"]), described["outside"], described["missing"],
        )  # fmt: skip

    def table(self, X: Array | None = None, y: Array | None = None) -> Table:
        """Records as a table that carries what was declared; without any, an empty one."""
        rows = np.empty((0, self.columns)) if X is None else X
        labels = np.empty(0) if y is None else y
        return Table(
            rows, labels, None, self.columns, bounds=self.bounds, classes=self.declared_classes,
            half_range=self.half_range, numbers=self.numbers, width=self.width,
        )  # fmt: skip

    def packed_table(self, X: Array, y: Array) -> Table:
        """As codes where all features are categories: as the declaration has it, never as the values happen to be."""
        if not all(name in self.categories for name in self.features):
            return self.table(X, y)
        sizes = [len(self.listed(name)) for name in self.features] + [1] * self.intercept
        blocks = np.split(X, np.cumsum(sizes)[:-1], axis=1)
        digits = np.stack([block.argmax(axis=1) for block in blocks], axis=1)
        return replace(
            one_hot_table(digits, sizes, y), bounds=self.bounds, classes=self.declared_classes,
            half_range=self.half_range, width=self.width,
        )  # fmt: skip

    def encode(
        self, columns: Columns, rows: Integers | None = None, clipped: Counter[str] | None = None
    ) -> tuple[Array, Array]:
        """Features and labels of all records, or of some; `clipped` counts what lay outside, by column."""
        X = self.encode_features(columns, rows, clipped)
        return X, self.encode_target(columns, rows, clipped)

    def encode_features(
        self, columns: Columns, rows: Integers | None = None, clipped: Counter[str] | None = None
    ) -> Array:
        """Features alone, for those who have no labels, or want none."""
        some = slice(None) if rows is None else rows
        X = np.zeros((len(columns.lines[some]), self.columns))
        at = 0
        for name in self.features:
            absent = self._absent(columns, name)
            absent = None if absent is None else absent[some]
            if name in self.categories:
                listed, places = self.listed(name), self._places(columns, name)[some]
                if absent is not None:
                    places = np.where(absent, listed.index(ABSENT), places)
                X[np.arange(len(X)), at + places] = 1.0
                at += len(listed)
                continue
            X[:, at] = self._scaled(columns, name, some, clipped)
            if absent is not None:
                X[absent, at : at + 2] = (0.0, 1.0) if self.missing == "category" else 0.0
            at += 2 if self.missing == "category" else 1
        X[:, at:] = 1.0
        return X

    def encode_target(
        self, columns: Columns, rows: Integers | None = None, clipped: Counter[str] | None = None
    ) -> Array:
        """Labels alone: a class's number, or a quantity on −1 … 1."""
        some = slice(None) if rows is None else rows
        columns.refuse_missing(self.target, self.classes, target=True)
        if not self.classes:
            return self._scaled(columns, self.target, some, clipped)
        return self._places(columns, self.target)[some].astype(float)

    def _absent(self, columns: Columns, name: str) -> Any:
        """Which records do not have a feature; None: all do."""
        known = self.categories.get(name, ())
        absent = columns.missing(name, known)
        if absent is not None and self.missing != "category" and (self.missing == "refuse" or name in self.categories):
            columns.refuse_missing(name, known)
        return absent

    def _scaled(self, columns: Columns, name: str, some: Any, clipped: Counter[str] | None) -> Array:
        """A column of numbers on −1 … 1, by its range; NaN where a record has none."""
        low, high = self.ranges[name]
        values = columns.numbers(name, name in self.dates)[some]
        reach = REACH if name in self.inferred and name != self.target else 1.0
        with np.errstate(over="ignore"):
            scaled: Array = (values - low) / (high - low) * 2 - 1
        beyond = (values < low) | (values > high) if reach == 1.0 else np.abs(scaled) > reach
        if beyond.any():
            if self.outside == "refuse" and reach == 1.0:
                first = int(beyond.argmax())
                k, what = np.arange(len(columns))[some][first], said_end(values[first], name in self.dates)
                raise columns.mistake(
                    k, f"{what} in column {name!r} lies outside the declared range {self.said_range(name)}",
                    "correct the record, widen the range, or use ", Argument("outside", "clip"),
                )  # fmt: skip
            if clipped is not None:
                clipped[name] += int(beyond.sum())
        return scaled.clip(-reach, reach)  # rounding must not leave the range that privacy is accounted from

    def said_range(self, name: str) -> str:
        low, high = self.ranges[name]
        return ":".join(said_end(end, name in self.dates) for end in (low, high))

    def _places(self, columns: Columns, name: str) -> Integers:
        """Every value's place among the categories, or the classes; −1 for what is missing."""
        words, target = columns.words(name), name == self.target
        known = [label(one) for one in self.classes] if target else self.listed(name)
        place = {value: k for k, value in enumerate(known)}
        places = np.array([place.get(label(one) if target else one, -1) for one in words.names], dtype=np.int64)
        found = places[words.codes]
        wrong = found < 0
        absent = columns.missing(name, self.classes if target else self.categories[name])
        if absent is not None:
            wrong &= ~absent
        if wrong.any():
            k, what = int(wrong.argmax()), "classes" if target else "categories"
            said = f"{words.names[words.codes[k]]!r} in column {name!r} is none of the declared {what}"
            raise columns.mistake(k, f"{said} {few(list(map(str, known)), 6)}", "correct the record or declare it, too")
        return found


def range_of(name: str, ends: Sequence[End]) -> tuple[tuple[float, float], bool]:
    """The ends as numbers, and whether they are days."""
    low, high = ends
    if not isinstance(low, str) and not isinstance(high, str):
        return (float(low), float(high)), False
    days = [day(str(end)) for end in (low, high)]
    if None in days:
        raise GossamerError(f"range {low}:{high} of column {name!r}: expected two numbers, or two dates as 2020-01-31.")
    first, last = (one for one in days if one is not None)
    return (first, last), True


def said_end(end: float, date: bool) -> str:
    return text_of(end, date) if date else f"{end:.15g}"


def check_one_of(argument: str, value: str, known: Any) -> None:
    if value not in get_args(known):
        raise BadValue(argument, value, f"expected one of {', '.join(get_args(known))}")


@lru_cache(maxsize=1024)
def label(cell: str) -> Any:
    """One label by itself, as a number if it is one: 1 is 1.0, and whole numbers are exact."""
    try:
        return int(cell)
    except ValueError:
        value = number(cell)
        return cell.strip() if value is None else value


def few(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
