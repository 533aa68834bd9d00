"""The code that README and CONTRIBUTING show is run as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import gossamer as gs

ROOT = Path(__file__).parents[1]


def example(page: str) -> str:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    return code


def test_the_readmes_example_runs_in_ten_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = example("README.md")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    names: dict[str, object] = {}
    exec(code, names)
    assert re.match(r"accuracy 0\.9\d\d, .*not private", capsys.readouterr().out)
    assert (tmp_path / "run.png").stat().st_size > 10_000


def test_the_algorithm_of_contributing_is_typed_and_reaches_the_optimum_of_a_balanced_network(tmp_path):
    (tmp_path / "robust_push_pull.py").write_text(example("CONTRIBUTING.md"), encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", tmp_path / "robust_push_pull.py"],
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
        names["robust_push_pull"](0.05), gs.Network.ring(4), stream, model=gs.RidgeRegression(l2=0.1), steps=2000
    )
    assert np.abs(run.theta - run.optimum).max() < 1e-10, "constant step and no noise: the exact optimum"


def test_the_readme_names_the_two_commands_and_its_pictures_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
