"""The text of a CSV file: how its bytes are decoded, and which lines are one record.

Nothing that one record holds changes how another is read. A line that is no UTF-8 is decoded by itself as Windows
text. A value in quotes may have line feeds in it, so that a record may take several lines; that no record can take
another one in follows from counting quotes. A quote opens or closes a quoted part wherever it stands, one elsewhere is
refused, and a record with all its quotes closed has an even number of them. So whoever leaves one open leaves the
whole file with an odd number, and it is refused, as every file is that ends within quotes.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.streams.cells import BLANK, SEPARATORS, check_header, separator_in

MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


CHUNK = 1 << 20  # bytes that are text at a time


class Lines(NamedTuple):
    """Some lines of a file, or some records' texts, with the numbers of the lines on which they begin."""

    numbers: Sequence[int]
    texts: list[str]
    quotes: bool  # whether there is a quote in them


class Rows(NamedTuple):
    """The values of some records, with the numbers of the lines on which they begin."""

    numbers: Sequence[int]
    values: list[list[str]]


class CsvText:
    """A CSV file that is open: its header, its separator, and its records, some at a time.

    `notes` say what was found out about it, where that is not the usual.
    """

    def __init__(self, path: Path, file: BinaryIO, separator: str | None = None, encoding: str | None = None) -> None:
        self.path, self._file, self._encoding, self._odd = path, file, encoding, 0
        self._check(separator, encoding)
        self._records = self._whole(self._decoded())
        first = next(self._records, None)
        if first is None:
            raise GossamerError(f"{path} is empty: expected a header line and at least one record.")
        if "\0" in first.texts[0]:
            raise GossamerError(
                f"{path} has zero bytes in its header, as UTF-16 text without a mark has: try ",
                Argument("encoding", "utf-16-le"), ".",
            )  # fmt: skip
        self._sniffed, self.separator = separator is None, separator or separator_in(first.texts[0])
        self._strict = _strict(self.separator)
        csv.field_size_limit(sys.maxsize)  # no value is too long to be one
        header, self._first = _cut(first, 1)
        self.header = [name.strip() for name in self._parsed(header).values[0]]
        check_header(str(path), self.header)

    def _check(self, separator: str | None, encoding: str | None) -> None:
        if separator is not None and separator not in SEPARATORS:
            raise BadValue("separator", separator, "expected one of , ; | and a tab")
        try:
            codecs.lookup(encoding or "utf-8")
        except LookupError:
            raise BadValue("encoding", encoding, "expected a name such as utf-8, utf-16 or cp1252") from None

    @property
    def comma(self) -> bool:
        """Whether a comma may stand in a number."""
        return self.separator != ","

    @property
    def notes(self) -> list[str]:
        notes = []
        if self._sniffed and self.separator != ",":
            notes.append(f"Values are separated by {SEPARATORS[self.separator]}, as the header's names are.")
        if self._odd:
            notes.append(f"Line {self._odd} is no UTF-8: it and others like it were read as Windows text (cp1252).")
        if "" in self.header:
            place = self.header.index("") + 1
            notes.append(f"Column {place} has no name in the header and was left out.")
        return notes

    def rows(self) -> Iterator[Rows]:
        """The values of all records, some at a time."""
        for some in itertools.chain([self._first], self._records):
            if some.texts:
                yield self._parsed(some)

    def _parsed(self, some: Lines) -> Rows:
        if some.quotes:
            for number, text in zip(some.numbers, some.texts, strict=True):
                self._refuse_odd_quotes(number, text)
        reader = csv.reader(some.texts, delimiter=self.separator, strict=True, skipinitialspace=True)
        try:
            return Rows(some.numbers, list(reader))
        except csv.Error as error:
            number = some.numbers[reader.line_num - 1]
            raise GossamerError(f"{self.path}, line {number}: not read as CSV ({error}); correct that line.") from None

    def _refuse_odd_quotes(self, number: int, text: str) -> None:
        if '"' in text and not self._strict.fullmatch(text):
            raise GossamerError(
                f"{self.path}, line {number}: not read as CSV (a quote stands within a value); correct that line, "
                "put the whole value in quotes and double those within it."
            )

    def _whole(self, blocks: Iterator[Lines]) -> Iterator[Lines]:
        """The records: lines as long as their quotes are not closed belong together, and empty lines are none."""
        began, parts = 0, list[str]()
        for block in blocks:
            if not parts and not block.quotes:
                some = _without_empty(block)
            else:
                numbers, texts = list[int](), list[str]()
                for number, line in zip(block.numbers, block.texts, strict=True):
                    began = began if parts else number
                    parts.append(line)
                    if line.count('"') % 2 == (len(parts) > 1):  # closed, now or all along
                        numbers.append(began)
                        texts.append("\n".join(parts))
                        parts = []
                some = _without_empty(Lines(numbers, texts, True))
            if some.texts:
                yield some
        if parts:
            raise GossamerError(
                f"{self.path}, line {began}: not read as CSV (a quote that begins there is not closed); close it, or "
                "double it if it is part of the value, which must then be in quotes."
            )

    def _decoded(self) -> Iterator[Lines]:
        """The lines as text, without the line feed that ends them; nothing else ends a line."""
        before = 0
        try:
            for text in self._chunks():
                texts = text.removesuffix("\n").split("\n")
                yield Lines(range(before + 1, before + len(texts) + 1), texts, '"' in text)
                before += len(texts)
        except (OSError, EOFError, zlib.error, UnicodeError) as error:
            raise _unreadable(self.path, error) from None

    def _chunks(self) -> Iterator[str]:
        """Text in whole lines."""
        start = self._file.read(3)
        self._file.seek(0)
        mark = next((mark for mark in MARKS if start.startswith(mark)), None)
        encoding = self._encoding or (None if mark is None else MARKS[mark])
        if encoding not in (None, "utf-8-sig"):
            wrapped = io.TextIOWrapper(self._file, encoding, newline="\n")
            try:
                while lines := wrapped.readlines(CHUNK):
                    yield "".join(lines)
            finally:
                wrapped.detach()  # whoever has opened the file closes it
            return
        self._file.read(len(mark or b""))
        before = 0
        while some := self._file.readlines(CHUNK):
            yield self._decode(some, before)
            before += len(some)

    def _decode(self, lines: list[bytes], before: int) -> str:
        """UTF-8, but lines that are none are decoded by themselves."""
        try:
            return b"".join(lines).decode()
        except UnicodeDecodeError:
            pass
        texts = []
        for k, line in enumerate(lines, before + 1):
            try:
                texts.append(line.decode())
            except UnicodeDecodeError:
                self._odd = self._odd or k
                texts.append(as_windows(line))
        return "".join(texts)


def _without_empty(lines: Lines) -> Lines:
    there = [k for k, text in enumerate(lines.texts) if text.strip(BLANK)]
    if len(there) == len(lines.texts):
        return lines
    return Lines([lines.numbers[k] for k in there], [lines.texts[k] for k in there], lines.quotes)


def _cut(lines: Lines, k: int) -> tuple[Lines, Lines]:
    first = Lines(lines.numbers[:k], lines.texts[:k], lines.quotes)
    return first, Lines(lines.numbers[k:], lines.texts[k:], lines.quotes)


def as_windows(line: bytes) -> str:
    """A line in the encoding of Windows; the five bytes that mean nothing there as they are."""
    try:
        return line.decode("cp1252")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def open_bytes(path: Path) -> BinaryIO:
    """The file, unpacked if its name ends in .gz."""
    try:
        return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]
    except FileNotFoundError:
        raise GossamerError(f"no file {path}: give the path of a CSV file.") from None
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> GossamerError:
    return GossamerError(
        f"{path} cannot be read as CSV ({error}): give a text file with a header line, and its ",
        Argument("encoding"), " if it is not UTF-8.",
    )  # fmt: skip


def _strict(separator: str) -> re.Pattern[str]:
    """A record whose quotes surround whole values, and are doubled within them."""
    value = rf' *+"[^"]*+(?:""[^"]*+)*+"|[^"{re.escape(separator)}]*+'
    return re.compile(rf"(?:{value})(?:{re.escape(separator)}(?:{value}))*+\r?")
