"""What studies tune: within each paper's constraints, the best where that is known, and nothing twice."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.algorithms import METHODS, find_method
from gossamer.algorithms.registry import Exponents
from gossamer.experiments import tasks
from gossamer.experiments.frontier import SCORES, curve, frontier
from gossamer.experiments.search import Choice, neighbours, on_grid, with_exponents
from gossamer.experiments.study import LATE, OURS, TUNING, Case, Effort, Study, least
from gossamer.schedules import Decay
from gossamer.spec import Spec
from gossamer.spec.languages import step_schedule

LINES = Spec.of(dataset="regression", l2=1e-3, clip=1.0, graph="paper")
MUSHROOMS = Spec.of(dataset="mushrooms", l2=1e-2, graph="paper")
SQRT2 = math.sqrt(2)


@pytest.mark.parametrize("name", [name for name, one in METHODS.entries().items() if one.compared])
def test_all_exponents_that_are_tried_keep_to_the_papers_constraints(name):
    one = find_method(name)
    assert len(one.exponents) == 3, "every method gets as many"
    for v, power, ratio in one.exponents:
        one.make(gs.decay(0.1, v), Decay(1.0, power, ratio), strict=True)  # refuses otherwise
    with pytest.raises(gs.GossamerError):
        one.make(gs.decay(0.1, -0.5), strict=True)


@pytest.mark.parametrize("name", [name for name, one in METHODS.entries().items() if one.compared])
def test_a_split_is_tried_where_two_values_are_noised(name):
    algorithm, net = find_method(name).build(0.1), gs.Network.paper()
    rows = net.rows(mixes=algorithm.mixes)
    sent = algorithm.emit(algorithm.init(rows, np.zeros((10, 2))), np.zeros((10, 2)), rows, 0)
    noised = [channel for channel, out in sent.items() if out.private]
    assert bool(find_method(name).splits) == (len(noised) == 2)
    assert all(split > 0 and 1 / split in find_method(name).splits for split in find_method(name).splits), "both ways"


def test_the_grid_is_powers_of_the_root_of_two():
    assert [on_grid(2.0**k) for k in range(-12, 12)] == [2.0**k for k in range(-12, 12)], "to the bit"
    assert on_grid(0.36) == pytest.approx(2**-1.5)
    there_and_back = neighbours(neighbours(Choice(0.25))[0])[1]
    assert there_and_back == Choice(0.25), "so that nothing is tried twice"
    assert [c.step / 0.25 for c in neighbours(Choice(0.25))] == pytest.approx([1 / SQRT2, SQRT2])


def test_steps_that_fall_faster_begin_larger():
    """Σ λ_t stays, up to the grid."""
    usual, other = Exponents(0.6, 0.55), Exponents(0.9, 0.55)
    choice, *near = with_exponents(Choice(0.25), usual, [other], 1000)
    t = np.arange(1.0, 1001)
    assert choice.step * (t**-0.9).sum() == pytest.approx(0.25 * (t**-0.6).sum(), rel=2**0.25 - 1 + 1e-9)
    assert choice.step > 0.25 * SQRT2
    assert [c.step / choice.step for c in near] == pytest.approx([1 / SQRT2, SQRT2])


class Landscape:
    """Runs whose errors are known: a valley in log λ0, whose floor depends on exponents and split."""

    def __init__(self, at=0.25, best_v=None, best_split=None):
        self.at, self.best_v, self.best_split, self.asked = at, best_v, best_split, []

    def __call__(self, jobs):
        jobs = list(jobs)
        self.asked += jobs
        return [self.outcome(task) for task in jobs]

    def outcome(self, task):
        step = step_schedule(task.spec.algorithm.step)
        error = 1 + math.log2(step.initial / self.at) ** 2
        error += self.best_v is not None and abs(step.exponent - self.best_v)
        error += self.best_split is not None and abs(math.log2((task.split or 1.0) / self.best_split))
        luck = 0.01 * (task.spec.length.seed % 2)
        return {"diverged": False, "tracking_error": [2.0, error + luck], "accuracy": [0.5, 1 / error]}


def tuned(landscape, method=OURS, where="messages", **effort):
    effort = Effort(100, 1, (0.0625, 1.0, 16.0), tuning_seeds=2, refined=True, **effort)
    made = Study(LINES, effort, landscape, least("tracking_error"))
    case = Case(method, 5.0, where=where)
    tried = made.tune([case])[case]
    return made.best(tried), tried


@pytest.mark.parametrize("at", [0.25 * SQRT2, 0.5, 40.0, 0.01], ids=["between", "on 2^k", "above", "below"])
def test_the_best_step_is_found_to_a_root_of_two_also_beyond_the_grid(at):
    best, tried = tuned(Landscape(at), "dsgd")
    assert abs(math.log2(best.step / at)) <= 0.25 + 1e-9
    assert len(tried) < 30, "and affordably"
    assert len(set(tried)) == len(tried)


def test_all_that_is_tried_is_tried_on_every_tuning_seed_and_once():
    landscape = Landscape()
    _, tried = tuned(landscape)
    assert {task.spec.length.seed for task in landscape.asked} == {TUNING, TUNING + 1}
    assert len({task.key() for task in landscape.asked}) == len(landscape.asked) == 2 * len(tried)


def test_other_exponents_are_found_where_they_are_better():
    best, tried = tuned(Landscape(best_v=0.75), "dsgd")
    assert best.exponents is not None
    assert best.exponents.step == 0.75
    assert best.step == 0.25, "with its own λ0"
    assert {choice.exponents for choice in tried} == {None, *find_method("dsgd").exponents[1:]}
    assert tuned(Landscape(best_v=0.6), "dsgd")[0].exponents is None


def test_a_split_is_found_where_it_is_better():
    assert tuned(Landscape(best_split=2.0))[0].split == 2.0
    assert tuned(Landscape(best_split=0.5))[0].split == 0.5
    assert tuned(Landscape(best_split=2.0), "dsgd")[0].split is None, "of one channel there is nothing to split"
    assert tuned(Landscape(best_split=2.0), where="source")[0].split is None


def test_at_the_source_only_the_steps_exponent_is_another_choice():
    _, tried = tuned(Landscape(), where="source")
    shapes = {choice.exponents for choice in tried}
    assert shapes == {None, Exponents(0.75, 0.55)}, "(0.75, 0.7) would be the same run again"


def test_without_refinement_the_grid_is_all():
    made = Study(LINES, Effort(100, 1, (0.1, 1.0), tuning_seeds=1), Landscape(), least("tracking_error"))
    tried = made.tune([Case("dsgd", 5.0)])[Case("dsgd", 5.0)]
    assert list(tried) == [Choice(0.1), Choice(1.0)]


def test_what_is_tuned_decides_the_run_and_its_key():
    made = Study(LINES, Effort(25, 1, (0.1,)), None, least("tracking_error"))
    case, usual = Case(OURS, 50.0), Choice(0.1)
    other = replace(usual, exponents=Exponents(0.75, 0.7))
    one, two = (made.task(case, choice, 0) for choice in (usual, other))
    assert len({one.key(), two.key(), made.task(case, replace(usual, split=2.0), 0).key()}) == 3
    assert [t.exponent for t in two.terms(25)] == [0.7] * 10
    assert [t.exponent for t in one.terms(25)] == [0.55] * 10
    assert step_schedule(two.spec.algorithm.step).exponent == 0.75
    assert all(49.5 <= e <= 50.0 for e in two.outcome()["epsilon"]), "the budget is met by what is run"


def test_a_split_run_has_the_noise_that_its_budget_is_said_of():
    made = Study(LINES, Effort(25, 1, (0.1,)), None, least("tracking_error"))
    task = made.task(Case(OURS, 50.0), Choice(0.1, split=2.0), 0)
    terms = task.terms(25)
    assert dict(terms[0].split) == {"s": 2.0}
    drawn = tasks.seeded_like(terms, 0)
    plain = gs.privacy.simulated(tasks.scales_of(terms), 0)
    np.testing.assert_allclose(drawn.noise("s", 3, (10, 4)), 2 * plain.noise("s", 3, (10, 4)))
    np.testing.assert_allclose(drawn.noise("theta", 3, (10, 4)), plain.noise("theta", 3, (10, 4)))
    assert all(49.5 <= e <= 50.0 for e in task.outcome()["epsilon"])


def test_data_are_read_once_for_every_kind_of_noise():
    tasks._read.cache_clear()
    for law in ("laplace", "gaussian"):
        for where in ("messages", "source"):
            for step in ("0.1,0.6", "1,0.6"):
                tasks.data_of(MUSHROOMS.but(draw="once", law=law, where=where, step=step, epsilon="1"))
    # one for each law, which decides a clipper's norm, and one for each with noise at the source, which sets a clipper
    assert tasks._read.cache_info().misses == 4
    for seed in range(6):  # as many as a worker meets in turn: two laws and some seeds
        tasks.data_of(MUSHROOMS.but(seed=seed))
    tasks.data_of(MUSHROOMS.but(draw="once", law="gaussian"))
    assert tasks._read.cache_info().hits == 5


class Disagreeing(Landscape):
    """Accuracy is best at λ0 = 1, the gap at ⅛."""

    def outcome(self, task):
        late = LATE if task.spec.privacy.where == "source" and task.spec.algorithm.gradient != "latest" else 1
        step = math.log2(step_schedule(task.spec.algorithm.step).initial / late)
        return {
            "diverged": False, "accuracy": [0.5, 1 - 0.01 * step**2], "optimality_gap": [2.0, 1 + (step + 3) ** 2],
            "epsilon": [1.0], "t": [0, 1],
        }  # fmt: skip


def test_a_frontier_chooses_by_what_it_shows():
    effort = Effort(20, 2, (0.125, 1.0), evaluations=1, epsilons=(1.0,))
    studied = frontier(MUSHROOMS, Disagreeing(), effort, ("dsgd", "stochastic_subgradient_own"))
    steps = {(e.case.by, e.step / (LATE if e.case.releases_again else 1)) for e in studied.entries}
    assert steps == {("accuracy", 1.0), ("optimality_gap", 0.125)}
    assert set(SCORES) == {"accuracy", "optimality_gap"}
    _, rows = curve(studied, "dsgd", "Laplace on messages", "accuracy", 0.0)
    assert rows.tolist() == [[1.0], [1.0]]
    _, rows = curve(studied, "dsgd", "Laplace on messages", "optimality_gap", 0.0)
    assert rows.tolist() == [[1.0], [1.0]]
    kinds = {e.which for e in studied.entries if e.method == "stochastic_subgradient_own"}
    assert kinds == {"Laplace on messages", "Gaussian on messages"}, "at the source it is the other form's run"
