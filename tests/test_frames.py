"""DataFrames as streams: what a frame holds means the same as the file that it would be written to."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from gossamer import GossamerError, streams

DAYS = [datetime.date(2020, 1, k + 1) for k in range(8)]
VALUES = {
    "x": [0.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], "n": [1, 2, 3, 4, 5, 6, 7, 8],
    "ok": [True, False] * 4, "ward": ["a", "b", "b", "a", "c", "a", "b", "c"], "day": DAYS,
    "hole": [1.0, None, 3.0, 4.0, None, 6.0, 7.0, 8.0], "y": [0, 1, 2, 0, 1, 2, 0, 1],
}  # fmt: skip
RANGES = {"x": (0, 8), "n": (0, 10), "hole": (0, 8), "day": ("2020-01-01", "2020-01-08")}


def of_arrow(values):
    return pytest.importorskip("pyarrow", reason="needs the extra `parquet`").table(values)


def of_pandas(values):
    pytest.importorskip("narwhals", reason="needs the extra `frames`")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(values)
    if "day" in values:
        frame["day"] = pandas.to_datetime(frame["day"])
    return frame


def of_polars(values):
    pytest.importorskip("narwhals", reason="needs the extra `frames`")
    return pytest.importorskip("polars").DataFrame(values)


def written(values, path):
    rows = ["" if one is None else str(one) for row in zip(*values.values(), strict=True) for one in row]
    lines = [",".join(rows[k : k + len(values)]) for k in range(0, len(rows), len(values))]
    path.write_text("\n".join([",".join(values), *lines]))
    return path


KINDS = pytest.mark.parametrize("frame_of", [of_arrow, of_pandas, of_polars], ids=["pyarrow", "pandas", "polars"])


@KINDS
@pytest.mark.parametrize("declared", [True, False])
def test_a_frame_is_what_its_file_would_be(tmp_path, frame_of, declared):
    given = {"ranges": RANGES if declared else {"day": RANGES["day"]}, "missing": "category", "learners": 2}
    if declared:
        given |= {"categories": {"ok": ["False", "True"], "ward": ["a", "b", "c"]}, "classes": ["0", "1", "2"]}
    file = streams.from_csv(written(VALUES, tmp_path / "own.csv"), "y", **given)
    frame = streams.from_frame(frame_of(VALUES), "y", **given)
    assert frame.description["columns"] == file.description["columns"]
    assert frame.description["schema"] == file.description["schema"]
    assert frame.table.bounds == file.table.bounds
    np.testing.assert_array_equal(frame.table.rows, file.table.rows)
    np.testing.assert_array_equal(frame.table.labels, file.table.labels)
    assert frame.notes == file.notes


@KINDS
def test_rows_are_named_in_mistakes(frame_of):
    with pytest.raises(GossamerError, match=r"the frame, (row|record) 2: no value in column 'hole' \(2 such"):
        streams.from_frame(frame_of(VALUES), "y", 2, drop=["day"])
    with pytest.raises(GossamerError, match="'2020-01-01' in column 'day' is a date"):
        streams.from_frame(frame_of(VALUES), "y", 2, drop=["hole"])
    with pytest.raises(GossamerError, match=r"(row|record) 5: 'c' in column 'ward' is none of the declared"):
        streams.from_frame(frame_of(VALUES), "y", 2, drop=["hole", "day"], categories={"ward": ["a", "b"]})


@KINDS
def test_a_quantity_a_split_and_a_test(frame_of):
    values = {name: VALUES[name] for name in ("x", "ward", "n")}
    stream = streams.from_frame(
        frame_of(values),
        "n",
        split_by="ward",
        regression=True,
        ranges={"x": (0, 8), "n": (0, 10)},
        test=frame_of(values),
    )
    assert stream.description["names"] == ["a", "b", "c"]
    np.testing.assert_allclose(stream.table.labels, np.array(VALUES["n"]) / 5 - 1)
    np.testing.assert_array_equal(stream.test.rows, stream.table.rows)


@KINDS
def test_whole_numbers_are_classes_and_categories_by_their_digits(frame_of):
    values = {"zip": [2**60, 2**60 + 1, 7, 7], "y": [2**60, 2**60 + 1, 2**60, 2**60 + 1]}
    stream = streams.from_frame(frame_of(values), "y", 2, categorical=["zip"])
    assert stream.description["columns"] == [f"zip={2**60}", f"zip={2**60 + 1}", "zip=7", "intercept"]
    np.testing.assert_array_equal(stream.table.labels, [0, 1, 0, 1])


def test_what_is_no_frame_gets_a_sentence(tmp_path):
    with pytest.raises(GossamerError, match=r"is a path: read a file with from_csv\(\)"):
        streams.from_frame(tmp_path / "own.csv", "y")
    pytest.importorskip("narwhals", reason="needs the extra `frames`")
    with pytest.raises(GossamerError, match="the frame is a list, expected a DataFrame of pandas or polars"):
        streams.from_frame([1, 2], "y")
    with pytest.raises(GossamerError, match="has no rows"):
        streams.from_frame(of_polars({"x": [], "y": []}), "y")


def test_without_narwhals_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "narwhals", None)
    with pytest.raises(GossamerError, match=r"needs narwhals: install gossamer-learning\[frames\]"):
        streams.from_frame(object(), "y")
