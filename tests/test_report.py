"""report.html without a browser: what is in it is the record's, nothing is loaded, no name breaks out of it."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.privacy import Accountant
from gossamer.privacy.course import course, first_release, rounds_shown
from gossamer.report.html import page
from gossamer.report.run import run_view
from gossamer.report.study import chart_of_methods, study_view
from gossamer.report.view import draw_circle, odds
from gossamer.run_record import Record, plain
from gossamer.setting import setting_of

HOSTILE = '</script><img src=x onerror="alert(1)"><!-- & \u2028 {{VIEW}}'
BUDGETS = [1.0, 2.0, 4.0, 8.0]


def stream_of(m=4, rounds=60):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(m, rounds, 2))
    return gs.streams.from_arrays(X, (X.sum(axis=2) > 0).astype(float), ranges=(-1, 1))


def run_of(privacy, steps=60, **settings):
    network, model = gs.Network.ring(4), gs.LogisticRegression(l2=1e-2)
    algorithm = gs.ldp_gradient_tracking(gs.decay(0.5, 0.8), strict=False)
    return gs.simulate(algorithm, network, stream_of(), model=model, privacy=privacy, steps=steps, **settings)


@pytest.fixture(scope="module")
def record():
    return run_of(gs.Gaussian.for_budget(BUDGETS, 1e-5, where="source"))


def view_in(html):
    found = re.findall(r'<script type="application/json" id="view">(.*?)</script>', html, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def test_a_page_has_the_numbers_of_the_record(record, tmp_path):
    view = view_in(record.report(tmp_path / "report.html").read_text(encoding="utf-8"))
    assert [row[1] for row in view["table"]["rows"]] == record.learners.accuracy.tolist()
    assert [one["y"][-1] for one in view["epsilon"]["learners"]] == record.epsilon.spent.tolist()
    assert view["epsilon"]["for_ever"] == record.epsilon.for_ever.tolist()
    assert view["epsilon"]["budget"] == BUDGETS
    accuracy, errors = view["charts"]
    np.testing.assert_allclose(accuracy["series"][0]["y"], record.history.accuracy, rtol=1e-6)
    np.testing.assert_allclose(errors["series"][0]["y"], record.history.tracking_error, rtol=1e-6)
    assert accuracy["t"] == record.history.t.tolist()
    levels = {line["name"]: line["y"] for line in accuracy["lines"]}
    assert list(levels.values()) == [record.config["baselines"][name] for name in ("majority", "optimum")]
    assert view["table"]["foot"][0][1] == record.history.accuracy[-1]
    assert view["confusion"]["rows"] == [[str(k), *row] for k, row in enumerate(record.config["confusion"])]
    assert sorted(map(tuple, view["network"]["edges"])) == sorted((j, i) for j, i, _ in gs.Network.ring(4).edges())
    np.testing.assert_allclose(view["network"]["perron"], gs.Network.ring(4).perron, atol=1e-6)
    assert (view["private"], view["seed"], view["software"]) == (True, 0, f"gossamer {gs.__version__}")
    assert view["claim"] == "Private: exact gaussian noise at the source, δ = 1e-05, against all others together."
    assert "factor of at most 3,000 (e^ε)" in view["meaning"], "e⁸ is 2981"


def test_a_page_loads_nothing_and_runs_only_its_own_scripts(record):
    html = page(record.view())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html).group(1)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "connect-src 'none'" in policy

    def digest(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert re.search(r"script-src ([^;]*);", policy).group(1).split() == [digest(script) for script in scripts]
    assert re.search(r"style-src ([^;]*);", policy).group(1) == digest(style)
    markup = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert re.findall(r'(?:src|href)="([^"]*)"', markup) == ["data:,"]
    assert not re.search(r"url\(|@import", style)
    assert len(html) < 250_000


def test_no_name_breaks_out_of_the_page(record):
    config = plain(record.config)
    config["stream"]["names"] = [HOSTILE, "b", "c", "d"]
    config["stream"]["classes"] = [HOSTILE, "1"]
    hostile = replace(record, config=config, notes=(HOSTILE,), seal=None)
    view = hostile.view(title=HOSTILE, command=HOSTILE, config=HOSTILE, warnings=[HOSTILE])
    html = page(view)
    assert html.count("<script") == html.count("</script>") == page(record.view()).count("<script")
    assert "<img" not in html
    assert "\u2028" not in html
    shown = view_in(html)
    assert shown["title"] == shown["command"] == shown["warnings"][0] == shown["table"]["rows"][0][0] == HOSTILE
    assert HOSTILE in shown["notes"]
    assert shown["confusion"]["columns"][1]["title"] == HOSTILE


def test_the_scripts_put_text_in_as_text():
    html = page(study_view("t", "", [["a"]], findings=[], command="", software=""))
    own = [one for one in re.findall(r"<script>(.*?)</script>", html, re.DOTALL) if "uPlot=function" not in one]
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert not any(way in script for script in own), way


MECHANISMS = {
    "source": gs.Gaussian.for_budget(BUDGETS, 1e-5, where="source"),
    "latest": gs.Gaussian.for_budget(3.0, 1e-5, where="source", releases=gs.every(2, after=5)),
    "band": gs.Gaussian.for_budget(3.0, 1e-5, where="source", band=3, releases=gs.every(2, after=5)),
    "messages": gs.Laplace.for_budget(BUDGETS),
    "delta": gs.Laplace.for_budget(3.0, 1e-5),
    "gaussian messages": gs.Gaussian.for_budget(3.0, 1e-5),
    "secrets": gs.Gaussian.for_budget(3.0, 1e-5, where="source", secrets=gs.Secrets(colluders=1)),
}


@pytest.mark.parametrize("kind", MECHANISMS)
def test_the_course_of_epsilon_rises_to_what_is_booked(kind):
    settings = {"gradient": "latest"} if kind in ("latest", "band") else {}
    run = run_of(MECHANISMS[kind], steps=20 if kind == "delta" else 60, **settings)
    told = run.config["course"]
    spent = np.array(told["epsilon"])
    assert spent[:, -1].tolist() == run.epsilon.spent.tolist()
    assert (spent[:, 0] == 0).all()
    assert (np.diff(spent, axis=1) >= -1e-12).all()
    assert told["t"][0] == 0
    assert told["t"][-1] == run.t
    assert (spent <= np.array(told["budget"])[:, None]).all()
    view = run.view()["epsilon"]
    assert [one["y"][-1] for one in view["learners"]] == run.epsilon.spent.tolist()
    assert (view["if_all_collude"] is not None) == (kind == "secrets")


@pytest.mark.parametrize("kind", ["source", "messages"])
def test_the_course_is_what_the_ledger_would_say_after_each_round(kind):
    mechanism = MECHANISMS[kind].over(60)
    network, model = gs.Network.ring(4), gs.LogisticRegression(l2=1e-2)
    algorithm = gs.ldp_gradient_tracking(gs.decay(0.5, 0.8))
    terms = mechanism.terms(setting_of(algorithm, network, stream_of(), model, "history", 60))
    rounds = rounds_shown(60, 4, first_release(terms))
    planned = course(terms, rounds, mechanism.delta, stops=[60, 60, 30, 60])
    for one, spent, stop in zip(terms, planned, (60, 60, 30, 60), strict=True):
        ledger = Accountant(one, delta=mechanism.delta)
        booked = [ledger.epsilon_at(min(int(t), stop), mechanism.delta) for t in rounds]
        np.testing.assert_allclose(spent, booked, rtol=1e-9)


@pytest.mark.parametrize(("rounds", "learners", "first"), [(0, 1, 0), (1, 10, 0), (812, 10, 406), (10**6, 1000, 3)])
def test_the_rounds_that_are_shown_rise_from_0_to_the_end(rounds, learners, first):
    shown = rounds_shown(rounds, learners, first)
    assert shown[0] == 0
    assert shown[-1] == rounds
    assert (np.diff(shown) > 0).all()
    assert len(shown) <= 42
    assert first in shown or rounds == 0
    assert len(shown) * learners <= 10_000


def large(record, m=1000):
    """A record of many learners, with other numbers: what a page makes of these is asked for here."""
    rng = np.random.default_rng(0)
    config = plain(record.config)
    config["graph"] = gs.Network.random(m).drawing()
    config["course"] = {"t": [0, 30, 60], "epsilon": np.linspace([0, 1, 2], [0, 3, 6], m).tolist(), "budget": [6.0] * m}
    learners = np.recarray(m, dtype=record.learners.dtype)
    for name in learners.dtype.names:
        learners[name] = rng.uniform(size=m)
    kept = [(name, "f8") for name in record.history.dtype.names if name != "t"]
    history = np.recarray(50, dtype=[("t", "i8"), *kept, ("learners_accuracy", "f8", (m,))])
    for name in history.dtype.names:
        history[name] = rng.uniform(size=history[name].shape)
    history["t"] = np.arange(50)
    spent = np.rec.fromarrays([np.linspace(2, 6, m), np.linspace(2, 6, m)], names=["spent", "for_ever"])
    summary = replace(record, learners=learners, history=history, config=config, epsilon=spent, seal=None).summary()
    return learners, plain(summary), spent


def test_a_page_of_a_thousand_learners_stays_small_and_names_a_few(record):
    learners, summary, spent = large(record)
    view = run_view(summary, title="many")
    assert len(page(view)) < 400_000
    rows = view["table"]["rows"]
    ranked = np.sort(learners.accuracy)
    assert [row[1] for row in rows] == [*ranked[:5], *ranked[-5:]]
    assert view["table"]["foot"][2][1] == pytest.approx(np.median(learners.accuracy), rel=1e-6)
    assert [one["y"][-1] for one in view["epsilon"]["learners"]] == [spent.spent[0], spent.spent[500], spent.spent[-1]]
    (mean, *others) = view["charts"][0]["series"]
    assert others == []
    assert "nine in ten" in view["charts"][0]["band"]
    assert all(low <= high for low, high in zip(mean["low"], mean["high"], strict=True))
    assert len(view["network"]["edges"]) == 3000


def test_a_record_of_an_older_version_has_a_page(record, tmp_path):
    old = {name: value for name, value in plain(record.config).items() if name not in ("course", "graph")}
    replace(record, config=old, seal=None).save(tmp_path / "old")
    view = Record.load(tmp_path / "old").view()
    assert view["network"] is None
    assert view["epsilon"]["t"] == [0, 60]
    assert view["epsilon"]["budget"] == [None] * 4
    assert "<main" in page(view)


def test_what_is_not_private_or_not_finished_is_said():
    stopped = run_of(None, steps=60, callback=lambda progress: progress.t == 10)
    view = stopped.view(warnings=["the verdict"])
    assert view["claim"].startswith("Not private")
    assert not view["private"]
    assert view["epsilon"] is None
    assert view["warnings"][:2] == ["the verdict", "The run was stopped after 10 of 60 rounds."]
    assert {row[-1] for row in view["table"]["rows"]} == {"not private"}


def test_an_epsilon_without_a_limit_is_a_warning_and_no_number():
    run = run_of(gs.Laplace(gs.decay(0.5, 0.9)), steps=10)
    assert math.isinf(run.epsilon.for_ever.max())
    view = run.view()
    assert any("no finite limit" in one for one in view["warnings"])
    assert any(one.startswith("Assumption 4") for one in view["warnings"])
    assert {row[-1] for row in view["table"]["rows"]} == {"∞"}
    json.dumps(view, allow_nan=False)


def test_methods_are_means_with_bands_each_at_its_own_places():
    curves = {"a": (np.array([1, 2]), np.array([[1.0, 2], [3, 6]])), "b": (np.array([2.5]), np.array([[5.0]]))}
    chart = chart_of_methods("c", "t", curves, quantiles=(0, 1))
    assert chart["t"] == [1, 2, 2.5]
    a, b = chart["series"]
    assert (a["y"], a["low"], a["high"]) == ([2.0, 4.0, None], [1.0, 2.0, None], [3.0, 6.0, None])
    assert b["y"] == [None, None, 5.0]
    assert chart["band"] == "Means of 2 seeds; the bands hold all of them."


def test_numbers_are_written_as_people_say_them():
    assert [odds(e) for e in (0.0, 0.5, 3.0, 8.0, 30.0)] == ["1.0", "1.6", "20", "3,000", "1e+13"]
    places = np.array(draw_circle(4))
    np.testing.assert_allclose(places, [[0.5, 0], [1, 0.5], [0.5, 1], [0, 0.5]], atol=1e-4)


def test_the_command_writes_a_report_that_runs_again(gossamer, tmp_path):
    code, out, _ = gossamer("run", "mushrooms", "--steps", 30, "--epsilon", 2, "--out", "a")
    assert code == 0
    assert {"a/report.html", "a/run.pdf", "a/network.png", "a/epsilon.png", "a/epsilon.pdf"} <= set(
        out.split("Files: ")[1].strip().split(", ")
    )
    view = view_in((tmp_path / "a" / "report.html").read_text())
    assert view["command"] == "gossamer run mushrooms --epsilon 2 --steps 30"
    (tmp_path / "again.toml").write_text(view["config"])
    assert gossamer("run", "again.toml", "--out", "b")[0] == 0
    told = [json.loads((tmp_path / name / "settings.json").read_text()) for name in "ab"]
    assert told[0] == told[1]
    verdict = re.sub(r"\s+", " ", out)
    assert view["warnings"], "thirty rounds are too few to learn in"
    said, cause = view["warnings"][0].split(". ", 1)
    assert said == "The model is worse than these data allow"
    assert cause in verdict


@pytest.mark.drawn
def test_a_run_that_goes_on_writes_its_report_anew_with_all_rounds(gossamer, tmp_path):
    gossamer("run", "mushrooms", "--steps", 20, "--out", "a")
    assert view_in((tmp_path / "a" / "report.html").read_text())["charts"][0]["t"][-1] == 20
    code, out, _ = gossamer("run", "--resume", "a", "--steps", 30)
    assert code == 0
    assert "a/report.html" in out
    view = view_in((tmp_path / "a" / "report.html").read_text())
    assert view["charts"][0]["t"][-1] == 30
    assert (tmp_path / "a" / "run.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "a" / "network.png").read_bytes().startswith(b"\x89PNG")
