"""Streams from arrays in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gossamer.errors import Argument, GossamerError, Sentence
from gossamer.records import FeatureBounds, Table, binary_table, dense_table, encode_digits
from gossamer.streams.stream import OnePass, check_choice, fingerprint

PACKED = Sentence(
    "booleans are packed as the records suggest, which one record may change; declare ", Argument("ranges", (0, 1)), "."
)


def from_arrays(
    X: ArrayLike | Sequence[ArrayLike],
    y: ArrayLike | Sequence[ArrayLike],
    per_round: int | Sequence[int] = 1,
    *,
    ranges: tuple[ArrayLike, ArrayLike] | None = None,
    outside: Literal["refuse", "clip"] = "refuse",
    test: tuple[ArrayLike, ArrayLike] | None = None,
) -> OnePass:
    """A stream of the records X with labels y.

    X has shape (m, T, n): learner i receives X[i, t] in round t; or is a list of m arrays (T_i, n), of any lengths.
    `per_round` records arrive at a time, one number for all learners or one for each. When a learner's records have
    run out it goes on with those it has. Arrays of booleans are packed, so that work goes by non-zeros.

    `ranges` = (low, high), numbers or one per feature, declares what features may be; privacy is accounted from it, so
    every record is checked, and what lies outside refused or clipped. Features are then packed where the declaration
    leaves nothing but 0 and 1: ranges (0, 1), and arrays of whole numbers or booleans. No record's value decides it.

    `test` = (X, y), of shapes (k, n) and (k,), are records that nobody learns from. Accuracies are then on those.
    """
    features = [_numbers(f"X[{i}]", part, 2) for i, part in enumerate(X)]  # type: ignore[arg-type]
    labels = [_numbers(f"y[{i}]", part, 1) for i, part in enumerate(y)]  # type: ignore[arg-type]
    if len(features) != len(labels) or not features:
        raise GossamerError(
            f"X is for {len(features)} learners and y for {len(labels)}: give both for the same learners."
        )
    for i, (a, b) in enumerate(zip(features, labels, strict=True)):
        if len(a) != len(b):
            raise GossamerError(
                f"learner {i} has {len(a)} records in X and {len(b)} labels in y: give one label per record."
            )
        if a.shape[1] != features[0].shape[1]:
            raise GossamerError(
                f"X[{i}] has {a.shape[1]} features and X[0] has {features[0].shape[1]}: give all the same."
            )
    ends = np.cumsum([len(b) for b in labels])
    order = [np.arange(end - len(b), end) for b, end in zip(labels, ends, strict=True)]
    together = np.concatenate(features)
    kinds = {part.dtype.kind if isinstance(part, np.ndarray) else "" for part in X}  # type: ignore[union-attr]
    if ranges is None:
        packed = kinds == {"b"}
        table = (binary_table if packed else dense_table)(together, np.concatenate(labels))
        table = replace(table, undeclared=PACKED) if packed else table
    else:
        table = _declared_table(together, np.concatenate(labels), ranges, outside, whole=kinds <= {"b", "i", "u"})
    tested = None if test is None else _test_table(test, together.shape[1], ranges, outside)
    about = None if tested is None else {"test": fingerprint(tested, [])}  # no run goes on with other ones
    stream = OnePass(table, order, per_round, about)
    stream.test = tested
    return stream


def _test_table(
    test: tuple[ArrayLike, ArrayLike], columns: int, ranges: tuple[ArrayLike, ArrayLike] | None, outside: str
) -> Table:
    """Records that nobody learns from, of the same features and within the same ranges."""
    X, y = _numbers("test X", test[0], 2, "(k, n)"), _numbers("test y", test[1], 1, "(k,)")
    if len(X) != len(y) or not len(y):
        raise GossamerError(f"test has {len(X)} records and {len(y)} labels: give one label per record, and some.")
    if X.shape[1] != columns:
        raise GossamerError(f"test has {X.shape[1]} features and X has {columns}: give both the same.")
    return table_of(X if ranges is None else _within(X, ranges, outside)[0], y)


def table_of(X: NDArray[Any], y: NDArray[Any]) -> Table:
    """Codes where all features are 0 or 1, dense rows otherwise."""
    binary = bool(((X == 0) | (X == 1)).all()) and X.size > 0
    return binary_table(X, y) if binary else dense_table(X, y)


def _declared_table(
    X: NDArray[Any], y: NDArray[Any], ranges: tuple[ArrayLike, ArrayLike], outside: str, whole: bool
) -> Table:
    """Codes where features can be nothing but 0 and 1, dense rows otherwise, whatever the records hold."""
    columns = X.shape[1]
    X, bounds = _within(X, ranges, outside)
    if not (whole and columns and (np.asarray(ranges[0]) == 0).all() and (np.asarray(ranges[1]) == 1).all()):
        return replace(dense_table(X, y), bounds=bounds)
    codebook, codes = encode_digits(X.astype(np.uint8), [1] * columns, optional=True)
    return Table(codes, np.asarray(y, dtype=float), codebook, columns, bounds=bounds)


def _within(X: NDArray[Any], ranges: tuple[ArrayLike, ArrayLike], outside: str) -> tuple[NDArray[Any], FeatureBounds]:
    """Every record checked against the declared ranges, and the norms that these allow."""
    try:
        low, high = (np.broadcast_to(np.asarray(end, dtype=float), X.shape[1:]) for end in ranges)
    except (TypeError, ValueError):
        raise GossamerError(
            f"ranges={ranges!r:.80}: expected (low, high), each a number or one for each of the {X.shape[1]} features."
        ) from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
        raise GossamerError("ranges=(low, high): expected finite numbers with low ≤ high for every feature.")
    check_choice("outside", outside, "refuse", "clip")
    beyond = (low > X) | (high < X)
    if outside == "refuse" and beyond.any():
        r, c = np.argwhere(beyond)[0]
        raise GossamerError(
            f"record {r} has {X[r, c]:g} in feature {c}, outside the declared range {low[c]:g} to {high[c]:g}: "
            "correct it, widen the range, or say ", Argument("outside", "clip"), ".",
        )  # fmt: skip
    largest = np.maximum(np.abs(low), np.abs(high))
    bounds = FeatureBounds(float(largest.sum()), float(np.sqrt((largest**2).sum())), float(largest.max()))
    return np.clip(X, low, high), bounds


def _numbers(name: str, given: ArrayLike, dimensions: int, expected: str | None = None) -> NDArray[Any]:
    try:
        array = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise GossamerError(f"{name} holds something that is not a number: convert it to floats first.") from None
    if array.ndim != dimensions:
        shape = expected or ("(T, n)" if dimensions == 2 else "(T,)")
        remedy = "give test=(X, y) so" if expected else "give X as (m, T, n) and y as (m, T)"
        raise GossamerError(f"{name} has shape {array.shape}, expected {shape}: {remedy}.")
    bad = ~np.isfinite(array)
    if bad.any():
        where = ", ".join(map(str, np.argwhere(bad)[0]))
        raise GossamerError(f"{name}[{where}] = {array[bad][0]}: every value must be finite; drop or fill that record.")
    return array
