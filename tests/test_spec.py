"""One description of a run: options, TOML files, a folder's settings and keys of kept runs are views of it."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap

import numpy as np
import pytest

import gossamer as gs
from gossamer.cli.output import command_for
from gossamer.errors import BadValue
from gossamer.experiments.tasks import data_of
from gossamer.spec import SETTINGS, Spec
from gossamer.spec.build import build
from gossamer.spec.files import read_settings as read_folder
from gossamer.spec.files import read_toml, write_settings, write_toml
from gossamer.spec.rules import learnt_by

FULL = {
    "csv": "own.csv", "target": "ill", "split_by": "clinic", "categorical": ("ward",), "drop": ("a b",),
    "range": ("age=0:120", "dose=0:5"), "categories": ("sex=f|m",), "classes": "no,yes", "per_round": 3, "steps": 7,
    "step": "0.5,0.7", "epsilon": "1,2,4", "law": "gaussian", "delta": 1e-6, "where": "source", "horizon": "inf",
    "strict": False, "gradient": "latest", "l2": 0.125, "clip": 1.5, "seed": 3, "graph": "ring", "learners": 3,
    "algorithm": "dsgd", "evaluate_every": 2,
}  # fmt: skip


def test_a_description_is_a_value():
    spec = Spec.of(**FULL)
    assert spec == Spec.of(**FULL)
    assert hash(spec) == hash(Spec.of(**FULL))
    assert spec != spec.but(seed=4)
    assert spec.given() == FULL
    assert Spec().given() == {}


def test_every_view_gives_the_same_description_back(tmp_path, gossamer):
    spec = Spec.of(**FULL)
    (tmp_path / "run.toml").write_text(write_toml(spec))
    assert read_toml(tmp_path / "run.toml") == spec
    (tmp_path / "settings.json").write_bytes(write_settings(spec))
    assert read_folder(tmp_path) == spec
    words = shlex.split(command_for("run", spec))
    code, out, _ = gossamer(*words[1:], "--dump-config")
    assert code == 0
    (tmp_path / "dumped.toml").write_text(out)
    assert read_toml(tmp_path / "dumped.toml") == spec


def test_every_setting_is_an_option_and_a_line_of_a_dumped_file(gossamer):
    out = gossamer("run", "--help")[1]
    dumped = gossamer("run", "--dump-config")[1]
    for name in SETTINGS:
        assert name == "dataset" or f"--{name.replace('_', '-')}" in out
        assert f"# {name} =" in dumped


def test_a_file_runs_as_the_same_options_do_and_options_go_on_top(gossamer, tmp_path):
    words = ("mushrooms", "--steps", 12, "--step", "1,0.8", "--noise", "0.1,0.6", "--algorithm", "dsgd", "--seed", 2)
    code, dumped, _ = gossamer("run", *words, "--dump-config")
    assert code == 0
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "my.toml").write_text(dumped)
    assert gossamer("run", *words, "--out", "a")[0] == 0
    assert gossamer("run", "folder/my.toml", "--out", "b")[0] == 0
    assert gossamer("run", "folder/my.toml", "--seed", 3, "--out", "c")[0] == 0
    first, second, third = (gs.Record.load(tmp_path / name) for name in "abc")
    np.testing.assert_array_equal(first.theta, second.theta)
    assert first.config["algorithm"]["name"] == "dsgd"
    assert third.config["seed"] == 3
    assert not np.array_equal(first.theta, third.theta)


def test_paths_are_meant_from_the_files_own_folder(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "own.csv").write_text("x,y\n1,0\n2,1\n3,0\n4,1\n")
    (tmp_path / "there" / "run.toml").write_text('[data]\ncsv = "own.csv"\ntarget = "y"\n[network]\nlearners = 2\n')
    monkeypatch.chdir(tmp_path)
    parts = build(read_toml(tmp_path / "there" / "run.toml"))
    assert parts.stream.learners == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[length]\nstesp = 3", "has no 'stesp': perhaps steps is meant"),
        ("[privcy]\nepsilon = 3", "has no 'privcy': perhaps privacy is meant"),
        ("[data]\nsteps = 3", "[data] of"),
        ("steps = 3", "has no 'steps'"),
        ("data = 3", "write [data] above it"),
        ("[length]\nsteps = 0", "[length] steps = 0: expected a whole number from 1"),
        ('[length]\nsteps = "many"', '[length] steps = "many": expected a whole number'),
        (
            '[privacy]\nlaw = "laplas"',
            '[privacy] law = "laplas": expected one of laplace, gaussian; perhaps laplace is meant',
        ),
        ("[algorithm]\nstrict = 1", "[algorithm] strict = 1: expected true or false"),
        ("[data]\nrange = 3", "[data] range = 3: expected a list of texts"),
        ("[data\n", "is not valid TOML"),
    ],
)
def test_a_mistake_in_a_file_is_said_in_the_files_own_words(tmp_path, gossamer, text, says):
    (tmp_path / "run.toml").write_text(text)
    code, _, err = gossamer("run", "run.toml")
    assert code == 2
    assert says in err
    assert err.count("\n") == 1


def test_numbers_may_stand_where_texts_with_numbers_do(tmp_path):
    (tmp_path / "run.toml").write_text("[privacy]\nepsilon = 3\n[model]\nl2 = 1\n")
    assert read_toml(tmp_path / "run.toml") == Spec.of(epsilon="3", l2=1.0)


def test_a_name_that_is_not_known_is_refused_with_the_near_one():
    with pytest.raises(gs.GossamerError, match="has no 'epsilom': perhaps epsilon is meant"):
        Spec.of(epsilom="3")
    with pytest.raises(BadValue, match=r"it is not one of .*perhaps dsgd is meant"):
        build(Spec.of(dataset="mushrooms", algorithm="dsdg"))


OWN = '''
    import numpy as np
    import gossamer as gs
    from gossamer.streams import from_arrays


    def slow(step, noise=None, *, strict=True):
        """DSGD at half the step."""
        return gs.dsgd(lambda t: step(t) / 2, noise, strict=False)


    def ones(learners=10, seed=0):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, size=(learners, 30, 3))
        return from_arrays(X, (X[..., 0] > 0).astype(float), ranges=(-1, 1))


    def flat(wanted):
        return gs.LogisticRegression(l2=wanted.l2 + 1)
'''


def test_a_users_own_algorithm_data_and_model_are_named_by_their_module(gossamer, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(textwrap.dedent(OWN))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    code, _, err = gossamer(
        "run", "mine:ones", "--algorithm", "mine:slow", "--model", "mine:flat", "--noise", "0", "--steps", 5,
        "--step", "1,0.6", "--out", "own",
    )  # fmt: skip
    assert code == 0, err
    record = gs.Record.load(tmp_path / "own")
    assert record.config["algorithm"]["name"] == "dsgd"
    assert "l2=1.01" in record.config["model"]
    code, _, err = gossamer("run", "mine:twos")
    assert code == 2
    assert "mine:twos: it cannot be imported" in err
    code, _, err = gossamer("compare", "mushrooms", "--quick", "--steps", 4, "--seeds", 1, "--jobs", 1,
                            "--methods", "mine:slow", "--epsilon", 50, "--out", "c")  # fmt: skip
    assert code == 0, err
    assert {e["method"] for e in json.loads((tmp_path / "c" / "results.json").read_text())["entries"]} == {"mine:slow"}


SHARED = """
    from gossamer.streams import from_csv

    STREAM = from_csv("own.csv", "y", learners=2)


    def shared(learners=2, seed=0):
        return STREAM
"""


def test_a_study_leaves_what_a_stream_says_of_itself_alone(tmp_path, monkeypatch):
    """It used to clear `undeclared` on the user's own stream, and a budget could then be claimed for it."""
    (tmp_path / "own.csv").write_text("x,y\n1,0\n2,1\n3,0\n4,1\n")
    (tmp_path / "study_shared.py").write_text(textwrap.dedent(SHARED))
    monkeypatch.chdir(tmp_path)
    spec = Spec.of(dataset="study_shared:shared", learners=2, graph="complete")
    stream, _, _ = data_of(spec)
    assert sys.modules["study_shared"].STREAM.table.undeclared
    assert stream.table.undeclared, "only a built-in split by class is taken as given"


def test_a_command_refuses_what_a_file_says_and_it_does_not_take(gossamer, tmp_path):
    (tmp_path / "b.toml").write_text('[data]\ndataset = "mushrooms"\n[algorithm]\nalgorithm = "dsgd"\n')
    code, _, err = gossamer("budget", "b.toml", "--epsilon", 8)
    assert code == 2
    assert "b.toml: [algorithm] algorithm is not for this command: leave it out." in err


def test_a_mistake_that_building_finds_is_said_in_the_files_words_too(gossamer, tmp_path):
    (tmp_path / "b.toml").write_text('[data]\ndataset = "mushrooms"\n[algorithm]\nstep = 0.5\n')
    assert '[algorithm] step = "0.5": expected two numbers' in gossamer("run", "b.toml")[2]
    assert "--step 0.3: expected two numbers" in gossamer("run", "b.toml", "--step", "0.3")[2]


def test_lists_and_texts_say_the_same_in_a_file(tmp_path):
    (tmp_path / "a.toml").write_text(
        '[data]\nrange = "age=0:120"\nclasses = ["no", "yes"]\n[algorithm]\nstep = [1, 0.8]\n'
    )
    assert read_toml(tmp_path / "a.toml") == Spec.of(range=("age=0:120",), classes="no,yes", step="1,0.8")


@pytest.mark.parametrize(
    "text", ["[model]\nl2 = 1" + "0" * 400, "[length]\nsteps = 1" + "0" * 5000, "a = " + "[" * 3000]
)
def test_numbers_that_nobody_writes_get_a_sentence(gossamer, tmp_path, text):
    (tmp_path / "a.toml").write_text(text)
    code, _, err = gossamer("run", "a.toml")
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "words",
    [
        ("mushrooms", "--algorithm", "os:getcwd"), ("mushrooms", "--algorithm", "builtins:print"), (".x:foo",),
        ("builtins:dict",), ("mushrooms", "--model", "builtins:print"), ("os:getcwd",),
    ],
)  # fmt: skip
def test_what_is_no_such_thing_gets_a_sentence(gossamer, words):
    code, _, err = gossamer("run", *words, "--noise", "0", "--steps", 2)
    assert code == 2
    assert err.count("\n") == 1, err
    assert words[-1] in err


def test_how_many_values_a_quantity_has_decides_no_model(tmp_path):
    (tmp_path / "q.csv").write_text("x,y\n" + "".join(f"{k},{k / 7}\n" for k in range(9)))
    spec = Spec.of(csv=str(tmp_path / "q.csv"), target="y", range=("x=0:9", "y=0:2"))
    assert learnt_by(spec, None).outputs == 1
