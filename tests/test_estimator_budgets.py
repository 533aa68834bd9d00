"""What a budget is for: each row once, each learner's own, and whatever happens to a call."""

from __future__ import annotations

import math
import pickle
import re

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="needs the extra `sklearn`")

from sklearn.base import clone

import gossamer as gs
from gossamer.estimator.ongoing import Ongoing

QUICK = {"learners": 3, "steps": 40, "network": "complete"}


def numbers(count, columns=3, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, size=(count, columns))
    return X, (X @ np.arange(1.0, columns + 1) > 0).astype(int)


class Stops:
    """Rounds that are stopped after so many, as by Ctrl-C."""

    def __init__(self, monkeypatch, after):
        self.left, self.one_round = after, Ongoing._one_round
        monkeypatch.setattr(Ongoing, "_one_round", lambda run: self(run))

    def __call__(self, run):
        self.left -= 1
        if self.left == -1:
            raise KeyboardInterrupt
        self.one_round(run)


@pytest.mark.parametrize("calls", [0, 1])
@pytest.mark.parametrize("rounds", [0, 7])
def test_after_a_call_that_was_stopped_nothing_goes_on_and_nothing_starts_anew(monkeypatch, calls, rounds):
    X, y = numbers(60)
    made = gs.PrivateDecentralizedClassifier(2.0, bounds=(-1, 1), classes=[0, 1], per_round=2, **QUICK)
    for _ in range(calls):
        made.partial_fit(X, y)
    with monkeypatch.context() as patch:
        Stops(patch, rounds)
        with pytest.raises(KeyboardInterrupt):
            made.partial_fit(X, y)
    run, t = made._run, made._run.t
    assert t == 10 * calls + rounds
    for model in (made, pickle.loads(pickle.dumps(made))):
        with pytest.raises(gs.GossamerError, match=r"a call was stopped before its end.* start anew with a clone"):
            model.partial_fit(X, y)
    assert made._run is run
    assert run.t == t
    assert clone(made).partial_fit(X, y).record_.t == 10


def test_records_that_are_refused_may_be_given_again():
    X, y = numbers(60)
    made = gs.PrivateDecentralizedClassifier(2.0, bounds=(-1, 1), classes=[0, 1], per_round=2, **QUICK)
    for _ in range(2):
        with pytest.raises(gs.GossamerError, match="y has the class 2"):
            made.partial_fit(X, y + 1)
        made.partial_fit(X, y)
    assert made.record_.t == 20


# -- whose budget ------------------------------------------------------------------------------------------------------

BUDGETS = {"bounds": (-1, 1), "classes": [0, 1], "steps": 20, "network": "complete"}


@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_a_list_of_budgets_goes_by_the_learners_numbers_and_not_by_their_text(way):
    X, y = numbers(240)
    wanted = [1.0 + k for k in range(12)]
    model = gs.PrivateDecentralizedClassifier(wanted, **BUDGETS)
    getattr(model, way)(X, y, learner=np.arange(240) % 12)
    assert model.record_.config["stream"]["names"] == tuple(str(k) for k in range(12))
    np.testing.assert_allclose(model.record_.epsilon.for_ever, wanted, rtol=1e-2)


@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_learners_with_names_get_the_budgets_of_their_names(way):
    X, y = numbers(60)
    who = np.where(np.arange(60) % 2, "alpha", "north")
    for wanted in ({"north": 1.0, "alpha": 8.0}, pd.Series({"north": 1.0, "alpha": 8.0})):
        model = gs.PrivateDecentralizedClassifier(wanted, **BUDGETS)
        getattr(model, way)(X, y, learner=who)
        np.testing.assert_allclose(model.record_.epsilon.for_ever, [8.0, 1.0], rtol=1e-2)
        assert "ε by learner: alpha 8, north 1." in model.notes_
        assert "Learners in the order of the network's: alpha, north." in model.notes_
    asked = "a list leaves open whose each is, as learners have names; give epsilon={'alpha': …, 'north': …}"
    with pytest.raises(gs.GossamerError, match=re.escape(asked)):
        getattr(gs.PrivateDecentralizedClassifier([1.0, 8.0], **BUDGETS), way)(X, y, learner=who)
    with pytest.raises(gs.GossamerError, match="expected one for each of the learners alpha, north"):
        getattr(gs.PrivateDecentralizedClassifier({"alpha": 1.0}, **BUDGETS), way)(X, y, learner=who)


@pytest.mark.parametrize("way", ["fit", "partial_fit"])
@pytest.mark.parametrize("same", [lambda y: y, lambda y: y.to_numpy(), lambda y: y.map({0: "a", 1: "b"}), list])
def test_a_label_does_not_decide_whose_a_private_row_is(way, same):
    X, y = numbers(60)
    y = pd.Series(y, name="ill")
    with pytest.raises(gs.NotProvable, match="learner= holds what y holds"):
        getattr(gs.PrivateDecentralizedClassifier(2.0, **BUDGETS), way)(X, y, learner=same(y))
    getattr(gs.PrivateDecentralizedClassifier(math.inf, **BUDGETS), way)(X, y, learner=same(y))


def test_few_rows_of_a_later_call_may_look_like_their_labels():
    X, y = numbers(60)
    who = np.arange(60) % 2
    model = gs.PrivateDecentralizedClassifier(2.0, **BUDGETS).partial_fit(X, y, learner=who)
    model.partial_fit(X[:2], [0, 1], learner=[0, 1])
    labels = np.array([0, 1])
    model.set_params(epsilon=math.inf)  # which is for another run
    with pytest.raises(gs.NotProvable, match="learner= holds what y holds"):
        model.partial_fit(X[:2], labels, learner=labels)
