"""`gossamer run`: train, watch, and keep what came out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer
from matplotlib.figure import Figure
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli import options, parse
from gossamer.cli.output import check_apart, check_picture, check_place, fresh_folder, save_picture
from gossamer.cli.prepare import delta_of, prepared
from gossamer.cli.settings import (
    CNN_STEP,
    DEFAULTS,
    IMAGE_NOISE,
    IMAGE_STEP,
    OWN_STEP,
    PAPER_NOISE,
    PAPER_STEP,
    Dataset,
    Draw,
    Law,
    Rows,
    Settings,
    Split,
    Where,
    read_settings,
)
from gossamer.cli.watch import undisturbed
from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.report.curves import spent
from gossamer.simulate import Record
from gossamer.simulate.record import NotResumedError, write_json

ERRORS = {"accuracy": "", "tracking_error": "‖θ−θ*‖", "optimality_gap": "F(θ)−F(θ*)"}  # the first: the model's score
USED = "record.npz.resumed"
NEURAL = {"accuracy": "test accuracy", "train_accuracy": "training accuracy", "consensus_error": "‖θ−θ̄‖"}


def run(
    dataset: Dataset | None = typer.Argument(None, help="The built-in data to learn from."),
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
    l2: options.L2 = None,
    clip: options.Clip = None,
    clip_per: options.ClipPer = None,
    learners: options.Learners = None,
    steps: int | None = typer.Option(
        None, min=1, help="Rounds [default: 2000, images 1500; a private run or --gradient latest ends with the data]."
    ),
    graph: options.Graph = None,
    step: str | None = typer.Option(
        None,
        help=f"Step size λ0,v: λ0/(t+1)^v [default: {PAPER_STEP} for mushrooms, {IMAGE_STEP} for images, {CNN_STEP} "
        f"with --model cnn, else and with --epsilon {OWN_STEP}].",
    ),
    noise: str | None = typer.Option(
        None,
        help="Laplace scales ν0/(t+1)^ς as ν0,ς or, evenly over the learners, ν0,ς_first:ς_last; 0 is none "
        f"[default: {PAPER_NOISE}; images: {IMAGE_NOISE}].",
    ),
    epsilon: str | None = typer.Option(
        None,
        help="Private instead: exact noise for this budget ε, one for all learners or one each, in the order of the "
        "table: 1,2,4,…",
    ),
    law: Law = typer.Option(Law.laplace, help="With --epsilon: Laplace noise (pure ε) or Gaussian (ε at --delta)."),
    delta: options.Delta = None,
    where: Where = typer.Option(
        Where.messages, help="With --epsilon: noise on messages, or on the newest records' gradient."
    ),
    horizon: str | None = typer.Option(None, help="With --epsilon: rounds it is meant for, or inf [default: --steps]."),
    rows: options.ScaledRows = Rows.raw,
    strict: bool = typer.Option(
        True,
        help="Refuse --step and --noise that break Assumption 4 (max ς < v < 1, ς > ½); "
        "the paper's own, the default for mushrooms and images, do and are run as published.",
    ),
    gradient: options.Gradient = None,
    draw: Draw | None = typer.Option(
        None,
        help="Built-in records with replacement for ever, or each once [default: random; once with --where source].",
    ),
    split: Split = typer.Option(Split.iid, help="Built-in records alike for all, or unlike mixtures of classes."),
    seed: int = typer.Option(0, min=0, help="Decides the records' order and the simulated noise."),
    evaluate_every: int | None = typer.Option(None, min=1, help="Rounds between evaluations [default: steps/100]."),
    json_file: Path | None = typer.Option(None, "--json", help="Write final and per-evaluation numbers to this file."),
    plot: Path | None = typer.Option(None, help="Draw the run into this .png, .svg or .pdf file."),
    out: Path | None = typer.Option(
        None,
        help="A new folder for record, numbers and picture, and for what is kept on the way "
        "[default: gossamer-run, if no --json or --plot].",
    ),
    norm: options.Normalisation = None,
    stem: options.FirstLayer = None,
    device: options.Device = "cpu",
    bf16: options.Bf16 = False,
    resume: Path | None = typer.Option(None, help="Go on with the stopped run in this folder; --steps may extend it."),
) -> None:
    """Train one model across learners that only talk to their neighbours, with noise on all they send.

    \b
    gossamer run mushrooms                                      the paper's first experiment
    gossamer run mushrooms --step 1,0.8 --steps 5000            within the paper's assumptions
    gossamer run mushrooms --epsilon 8 --where source --rows l1 private, with a proved budget
    gossamer run --csv visits.csv --target ill --split-by hospital --categorical ward
    gossamer run mnist --device cuda --bf16                     the paper's second experiment
    gossamer run --resume gossamer-run                          go on after ctrl-C
    """
    settings = Settings(
        dataset=dataset.value if dataset else None,
        csv=str(csv) if csv else None,
        target=target,
        split_by=split_by,
        categorical=parse.names(categorical),
        categories=categories,
        classes=classes,
        drop=parse.names(drop),
        range=parse.names(range_),
        per_round=per_round,
        model=model.value if model else None,
        l2=l2,
        clip=clip,
        learners=learners,
        steps=steps,
        graph=graph,
        step=step,
        noise=noise,
        epsilon=epsilon,
        law=law.value,
        delta=delta,
        where=where.value,
        horizon=horizon,
        rows=rows.value,
        strict=strict,
        gradient=gradient.value if gradient else None,
        draw=draw.value if draw else None,
        split=split.value,
        seed=seed,
        evaluate_every=evaluate_every,
        clip_per=clip_per.value if clip_per else None,
        norm=norm.value if norm else None,
        stem=stem.value if stem else None,
        device=device,
        bf16=bf16,
    )
    before = None
    if resume is not None:
        settings, before = _stopped_run(resume, settings, out)
        out = resume
    elif out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise GossamerError(f"--out {out} exists already: give a new folder, or go on with --resume {out}.")
    check_apart(csv=csv, graph=Path(graph) if graph else None, out=out, json=json_file, plot=plot)
    for place in (json_file, out / "record.npz" if out else None):
        if place is not None:
            check_place(place)
    if plot is not None:
        check_picture(plot)

    run_it, said = prepared(settings, before)
    made = None if out or json_file or plot else fresh_folder("gossamer-run")
    try:
        folder = out or made
        if before is not None and before.epsilon is not None and resume is not None:
            _use(resume, before)
        record = run_it(None if folder is None else lambda so_far: _checkpoint(so_far, settings, folder))
    except NotResumedError:
        if resume is not None and (resume / USED).exists() and not (resume / "record.npz").exists():
            (resume / USED).replace(resume / "record.npz")  # nothing was sent
        raise
    except BaseException:
        if made is not None and not any(made.iterdir()):
            made.rmdir()
        raise
    out = out or made or (None if record.finished else fresh_folder("gossamer-run"))  # ctrl-C keeps what can be resumed
    with undisturbed():
        written = _keep(record, settings, json_file, plot, out)
        if out is not None:
            (out / USED).unlink(missing_ok=True)
    console = Console()
    _show(console, record, delta_of(settings), said)
    console.print("Files: " + escape(", ".join(map(str, written))), highlight=False, soft_wrap=True)
    if not record.finished:
        asked, again = record.config["steps"], f"gossamer run --resume {out}"
        console.print(f"Stopped at round {record.t} of {asked}; go on with: {escape(again)}", soft_wrap=True)
        raise typer.Exit(130)


def _stopped_run(folder: Path, given: Settings, out: Path | None) -> tuple[Settings, Record]:
    """The settings and record of a stopped run; of what is given beside --resume only --steps may be set."""
    settings = read_settings(folder)
    for field in fields(Settings):
        if field.name != "steps" and getattr(given, field.name) != getattr(DEFAULTS, field.name):
            option = field.name if field.name == "dataset" else f"--{field.name.replace('_', '-')}"
            raise GossamerError(f"--resume goes on with the settings of {folder}: leave {option} out, or start anew.")
    if out is not None:
        raise GossamerError(f"--resume {folder} goes on in that folder: leave --out out.")
    if (folder / USED).exists() and not (folder / "record.npz").exists():
        raise GossamerError(
            f"--resume {folder}: this private run was resumed before and did not come to an end; going on from the "
            "same record would release its state a second time: start anew."
        )
    record = Record.load(folder / "record")
    wanted = given.steps if given.steps is not None else record.config["steps"]
    if given.steps is not None and wanted <= record.t:
        raise GossamerError(f"--steps {wanted}: {record.t} rounds are done; give more than {record.t}.")
    if wanted <= record.t:
        raise GossamerError(f"--resume {folder}: its {record.t} rounds are done; ask for more with --steps.")
    return replace(settings, steps=wanted), record


def _use(folder: Path, record: Record) -> None:
    """Set a private record aside: whoever resumed it again, or at the same time, would release its state again."""
    try:
        (folder / "record.npz").replace(folder / USED)
        with np.load(folder / USED, allow_pickle=False) as stored:
            mine = json.loads(stored["summary"].tobytes()).get("seal", "") == record.seal
    except FileNotFoundError:
        raise GossamerError(
            f"--resume {folder}: its record is gone, as if another command had just resumed it: let that one end."
        ) from None
    if not mine:
        (folder / USED).replace(folder / "record.npz")
        raise GossamerError(
            f"--resume {folder}: another command went on with this run in the meantime: give the command again."
        )


def _show(console: Console, record: Record, delta: float, said: list[str]) -> None:
    table = Table("learner", box=None, header_style="bold", pad_edge=False)
    columns = NEURAL if "train_accuracy" in (record.learners.dtype.names or ()) else ERRORS
    first, *others = columns.values()
    titles = [first or record.config["score"], *others, *_privacy_titles(record, delta)]
    for name in titles:
        table.add_column(name, justify="right")
    names = record.config["stream"].get("names") or range(len(record.learners))
    for name, row, cost in zip(names, record.learners, _privacy_cells(record), strict=True):
        numbers = _numbers(row, columns)
        table.add_row(escape(str(name)), *numbers, *cost)
    table.add_section()
    table.add_row("mean", *_numbers(record.history[-1], columns), "", style="bold")
    console.print(table)
    claim = record.claim.replace("on source", "at the source")
    for sentence in (claim[:1].upper() + claim[1:] + ".", *said, *record.notes):
        console.print(f"[yellow]•[/] {escape(sentence)}", highlight=False)


def _numbers(row: Any, columns: Iterable[str]) -> list[str]:
    return [f"{row[name]:.4f}" if name.endswith("accuracy") else f"{row[name]:.4g}" for name in columns]


def _privacy_titles(record: Record, delta: float) -> list[str]:
    if record.epsilon is None:
        return ["ε"]
    at = f" (δ = {delta:g})" if delta else ""
    noise = ["first noise " + ("σ" if delta else "ν")] if record.config.get("noise") else []
    return [*noise, f"ε{at}", "ε for ever"]


def _privacy_cells(record: Record) -> list[list[str]]:
    """Each learner's noise, where the record knows it, and what it has spent."""
    if record.epsilon is None:
        return [["not private"]] * len(record.learners)
    noise = [[f"{initial:.4g}"] for initial, *_ in record.config.get("noise") or ()] or [[]] * len(record.epsilon)
    spent = [[f"{now:.4g}", "∞" if math.isinf(ever) else f"{ever:.4g}"] for now, ever in record.epsilon]
    return [first + then for first, then in zip(noise, spent, strict=True)]


def _picture(record: Record, delta: float) -> Figure:
    """The run's picture, with what privacy cost in its title."""
    figure = record.plot()
    if record.epsilon is not None:
        title = f"{record.config['title']}, {spent(record.epsilon.spent, delta)}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", parse_math=False)
    return figure


def _checkpoint(record: Record, settings: Settings, folder: Path) -> None:
    """What --resume needs, were the run to end here."""
    replace_file(folder / "settings.json", write_json(asdict(settings)).encode())
    record.save(folder / "record")


def _keep(
    record: Record, settings: Settings, json_file: Path | None, plot: Path | None, out: Path | None
) -> list[Path]:
    written: list[Path] = []
    picture = _picture(record, delta_of(settings)) if out is not None or plot is not None else None
    if out is not None and picture is not None:
        replace_file(out / "settings.json", write_json(asdict(settings)).encode())
        written += [*record.save(out / "record"), out / "settings.json"]
        save_picture(picture, out / "run.png")
        written.append(out / "run.png")
    if json_file is not None:
        replace_file(json_file, write_json(record.summary()).encode())
        written.append(json_file)
    if plot is not None and picture is not None:
        save_picture(picture, plot)
        written.append(plot)
    return written
