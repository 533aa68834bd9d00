"""What the columns of a record mean: which number, which category; so that a record that was read can be said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gossamer.datasets.mushrooms import NAMES, raw
from gossamer.streams.schema import Schema, said_end
from gossamer.types import Array


class Attribute(NamedTuple):
    """A feature: one column of categories each, or one column for a number, −1 … 1 within its range."""

    name: str
    columns: slice
    values: tuple[str, ...] = ()  # the categories; empty: a number
    low: float = 0.0
    high: float = 1.0
    date: bool = False

    def said(self, x: Array) -> str:
        """The value of a record with these features, in its own units."""
        if self.values:
            return self.values[int(x[self.columns].argmax())]
        return said_end(float(f"{self.number(x):.10g}"), self.date)

    def number(self, x: Array) -> Any:
        """A number in its own units."""
        return self.low + (x[..., self.columns.start] + 1) / 2 * (self.high - self.low)


@dataclass(frozen=True)
class Layout:
    """All features of a record, and the classes of what is predicted; `intercept`: the last column is 1."""

    attributes: tuple[Attribute, ...]
    target: str
    classes: tuple[str, str]
    intercept: bool

    @property
    def categorical(self) -> list[Attribute]:
        return [each for each in self.attributes if each.values]

    @property
    def numeric(self) -> list[Attribute]:
        return [each for each in self.attributes if not each.values]

    def weight(self, gradient: Array) -> float:
        """w of a gradient w·a, from what is known of every record: a category's columns, or an intercept, sum to 1."""
        ones = [gradient[each.columns].sum() for each in self.categorical]
        return float(gradient[-1] if self.intercept else np.mean(ones))

    def whole(self, x: Array) -> Array:
        """The same record with one category of each list, whatever rounding left of the others."""
        made = x.copy()
        for each in self.categorical:
            made[each.columns] = 0.0
            made[each.columns.start + int(x[each.columns].argmax())] = 1.0
        made[len(x) - self.intercept :] = 1.0
        return made

    def nearest(self, x: Array) -> Array:
        """The record nearest to x that there can be: one category of each list, numbers within their ranges."""
        return np.asarray(self.whole(x).clip(-1, 1))

    def said(self, x: Array, label: float) -> dict[str, str]:
        """A record in words, column by column."""
        return {self.target: self.classes[int(label)]} | {each.name: each.said(x) for each in self.attributes}


def mushroom_layout() -> Layout:
    cells, at, attributes = raw(), 0, list[Attribute]()
    for name, column in zip(NAMES[1:], cells[:, 1:].T, strict=True):
        letters = [str(one) for one in np.unique(column)]
        words = tuple(MEANING.get(name, {}).get(letter, letter) for letter in letters)
        attributes.append(Attribute(name, slice(at, at + len(letters)), words))
        at += len(letters)
    return Layout(tuple(attributes), "class", ("edible", "poisonous"), intercept=False)


def schema_layout(described: Mapping[str, Any]) -> Layout:
    """Of own records, by the schema in a stream's description."""
    schema, at, attributes = Schema.from_description(described), 0, list[Attribute]()
    for name in schema.features:
        if name in schema.categories:
            listed = tuple(schema.listed(name))
            attributes.append(Attribute(name, slice(at, at + len(listed)), listed))
            at += len(listed)
            continue
        low, high = schema.ranges[name]
        attributes.append(Attribute(name, slice(at, at + 1), (), low, high, name in schema.dates))
        at += 1
    no, yes = (str(one) for one in schema.classes)
    return Layout(tuple(attributes), schema.target, (no, yes), intercept=schema.intercept)


def _words(listed: str) -> Mapping[str, str]:
    return {letter: word for word, letter in (pair.split("=") for pair in listed.split())}


_SURFACE = "fibrous=f scaly=y silky=k smooth=s"
_STALK = "brown=n buff=b cinnamon=c gray=g orange=o pink=p red=e white=w yellow=y"
MEANING: Mapping[str, Mapping[str, str]] = {  # what the letters of the mushrooms' file stand for, as UCI documents them
    name: _words(listed)
    for name, listed in {
        "cap-shape": "bell=b conical=c convex=x flat=f knobbed=k sunken=s",
        "cap-surface": "fibrous=f grooves=g scaly=y smooth=s",
        "cap-color": "brown=n buff=b cinnamon=c gray=g green=r pink=p purple=u red=e white=w yellow=y",
        "bruises": "yes=t no=f",
        "odor": "almond=a anise=l creosote=c fishy=y foul=f musty=m none=n pungent=p spicy=s",
        "gill-attachment": "attached=a descending=d free=f notched=n",
        "gill-spacing": "close=c crowded=w distant=d",
        "gill-size": "broad=b narrow=n",
        "gill-color": "black=k brown=n buff=b chocolate=h gray=g green=r orange=o pink=p purple=u red=e white=w "
        "yellow=y",
        "stalk-shape": "enlarging=e tapering=t",
        "stalk-root": "bulbous=b club=c cup=u equal=e rhizomorphs=z rooted=r unknown=?",
        "stalk-surface-above-ring": _SURFACE,
        "stalk-surface-below-ring": _SURFACE,
        "stalk-color-above-ring": _STALK,
        "stalk-color-below-ring": _STALK,
        "veil-type": "partial=p universal=u",
        "veil-color": "brown=n orange=o white=w yellow=y",
        "ring-number": "none=n one=o two=t",
        "ring-type": "cobwebby=c evanescent=e flaring=f large=l none=n pendant=p sheathing=s zone=z",
        "spore-print-color": "black=k brown=n buff=b chocolate=h green=r orange=o purple=u white=w yellow=y",
        "population": "abundant=a clustered=c numerous=n scattered=s several=v solitary=y",
        "habitat": "grasses=g leaves=l meadows=m paths=p urban=u waste=w woods=d",
    }.items()
}
