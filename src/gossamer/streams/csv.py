"""A stream from a user's own file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gossamer.streams.files import Reading, read_file
from gossamer.streams.inferring import label_names
from gossamer.streams.own import Dealing, Declared, stream_of
from gossamer.streams.schema import End, Missing, Outside, label
from gossamer.streams.stream import OnePass


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
    ranges: Mapping[str, tuple[End, End]] | None = None,
    outside: Outside = "clip",
    missing: Missing = "refuse",
    separator: str | None = None,
    encoding: str | None = None,
    test: str | Path | None = None,
    test_fraction: float | None = None,
    aside: float | None = None,
    only_aside: bool = False,
    seed: int = 0,
    intercept: bool = True,
    regression: bool = False,
) -> OnePass:
    """Records from a CSV file with a header line; the column `target` is the label, all others are features.

    Records go to `learners` in turn, or, with `split_by`, to one learner per value of that column. That column is then
    no feature: it says who has a record, which is public, and ε is about all the rest of it. `categorical` columns
    become one-hot columns, a column of `categories[column] = [name, …]` does so for those names. Numbers are scaled to
    −1 … 1 by `ranges[column] = (low, high)`, numbers or dates such as "2020-01-31"; what lies `outside` is clipped to
    the range, or refused. Labels are numbers of `classes`, in the order given, or with `regression=True` numbers,
    scaled like a feature. `intercept` adds a column of ones. The columns lie as a `Schema` says, whatever their order
    in the file; `description["columns"]` has their names.

    What a record does not have is refused; with missing="mean-of-range" a number is the middle of its range; with
    missing="category" it is that and a 1 in a column of its own, and a category is one more, "missing".

    The values are separated by what separates the header's names, `,` `;` `|` or a tab, and the text is UTF-8, UTF-16
    with its mark, or Windows text, unless `separator` and `encoding` say otherwise. The file may be packed (.gz); files
    that end in .parquet or .jsonl are read as what they are.

    `test`, another file, or `test_fraction` of the records, drawn by `seed`, are records that nobody learns from.

    `aside` of the records, the file's first, or with `split_by` the first of every learner's, are left out, before a
    test is drawn: something else has used them. With `only_aside` those are all that there is.

    Ranges, categories and classes that are not declared are read off the file. One record can change them, and with
    them every message, so such a stream cannot be used privately; it carries a note that says so and what to declare.
    Where all is declared, another value in a record changes that record's row and nothing else.
    """
    words = (*categorical, *(categories or {}), *([] if split_by is None else [split_by]))
    reading = reading_of(path, target, words, separator, encoding, classes is not None)
    declared = Declared(target, categorical, categories, classes, drop, ranges, outside, missing, intercept, regression)
    columns = read_file(reading)
    other = None if test is None else read_file(reading._replace(path=Path(test)))
    dealing = Dealing(learners, split_by, per_round, other, test_fraction, seed, aside, only_aside)
    return stream_of(columns, declared, dealing, {"csv": Path(path).name})


def reading_of(
    path: str | Path, target: str, words: Sequence[str], separator: str | None, encoding: str | None, classes: bool
) -> Reading:
    """How a file is read, with a target of declared classes or one that may be a quantity."""
    every = {*words, target} if classes else {*words} - {target}
    return Reading(Path(path), target, tuple(sorted(every)), separator, encoding)


def classes_in(reading: Reading) -> tuple[int, bool]:
    """How many classes a file's target has, and whether all are numbers: what a model can be guessed from.

    What was read is kept for the stream that is made next, so that the file is read once.
    """
    assert reading.labels is not None
    return count_classes(label_names(read_file(reading, keep=True), None, reading.labels))


def count_classes(names: Sequence[str]) -> tuple[int, bool]:
    return len(names), not any(isinstance(label(name), str) for name in names)
