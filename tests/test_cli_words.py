"""The command's own words: an option as it was typed, a default once, and what a table is about."""

from __future__ import annotations

import json
import re
from typing import Literal

import pytest

import gossamer as gs
from gossamer.cli.commands import COMMANDS, imported_command
from gossamer.cli.words import as_typed, in_option
from gossamer.privacy.releases import every, thinning
from gossamer.spec.languages import release_schedule


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["run", "mushrooms", "--band", "0"],
            "gossamer: --band 0: expected a whole number ≥ 1; see gossamer run --help.",
        ),
        (
            ["run", "mushrooms", "--band=-3"],
            "gossamer: --band -3: expected a whole number ≥ 1; see gossamer run --help.",
        ),
        (["budget", "--band", "few"], "gossamer: --band few: expected a whole number ≥ 1; see gossamer budget --help."),
        (["run", "mushrooms", "--l2", "x"], "gossamer: --l2 x: expected a number; see gossamer run --help."),
        (["run", "mushrooms", "--law", "bell"], "--law bell: expected one of laplace, gaussian; see gossamer run"),
        (
            ["peers", "init", "a", "--lateness", "65"],
            "--lateness 65: expected a whole number from 0 to 64; see gossamer peers init",
        ),
        (
            ["run", "mushrooms", "--epsilon", 3, "--steps", 50, "--releases", "5,70"],
            "--releases 5,70: none of the run's",
        ),
        (
            ["run", "mushrooms", "--epsilon", 3, "--steps", 50, "--releases", "thin:2,70,80"],
            "--releases thin:2,70,80: ",
        ),
        (
            ["run", "mushrooms", "--epsilon", 3, "--releases", "2,5", "--where", "messages"],
            "--releases 2,5 is for noise at the source: use --where source.",
        ),
        (
            ["run", "mushrooms", "--epsilon", 3, "--band", 2, "--where", "messages"],
            "--band 2 is for noise at the source: use --where source.",
        ),
        (
            ["run", "mushrooms", "--epsilon", 3, "--band", 2, "--releases", "thin:2,5"],
            "--band 2 needs releases at even distances: use --releases r,W.",
        ),
    ],
)
def test_a_refusal_says_the_option_as_it_was_typed(gossamer, words, says):
    code, _, err = gossamer(*words)
    assert code == 2
    assert says in err
    assert not re.search(r"every\(|thinning\(|Input should|Invalid value", err)
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ((int, 1, None), "expected a whole number ≥ 1"),
        ((int, 0, 64), "expected a whole number from 0 to 64"),
        ((float, None, 0.5), "expected a number ≤ 0.5"),
        ((float, None, None), "expected a number"),
        ((Literal["a", "b"], None, None), "expected one of a, b"),
        ((str, None, None), ""),
    ],
)
def test_what_is_expected_follows_from_what_was_declared(declared, says):
    assert in_option(*declared) == says


def test_an_option_is_found_as_it_was_typed():
    words = ["gossamer", "run", "mushrooms", "--law", "laplace", "--band", "3", "--band=0"]
    assert as_typed(["--band"], words) == "--band 0"
    assert as_typed(["--algorithm", "--method"], ["--method", "x"]) == "--method x"
    assert as_typed(["--steps"], words) == "--steps"


@pytest.mark.parametrize("releases", [every(3, after=20), every(1, after=2, until=90), thinning(1.5, after=7)])
def test_releases_are_said_as_they_are_read(releases):
    argument = releases.argument
    assert release_schedule(argument.value) == releases
    assert repr(argument) == f"releases={releases}"


def test_python_says_releases_in_its_own_words():
    with pytest.raises(gs.GossamerError, match=r"^releases=every\(2, after=5\) is for noise at the source"):
        gs.Laplace.for_budget(1.0, releases=gs.every(2, after=5))
    with pytest.raises(gs.GossamerError, match=r"use every\(r, after=W\)\.$"):
        gs.Gaussian.for_budget(1.0, 1e-5, where="source", releases=gs.thinning(2.0, after=5), band=2)


def options_of(command):
    """(path, option) of every option of a command and of those in it."""
    for one in getattr(command, "commands", {}).values():
        yield from options_of(one)
    yield from ((command.name, parameter) for parameter in command.params)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_a_default_once(name):
    for command, parameter in options_of(imported_command(name)):
        if getattr(parameter, "help", None) and parameter.param_type_name == "option":
            shown = parameter.default not in (None, False, [], ()) and getattr(parameter, "show_default", False)
            assert ("[default:" in parameter.help) + bool(shown) <= 1, (command, parameter.name, parameter.help)


def test_budget_says_whose_it_is(gossamer, own_csv):
    _, out, _ = gossamer("budget", "--epsilon", 3)
    assert out.startswith("mushrooms, 10 learners, Gaussian noise at the source")
    assert "No data were named, so this is about the mushrooms: name a dataset, or give --csv FILE and --target" in out
    assert re.search(r"releases in \d+ rounds \(--releases \d+,\d+(,\d+)?\); in the others", out)
    _, out, _ = gossamer("budget", "mushrooms", "--epsilon", 3)
    assert "No data were named" not in out
    words = ("--target", "ill", "--classes", "no,yes", "--range", "age=0:120,dose=0:5", "--categories", "ward=a|b|c")
    code, out, err = gossamer("budget", "--csv", own_csv, *words, "--drop", "clinic", "--epsilon", 3)
    assert code == 0, err
    assert out.startswith("own.csv, 10 learners, ")
    assert "No data were named" not in out
    assert json.loads(gossamer("budget", "--json")[1])["data"] == "mushrooms"
    _, out, _ = gossamer("budget", "--help")
    assert "[default: mushrooms]" in " ".join(out.split())


def test_the_first_noise_is_that_of_the_first_release(gossamer):
    words = ("--epsilon", 3, "--steps", 60, "--releases", "2,24", "--law", "gaussian")
    code, out, err = gossamer("run", "mushrooms", *words, "--out", "a")
    assert code == 0, err
    config = gs.Record.load("a/record").config
    initial, exponent, ratio = config["noise"][0]
    assert (exponent, ratio) == (0.2, 1.0), "the noise falls, so that rounds differ"
    title = re.search(r"^learner .*$", out, flags=re.MULTILINE)[0]
    assert "first noise" in title
    row = re.search(r"^0 .*$", out, flags=re.MULTILINE)[0].split()
    assert f"{initial / 25**0.2:.4g}" in row, "round 24 is the 25th"
    assert f"{initial:.4g}" not in row
