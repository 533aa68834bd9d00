"""scikit-learn's own suite, on both estimators; small ones, because the suite trains some hundred of each."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("sklearn", reason="needs the extra `sklearn`")

from sklearn.utils.estimator_checks import parametrize_with_checks

import gossamer as gs

SMALL = {"steps": 20, "learners": 2, "network": "complete"}
NOT_SO = {
    "check_fit_score_takes_y": "calls partial_fit after fit, which is refused: a run of fit has ended with its budget",
}


@parametrize_with_checks(
    [gs.PrivateDecentralizedClassifier(math.inf, **SMALL), gs.PrivateDecentralizedRegressor(math.inf, **SMALL)],
    expected_failed_checks=lambda estimator: NOT_SO,
)
def test_scikit_learn_finds_nothing_wrong(estimator, check):
    check(estimator)
