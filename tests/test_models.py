"""Gradients, curvatures and minimisers against automatic differentiation of the losses as they are written."""

from __future__ import annotations

import autograd
import autograd.numpy as anp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer import GossamerError, LogisticRegression, RidgeRegression, SoftmaxRegression, streams
from gossamer.models import Objective
from gossamer.records import FeatureBounds, features_of

# the losses of one learner's records, as the docstring of gossamer.models.linear writes them


def logistic(theta, X, y):
    return anp.mean((1 - y) * anp.dot(X, theta) - anp.log(1 / (1 + anp.exp(-anp.dot(X, theta)))))


def ridge(theta, X, y):
    return anp.mean(0.5 * (anp.dot(X, theta) - y) ** 2)


def softmax(theta, X, y):
    margins = anp.dot(X, anp.reshape(theta, (X.shape[1], 3)))
    return anp.mean(anp.log(anp.sum(anp.exp(margins), axis=1)) - margins[np.arange(len(y)), y.astype(int)])


CASES = [
    (LogisticRegression(l2=0.3), logistic, lambda rng, size: rng.integers(0, 2, size)),
    (RidgeRegression(l2=0.1), ridge, lambda rng, size: rng.normal(size=size)),
    (SoftmaxRegression(classes=3, l2=0.2), softmax, lambda rng, size: rng.integers(0, 3, size)),
]
FEATURES = {
    "dense": lambda rng, shape: rng.normal(size=shape),
    "bits": lambda rng, shape: rng.random(shape) < 0.5,
    "sparse bits": lambda rng, shape: rng.random(shape) < 0.08,
}


def make(kind, labels, rng, sizes, n):
    X = [FEATURES[kind](rng, (size, n)) for size in sizes]
    y = [labels(rng, size).astype(float) for size in sizes]
    for part in y:
        part[:3] = [0, 1, 1][: len(part)]
    return X, y


@pytest.mark.parametrize(("model", "loss", "labels"), CASES, ids=["logistic", "ridge", "softmax"])
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("keep", ["history", "latest"])
@given(seed=st.integers(0, 2**32 - 1))
def test_the_gradient_is_autodiff_of_the_mean_loss_over_the_records_seen(model, loss, labels, features, keep, seed):
    rng = np.random.default_rng(seed)
    sizes, per_round, n = [240, 12, 35], [20, 1, 3], 20
    X, y = make(features, labels, rng, sizes, n)
    stream = streams.from_arrays(X, y, per_round=per_round)
    rounds = 12
    memory = model.memory(stream.table, keep, np.ones(3, dtype=np.int64))  # room for one: it has to grow
    theta = rng.normal(size=(3, n * model.outputs))
    for t in range(rounds):
        memory.observe(stream.arrivals(t))
    found = memory.gradient(theta) + model.l2 * theta  # the memory's is the data's part
    for i in range(3):
        seen = (
            slice(0, rounds * per_round[i])
            if keep == "history"
            else slice((rounds - 1) * per_round[i], rounds * per_round[i])
        )
        a, b = X[i][seen], y[i][seen]
        wanted = autograd.grad(lambda v: loss(v, a, b) + model.l2 / 2 * anp.sum(v**2))(theta[i])  # noqa: B023
        np.testing.assert_allclose(found[i], wanted, atol=1e-12)


@pytest.mark.parametrize(("model", "loss", "labels"), CASES, ids=["logistic", "ridge", "softmax"])
@pytest.mark.parametrize("features", FEATURES)
def test_the_objective_its_derivatives_and_its_minimiser(model, loss, labels, features):
    rng = np.random.default_rng(5)
    X, y = make(features, labels, rng, [30, 50], 6)
    F = Objective(model, streams.from_arrays(X, y).population)

    def by_hand(v):
        return 0.5 * (loss(v, X[0], y[0]) + loss(v, X[1], y[1])) + model.l2 / 2 * anp.sum(v**2)

    theta, direction = rng.normal(size=(2, F.size))
    assert F.value(theta) == pytest.approx(by_hand(theta), abs=1e-12)
    np.testing.assert_allclose(F.gradient(theta), autograd.grad(by_hand)(theta), atol=1e-12)
    H = autograd.hessian(by_hand)(theta)
    np.testing.assert_allclose(F.hessian_times(theta, direction), H @ direction, atol=1e-10)
    assert np.linalg.norm(autograd.grad(by_hand)(F.minimiser())) <= 2e-10
    assert F.minimiser() is F.minimiser(), "found once"


def test_quality_counts_by_share():
    X, y = [np.array([[1.0], [2.0]]), np.array([[3.0]])], [np.array([1.0, 0.0]), np.array([1.0])]
    F = Objective(LogisticRegression(), streams.from_arrays(X, y).population)
    assert F.evaluate(np.array([[1.0]]))[1][0] == pytest.approx(0.75), "learner 0's miss is a quarter of all"
    F = Objective(RidgeRegression(), streams.from_arrays(X, y).population)
    assert F.evaluate(np.array([[0.0]]))[1][0] == pytest.approx(1 - 0.75 / 0.1875)


def test_separable_classes_without_ridge_have_no_minimiser():
    X, y = [np.array([[1.0], [-2.0]])] * 2, [np.array([1.0, 0.0])] * 2
    with pytest.raises(GossamerError, match="use l2 > 0"):
        Objective(LogisticRegression(), streams.from_arrays(X, y).population).minimiser()


@pytest.mark.parametrize(
    ("model", "labels", "says"),
    [
        (LogisticRegression(), [0, 1, 2], "label 2, expected 0 to 1"),
        (SoftmaxRegression(3), [0, 1, 0.5], "label 0.5"),
    ],
)
def test_labels_that_a_model_cannot_learn_are_refused(model, labels, says):
    with pytest.raises(GossamerError, match=says):
        model.memory(streams.from_arrays([np.eye(3) + 0.5], [labels]).table, "history", np.array([3]))


@pytest.mark.parametrize(
    "make_model",
    [lambda: LogisticRegression(l2=-1), lambda: RidgeRegression(l2=float("nan")), lambda: SoftmaxRegression(classes=1)],
)
def test_parameters_of_models_are_checked(make_model):
    with pytest.raises(GossamerError, match="expected"):
        make_model()


def test_packed_rows_stand_for_the_same_matrix():
    rng = np.random.default_rng(2)
    for density in (0.5, 0.02):
        X = rng.random((40, 300)) < density
        X[0] = False
        table = streams.from_arrays([X], [np.arange(40) % 2]).table
        assert table.codebook is not None
        np.testing.assert_array_equal(features_of(table).toarray(), X)
        assert table.rows.shape[1] <= max(X.sum(axis=1).max(), 1), "work goes by non-zeros"


def test_a_model_says_whether_its_gradients_need_a_clipper():
    assert LogisticRegression().bounded
    assert SoftmaxRegression(3).bounded
    assert not RidgeRegression().bounded
    with pytest.raises(GossamerError, match="nothing bounds the gradients of RidgeRegression"):
        RidgeRegression().reach(FeatureBounds(1.0, 1.0, 1.0), 1)


def test_linear_models_start_at_0_and_their_memories_keep_nothing_but_records():
    model = SoftmaxRegression(3)
    np.testing.assert_array_equal(model.start(2, 7, 5), np.zeros((2, 15)))
    memory = model.memory(streams.from_arrays([np.eye(3)], [[0.0, 1.0, 2.0]]).table, "latest", np.array([3]))
    memory.go_on({"theta": np.zeros(3)})
    assert memory.kept() == {}
