"""A user's own file: what it means, and one clear sentence for each way it can be wrong."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import gossamer as gs
from gossamer import GossamerError, streams
from gossamer.records import features_of
from gossamer.streams.csv import classes_in, count_classes
from gossamer.streams.files import Reading

GOOD = "age,ward,clinic,ill\n" + "".join(
    f"{20 + k},{'ab'[k % 2]},{['north', 'south'][k % 3 == 0]},{'yes' if k % 4 else 'no'}\n" for k in range(24)
)


ALL_DECLARED = {"categories": {"ward": ["a", "b", "c"]}, "ranges": {"age": (0, 100)}, "classes": ["no", "yes"]}


@pytest.fixture
def write(tmp_path):
    def write(text, name="own.csv"):
        path = tmp_path / name
        path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
        return path

    return write


def test_records_go_to_learners_in_turn_with_features_scaled_and_coded(write):
    stream = streams.from_csv(write(GOOD), "ill", learners=4, categorical=["ward", "clinic"])
    assert (stream.learners, stream.rounds) == (4, 6)
    X = features_of(stream.table)
    np.testing.assert_allclose(X[:, 0], (np.arange(24) - 11.5) / (0.98 * 11.5))  # the middle 98 % lie on −1 … 1
    np.testing.assert_array_equal(X[:, 1:3], np.eye(2)[(np.arange(24) % 3 == 0).astype(int)])
    np.testing.assert_array_equal(X[:, 3:5], np.eye(2)[np.arange(24) % 2])
    np.testing.assert_array_equal(X[:, -1], 1)
    columns = ["age", "clinic=north", "clinic=south", "ward=a", "ward=b", "intercept"]
    assert stream.description["columns"] == columns
    assert stream.description["features"] == ["age", "clinic", "ward"]
    np.testing.assert_array_equal(stream.table.labels, (np.arange(24) % 4 > 0).astype(float))
    np.testing.assert_allclose(stream.arrivals(1).rows[:, 0], X[4:8, 0])
    assert stream.notes[0] == "Classes of ill: no, yes.", "names; counts would be one more statistic of the data"
    assert stream.notes[1].startswith(
        "The ranges of age, the categories of clinic, ward and the classes of ill were read off the data"
    )
    assert stream.table.undeclared[1:] == stream.notes[1][1:]
    assert stream.table.bounds is None


def test_a_column_may_name_the_learner(write):
    stream = streams.from_csv(write(GOOD), "ill", split_by="clinic", **ALL_DECLARED)
    assert stream.learners == 2
    np.testing.assert_array_equal(stream.room(100), [16, 8])
    np.testing.assert_allclose(features_of(stream.table)[:, 0], (20 + np.arange(24)) / 50 - 1)
    assert stream.notes == ("Classes of ill: no, yes.",), "what is declared needs no warning"
    assert stream.description["names"] == ["north", "south"]


def test_what_is_declared_bounds_every_record_and_follows_no_record(write):
    stream = streams.from_csv(write(GOOD), "ill", split_by="clinic", **ALL_DECLARED)
    assert stream.table.undeclared == ""
    assert stream.table.bounds == (3, 3**0.5, 1), "age, one of the wards, and the intercept"
    X = features_of(stream.table)
    assert X.shape == (24, 5), "a ward that no record holds has its column, too"
    assert not X[:, 3].any()
    other = write(GOOD.replace("43,b,north,yes", "0,c,north,no"), "neighbour.csv")
    changed = streams.from_csv(other, "ill", split_by="clinic", **ALL_DECLARED)
    np.testing.assert_array_equal(features_of(changed.table)[:-1], X[:-1])
    np.testing.assert_array_equal(changed.table.labels[:-1], stream.table.labels[:-1])
    assert np.abs(X).sum(axis=1).max() <= 3


@pytest.mark.parametrize(
    ("left_out", "columns", "option"),
    [("ranges", "the ranges of age", "ranges={'age': (20, 43)}"),
     ("categories", "the categories of ward", "categories={'ward': ['a', 'b']}"),
     ("classes", "the classes of ill", "classes=['no', 'yes']")],
)  # fmt: skip
def test_whatever_is_not_declared_is_named_and_refuses_privacy(write, left_out, columns, option):
    declared = {**ALL_DECLARED, "categorical": ["ward"]}
    del declared[left_out]
    stream = streams.from_csv(write(GOOD), "ill", split_by="clinic", **declared)
    assert stream.table.undeclared.startswith(f"{columns} were read off the data")
    assert option in stream.table.undeclared
    with pytest.raises(GossamerError, match=f"privacy cannot be proved: {columns}"):
        gs.simulate(
            gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)), gs.Network.ring(2), stream,
            model=gs.LogisticRegression(clip=gs.clip_l1(1.0)), privacy=gs.Laplace.for_budget(1.0), steps=8,
        )  # fmt: skip


def test_a_regressions_range_is_declared_like_any_other(write):
    given = {"learners": 2, "drop": ["ward", "clinic", "ill"], "regression": True}
    text = "dose," + GOOD.replace("\n", "\n1,", 24)
    ranges = {"dose": (0, 5)}
    assert "the ranges of age" in streams.from_csv(write(text), "age", **given, ranges=ranges).table.undeclared
    stream = streams.from_csv(write(text), "age", **given, ranges={"age": (0, 100), **ranges})
    assert stream.table.undeclared == ""
    np.testing.assert_allclose(stream.table.labels, (20 + np.arange(24)) / 50 - 1)
    assert stream.table.half_range == 1.0


def test_declared_classes_keep_their_order_and_compare_as_numbers(write):
    text = "x,y\n1,0\n2,1.0\n3,none\n4,1\n"
    stream = streams.from_csv(write(text), "y", learners=2, classes=["1", "none", "0", "2"])
    np.testing.assert_array_equal(stream.table.labels, [2, 0, 1, 0])
    assert count_classes(["0", "1", "2"]) == (3, True)
    assert classes_in(Reading(write("x,y\n1,0\n2,1\n"), "y")) == (2, True)


def test_the_order_of_a_files_columns_does_not_decide_what_theta_means(write):
    text = "age,ward,clinic,ill\n1,b,north,no\n3,a,south,yes\n"
    turned = "clinic,ill,ward,age\nnorth,no,b,1\nsouth,yes,a,3\n"
    one = streams.from_csv(write(text), "ill", 2, drop=["clinic"], **ALL_DECLARED)
    other = streams.from_csv(write(turned, "other.csv"), "ill", 2, drop=["clinic"], **ALL_DECLARED)
    assert one.description["columns"] == ["age", "ward=a", "ward=b", "ward=c", "intercept"]
    assert other.description["columns"] == one.description["columns"]
    np.testing.assert_array_equal(one.table.rows, [[-0.98, 0, 1, 0, 1], [-0.94, 1, 0, 0, 1]])
    np.testing.assert_array_equal(other.table.rows, one.table.rows)


def test_a_record_whose_columns_lay_otherwise_is_not_gone_on_from(write):
    """Such as one of version 0.2.0, which kept the order of the header and named no columns."""
    stream = streams.from_csv(write(GOOD), "ill", split_by="clinic", **ALL_DECLARED)

    def run(steps, resume=None):
        return gs.simulate(
            gs.dsgd(gs.decay(1.0, 0.6)), gs.Network.ring(2), stream, model=gs.LogisticRegression(), steps=steps,
            resume=resume,
        )  # fmt: skip

    record = run(2)
    assert record.config["stream"]["columns"] == ("age", "ward=a", "ward=b", "ward=c", "intercept")
    before = {**record.config["stream"], "features": ["ward", "age"], "fingerprint": "another"}
    del before["columns"]
    old = dataclasses.replace(record, config={**record.config, "stream": before}, seal=None)
    with pytest.raises(GossamerError, match=r"stream = {'features': \('ward', 'age'\), 'columns': None} and this run"):
        run(4, resume=old)


def test_a_regression_target_is_scaled_like_a_feature(write):
    stream = streams.from_csv(write(GOOD), "age", learners=2, categorical=["ward", "clinic", "ill"], regression=True)
    np.testing.assert_allclose(stream.table.labels, np.arange(24) / 11.5 - 1)


def test_numeric_classes_keep_their_order(write):
    text = "x,y\n" + "".join(f"{k},{[2, 10, 9][k % 3]}\n" for k in range(9))
    np.testing.assert_array_equal(streams.from_csv(write(text), "y", learners=3).table.labels[:3], [0, 2, 1])


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("", {}, "is empty: expected a header line"),
        ("x,y\n", {}, "has a header but no records"),
        ("x,y\n1,0\n,1\n3,1\n", {}, r"line 3: no value in column 'x' \(1 such in all\).*drop=\['x'\]"),
        ("x,y\n1,0\nNA,1\n?,1\n", {}, r"line 3: no value in column 'x' \(2 such in all\)"),
        ("x,y\n1,0\n2,\n3,1\n", {}, "line 3: no value in column 'y'"),
        ("x,y\n1,1\n2,1\n3,1\n", {}, "column 'y' is 1 in every record, expected at least two classes"),
        ("x,y\n1,0\n\nabc,1\n", {}, r"line 4: 'abc' in column 'x' is not a finite number.*categorical=\['x'\]"),
        ("x,y\n1,0\ninf,1\n", {}, "'inf' in column 'x' is not a finite number"),
        ("x,y\n1,0\n2,1\n", {"target": "z"}, "no column 'z': expected one of x, y"),
        ("x,y\n1,0\n2,1\n", {"learners": 3}, "2 records for 3 learners"),
        ("x,y\n1,0\n2,1\n", {"learners": 1}, "at least 2"),
        ("x,y\n1,0\n2\n", {}, "line 3: 1 values for 2 columns"),
        ("x,x\n1,0\n2,1\n", {"target": "x"}, "two columns called 'x'"),
        ("y\n1\n0\n", {}, "no feature columns"),
        (
            "x,y\n1,0\n2,1\n",
            {"ranges": {"x": (0, 1)}, "outside": "refuse"},
            "line 3: 2 in column 'x' lies outside the declared range 0:1",
        ),
        ("x,y\n1,0\n2,1\n", {"ranges": {"x": (1, 1)}}, "the lower below the upper"),
        ("x,y\n1,0\n2,1\n", {"ranges": {"w": (1, 1)}}, "no column 'w'"),
        ("x,c,y\n1,a,0\n2,a,1\n", {"categorical": ["c"]}, r"column 'c' is 'a' in every record.*drop=\['c'\]"),
        ("x,c,y\n1,a,0\n2,a,1\n", {"split_by": "c"}, "must name at least two learners"),
        (b"\xff\xfe\x00", {}, r"cannot be read as CSV .*encoding"),
        ("x,y\n1,no\n2,yes\n", {"regression": True}, "'y' holds 'no' and a regression needs numbers"),
        ("x,y\na,0\nb,1\n", {"categories": {"x": ["a", "c"]}}, "line 3: 'b' in column 'x' is none of the .* a, c;"),
        ("x,y\n1,0\n2,1\n", {"classes": ["0", "2"]}, "line 3: '1' in column 'y' is none of the declared classes 0, 2"),
        ("x,y\n1,0\n2,1\n", {"classes": ["1", "1.0"]}, "may hold 1, 1.0: expected at least two names, all unlike"),
        ("x,y\n1,0\n2,1\n", {"classes": ["1"]}, "expected at least two names"),
        ("x,y\n1,0\n2,1\n", {"classes": ["0", "1"], "regression": True}, "a regression has none"),
        ("x,y\n1,0\n2,1\n", {"categories": {"x": []}}, "expected at least two names"),
        ("x,y\n1,0\n2,1\n", {"categories": {"x": "12"}}, "give a list of names"),
        ("x,y\n1,0\n2,1\n", {"categories": {"y": ["0", "1"]}}, "declare the target's with classes"),
        ("x,y\n1,0\n2,1\n", {"categories": {"x": ["1", "2"]}, "ranges": {"x": (0, 9)}}, "declare one of the two"),
        ("x,y\n1,0\n2,1\n", {"categories": {"w": ["1", "2"]}}, "no column 'w'"),
        ('x,w,y\n1,"a,0\n2,b,1\n3,c,1\n', {"drop": ["w"]}, r"line 2: not read as CSV \(a quote .* is not closed"),
        ('x,w,y\n1,a"b,0\n2,b"c,1\n', {"drop": ["w"]}, "line 2: not read as CSV"),
        ('x,w,y\n1,a""b,0\n2,b,1\n', {"drop": ["w"]}, r"line 2: not read as CSV \(a quote stands within a value"),
        ('x,w,y\n1,"a"b,0\n2,b,1\n', {"drop": ["w"]}, "line 2: not read as CSV"),
        ("x,y,w\n1,0,a\r2,1,b\n2,1,c\n3,0,d\n", {"drop": ["w"]}, "line 2: not read as CSV"),
    ],
)
def test_a_bad_file_gets_one_clear_sentence(write, text, options, says):
    given = {"target": "y", "learners": 2, **options}
    with pytest.raises(GossamerError, match=says) as caught:
        streams.from_csv(write(text), **given)
    assert "\n" not in str(caught.value)


def test_an_absent_file(tmp_path):
    with pytest.raises(GossamerError, match="no file"):
        streams.from_csv(tmp_path / "absent.csv", "y")
    with pytest.raises(GossamerError, match="cannot be read"):
        streams.from_csv(tmp_path, "y")


def test_labels_are_compared_as_numbers_where_they_are_numbers(write):
    text = "x,y\n1,0\n2,1\n3,1.0\n4,0\n"
    np.testing.assert_array_equal(streams.from_csv(write(text), "y", learners=2).table.labels, [0, 1, 1, 0])
    large = "x,y\n1,9007199254740992\n2,9007199254740993\n"
    np.testing.assert_array_equal(streams.from_csv(write(large), "y", learners=2).table.labels, [0, 1])


def test_a_header_that_comes_again_is_a_record(write):
    stream = streams.from_csv(write("0,1\n0,1\n1,0\n0,1\n"), "1", learners=2, ranges={"0": (0, 1)}, classes=["0", "1"])
    np.testing.assert_array_equal(stream.table.labels, [1, 0, 1])


def test_how_declared_records_are_laid_out_is_declared_too(write):
    """All of them 0 or 1, or one not: where it is a number, rows are dense; where all are categories, codes."""
    for last in ("1", "0.5"):
        text = f"x,y\n0,a\n1,b\n{last},a\n"
        stream = streams.from_csv(write(text), "y", learners=2, ranges={"x": (0, 1)}, classes=["a", "b"])
        assert stream.table.codebook is None
    text = "u,v,y\n" + "".join(f"{'ab'[k % 2]},{k % 300},{k % 2}\n" for k in range(600))
    declared = {"categories": {"u": ["a", "b"], "v": [str(k) for k in range(300)]}, "classes": ["0", "1"]}
    stream = streams.from_csv(write(text), "y", learners=2, **declared)
    assert stream.table.codebook is not None
    assert stream.table.bounds == (3, 3**0.5, 1)
    X = features_of(stream.table).toarray()
    np.testing.assert_array_equal(X[:, :2], np.eye(2)[np.arange(600) % 2])
    np.testing.assert_array_equal(X[:, 2:-1], np.eye(300)[np.arange(600) % 300])
    np.testing.assert_array_equal(X[:, -1], 1)


def test_odd_cells_cost_no_more_than_they_hold(write):
    text = "x,w,y\n" + f"1,{'a' * 100_000},0\n" + "2,b,1\n" * 2000
    assert streams.from_csv(write(text), "y", learners=2, drop=["w"]).rounds == 1001
    many = "x,w,y\n" + "".join(f"{k},c{k},{k % 2}\n" for k in range(1500))
    with pytest.raises(GossamerError, match="1500 categories, expected at most 1000"):
        streams.from_csv(write(many), "y", learners=2, categorical=["w"])
    with pytest.raises(GossamerError, match="expected finite ends"):
        streams.from_csv(write("x,y\n-1e308,0\n1e308,1\n"), "y", learners=2)
