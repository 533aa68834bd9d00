"""What is read off a file where nothing is declared: scaled so that one odd value spoils nothing, and said."""

from __future__ import annotations

import re
import shlex

import numpy as np
import pytest

from gossamer import GossamerError, streams
from gossamer.cli.words import in_command
from gossamer.records import features_of
from gossamer.spec.languages import column_ranges
from gossamer.streams.inferring import rounded_out


@pytest.fixture
def made(tmp_path):
    def make(text, **options):
        (tmp_path / "own.csv").write_text(text)
        return streams.from_csv(tmp_path / "own.csv", "y", **{"learners": 2, **options})

    return make


def column(name, values):
    return f"{name},y\n" + "".join(f"{value},{k % 2}\n" for k, value in enumerate(values))


def said(stream):
    return " ".join(stream.notes)


def test_an_outlier_does_not_squeeze_the_others(made):
    values = np.append(np.arange(1000.0), 1e9)
    stream = made(column("x", values))
    low, high = np.quantile(values, [0.01, 0.99])
    x = features_of(stream.table)[:, 0]
    np.testing.assert_allclose(x, np.clip((values - low) / (high - low) * 2 - 1, -3, 3))
    assert np.ptp(x[:-1]) > 2
    assert x[-1] == 3
    assert re.search(
        "1 value of x lay more than 3 times as far out as most of its values, .* and was clipped", said(stream)
    )


def test_a_column_that_is_nearly_always_the_same_keeps_what_differs(made):
    x = features_of(made(column("x", [0] * 999 + [1])).table)[:, 0]
    np.testing.assert_array_equal(x, [-1] * 999 + [1])


def test_the_line_to_copy_can_be_copied(made, tmp_path):
    rng = np.random.default_rng(1)
    rows = [
        (17.3 + 73 * rng.random(), rng.integers(0, 100), 1e-4 * rng.random(), -5e6 * rng.random()) for _ in range(200)
    ]
    text = "age,hours a week,tiny,debt,y\n" + "".join(
        f"{a},{b},{c},{d},{k % 2}\n" for k, (a, b, c, d) in enumerate(rows)
    )
    stream = made(text)
    note = next(note for note in stream.notes if "ranges of" in note)
    words = shlex.split(note.said(in_command))
    ranges = column_ranges([words[words.index("--range") + 1]])
    every = dict(zip(("age", "hours a week", "tiny", "debt"), np.array(rows).T, strict=True))
    assert set(ranges) == set(every)
    for name, (low, high) in ranges.items():
        assert low <= every[name].min() < every[name].max() <= high
        assert high - low <= 1.21 * np.ptp(every[name]), "and no wider than round ends make it"
    again = made(text, ranges=ranges, classes=["0", "1"])
    assert again.table.undeclared == ""
    assert not any("clipped" in note for note in again.notes)


@pytest.mark.parametrize(
    ("ends", "round_"),
    [((17, 90), (17, 90)), ((0.2, 99.4), (0, 100)), ((0, 99999), (0, 100000)), ((-0.013, 0.021), (-0.013, 0.021)),
     ((1e-7, 3.04e-6), (1e-7, 3.1e-6)), ((1e15, 1e15 + 2), (1e15, 1e15 + 2)), ((-1e300, 2e300), (-1e300, 2e300))],
)  # fmt: skip
def test_ends_are_rounded_outwards(ends, round_):
    found = rounded_out(*ends)
    np.testing.assert_allclose(found, round_, rtol=1e-12)
    assert found[0] <= ends[0]
    assert found[1] >= ends[1]


def test_a_quantity_is_not_clipped(made):
    y = np.append(np.arange(200.0), 1e5)
    text = "x,y\n" + "".join(f"{k % 5},{value}\n" for k, value in enumerate(y))
    np.testing.assert_allclose(made(text, regression=True).table.labels, y / 5e4 - 1)


def test_words_become_categories_and_that_is_said(made):
    stream = made("w,ok,x,y\n" + "".join(f"{'abc'[k % 3]},{k % 2 == 0},{k},{k % 2}\n" for k in range(12)))
    assert stream.description["columns"] == ["ok=False", "ok=True", "w=a", "w=b", "w=c", "x", "intercept"]
    assert "Columns that hold words were taken as categories: w, ok." in stream.notes
    assert "categories={'w': ['a', 'b', 'c']}" in stream.table.undeclared, "so that privacy is refused"


def test_too_many_words_are_refused(made):
    with pytest.raises(GossamerError, match=r"'w' holds 1001 unlike words.*drop=\['w'\]"):
        made("w,x,y\n" + "".join(f"w{k},{k},{k % 2}\n" for k in range(1001)))


def test_numbers_with_a_slip_among_them_are_not_taken_for_words(made):
    with pytest.raises(GossamerError, match="line 5: '1o' in column 'x' is not a finite number"):
        made(column("x", [7, 8, 9, "1o", 11]))


def test_columns_that_tell_nothing_are_left_out_and_refuse_privacy(made):
    stream = made(
        "c,w,x,y\n" + "".join(f"5,same,{k},{k % 2}\n" for k in range(9)), ranges={"x": (0, 9)}, classes=["0", "1"]
    )
    assert stream.description["columns"] == ["x", "intercept"]
    assert "Left out, because every record has the same value there: c (5), w ('same')." in stream.notes
    assert "what c, w may hold were read off" in stream.table.undeclared, "another value would have brought a column"
    assert "drop=['c', 'w']" in stream.table.undeclared


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_an_index_without_a_name_is_left_out_and_that_is_said(made, name):
    stream = made(
        f"{name},x,y\n" + "".join(f"{k},{k % 7},{k % 2}\n" for k in range(9)), ranges={"x": (0, 7)}, classes=["0", "1"]
    )
    assert stream.description["columns"] == ["x", "intercept"]
    assert "eft out" in stream.notes[0]
    assert stream.table.undeclared == "", "the header decides it, and that is no record's"


def test_dates_are_refused_with_the_remedy_or_numbers_where_declared(made):
    text = "day,x,y\n" + "".join(f"2020-01-{k + 1:02},{k},{k % 2}\n" for k in range(9))
    with pytest.raises(GossamerError) as caught:
        made(text)
    assert "line 2: '2020-01-01' in column 'day' is a date; leave the column out with drop=['day'], or" in str(
        caught.value
    )
    assert "--range day=2020-01-01:2024-12-31" in caught.value.said(in_command)
    declared = column_ranges(["day=2020-01-01:2020-01-09,x=0:8"])
    stream = made(text, ranges=declared, classes=["0", "1"])
    np.testing.assert_allclose(stream.table.rows[:, 0], np.arange(9) / 4 - 1)
    timed = made(text.replace("2020-01-05", "2020-01-05 12:00"), ranges=declared, classes=["0", "1"])
    assert timed.table.rows[4, 0] == 0.125
    assert made(text.replace("2020-01-05", "2021-01-05"), ranges=declared, classes=["0", "1"]).notes[1:] == (
        "1 value of day lay outside 2020-01-01:2020-01-09 and was clipped.",
    )
    with pytest.raises(GossamerError, match="line 6: '2020-01-35' in column 'day' is no date"):
        made(text.replace("2020-01-05", "2020-01-35"), ranges=declared, classes=["0", "1"])
    with pytest.raises(GossamerError, match="expected two numbers, or two dates"):
        made(text, ranges={"day": ("2020-01-01", 5), "x": (0, 8)})


@pytest.mark.parametrize(("word", "taken"), [("none", True), ("NA", True), ("null", True), ("", False), ("?", False)])
def test_a_class_may_be_called_none(made, word, taken):
    text = f"x,y\n1,flu\n2,{word}\n3,cold\n4,flu\n"
    if taken:
        assert f"{word}" in made(text).description["schema"]["classes"]
    else:
        with pytest.raises(GossamerError, match="line 3: no value in column 'y'"):
            made(text)
    with pytest.raises(GossamerError, match=r"line 3: no value in column 'y' .* classes"):
        made(text.replace("flu", "1").replace("cold", "0"))
