"""What pages say follows from the numbers: ties, budgets that a published run keeps to, and how a study was run."""

from __future__ import annotations

import pytest

from gossamer.experiments import feature_words, picture_words
from gossamer.experiments.features import feature_problem
from gossamer.experiments.pictures import picture_problem
from gossamer.experiments.search import Choice
from gossamer.experiments.study import OURS, Case, Effort, Entry, Studied
from gossamer.spec import Spec

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
    assert "'latest'" in picture_words._about(pictures)
    about = feature_words.tell_features(Studied(feature_problem("mnist", "iid"), EFFORT, [entry(OURS, 0.9)], {})).about
    assert "'latest'" in about
    assert "chosen by us: pool size, ridge and the logarithm's floor by test accuracy" in about
