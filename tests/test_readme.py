"""The code that README and CONTRIBUTING show is run as it stands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs
from gossamer.cli import main as gossamer

ROOT = Path(__file__).parents[1]


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def example(page: str) -> str:
    (code,) = examples(page)
    return code


def test_the_readmes_example_runs_in_ten_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = examples("README.md")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    names: dict[str, object] = {}
    exec(code, names)
    assert re.match(r"accuracy 0\.9\d\d, .*not private", capsys.readouterr().out)
    assert (tmp_path / "run.png").stat().st_size > 10_000


def test_the_readmes_private_example_keeps_its_budget(capsys):
    _, code = examples("README.md")
    names: dict[str, object] = {}
    exec(code, names)
    assert re.match(r"accuracy 0\.[89]\d\d, ε = 8\.00, private: exact gaussian noise", capsys.readouterr().out)
    assert names["run"].epsilon.shape == (10, 2)


def test_the_privacy_pages_example_shows_a_ledger_and_draws_noise(capsys):
    names: dict[str, object] = {}
    exec(example("docs/privacy.md"), names)
    ledger = names["ledger"]
    assert 0 < ledger.get_epsilon() < 8
    assert ledger.get_epsilon() + ledger.remaining() == pytest.approx(8)
    assert ledger.epsilon_at(2000) == pytest.approx(8, rel=1e-6)
    shown = capsys.readouterr().out
    assert "after 2000 rounds 8.000, or at δ = 1e-6" in shown


def test_every_command_that_the_pages_show_is_understood(tmp_path, monkeypatch, capsys):
    """In every line `gossamer …` the first unknown option is the one that this test adds."""
    (tmp_path / "visits.csv").write_text("age,ill\n1,0\n")
    monkeypatch.chdir(tmp_path)
    pages = [
        (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ") for page in ("README.md", "docs/privacy.md")
    ]
    lines = [line for page in pages for line in re.findall(r"^    gossamer (.*)$", page, flags=re.MULTILINE)]
    assert len(lines) >= 12
    for line in lines:
        words = shlex.split(re.split(r"  +(?=[a-z])|  +#", line.replace("        ", " "))[0])
        monkeypatch.setattr(sys, "argv", ["gossamer", *words, "--no-such-option"])
        with pytest.raises(SystemExit):
            gossamer()
        assert "No such option: --no-such-option" in capsys.readouterr().err, line


def test_the_algorithm_of_contributing_is_typed_and_reaches_the_optimum_of_a_balanced_network(tmp_path):
    (tmp_path / "my_push_pull.py").write_text(example("CONTRIBUTING.md"), encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", tmp_path / "my_push_pull.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout
    names: dict[str, object] = {}
    exec(example("CONTRIBUTING.md"), names)
    rng = np.random.default_rng(0)
    X, truth = rng.normal(size=(4, 30, 2)), rng.normal(size=(4, 2))
    stream = gs.streams.from_arrays(X, np.einsum("irn,in->ir", X, truth), per_round=30)
    run = gs.simulate(
        names["my_push_pull"](gs.decay(0.05, 0.0)),
        gs.Network.ring(4),
        stream,
        model=gs.RidgeRegression(l2=0.1),
        steps=2000,
    )
    assert np.abs(run.theta - run.optimum).max() < 1e-10, "constant step and no noise: the exact optimum"


def test_the_readme_names_the_two_commands_and_its_pictures_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_the_algorithm_of_the_methods_page_passes_the_suite(capsys):
    exec(example("docs/methods.md"), {})
    assert "limit: distance from argmin Σ f_i" in capsys.readouterr().out


def test_the_algorithm_of_contributing_passes_the_suite():
    names: dict[str, object] = {}
    exec(example("CONTRIBUTING.md"), names)
    assert gs.check_algorithm(names["my_push_pull"](gs.decay(0.1, 0.0)))
