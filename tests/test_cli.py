"""The command as a user meets it: what it prints, what it leaves, and one sentence for every mistake."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import gossamer as gs
from gossamer.cli import main
from gossamer.cli.language import translated
from gossamer.report import draw_budget, draw_curves
from gossamer.report.curves import ERRORS

ARGUMENTS = re.compile(
    r"\b(steps|gradient|draw|where|clip|strict|epsilon|delta|l2|seed|learners|horizon|initial|ratio)=|clip_l|per_round"
)


@pytest.fixture
def gossamer(monkeypatch, tmp_path, capsys):
    """Runs the command in an empty folder: gossamer("run", …) -> (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["gossamer", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return run


def test_a_run_shows_a_table_and_names_its_files(gossamer, tmp_path):
    code, out, _ = gossamer("run", "mushrooms", "--steps", 60)
    assert code == 0
    assert out.count("not private\n") == 10, "a row for each learner, none with an ε"
    assert "Assumption 4 asks for max ς < v" in out.replace("\n", " ")
    named = out.split("Files: ")[1].strip().split(", ")
    assert sorted(named) == sorted(
        f"gossamer-run/{f}" for f in ("record.npz", "record.json", "settings.json", "run.png")
    )
    assert all((tmp_path / file).stat().st_size > 100 for file in named)
    code, out, _ = gossamer("run", "mushrooms", "--steps", 5)
    assert "gossamer-run-2/record.npz" in out, "no run overwrites another"


def test_json_holds_the_numbers_of_the_same_run_in_python(gossamer, tmp_path):
    code, _, _ = gossamer(
        "run", "mushrooms", "--steps", 50, "--step", "0.5,0.7", "--noise", "0.2,0.55:0.65", "--seed", 7,
        "--learners", 5, "--graph", "exponential", "--gradient", "latest", "--split", "by-class", "--draw", "once",
        "--json", "deep/out.json", "--plot", "p.svg", "--evaluate-every", 20,
    )  # fmt: skip
    assert code == 0
    run = gs.simulate(
        gs.ldp_gradient_tracking(step=gs.decay(0.5, 0.7), noise=gs.decay(0.2, [0.55, 0.575, 0.6, 0.625, 0.65])),
        gs.Network.exponential(5),
        gs.datasets.mushrooms(learners=5, seed=7, draw="once", split="by-class"),
        model=gs.LogisticRegression(l2=1e-2),
        steps=50,
        gradient="latest",
        seed=7,
        evaluate_every=20,
    )
    told = json.loads((tmp_path / "deep/out.json").read_text())
    assert told["history"]["t"] == [0, 20, 40, 50]
    assert told["history"]["tracking_error"] == run.history.tracking_error.tolist()
    assert told["final"]["accuracy"] == run.history.accuracy[-1]
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")
    assert not (tmp_path / "gossamer-run").exists(), "only what was asked for"


@pytest.fixture
def own_csv(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["age,ward,clinic,dose,ill"]
    for k in range(240):
        age, ward, dose = rng.integers(20, 90), "abc"[rng.integers(3)], rng.uniform(0, 5)
        ill = "yes" if age / 70 + dose / 5 + rng.normal() * 0.1 > 1.3 else "no"
        lines.append(f"{age},{ward},{['north', 'south', 'west'][k % 3]},{dose:.3f},{ill}")
    (tmp_path / "own.csv").write_text("\n".join(lines) + "\n")
    return "own.csv"


def test_a_users_own_csv(gossamer, own_csv):
    common = ("run", "--csv", own_csv, "--noise", 0, "--steps", 1000, "--l2", 1e-4)
    code, out, _ = gossamer(
        *common, "--step", "10,0.55", "--target", "ill", "--categorical", "ward", "--split-by", "clinic", "--out", "a"
    )
    assert code == 0
    record = gs.Record.load("a/record")
    assert len(record.theta) == 3, "one learner per clinic"
    assert record.history.accuracy[-1] > 0.9
    said = " ".join(out.split())
    assert "The ranges of age, dose, the categories of ward and the classes of ill were read off the data" in said
    assert "Classes of ill: no, yes." in said, "no counts"
    ranges = ("--range", "age=0:120,dose=0:5", "--classes", "no,yes")
    code, out, _ = gossamer(
        *common, "--step", "1,0.8", "--target", "ill", "--drop", "clinic,ward", *ranges, "--out", "b"
    )
    assert "read off the data" not in out
    assert len(gs.Record.load("b/record").theta) == 10
    code, out, _ = gossamer(
        *common, "--step", "0.3,0.6", "--target", "dose", "--categorical", "ward,ill", "--drop", "clinic", "--out", "c"
    )
    assert code == 0
    assert "R²" in out, "a numeric target is a regression"
    code, out, _ = gossamer(
        *common, "--step", "1,0.6", "--target", "ward", "--categorical", "ill", "--drop", "clinic", "--out", "d"
    )
    assert gs.Record.load("d/record").theta.shape == (10, 3 * 5), "three classes, softmax"


def test_a_stopped_run_resumes_from_its_folder(gossamer):
    gossamer("run", "mushrooms", "--steps", 250, "--out", "part")
    code, _, _ = gossamer("run", "--resume", "part", "--steps", 400)
    assert code == 0
    gossamer("run", "mushrooms", "--steps", 400, "--out", "whole")
    np.testing.assert_array_equal(gs.Record.load("part/record").theta, gs.Record.load("whole/record").theta)
    code, _, err = gossamer("run", "--resume", "part")
    assert code == 2
    assert "its 400 rounds are done" in err
    for words in (["--seed", 3], ["--noise", "0"], ["--out", "elsewhere"], ["--graph", "ring"]):
        code, _, err = gossamer("run", "--resume", "part", "--steps", 500, *words)
        assert code == 2
        assert f"leave {words[0]} out" in err


def test_ctrl_c_saves_what_it_has(tmp_path):
    command = [sys.executable, "-m", "gossamer", "run", "mushrooms", "--steps", "1000000", "--out", "run"]
    process = subprocess.Popen(
        [*command, "--gradient", "latest"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "200", "FORCE_COLOR": "1"},
    )  # fmt: skip
    os.set_blocking(process.stderr.fileno(), False)
    shown, deadline = b"", time.monotonic() + 60
    while b"accuracy" not in shown and time.monotonic() < deadline:
        shown += process.stderr.read() or b""
        time.sleep(0.05)
    assert b"accuracy" in shown, shown
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"go on with: gossamer run --resume run" in out
    record = gs.Record.load(tmp_path / "run" / "record")
    assert 0 < record.t < 1_000_000
    assert record.history.t[-1] == record.t


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run"], "nothing to learn from"),
        (["run", "mushroom"], "'mushroom' is not"),
        (["run", "mushrooms", "--csv", "x.csv"], "two things to learn from"),
        (["run", "--csv", "good.csv", "--target", "y", "--split", "by-class"], "is for the mushrooms"),
        (["run", "--csv", "wide.csv", "--target", "y", "--split-by", "x", "--learners", "3"], "leave --learners out"),
        (["run", "--csv", "good.csv", "--target", "y", "--graph", "paper", "--learners", "2"], "has 10 learners"),
        (["run", "mushrooms", "--steps", "0"], "steps"),
        (["run", "mushrooms", "--steps", "many"], "steps"),
        (["run", "mushrooms", "--step", "1"], "--step 1: expected two numbers"),
        (["run", "mushrooms", "--step", "a,b"], "--step a,b: expected λ0,v"),
        (["run", "mushrooms", "--noise", "1"], "--noise 1: expected 0 for none"),
        (["run", "mushrooms", "--noise", "1,2:3:4"], "--noise 1,2:3:4: expected"),
        (["run", "mushrooms", "--noise", "1,0.9"], "Assumption 4 asks for max ς < v"),
        (["run", "mushrooms", "--step", "1,0.6"], "Assumption 4"),
        (["run", "mushrooms", "--epsilon", "9", "--where", "source", "--gradient", "history"], "use --gradient latest"),
        (["run", "mushrooms", "--epsilon", "9", "--where", "source", "--draw", "random"], "use --draw once"),
        (["run", "mushrooms", "--epsilon", "9", "--where", "source", "--steps", "813"], "use --steps 812 or fewer"),
        (["run", "mushrooms", "--epsilon", "9", "--draw", "once", "--steps", "900"], "the data have 812 full rounds"),
        (["run", "mushrooms", "--epsilon", "9", "--delta", "1e-6"], "Laplace noise keeps its budget without δ"),
        (["run", "mushrooms", "--epsilon", "9", "--law", "gaussian", "--delta", "2"], "--delta 2: expected above 0"),
        (["run", "mushrooms", "--clip", "0"], "--clip 0: expected a finite number above 0"),
        (["run", "mushrooms", "--classes", "e,p"], "--classes is for --csv FILE"),
        (["run", "mushrooms", "--step", "-1,0.6"], "--step -1,0.6: an initial value must not be negative"),
        (["run", "--csv", "good.csv", "--target", "y", "--draw", "once"], "--draw once is for the mushrooms"),
        (["run", "--csv", "good.csv", "--target", "y", "--categories", "x"], "--categories x: expected COLUMN=A|B"),
        (["run", "--csv", "good.csv", "--target", "y", "--categories", "x=1|2", "--learners", "2"], "line 4: '3'"),
        (["run", "--csv", "good.csv", "--target", "y", "--classes", "0", "--learners", "2"], "at least two names"),
        (
            [
                "run",
                "--csv",
                "good.csv",
                "--target",
                "x",
                "--classes",
                "1,2,3,4",
                "--model",
                "ridge",
                "--learners",
                "2",
            ],
            "a regression has none",
        ),
        (
            ["run", "--csv", "good.csv", "--target", "y", "--learners", "2", "--epsilon", "1"],
            "privacy cannot be proved: the ranges of x and the classes of y were read off the data",
        ),
        (
            [
                "run",
                "--csv",
                "good.csv",
                "--target",
                "y",
                "--learners",
                "2",
                "--epsilon",
                "1",
                "--range",
                "x=0:9,y=0:1",
            ],
            "--model ridge without --clip",
        ),
        (["run", "mushrooms", "--law", "gaussian"], "goes with --epsilon"),
        (["run", "mushrooms", "--epsilon", "1", "--noise", "0"], "give one of them"),
        (["run", "mushrooms", "--epsilon", "1,2"], "2 budgets for 10 learners"),
        (["run", "mushrooms", "--epsilon", "-1"], "expected a finite number above 0"),
        (["budget", "--horizon", "0.5"], "whole number of rounds"),
        (["budget", "--epsilon", "x"], "expected one ε"),
        (["budget", "--epsilon", "1", "--paper"], "give one of them"),
        (["budget", "--noise", "0"], "without noise there is no budget"),
        (["budget", "--now", "2001"], "--now 2001 is beyond the 2000 rounds"),
        (["budget", "--now", "11", "--horizon", "10"], "--now 11 is beyond --horizon 10"),
        (["budget", "--where", "source", "--gradient", "history"], "use --gradient latest"),
        (["budget", "--where", "source", "--horizon", "813"], "use --horizon 812 or fewer"),
        (["budget", "--delta", "0"], "--delta 0: expected above 0"),
        (["budget", "mushrooms", "--csv", "good.csv"], "two things to learn from"),
        (
            ["budget", "--csv", "good.csv", "--target", "y", "--learners", "2"],
            "privacy cannot be proved: the ranges of x",
        ),
        (["run", "mushrooms", "--graph", "nowhere.txt"], "no network nowhere.txt"),
        (["run", "mushrooms", "--graph", "paper", "--learners", "7"], "has 10 learners and the run has 7"),
        (["run", "mushrooms", "--model", "ridge"], "two classes"),
        (["run", "mushrooms", "--l2", "-1"], "--l2 -1: expected a finite number ≥ 0"),
        (["run", "mushrooms", "--plot", "x.doc"], "ends in .png"),
        (["run", "mushrooms", "--json", "."], "is a folder"),
        (["run", "mushrooms", "--out", "taken"], "exists already"),
        (
            ["run", "mushrooms", "--draw", "once", "--gradient", "latest", "--steps", "2000"],
            "no new record in round 1999, which --gradient latest needs: use fewer --steps, or --gradient history.",
        ),
        (["run", "--csv", "absent.csv", "--target", "y"], "no file absent.csv"),
        (["run", "--csv", "absent.csv"], "needs --target"),
        (["run", "--csv", "good.csv", "--target", "z"], "no column 'z'"),
        (["run", "--csv", "good.csv", "--target", "y", "--range", "x"], "--range x: expected"),
        (["run", "--csv", "good.csv", "--target", "x", "--model", "logistic", "--learners", "2"], "has 4 classes"),
        (["run", "--resume", "absent"], "no run of gossamer there"),
        (["graph", "absent"], "no network absent"),
        (["graph", "bad.txt"], "learner 2 receives nothing"),
        (["graph", "paper", "--plot", "x.doc"], "ends in .png"),
        (["grpah", "paper"], "grpah"),
        (["run", "--nonsense"], "--nonsense"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_gets_one_sentence_exit_code_2_and_changes_nothing(gossamer, tmp_path, words, says):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    (tmp_path / "good.csv").write_text("x,y\n1,0\n2,1\n3,0\n4,1\n")
    (tmp_path / "wide.csv").write_text("x,w,y\n1,1,0\n2,2,1\n1,3,0\n2,4,1\n")
    (tmp_path / "bad.txt").write_text("0 1\n1 0\n2 0\n")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = gossamer(*words)
    assert code == 2
    assert out == ""
    assert says in err
    assert not ARGUMENTS.search(err), "no arguments of Python's"
    assert err.startswith("gossamer: ")
    assert err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_graph_checks_and_draws(gossamer, tmp_path):
    code, out, _ = gossamer("graph", "paper", "--plot", "net.png")
    assert code == 0
    assert "10 learners, 18 links. Assumption 1 holds." in out
    assert "Spectral gap 0.2561" in out
    assert (tmp_path / "net.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = gossamer("graph", "random", "--learners", 300)
    assert "300 learners" in out


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["graph", "--help"]])
def test_help_teaches(gossamer, words):
    code, out, _ = gossamer(*words)
    assert code == 0
    assert "Usage:" in out
    if words[0] == "run":
        for word in ("λ0/(t+1)^v", "gossamer run mushrooms", "--split-by hospital", "Assumption 4", "ctrl-C"):
            assert word in out


def test_version(gossamer):
    assert gossamer("--version")[1] == f"gossamer {gs.__version__}\n"


def test_nothing_that_was_given_is_overwritten(gossamer, tmp_path):
    (tmp_path / "mine.csv").write_text("x,y\n" + "".join(f"{k},{k % 2}\n" for k in range(20)))
    run = ("run", "--csv", "mine.csv", "--target", "y", "--steps", 3)
    before = (tmp_path / "mine.csv").read_text()
    (tmp_path / "link.json").symlink_to(tmp_path / "mine.csv")
    for words in (
        ["--json", "mine.csv"],
        ["--json", "link.json"],
        ["--json", "a.png", "--plot", "a.png"],
        ["--out", "o", "--json", "o/settings.json"],
    ):
        code, _, err = gossamer(*run, *words)
        assert code == 2
        assert "are one place" in err
    assert (tmp_path / "mine.csv").read_text() == before
    (tmp_path / "target.json").write_text("old")
    (tmp_path / "ok.json").symlink_to(tmp_path / "target.json")
    assert gossamer(*run, "--json", "ok.json")[0] == 0
    assert (tmp_path / "ok.json").is_symlink()
    assert json.loads((tmp_path / "target.json").read_text())["t"] == 3


def test_words_with_marks_that_mean_something_elsewhere(gossamer, tmp_path):
    (tmp_path / "odd.csv").write_text(
        "cost_$,income_$,visits[/month],y\n" + "".join(f"{k},{k * k},{-k},{k % 2}\n" for k in range(20))
    )
    code, out, _ = gossamer("run", "--csv", "odd.csv", "--target", "y", "--steps", 3, "--out", "a[b]$_$")
    assert code == 0
    assert "cost_$, income_$, visits[/month] and the classes of y were read off the data" in " ".join(out.split())
    (tmp_path / "z[bold]q$_$.txt").write_text("0 1\n1 0\n")
    code, out, _ = gossamer("graph", "z[bold]q$_$.txt", "--plot", "p$_$.png")
    assert code == 0
    assert "z[bold]q$_$.txt: 2 learners" in out


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", "abc"),
        ("step", 5),
        ("learners", "x"),
        ("seed", -1),
        ("l2", None),
        ("graph", 5),
        ("dataset", "nope"),
        ("drop", "x"),
    ],
)
def test_a_damaged_settings_file_is_refused(gossamer, tmp_path, name, value):
    gossamer("run", "mushrooms", "--steps", 5, "--out", "r")
    stored = json.loads((tmp_path / "r/settings.json").read_text())
    (tmp_path / "r/settings.json").write_text(json.dumps({**stored, name: value}))
    code, _, err = gossamer("run", "--resume", "r", "--steps", 9)
    assert code == 2
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["run", "mushrooms", "--seed", str(2**64)],
        ["run", "mushrooms", "--steps", "9" * 20],
        ["run", "mushrooms", "--no-strict", "--step", "1,2000"],
        ["run", "mushrooms", "--no-strict", "--step", "1,-5000"],
        ["run", "mushrooms", "--json", "x" * 300],
        ["run", "mushrooms", "--target", "y"],
        ["graph", "huge.txt"],
        ["graph", "deep.json"],
        ["graph", "half.json"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_extreme_input_gets_one_sentence(gossamer, tmp_path, words):
    (tmp_path / "huge.txt").write_text("0 999999999\n999999999 0\n")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "half.json").write_text('{"edges": [[0.7, 1.9], [1.2, 0.1]]}')
    code, _, err = gossamer(*words)
    assert code == 2
    assert err.startswith("gossamer: ")
    assert err.count("\n") == 1


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


def test_a_private_run_shows_its_epsilon(gossamer, own_csv):
    code, out, _ = gossamer("run", "mushrooms", "--epsilon", 5, "--steps", 40, "--rows", "l1", "--json", "p.json")
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


def test_a_private_run_on_a_csv_ends_with_its_data_and_follows_what_was_declared(gossamer, own_csv):
    code, out, _ = gossamer("run", *declared(own_csv), "--epsilon", "5,6,7", "--out", "a")
    assert code == 0
    record = gs.Record.load("a/record")
    assert record.t == 80, "240 records of three clinics"
    assert "80 rounds, as many full ones as the data have" in out
    assert record.theta.shape == (3, 2 + 4 + 1), "ward d has its column, though nobody is there"
    for clinic, epsilon in (("north", 5), ("south", 6), ("west", 7)):
        assert re.search(rf"^{clinic} .* {epsilon} +{epsilon}", out, flags=re.MULTILINE), "budgets in the order shown"
    assert "read off" not in out
    code, out, _ = gossamer("run", *declared(own_csv), "--classes", "no,yes,maybe", "--epsilon", 5, "--out", "b")
    assert gs.Record.load("b/record").theta.shape == (3, 7 * 3), "three declared classes are softmax"


def test_private_least_squares_need_a_clipper_of_the_noises_norm(gossamer, own_csv):
    words = ["run", *declared(own_csv, "dose"), "--epsilon", 5]
    assert "give --clip C" in gossamer(*words)[2]
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
    assert (record.t, record.config["gradient"], record.config["stream"]["draw"]) == (812, "latest", "once")
    assert "Private: exact gaussian noise at the source, δ = 1e-05." in said
    assert "--gradient latest and --draw once" in said
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
    assert told["steps"] == 80
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
    assert "<!-- Laplace noise on messages -->" in budget, "svg keeps text as comments"
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
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, out, err = gossamer("audit", "--rounds", 4)
    assert code == 0
    assert out.count("holds") == 12
    assert "replay/claim: the largest privacy loss" in " ".join(out.split())
    assert "pip install 'gossamer-learning[audit]'" in " ".join(out.split())
    assert "replaying laplace on messages" in err
    (tmp_path / "three.txt").write_text("0 1\n1 2\n2 0\n")
    assert gossamer("audit", "--rounds", 3, "--graph", "three.txt")[0] == 0, "also with few learners"


def test_what_the_library_says_is_put_in_the_commands_words():
    said = "use fewer steps or a smaller per_round, gradient='latest', draw='once', clip=clip_l1(c)."
    assert translated(said) == ("use fewer --steps or a smaller --per-round, --gradient latest, --draw once, --clip C.")
    assert translated("mushrooms(seed=-1): expected 0 to 9.") == "--seed -1: expected 0 to 9."
    assert translated("LogisticRegression(l2=-1.0): expected ≥ 0.") == "--l2 -1.0: expected ≥ 0."
