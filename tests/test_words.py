"""What pages say follows from the numbers: ties, budgets that a published run keeps to, and how a study was run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from gossamer.algorithms.registry import Exponents
from gossamer.experiments import feature_words, frontier_words, picture_words, words
from gossamer.experiments.features import feature_problem
from gossamer.experiments.frontier import KINDS
from gossamer.experiments.pages import paired
from gossamer.experiments.pictures import picture_problem
from gossamer.experiments.search import Choice
from gossamer.experiments.study import OURS, Case, Effort, Entry, Studied
from gossamer.experiments.tasks import gradient_of
from gossamer.report.bands import draw_frontier
from gossamer.spec import Spec

MUSHROOMS = Spec.of(dataset="mushrooms", l2=1e-2, graph="paper")
LINES = Spec.of(dataset="regression", l2=1e-3, clip=1.0, graph="paper")
EFFORT = Effort(20, 2, (0.1, 1.0), evaluations=1, tuning_rounds=5, per_round=(10, 20))


def entry(method, accuracy, which="best", epsilon=(3.0,)):
    run = {"diverged": False, "accuracy": [0.1, accuracy], "epsilon": list(epsilon), "noise": [1.0], "read": 1.0}
    run |= {
        "train_accuracy": [0.1, accuracy],
        "parameter_norm": [1.0, 1.0],
        "t": [0, 20],
        "steps": 20,
        "learners_accuracy": [accuracy],
    }
    return Entry(Case(method, 3.0, which), Choice(1.0, 10), [run])


@pytest.mark.parametrize(
    ("published", "epsilon", "said"),
    [
        (
            0.987,
            (1.0, 3.0),
            "its published run, within the same ε, at 98.7%. The best other method is DSGD at 98.9%: a",
        ),
        (0.987, (1.0, 3.1), "ends at 98.3% on test images. The best other method is DSGD at 98.9%, 0.6% above"),
        (0.980, (1.0, 3.0), "ends at 98.3% on test images. The best other method is DSGD at 98.9%, 0.6% above"),
        (0.987, (1.0, None), "ends at 98.3% on test images. The best other method is DSGD at 98.9%, 0.6% above"),
    ],
    ids=["a tie", "above the budget", "worse", "no finite budget"],
)
def test_a_published_run_counts_where_it_keeps_to_the_same_budget(published, epsilon, said):
    entries = [entry(OURS, 0.983), entry("dsgd", 0.989), entry(OURS, published, "published", epsilon)]
    problem = picture_problem(Spec.of(dataset="mnist", model="cnn"), quick=False)
    assert said in " ".join(picture_words.list_findings(Studied(problem, EFFORT, entries, {}, 3.0)))


def test_pages_on_images_say_which_gradient_and_how_features_were_chosen():
    pictures = Studied(picture_problem(Spec.of(dataset="mnist"), quick=False), EFFORT, [entry(OURS, 0.9)], {}, 3.0)
    assert "gradients over the newest round's records alone ('latest')" in picture_words._about(pictures)
    about = feature_words.tell_features(Studied(feature_problem("mnist", "iid"), EFFORT, [entry(OURS, 0.9)], {})).about
    noised = feature_problem("mnist", "iid").but(where="source", law="gaussian", epsilon="1")
    assert f"'{gradient_of(noised)}'" in about, "as it was run"
    assert "chosen by us: pool size, ridge and the logarithm's floor by test accuracy" in about


def runs_of(method, *finals, diverged=False):
    runs = [{"diverged": diverged, "tracking_error": [3.0, value], "accuracy": [0.5, value]} for value in finals]
    return Entry(Case(method, 3.0), Choice(1.0), runs)


def test_a_paired_difference_is_students_and_narrower_than_the_seeds_are_wide():
    rng = np.random.default_rng(0)
    luck = rng.normal(size=12)
    one, other = 2 + luck + 0.1 * rng.normal(size=12), 1.5 + luck
    found = paired(runs_of("dsgd", *one), runs_of(OURS, *other), "tracking_error")
    theirs = scipy.stats.ttest_rel(one, other).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))
    assert found.mean == pytest.approx((one - other).mean())
    assert found.high - found.low < 0.3 * one.std()
    assert paired(runs_of("dsgd", 1.0), runs_of(OURS, 2.0), "tracking_error") is None, "one seed has no interval"
    assert paired(runs_of("dsgd", 1.0, 2.0, diverged=True), runs_of(OURS, 2.0, 1.0), "tracking_error") is None


def test_the_words_name_whom_the_seeds_do_not_tell_apart():
    entries = [runs_of(OURS, 1.0, 1.1, 0.9), runs_of("dsgd", 1.05, 1.0, 0.96), runs_of("ldol", 2.0, 2.1, 1.9)]
    said = " ".join(words.list_findings(Studied(LINES, EFFORT, entries, {}, 3.0)))
    assert "do not tell these from Algorithm 1, the interval of the difference holds 0: DSGD (" in said
    assert "LDOL (+" not in said


def test_the_end_of_what_was_tried_is_said_of_the_best_shape_alone():
    other = replace(Choice(4.0), exponents=Exponents(0.75, 0.7))
    case = Case("dsgd", 3.0)
    tried = {case: {Choice(1.0): [2.0], Choice(8.0): [3.0], replace(other, step=2.0): [1.5], other: [1.0]}}
    best = Entry(case, other, runs_of("dsgd", 1.0, 1.1).runs)
    said = " ".join(words.list_findings(Studied(LINES, EFFORT, [best], tried, 3.0)))
    assert "The best λ0 is the largest that was tried for DSGD (4)" in said
    inside = {case: tried[case] | {replace(other, step=8.0): [1.2]}}
    assert "largest that was tried" not in " ".join(words.list_findings(Studied(LINES, EFFORT, [best], inside, 3.0)))


def test_a_frontier_says_by_what_was_chosen_and_how_far_the_best_is_from_algorithm_1():
    entries = []
    for by in ("accuracy", "optimality_gap"):
        for method, finals in ((OURS, (0.7, 0.72)), ("dsgd", (0.8, 0.81))):
            runs = [{"diverged": False, "accuracy": [0.5, v], "optimality_gap": [1.0, 1 - v]} for v in finals]
            case = Case(method, 1.0, "Laplace on messages", by=by)
            entries.append(Entry(case, Choice(1.0 if by == "accuracy" else 2.0), runs))
    page = frontier_words.tell_frontier(Studied(MUSHROOMS, EFFORT, entries, {}))
    assert "With noise on messages gradients are over all records so far" in page.about
    assert "in the table and the first picture by accuracy, in the second by the optimality gap" in page.about
    (sentence,) = page.findings
    assert sentence.startswith("Laplace on messages, ε = 1: best is DSGD, 0.805 (θ = 0 has 0.500); less Algorithm 1")
    assert "+0.095 (" in sentence
    assert {(p["chosen_by"], p["step"]) for p in page.numbers["points"]} == {("accuracy", 1.0), ("optimality_gap", 2.0)}


def test_a_frontier_shows_every_kind_of_noise_and_tells_its_methods_apart():
    lines = {f"method {k}": (np.array([1.0, 10.0]), np.array([[0.5, 0.6]])) for k in range(14)}
    figure = draw_frontier(dict.fromkeys(KINDS, lines), "t", label="accuracy", log=False)
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(KINDS)
    looks = {(line.get_color(), line.get_linestyle()) for line in figure.axes[0].get_lines()}
    assert len(looks) == len(lines)
