"""Values outside of a declared range: clipped, counted and said, or refused; one record's never moves another's."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer import GossamerError, streams

DECLARED = {"ranges": {"age": (0, 120), "dose": (0, 5)}, "classes": ["0", "1"]}
ROWS = ["60,1", "130,2", "-5,3", "121,6", "120,5", "0,0"]


@pytest.fixture
def made(tmp_path):
    def make(rows=ROWS, **options):
        text = "\n".join(["age,dose,y", *(f"{row},{k % 2}" for k, row in enumerate(rows))])
        (tmp_path / "own.csv").write_text(text)
        return streams.from_csv(tmp_path / "own.csv", "y", **{"learners": 2, **DECLARED, **options})

    return make


def test_values_are_clipped_counted_and_said(made):
    stream = made()
    np.testing.assert_array_equal(stream.table.rows[:, 0], [0, 1, -1, 1, 1, -1])
    assert stream.notes[1:] == (
        "3 values of age lay outside 0:120 and were clipped.", "1 value of dose lay outside 0:5 and was clipped.",
    )  # fmt: skip
    assert stream.table.bounds == (3, 3**0.5, 1)
    assert stream.table.undeclared == "", "it is private: what a record becomes depends on that record alone"


def test_or_refused(made):
    with pytest.raises(GossamerError, match=r"line 3: 130 in column 'age' lies outside .* 0:120; .*outside='clip'"):
        made(outside="refuse")
    assert made([ROWS[0], ROWS[-1]], outside="refuse").notes == ("Classes of y: 0, 1.",)
    with pytest.raises(GossamerError, match="outside='drop': expected one of clip, refuse"):
        made(outside="drop")


@pytest.mark.parametrize("other", ["1e308,1", "-1e308,1", "120.00000001,1", "60,5"])
def test_no_other_record_moves(made, other):
    one, two = made(), made([*ROWS[:1], other, *ROWS[2:]])
    differs = (one.table.rows != two.table.rows).any(axis=1)
    assert not differs[[0, 2, 3, 4, 5]].any()
    assert np.abs(two.table.rows).max() <= 1


def test_a_quantity_is_clipped_too(made, tmp_path):
    (tmp_path / "own.csv").write_text("x,y\n1,50\n2,150\n3,-7\n4,100\n")
    stream = streams.from_csv(tmp_path / "own.csv", "y", 2, regression=True, ranges={"x": (0, 5), "y": (0, 100)})
    np.testing.assert_array_equal(stream.table.labels, [0, 1, -1, 1])
    assert "2 values of y lay outside 0:100 and were clipped." in stream.notes


def test_a_private_run_on_clipped_values_is_private(made):
    run = gs.simulate(
        gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)), gs.Network.ring(2), made(),
        model=gs.LogisticRegression(clip=gs.clip_l1(1.0)), privacy=gs.Laplace.for_budget(1.0), steps=3,
    )  # fmt: skip
    assert run.claim.startswith("private")


def test_the_command_says_it(gossamer, made, tmp_path):
    made()
    words = ["run", "--csv", "own.csv", "--target", "y", "--learners", 2, "--range", "age=0:120,dose=0:5", "--steps", 3,
             "--noise", 0]  # fmt: skip
    code, said, _ = gossamer(*words, "--out", "out")
    assert code == 0
    assert "3 values of age lay outside 0:120 and were clipped." in " ".join(said.split())
    code, _, said = gossamer(*words, "--outside", "refuse", "--out", "other")
    assert code == 2
    assert "use --outside clip" in " ".join(said.split())
