"""`gossamer run`: train, watch, and keep what came out."""

from __future__ import annotations

import enum
import json
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from gossamer import datasets
from gossamer.algorithms import ldp_gradient_tracking
from gossamer.cli import parse
from gossamer.cli.output import check_apart, check_picture, check_place, fresh_folder, save_picture
from gossamer.models import LogisticRegression, Model, RidgeRegression, SoftmaxRegression
from gossamer.networks import NAMES, Network, read_network
from gossamer.privacy import Gaussian, Laplace, Mechanism
from gossamer.simulate import Progress, Record, simulate
from gossamer.simulate.record import replace_file, write_json
from gossamer.streams import Stream, from_csv
from gossamer.streams.csv import classes_in
from gossamer.types import GossamerError

PAPER_STEP, PAPER_NOISE = "1,0.6", "1,0.51:0.6"
OWN_STEP, STEPS = "1,0.8", 2000
CLASSES_AT_MOST = 20  # a numeric target with more values than this is taken for a quantity


class Law(enum.StrEnum):
    laplace = "laplace"
    gaussian = "gaussian"


class Where(enum.StrEnum):
    messages = "messages"
    source = "source"


class Rows(enum.StrEnum):
    raw = "raw"
    l1 = "l1"
    l2 = "l2"


class Dataset(enum.StrEnum):
    mushrooms = "mushrooms"


class Kind(enum.StrEnum):
    logistic = "logistic"
    softmax = "softmax"
    ridge = "ridge"


class Gradients(enum.StrEnum):
    history = "history"
    latest = "latest"


class Draw(enum.StrEnum):
    random = "random"
    once = "once"


class Split(enum.StrEnum):
    iid = "iid"
    by_class = "by-class"


@dataclass(frozen=True)
class Settings:
    """All that decides a run; kept in its folder so that it can be resumed."""

    dataset: str | None
    csv: str | None
    target: str | None
    split_by: str | None
    categorical: list[str]
    drop: list[str]
    range: list[str]
    per_round: int
    model: str | None
    l2: float
    learners: int | None
    steps: int | None
    graph: str | None
    step: str | None
    noise: str | None
    epsilon: str | None
    law: str
    delta: float
    where: str
    horizon: str | None
    rows: str
    strict: bool
    gradient: str
    draw: str
    split: str
    seed: int
    evaluate_every: int | None


DEFAULTS = Settings(
    dataset=None,
    csv=None,
    target=None,
    split_by=None,
    categorical=[],
    drop=[],
    range=[],
    per_round=1,
    model=None,
    l2=1e-2,
    learners=None,
    steps=None,
    graph=None,
    step=None,
    noise=None,
    epsilon=None,
    law=Law.laplace,
    delta=1e-5,
    where=Where.messages,
    horizon=None,
    rows=Rows.raw,
    strict=True,
    gradient=Gradients.history,
    draw=Draw.random,
    split=Split.iid,
    seed=0,
    evaluate_every=None,
)


def run(
    dataset: Dataset | None = typer.Argument(None, help="The built-in data to learn from."),
    csv: Path | None = typer.Option(None, help="Learn from your own CSV file instead; needs --target."),
    target: str | None = typer.Option(None, help="The CSV column to predict."),
    split_by: str | None = typer.Option(None, help="A CSV column: one learner per value [default: records in turn]."),
    categorical: list[str] = typer.Option([], help="CSV columns that hold categories: a,b,c; may be repeated."),
    drop: list[str] = typer.Option([], help="CSV columns to leave out: a,b,c; may be repeated."),
    range_: list[str] = typer.Option([], "--range", help="What CSV columns may hold: age=0:120,dose=0:5."),
    per_round: int = typer.Option(1, min=1, help="CSV records that arrive at each learner in a round."),
    model: Kind | None = typer.Option(None, help="The model [default: by the target; logistic for mushrooms]."),
    l2: float = typer.Option(1e-2, help="Ridge penalty l2/2 ‖θ‖²."),
    learners: int | None = typer.Option(None, min=2, help="How many learners [default: the graph's, or 10]."),
    steps: int | None = typer.Option(None, min=1, help="Rounds [default: 2000]."),
    graph: str | None = typer.Option(
        None,
        help="Network file or name, see 'gossamer graph' [default: paper for ten learners, else random].",
    ),
    step: str | None = typer.Option(
        None, help=f"Step size λ0,v: λ0/(t+1)^v [default: {PAPER_STEP} for mushrooms, else {OWN_STEP}]."
    ),
    noise: str | None = typer.Option(
        None,
        help="Laplace scales ν0/(t+1)^ς as ν0,ς or, evenly over the learners, ν0,ς_first:ς_last; 0 is none "
        f"[default: {PAPER_NOISE}].",
    ),
    epsilon: str | None = typer.Option(
        None, help="Private instead: exact noise for this budget ε, one for all learners or one each: 1,2,4,…"
    ),
    law: Law = typer.Option(Law.laplace, help="With --epsilon: Laplace noise (pure ε) or Gaussian (ε at --delta)."),
    delta: float = typer.Option(1e-5, help="With --epsilon: δ of Gaussian noise."),
    where: Where = typer.Option(
        Where.messages, help="With --epsilon: noise on messages, or on the newest records' gradient."
    ),
    horizon: str | None = typer.Option(None, help="With --epsilon: rounds it is meant for, or inf [default: --steps]."),
    rows: Rows = typer.Option(Rows.raw, help="Mushrooms as they are, or scaled to ‖a‖₁ = 1 or ‖a‖₂ = 1."),
    strict: bool = typer.Option(
        True,
        help="Refuse --step and --noise that break Assumption 4 (max ς < v < 1, ς > ½); "
        "the paper's own, the default for mushrooms, do and are run as published.",
    ),
    gradient: Gradients = typer.Option(Gradients.history, help="Over all records so far, or the newest only."),
    draw: Draw = typer.Option(Draw.random, help="Mushrooms with replacement for ever, or each once."),
    split: Split = typer.Option(Split.iid, help="Mushrooms alike for all, or mostly one class each."),
    seed: int = typer.Option(0, min=0, help="Decides the records' order and the simulated noise."),
    evaluate_every: int | None = typer.Option(None, min=1, help="Rounds between evaluations [default: steps/100]."),
    json_file: Path | None = typer.Option(None, "--json", help="Write final and per-evaluation numbers to this file."),
    plot: Path | None = typer.Option(None, help="Draw the run into this .png, .svg or .pdf file."),
    out: Path | None = typer.Option(
        None,
        help="A new folder for record, numbers and picture [default: gossamer-run, if no --json or --plot].",
    ),
    resume: Path | None = typer.Option(None, help="Go on with the stopped run in this folder; --steps may extend it."),
) -> None:
    """Train one model across learners that only talk to their neighbours, with noise on all they send.

    \b
    gossamer run mushrooms                            the paper's first experiment
    gossamer run mushrooms --step 1,0.8 --steps 5000  within the paper's assumptions
    gossamer run --csv visits.csv --target ill --split-by hospital --categorical ward
    gossamer run --resume gossamer-run                go on after ctrl-C
    """
    settings = Settings(
        dataset=dataset.value if dataset else None,
        csv=str(csv) if csv else None,
        target=target,
        split_by=split_by,
        categorical=parse.names(categorical),
        drop=parse.names(drop),
        range=parse.names(range_),
        per_round=per_round,
        model=model.value if model else None,
        l2=l2,
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
        gradient=gradient.value,
        draw=draw.value,
        split=split.value,
        seed=seed,
        evaluate_every=evaluate_every,
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

    run_it = _prepared(settings, before)
    made = None if out or json_file or plot else fresh_folder("gossamer-run")
    try:
        record = run_it()
    except BaseException:
        if made is not None:
            made.rmdir()
        raise
    out = out or made or (None if record.finished else fresh_folder("gossamer-run"))  # ctrl-C keeps what can be resumed
    with _undisturbed():
        written = _keep(record, settings, json_file, plot, out)
    console = Console()
    _show(console, record)
    console.print("Files: " + escape(", ".join(map(str, written))), highlight=False, soft_wrap=True)
    if not record.finished:
        asked, again = record.config["steps"], f"gossamer run --resume {out}"
        console.print(f"Stopped at round {record.t} of {asked}; go on with: {escape(again)}", soft_wrap=True)
        raise typer.Exit(130)


def _prepared(settings: Settings, before: Record | None) -> Callable[[], Record]:
    """The run, with all that can be checked before it starts checked."""
    stream, model, network = _parts(settings)
    private = settings.epsilon is not None
    # The paper's own settings break Assumption 4; they are run as published, and the run says so.
    published = settings.dataset is not None and settings.step is None and settings.noise is None and not private
    algorithm = ldp_gradient_tracking(
        step=parse.step_schedule(settings.step or (PAPER_STEP if settings.dataset and not private else OWN_STEP)),
        noise=None if private else parse.noise_schedule(settings.noise or PAPER_NOISE, network.m),
        strict=settings.strict and not published,
    )
    mechanism = _mechanism(settings, network.m)

    def run_it() -> Record:
        with _watched(model.score) as callback:
            return simulate(
                algorithm,
                network,
                stream,
                model=model,
                privacy=mechanism,
                steps=settings.steps if settings.steps is not None else STEPS,
                gradient=settings.gradient,  # type: ignore[arg-type]
                seed=settings.seed,
                evaluate_every=settings.evaluate_every,
                callback=callback,
                resume=before,
            )

    return run_it


def _mechanism(settings: Settings, learners: int) -> Mechanism | None:
    if settings.epsilon is None:
        for option in ("law", "delta", "where", "horizon"):
            if getattr(settings, option) != getattr(DEFAULTS, option):
                raise GossamerError(f"--{option} goes with --epsilon: give a budget, or leave it out.")
        return None
    if settings.noise is not None:
        raise GossamerError("--epsilon finds the noise and --noise states it: give one of them.")
    budgets, horizon = parse.budgets(settings.epsilon, learners), settings.horizon
    options: Any = {"where": settings.where, "horizon": None if horizon is None else parse.rounds(horizon)}
    if settings.law == Law.laplace:
        return Laplace.for_budget(budgets, **options)
    return Gaussian.for_budget(budgets, settings.delta, **options)


def _parts(settings: Settings) -> tuple[Stream, Model, Network]:
    if settings.dataset is None and settings.csv is None:
        raise GossamerError("nothing to learn from: give the dataset 'mushrooms', or --csv FILE --target COLUMN.")
    if settings.dataset is not None and settings.csv is not None:
        raise GossamerError(f"two things to learn from, {settings.dataset} and {settings.csv}: give one.")
    own_graph = None if settings.graph is None or settings.graph in NAMES else read_network(settings.graph)
    learners = settings.learners or (own_graph.m if own_graph is not None else 10)
    if settings.csv is not None:
        stream, model = _from_csv(settings, learners)
    else:
        for option in ("target", "split_by", "categorical", "drop", "range", "per_round"):
            if getattr(settings, option) != getattr(DEFAULTS, option):
                raise GossamerError(f"--{option.replace('_', '-')} is for --csv FILE: leave it out for the mushrooms.")
        if settings.model not in (None, Kind.logistic):
            raise GossamerError(f"--model {settings.model}: the mushrooms have two classes; use logistic.")
        shape: Any = {"draw": settings.draw, "split": settings.split, "rows": settings.rows}
        stream = datasets.mushrooms(learners, settings.seed, **shape)
        model = LogisticRegression(settings.l2)
    default = "paper" if stream.learners == 10 else "random"
    return stream, model, read_network(settings.graph or default, stream.learners)


def _from_csv(settings: Settings, learners: int) -> tuple[Stream, Model]:
    assert settings.csv is not None
    for option, value, default in (
        ("--draw", settings.draw, Draw.random),
        ("--split", settings.split, Split.iid),
        ("--rows", settings.rows, Rows.raw),
    ):
        if value != default:
            raise GossamerError(f"{option} {value} is for the mushrooms: leave it out; a CSV's records come in order.")
    if settings.target is None:
        raise GossamerError(f"--csv {settings.csv} needs --target: name the column to predict.")
    classes, numeric = classes_in(settings.csv, settings.target)
    guess = Kind.logistic if classes <= 2 else Kind.ridge if numeric and classes > CLASSES_AT_MOST else Kind.softmax
    kind = Kind(settings.model) if settings.model else guess
    if kind is Kind.logistic and classes > 2:
        raise GossamerError(
            f"--model logistic: column {settings.target!r} has {classes} classes, expected 2; use softmax."
        )
    stream = from_csv(
        settings.csv,
        settings.target,
        learners,
        split_by=settings.split_by,
        per_round=settings.per_round,
        categorical=settings.categorical,
        drop=settings.drop,
        ranges=parse.column_ranges(settings.range),
        regression=kind is Kind.ridge,
    )
    if settings.learners is not None and stream.learners != settings.learners:
        raise GossamerError(
            f"--split-by {settings.split_by} names {stream.learners} learners and --learners is {settings.learners}: "
            "leave --learners out."
        )
    if kind is Kind.softmax:
        return stream, SoftmaxRegression(classes, settings.l2)
    return stream, LogisticRegression(settings.l2) if kind is Kind.logistic else RidgeRegression(settings.l2)


def _stopped_run(folder: Path, given: Settings, out: Path | None) -> tuple[Settings, Record]:
    """The settings and record of a stopped run; of what is given beside --resume only --steps may be set."""
    try:
        stored = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        settings = Settings(**{field.name: stored[field.name] for field in fields(Settings)})
        _check_types(settings)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise GossamerError(
            f"--resume {folder}: no run of gossamer there; give a stopped run's --out folder."
        ) from None
    for field in fields(Settings):
        if field.name != "steps" and getattr(given, field.name) != getattr(DEFAULTS, field.name):
            option = field.name.replace("_", "-")
            raise GossamerError(f"--resume goes on with the settings of {folder}: leave {option} out, or start anew.")
    if out is not None:
        raise GossamerError(f"--resume {folder} goes on in that folder: leave --out out.")
    record = Record.load(folder / "record")
    wanted = given.steps if given.steps is not None else record.config["steps"]
    if wanted <= record.t:
        raise GossamerError(f"--resume {folder}: its {record.t} rounds are done; ask for more with --steps.")
    return replace(settings, steps=wanted), record


def _check_types(settings: Settings) -> None:
    """ValueError where a stored setting is not of the kind that the command would have stored."""
    choices: dict[str, type[enum.StrEnum]] = {"law": Law, "where": Where, "rows": Rows}
    choices |= {"dataset": Dataset, "model": Kind, "gradient": Gradients, "draw": Draw, "split": Split}
    for name, kind in get_type_hints(Settings).items():
        value = getattr(settings, name)
        if get_origin(kind) is list:
            fits = isinstance(value, list) and all(isinstance(word, str) for word in value)
        else:
            fits = isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)
        if not fits:
            raise ValueError(name)
        if name in choices and value is not None:
            choices[name](value)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits until all files are written."""
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def _watched(score: str) -> Iterator[Any]:
    """A callback that shows progress and, at ctrl-C, stops the run with nothing lost; a second one ends it at once."""
    interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        interrupted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]:>8}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[error]}"),
        console=Console(stderr=True),
    )
    task = bar.add_task("rounds", total=None, speed="", error="")
    started: list[float] = []
    shown = 0.0

    def callback(progress: Progress) -> bool:
        nonlocal shown
        now = time.monotonic()
        if not started:
            started.extend([now, progress.t])
            bar.start()
        if now - shown > 0.1 or progress.t == progress.steps:
            shown, last = now, progress.last
            speed = (progress.t - started[1]) / max(now - started[0], 1e-9)
            error = f"‖θ−θ*‖ {last.tracking_error[0]:.3g}  {score} {last.accuracy[0]:.3f}"
            bar.update(task, total=progress.steps, completed=progress.t, speed=f"{speed:,.0f}/s", error=error)
        return interrupted

    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        yield callback
    finally:
        if started:
            bar.stop()
        signal.signal(signal.SIGINT, previous)


def _show(console: Console, record: Record) -> None:
    table = Table("learner", box=None, header_style="bold", pad_edge=False)
    private = record.epsilon is not None
    for name in (record.config["score"], "‖θ−θ*‖", "F(θ)−F(θ*)", "ε", *(["ε for ever"] if private else [])):
        table.add_column(name, justify="right")
    names = record.config["stream"].get("names") or range(len(record.learners))
    spent = [["not private"]] * len(record.learners)
    if record.epsilon is not None:
        spent = [[f"{now:.4g}", "∞" if math.isinf(ever) else f"{ever:.4g}"] for now, ever in record.epsilon]
    for name, row, cost in zip(names, record.learners, spent, strict=True):
        numbers = (f"{row.accuracy:.4f}", f"{row.tracking_error:.4g}", f"{row.optimality_gap:.4g}")
        table.add_row(escape(str(name)), *numbers, *cost)
    last = record.history[-1]
    mean = (f"{last.accuracy:.4f}", f"{last.tracking_error:.4g}", f"{last.optimality_gap:.4g}")
    table.add_section()
    table.add_row("mean", *mean, "", style="bold")
    console.print(table)
    for sentence in (record.claim.capitalize() + ".", *record.notes):
        console.print(f"[yellow]•[/] {escape(sentence)}", highlight=False)


def _keep(
    record: Record, settings: Settings, json_file: Path | None, plot: Path | None, out: Path | None
) -> list[Path]:
    written: list[Path] = []
    if out is not None:
        replace_file(out / "settings.json", write_json(asdict(settings)).encode())
        written += [*record.save(out / "record"), out / "settings.json"]
        save_picture(record.plot(), out / "run.png")
        written.append(out / "run.png")
    if json_file is not None:
        replace_file(json_file, write_json(record.summary()).encode())
        written.append(json_file)
    if plot is not None:
        save_picture(record.plot(), plot)
        written.append(plot)
    return written
