"""`gossamer frontier`: what privacy costs, for every method and kind of noise, as one picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli.output import check_place, command_line, save_picture
from gossamer.cli.parse import methods_of
from gossamer.cli.settings import RIDGE, Dataset, Split
from gossamer.cli.watch import counted, undisturbed
from gossamer.errors import GossamerError
from gossamer.experiments import METHODS, Frontier, Problem, Runs, features
from gossamer.experiments import frontier as traced
from gossamer.experiments.catalogue import COMPARED
from gossamer.experiments.frontier import DELTA, FULL, KINDS, QUICK, USUAL
from gossamer.files import replace_file
from gossamer.report.frontier import draw_frontier
from gossamer.run_record import plain
from gossamer.version import __version__


def frontier(
    dataset: Dataset = typer.Argument(help="The built-in data."),
    methods: str | None = typer.Option(None, help=f"Some of {', '.join(METHODS)} [default: all but the last]."),
    split: Split = typer.Option(Split.iid, help="Data alike for all learners, or mostly one class each."),
    l2: float | None = typer.Option(None, help=f"Ridge penalty l2/2 ‖θ‖² [default: {RIDGE:g}]."),
    graph: str = typer.Option("paper", help="Network file or name, see 'gossamer graph'."),
    jobs: int | None = typer.Option(None, min=1, help="Processes [default: one for each core]."),
    quick: bool = typer.Option(False, "--quick", help="Three budgets, a hundred rounds: a first look."),
    full: bool = typer.Option(False, "--full", help="Eleven budgets and five seeds: an hour or more on two cores."),
    out: Path = typer.Option(Path("gossamer-frontier"), help="Folder; what is there already is not run again."),
) -> None:
    """Draw final accuracy and optimality gap against ε, from 0.1 to 10000; of images, a table at ε = 2, 8 and ∞.

    \b
    gossamer frontier mushrooms --quick
    gossamer frontier mushrooms --methods ldp_gradient_tracking,dsgd
    gossamer frontier mnist
    """
    if quick and full:
        raise GossamerError("--quick and --full: give one of them.")
    check_place(out / "results.json")
    if dataset is not Dataset.mushrooms:
        if l2 is not None or graph != "paper" or full:
            raise GossamerError("--l2, --graph and --full are not for images: leave them out.")
        _images(dataset, methods_of(methods, features.COMPARED), split, jobs, quick, out)
        return
    names = methods_of(methods, COMPARED)
    problem = Problem(dataset.value, split.value, graph=graph, l2=RIDGE if l2 is None else l2)
    problem.network(problem.stream(0).learners)
    effort = QUICK if quick else FULL if full else USUAL
    with counted("frontier") as progress:
        found = traced(problem, Runs(out, jobs, progress), effort, names)
    with undisturbed():
        _write(found, out)
    console = Console()
    for sentence in findings(found):
        console.print(escape(sentence), highlight=False)
    console.print(f"Numbers and pictures: {escape(str(out))}", highlight=False)


def _images(dataset: Dataset, methods: tuple[str, ...], split: Split, jobs: int | None, quick: bool, out: Path) -> None:
    effort = features.QUICK if quick else features.USUAL
    with counted("frontier") as progress:
        found = features.feature_study(dataset.value, Runs(out, jobs, progress), effort, methods, split.value)
    page = features.markdown(found, command_line())
    with undisturbed():
        replace_file(out / "results.json", (json.dumps(plain(features.results(found, command_line()))) + "\n").encode())
        replace_file(out / "README.md", page.encode())
    console = Console()
    table = Table("method", "ε", "images a round", "λ0", "test accuracy", box=None, header_style="bold", pad_edge=False)
    for cell in found.cells:
        accuracy = f"{np.mean(cell.accuracies):.3f} ({min(cell.accuracies):.3f}–{max(cell.accuracies):.3f})"
        table.add_row(METHODS[cell.method].label, f"{cell.epsilon:g}", str(cell.per_round), f"{cell.step:g}", accuracy)
    console.print(table)
    console.print(f"Numbers and words: {escape(str(out))}", highlight=False)


def _write(found: Frontier, out: Path) -> None:
    points = [
        {
            "method": p.method,
            "noise": p.kind,
            "epsilon": p.epsilon,
            "delta": DELTA if "Gaussian" in p.kind else 0.0,
            "step": p.step,
            "accuracy": p.final("accuracy", float("nan")),
            "optimality_gap": p.final("optimality_gap", float("nan")),
        }
        for p in found.points
    ]
    about: dict[str, Any] = {"version": __version__, "command": command_line(), "problem": found.problem.settings()}
    about |= {"steps": found.effort.steps, "grid": list(found.effort.grid), "points": points}
    replace_file(out / "results.json", (json.dumps(plain(about)) + "\n").encode())
    for name, file, label, worst in (
        ("accuracy", "accuracy.png", "final accuracy, mean over learners and seeds", 0.0),
        ("optimality_gap", "gap.png", "final excess loss, mean F(θᵢ) − F(θ*)", float("nan")),
    ):
        save_picture(draw_frontier(*_panels(found, name, worst), label=label, log=name != "accuracy"), out / file)
    lines = ["# What privacy costs", "", f"    {command_line()}        # version {__version__}", ""]
    lines += ["![Accuracy against ε](accuracy.png)", "", "![Optimality gap against ε](gap.png)", "", *_table(found), ""]
    lines += [f"- {sentence}" for sentence in findings(found)]
    replace_file(out / "README.md", ("\n".join(lines) + "\n").encode())


def _panels(found: Frontier, name: str, worst: float) -> tuple[dict[str, dict[str, Any]], str]:
    methods = list(dict.fromkeys(p.method for p in found.points))
    panels = {
        kind: {METHODS[m].label: found.curve(m, kind, name, worst) for m in methods}
        for kind in dict.fromkeys(p.kind for p in found.points)
    }
    return panels, f"{found.problem.data}, {found.problem.split}, one pass of {found.effort.steps} rounds"


def _table(found: Frontier) -> list[str]:
    """Mean accuracy by method and kind of noise, one column for each ε."""
    epsilons = sorted({p.epsilon for p in found.points})
    lines = [
        "| method | noise | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " |",
        "|---" * (len(epsilons) + 2) + "|",
    ]
    for method in dict.fromkeys(p.method for p in found.points):
        for kind in KINDS:
            x, rows = found.curve(method, kind, "accuracy", float("nan"))
            if len(x):
                cells = [f"{v:.3f}" if np.isfinite(v) else "–" for v in rows.mean(axis=0)]
                lines.append(f"| {METHODS[method].label} | {kind} | " + " | ".join(cells) + " |")
    return lines


def findings(found: Frontier) -> list[str]:
    """For every kind of noise, who is best at each ε; and from which ε on a kind is useful at all."""
    said = []
    for kind in dict.fromkeys(p.kind for p in found.points):
        for epsilon in sorted({p.epsilon for p in found.points}):
            cell = [p for p in found.points if (p.kind, p.epsilon) == (kind, epsilon)]
            best = max(cell, key=lambda p: float(np.mean(p.final("accuracy", 0.0))))
            score = float(np.mean(best.final("accuracy", 0.0)))
            start = next((r["accuracy"][0] for p in cell for r in p.runs if not r["diverged"]), 0.0)
            who = f"best is {METHODS[best.method].label}, {score:.3f}" if score > start else "no method beats its start"
            said.append(f"{kind}, ε = {epsilon:g}: {who} (θ = 0 has {start:.3f}).")
    return said
