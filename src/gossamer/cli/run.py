"""`gossamer run`: train, watch, and keep what came out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli.options import takes
from gossamer.cli.output import check_apart, check_picture, check_place, fresh_folder
from gossamer.cli.watch import undisturbed, watched
from gossamer.cli.words import in_command
from gossamer.errors import Argument, BadValue, GossamerError, Sentence
from gossamer.files import replace_file
from gossamer.privacy import Laplace, epsilons
from gossamer.run_record import NotResumedError, Record, write_json
from gossamer.schedules import Decay
from gossamer.setting import setting_of
from gossamer.simulate import simulate
from gossamer.spec.build import Parts, build
from gossamer.spec.description import SETTINGS, Spec
from gossamer.spec.files import read_settings, write_settings, write_toml
from gossamer.spec.rules import dataset_of, delta_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ERRORS = {"accuracy": "", "tracking_error": "‖θ−θ*‖", "optimality_gap": "F(θ)−F(θ*)"}  # the first: the model's score
NEURAL = {"accuracy": "test accuracy", "train_accuracy": "training accuracy", "consensus_error": "‖θ−θ̄‖"}
USED = "record.npz.resumed"


@takes(*SETTINGS)
def run(
    spec: Spec,
    dump_config: bool = typer.Option(
        False, "--dump-config", help="Print the description of this run as a TOML file, and run nothing."
    ),
    json_file: Path | None = typer.Option(None, "--json", help="Write final and per-evaluation numbers to this file."),
    plot: Path | None = typer.Option(None, help="Draw the run into this .png, .svg or .pdf file."),
    out: Path | None = typer.Option(
        None,
        help="A new folder for record, numbers and picture, and for what is kept on the way "
        "[default: gossamer-run, if no --json or --plot].",
    ),
    resume: Path | None = typer.Option(None, help="Go on with the stopped run in this folder; --steps may extend it."),
) -> None:
    """Train one model across learners that only talk to their neighbours, with noise on all they send.

    \b
    gossamer run mushrooms                                      the paper's first experiment
    gossamer run mushrooms --step 1,0.8 --steps 5000            within the paper's assumptions (Assumption 4)
    gossamer run mushrooms --epsilon 3                     private, with a proved budget
    gossamer run --csv visits.csv --target ill --split-by hospital --categorical ward
    gossamer run mnist --device cuda --bf16                     the paper's second experiment
    gossamer run mushrooms --algorithm dsgd --dump-config > my.toml; gossamer run my.toml --seed 3
    gossamer run --resume gossamer-run                          go on after ctrl-C
    """
    if dump_config:
        typer.echo(write_toml(spec), nl=False)
        return
    before = None
    if resume is not None:
        spec, before = _stopped_run(resume, spec, out)
        out = resume
    elif out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadValue(
            "out", str(out), "it exists already", ["give a new folder, or go on with ", Argument("resume", str(out))]
        )
    _check_places(spec, json_file, plot, out)
    parts = build(spec)
    made = None if out or json_file or plot else fresh_folder("gossamer-run")
    folder = out or made
    try:
        if before is not None and before.epsilon is not None and resume is not None:
            _use(resume, before)
        keep = None if folder is None else partial(_checkpoint, spec=spec, folder=folder)
        record = _run(parts, before, keep)
    except NotResumedError:
        if resume is not None and (resume / USED).exists() and not (resume / "record.npz").exists():
            (resume / USED).replace(resume / "record.npz")  # nothing was sent
        raise
    except BaseException:
        if made is not None and not any(made.iterdir()):
            made.rmdir()
        raise
    folder = folder or (None if record.finished else fresh_folder("gossamer-run"))  # ctrl-C keeps what can be resumed
    with undisturbed():
        written = _keep(record, spec, json_file, plot, folder)
        if folder is not None:
            (folder / USED).unlink(missing_ok=True)
    console = Console()
    _show(console, record, delta_of(spec), [*parts.said, *_price(parts)])
    console.print("Files: " + escape(", ".join(map(str, written))), highlight=False, soft_wrap=True)
    if not record.finished:
        asked, again = record.config["steps"], f"gossamer run --resume {folder}"
        console.print(f"Stopped at round {record.t} of {asked}; go on with: {escape(again)}", soft_wrap=True)
        raise typer.Exit(130)


def _check_places(spec: Spec, json_file: Path | None, plot: Path | None, out: Path | None) -> None:
    """Refuse places that cannot be written, or that are read from, before any work."""
    csv, graph = (Path(name) if name else None for name in (spec.data.csv, spec.network.graph))
    check_apart(csv=csv, graph=graph, out=out, json=json_file, plot=plot)
    for place in (json_file, out / "record.npz" if out else None):
        if place is not None:
            check_place(place)
    if plot is not None:
        check_picture(plot)


def _run(parts: Parts, before: Record | None, keep: Callable[[Record], None] | None) -> Record:
    # A private run is kept at its end alone: two runs from one checkpoint would release the same state twice.
    with watched(parts.model.score, None if parts.mechanism is not None else keep) as callback:
        gradient: Any = parts.spec.algorithm.gradient
        return simulate(
            parts.algorithm,
            parts.network,
            parts.stream,
            model=parts.model,
            privacy=parts.mechanism,
            steps=parts.steps,
            gradient=gradient,
            seed=parts.spec.length.seed,
            evaluate_every=parts.spec.length.evaluate_every,
            callback=callback,
            resume=before,
        )


def _price(parts: Parts) -> list[Sentence]:
    """Of images without a budget: what exact noise of the run's scales would cost, whatever it is, in a sentence."""
    dataset, model, noise = dataset_of(parts.spec), parts.model, parts.algorithm.noise
    if parts.mechanism is not None or dataset is None or not dataset.images:
        return []
    if model.clip is None:
        return [Sentence("ε = ∞: nothing bounds the gradient of a neural network; ", Argument("clip", "C"), " does.")]
    if not isinstance(noise, Decay) or not np.all(np.asarray(noise.initial) > 0):
        return [Sentence("ε = ∞: there is no noise.")]
    try:
        gradient: Any = parts.spec.algorithm.gradient
        setting = setting_of(parts.algorithm, parts.network, parts.stream, model, gradient, parts.steps)
        each = epsilons(Laplace(noise).terms(setting), parts.steps, 0.0)
    except GossamerError as error:
        return [Sentence("What exact noise of these scales would cost is not known: ", *error.parts)]
    spent = max(math.inf if e is None else e for e in each)
    one = "one arrival of an image" if parts.stream.rounds is None else "one image"
    unit = "a round's images" if model.clip.per == "round" else one
    cost = f"Exact noise of these scales would cost up to ε = {spent:.3g} in {parts.steps} rounds"
    return [Sentence(f"{cost}, for {unit} of a learner.")]


def _stopped_run(folder: Path, given: Spec, out: Path | None) -> tuple[Spec, Record]:
    """The description and record of a stopped run; of what is given beside --resume only --steps may be set."""
    spec = read_settings(folder)
    for name in given.given():
        if name != "steps":
            option = name if name == "dataset" else in_command(Argument(name))
            raise GossamerError(f"--resume goes on with the settings of {folder}: leave {option} out, or start anew.")
    if out is not None:
        raise GossamerError(f"--resume {folder} goes on in that folder: leave --out out.")
    if (folder / USED).exists() and not (folder / "record.npz").exists():
        raise GossamerError(
            f"--resume {folder}: this private run was resumed before and did not come to an end; going on from the "
            "same record would release its state a second time: start anew."
        )
    record = Record.load(folder / "record")
    asked = given.length.steps
    wanted = record.config["steps"] if asked is None else asked
    if asked is not None and wanted <= record.t:
        raise GossamerError(f"--steps {wanted}: {record.t} rounds are done; give more than {record.t}.")
    if wanted <= record.t:
        raise GossamerError(f"--resume {folder}: its {record.t} rounds are done; ask for more with --steps.")
    return spec.but(steps=wanted), record


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


def _show(console: Console, record: Record, delta: float, said: list[Sentence]) -> None:
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
        shown = sentence.said(in_command) if isinstance(sentence, Sentence) else sentence
        console.print(f"[yellow]•[/] {escape(shown)}", highlight=False)


def _numbers(row: Any, columns: Iterable[str]) -> list[str]:
    return [f"{row[name]:.4f}" if name.endswith("accuracy") else f"{row[name]:.4g}" for name in columns]


def _privacy_titles(record: Record, delta: float) -> list[str]:
    if record.epsilon is None:
        return ["ε"]
    at = f" (δ = {delta:g})" if delta else ""
    noise = ["first noise " + ("σ" if delta else "ν")] if record.config.get("noise") else []
    return [*noise, f"ε{at}", "ε for ever"]


def _privacy_cells(record: Record) -> list[list[str]]:
    """The noise of each learner's first release, where the record knows it, and what it has spent."""
    if record.epsilon is None:
        return [["not private"]] * len(record.learners)
    scales, releases = record.config.get("noise") or (), record.config.get("releases")
    rounds = [int(text.split("after=")[1].split(",")[0].rstrip(")")) for text in releases or ["after=0"] * len(scales)]
    first = [scale * (t + 1) ** -falls * ratio**t for t, (scale, falls, ratio) in zip(rounds, scales, strict=True)]
    noise = [[f"{value:.4g}"] for value in first] or [[]] * len(record.epsilon)
    spent = [[f"{now:.4g}", "∞" if math.isinf(ever) else f"{ever:.4g}"] for now, ever in record.epsilon]
    return [before + then for before, then in zip(noise, spent, strict=True)]


def _picture(record: Record, delta: float) -> Figure:
    """The run's picture, with what privacy cost in its title."""
    from gossamer.report.curves import spent

    figure = record.plot()
    if record.epsilon is not None:
        title = f"{record.config['title']}, {spent(record.epsilon.spent, delta)}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", parse_math=False)
    return figure


def _checkpoint(record: Record, spec: Spec, folder: Path) -> None:
    """What --resume needs, were the run to end here."""
    replace_file(folder / "settings.json", write_settings(spec))
    record.save(folder / "record")


def _keep(record: Record, spec: Spec, json_file: Path | None, plot: Path | None, folder: Path | None) -> list[Path]:
    """Write all that was asked for; the files."""
    from gossamer.report import save_picture

    written: list[Path] = []
    picture = _picture(record, delta_of(spec)) if folder is not None or plot is not None else None
    if folder is not None and picture is not None:
        replace_file(folder / "settings.json", write_settings(spec))
        written += [*record.save(folder / "record"), folder / "settings.json"]
        save_picture(picture, folder / "run.png")
        written.append(folder / "run.png")
    if json_file is not None:
        replace_file(json_file, write_json(record.summary()).encode())
        written.append(json_file)
    if plot is not None and picture is not None:
        save_picture(picture, plot)
        written.append(plot)
    return written
