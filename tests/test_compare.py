"""Comparisons: the budget is met by each method's own recursion, tuning follows its rule, and nothing is run twice."""

from __future__ import annotations

import csv
import json
import math
import time
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.algorithms import METHODS, find_method
from gossamer.experiments import words
from gossamer.experiments.compare import (
    PUBLISHED_NOISE,
    PUBLISHED_STEP,
    QUICK,
    best_and_edge,
    compare,
    published_epsilon,
)
from gossamer.experiments.frontier import KINDS, budget_of, curve, frontier
from gossamer.experiments.frontier import QUICK as QUICK_FRONTIER
from gossamer.experiments.runs import Runs
from gossamer.experiments.search import Choice
from gossamer.experiments.study import LATE, OURS, Case, Effort, Entry, Studied, Study, least
from gossamer.spec import Spec

COMPARED = [name for name, method in METHODS.entries().items() if method.compared]
SMALL = Effort(steps=30, seeds=2, tuning_seeds=1, grid=(0.01, 0.1, 1.0))
MUSHROOMS = Spec.of(dataset="mushrooms", l2=1e-2, graph="paper")
LINES = Spec.of(dataset="regression", l2=1e-3, clip=1.0, graph="paper")


def task_of(method, step, seed, steps, epsilon, law="laplace", where="messages", gradient=None):
    study = Study(LINES, Effort(steps, 1, (step,)), None, least("tracking_error"))
    return study.task(Case(method, epsilon, law=law, where=where, gradient=gradient), Choice(step), seed)


@pytest.mark.parametrize("method", METHODS.entries())
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_every_method_meets_the_budget_by_its_own_recursion(method, law):
    result = task_of(method, 0.1, 0, 25, 50.0, law).outcome()
    assert not result["diverged"], result.get("why")
    assert all(49.5 <= e <= 50.0 for e in result["epsilon"])


def test_source_noise_costs_the_same_for_every_method():
    results = [task_of(m, 0.1, 0, 25, 5.0, "laplace", "source", "latest").outcome() for m in COMPARED]
    assert len({tuple(r["noise"]) for r in results}) == 1
    assert all(r["epsilon"][0] == pytest.approx(5.0, abs=1e-6) for r in results)


def test_the_same_task_gives_the_same_numbers_and_another_seed_does_not():
    task = task_of("dsgd", 0.1, 0, 25, 50.0)
    assert task.outcome() == task.outcome()
    assert task.outcome() != task_of("dsgd", 0.1, 1, 25, 50.0).outcome()


def test_a_run_that_diverges_says_so_and_does_not_stop_the_others(tmp_path):
    wild, tame = Runs(tmp_path, jobs=1)([task_of("push_pull", s, 0, 400, None) for s in (1e6, 0.1)])
    assert wild["diverged"]
    assert "diverged" in wild["why"]
    assert not tame["diverged"]


def test_nothing_is_run_twice_and_what_was_stopped_goes_on(tmp_path):
    first = Runs(tmp_path, jobs=1)
    both = ("ldp_gradient_tracking", "dsgd")
    studied = compare(LINES, first, SMALL, both)
    assert first.made > 10
    again = Runs(tmp_path, jobs=1)
    assert words.list_numbers(compare(LINES, again, SMALL, both)) == words.list_numbers(studied)
    assert again.made == 0
    kept = sorted((tmp_path / "runs").glob("*.json"))
    kept[0].unlink()
    kept[1].write_text('{"diverged": false}')
    more = Runs(tmp_path, jobs=2)
    compare(LINES, more, SMALL, both)
    assert more.made == 2


def test_without_a_budget_the_target_is_algorithm_1s_largest_under_its_published_settings(tmp_path):
    study = Study(LINES, SMALL, None, least("tracking_error"))
    target = published_epsilon(study, PUBLISHED_STEP, PUBLISHED_NOISE)
    found = compare(LINES, Runs(tmp_path, jobs=1), SMALL, ("ldp_gradient_tracking", "push_pull"))
    assert found.epsilon == target
    published = found.entry("ldp_gradient_tracking", "published")
    assert max(published.runs[0]["epsilon"]) == pytest.approx(target)
    assert found.entry("push_pull", "published").step == 1.0
    best = found.entry("push_pull", "best")
    assert all(e == pytest.approx(target, rel=0.01) for e in best.runs[0]["epsilon"])
    assert {choice.step for choice in found.tried[Case("push_pull", target)]} == set(SMALL.grid)


def run_of(*errors, diverged=False):
    return {"tracking_error": list(errors), "diverged": diverged}


@pytest.mark.parametrize(
    ("tried", "best", "edge"),
    [
        ({0.5: [run_of(2, 1.5)], 1.0: [run_of(2, 1.0)], 2.0: [run_of(2, 1.8)], 4.0: [run_of(2, 9)]}, 1.0, 2.0),
        ({0.5: [run_of(2, 1.5)], 1.0: [run_of(2, 1.0)]}, 1.0, None),
        ({0.5: [run_of(2, 3)], 1.0: [run_of(2, 4)]}, 0.5, None),
        ({0.5: [run_of(2, 1), run_of(2, 1)], 1.0: [run_of(2, 0.5), run_of(2, 2.5)]}, 0.5, 0.5),
        ({0.5: [run_of(2, 1.9)], 1.0: [run_of(diverged=True)]}, 0.5, 0.5),
    ],
    ids=["doubling the edge fails", "end of the grid", "nothing works", "one seed fails", "one diverges"],
)
def test_best_and_edge(tried, best, edge):
    study = Study(LINES, SMALL, None, least("tracking_error"))
    chosen = best_and_edge(study, {Choice(step): runs for step, runs in tried.items()})
    assert {which: choice.step for which, choice in chosen.items()} == {"best": best} | (
        {} if edge is None else {"edge": edge}
    )


def comparison_of(**finals):
    def runs(final):
        return [{"t": [0, 1, 2], "diverged": False, "epsilon": [3.0], **{n: [2.0, 1.5, final] for n in FIELDS}}]

    entries = [Entry(Case(m, 3.0), Choice(1.5), runs(final)) for m, final in finals.items()]
    return Studied(LINES, SMALL, entries, {}, 3.0)


FIELDS = ("tracking_error", "optimality_gap", "consensus_error", "accuracy")


def test_the_words_say_where_algorithm_1_is_not_best():
    said = " ".join(words.list_findings(comparison_of(ldp_gradient_tracking=1.0, dsgd=0.5, ldol=1.02)))
    assert "Algorithm 1 is not best: its tracking error is 1, that of DSGD (0.5)" in said
    assert "Within 5% of it: LDOL (1.02)" in said
    said = " ".join(words.list_findings(comparison_of(ldp_gradient_tracking=2.5, dsgd=2.48)))
    assert "No method is clearly better than Algorithm 1" in said
    assert "No method ends nearer to θ* than θ = 0" in said
    said = " ".join(words.list_findings(comparison_of(ldp_gradient_tracking=0.5, dsgd=1.0)))
    assert "Algorithm 1 has the least tracking error, 0.5." in said


def test_a_frontier_has_every_cell(tmp_path):
    effort = Effort(steps=20, seeds=2, grid=(0.1, 1.0), evaluations=1, epsilons=(1.0, 100.0))
    studied = frontier(MUSHROOMS, Runs(tmp_path, jobs=1), effort, ("ldp_gradient_tracking", "dsgd"))
    assert {(e.method, e.which, budget_of(e)) for e in studied.entries} == {
        (m, k, e) for m in ("ldp_gradient_tracking", "dsgd") for k in KINDS for e in effort.epsilons
    }
    assert all(e.step / (LATE if e.case.releases_again else 1) in effort.grid for e in studied.entries)
    for entry in studied.entries:
        assert all(e <= budget_of(entry) * (1 + 1e-9) for run in entry.runs for e in run["epsilon"])
    x, rows = curve(studied, "dsgd", "Laplace on messages", "accuracy", 0.0)
    assert (x.tolist(), rows.shape) == ([1.0, 100.0], (2, 2))


def test_an_unknown_method_or_data_is_refused(tmp_path):
    with pytest.raises(gs.GossamerError, match="algorithm='magic': it is not one of"):
        compare(LINES, Runs(tmp_path), SMALL, ("magic",))
    with pytest.raises(gs.GossamerError, match="dataset='wine': it is not one of"):
        compare(Spec.of(dataset="wine"), Runs(tmp_path), SMALL, ("dsgd",))


def test_a_run_that_fails_for_another_reason_than_divergence_is_an_error(tmp_path):
    """A penalty that is no number is a mistake of the caller's, not a method that diverged."""
    with pytest.raises(gs.GossamerError, match="l2"):
        compare(LINES.but(l2=float("nan")), Runs(tmp_path, jobs=1), SMALL, ("dsgd",))


def test_the_quick_comparison_takes_less_than_three_minutes_on_two_cores():
    """As many runs as --quick makes at most, each like one of them; by processor time, for other work is not ours."""
    runs = len(COMPARED) * (len(QUICK.grid) * QUICK.tuning_seeds + 2 * QUICK.seeds) + 2 * QUICK.seeds
    study = Study(MUSHROOMS, QUICK, None, least("tracking_error"))
    study.task(Case(OURS, 50.0), Choice(0.25), 0).outcome()  # whatever is loaded and compiled once
    start = time.process_time()
    study.task(Case(OURS, 5000.0), Choice(0.25), 1).outcome()
    assert runs * (time.process_time() - start) < 2 * 180


def test_the_quick_comparison_writes_all_that_it_promises(gossamer, drawn, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "gossamer.experiments.compare.QUICK", replace(QUICK, grid=(2.0**-4, 1.0, 2.0**3), evaluations=10)
    )
    words_ = ("compare", "mushrooms", "--quick", "--steps", 30, "--seeds", 1, "--jobs", 1, "--out", "c")
    code, out, err = gossamer(*words_)
    assert code == 0, err
    assert "Push–Pull under the published step and noise: tracking error grows" in " ".join(out.split())
    folder = tmp_path / "c"
    found = json.loads((folder / "results.json").read_text())
    view = json.loads((folder / "report.html").read_text().split('id="view">')[1].split("</script>")[0])
    ours = next(one for one in view["charts"][0]["series"] if one["name"] == "Algorithm 1")
    (best,) = (e for e in found["entries"] if (e["method"], e["which"]) == ("ldp_gradient_tracking", "best"))
    np.testing.assert_allclose(ours["y"], best["runs"][0]["tracking_error"], rtol=1e-5)
    assert {e["method"] for e in found["entries"]} == set(COMPARED)
    assert {e["which"] for e in found["entries"]} == {"best", "edge", "published"}
    finite = [e for entry in found["entries"] if entry["which"] == "best" for e in entry["runs"][0]["epsilon"]]
    assert max(finite) <= float(f"{found['epsilon']:.6g}"), "they are written with six digits"
    assert found["command"] == " ".join(map(str, ("gossamer", *words_)))
    page = (folder / "README.md").read_text()
    assert all(find_method(m).label in page for m in COMPARED)
    for picture in ("fig2a.png", "fig2b.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    kept = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    code, out, _ = gossamer(*words_, "--json")
    assert code == 0
    assert json.loads(out)["entries"] == found["entries"], "and nothing else was printed"
    assert kept == {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}, "nothing was run again"


def test_a_users_own_csv_is_compared(gossamer, tmp_path):
    rng = np.random.default_rng(0)
    with (tmp_path / "v.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["age", "ward", "ill"])
        for age in rng.uniform(0, 100, size=120):
            table.writerow([round(age, 1), rng.choice(["a", "b"]), int(age + rng.normal() * 10 > 50)])
    declared = (
        "--target",
        "ill",
        "--classes",
        "0,1",
        "--range",
        "age=0:100",
        "--categories",
        "ward=a|b",
        "--learners",
        4,
    )
    words_ = ("compare", "--csv", "v.csv", *declared, "--methods", "ldp_gradient_tracking,dsgd", "--epsilon", 20)
    code, out, err = gossamer(*words_, "--quick", "--jobs", 1, "--where", "messages")
    assert code == 0, err
    assert "DSGD" in out
    found = json.loads((tmp_path / "gossamer-compare" / "results.json").read_text())
    assert (found["steps"], found["epsilon"]) == (30, 20.0), "as many rounds as the data fill"
    code, _, err = gossamer("compare", "--csv", "v.csv", "--target", "ill", "--drop", "ward", "--quick")
    assert code == 2
    assert "privacy cannot be proved" in err
    code, _, err = gossamer(
        "compare", "--csv", "v.csv", "--target", "ill", "--categorical", "ward", "--epsilon", 20, "--quick",
        "--jobs", 1,
    )  # fmt: skip
    assert (code, "privacy cannot be proved" in err) == (2, True), "no divergence, but an error"


def test_the_frontier_command(gossamer, drawn, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "gossamer.experiments.frontier.QUICK",
        replace(QUICK_FRONTIER, steps=20, seeds=1, grid=(0.25, 1.0), epsilons=(1.0, 1e4)),
    )
    methods = ("--methods", "ldp_gradient_tracking,dsgd")
    code, out, err = gossamer("frontier", "mushrooms", "--quick", *methods, "--jobs", 1, "--out", "f")
    assert code == 0, err
    assert "Gaussian at the source, history, ε = 10000: best is" in " ".join(out.split())
    found = json.loads((tmp_path / "f" / "results.json").read_text())
    assert len(found["points"]) == 2 * len(KINDS) * 2 * 2, "chosen by accuracy, and by the gap"
    assert all(math.isfinite(a) for p in found["points"] for a in p["accuracy"] if a is not None)
    view = json.loads((tmp_path / "f" / "report.html").read_text().split('id="view">')[1].split("</script>")[0])
    assert len(view["charts"]) == 2 * len(KINDS)
    assert all(chart["x"] == "ε" for chart in view["charts"])
    for picture in ("accuracy.png", "gap.png"):
        assert (tmp_path / "f" / picture).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words_", "says"),
    [
        (("compare",), "what to compare on"),
        (("compare", "mushrooms", "--quick", "--full"), "give one of them"),
        (("compare", "mushrooms", "--methods", "magic"), "expected some of"),
        (("compare", "mushrooms", "--methods", ","), "expected some of"),
        (("compare", "mushrooms", "--learners", "5"), "--learners is for --csv FILE"),
        (("compare", "--regression", "--rows", "l1"), "--rows l1 is for mushrooms: leave it out"),
        (("compare", "--regression", "--clip", "0"), "--clip 0: expected"),
        (
            ("compare", "mushrooms", "--l2", "0", "--quick", "--steps", "5", "--methods", "dsgd", "--jobs", "1"),
            "--l2 above 0",
        ),
        (("compare", "mushrooms", "--epsilon", "-1"), "expected a finite number above 0"),
        (("compare", "--regression", "--steps", "5000"), "2000 full rounds"),
        (("frontier", "mushrooms", "--methods", "magic"), "expected some of"),
    ],
)
def test_mistakes_get_a_sentence(gossamer, words_, says):
    code, _, err = gossamer(*words_)
    assert code == 2
    assert says in " ".join(err.split())
    assert "Traceback" not in err


@pytest.mark.parametrize("study", ["frontier", "compare"])
def test_data_without_such_settings_are_studied_as_they_are(gossamer, tmp_path, monkeypatch, study):
    """The made-up regression is read once, and its rows are scaled already: it takes neither --draw nor --rows."""
    few = {"steps": 20, "seeds": 1, "grid": (0.25, 1.0)}
    monkeypatch.setattr("gossamer.experiments.frontier.QUICK", replace(QUICK_FRONTIER, **few, epsilons=(10.0,)))
    monkeypatch.setattr("gossamer.experiments.compare.QUICK", replace(QUICK, **few))
    words_ = (
        study,
        "regression",
        "--quick",
        "--methods",
        "dsgd,ldp_gradient_tracking",
        "--where",
        "source",
        "--jobs",
        1,
    )
    code, out, err = gossamer(*words_, *(() if study == "frontier" else ("--epsilon", 10)))
    assert code == 0, err
    assert "DSGD" in out
