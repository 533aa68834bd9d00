"""The command where privacy is claimed: private runs, budgets, audits and their pictures."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import gossamer as gs
from gossamer.checks.climb import worst_found
from gossamer.cli import audit
from gossamer.report import draw_budget, draw_curves
from gossamer.report.curves import ERRORS


def test_budget_prints_every_learners_cost_and_theorem_4_beside(gossamer):
    code, out, _ = gossamer("budget", "mushrooms", "--paper", "--rows", "l1", "--horizon", 2000, "--json")
    assert code == 0
    learners = json.loads(out)["learners"]
    assert [row["learner"] for row in learners] == list(range(10))
    assert [row["epsilon_for_ever"] is None for row in learners] == [False] * 9 + [True], "ς = v for the last"
    for row in learners:
        assert row["theorem4"] > 20 * row["epsilon"]
        assert row["epsilon_for_ever"] is None or row["epsilon_for_ever"] > row["epsilon"]
    code, out, _ = gossamer(
        "budget", "--epsilon", 8, "--horizon", "inf", "--rows", "l1", "--now", 100, "--plot", "b.png"
    )
    assert code == 0
    assert "ε for ever" in out
    assert "ε after 100" in out
    code, out, _ = gossamer("budget", "--epsilon", "1,2,4,8,16,1,2,4,8,16", "--law", "gaussian", "--json")
    found = [row["epsilon"] for row in json.loads(out)["learners"]]
    np.testing.assert_allclose(found, [1, 2, 4, 8, 16] * 2, rtol=0.01)
    assert (np.array(found) <= [1, 2, 4, 8, 16] * 2).all()


def test_a_budget_with_pair_secrets_refuses_what_a_run_would_refuse(gossamer):
    for words in (("--colluders", 1), ("--share", 1)):
        code, _, error = gossamer("budget", "mushrooms", "--epsilon", 1, *words)
        assert code
        assert "goes with --secrets complete: give both" in error
    unlike = ",".join(["1"] * 9 + ["1e9"])
    code, _, error = gossamer("budget", "mushrooms", "--epsilon", unlike, "--secrets", "complete")
    assert code
    assert "one grid" in error
    code, out, _ = gossamer("budget", "mushrooms", "--epsilon", 1, "--horizon", "inf", "--secrets", "complete")
    assert code == 0
    assert "after 812 if all others collude" in " ".join(out.split()), "for ever it is more"


def test_a_private_run_shows_its_epsilon(gossamer, own_csv):
    words = ("--epsilon", 5, "--steps", 40, "--rows", "l1", "--where", "messages")
    code, out, _ = gossamer("run", "mushrooms", *words, "--json", "p.json")
    assert code == 0
    assert "Private: exact laplace noise on messages" in out
    assert "not private" not in out
    told = json.loads(Path("p.json").read_text())
    assert max(told["epsilon"]) <= 5
    assert "first noise ν" in out
    for _, noise in zip(range(10), told["config"]["noise"], strict=True):
        assert f"{noise[0]:.4g}" in out


def declared(own_csv, target="ill"):
    words = ["--csv", own_csv, "--split-by", "clinic", "--range", "age=0:120,dose=0:5", "--categories", "ward=a|b|c|d"]
    classes = ["--classes", "no,yes"] if target == "ill" else ["--categories", "ill=no|yes"]
    return [*words, "--target", target, *classes]


def test_a_private_run_on_a_csv_goes_on_over_its_data_and_follows_what_was_declared(gossamer, own_csv):
    code, out, _ = gossamer("run", *declared(own_csv), "--epsilon", "5,6,7", "--out", "a")
    assert code == 0
    record = gs.Record.load("a/record")
    assert record.t == 1000
    assert "No new records arrive after round 80" in " ".join(out.split()), "240 records of three clinics"
    assert record.theta.shape == (3, 2 + 4 + 1), "ward d has its column, though nobody is there"
    for clinic, epsilon in (("north", 5), ("south", 6), ("west", 7)):
        assert re.search(rf"^{clinic} .* {epsilon} +{epsilon}", out, flags=re.MULTILINE), "budgets in the order shown"
    assert "read off" not in out
    code, out, _ = gossamer("run", *declared(own_csv), "--classes", "no,yes,maybe", "--epsilon", 5, "--out", "b")
    assert gs.Record.load("b/record").theta.shape == (3, 7 * 3), "three declared classes are softmax"


def test_private_least_squares_need_a_clipper_of_the_noises_norm(gossamer, own_csv):
    words = ["run", *declared(own_csv, "dose"), "--epsilon", 5]
    assert "give --clip C" in gossamer(*words, "--no-standardise")[2], "a quantity in its own units has no bound"
    for law, kind in (("laplace", "norm=1"), ("gaussian", "norm=2")):
        code, out, _ = gossamer(*words, "--clip", 0.5, "--law", law, "--out", law)
        assert code == 0
        assert "R²" in out
        assert kind in gs.Record.load(f"{law}/record").config["model"]


def test_noise_at_the_source_brings_its_gradient_its_draw_and_its_rounds_along(gossamer):
    words = ("run", "mushrooms", "--epsilon", 8, "--law", "gaussian", "--where", "source", "--rows", "l2")
    code, out, _ = gossamer(*words, "--out", "a")
    assert code == 0
    record, said = gs.Record.load("a/record"), " ".join(out.split())
    assert (record.t, record.config["gradient"], record.config["stream"]["draw"]) == (812, "history", "once")
    assert "Private: exact gaussian noise at the source, δ = 1e-05, against all others together." in said
    assert "812 rounds, as many full ones as the data have" in said
    assert "ε (δ = 1e-05)" in said
    assert "first noise σ" in said
    code, _, _ = gossamer("run", "mushrooms", "--draw", "once", "--gradient", "latest", "--out", "b")
    assert gs.Record.load("b/record").t == 812, "without a budget, too"


def test_budget_at_the_source_says_over_which_rounds_and_hides_what_has_no_value(gossamer):
    code, out, _ = gossamer("budget", "--where", "source", "--noise", "1,0")
    assert code == 0
    assert "ε after 812" in out
    assert "ε is counted over 812 rounds, as many full ones as the data have." in out
    assert "Theorem 4" not in out
    assert "Theorem 4" in gossamer("budget", "--noise", "1,0.6", "--horizon", 50)[1]
    assert "ε after 300" in gossamer("budget", "--where", "source", "--noise", "1,0", "--horizon", 300)[1]


def test_budgets_hint_carries_what_was_given_and_keeps_its_word(gossamer):
    _, out, _ = gossamer(
        "budget", "--paper", "--rows", "l2", "--law", "gaussian", "--horizon", 60, "--delta", 1e-6, "--clip", 0.5
    )
    hint = shlex.split(re.search(r"this finds the noise: gossamer (.*)", out)[1])
    assert hint[:2] == ["budget", "mushrooms"]
    for words in ("--rows l2", "--law gaussian", "--horizon 60", "--delta 1e-06", "--clip 0.5", "--step 1,0.6"):
        assert words in " ".join(hint)
    found = json.loads(gossamer(*hint, "--json")[1])
    assert found["delta"] == 1e-6
    assert all(0.99 < row["epsilon"] <= 1 for row in found["learners"])


def test_budget_of_a_csv_is_what_its_run_spends(gossamer, own_csv):
    code, out, _ = gossamer("budget", *declared(own_csv), "--epsilon", 5, "--json")
    assert code == 0
    told = json.loads(out)
    assert told["steps"] == 1000
    gossamer("run", *declared(own_csv), "--epsilon", 5, "--out", "a")
    noise = [row[0] for row in gs.Record.load("a/record").config["noise"]]
    np.testing.assert_allclose([row["noise"] for row in told["learners"]], noise)
    code, out, _ = gossamer("budget", *declared(own_csv), "--epsilon", 5)
    assert re.search(r"^north ", out, flags=re.MULTILINE)


def test_budget_shows_laplace_noise_at_a_delta_too(gossamer):
    _, out, _ = gossamer("budget", "--noise", "20,0.6", "--horizon", 100, "--rows", "l1", "--delta", 1e-6, "--json")
    rows = json.loads(out)["learners"]
    assert all(0 < row["epsilon_at_delta"] <= row["epsilon"] for row in rows)
    assert min(row["epsilon_at_delta"] / row["epsilon"] for row in rows) < 0.9
    out = gossamer("budget", "--noise", "20,0.6", "--horizon", 100, "--rows", "l1", "--delta", 1e-6)[1]
    assert "at δ = 1e-06" in out


def test_pictures_have_short_titles_readable_ticks_and_the_cost(gossamer, tmp_path):
    gossamer("budget", "--noise", "1,0.6", "--horizon", 50, "--plot", "b.svg")
    gossamer("run", "mushrooms", "--epsilon", 5, "--law", "gaussian", "--steps", 20, "--rows", "l2", "--plot", "r.svg")
    budget, run = ((tmp_path / name).read_text() for name in ("b.svg", "r.svg"))
    assert "None" not in budget
    assert "<!-- Laplace noise on messages, against all others together -->" in budget, "svg keeps text as comments"
    for learner in range(10):
        assert f"<!-- {learner} -->" in budget, "every line has its name"
    assert re.search(r"<!-- .*, ε = 5, δ = 1e-05 -->", run)


def test_a_budget_picture_names_lines_that_coincide_once_and_many_by_colour():
    rounds = np.arange(1.0, 6)
    texts = [text.get_text() for text in draw_budget(rounds, [rounds, 2 * rounds, rounds], "t").axes[0].texts]
    assert texts == ["0, 2", "1", "learner"]
    many = draw_budget(rounds, [k * rounds for k in range(1, 31)], "t")
    assert [axes.get_ylabel() for axes in many.axes] == ["ε spent", "learner"]


@pytest.mark.parametrize(("decades", "labels"), [(1, 4), (12, 3)])
def test_a_log_axis_has_few_labels_however_many_decades(decades, labels):
    values = np.logspace(0, -decades, 50)
    history = {"t": np.arange(50), "accuracy": values, **dict.fromkeys(ERRORS, values)}
    figure = draw_curves(history, score="accuracy", title="t")
    FigureCanvasAgg(figure).draw()
    axis = figure.axes[0].yaxis
    low, high = axis.get_view_interval()
    ticks = [t for t in axis.get_major_ticks() + axis.get_minor_ticks() if low <= t.get_loc() <= high]
    assert labels <= len([tick for tick in ticks if tick.label1.get_text()]) <= 9
    end = figure.axes[1].texts[-1]
    assert end.get_bbox_patch() is None, "no box that could hide the curve"


def test_audit_holds_shows_progress_and_says_what_its_numbers_mean(gossamer, tmp_path, monkeypatch):
    def climbed(case, **given):
        """In full with the long step alone: test_audit.py climbs as far with the short one."""
        effort = {} if case.algorithm.parameters["step"] == str(gs.decay(1.0, 0.8)) else {"tries": 2, "climbs": 10}
        return worst_found(case, **given, **effort)

    monkeypatch.setattr("gossamer.checks.audit.worst_found", climbed)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (tmp_path / "three.txt").write_text("0 1\n1 2\n2 0\n")
    code, out, err = gossamer("audit", "--rounds", 6, "--graph", "three.txt", "--json", "audit.json")
    assert code == 0
    told = json.loads((tmp_path / "audit.json").read_text())
    assert (told["holds"], len(told["cases"])) == (True, 36)
    assert all(check["holds"] for case in told["cases"] for check in case["checks"])
    assert out.count("holds") == 36
    assert "power: the largest privacy loss" in " ".join(out.split())
    assert "pip install 'gossamer-learning[audit]'" in " ".join(out.split())
    assert "replaying laplace on messages" in err


def test_the_audits_own_test_finds_every_planted_defect(gossamer, monkeypatch):
    """In three of its cases, secrets of few learners: test_audit.py plants all defects in all kinds of them."""
    first = list(audit._planted())[-1:]
    monkeypatch.setattr(audit, "_planted", lambda: first)
    standardised = audit._standardised
    monkeypatch.setattr(audit, "_standardised", lambda rounds: standardised(rounds)[:1])
    secret = audit._secret
    monkeypatch.setattr(audit, "_secret", lambda network, *given: secret(gs.Network.ring(4), *given))
    code, out, _ = gossamer("audit", "--self-test")
    assert code == 0
    found = re.search(r"(\d+) of (\d+) planted defects were found", out)
    assert found[1] == found[2]
    assert int(found[1]) >= 31
