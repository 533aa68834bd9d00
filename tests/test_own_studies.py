"""Studies on somebody's own records: as a run would see them, at one ε, and with nothing that was published."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import scipy

from gossamer.experiments.tasks import data_of
from gossamer.spec import Spec
from gossamer.spec.build import build

DECLARED = ("--target", "ill", "--classes", "no,yes", "--range", "age=0:100,dose=0:5", "--learners", "4")
FEW = ("--methods", "ldp_gradient_tracking,dsgd", "--jobs", 1, "--seeds", 2)


@pytest.fixture
def visits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    with (tmp_path / "v.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["age", "dose", "ill"])
        for _ in range(240):
            dose = rng.uniform(0, 5)
            ill = "yes" if rng.random() < scipy.special.expit(3 * dose - 7) else "no"
            table.writerow([rng.integers(0, 100), f"{dose:.3f}", ill])
    return Spec.of(csv="v.csv", target="ill", classes="no,yes", range="age=0:100,dose=0:5", learners=4)


def test_a_studys_records_are_those_of_a_run(visits):
    history = visits.but(epsilon="3", law="gaussian", where="source", gradient="history", steps=40)
    stream, model, _ = data_of(history)
    run = build(history)
    assert str(model) == str(run.model)
    assert model.standardise is not None
    assert stream.description == run.stream.description, "read in the first half"
    for other in ({"where": "messages"}, {"where": "source", "gradient": "latest"}):
        stream, model, _ = data_of(visits.but(epsilon="3", law="gaussian", steps=40, **other))
        assert model.standardise is None
        assert stream.description["per_round"] == [1] * 4


def test_own_records_are_compared_with_three_words(gossamer, visits):
    code, out, err = gossamer("compare", "--csv", "v.csv", *DECLARED, *FEW, "--steps", 30)
    assert code == 0, err
    told = json.loads(Path("gossamer-compare/results.json").read_text())
    assert {entry["which"] for entry in told["entries"]} <= {"best", "edge"}
    spent = [e for entry in told["entries"] for run in entry["runs"] for e in run["epsilon"]]
    assert max(spent) <= 3
    assert min(spent) > 2.9
    page = Path("gossamer-compare/README.md").read_text()
    assert "published" not in page
    assert "v.csv, graph" in page
    assert "accuracy" in out


def test_where_chooses_the_kind_of_noise(gossamer, visits):
    words = ("compare", "--csv", "v.csv", *DECLARED, *FEW, "--steps", 30, "--epsilon", 50)
    code, _, err = gossamer(*words, "--where", "messages", "--out", "m")
    assert code == 0, err
    messages = json.loads(Path("m/results.json").read_text())
    noise = {entry["method"]: entry["runs"][0]["noise"] for entry in messages["entries"] if entry["which"] == "best"}
    assert noise["dsgd"] != noise["ldp_gradient_tracking"], "on messages a method's own recursion decides"
    code, _, err = gossamer(*words, "--where", "messages", "--kind", "Gaussian at the source, history")
    assert code == 2
    assert "give one of them" in err
    code, _, err = gossamer(*words[:-2], "--where", "messages", "--steps", 70)
    assert code == 2
    assert "a learner has 60 full rounds" in err


def test_the_frontier_of_own_records_has_the_kinds_that_are_asked_for(gossamer, visits):
    words = ("frontier", "--csv", "v.csv", *DECLARED, "--methods", "dsgd", "--jobs", 1, "--seeds", 1, "--steps", 20)
    code, _, err = gossamer(*words, "--epsilons", "2,20")
    assert code == 0, err
    points = json.loads(Path("gossamer-frontier/results.json").read_text())["points"]
    assert {p["noise"] for p in points} == {"Gaussian at the source, history", "Laplace on messages"}
    assert {p["epsilon"] for p in points} == {2.0, 20.0}
    assert "v.csv, one pass of 20 rounds" in Path("gossamer-frontier/README.md").read_text()
    code, _, err = gossamer(*words, "--epsilons", "5", "--where", "source", "--out", "s")
    assert code == 0, err
    points = json.loads(Path("s/results.json").read_text())["points"]
    assert len({p["noise"] for p in points}) == 6
    assert all("source" in p["noise"] for p in points)
    code, _, err = gossamer(*words, "--where", "source", "--kinds", "Laplace on messages")
    assert code == 2
    assert "none of the kinds" in err


@pytest.mark.parametrize("study", ["compare", "frontier"])
def test_undeclared_records_are_refused_before_any_work(gossamer, visits, study):
    code, _, err = gossamer(study, "--csv", "v.csv", "--target", "ill")
    assert code == 2
    assert "--range age=" in err
