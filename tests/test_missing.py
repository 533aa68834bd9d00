"""Records that lack a value: refused, taken for the middle, or of a category of their own; each by itself."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer import GossamerError, streams
from gossamer.cli.words import in_command
from gossamer.streams.stream import checked_bounds

DECLARED = {"ranges": {"age": (0, 100)}, "categories": {"ward": ["a", "b"]}, "classes": ["no", "yes"]}
TEXT = "age,ward,ill\n25,a,no\n,b,yes\nNA,a,no\n75,b,yes\n100,a,no\n0,b,yes\n"


@pytest.fixture
def made(tmp_path):
    def make(text=TEXT, **options):
        (tmp_path / "own.csv").write_text(text)
        return streams.from_csv(tmp_path / "own.csv", "ill", **{"learners": 2, **DECLARED, **options})

    return make


def test_missing_values_are_refused_with_their_number_and_the_remedies(made):
    with pytest.raises(GossamerError) as caught:
        made()
    assert caught.value.said(in_command).endswith(
        "own.csv, line 3: no value in column 'age' (2 such in all); fill or remove these records, use --missing "
        "mean-of-range or --missing category, or leave the column out with --drop age."
    )


def test_a_word_that_says_missing_is_named_and_has_no_middle(made):
    with pytest.raises(GossamerError) as caught:
        made(TEXT.replace("25,a", "25,none").replace("?", "30"), missing="mean-of-range")
    said = caught.value.said(in_command)
    assert "no value in column 'ward' (1 such in all, 'none' among them)" in said
    assert "use --missing category, --categories if 'none' is a value, or leave" in said


def test_the_middle_of_the_range(made):
    stream = made(missing="mean-of-range")
    assert stream.description["columns"] == ["age", "ward=a", "ward=b", "intercept"]
    np.testing.assert_array_equal(stream.table.rows[:, 0], [-0.5, 0, 0, 0.5, 1, -1])
    with pytest.raises(GossamerError, match="line 2: no value in column 'ward'"):
        made(TEXT.replace("25,a", "25,"), missing="mean-of-range")


def test_a_category_of_its_own(made):
    stream = made(TEXT.replace("75,b", "75,?"), missing="category")
    columns = ["age", "age missing", "ward=a", "ward=b", "ward=missing", "intercept"]
    assert stream.description["columns"] == columns
    np.testing.assert_array_equal(
        stream.table.rows,
        [[-0.5, 0, 1, 0, 0, 1], [0, 1, 0, 1, 0, 1], [0, 1, 1, 0, 0, 1],
         [0.5, 0, 0, 0, 1, 1], [1, 0, 1, 0, 0, 1], [-1, 0, 0, 1, 0, 1]],
    )  # fmt: skip
    assert stream.table.undeclared == ""
    assert stream.table.bounds == (3, 3**0.5, 1), "what is missing adds nothing: ε is the same"
    checked_bounds(stream.table)


def test_the_columns_do_not_depend_on_whether_anything_is_missing(made):
    full = made(TEXT.replace(",b,yes", "5,b,yes", 1).replace("NA", "5"), missing="category")
    assert full.description["columns"] == made(missing="category").description["columns"]


def test_codes_have_the_category_too(made, tmp_path):
    (tmp_path / "own.csv").write_text("u,v,y\na,,0\n,c,1\nb,d,1\na,c,0\n")
    stream = streams.from_csv(
        tmp_path / "own.csv",
        "y",
        2,
        categories={"u": ["a", "b"], "v": ["c", "d"]},
        classes=["0", "1"],
        missing="category",
    )
    assert stream.table.codebook is not None
    wanted = [[1, 0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 0, 0, 1], [0, 1, 0, 0, 1, 0, 1], [1, 0, 0, 1, 0, 0, 1]]
    np.testing.assert_array_equal(gs.records.features_of(stream.table).toarray(), wanted)


def test_a_declared_name_means_itself(made):
    given = {"categories": {"ward": ["a", "b", "none"]}, "missing": "category"}
    stream = made(TEXT.replace("75,b", "75,none"), **given)
    np.testing.assert_array_equal(stream.table.rows[3, 2:6], [0, 0, 1, 0])


@pytest.mark.parametrize("missing", ["refuse", "mean-of-range", "category"])
def test_a_target_is_never_made_up(made, missing):
    with pytest.raises(GossamerError, match="line 2: no value in column 'ill'"):
        made(TEXT.replace("25,a,no", "25,a,"), missing=missing)


def test_what_is_read_off_a_column_is_read_off_what_it_has(made):
    stream = made(missing="mean-of-range", ranges={}, categories={"ward": ["a", "b"]})
    low, high = np.quantile([25, 75, 100, 0], [0.01, 0.99])
    wanted = (np.array([25, 75, 100, 0]) - low) / (high - low) * 2 - 1
    np.testing.assert_allclose(stream.table.rows[[0, 3, 4, 5], 0], wanted)
    np.testing.assert_array_equal(stream.table.rows[[1, 2], 0], 0)


def test_another_word_is_refused(made):
    with pytest.raises(GossamerError, match="missing='guess': expected one of refuse, mean-of-range, category"):
        made(missing="guess")
