"""Files as columns: CSV (also .gz), Parquet and JSONL, by the ends of their names.

A file is read once. Whoever looks into it before its records are asked for, to guess what is to be learnt, keeps what
was read for them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gossamer.errors import GossamerError
from gossamer.streams.arrow import read_parquet
from gossamer.streams.cells import lines_of
from gossamer.streams.columns import Columns, check_width, text_of
from gossamer.streams.growing import Growing, Wanted
from gossamer.streams.texts import CsvText, open_bytes

BLOCK = 4096  # records that are text at a time
PARQUET, JSONL = (".parquet", ".pq"), (".jsonl", ".ndjson")


class Reading(NamedTuple):
    """Which file, and how it is to be read."""

    path: Path
    labels: str | None = None  # the column to predict: numbers or classes, as it turns out
    words: tuple[str, ...] = ()  # columns that are not numbers, even if they look so
    separator: str | None = None  # None: what the header says
    encoding: str | None = None  # None: UTF-8, or what a mark at the file's beginning says


_kept: dict[tuple[Any, ...], Columns] = {}  # at most one, until its records are asked for


def read_file(reading: Reading, keep: bool = False) -> Columns:
    """The file's columns; with `keep` the next to ask for them gets the same ones, if the file is the same then."""
    key = _key(reading)
    columns = _kept.pop(key, None) or _read(reading)
    _kept.clear()
    if keep:
        _kept[key] = columns
    return columns


def _key(reading: Reading) -> tuple[Any, ...]:
    try:
        about = reading.path.stat()
    except OSError:
        return (reading,)
    return reading, about.st_mtime_ns, about.st_size, about.st_ino


def _read(reading: Reading) -> Columns:
    path = reading.path
    if path.suffix in PARQUET:
        columns = read_parquet(path, words={*reading.words, reading.labels})
    else:
        read = _read_jsonl if path.suffix in JSONL else _read_csv
        late: set[str] = set()
        while isinstance(got := read(reading, {*reading.words, *late}), set):  # columns in which a word came late
            late |= got
        columns = got
    if not len(columns):
        raise GossamerError(f"{path} has a header but no records: expected a header line and at least one record.")
    return columns


def _wanted(reading: Reading, words: Collection[str], name: str) -> Wanted:
    return "words" if name in words else "labels" if name == reading.labels else "any"


def _read_csv(reading: Reading, words: Collection[str]) -> Columns | set[str]:
    with open_bytes(reading.path) as file:
        return _read_text(reading, CsvText(reading.path, file, reading.separator, reading.encoding), words)


def _read_text(reading: Reading, text: CsvText, words: Collection[str]) -> Columns | set[str]:
    growing = {k: Growing(_wanted(reading, words, name), text.comma) for k, name in enumerate(text.header) if name}
    width, lines = len(text.header), list[np.ndarray]()
    for some in text.rows():
        if set(map(len, some.values)) != {width}:
            for line, row in zip(some.numbers, some.values, strict=True):
                check_width(str(reading.path), line, row, width)
        for k, cells in enumerate(zip(*some.values, strict=True)):
            if k in growing:
                growing[k].add(cells)
        lines.append(np.array(some.numbers, dtype=np.int64))
    named = {text.header[k]: column for k, column in growing.items()}
    return _late(named) or _ended(reading.path, named, lines, text.notes)


def _late(growing: dict[str, Growing]) -> set[str]:
    return {name for name, column in growing.items() if column.late}


def _ended(path: Path, growing: dict[str, Growing], lines: Sequence[np.ndarray], notes: Sequence[str]) -> Columns:
    columns = {name: column.end() for name, column in growing.items()}
    return Columns(str(path), columns, np.concatenate([np.empty(0, dtype=np.int64), *lines]), notes=tuple(notes))


def _read_jsonl(reading: Reading, words: Collection[str]) -> Columns | set[str]:
    """An object a line; a name that only some lines have is missing in the others."""
    growing: dict[str, Growing] = {}
    lines, before = list[np.ndarray](), 0
    for block in _objects(reading.path):
        for name in dict.fromkeys(name for _, given in block for name in given):
            if name not in growing:
                growing[name] = Growing(_wanted(reading, words, name))
                for since in range(0, before, BLOCK):
                    growing[name].add([""] * min(BLOCK, before - since))
        for name, column in growing.items():
            column.add([given.get(name, "") for _, given in block])
        lines.append(np.array([k for k, _ in block], dtype=np.int64))
        before += len(block)
    return _late(growing) or _ended(reading.path, growing, lines, ())


def _objects(path: Path) -> Iterator[list[tuple[int, dict[str, str]]]]:
    """Blocks of lines, each with its values as text."""
    with open_bytes(path) as file:
        try:
            text = file.read().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise GossamerError(f"{path} cannot be read as JSONL ({error}): give a UTF-8 text file.") from None
    numbered = iter(lines_of(text))
    while block := list(itertools.islice(numbered, BLOCK)):
        yield [(k, _object(f"{path}, line {k}", line)) for k, line in block]


def _object(place: str, line: str) -> dict[str, str]:
    try:
        given = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise GossamerError(f"{place}: not read as JSON ({error}); correct that line.") from None
    if not isinstance(given, dict):
        raise GossamerError(f'{place}: expected an object such as {{"age": 50}}; correct that line.')
    for name, value in given.items():
        if isinstance(value, dict | list):
            raise GossamerError(
                f"{place}: {name!r} holds {value!r:.40}, expected a number or a word; correct that line, or leave the "
                "field out of every line."
            )
    return {name: text_of(value) for name, value in given.items()}
