"""The largest loss replayed stands beside the recursion's: in the study's own setting, never above it, and not idle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.algorithms import METHODS
from gossamer.checks.climb import levered, worst_found
from gossamer.checks.worlds import FEATURES, Case, Worlds
from gossamer.experiments.compare import compare
from gossamer.experiments.replay import Replay
from gossamer.experiments.runs import Runs
from gossamer.experiments.search import Choice
from gossamer.experiments.study import Case as Cell
from gossamer.experiments.study import Effort, Study, least
from gossamer.experiments.words import tell_comparison
from gossamer.privacy import Laplace, epsilons
from gossamer.records import FeatureBounds
from gossamer.spec import Spec

MUSHROOMS = Spec.of(dataset="mushrooms", l2=1e-2, graph="paper")
LINES = Spec.of(dataset="regression", l2=1e-3, clip=1.0, graph="paper")
ONE_HOT = FeatureBounds(22.0, 22.0**0.5, 1.0)


def replay_of(method, rounds=10, climbs=20, problem=MUSHROOMS, steps=60):
    study = Study(problem, Effort(steps, 1, (0.1,)), None, least("tracking_error"))
    return Replay(study.task(Cell(method, 5000.0), Choice(0.1), 0), rounds, climbs)


@pytest.mark.parametrize("method", [name for name, one in METHODS.entries().items() if one.compared])
def test_no_replay_is_above_the_recursion_and_none_is_idle(method):
    found = replay_of(method, climbs=5).outcome()
    assert 0.02 * found["claim"] < found["loss"] <= found["claim"] * (1 + 1e-9)


def test_the_claim_is_the_studys_own_over_the_rounds_that_were_replayed():
    """The same c and L, hence the same ε by the recursion, as with the study's data."""
    job = replay_of("dsgd", rounds=12, climbs=1)
    found, terms = job.outcome(), job.task.terms(60)
    surcharge = terms[found["learner"]].surcharge(12)
    assert found["claim"] == pytest.approx(epsilons(terms, 12, 0.0)[found["learner"]] - surcharge, rel=1e-6)
    assert found["rounds"] == 12
    assert replay_of("dsgd", rounds=10**6, climbs=1, steps=15).outcome()["rounds"] == 15


def test_an_adversarys_records_are_as_long_as_the_datas_may_be_and_no_longer():
    case = Case(gs.dsgd(gs.decay(0.1, 0.6)), gs.Network.paper(), gs.LogisticRegression(0.01), Laplace(1.0), "history",
                bounds=ONE_HOT)  # fmt: skip
    assert case.copies == 22
    features = case.to_features(50 * np.random.default_rng(0).normal(size=(1000, FEATURES)))
    assert np.abs(features).sum(axis=1).max() == pytest.approx(22)
    assert np.abs(features).max() <= 1 + 1e-12
    assert np.linalg.norm(features, axis=1).max() <= 22**0.5 + 1e-9
    point = case.to_parameters(np.array([1.0, 2.0, 3.0]))
    assert point.tolist() == [1.0] * 22 + [2.0] * 22 + [3.0] * 22
    for scaled in (FeatureBounds(1.0, 22**-0.5, 1 / 22), FeatureBounds(4.0, 4.0, 4.0)):
        longest = np.abs(replace(case, bounds=scaled).to_features(50 * np.eye(FEATURES))).sum(axis=1)
        np.testing.assert_allclose(longest, scaled.l1)


def test_the_first_world_comes_to_where_the_adversary_wants_it():
    case = Case(gs.dsgd(gs.decay(0.1, 0.6)), gs.Network.paper(), gs.LogisticRegression(0.01), Laplace(1e9), "history",
                rounds=4, bounds=ONE_HOT)  # fmt: skip
    given = levered(case, np.random.default_rng(0))
    replayed = Worlds(case).replay(given, np.zeros(10, dtype=np.int64))
    sent = replayed.noised[0][3]["theta"]  # of the last round: θ as it is
    np.testing.assert_allclose(sent, case.to_parameters(given.targets[:, 3]), atol=1e-2)  # the grid is 1e9/2^40


def test_a_recursion_that_is_too_small_is_caught_with_long_records_as_well():
    honest = gs.dsgd(gs.decay(0.1, 0.6))

    def careless(rows, z):
        return honest.dynamics(rows, z)._replace(b=0.1 * honest.dynamics(rows, z).b)

    model, net = gs.LogisticRegression(0.01), gs.Network.paper()
    for algorithm, caught in ((honest, False), (replace(honest, dynamics=careless), True)):
        case = Case(algorithm, net, model, Laplace(gs.decay(1.0, 0.55)), "history", rounds=8, bounds=ONE_HOT)
        assert bool((worst_found(case, tries=4, climbs=5).losses > case.claims).any()) == caught


def test_what_cannot_be_replayed_says_nothing(tmp_path):
    assert replay_of("dsgd", problem=LINES).outcome()["loss"] > 0, "clipped, and replayed"
    job = replay_of("dsgd")
    never = replace(job, task=replace(job.task, spec=job.task.spec.but(epsilon="1e-9")))
    assert never.outcome() == {}, "no noise meets that budget"


def test_a_comparison_shows_replays_differences_and_what_was_tuned(tmp_path):
    effort = Effort(12, 3, (0.125, 0.5), tuning_seeds=2, refined=True, replayed=6)
    methods = ("ldp_gradient_tracking", "dsgd", "stochastic_subgradient_own")
    runs = Runs(tmp_path, jobs=1)
    studied = compare(LINES, runs, effort, methods, epsilon=50.0)
    page = tell_comparison(studied)
    head, *rows = page.rows
    assert {"v", "ς", "split", "less Algorithm 1", "replayed"} <= set(head)
    by_method = {(row[0], row[2]): dict(zip(head, row, strict=True)) for row in rows}
    ours = by_method["Algorithm 1", "best"]
    assert ours["less Algorithm 1"] == "–"
    other = by_method["DSGD", "best"]
    assert other["split"] == "–"
    low, high = other["less Algorithm 1"].split("(")[1].rstrip(")").split(" to ")
    assert float(low) < float(high)
    loss, claim = (float(part.replace(",", "")) for part in other["replayed"].split(" of "))
    assert 0 < loss <= claim <= 50.0
    assert "then to √2" in page.about
    assert "the first 6 rounds" in page.about
    again = Runs(tmp_path, jobs=1)
    compare(LINES, again, effort, methods, epsilon=50.0)
    assert again.made == 0, "replays are kept as runs are"
