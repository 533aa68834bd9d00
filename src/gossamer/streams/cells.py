"""One value of a record as text: a number, a date, nothing, or a word; and the values of one line."""

from __future__ import annotations

import csv
import datetime
import math
import re
import string
import sys
from collections.abc import Sequence

from gossamer.errors import GossamerError

MISSING = {"", "?", "na", "n/a", "nan", "null", "none"}
MAY_BE_CLASSES = {"na", "n/a", "null", "none"}  # of these words, the ones that people use as a class's name, too
SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
BLANK = string.whitespace.replace("\t", "")  # what an empty line may have in it: a tab may separate two values
ISO = re.compile(r"\d{4}[-/]\d{2}[-/]\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?")
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def number(cell: str, comma: bool = False) -> float | None:
    """The finite number that a cell holds, if it holds one; with `comma`, 1,5 is one, too."""
    try:
        value = float(cell)
    except ValueError:
        has_comma = comma and cell.count(",") == 1 and "." not in cell
        return number(cell.replace(",", ".")) if has_comma else None
    return value if math.isfinite(value) else None


def day(cell: str) -> float | None:
    """Days since 1970-01-01 where a cell holds a date such as 2020-01-31, with or without a time."""
    if not ISO.fullmatch(cell):
        return None
    try:
        moment = datetime.datetime.fromisoformat(cell.replace("/", "-"))
    except ValueError:
        return None
    return (moment.replace(tzinfo=moment.tzinfo or datetime.UTC) - EPOCH) / datetime.timedelta(days=1)


def is_missing(cell: str) -> bool:
    return cell.lower() in MISSING


def lines_of(text: str, before: int = 0) -> list[tuple[int, str]]:
    """The lines that are not empty, numbered from `before` + 1; a line feed ends a line, and nothing else does.

    An empty line is no record, whatever is declared, so that leaving it out favours none: a CSV record has a target and
    a feature, with a separator in between, and a JSONL record has braces.
    """
    numbered = ((k, line.removesuffix("\r")) for k, line in enumerate(text.split("\n"), before + 1))
    return [(k, line) for k, line in numbered if line.strip(BLANK)]


def separator_in(header: str) -> str:
    """What separates the values of a header line: what occurs most outside of quotes, a comma where nothing does more.

    The header alone decides it. It is no record's, so that no record can change how others are read.
    """
    bare = re.sub(r'"[^"]*"', "", header)
    return max(SEPARATORS, key=bare.count)


def cells_of(place: str, line: str, separator: str = ",") -> list[str]:
    """The values of one line, from that line alone: a quote that is not closed takes no other record in."""
    try:
        csv.field_size_limit(sys.maxsize)  # no value is too long to be one
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator, strict=True), [])]
    except csv.Error as error:
        raise GossamerError(
            f"{place}: not read as CSV ({error}); correct that line, a record is one line with all its quotes closed."
        ) from None


def check_header(source: str, header: Sequence[str]) -> None:
    named = [name for name in header if name]
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise GossamerError(f"{source} has two columns called {twice!r}: rename one.")
