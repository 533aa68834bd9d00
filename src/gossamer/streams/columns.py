"""Records as columns: what every reader makes of a file or a frame, and what a schema makes features of.

A column of numbers is an array. A column of words keeps every word once, and for each record which one it has: work on
words then goes by how many unlike ones there are, not by records.
"""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import AnyOf, Argument, GossamerError, Part
from gossamer.quoting import typed, typed_list
from gossamer.streams.cells import EPOCH, day, is_missing, number
from gossamer.types import Array, Integers

FIRST, LAST = "2020-01-01", "2024-12-31"  # an example of a range of dates


@dataclass(frozen=True)
class Words:
    """A column of text."""

    codes: NDArray[np.int32]  # (records,) which of the names each has
    names: Sequence[str]  # all unlike; "" where a record has none
    comma: bool = False  # whether 1,5 is a number here

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True)
class Numbers:
    """A column of finite numbers; NaN where a record has none."""

    values: Array
    dates: bool = False  # they are days since 1970-01-01

    def __len__(self) -> int:
        return len(self.values)


Column = Words | Numbers


@dataclass(frozen=True)
class Columns:
    """Some records of one source, column by column."""

    source: str  # what an error calls it: a file's path, or "the frame"
    columns: Mapping[str, Column]
    lines: Integers  # where in the source each record is, for errors
    unit: str = "line"
    remedy: tuple[Part, ...] = ()  # for any record that is not as declared; (): each mistake has its own
    notes: Sequence[str] = ()  # how it was read, where a user should know

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def header(self) -> list[str]:
        return list(self.columns)

    def column(self, name: str) -> Column:
        if name not in self.columns:
            raise GossamerError(
                f"{self.source} has no column {name!r}: expected one of {typed_list(self.header, ', ')}."
            )
        return self.columns[name]

    def words(self, name: str) -> Words:
        """The column as words, whatever it holds."""
        column = self.column(name)
        return column if isinstance(column, Words) else words_of_numbers(column)

    def numbers(self, name: str, dates: bool = False) -> Array:
        """The column as numbers, with `dates` those of days; NaN where a record has none. Refuses other words."""
        column = self.column(name)
        if isinstance(column, Numbers) and column.dates == dates:
            return column.values
        words = self.words(name)
        parsed = [_parsed(one, words.comma, dates) for one in words.names]
        wrong = np.array([value is None for value in parsed])
        if not dates and not wrong.any() and (mixed := _with_comma(words)).any():
            raise self.mistake_in(
                name, mixed, "has a decimal comma where others of its column have a point", "write all of them alike"
            )
        if wrong.any():
            self._refuse_words(name, wrong, dates)
        return np.array(parsed, dtype=float)[words.codes]

    def _refuse_words(self, name: str, wrong: NDArray[np.bool_], dates: bool) -> None:
        words = self.words(name)
        if dates:
            raise self.mistake_in(name, wrong, "is no date such as 2020-01-31", "correct it")
        if self.holds_dates(name):
            raise self.mistake_in(
                name, wrong, "is a date", "leave the column out with ", Argument("drop", [name]),
                ", or declare from when to when, ",
                _option("range", name, f"{FIRST}:{LAST}", f"({FIRST!r}, {LAST!r})"),
            )  # fmt: skip
        odd = words.names[int(wrong.argmax())]
        raise self.mistake_in(
            name, wrong, "is not a finite number" if odd else "is empty",
            "correct it, use ",
            AnyOf(
                (_option("categories", name, "A|B", "['A', 'B']"), " for categories"),
                (Argument("categorical", [name]), " to read them off the data, for runs without privacy"),
                (Argument("split_by", shlex.quote(name), f"split_by={name!r}"), " if it names the learners"),
                Argument("drop", [name]),
            ),
        )  # fmt: skip

    def holds_dates(self, name: str) -> bool:
        """Whether all that the column holds are dates."""
        column = self.column(name)
        if isinstance(column, Numbers):
            return column.dates
        there = [one for one in column.names if not is_missing(one)]
        return bool(there) and all(day(one) is not None for one in there)

    def missing(self, name: str, known: Collection[str] = ()) -> NDArray[np.bool_] | None:
        """Which records have no value there, or say so; None: all have one. What is known by that name means itself."""
        column = self.column(name)
        if isinstance(column, Numbers):
            absent = np.isnan(column.values)
        else:
            absent = np.array([is_missing(one) and one not in known for one in column.names], dtype=bool)
            absent = absent[column.codes] if absent.any() else absent[:0]
        return absent if absent.any() else None

    def refuse_missing(self, name: str, known: Collection[str] = (), target: bool = False) -> None:
        """Refuse an empty cell, or one that says that it is."""
        absent = self.missing(name, known)
        if absent is None:
            return
        column = self.column(name)
        said = [] if isinstance(column, Numbers) else [one for one in column.names if one and is_missing(one)]
        among = f", {said[0]!r} among them" if said and said[0] not in known else ""
        what = f"no value in column {name!r} ({absent.sum()} such in all{among})"
        middle: tuple[Part, ...] = (
            (Argument("missing", "mean-of-range"), " or ") if isinstance(column, Numbers) else ()
        )  # a word has no middle
        meant: tuple[Part, ...] = (", ", Argument("categories"), f" if {said[0]!r} is a value") if among else ()
        remedy: tuple[Part, ...] = (
            "fill or remove these records, use ", *middle, Argument("missing", "category"), *meant,
            ", or leave the column out with ", Argument("drop", [name]),
        )  # fmt: skip
        if target:
            remedy = (
                "fill or remove these records, or declare the word with ", Argument("classes"), " if it is a class",
            )  # fmt: skip
        raise self.mistake(int(absent.argmax()), what, *remedy)

    def mistake(self, k: int, what: str, *remedy: Part) -> GossamerError:
        """What is wrong with record k, and what to do about it."""
        return GossamerError(f"{self.source}, {self.unit} {self.lines[k]}: {what}; ", *(self.remedy or remedy), ".")

    def mistake_in(self, name: str, wrong: NDArray[np.bool_], what: str, *remedy: Part) -> GossamerError:
        """The first record that has one of a column's wrong words."""
        words = self.words(name)
        k = int(wrong[words.codes].argmax())
        return self.mistake(k, f"{words.names[words.codes[k]]!r} in column {name!r} {what}", *remedy)


def _parsed(word: str, comma: bool, dates: bool) -> float | None:
    value = day(word) if dates else number(word, comma)
    return np.nan if value is None and is_missing(word) else value


def _with_comma(words: Words) -> NDArray[np.bool_]:
    """Which words have a decimal comma, where another has a point."""
    commas = np.array(["," in one for one in words.names], dtype=bool)
    return commas if any("." in one for one in words.names) else np.zeros_like(commas)


def words_of_numbers(column: Numbers) -> Words:
    values, codes = np.unique(column.values, return_inverse=True)
    return Words(codes.astype(np.int32), [text_of(value, column.dates) for value in values.tolist()])


def words_of(values: Iterable[Any]) -> Words:
    """Words of Python's own values: of what a frame or a database holds."""
    known: dict[str, int] = {}
    codes = [known.setdefault(text_of(value), len(known)) for value in values]
    return Words(np.array(codes, dtype=np.int32), list(known))


def text_of(value: Any, dates: bool = False) -> str:
    """A value as a CSV file would have it: 1 and 1.0 are the same number, None and NaN are nothing."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if dates:
        return (EPOCH + datetime.timedelta(days=value)).isoformat(sep=" ")[:19].removesuffix(" 00:00:00")
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return str(value).strip()


def check_width(source: str, line: int, row: Sequence[str], width: int) -> None:
    if len(row) != width:
        raise GossamerError(f"{source}, line {line}: {len(row)} values for {width} columns; correct that line.")


def _option(option: str, name: str, value: str, in_python: str) -> Argument:
    """What says something of a column, as it is typed: the name in the list's quotes, and all of it in the shell's."""
    python = f"{'ranges' if option == 'range' else option}={{{name!r}: {in_python}}}"
    return Argument(option, shlex.quote(f"{typed(name)}={value}"), python)
