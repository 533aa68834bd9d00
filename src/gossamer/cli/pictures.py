"""`gossamer compare mnist|cifar10`: Figures 3 and 4, in one folder of numbers, pictures and words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli.output import command_line, save_picture
from gossamer.cli.parse import methods_of
from gossamer.cli.prepare import CSV_OPTIONS, pictures_of
from gossamer.cli.settings import DEFAULTS, Kind, Settings
from gossamer.cli.watch import counted, undisturbed
from gossamer.errors import GossamerError
from gossamer.experiments import Runs, picture_words
from gossamer.experiments.pictures import (
    NAMES,
    PAPERS_METHODS,
    QUICK,
    USUAL,
    PictureComparison,
    Pictures,
    compare_pictures,
)
from gossamer.experiments.words import budget, epsilon
from gossamer.files import replace_file
from gossamer.report.bands import draw_bands
from gossamer.types import Array

YLABELS = {"accuracy": "test accuracy, mean over the learners", "train_accuracy": "training accuracy, likewise"}
TESTED = 200  # images of a quick comparison: with all of them, looking would take longer than learning
APART = {"published": ", published step and noise", "published noise": ", published noise"}


def compare_images(
    settings: Settings, methods: str | None, steps: int | None, seeds: int | None, quick: bool, out: Path
) -> None:
    """Run, or go on with, the comparison, and write what it says."""
    problem = _problem(settings, quick)
    names = methods_of(methods, PAPERS_METHODS)
    plan = QUICK if quick else USUAL
    plan = replace(plan, steps=steps or plan.steps, seeds=seeds or plan.seeds)
    plan = replace(plan, tuning_rounds=min(plan.tuning_rounds, plan.steps))
    with counted("compare") as progress:
        found = compare_pictures(problem, Runs(out, 1, progress), plan, names)  # one device: one run at a time
    with undisturbed():
        _write(found, out)
    _show(found, out)


def _problem(settings: Settings, quick: bool) -> Pictures:
    for option in (*CSV_OPTIONS, "rows", "l2", "clip", "learners"):
        if getattr(settings, option) != getattr(DEFAULTS, option):
            raise GossamerError(f"--{option.replace('_', '-')} is not for comparing on images: leave it out.")
    problem = pictures_of(settings, Kind.cnn if quick else Kind.resnet18)
    problem.network()  # refuses here, before any work
    return replace(problem, tested=TESTED) if quick else problem


def _write(found: PictureComparison, out: Path) -> None:
    replace_file(out / "results.json", (json.dumps(picture_words.results(found, command_line())) + "\n").encode())
    replace_file(out / "README.md", picture_words.markdown(found, command_line()).encode())
    name = NAMES[found.problem.data]
    title = f"{name}, ResNet-18" if found.problem.net == "resnet18" else f"{name}, a small CNN"
    title += (
        f", {found.problem.split}, {found.problem.graph}: simulated noise of the scale that would cost "
        f"ε = {budget(found.epsilon)} for a round's images; {_seeds(found.plan.seeds)}"
    )
    for quantity, file in picture_words.FILES.items():
        figure = draw_bands(
            curves_of(found, quantity), ylabel=YLABELS[quantity], title=title, dashed=_dashed(found), yscale="logit"
        )
        save_picture(figure, out / file)


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"mean and range of {count} seeds"


def _dashed(found: PictureComparison) -> dict[str, str]:
    return {e.label + APART[e.which]: e.label for e in found.entries if e.which in APART}


def curves_of(found: PictureComparison, name: str) -> dict[str, tuple[Array, Array]]:
    curves = {}
    for entry in found.entries:
        if (curve := entry.curve(name)) is not None:
            curves[entry.label + APART.get(entry.which, "")] = curve
    return curves


def _show(found: PictureComparison, out: Path) -> None:
    console = Console()
    table = Table("method", "step", "λ0", "test", "training", "ε", box=None, header_style="bold", pad_edge=False)
    for which in ("best", *APART):
        for entry in picture_words.ranking(found, which):
            shown = [f"{picture_words.final(entry, name):.3f}" for name in picture_words.FILES]
            table.add_row(escape(entry.label), which, f"{entry.step:.2g}", *shown, epsilon(entry))
    console.print(table)
    for sentence in picture_words.findings(found):
        console.print(escape(sentence), highlight=False)
    console.print(f"Numbers, pictures and words: {escape(str(out))}", highlight=False)
