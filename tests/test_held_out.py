"""Records that nobody learns from: another file, or a fraction drawn by a seed."""

from __future__ import annotations

import numpy as np
import pytest

from gossamer import GossamerError, streams
from gossamer.records import features_of
from gossamer.spec import Spec
from gossamer.spec.build import build

DECLARED = {"ranges": {"x": (0, 100)}, "categories": {"w": ["a", "b", "c"]}, "classes": ["0", "1"]}


@pytest.fixture
def write(tmp_path):
    def write(rows, name="own.csv", header="x,w,y"):
        (tmp_path / name).write_text("\n".join([header, *rows]) + "\n")
        return tmp_path / name

    return write


def rows(count):
    return [f"{k},{'ab'[k % 2]},{k % 2}" for k in range(count)]


def test_a_fraction_is_drawn_by_the_seed_and_the_rest_goes_round(write):
    path = write(rows(100))
    whole = features_of(streams.from_csv(path, "y", 5, **DECLARED).table)
    drawn = []
    for seed in (0, 0, 1):
        stream = streams.from_csv(path, "y", 5, **DECLARED, test_fraction=0.2, seed=seed)
        assert (len(stream.table), len(stream.test)) == (80, 20)
        kept, tested = features_of(stream.table), features_of(stream.test)
        np.testing.assert_array_equal(np.sort([*kept[:, -2], *tested[:, -2]]), np.sort(whole[:, -2]))
        assert np.all(np.diff(kept[:, -2]) > 0), "in the order of the file"
        np.testing.assert_array_equal(stream.room(100), [16] * 5)
        drawn.append(tested[:, -2].tolist())
    assert drawn[0] == drawn[1] != drawn[2]


def test_which_are_drawn_depends_on_no_value(write):
    """Two worlds that differ in one record have the same others in the same places."""
    here, there = rows(40), rows(40)
    there[7] = "99,c,1"
    one, other = (streams.from_csv(write(each), "y", 2, **DECLARED, test_fraction=0.25) for each in (here, there))
    differs = (one.table.rows != other.table.rows).any(axis=1).sum() + (one.test.rows != other.test.rows).any(
        axis=1
    ).sum()
    assert differs == 1
    assert one.table.undeclared == other.table.undeclared == ""


def test_a_file_of_its_own_is_read_by_the_same_schema(write):
    test = write(["1,50,c", "0,0,a", "1,200,b"], "test.csv", header="y,x,w")
    stream = streams.from_csv(write(rows(10)), "y", 2, **DECLARED, test=test)
    assert len(stream.table) == 10
    np.testing.assert_array_equal(features_of(stream.test), [[0, 0, 1, 0.0, 1], [1, 0, 0, -1, 1], [0, 1, 0, 1, 1]])
    np.testing.assert_array_equal(stream.test.labels, [1, 0, 1])
    assert "1 value of x in the test lay outside 0:100 and was clipped." in stream.notes
    assert stream.description["test"] != streams.from_csv(write(rows(10)), "y", 2, **DECLARED).description.get("test")


def test_what_a_test_holds_and_was_not_declared_is_refused_with_its_line(write):
    test = write(["1,a,0", "1,z,0"], "test.csv")
    with pytest.raises(GossamerError, match=r"test.csv, line 3: 'z' in column 'w' is none of the declared"):
        streams.from_csv(write(rows(10)), "y", 2, **DECLARED, test=test)


def test_ranges_are_read_off_what_is_learnt_from_and_categories_off_all(write):
    test = write(["1000,z,0"], "test.csv")
    stream = streams.from_csv(write(rows(10)), "y", 2, test=test)
    assert stream.description["columns"] == ["w=a", "w=b", "w=z", "x", "intercept"]
    low, high = stream.description["schema"]["ranges"]["x"]
    np.testing.assert_allclose([low, high], np.quantile(np.arange(10), [0.01, 0.99]))
    assert features_of(stream.test)[0, 3] == 3


@pytest.mark.parametrize("fraction", [0.0, 1.0, -1, 0.01])
def test_a_fraction_that_leaves_nothing_is_refused(write, fraction):
    with pytest.raises(GossamerError, match=r"test_fraction=.*at least one of 10 records"):
        streams.from_csv(write(rows(10)), "y", 2, test_fraction=fraction)


def test_both_at_once_are_refused(write):
    path = write(rows(10))
    with pytest.raises(GossamerError, match="give one"):
        streams.from_csv(path, "y", 2, test=path, test_fraction=0.5)


def test_a_description_has_them(write):
    path = write(rows(30))
    given = {"csv": str(path), "target": "y", "learners": 2, "noise": "0", "range": ("x=0:100",), "categorical": ("w",)}
    assert len(build(Spec.of(**given, test_fraction=0.2)).stream.test) == 6
    assert len(build(Spec.of(**given, test=str(path))).stream.test) == 30
    assert build(Spec.of(**given)).stream.test is None
    with pytest.raises(GossamerError, match="is for csv"):
        build(Spec.of(dataset="mushrooms", test_fraction=0.2))
