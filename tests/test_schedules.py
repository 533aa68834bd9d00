"""Schedules are the paper's power laws, for all learners or for each."""

import numpy as np
import pytest

from gossamer import GossamerError, decay


def test_decay_is_a_power_law():
    assert [decay(2.0, 0.5)(t) for t in (0, 3, 8)] == [2.0, 1.0, pytest.approx(2 / 3)]
    assert decay(0.3, 0)(1000) == 0.3


def test_one_value_per_learner_makes_a_column():
    schedule = decay(1.0, [0.5, 1.0])
    np.testing.assert_allclose(schedule(3), [[0.5], [0.25]])
    assert schedule.learners == 2
    np.testing.assert_allclose(decay([1, 2], [0, 1])(1), [[1.0], [1.0]])


@pytest.mark.parametrize(
    ("initial", "exponent", "says"),
    [
        (-1.0, 0.5, "must not be negative"),
        ("x", 0.5, "expected a finite number"),
        (1.0, float("nan"), "expected a finite number"),
        (1.0, [], "expected a finite number"),
        ([1.0, 2.0], [0.5, 0.6, 0.7], "2 initial values and 3 exponents"),
    ],
)
def test_what_is_no_schedule_is_refused(initial, exponent, says):
    with pytest.raises(GossamerError, match=says):
        decay(initial, exponent)
