"""What all commands have in common: --json, colours, the words for a mistake, and the page that lists them."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import sys
from pathlib import Path

import pytest

from gossamer.cli.commands import COMMANDS, imported_command, main
from gossamer.cli.words import lasting, near_option, with_place

ROOT = Path(__file__).parents[1]


def leaves(called, command):
    inner = getattr(command, "commands", None)
    if inner is None:
        return {called: command}
    return {name: one for word, part in inner.items() for name, one in leaves(f"{called} {word}", part).items()}


@pytest.fixture(scope="module")
def commands():
    """Every command by what is typed for it."""
    return {name: one for word in COMMANDS for name, one in leaves(word, imported_command(word)).items()}


def generator():
    spec = importlib.util.spec_from_file_location("make_command", ROOT / "docs" / "make_command.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_commands_is_what_the_parser_says():
    made = generator()
    written = (ROOT / "docs" / "command.md").read_text(encoding="utf-8")
    assert written == made.page(), "run: python docs/make_command.py"
    assert "| `--epsilon TEXT` |" in written


def test_the_page_lists_the_commands_that_have_json(commands):
    page = (ROOT / "docs" / "command.md").read_text(encoding="utf-8")
    sentence = re.search(r"These commands take `--json`: (.*?)\. `", page, flags=re.DOTALL)[1]
    has = {name for name, one in commands.items() if any("--json" in option.opts for option in one.params)}
    assert set(re.findall(r"`([a-z ]+)`", sentence.replace("\n", " "))) == has


def test_json_is_one_option_wherever_it_is(commands):
    for name, one in commands.items():
        for option in one.params:
            if "--json" in option.opts:
                assert option.metavar == "FILE", name
                assert option.help.endswith("as JSON to this file; to standard output with -, or alone."), name


@pytest.mark.parametrize(
    "words",
    [
        ["graph", "ring", "--learners", 3],
        ["graph", "paper", "--secrets", "complete"],
        ["budget", "--epsilon", 3, "--horizon", 20],
        ["run", "mushrooms", "--steps", 5, "--learners", 3],
        ["run", "mushrooms", "--steps", 5, "--learners", 3, "--repeat", 2],
    ],
)
def test_with_json_standard_output_is_json_and_nothing_else(words, gossamer, tmp_path):
    code, out, _ = gossamer(*words, "--json", "-")
    assert code == 0
    told = json.loads(out)
    code, alone, _ = gossamer(*words, "--json")
    assert code == 0
    code, said, _ = gossamer(*words, "--json", "numbers.json")
    written = json.loads((tmp_path / "numbers.json").read_text())
    assert "{" not in said
    for again in (json.loads(alone), written):
        assert again == told


def test_a_check_that_fails_says_so_in_json_and_by_its_exit_code(gossamer):
    code, out, _ = gossamer("check", "mushrooms", "--json")
    assert code == 1
    assert json.loads(out)["verdict"] == "fails"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ([], []),
        (["check", "mushrooms", "--json"], ["check", "mushrooms", "--json", "-"]),
        (["check", "--json", "--steps", "5"], ["check", "--json", "-", "--steps", "5"]),
        (["check", "--json", "-"], ["check", "--json", "-"]),
        (["check", "--json", "a.json", "mushrooms"], ["check", "--json", "a.json", "mushrooms"]),
        (["check", "--json=a.json"], ["check", "--json=a.json"]),
    ],
)
def test_json_alone_is_standard_output(given, meant):
    assert with_place(given) == meant


def test_a_word_behind_json_that_is_no_file_is_told_where_to_stand(gossamer):
    code, out, err = gossamer("check", "--json", "mushrooms")
    assert (code, out) == (2, "")
    assert err.startswith("gossamer: --json mushrooms: expected a name with an ending, such as mushrooms.json")


class Terminal(io.StringIO):
    def isatty(self):
        return True


COLOUR = re.compile(r"\x1b\[[0-9;]*(?<![0-9])(3[0-7]|9[0-7]|4[0-7])(?![0-9])[0-9;]*m")  # bold is no colour


@pytest.mark.parametrize("no_colour", [False, True])
def test_a_terminal_gets_colours_unless_it_says_otherwise(no_colour, monkeypatch):
    screen = Terminal()
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    if no_colour:
        monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "argv", ["gossamer", "check", "mushrooms"])
    with pytest.raises(SystemExit):
        main()
    assert bool(COLOUR.search(screen.getvalue())) != no_colour
    assert "fails" in screen.getvalue()


def test_nothing_that_is_piped_has_colours_or_moves_a_cursor(commands, gossamer, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    calls = [[*name.split(), "--help"] for name in commands]
    calls += [["check", "mushrooms"], ["graph", "ring"], ["budget", "--epsilon", 3, "--horizon", 20], ["theory"]]
    calls += [["run", "mushrooms", "--steps", 5, "--learners", 3], ["run", "mushroms"], ["--version"], []]
    for words in calls:
        _, out, err = gossamer(*words)
        assert "\x1b" not in out + err, words
        assert out + err, words


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "mushrooms", "--eps", 3], "No such option: --eps; perhaps --epsilon is meant; see gossamer run"),
        (["run", "mushrooms", "--stpes", 3], "No such option: --stpes; perhaps --steps is meant; see gossamer run"),
        (["budget", "--law", "gausian"], "perhaps gaussian is meant; see gossamer budget --help."),
        (["theory", "quadratc"], "quadratc: expected one of quadratic, convex, mushrooms, schedules; perhaps"),
        (["frontir"], "No such command 'frontir'; perhaps frontier is meant; see gossamer --help."),
        (["peers", "statu"], "No such command 'statu'; perhaps status is meant; see gossamer peers --help."),
    ],
)  # fmt: skip
def test_a_word_that_is_not_known_is_answered_with_the_near_one(words, says, gossamer):
    code, out, err = gossamer(*words)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_near_options_are_those_that_start_so_before_those_that_look_so():
    assert near_option("--eps", ["--steps", "--epsilons", "--epsilon"]) == "perhaps --epsilon is meant"
    assert near_option("--", ["--steps"]) == ""
    assert near_option("--zzz", ["--steps", "-v"]) == ""


@pytest.mark.parametrize(
    "words", [["theory"], ["graph"], ["predict"], ["export"], ["peers", "up"], ["peer", "run"], []]
)
def test_a_command_without_what_it_is_about_shows_its_help(words, gossamer):
    code, out, err = gossamer(*words)
    assert (code, err) == (2, "")
    assert out.startswith("Usage: ")
    assert "--help" in out


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (59.6, "1 min"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (7205, "2 h"), (3.7e5, "4 d 6 h")],
)  # fmt: skip
def test_durations_are_said_as_people_say_them(seconds, said):
    assert lasting(seconds) == said
