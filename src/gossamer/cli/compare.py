"""`gossamer compare`: every method at the same ε, tuned alike, in one folder of numbers, pictures and words."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli import options, parse
from gossamer.cli.output import check_place, command_line, save_picture
from gossamer.cli.pictures import compare_images
from gossamer.cli.prepare import CSV_OPTIONS, check_network_options, csv_arguments
from gossamer.cli.settings import DEFAULTS, Dataset, Rows, Settings, Split
from gossamer.cli.watch import counted, undisturbed
from gossamer.errors import GossamerError
from gossamer.experiments import Problem, Runs, words
from gossamer.experiments import compare as compared
from gossamer.experiments.catalogue import COMPARED, METHODS
from gossamer.experiments.compare import FULL, QUICK, TUNING, USUAL, Comparison, Plan
from gossamer.files import replace_file
from gossamer.report.bands import draw_bands
from gossamer.setting import full_rounds

SHOWN = {"tracking_error": "‖θ − θ*‖", "optimality_gap": "excess loss", "accuracy": "accuracy"}
PUBLISHED = ", published step and noise"
FIGURES = {
    "fig2a.png": ("tracking_error", "mean distance to the optimum, ‖θᵢ − θ*‖"),
    "fig2b.png": ("optimality_gap", "mean excess loss, F(θᵢ) − F(θ*)"),
}


def compare(
    dataset: Dataset | None = typer.Argument(None, help="The built-in data to compare on."),
    methods: str | None = typer.Option(
        None, help=f"Some of {', '.join(METHODS)} [default: all but the last, a misuse that is kept as an ablation]."
    ),
    norm: options.Normalisation = None,
    stem: options.FirstLayer = None,
    device: options.Device = "cpu",
    bf16: options.Bf16 = False,
    epsilon: float | None = typer.Option(
        None,
        help="ε of every learner over the whole run [default: Algorithm 1's largest under its published settings].",
    ),
    split: Split = typer.Option(Split.iid, help="Data alike for all learners, or mostly one class each."),
    rows: Rows = typer.Option(Rows.raw, help="Mushrooms as they are, or scaled to ‖a‖₁ = 1 or ‖a‖₂ = 1."),
    regression: bool = typer.Option(False, "--regression", help="A made-up linear regression instead of a dataset."),
    csv: options.Csv = None,
    target: options.Target = None,
    split_by: options.SplitBy = None,
    categorical: options.Categorical = [],  # noqa: B006, typer makes a new list for every call
    categories: options.Categories = [],  # noqa: B006
    classes: options.Classes = None,
    drop: options.Drop = [],  # noqa: B006
    range_: options.Range = [],  # noqa: B006
    per_round: options.PerRound = None,
    model: options.Model = None,
    learners: options.Learners = None,
    l2: options.L2 = None,
    clip: options.Clip = None,
    graph: options.Graph = None,
    steps: int | None = typer.Option(
        None, min=2, help="Rounds [default: 200, 1000 or 2000, by effort; images 30 or 1500]."
    ),
    seeds: int | None = typer.Option(
        None, min=1, max=TUNING, help="Seeds that are reported [default: 3, 5 or 20, by effort; images 1 or 3]."
    ),
    jobs: int | None = typer.Option(None, min=1, help="Processes [default: one for each core]."),
    quick: bool = typer.Option(
        False, "--quick", help="A first look, in about a minute or two, images three on one core."
    ),
    full: bool = typer.Option(False, "--full", help="The whole study, in about an hour on two cores."),
    out: Path = typer.Option(Path("gossamer-compare"), help="Folder; what is there already is not run again."),
) -> None:
    """Compare methods at the same ε, each tuned alike, as in Figures 2, 3 and 4 of the paper.

    \b
    gossamer compare mushrooms --quick
    gossamer compare mushrooms --full --split by-class
    gossamer compare mnist --device cuda --bf16
    gossamer compare --csv visits.csv --target ill --classes 0,1 --range age=0:120 --epsilon 20
    """
    if quick and full:
        raise GossamerError("--quick and --full: give one of them.")
    check_place(out / "results.json")
    settings = Settings(
        csv=str(csv) if csv else None, target=target, split_by=split_by, categorical=parse.names(categorical),
        categories=categories, classes=classes, drop=parse.names(drop), range=parse.names(range_), per_round=per_round,
        model=model.value if model else None, l2=l2, clip=clip, learners=learners, dataset=dataset, graph=graph,
        split=split.value, rows=rows.value, norm=norm.value if norm else None, stem=stem.value if stem else None,
        device=device, bf16=bf16,
    )  # fmt: skip
    if settings.images:
        if regression or epsilon is not None or jobs is not None or full:
            raise GossamerError("--regression, --epsilon, --jobs and --full are not for images: leave them out.")
        compare_images(settings, methods, steps, seeds, quick, out)
        return
    check_network_options(settings)
    problem = problem_of(dataset, settings, regression, split, rows, graph)
    plan = _plan(QUICK if quick else FULL if full else USUAL, problem, steps, seeds)
    if epsilon is not None and not 0 < epsilon < math.inf:
        raise GossamerError(f"--epsilon {epsilon:g}: expected a finite number above 0.")
    names = parse.methods_of(methods, COMPARED)
    with counted("compare") as progress:
        found = compared(problem, Runs(out, jobs, progress), plan, names, epsilon)
    with undisturbed():
        _write(found, out)
    _show(found, out)


def problem_of(
    dataset: Dataset | None, settings: Settings, regression: bool, split: Split, rows: Rows, graph: str | None
) -> Problem:
    _check_options(settings, split, rows, regression)
    given = [what for what in (dataset, settings.csv, regression or None) if what is not None]
    if len(given) != 1:
        raise GossamerError(
            "what to compare on: give the dataset 'mushrooms', --csv FILE --target COLUMN, or --regression."
        )
    if settings.csv is not None:
        problem = Problem(
            "csv", l2=settings.ridge, clip=settings.clip, csv=csv_arguments(settings, settings.learners or 10)
        )
    elif regression:
        problem = Problem(
            "regression", split.value, l2=settings.ridge, clip=1.0 if settings.clip is None else settings.clip
        )
    else:
        problem = Problem("mushrooms", split.value, rows.value, l2=settings.ridge, clip=settings.clip)
    m = problem.stream(0).learners
    problem = replace(problem, graph=graph or ("paper" if m == 10 else "random"))
    problem.network(m)  # refuses here, before any work
    return problem


def _check_options(settings: Settings, split: Split, rows: Rows, regression: bool) -> None:
    """Nothing that was said may be ignored."""
    wrong = []
    if settings.csv is None:
        wrong = [o for o in (*CSV_OPTIONS, "model", "learners") if getattr(settings, o) != getattr(DEFAULTS, o)]
    elif split is not Split.iid:
        wrong = ["split"]
    if (settings.csv is not None or regression) and rows is not Rows.raw:
        wrong.append("rows")
    if wrong:
        what = "--csv FILE" if settings.csv is None and wrong != ["rows"] else "the mushrooms"
        raise GossamerError(f"--{wrong[0].replace('_', '-')} is for {what}: leave it out.")
    if settings.clip is not None and not 0 < settings.clip < math.inf:
        raise GossamerError(f"--clip {settings.clip:g}: expected a finite number above 0.")


def _plan(effort: Plan, problem: Problem, steps: int | None, seeds: int | None) -> Plan:
    full = full_rounds(problem.stream(0))
    rounds = steps if steps is not None else int(min(effort.steps, full))
    if rounds > full:
        raise GossamerError(f"--steps {rounds}: the data have {full:g} full rounds; use --steps {full:g} or fewer.")
    return replace(effort, steps=rounds, seeds=seeds or effort.seeds)


def _write(found: Comparison, out: Path) -> None:
    replace_file(out / "results.json", (json.dumps(words.results(found, command_line())) + "\n").encode())
    replace_file(out / "README.md", words.markdown(found, command_line()).encode())
    for file, (name, ylabel) in FIGURES.items():
        title = (
            f"{found.problem.data}, {found.problem.split}, {found.problem.graph}: simulated noise of the scale that "
            f"would cost ε = {words.budget(found.epsilon)}; mean and 90 % of the seeds"
        )
        save_picture(
            draw_bands(curves_of(found, name), ylabel=ylabel, title=title, dashed=_published(found)), out / file
        )


def _published(found: Comparison) -> dict[str, str]:
    return {e.label + PUBLISHED: e.label for e in found.entries if e.which == "published"}


def curves_of(found: Comparison, name: str) -> dict[str, tuple[Any, Any]]:
    """As in the paper: Algorithm 1 and Push–Pull under the published noise, all methods at their best step."""
    curves = {}
    for which, tail in (("best", ""), ("published", PUBLISHED)):
        for entry in found.entries:
            if entry.which == which and (curve := entry.curve(name)) is not None:
                curves[entry.label + tail] = curve
    return curves


def _show(found: Comparison, out: Path) -> None:
    console = Console()
    table = Table("method", "step", "λ0", *SHOWN.values(), "ε", box=None, header_style="bold", pad_edge=False)
    for entry in [*words.ranking(found), *(e for e in found.entries if e.which == "published")]:
        errors = [f"{np.mean(entry.final(name)):.3g}" for name in SHOWN]
        table.add_row(entry.label, entry.which, f"{entry.step:.3g}", *errors, words.epsilon(entry))
    console.print(table)
    for sentence in words.findings(found):
        console.print(escape(sentence), highlight=False)
    console.print(f"Numbers, pictures and words: {escape(str(out))}", highlight=False)
