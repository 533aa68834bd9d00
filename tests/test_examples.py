"""The programs and the notebook of examples/ run as they stand."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys

import pytest

import gossamer as gs
from pages import LIMIT, ROOT, unlike

EXAMPLES = ROOT / "examples"
# Programs that this file runs, or tests/test_readme.py does: make_visits.py.
RUN = {
    "estimator_accuracy", "make_visits", "mushrooms", "own_algorithm", "own_csv", "own_frame", "parties",
    "privacy_accuracy",
}  # fmt: skip


@pytest.fixture
def example(monkeypatch):
    """Loads a program of examples/ without running it."""

    def load(name):
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)  # its processes and classes look for it there
        spec.loader.exec_module(module)
        return module

    return load


def test_every_example_is_run_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == RUN
    assert [path.name for path in EXAMPLES.glob("*.ipynb")] == ["first-steps.ipynb"]


def test_own_csv_is_learned_under_its_budget(example, capsys):
    example("own_csv").main()
    shown = capsys.readouterr().out
    accuracy, epsilon = re.match(r"accuracy (0\.\d+), ε = (\d\.\d\d); private: exact gaussian noise", shown).groups()
    assert 0.7 < float(accuracy) < 0.84
    assert epsilon == "3.00"
    assert re.search(r"^age +0\.0\d", shown, flags=re.MULTILINE), "one year more adds a little"


def test_own_frame_is_learned_under_its_budget(example, capsys):
    example("own_frame").main()
    shown = re.fullmatch(
        r"ε = 3\.00; private: exact gaussian noise.*\naccuracy (0\.\d+) on 500 new rows\n", capsys.readouterr().out
    )
    assert 0.8 < float(shown[1]) < 0.87


def test_an_estimators_accuracy_is_measured_beside_scikit_learns(example, monkeypatch, capsys):
    """On 800 visits and at one ε; the whole table takes minutes."""
    module = example("estimator_accuracy")
    X, y, owner, declared = module.tables()["visits"]
    monkeypatch.setattr(module, "tables", lambda: {"visits": (X[:800], y[:800], owner[:800], declared)})
    monkeypatch.setattr(module, "EPSILONS", (8.0,))
    monkeypatch.setattr(module, "CALLS", 2)
    module.main(1)
    shown = capsys.readouterr().out
    assert re.findall(r"^visits +(scikit-learn|.*ε = \w+)", shown, flags=re.MULTILINE) == [
        "scikit-learn", "fit, ε = 8", "partial_fit, ε = inf", "partial_fit, ε = 3",
    ]  # fmt: skip


def test_an_own_algorithm_passes_the_suite_and_keeps_a_budget(example, capsys):
    module = example("own_algorithm")
    module.main()
    shown = capsys.readouterr().out
    assert "limit: distance from argmin Σ f_i" in shown
    assert "private: exact laplace noise" in shown


def test_parties_train_as_processes_and_their_models_predict(tmp_path):
    from test_processes import free_ports

    words = [sys.executable, EXAMPLES / "parties.py", tmp_path, str(free_ports(3))]
    ended = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=LIMIT)
    assert ended.returncode == 0, ended.stderr
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 501
    assert gs.Record.load(tmp_path / "joint").epsilon.spent == pytest.approx([3, 3, 3])


def test_the_papers_experiment_writes_its_numbers(example, tmp_path, monkeypatch):
    """Over 100 rounds instead of 2000; tests/test_mushrooms_experiment.py has the numbers themselves."""
    module, simulate = example("mushrooms"), gs.simulate
    monkeypatch.setattr(gs, "simulate", lambda *parts, steps, **named: simulate(*parts, steps=100, **named))
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", ["mushrooms.py", "1"])
    module.main()
    assert 0.8 < json.loads((tmp_path / "results.json").read_text())["runs"][0]["accuracy"] < 0.99
    assert (tmp_path / "run.png").stat().st_size > 10_000


def test_accuracy_at_matched_budgets_is_measured_and_drawn(example, monkeypatch):
    """One choice of each kind, over few rounds; the whole grid takes hours."""
    module = example("privacy_accuracy")
    monkeypatch.setattr(module, "STEPS", 40)
    found = []
    for name, (law, where) in module.KINDS.items():
        choice = module.choices(where, quick=True)[0]
        reached = module.accuracy((law, where, 10.0, choice, 0))
        assert 0 < reached <= 1, "0 stands for a run that diverged"
        found += [{"noise": name, "epsilon": epsilon, "accuracy": [reached]} for epsilon in module.EPSILONS]
    axes = module.draw(found).axes[0]
    assert len(axes.lines) == 4


def test_the_notebook_runs_and_prints_what_it_shows(tmp_path):
    """Executed in a process of its own, as Jupyter would, and compared lightly with the outputs that it keeps."""
    kept = json.loads((EXAMPLES / "first-steps.ipynb").read_text(encoding="utf-8"))
    done = tmp_path / "done.ipynb"
    program = (
        "import sys, nbformat, nbclient; book = nbformat.read(sys.argv[1], 4);"
        "nbclient.NotebookClient(book, timeout=600).execute(); nbformat.write(book, sys.argv[2])"
    )
    words = [sys.executable, "-c", program, EXAMPLES / "first-steps.ipynb", done]
    ended = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=LIMIT, cwd=EXAMPLES)
    assert ended.returncode == 0, ended.stderr
    now = json.loads(done.read_text(encoding="utf-8"))
    for before, after in zip(_outputs(kept), _outputs(now), strict=True):
        assert [kind for kind, _ in before] == [kind for kind, _ in after]
        for (kind, shown), (_, printed) in zip(before, after, strict=True):
            assert kind == "picture" or not unlike(shown, printed), printed
    pictures = [kind for cell in _outputs(kept) for kind, _ in cell if kind == "picture"]
    assert len(pictures) >= 3, "it tells its story with pictures"
    assert (EXAMPLES / "first-steps.ipynb").stat().st_size < 150_000


def _outputs(notebook):
    return [
        [("picture", "") if "data" in out else ("text", "".join(out["text"])) for out in cell["outputs"]]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]
