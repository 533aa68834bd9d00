"""River's own checks on the learners of a network, and the simulator's numbers record by record."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("river", reason="needs the extra `river`")

from river import checks, compose, datasets, metrics, preprocessing

import gossamer as gs
from gossamer.estimator import ClassifyingLearner, PredictingLearner
from gossamer.estimator.ongoing import Ongoing
from gossamer.estimator.unprotected import NotPrivateWarning
from gossamer.spec import Spec
from gossamer.spec.build import build
from gossamer.streams import OnePass

QUICK = {"steps": 20, "graph": "complete"}
SEGMENTS = ("brickface", "cement", "foliage", "grass", "path", "sky", "window")


def bounds_of(*streams):
    """Bounds of all features of these public streams, which would be declared by whoever knows what they mean."""
    found = {}
    for stream in streams:
        for x, _ in stream:
            for name, value in x.items():
                low, high = found.get(name, (value, value))
                found[name] = (min(low, value), max(high, value + 1e-9))
    return found


class InTurn(ClassifyingLearner):
    """One learner that hands its records to all learners in turn, so that rounds are run while river looks."""

    def learn_one(self, x, y):
        self._turn = (getattr(self, "_turn", -1) + 1) % 2
        self.network.classifier(self._turn).learn_one(x, y)


class PredictsInTurn(PredictingLearner):
    """The same of a quantity."""

    def learn_one(self, x, y):
        self._turn = (getattr(self, "_turn", -1) + 1) % 2
        self.network.regressor(self._turn).learn_one(x, y)


KINDS = {
    "alone": (ClassifyingLearner, datasets.Phishing, {"classes": (False, True)}),
    "classes": (InTurn, datasets.Phishing, {"classes": (False, True)}),
    "many classes": (InTurn, datasets.ImageSegments, {"classes": (False, True, *SEGMENTS)}),
    "quantity": (PredictsInTurn, datasets.TrumpApproval, {"target_bounds": (30, 60)}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_river_finds_nothing_wrong(kind):
    made, stream, labels = KINDS[kind]
    bounds = bounds_of(stream().take(200))
    model = made(gs.LearnerNetwork(2, math.inf, bounds=bounds, per_round=4, **labels, **QUICK))
    seen = set()
    for check in checks.yield_checks(model):
        if check.__name__ == "check_bounded_memory_growth" and kind != "quantity":
            continue  # the same memory for all kinds, and thousands of records for each
        check(model.clone())
        seen.add(check.__name__)
    assert len(seen) >= 20
    assert not model._unit_test_skips()


def test_records_one_by_one_are_the_simulators_run():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2, 40, 2))
    y = X @ [1.0, -2.0] > 0.1
    network = gs.LearnerNetwork(
        ("north", "south"), math.inf, bounds={"a": (-1, 1), "b": (-1, 1)}, classes=(False, True), per_round=2, **QUICK
    )
    north, south = network.classifier("north"), network.classifier(1)
    for k in range(40):
        north.learn_one({"a": X[0, k, 0], "b": X[0, k, 1]}, y[0, k])
    assert network.record.t == 0  # all of north's records wait for south's
    assert north.predict_proba_one({"a": 0.0}) == {False: 0.5, True: 0.5}
    for k in range(40):
        south.learn_one({"b": X[1, k, 1], "a": X[1, k, 0]}, y[1, k])
    frame = pd.DataFrame(X.reshape(80, 2), columns=["a", "b"]).assign(target=y.ravel().astype(str))
    ranges = {"a": (-1, 1), "b": (-1, 1)}
    read = gs.streams.from_frame(frame, "target", classes=["False", "True"], ranges=ranges)
    stream = OnePass(read.table, [np.arange(40), np.arange(40, 80)], 2)
    spec = Spec.of(csv="X", target="target", model="logistic", classes="0,1", per_round=2, step="auto", **QUICK)
    parts = build(spec, stream)
    whole = gs.simulate(parts.algorithm, parts.network, parts.stream, model=parts.model, steps=20)
    np.testing.assert_allclose(network.record.theta, whole.theta, rtol=1e-12, atol=1e-12)
    own = whole.theta[1] @ [0.3, 0.4, 1.0]
    assert south.predict_proba_one({"a": 0.3, "b": 0.4})[True] == pytest.approx(1 / (1 + math.exp(-own)), rel=1e-9)
    assert south.predict_one({"a": 0.9, "b": -0.9}) is True


def test_every_learner_keeps_its_budget_for_ever():
    network = gs.LearnerNetwork(2, [1.0, 2.0], bounds={"a": (-1, 1)}, classes=(0, 1), **QUICK)
    learners = [network.classifier(k) for k in range(2)]
    rng, spent = np.random.default_rng(0), []
    for _ in range(60):  # three times as many rounds as were planned
        for learner in learners:
            a = rng.uniform(-1, 1)
            learner.learn_one({"a": a}, int(a > 0))
        spent.append([learner.epsilon for learner in learners])
    each = np.array(spent)
    assert (np.diff(each, axis=0) >= 0).all()
    assert (each[0] == 0).all()
    assert (each[-1] > each[19]).all()
    assert (each[-1] < [1, 2]).all()
    np.testing.assert_allclose(network.record.epsilon.for_ever, [1, 2], rtol=1e-3)
    assert network.record.claim.startswith("private: exact gaussian noise at the source")


def test_a_quantity_is_learnt_in_its_own_units_and_words_are_known():
    network = gs.LearnerNetwork(
        2, math.inf, bounds={"size": (0, 100)}, categories={"kind": ("old", "new")}, target_bounds=(0, 1000),
        steps=300, graph="complete",
    )  # fmt: skip
    learners = [network.regressor(k) for k in range(2)]
    rng = np.random.default_rng(0)
    for k in range(600):
        size, kind = rng.uniform(0, 100), ("old", "new")[int(rng.integers(2))]
        learners[k % 2].learn_one({"size": size, "kind": kind, "colour": "red"}, 5 * size + 300 * (kind == "new"))
    for learner in learners:
        assert learner.predict_one({"size": 50, "kind": "new"}) == pytest.approx(550, abs=40)
        assert learner.predict_one({"size": 50, "kind": "old"}) == pytest.approx(250, abs=40)
        assert learner.predict_one({"kind": "old"}) == pytest.approx(250, abs=40)  # the middle of its range


def test_it_works_in_a_pipeline_and_under_progressive_validation():
    x_bounds = bounds_of(datasets.Phishing())
    network = gs.LearnerNetwork(2, math.inf, bounds=x_bounds, classes=(False, True), steps=600, graph="complete")
    models = [compose.Pipeline(preprocessing.StatImputer(), network.classifier(k)) for k in range(2)]
    right = metrics.Accuracy()
    for k, (x, y) in enumerate(datasets.Phishing()):
        predicted = models[k % 2].predict_one(x)
        if k > 400:
            right.update(y, predicted)
        models[k % 2].learn_one(x, y)
    assert right.get() > 0.8


def test_a_network_is_pickled_with_all_that_it_knows():
    network = gs.LearnerNetwork(2, math.inf, bounds={"a": (-1, 1)}, classes=(0, 1), **QUICK)
    learners = [network.classifier(k) for k in range(2)]
    for k in range(31):
        learners[k % 2].learn_one({"a": math.sin(k)}, int(math.sin(k) > 0))
    copies = pickle.loads(pickle.dumps(learners))
    assert copies[0].network is copies[1].network
    for some in (learners, copies):
        some[1].learn_one({"a": 0.5}, 1)
    np.testing.assert_allclose(copies[0].network.record.theta, network.record.theta, rtol=1e-12, atol=1e-14)
    assert copies[0].network.record.t == 16


def test_after_a_record_whose_round_was_stopped_nothing_goes_on(monkeypatch):
    network = gs.LearnerNetwork(2, 2.0, bounds={"a": (-1, 1)}, classes=(0, 1), **QUICK)
    first, second = network.classifier(0), network.classifier(1)
    first.learn_one({"a": 0.5}, 1)

    def stopped(run):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ongoing, "_one_round", stopped)
        with pytest.raises(KeyboardInterrupt):
            second.learn_one({"a": 0.5}, 1)
    for learner in (first, second, pickle.loads(pickle.dumps(second))):
        with pytest.raises(gs.GossamerError, match=r"a call was stopped before its end.* start anew with a clone"):
            learner.learn_one({"a": 0.5}, 1)


def test_budgets_go_in_the_order_of_the_learners_or_by_their_names():
    for wanted in ([1.0, 8.0], {"alpha": 8.0, "north": 1.0}):
        network = gs.LearnerNetwork(("north", "alpha"), wanted, bounds={"a": (-1, 1)}, classes=(0, 1), **QUICK)
        np.testing.assert_allclose(network.record.epsilon.for_ever, [1.0, 8.0], rtol=1e-2)
        assert "ε by learner: north 1, alpha 8." in network.record.notes


class NoNumber:
    def __float__(self):
        raise RuntimeError

    def __str__(self):
        raise RuntimeError


ODD = [10**400, 10**5000, [1], [1, 2], {}, None, "a", 1j, math.nan, math.inf, np.ones(1), np.ones(2), b"1", NoNumber()]


@pytest.mark.parametrize("labels", [{"classes": (0, 1)}, {"target_bounds": (0, 1)}])
def test_no_value_decides_whether_a_private_record_is_taken(labels, caplog):
    network = gs.LearnerNetwork(
        2, 2.0, bounds={"a": (-1, 1), "b": (-1, 1)}, categories={"word": ("x", "y")}, **labels, **QUICK
    )
    made = network.classifier if "classes" in labels else network.regressor
    learners = [made(k) for k in range(2)]
    for odd in ODD:
        for learner in learners:
            learner.learn_one({"a": odd, "b": 0.5, "word": odd}, odd)
    assert network.record.t == len(ODD)
    counted = f"{2 * len(ODD)} labels were none of the classes, and counted as 0."
    copy = pickle.loads(pickle.dumps(network))
    assert (counted in network.record.notes) == (counted in copy.record.notes) == ("classes" in labels)
    assert caplog.text.count("a label is none of the classes") == ("classes" in labels)
    np.testing.assert_array_equal(network.row_of({"a": [1], "b": 0.5}), network.row_of({"b": 0.5}))
    np.testing.assert_array_equal(network.row_of({"a": 10**400, "b": 0.5}), network.row_of({"b": 0.5}))


def test_without_a_budget_a_label_that_is_no_class_is_refused():
    network = gs.LearnerNetwork(2, math.inf, bounds={"a": (0, 1)}, classes=(0, 1), **QUICK)
    with pytest.raises(gs.GossamerError, match=r"y=\[1, 2\]: expected one of the classes"):
        network.classifier(0).learn_one({"a": 1}, [1, 2])


PACES = (0, -1, "2", 1.5, True)
MISTAKES = [
    ({"bounds": {"a": (0, 1)}}, "say what labels may be, either classes="),
    ({"classes": (0, 1)}, "say what features may be, bounds="),
    ({"bounds": {"a": (0, 1)}, "classes": (0, 1), "learners": 1}, "learners=1: expected at least 2"),
    ({"bounds": {"a": (1, 0)}, "classes": (0, 1)}, "range 1:0 of column 'a'"),
    ({"bounds": {"a": (0, 1)}, "classes": (1,)}, "expected at least two names"),
    *(({"bounds": {"a": (0, 1)}, "classes": (0, 1), "per_round": n}, "expected a whole number ≥ 1") for n in PACES),
    ({"categories": {"target": ("a", "b")}, "classes": (0, 1)}, "a feature may not be called 'target'"),
    ({"bounds": {"target": (0, 1)}, "target_bounds": (0, 1)}, "a feature may not be called 'target'"),
]


@pytest.mark.parametrize(("parameters", "said"), MISTAKES)
def test_a_mistake_gets_one_sentence(parameters, said):
    with pytest.raises(gs.GossamerError, match=said):
        gs.LearnerNetwork(**({"epsilon": math.inf} | parameters))


def test_what_a_learner_is_not_told_is_refused_and_a_missing_budget_is_told():
    with pytest.warns(NotPrivateWarning):
        network = gs.LearnerNetwork(("a", "b"), bounds={"a": (0, 1)}, classes=("yes", "no"), **QUICK)
    with pytest.raises(gs.GossamerError, match="learner='c': expected one of a, b"):
        network.classifier("c")
    with pytest.raises(gs.GossamerError, match=r"y='maybe': expected one of the classes \['yes', 'no'\]"):
        network.classifier("a").learn_one({"a": 1}, "maybe")
    with pytest.raises(gs.GossamerError, match=r"use classifier\(\)"):
        network.regressor("a")
