"""Every page of the documentation does what it says: its code runs, its commands are understood."""

from __future__ import annotations

import re
import shlex
import sys

import pytest

from conftest import leave_undrawn
from gossamer.cli.commands import main as run_command
from pages import CODE, PAGES, SHOWN, blocks_of, name_of, run_page, unlike

# What cannot run here, each with the reason that the page itself gives. Nothing else is left out.
NOT_RUN = {
    ("docs/howto/deploy.md", "needs systemd, and root"),
    ("docs/scale.md", "needs a queue of jobs"),
    ("docs/neural.md", "needs the files of MNIST, and two minutes"),
    ("docs/start.md", "installs the package that the tests run in"),
}
# Their blocks are modules of a user's own, and tests/test_readme.py runs, types and checks each of them.
ELSEWHERE = ("README.md", "CONTRIBUTING.md")


@pytest.fixture
def as_user(tmp_path, monkeypatch, capsys):
    """A folder with the examples in it; gossamer, as a function; what was printed."""
    from test_processes import free_ports

    (tmp_path / "examples").symlink_to(PAGES[0].parents[0] / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    leave_undrawn(monkeypatch)
    known = set(sys.modules)

    def command(words):
        ports = ["--port", str(free_ports(10))] if words[:2] == ["peers", "init"] and "--port" not in words else []
        monkeypatch.setattr(sys, "argv", ["gossamer", *words, *ports])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run_command()
        out, err = capsys.readouterr()
        return ended.value.code or 0, err + out

    yield tmp_path, command, lambda: capsys.readouterr().out
    for name in [name for name in sys.modules if name not in known]:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]  # a page's own module


def runs(page):
    return any(block.language in CODE and not block.skipped for block in blocks_of(page))


@pytest.mark.parametrize("page", [p for p in PAGES if runs(p) and name_of(p) not in ELSEWHERE], ids=name_of)
def test_the_code_of_a_page_runs_and_prints_what_is_shown(page, as_user):
    run_page(page, *as_user)


def test_nothing_is_left_out_but_what_is_listed_here():
    languages = {(name_of(page), block.language) for page in PAGES for block in blocks_of(page)}
    assert {language for _, language in languages} <= {*CODE, *SHOWN}, sorted(languages)
    assert {(name_of(page), block.skipped) for page in PAGES for block in blocks_of(page) if block.skipped} == NOT_RUN


def test_code_stands_in_blocks_that_are_run_and_not_in_indented_ones():
    """An indented block is for lists of commands and for equations."""
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.findall(r"^    (?:gs\.|import |from \S+ import|\w+ = gs\.).*", text, flags=re.MULTILINE), page


def test_every_command_that_the_pages_list_is_understood(tmp_path, monkeypatch, capsys):
    """In every indented line `gossamer …` the first unknown option is the one that this test adds."""
    monkeypatch.chdir(tmp_path)
    texts = [page.read_text(encoding="utf-8").replace("\\\n", " ") for page in PAGES]
    lines = {line for text in texts for line in re.findall(r"^    gossamer (.*)$", text, flags=re.MULTILINE)}
    assert len(lines) >= 50
    for line in sorted(lines):
        for one in line.split("; gossamer "):
            plain = re.sub(r" …|\s+or \S+,.*", "", one.replace("        ", " "))
            words = shlex.split(re.split(r"  +(?=[a-zA-Zε])|  +#|  +…", plain)[0], comments=True)
            monkeypatch.setattr(sys, "argv", ["gossamer", *words, "--no-such-option"])
            with pytest.raises(SystemExit):
                run_command()
            assert "No such option: --no-such-option" in capsys.readouterr().err, line


def test_a_page_that_shows_what_is_not_printed_is_found():
    printed = "rounds  10\naccuracy 0.82 on the 7,500 records\nFiles: a.npz"
    assert not unlike("accuracy 0.80 on the 7,400 records", printed)
    assert not unlike("rounds 8\n…\nFiles: …", printed)
    assert unlike("accuracy 0.70 on the 7,500 records", printed) == "accuracy 0.70 on the 7,500 records"
    assert unlike("Files: a.npz\nrounds 10", printed) == "rounds 10", "in this order"
    assert unlike("Files: b.npz", printed)
    assert unlike("rounds 30", printed), "a number that is far off"
