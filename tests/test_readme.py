"""The code that README and CONTRIBUTING show is run as it stands."""

from __future__ import annotations

import contextlib
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs
from conftest import leave_undrawn
from gossamer.algorithms import METHODS
from gossamer.cli.commands import main as run_command

ROOT = Path(__file__).parents[1]


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_readmes_data_frame_is_learnt_in_twelve_lines(tmp_path, monkeypatch, capsys):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    code = examples("README.md")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    names: dict[str, object] = {}
    exec(code, names)
    assert "private: exact gaussian noise" in capsys.readouterr().out
    assert names["again"].epsilon_ <= 3


def test_the_readmes_example_runs_in_ten_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = examples("README.md")[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    names: dict[str, object] = {}
    exec(code, names)
    assert re.match(r"accuracy 0\.9\d\d, .*not private", capsys.readouterr().out)
    assert (tmp_path / "run.png").stat().st_size > 10_000


def test_the_readmes_private_example_keeps_its_budget(capsys):
    *_, code = examples("README.md")
    names: dict[str, object] = {}
    exec(code, names)
    assert re.match(r"accuracy 0\.9\d\d, ε = 1\.00, private: exact gaussian noise", capsys.readouterr().out)
    assert names["run"].epsilon.shape == (10,)
    assert names["run"].epsilon.dtype.names == ("spent", "for_ever")


def own_data_commands() -> list[tuple[list[str], float]]:
    """README's commands on its own CSV files, each with the accuracy that it says."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("## Your own data")[1].split("## In Python")[0]
    lines = re.findall(r"^    gossamer (.*)$", text.replace("\\\n", " "), flags=re.MULTILINE)
    pairs = [re.split(r"  +# accuracy ", line) for line in lines]
    return [(shlex.split(words), float(said)) for words, said in pairs]


def test_the_readmes_own_data_reach_the_accuracy_that_it_says(tmp_path, monkeypatch, capsys):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    leave_undrawn(monkeypatch)
    commands = own_data_commands()
    assert [words[0] for words, _ in commands] == ["run", "run", "predict"]
    for words, said in commands:
        monkeypatch.setattr(sys, "argv", ["gossamer", *words])
        with contextlib.suppress(SystemExit):
            run_command()
        told = capsys.readouterr()
        shown = re.search(r"[Aa]ccuracy (0\.\d+) on", told.out + told.err)
        assert shown, told
        assert abs(float(shown[1]) - said) < 0.015, words
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 501


def test_the_examples_visits_are_what_their_program_makes(tmp_path):
    copy = tmp_path / "make_visits.py"
    copy.write_text((ROOT / "examples/make_visits.py").read_text())
    subprocess.run([sys.executable, copy], check=True)
    for name in ("visits.csv", "new-visits.csv"):
        assert (tmp_path / name).read_bytes() == (ROOT / "examples" / name).read_bytes()


@pytest.fixture
def contributed(tmp_path, monkeypatch):
    """All that CONTRIBUTING shows as modules of a user's own, forgotten again afterwards."""
    for k, code in enumerate(examples("CONTRIBUTING.md")):
        (tmp_path / f"contributed{k}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield [f"contributed{k}" for k in range(len(examples("CONTRIBUTING.md")))]
    for name in [name for name in sys.modules if name.startswith("contributed")]:
        del sys.modules[name]


def test_the_code_of_contributing_is_typed(tmp_path, contributed):
    files = [tmp_path / f"{name}.py" for name in contributed]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *files], cwd=ROOT, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout


def test_the_algorithm_of_contributing_reaches_the_optimum_and_passes_the_suite(contributed):
    my_push_pull = importlib.import_module(contributed[0]).my_push_pull
    rng = np.random.default_rng(0)
    X, truth = rng.normal(size=(4, 30, 2)), rng.normal(size=(4, 2))
    stream = gs.streams.from_arrays(X, np.einsum("irn,in->ir", X, truth), per_round=30)
    algorithm, model = my_push_pull(gs.decay(0.05, 0.0)), gs.RidgeRegression(l2=0.1)
    run = gs.simulate(algorithm, gs.Network.ring(4), stream, model=model, steps=2000)
    assert np.abs(run.theta - run.optimum).max() < 1e-10, "constant step and no noise: the exact optimum"
    assert gs.check_algorithm(my_push_pull(gs.decay(0.1, 0.0)))


def test_what_contributing_shows_can_be_named_in_the_command(contributed, gossamer, tmp_path):
    code, _, err = gossamer(
        "run", f"{contributed[1]}:diagonal", "--split", "by-class", "--algorithm", f"{contributed[0]}:my_push_pull",
        "--step", "0.05,0", "--noise", "0", "--steps", 20, "--out", "line",
    )  # fmt: skip
    assert code == 0, err
    assert gs.Record.load(tmp_path / "line").config["algorithm"]["name"] == "my_push_pull"
    code, _, err = gossamer(
        "run", f"{contributed[1]}:diagonal", "--model", f"{contributed[2]}:make_hidden", "--step", "0.1,0.6",
        "--noise", "0", "--steps", 3, "--out", "hidden",
    )  # fmt: skip
    assert code == 0, err
    assert "one hidden layer" in gs.Record.load(tmp_path / "hidden").config["model"]
    assert "my_push_pull" not in METHODS.entries(), "a user's own is known by its module, and clashes with no name"


def test_the_readme_names_the_two_commands_and_its_pictures_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
