"""`gossamer theory`: what the theorems predict, against what happens."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Literal

import typer
from rich.markup import escape
from rich.table import Table

from gossamer.cli.json_output import console_beside, json_file, json_option, put_json
from gossamer.cli.output import check_place, command_line
from gossamer.cli.watch import counted, undisturbed
from gossamer.errors import BadValue, GossamerError
from gossamer.experiments import theory as study
from gossamer.experiments import theory_mushrooms as mushrooms
from gossamer.experiments.pages import Page
from gossamer.experiments.theory_mushroom_words import tell_mushrooms
from gossamer.experiments.theory_schedules import tell_schedules
from gossamer.experiments.theory_words import tell_convex, tell_quadratic

SHOWN = 6  # columns of the page's table that a terminal has room for
What = Literal["quadratic", "convex", "mushrooms", "schedules"]


def theory(
    what: What = typer.Argument(
        metavar="quadratic|convex|mushrooms|schedules",
        help="The problem to measure on; or 'schedules': the exponents with the fastest proved rate, or the most room "
        "for a finite budget.",
    ),
    rounds: int | None = typer.Option(None, min=200, help="Rounds [default: by effort]."),
    seeds: int | None = typer.Option(None, min=2, help="Seeds [default: by effort]."),
    noise: float | None = typer.Option(
        None, help=f"Of the quadratic: the first scale of the noise on messages [default: {study.NOISE:g}]."
    ),
    seed: int = typer.Option(0, min=0, help="Where the random numbers start."),
    quick: bool = typer.Option(False, "--quick", help="Fewer rounds and seeds: a first look, in about half a minute."),
    out: Path = typer.Option(Path("gossamer-theory"), help="Folder for the page, its numbers and its pictures."),
    json: str | None = json_option("all numbers, those of results.json in the folder,"),
) -> None:
    """Measure how fast Algorithm 1 converges and what it costs, against what the theorems say.

    \b
    gossamer theory quadratic --quick
    gossamer theory convex
    gossamer theory schedules
    """
    check_place(out / "results.json")
    json_file(json)
    with counted("theory", kept=False) as progress:
        page = _page(what, rounds, seeds, noise, seed, quick, progress)
    with undisturbed():
        page.write(out, command_line())
        put_json(json, page.results(command_line()))
    console = console_beside(json)
    head, *body = page.rows
    table = Table(*head[:SHOWN], box=None, header_style="bold", pad_edge=False)
    for row in body:
        table.add_row(*map(escape, row[:SHOWN]))
    console.print(table)
    for sentence in page.findings:
        console.print(escape(sentence), highlight=False)
    console.print(f"Numbers, pictures and words: {escape(str(out))}", highlight=False)


def _page(
    what: What, rounds: int | None, seeds: int | None, noise: float | None, seed: int, quick: bool,
    progress: study.Progress,
) -> Page:  # fmt: skip
    if what == "quadratic":
        effort = _effort(study.QUICK if quick else study.FULL, rounds, seeds)
        scale = study.NOISE if noise is None else noise
        if not 0 < scale < math.inf:
            raise BadValue("noise", scale, "expected a finite number above 0")
        return tell_quadratic(study.run_quadratic(effort, progress, noise=scale, seed=seed), effort, seed)
    if noise is not None:
        raise GossamerError("--noise is for gossamer theory quadratic: leave it out.")
    if what == "convex":
        effort = _effort(study.QUICK if quick else study.CONVEX_FULL, rounds, seeds)
        return tell_convex(study.run_convex(effort, progress, seed=seed), effort, seed)
    if what == "mushrooms":
        effort = _effort(mushrooms.QUICK if quick else mushrooms.FULL, rounds, seeds)
        return tell_mushrooms(mushrooms.run_mushrooms(effort, progress, seed), effort, seed)
    if {rounds, seeds} != {None}:
        raise GossamerError("gossamer theory schedules runs nothing: leave --rounds and --seeds out.")
    return tell_schedules(steps=4 if quick else 12)


def _effort(usual: study.Effort, rounds: int | None, seeds: int | None) -> study.Effort:
    """The usual one with as many rounds and seeds as are asked for; slopes are fitted over the same share of log t."""
    length = rounds or usual.rounds
    return replace(usual, rounds=length, seeds=seeds or usual.seeds, since=min(usual.since, length // 10))
