"""`gossamer check`: whether the paper's guarantees hold for a run, before anybody runs it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli.bullets import say
from gossamer.cli.json_output import console_beside, json_file, json_option, put_json
from gossamer.cli.options import takes
from gossamer.cli.words import in_command
from gossamer.datasets import Dataset
from gossamer.errors import Sentence
from gossamer.guarantees import guarantees_of
from gossamer.models import Model
from gossamer.networks import Network
from gossamer.networks.checks import BrokenNetwork
from gossamer.records import dense_table
from gossamer.spec.build import (
    build_algorithm,
    build_data,
    build_mechanism,
    build_model,
    build_network,
    build_schedule,
    run_length,
)
from gossamer.spec.description import SETTINGS, Spec
from gossamer.spec.rules import check_privacy, dataset_of, decide_noise, learnt_by, per_round_of, ridge_of
from gossamer.streams import Stream
from gossamer.streams.stream import Draws
from gossamer.theory import Report

COLOURS = {"holds": "green", "fails": "red", "cannot be known": "yellow"}
OF_THEOREMS = {"holds": "applies", "fails": "does not apply", "cannot be known": "cannot be known"}


@takes(*SETTINGS)
def check(
    spec: Spec,
    json: str | None = json_option("the report"),
) -> None:
    """Say which of the paper's assumptions a run meets, and which theorems apply; exit code 1 if one fails.

    It takes the description that `gossamer run` takes, and runs nothing. With --epsilon no record is looked at.

    \b
    gossamer check mushrooms                                    the paper's first experiment, as published
    gossamer check mushrooms --step 1,0.8                       with steps that fade faster than the noise
    gossamer check mnist                                        and its second, without reading an image
    gossamer check --csv visits.csv --target ill --split-by hospital --categorical ward
    """
    json_file(json)
    console = console_beside(json)
    report, refused = checked(spec)
    if refused is not None:
        console.print(f"[yellow]![/] {escape(refused.said(in_command))}", highlight=False, soft_wrap=True)
    show(console, report)
    put_json(json, report.told(in_command))
    if report.verdict == "fails":
        raise typer.Exit(1)


def checked(spec: Spec) -> tuple[Report, Sentence | None]:
    """The report on a described run, and why it would be refused if it were begun, where that is known.

    What breaks Assumption 1 or 4 is reported and not refused.
    """
    spec = spec.but(strict=False)
    check_privacy(spec)
    dataset = dataset_of(spec)
    spec = decide_noise(spec, dataset)
    (stream, model, network), broken = _built(spec, dataset)
    algorithm = build_algorithm(spec, dataset, network.m)
    mechanism = build_mechanism(spec, network.m) if spec.private else None
    steps = spec.length.steps or 1 if stream is None else run_length(spec, dataset, stream)[0]
    gradient: Any = spec.algorithm.gradient
    report = guarantees_of(
        algorithm,
        network,
        stream,
        model,
        mechanism,
        gradient,
        steps,
        look=not spec.private,
        broken=broken,
        changes=build_schedule(spec, network) is not None,
    )
    undeclared = stream.table.undeclared if spec.private and stream is not None else None
    return report, Sentence("`gossamer run` would refuse this: ", undeclared) if undeclared else None


def _built(spec: Spec, dataset: Dataset | None) -> tuple[tuple[Stream | None, Model, Network], Any]:
    """Records, model and network, and the matrices of a network that is refused: another then stands for it."""
    build = _without_images if dataset is not None and learnt_by(spec, dataset).kind.images else build_data
    try:
        return build(spec, dataset), None  # type: ignore[arg-type]
    except BrokenNetwork as error:
        m = error.R.shape[0]
        return build(spec.but(graph="ring", learners=m), dataset), (error.R, error.C)  # type: ignore[arg-type]


def _without_images(spec: Spec, dataset: Dataset) -> tuple[Stream | None, Model, Network]:
    """A network that learns images, none of which is read: nothing that is said depends on one."""
    learnt, network = learnt_by(spec, dataset), build_network(spec, spec.network.learners or 10)
    shape = dataset.shape or (1,)
    blank = dense_table(np.zeros((1, math.prod(shape)), dtype=np.float64), np.zeros(1))
    model = build_model(spec, learnt, shape, blank, ridge_of(spec, learnt.kind, None))
    once = spec.data.draw == "once"
    pools = [np.zeros(1, dtype=np.int64)] * network.m
    return None if once else Draws(blank, pools, 0, per_round_of(spec, dataset) or 1), model, network


def show(console: Console, report: Report) -> None:
    """The report as a table, what to change below it, and the theorems."""
    table = Table("assumption", "", "what was found", box=None, header_style="bold", pad_edge=False)
    for finding in report.findings:
        table.add_row(f"[bold]{finding.assumption} {finding.about}[/]", _coloured(finding.verdict, finding.verdict))
        for part in finding.parts:
            said = f"{part.why.said(in_command)} [{part.how}]"
            table.add_row(f"  {part.name}", _coloured(part.verdict, part.verdict), escape(said))
    console.print(table, highlight=False)
    theorems = Table("theorem", "", "why, and what it says", box=None, header_style="bold", pad_edge=False)
    for one in report.theorems:
        verdict = _coloured(OF_THEOREMS[one.verdict], one.verdict)
        theorems.add_row(f"{one.theorem} {one.says}", verdict, escape(one.why.said(in_command)))
    console.print()
    console.print(theorems, highlight=False)
    for change, where in _changes(report).items():
        name = "Assumption" if len(where) == 1 else "Assumptions"
        said = f"{name} {', '.join(where)}: {change}"
        say(console, said)


def _changes(report: Report) -> dict[str, list[str]]:
    """What to change, and what each change mends."""
    changes: dict[str, list[str]] = {}
    for finding in report.findings:
        for part in finding.parts:
            if part.change is not None and part.verdict != "holds":
                changes.setdefault(part.change.said(in_command), []).append(f"{finding.assumption}{part.label}")
    return changes


def _coloured(text: str, verdict: str) -> str:
    return f"[{COLOURS[verdict]}]{text}[/]"
