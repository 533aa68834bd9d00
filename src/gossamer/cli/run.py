"""`gossamer run`: train, watch, and keep what came out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from json import loads as read_json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape

from gossamer.cli import live
from gossamer.cli.ending import Ended, judged, ran, show, told
from gossamer.cli.json_output import console_beside, json_file, json_option, put_json
from gossamer.cli.logs import EVENTS, failures_said, loggers_of
from gossamer.cli.options import takes
from gossamer.cli.output import check_apart, check_picture, check_place, command_for, fresh_folder
from gossamer.cli.page import picture_of, view_of
from gossamer.cli.repeat import repeated, show_spread
from gossamer.cli.watch import undisturbed, watched
from gossamer.cli.words import STDOUT, in_command
from gossamer.errors import Argument, BadValue, Diverged, GossamerError, Sentence
from gossamer.files import replace_file
from gossamer.loggers.base import Logger
from gossamer.models import LinearModel
from gossamer.privacy import Laplace, epsilons
from gossamer.report.live import starting_view
from gossamer.report.view import View
from gossamer.run_record import NotResumedError, Record
from gossamer.schedules import Decay
from gossamer.setting import setting_of
from gossamer.simulate import simulate
from gossamer.simulate.evidence import run_without_noise
from gossamer.simulate.following import Follower
from gossamer.simulate.holding import check_holds
from gossamer.spec.build import Parts, build
from gossamer.spec.description import SETTINGS, Spec
from gossamer.spec.files import read_settings, write_settings, write_toml
from gossamer.spec.rules import dataset_of, delta_of

USED = "record.npz.resumed"


@takes(*SETTINGS)
def run(
    spec: Spec,
    dump_config: bool = typer.Option(
        False, "--dump-config", help="Print the description of this run as a TOML file, and run nothing."
    ),
    json: str | None = json_option("final and per-evaluation numbers"),
    plot: Path | None = typer.Option(None, help="Draw the run into this .png, .svg or .pdf file."),
    out: Path | None = typer.Option(
        None,
        help="A new folder for record, numbers and picture, and for what is kept on the way "
        "[default: gossamer-run, if no --json or --plot].",
    ),
    resume: Path | None = typer.Option(None, help="Go on with the stopped run in this folder; --steps may extend it."),
    repeat: int = typer.Option(
        1, min=1, max=1000, help="So many runs, with the seeds from --seed on: mean and spread, files in OUT/seed-…"
    ),
    also_without_noise: bool = typer.Option(
        False, "--also-without-noise", help="Run once more without noise, and show that accuracy beside."
    ),
    log: list[str] = typer.Option(
        [],
        metavar="NAME[:PLACE]",
        help="Log to tensorboard[:FOLDER], mlflow[:URI], trackio[:PROJECT] or wandb[:PROJECT] as well; may be given "
        "several times. Every run's folder has the same numbers in events.jsonl.",
    ),
    engine: Literal["mpi"] | None = typer.Option(
        None,
        help="Share this run's learners out over the ranks of MPI (extra `mpi`); Ray and Dask are for many runs: "
        "compare, frontier, tune [default: all in this process].",
    ),
    ranks: int | None = typer.Option(None, "--ranks", "-n", min=2, help="How many ranks to start with --engine mpi."),
    live_page: bool = live.LIVE,
    live_at: str | None = live.LIVE_AT,
    live_stay: bool = live.STAY,
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
    gossamer run mushrooms --steps 20000 --live                 watch it in a browser
    gossamer run mushrooms --learners 1000 --engine mpi -n 4    one run, shared out over four processes
    """
    _check_utf8(spec.given().values())
    if dump_config:
        typer.echo(write_toml(spec), nl=False)
        return
    asked = live.wanted(live_page, live_at, live_stay)
    if engine is not None:
        if spec.network.changes:
            raise GossamerError(
                "a network that changes is played in one process: leave ", Argument("engine", "mpi"), " out."
            )
        _as_ranks(
            spec, json, plot, out, log, ranks,
            {"--resume": resume is not None, "--repeat": repeat > 1, "--also-without-noise": also_without_noise,
             "--live": asked is not None},
        )  # fmt: skip
        return
    if ranks is not None:
        raise GossamerError(f"--ranks {ranks} is for ", Argument("engine", "mpi"), ": give that, too, or leave it out.")
    if repeat > 1:
        if resume is not None or plot is not None or asked is not None:
            option = "--resume" if resume is not None else "--plot" if plot is not None else "--live"
            raise GossamerError(
                f"--repeat {repeat} runs anew into OUT/seed-…, with a picture in each: leave {option} out."
            )
        _repeat(spec, repeat, json, out, also_without_noise, log)
        return
    before = None
    if resume is not None:
        spec, before = _stopped_run(resume, spec, out)
        out = resume
    else:
        _check_new(out)
    _check_places(spec, json, plot, out)
    made = None if out or json or plot else fresh_folder("gossamer-run")
    follower = Follower(command=command_for("run", spec), config=write_toml(spec))
    console = Console(stderr=json == STDOUT)
    own = spec.data.csv is not None  # whose figures are their owner's
    with _removed_if_empty(made), live.served(asked, lambda: _starting(spec), follower.take, secret=own) as page:
        follow = None if asked is None else follower
        ended, written, folder = _once(spec, out or made, also_without_noise, log, plot, resume, before, follow)
        put_json(json, told(ended))
        written += _named(json)
        show(console_beside(json), ended)
        _say_files(console, written)
        if asked is not None:
            page.end(view_of(ended, spec), None if folder is None else folder / "report.html")
    if folder is not None and ended.record.finished and spec.data.csv is not None:
        use = f"gossamer predict {folder} NEW.csv --out predictions.csv"
        console.print(f"Use the model: {escape(use)}", highlight=False, soft_wrap=True)
    _say_stopped(console, ended.record, folder)


def _as_ranks(
    spec: Spec,
    json: str | None,
    plot: Path | None,
    out: Path | None,
    log: Sequence[str],
    ranks: int | None,
    alone: dict[str, bool],
) -> None:
    """The run on many ranks, of which the first writes and shows what came out."""
    from gossamer.cli import ranks as many  # only now: most runs need none of it
    from gossamer.cluster.world import is_rank

    if not is_rank():
        many.check_alone(alone)
        _check_new(out)
        _check_places(spec, json, plot, out)
        many.start(ranks)
    with many.together():
        many.check_alone(alone)
        many.join(ranks)
        if not many.is_first():
            many.follow(many.build_after_first(spec))
            return
        _check_new(out)
        _check_places(spec, json, plot, out)
        made = None if out or json or plot else fresh_folder("gossamer-run")
        with _removed_if_empty(made):
            ended, written, _ = _once(spec, out or made, False, log, plot, play=many.lead)
        put_json(json, told(ended))
        show(console_beside(json), ended)
        _say_files(Console(stderr=json == STDOUT), [*written, *_named(json)])


def _starting(spec: Spec) -> View:
    """What a live page shows until the first round is done."""
    data = spec.data.dataset or Path(spec.data.csv or "").name
    return starting_view("run", f"{data}: {spec.algorithm.algorithm}", "preparing", command_for("run", spec))


def _repeat(spec: Spec, times: int, json: str | None, out: Path | None, also: bool, log: Sequence[str]) -> None:
    """The same run with other seeds, each in a folder of its own."""
    _check_new(out)
    _check_places(spec, json, None, out)
    made = None if out or json else fresh_folder("gossamer-run")

    def once(one: Spec, folder: Path | None) -> tuple[Ended, Path | None]:
        ended, _, kept = _once(one, folder, also, log)
        return ended, kept

    with _removed_if_empty(made):
        runs, folders = repeated(spec, times, out or made, once)
    put_json(json, [told(run) for run in runs])
    show_spread(console_beside(json), runs)
    console = Console(stderr=json == STDOUT)
    _say_files(console, [*folders, *_named(json)])
    _say_stopped(console, runs[-1].record, folders[-1] if folders else None)


def _once(
    spec: Spec,
    folder: Path | None,
    also: bool,
    log: Sequence[str],
    plot: Path | None = None,
    resume: Path | None = None,
    before: Record | None = None,
    follow: Follower | None = None,
    play: Callable[[Parts, Sequence[Logger]], Record] | None = None,
) -> tuple[Ended, list[Path], Path | None]:
    """One run, from its description to its verdict; the files that were written, and the folder it was kept in."""
    parts = build(spec)
    if parts.changes is not None:  # steps that are run as published are still no reason to run what cannot be right
        check_holds(parts.algorithm, parts.changes, parts.mechanism, parts.model, spec.algorithm.strict)
    if also and parts.mechanism is None and parts.algorithm.noise is None:
        raise GossamerError("--also-without-noise: this run has no noise: leave it out.")
    if resume is None and folder is not None:
        _for_owner(spec, folder)
    loggers = loggers_of(log, folder, parts.mechanism is not None)
    try:
        if before is not None and before.epsilon is not None and resume is not None:
            _use(resume, before)
        keep = None if folder is None else partial(_checkpoint, spec=spec, folder=folder)
        record = _run(parts, before, keep, loggers, follow) if play is None else play(parts, loggers)
    except NotResumedError:
        if resume is not None and (resume / USED).exists() and not (resume / "record.npz").exists():
            (resume / USED).replace(resume / "record.npz")  # nothing was sent
        raise
    if folder is None and not record.finished:  # ctrl-C keeps what can be resumed
        folder = fresh_folder("gossamer-run")
        _for_owner(spec, folder)
    with undisturbed():  # before anything else: what was sent is spent, whatever happens next
        written = [] if folder is None else _keep(record, spec, folder)
    quiet = _quiet(parts, record) if also and record.finished else None
    said = [*parts.said, *_price(parts)]
    ended = Ended(record, said, delta_of(parts.spec), judged(parts, record, quiet), quiet)
    if folder is not None or plot is not None:
        with undisturbed():
            written += _draw(ended, spec, plot, folder)
    return ended, written, folder


def _quiet(parts: Parts, record: Record) -> Record | None:
    """The same run without noise; None where ctrl-C stopped it, or it diverged."""
    try:
        with watched(parts.model.score) as callback:
            quiet = run_without_noise(record, ran(parts), callback=callback)
    except Diverged:
        return None
    return quiet if quiet.finished else None


@contextmanager
def _removed_if_empty(made: Path | None) -> Iterator[None]:
    """A folder that was made for a run that came to nothing goes again."""
    try:
        yield
    except BaseException:
        if made is not None and not any(made.iterdir()):
            made.rmdir()
        raise


def _for_owner(spec: Spec, folder: Path) -> None:
    """Where records are one's own, so is what is found in them: make the folder for nobody else to read."""
    if spec.data.csv is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:  # of a disk that knows no users; a run that was stopped must be kept all the same
        live.say(f"gossamer: {folder} cannot be kept from other users ({error.strerror}).")


def _check_new(out: Path | None) -> None:
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadValue(
            "out", str(out), "it exists already", ["give a new folder, or go on with ", Argument("resume", str(out))]
        )


def _named(json: str | None) -> list[Path]:
    """The file of numbers, where one was asked for."""
    path = json_file(json)
    return [] if path is None else [path]


def _say_files(console: Console, written: list[Path]) -> None:
    if written:
        console.print("Files: " + escape(", ".join(map(str, written))), highlight=False, soft_wrap=True)


def _say_stopped(console: Console, record: Record, folder: Path | None) -> None:
    if not record.finished:
        asked, again = record.config["steps"], f"gossamer run --resume {folder}"
        console.print(f"Stopped at round {record.t} of {asked}; go on with: {escape(again)}", soft_wrap=True)
        raise typer.Exit(130)


def _check_places(spec: Spec, json: str | None, plot: Path | None, out: Path | None) -> None:
    """Refuse places that cannot be written, or that are read from, before any work."""
    _check_utf8([out, plot, json])
    read = (spec.data.csv, spec.data.test, spec.network.graph, spec.network.schedule)
    csv, test, graph, schedule = (Path(name) if name else None for name in read)
    check_apart(csv=csv, test=test, graph=graph, schedule=schedule, out=out, json=json_file(json), plot=plot)
    if out is not None:
        check_place(out / "record.npz")
    if plot is not None:
        check_picture(plot)


def _check_utf8(values: Iterable[object]) -> None:
    """Refuse a name in bytes that are no text: neither settings nor a report can hold it."""
    each = (one for value in values for one in (value if isinstance(value, tuple) else (value,)))
    for name in map(str, each):
        try:
            name.encode()
        except UnicodeEncodeError:
            shown = name.encode(errors="backslashreplace").decode()
            raise GossamerError(f"{shown}: this name is not UTF-8, and no run can keep it: rename it.") from None


def _run(
    parts: Parts,
    before: Record | None,
    keep: Callable[[Record], None] | None,
    loggers: Sequence[Logger],
    follow: Follower | None,
) -> Record:
    # A private run is kept at its end alone: two runs from one checkpoint would release the same state twice.
    kept = None if parts.mechanism is not None else keep
    with failures_said(), watched(parts.model.score, kept, follow) as callback:
        return simulate(
            parts.algorithm,
            parts.changes or parts.network,
            parts.stream,
            **parts.arguments,
            callback=callback,
            resume=before,
            progressive=dataset_of(parts.spec) is None and isinstance(parts.model, LinearModel),
            loggers=loggers,
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
            mine = read_json(stored["summary"].tobytes()).get("seal", "") == record.seal
    except FileNotFoundError:
        raise GossamerError(
            f"--resume {folder}: its record is gone, as if another command had just resumed it: let that one end."
        ) from None
    if not mine:
        (folder / USED).replace(folder / "record.npz")
        raise GossamerError(
            f"--resume {folder}: another command went on with this run in the meantime: give the command again."
        )


def _checkpoint(record: Record, spec: Spec, folder: Path) -> None:
    """What --resume needs, were the run to end here."""
    replace_file(folder / "settings.json", write_settings(spec))
    record.save(folder / "record")


def _keep(record: Record, spec: Spec, folder: Path) -> list[Path]:
    """Write the record and the settings; the files."""
    replace_file(folder / "settings.json", write_settings(spec))
    written = [*record.save(folder / "record"), folder / "settings.json"]
    written += [folder / EVENTS] if (folder / EVENTS).exists() else []
    (folder / USED).unlink(missing_ok=True)
    return written


def _draw(ended: Ended, spec: Spec, plot: Path | None, folder: Path | None) -> list[Path]:
    """Write the report and the pictures where they were asked for; the files."""
    from gossamer.report.curves import save_picture
    from gossamer.report.folder import write_report

    picture = picture_of(ended)
    written = [] if folder is None else write_report(folder, view_of(ended, spec), picture)
    if plot is not None:
        save_picture(picture, plot)
        written.append(plot)
    return written
