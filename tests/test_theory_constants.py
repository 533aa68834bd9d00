"""μ, L, D and κ against brute force: gradients of every record, at many θ, from the formulas."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy

import gossamer as gs
from gossamer.models import LinearModel
from gossamer.models.standard import Standardise
from gossamer.records import FeatureBounds, Population, dense_table
from gossamer.theory import constants
from gossamer.theory.constants import clips, deviation

RNG = np.random.default_rng(5)
N, COLUMNS = 12, 3
X = RNG.uniform(-1, 1, (N, COLUMNS))
THETAS = [0, 0.3, 3, 30, 3000]
MODELS = {
    "logistic": gs.LogisticRegression(),
    "softmax": gs.SoftmaxRegression(classes=3),
    "squared": gs.RidgeRegression(),
}
LABELS = {
    "logistic": RNG.integers(0, 2, N).astype(float),
    "softmax": RNG.integers(0, 3, N).astype(float),
    "squared": RNG.normal(size=N),
}


def declared(X=X):
    size = abs(X)
    return FeatureBounds(size.sum(axis=1).max(), np.sqrt((X**2).sum(axis=1)).max(), size.max())


def table_of(name, bounds=True):
    return replace(dense_table(X, LABELS[name]), bounds=declared() if bounds else None)


def population_of(name, bounds=True):
    return Population(table_of(name, bounds), np.full(N, 1 / N))


def losses(name, l2, theta):
    """(N,) every record's loss, from the formulas of the paper and of textbooks."""
    labels, ridge = LABELS[name], l2 / 2 * (theta**2).sum()
    if name == "logistic":
        x = X @ theta
        return (1 - labels) * x + np.logaddexp(0, -x) + ridge
    if name == "softmax":
        x = X @ theta.reshape(COLUMNS, 3)
        return scipy.special.logsumexp(x, axis=1) - x[np.arange(N), labels.astype(int)] + ridge
    return 0.5 * (X @ theta - labels) ** 2 + ridge


def slopes(name, l2, theta):
    """(N, n) every record's gradient, differentiated by hand, without the model's own code."""
    labels = LABELS[name]
    if name == "softmax":
        w = scipy.special.softmax(X @ theta.reshape(COLUMNS, 3), axis=1) - np.eye(3)[labels.astype(int)]
        return (X[:, :, None] * w[:, None, :]).reshape(N, -1) + l2 * theta
    w = (scipy.special.expit(X @ theta) if name == "logistic" else X @ theta) - labels
    return X * w[:, None] + l2 * theta


@pytest.mark.parametrize("name", MODELS)
def test_the_gradients_of_this_file_are_those_of_its_losses(name):
    for theta in points(name, 2)[:5]:
        for k, one in enumerate(1e-6 * np.eye(len(theta))):
            change = losses(name, 0.2, theta + one) - losses(name, 0.2, theta - one)
            np.testing.assert_allclose(change / 2e-6, slopes(name, 0.2, theta)[:, k], atol=1e-6)


def points(name, count=8):
    size = COLUMNS * (3 if name == "softmax" else 1)
    rng = np.random.default_rng(1)
    return [scale * rng.normal(size=size) for scale in THETAS for _ in range(1 if scale == 0 else count)]


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_no_gradient_of_a_loss_of_classes_is_longer_than_d_at_any_theta_and_some_nearly_are(name):
    D = constants(MODELS[name], table_of(name)).D.value
    longest = max(np.linalg.norm(slopes(name, 0.0, theta), axis=1).max() for theta in points(name))
    assert 0.9 * D < longest <= D * (1 + 1e-9)
    # f_i of a learner with any of these records is a mean of such gradients, and D is what one record alone attains.


@pytest.mark.parametrize("name", ["logistic", "softmax"])
@pytest.mark.parametrize("l2", [0.0, 0.2])
def test_the_variance_is_below_kappa_at_every_theta(name, l2):
    kappa = constants(replace(MODELS[name], l2=l2), table_of(name)).kappa.value
    largest = 0.0
    for theta in points(name, 3):
        each = slopes(name, l2, theta)
        largest = max(largest, ((each - each.mean(axis=0)) ** 2).sum(axis=1).mean())
    assert 0.2 * kappa < math.sqrt(largest) <= kappa


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("l2", [0.0, 0.2])
def test_gradients_move_by_at_most_l_and_for_the_longest_record_by_nearly_that(name, l2):
    L = constants(replace(MODELS[name], l2=l2), table_of(name)).L.value
    longest = int(np.linalg.norm(X, axis=1).argmax())
    rng, steepest = np.random.default_rng(2), 0.0
    along = np.outer(X[longest], [1, -1, 0]).ravel() if name == "softmax" else X[longest]
    for theta in [0 * along, *points(name, 3)]:
        for onward in (1e-3 * along, rng.normal(size=len(theta)), 50 * rng.normal(size=len(theta))):
            moved = np.linalg.norm(slopes(name, l2, theta + onward) - slopes(name, l2, theta), axis=1).max()
            steepest = max(steepest, moved / np.linalg.norm(onward))
    assert steepest <= L * (1 + 1e-6)
    assert steepest > (0.6 if name == "softmax" else 0.97) * L  # softmax's ½ needs two classes that share everything


@pytest.mark.parametrize("name", MODELS)
def test_f_lies_above_its_tangents_by_mu_and_for_a_squared_loss_by_no_more(name):
    model = replace(MODELS[name], l2=0.05)
    mu = constants(model, table_of(name), population_of(name)).mu.value

    def F(theta):
        return float(losses(name, 0.05, theta).mean())

    rng, least = np.random.default_rng(3), math.inf
    directions = [rng.normal(size=len(points(name)[0])) for _ in range(200)]
    if name == "squared":
        directions.append(np.linalg.eigh(X.T @ X)[1][:, 0])
    for onward in directions:
        for theta in (0 * onward, 40 * rng.normal(size=len(onward))):
            slope = slopes(name, 0.05, theta).mean(axis=0)
            above = F(theta + onward) - F(theta) - slope @ onward
            least = min(least, 2 * above / (onward @ onward))
    assert least >= mu * (1 - 1e-3) - 1e-6
    assert least <= mu * (1.001 if name == "squared" else 3)
    if name == "squared":
        assert mu == pytest.approx(0.05 + np.linalg.eigvalsh(X.T @ X / N)[0])
    else:
        assert mu == 0.05


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("clip", [None, gs.clip_l2(0.4), gs.clip_l1(0.5)])
def test_the_deviation_is_that_of_all_records_gradients(name, clip):
    population, theta = population_of(name), points(name)[12]
    each = slopes(name, 0.0, theta)
    if clip is not None:
        length = abs(each).sum(axis=1) if clip.norm == 1 else np.linalg.norm(each, axis=1)
        each *= np.minimum(1, clip.c / length)[:, None]
    expected = math.sqrt(((each - each.mean(axis=0)) ** 2).sum(axis=1).mean())
    assert deviation(replace(MODELS[name], clip=clip), population, theta) == pytest.approx(expected)


def test_the_estimate_of_kappa_is_the_larger_of_theta_0_and_the_optimum():
    model, population = gs.RidgeRegression(l2=0.1), population_of("squared")
    best = np.linalg.solve(X.T @ X / N + 0.1 * np.eye(COLUMNS), X.T @ LABELS["squared"] / N)
    each = [deviation(model, population, theta) for theta in (np.zeros(COLUMNS), best)]
    known = constants(model, table_of("squared"), population)
    assert known.seen is not None
    assert known.seen.value == pytest.approx(max(each))
    assert math.isinf(known.kappa.value), "no κ holds for all θ"
    assert constants(model, table_of("squared"), population, records=4).seen.value == pytest.approx(max(each) / 2)


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_with_a_ridge_there_is_no_d_but_one_on_a_ball_in_which_the_optimum_lies(name):
    model: LinearModel = replace(MODELS[name], l2=0.2)
    known = constants(model, table_of(name))
    assert math.isinf(known.D.value)
    assert np.linalg.norm(gs.models.Objective(model, population_of(name)).minimiser()) <= known.radius
    for theta in points(name):
        inside = theta * min(1.0, known.radius / max(np.linalg.norm(theta), 1e-9))
        assert np.linalg.norm(slopes(name, 0.2, inside), axis=1).max() <= known.near * (1 + 1e-9)
    beyond = 1000 * known.radius * points(name)[-1] / np.linalg.norm(points(name)[-1])
    assert np.linalg.norm(slopes(name, 0.2, beyond)[0]) > known.near


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("clip", [gs.clip_l2(0.3), gs.clip_l1(0.3)])
def test_clipped_gradients_are_within_what_is_said_of_them(name, clip):
    model = replace(MODELS[name], clip=clip)
    known = constants(model, table_of(name))
    assert known.pull.value == 0.3
    assert known.D.value == 0.3

    def clipped(theta):
        each = slopes(name, 0.0, theta)
        length = np.linalg.norm(each, clip.norm, axis=1)
        return each * np.minimum(1.0, clip.c / np.maximum(length, 1e-300))[:, None]

    rng = np.random.default_rng(4)
    for theta in points(name):
        one, onward = clipped(theta), rng.normal(size=len(theta))
        assert abs(one).sum(axis=1).max() <= known.c.value * (1 + 1e-9)
        for short in (1, 1e-3):
            moved = np.linalg.norm(clipped(theta + short * onward) - one, axis=1).max()
            assert moved <= known.L.value * short * np.linalg.norm(onward) * (1 + 1e-6)


def test_a_clipper_that_lets_everything_pass_changes_nothing():
    table = table_of("logistic")
    loose, tight = (gs.LogisticRegression(clip=gs.clip_l2(c * declared().l2)) for c in (1.01, 0.99))
    assert not clips(loose, table)
    assert clips(tight, table)
    assert constants(loose, table)[:6] == constants(gs.LogisticRegression(), table)[:6]


def test_without_a_declaration_the_records_at_hand_say_it_and_nobody_where_they_may_not_be_looked_at():
    model = gs.LogisticRegression()
    seen = constants(model, table_of("logistic", False), population_of("logistic", False))
    assert seen.D.value == pytest.approx(declared().l2)
    assert seen.D.how == f"the largest of {N} records"
    unseen = constants(model, table_of("logistic", False))
    assert math.isnan(unseen.D.value)
    assert math.isnan(unseen.L.value)
    assert unseen.seen is None


def test_the_largest_weight_counts_and_so_do_a_rounds_records():
    model, table = gs.LogisticRegression(l2=0.1), table_of("logistic")
    one, heavy = constants(model, table), constants(model, table, records=4, weight=3.0)
    assert heavy.L.value == pytest.approx(3 * one.L.value)
    assert heavy.kappa.value == pytest.approx(3 / 2 * one.kappa.value)
    assert heavy.mu == one.mu
    assert heavy.radius == one.radius


def test_an_intercept_has_no_ridge_and_so_classes_have_no_mu():
    assert constants(gs.LogisticRegression(l2=0.1, intercept=True), table_of("logistic")).mu.value == 0


def test_of_standardised_numbers_little_is_known_beforehand():
    model = gs.LogisticRegression(l2=0.1, standardise=Standardise((0, 1), False, 2.0))
    known = constants(model, table_of("logistic"))
    assert [math.isnan(one.value) for one in (known.L, known.D, known.kappa, known.c)] == [True] * 4
    clipped = constants(replace(model, clip=gs.clip_l2(0.5)), table_of("logistic"))
    assert clipped.c.value == pytest.approx(0.5 * math.sqrt(COLUMNS)), "‖·‖₁ ≤ √n ‖·‖₂, of gradients as they are seen"
