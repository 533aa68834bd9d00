"""The command as a user meets it: what it prints, what it leaves, and one sentence for every mistake."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import gossamer as gs

ARGUMENTS = re.compile(
    r"\b(steps|gradient|draw|where|clip|strict|epsilon|delta|l2|seed|learners|horizon|initial|ratio)=|clip_l|per_round"
)


def test_a_run_shows_a_table_and_names_its_files(gossamer, drawn, tmp_path):
    code, out, _ = gossamer("run", "mushrooms", "--steps", 60)
    assert code == 0
    assert out.count("not private\n") == 10, "a row for each learner, none with an ε"
    assert "Assumption 4 asks for max ς < v" in out.replace("\n", " ")
    named = out.split("Files: ")[1].strip().split(", ")
    files = ("record.npz", "record.json", "settings.json", "events.jsonl", "report.html", "run.png", "run.pdf")
    assert sorted(named) == sorted(f"gossamer-run/{f}" for f in (*files, "network.png", "network.pdf"))
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


def test_what_is_found_in_ones_own_records_is_for_nobody_else_to_read(gossamer, own_csv, tmp_path):
    words = ("--target", "ill", "--steps", 5)
    assert gossamer("run", "--csv", own_csv, *words)[0] == 0
    assert gossamer("run", "--csv", own_csv, *words, "--repeat", 2, "--out", "twice")[0] == 0
    assert gossamer("run", "mushrooms", "--steps", 5, "--out", "paper")[0] == 0
    mode = {name: (tmp_path / name).stat().st_mode & 0o077 for name in ("gossamer-run", "twice/seed-0", "twice/seed-1")}
    assert set(mode.values()) == {0}, mode
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "paper").stat().st_mode & 0o777 == 0o777 & ~umask, "everybody has these records"


@pytest.mark.parametrize("words", [(), ("--dump-config",)])
def test_a_name_that_is_no_text_is_refused_before_the_run(gossamer, own_csv, tmp_path, words):
    name = os.fsdecode(b"bad\xff.csv")
    (tmp_path / own_csv).rename(tmp_path / name)
    code, _, err = gossamer("run", "--csv", name, "--target", "ill", "--steps", 5, *words)
    assert code == 2
    assert err.count("\n") == 1
    assert "this name is not UTF-8" in err
    assert os.listdir(tmp_path) == [name]
    code, _, err = gossamer("run", "mushrooms", "--steps", 5, "--out", os.fsdecode(b"\xff"))
    assert code == 2
    assert "this name is not UTF-8" in err


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
    gossamer("run", "mushrooms", "--steps", 50, "--out", "part")
    code, _, _ = gossamer("run", "--resume", "part", "--steps", 80)
    assert code == 0
    gossamer("run", "mushrooms", "--steps", 80, "--out", "whole")
    np.testing.assert_array_equal(gs.Record.load("part/record").theta, gs.Record.load("whole/record").theta)
    code, _, err = gossamer("run", "--resume", "part")
    assert code == 2
    assert "its 80 rounds are done" in err
    for words in (["--seed", 3], ["--noise", "0"], ["--out", "elsewhere"], ["--graph", "ring"]):
        code, _, err = gossamer("run", "--resume", "part", "--steps", 100, *words)
        assert code == 2
        assert f"leave {words[0]} out" in err


def test_ctrl_c_saves_what_it_has(tmp_path):
    command = [sys.executable, "-m", "gossamer", "run", "mushrooms", "--steps", "1000000", "--out", "run"]
    process = subprocess.Popen(
        [*command, "--gradient", "latest"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "200", "FORCE_COLOR": "1"},
    )  # fmt: skip
    try:
        os.set_blocking(process.stderr.fileno(), False)
        shown, deadline = b"", time.monotonic() + 600
        while b"accuracy" not in shown and time.monotonic() < deadline:
            shown += process.stderr.read() or b""
            time.sleep(0.02)
        assert b"accuracy" in shown, shown
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=600)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert b"go on with: gossamer run --resume run" in out
    record = gs.Record.load(tmp_path / "run" / "record")
    assert 0 < record.t < 1_000_000
    assert record.history.t[-1] == record.t


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run"], "nothing to learn from"),
        (["run", "mushroom"], "mushroom: it is not one of"),
        (["run", "mushrooms", "--csv", "x.csv"], "two things to learn from"),
        (
            ["run", "--csv", "good.csv", "--target", "y", "--split", "by-class"],
            "--split by-class is for cifar10, mnist, mushrooms, regression",
        ),
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
        (["run", "mushrooms", "--epsilon", "9", "--releases", "often"], "--releases often: expected r,W"),
        (["run", "mushrooms", "--epsilon", "9", "--releases", "1,9,9"], "--releases 1,9,9: expected a round after 9"),
        (["run", "mushrooms", "--releases", "1,9"], "--releases goes with --epsilon"),
        (["run", "mushrooms", "--epsilon", "9", "--where", "messages", "--band", "4"], "noise at the source"),
        (["run", "mushrooms", "--epsilon", "9", "--where", "source", "--draw", "random"], "use --draw once"),
        (["run", "mushrooms", "--epsilon", "9", "--gradient", "latest", "--steps", "813"], "use --steps 812 or fewer"),
        (
            ["run", "mushrooms", "--epsilon", "9", "--draw", "once", "--steps", "900", "--where", "messages"],
            "have 812 full",
        ),
        (["run", "mushrooms", "--epsilon", "9", "--law", "laplace", "--delta", "1e-6"], "keeps its budget without δ"),
        (["run", "mushrooms", "--epsilon", "9", "--law", "gaussian", "--delta", "2"], "--delta 2: expected above 0"),
        (["run", "mushrooms", "--clip", "0"], "--clip 0: expected a finite number above 0"),
        (["run", "mushrooms", "--classes", "e,p"], "--classes e,p is for --csv FILE: leave it out"),
        (["run", "mushrooms", "--step", "-1,0.6"], "--step -1,0.6: an initial value must not be negative"),
        (
            ["run", "--csv", "good.csv", "--target", "y", "--draw", "once"],
            "--draw once is for cifar10, mnist, mushrooms: leave it out",
        ),
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
                "--no-standardise",
            ],
            "so no privacy can be proved: give --clip C, such as --clip 1.",
        ),
        (["run", "mushrooms", "--law", "gaussian"], "goes with --epsilon"),
        (["run", "mushrooms", "--epsilon", "1", "--noise", "0"], "give one of them"),
        (["run", "mushrooms", "--epsilon", "1,2"], "2 budgets for 10 learners"),
        (["run", "mushrooms", "--epsilon", "-1"], "expected a finite number above 0"),
        (["budget", "--horizon", "0.5"], "whole number of rounds"),
        (["budget", "--epsilon", "x"], "expected one ε"),
        (["budget", "--epsilon", "1", "--paper"], "give one of them"),
        (["budget", "--noise", "0"], "without noise there is no budget"),
        (["budget", "--now", "2001"], "--now 2001: it is beyond the 2000 rounds"),
        (["budget", "--now", "11", "--horizon", "10"], "--now 11 is beyond --horizon 10"),
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


def test_graph_checks_and_draws(gossamer, drawn, tmp_path):
    code, out, _ = gossamer("graph", "paper", "--plot", "net.png")
    assert code == 0
    assert "10 learners, 18 links. Assumption 1 holds." in out
    assert "Spectral gap 0.2561" in out
    assert (tmp_path / "net.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = gossamer("graph", "random", "--learners", 300)
    assert "300 learners" in out


def test_a_picture_of_more_than_anybody_can_see_is_refused_before_its_work(gossamer, monkeypatch, tmp_path):
    def found(*args):
        raise AssertionError("something was computed")

    monkeypatch.setattr("gossamer.networks.network.gap_of", found)
    monkeypatch.setattr("gossamer.networks.spectrum.perron", found)
    many = "".join(f"{i} {(i + k) % 1500}\n" for i in range(1500) for k in (1, 2, 3))
    (tmp_path / "many.txt").write_text(many)
    for words, says in (
        (["ring", "--learners", 2001], "2,001 learners: a picture"),
        (["many.txt"], "1,500 learners and 4,500 links: a picture tells something of 2,000 learners and 4,000 links"),
        (["ring", "--learners", 1500, "--secrets", "6-regular"], "1,500 learners and 4,500 pairs: a picture"),
        (["ring", "--learners", 100000, "--secrets", "4-regular"], "100,000 learners: a picture"),
    ):
        code, out, err = gossamer("graph", *words, "--plot", "net.png")
        assert (code, out) == (2, "")
        assert says in err
        assert err.endswith("leave --plot out.\n")
        assert not (tmp_path / "net.png").exists()


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


def test_words_with_marks_that_mean_something_elsewhere(gossamer, drawn, tmp_path):
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


def test_a_damaged_settings_file_is_refused(gossamer, tmp_path):
    gossamer("run", "mushrooms", "--steps", 5, "--out", "r")
    stored = json.loads((tmp_path / "r/settings.json").read_text())
    damages = {
        "steps": "abc", "step": 5, "learners": "x", "seed": -1, "l2": "much", "graph": 5, "dataset": "nope",
        "drop": "x",
    }  # fmt: skip
    for name, value in damages.items():
        (tmp_path / "r/settings.json").write_text(json.dumps({**stored, name: value}))
        code, _, err = gossamer("run", "--resume", "r", "--steps", 9)
        assert (code, err.count("\n")) == (2, 1), name
    (tmp_path / "r/settings.json").write_text(json.dumps(stored))
    assert gossamer("run", "--resume", "r", "--steps", 9)[0] == 0, "it was the damage that was refused"


@pytest.mark.parametrize(
    "words",
    [
        ["run", "mushrooms", "--seed", str(2**64)],
        ["run", "mushrooms", "--steps", "9" * 20],
        ["run", "mushrooms", "--no-strict", "--step", "1,2000"],
        ["run", "mushrooms", "--no-strict", "--step", "1,-5000"],
        ["run", "mushrooms", "--json", "x" * 300],
        ["run", "mushrooms", "--target", "y"],
        ["graph", "huge.json"],
        ["graph", "deep.json"],
        ["graph", "half.json"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_extreme_input_gets_one_sentence(gossamer, tmp_path, words):
    (tmp_path / "huge.json").write_text('{"edges": [[0, 999999999], [999999999, 0]]}')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "half.json").write_text('{"edges": [[0.7, 1.9], [1.2, 0.1]]}')
    code, _, err = gossamer(*words)
    assert code == 2
    assert err.startswith("gossamer: ")
    assert err.count("\n") == 1
