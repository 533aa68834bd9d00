"""What a record may look like, and which column of its features means what.

Parties that never see each other's records declare all of it beforehand: the features of one then mean the same as
another's, and no record can move how others are seen. Whoever has a whole file may leave parts to be read off it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from gossamer.errors import Argument, GossamerError, Part, Sentence
from gossamer.records import FeatureBounds, Table, one_hot_table
from gossamer.streams.cells import Cells, number
from gossamer.types import Array, Integers

MOST_CATEGORIES = 1000
VERSION = 1  # of a schema's description
SCALED_TO = (0.0, 1.0)  # where a number lies within its range, as a feature or as a target


@dataclass(frozen=True)
class Schema:
    """Features with a range each, or a list of categories; `classes` of the target, or () for a quantity in its range.

    There is one layout: features in the alphabetical order of their names, the intercept last. Neither the order of a
    file's columns, which differs from party to party, nor the order in which somebody declared them may decide what
    θ_k means. Parties compare what they have declared as a set; if its order mattered, they could agree on all that
    they compare, and mix unlike θ. A feature's categories, and the classes, are lists that parties do compare in order.

    `inferred` are the columns, target included, that were not declared but read off the data.
    """

    target: str
    classes: Sequence[str]
    ranges: Mapping[str, tuple[float, float]]
    categories: Mapping[str, Sequence[str]]
    intercept: bool = True
    inferred: Collection[str] = ()

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

    @cached_property
    def column_names(self) -> list[str]:
        """What every column of the features is called, and with it every θ_k: age, ward=a, ward=b, intercept."""
        one_hot = {name: [f"{name}={one}" for one in listed] for name, listed in self.categories.items()}
        named = [column for name in self.features for column in one_hot.get(name, [name])]
        return named + ["intercept"] * self.intercept

    @property
    def columns(self) -> int:
        return len(self.column_names)

    def described(self) -> dict[str, Any]:
        """All of it as plain JSON values, for whoever meets the model without the records."""
        return {
            "version": VERSION, "target": self.target, "classes": list(self.classes),
            "ranges": {name: list(map(float, ends)) for name, ends in self.ranges.items()},
            "categories": {name: list(listed) for name, listed in self.categories.items()},
            "intercept": self.intercept, "inferred": sorted(self.inferred), "scaled_to": list(SCALED_TO),
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
            tuple(described["inferred"]),
        )  # fmt: skip

    @property
    def bounds(self) -> FeatureBounds:
        """Of every record that is as declared: a number is at most 1, and one column of a category's is 1."""
        width = len(self.features) + self.intercept
        return FeatureBounds(width, width**0.5, 1.0)

    @property
    def undeclared(self) -> Sentence | None:
        """What was read off the data and how to declare it; None where all was declared."""
        read = [name for name in [*self.features, self.target] if name in self.inferred]
        numbers = [name for name in read if name in self.ranges]
        categories = [name for name in read if name in self.categories]
        if not read:
            return None
        what, options = list[Part](), list[Part]()
        if numbers:
            what.append(f"the ranges of {few(numbers)}")
            options.append(Argument("range", f"{numbers[0]}=LOW:HIGH"))
        if categories:
            what.append(f"the categories of {few(categories)}")
            options.append(Argument("categories", f"{categories[0]}='A|B'"))
        if self.classes and self.target in read:
            what.append(f"the classes of {self.target}")
            options.append(Argument("classes", ["A", "B"]))
        return Sentence(
            *_listed(what), " were read off the data, where one record can change them and no privacy budget pays for "
            "it: declare them with ", *_listed(options), ".",
        )  # fmt: skip

    @property
    def declared_classes(self) -> int:
        """How many classes were declared; 0 where none were."""
        return 0 if self.target in self.inferred else len(self.classes)

    @property
    def half_range(self) -> float:
        """Half of the range of a quantity as it was declared, which is scaled to [0, 1]; 0 where none was."""
        return 0.0 if self.classes or self.target in self.inferred else 0.5

    def table(self, X: Array | None = None, y: Array | None = None) -> Table:
        """Records as a table that carries what was declared; without any, an empty one."""
        rows = np.empty((0, self.columns)) if X is None else X
        labels = np.empty(0) if y is None else y
        return Table(
            rows, labels, None, self.columns, bounds=self.bounds, classes=self.declared_classes,
            half_range=self.half_range,
        )  # fmt: skip

    def packed_table(self, X: Array, y: Array) -> Table:
        """As codes where all features are categories: as the declaration has it, never as the values happen to be."""
        if not all(name in self.categories for name in self.features):
            return self.table(X, y)
        sizes = [len(self.categories[name]) for name in self.features] + [1] * self.intercept
        blocks = np.split(X, np.cumsum(sizes)[:-1], axis=1)
        digits = np.stack([block.argmax(axis=1) for block in blocks], axis=1)
        return replace(
            one_hot_table(digits, sizes, y), bounds=self.bounds, classes=self.declared_classes,
            half_range=self.half_range,
        )  # fmt: skip

    def encode(self, cells: Cells) -> tuple[Array, Array]:
        """Features and labels of some records."""
        cells.refuse_missing([self.target, *self.features], {**self.categories, self.target: self.classes})
        blocks = []
        for name in self.features:
            if name in self.categories:
                places = _places(cells, name, cells.column(name), self.categories[name], "categories")
                blocks.append(np.eye(len(self.categories[name]))[places])
            else:
                blocks.append(_scaled(cells, name, *self.ranges[name])[:, None])
        blocks += [np.ones((len(cells), 1))] * self.intercept
        X = np.ascontiguousarray(np.hstack(blocks))
        if not self.classes:
            return X, _scaled(cells, self.target, *self.ranges[self.target])
        known = [label(one) for one in self.classes]
        given = [label(cell) for cell in cells.column(self.target)]
        return X, _places(cells, self.target, given, known, "classes").astype(float)


@lru_cache(maxsize=1024)
def label(cell: str) -> Any:
    """One label by itself, as a number if it is one: 1 is 1.0, and whole numbers are exact."""
    try:
        return int(cell)
    except ValueError:
        value = number(cell)
        return cell.strip() if value is None else value


def _scaled(cells: Cells, name: str, low: float, high: float) -> Array:
    """A column of numbers on [0, 1], by its range."""
    values = cells.numbers(name)
    outside = (values < low) | (values > high)
    if outside.any():
        k = int(outside.argmax())
        raise cells.mistake(
            k, f"{values[k]:g} in column {name!r} lies outside the declared range {low:g}:{high:g}",
            "correct the record or widen the range",
        )  # fmt: skip
    scaled: Array = (values - low) / (high - low)
    return scaled.clip(0.0, 1.0)  # rounding must not leave the range that privacy is accounted from


def _places(cells: Cells, name: str, given: Sequence[Any], known: Sequence[Any], what: str) -> Integers:
    """Every value's place among those known."""
    place = {value: k for k, value in enumerate(known)}
    places = np.array([place.get(value, -1) for value in given], dtype=np.int64)
    if (places < 0).any():
        k = int(places.argmin())
        said = f"{cells.column(name)[k]!r} in column {name!r} is none of the declared {what}"
        raise cells.mistake(k, f"{said} {few(list(map(str, known)), 6)}", "correct the record or declare it, too")
    return places


def few(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def _listed(parts: Sequence[Part]) -> list[Part]:
    """a, b and c."""
    *others, last = parts
    joined = [each for part in others for each in (part, ", ")]
    return [*joined[:-1], " and ", last] if others else [last]
