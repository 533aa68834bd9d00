"""`gossamer tune`: settings for somebody's own data, in one of three honest ways."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli.json_output import console_beside, json_file, json_option, put_json
from gossamer.cli.options import takes
from gossamer.cli.output import check_apart, check_place, command_for
from gossamer.cli.sweeps import ENGINE, counted_runs
from gossamer.cli.watch import counted, undisturbed
from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.experiments.charged import Charged
from gossamer.experiments.engines import LOCAL, check_engine
from gossamer.experiments.runs import Runs
from gossamer.experiments.samples import HELD, part, records_of
from gossamer.experiments.scored import score_with
from gossamer.experiments.tuning import (
    NARROW,
    WIDE,
    Candidate,
    Coordinates,
    Rehearsals,
    Trial,
    check_tunable,
    count,
    in_turn,
    open_to_tuning,
    search,
    settled,
)
from gossamer.files import replace_file
from gossamer.spec.description import SETTINGS, Spec
from gossamer.spec.files import PATHS, write_toml
from gossamer.spec.languages import class_names
from gossamer.spec.rules import learnt_by, small_delta

SEEDS = 3
NOT_TUNED = ("noise", "rows", "draw", "split", "features", "tested", "failures", "sleep", "schedule")


@takes(*(name for name in SETTINGS if name not in NOT_TUNED))
def tune(
    spec: Spec,
    public: Path | None = typer.Option(
        None, help="A file with the same columns that you declare public: tuned on its records, nothing is charged."
    ),
    public_fraction: float | None = typer.Option(
        None,
        min=0,
        max=1,
        help="How many of every learner's records, its first, you declare public: tuned on those, and the run leaves "
        "them out.",
    ),
    charge: float | None = typer.Option(
        None,
        min=0,
        max=1,
        help="How many of every learner's records, its first, pay for private tuning; the run leaves them out. No "
        "record costs more than --epsilon.",
    ),
    seeds: int = typer.Option(SEEDS, min=1, help="Draws of noise that a score is the mean of, on public records."),
    jobs: int = typer.Option(1, min=1, help="Candidates scored at once."),
    engine: str = ENGINE,
    keep: Path = typer.Option(Path("gossamer-tune"), help="Folder for scores; what is there is not scored again."),
    out: Path = typer.Option(Path("tuned.toml"), help="A new file for the settings: `gossamer run` takes it."),
    json: str | None = json_option("the candidates, their scores and what was chosen"),
) -> None:
    """Choose step, l2, clip, first release and rounds for your own data, without looking where you must not.

    What you give is not tuned. With --epsilon say which records may be looked at: one of --public, --public-fraction
    and --charge. Without it the data themselves are, and that is not private.

    \b
    gossamer tune --csv visits.csv --target ill
    gossamer tune --csv visits.csv --target ill --classes no,yes --range age=0:120 --epsilon 3 --public survey.csv
    gossamer tune --csv visits.csv --target ill --classes no,yes --range age=0:120 --epsilon 3 --charge 0.3
    gossamer run tuned.toml
    """
    ways = {"public": public, "public_fraction": public_fraction, "charge": charge}
    named = [name for name, value in ways.items() if value is not None]
    _check(spec, named, public, out)
    json_file(json)
    check_engine(engine)
    if charge is not None and (engine != LOCAL or jobs != 1):
        raise GossamerError("--charge has one ledger, in this process: leave --jobs and --engine out.")
    made = counted_runs("tune", keep, jobs, engine)
    if charge is not None:
        tuned = _by_charge(spec, charge)
    elif public is not None:
        tuned = _by_file(spec, public, seeds, made)
    elif public_fraction is not None:
        tuned = _by_fraction(spec, public_fraction, seeds, made)
    else:
        tuned = _by_itself(spec, made)
    with undisturbed():
        replace_file(out, _toml(tuned, out).encode())
        put_json(json, _told(tuned))
    _show(console_beside(json), tuned, out)


class Tuned(NamedTuple):
    """What was chosen, from what, and what that cost, in sentences."""

    spec: Spec
    best: Candidate
    tried: Sequence[Trial]
    score: str  # what scores are
    cost: list[str]
    margin: float  # what a better one must be better by


def _check(spec: Spec, named: Sequence[str], public: Path | None, out: Path) -> None:
    """Refuse before any work what cannot be tuned, or not honestly."""
    check_tunable(spec)
    if len(named) > 1:
        raise GossamerError(Argument(named[0]), " and ", Argument(named[1]), ": give one of them.")
    if spec.private and not named:
        raise GossamerError(
            Argument("epsilon"), " is a promise about all looks at the records, tuning's included: give ",
            Argument("public", "FILE"), ", ", Argument("public_fraction", "F"), " or ", Argument("charge", "F"), ".",
        )  # fmt: skip
    if "charge" in named and not spec.private:
        raise GossamerError(Argument("charge"), " goes with ", Argument("epsilon"), ": give a budget, or leave it out.")
    if spec.data.aside is not None and named in (["public_fraction"], ["charge"]):
        raise GossamerError(Argument("aside", spec.data.aside), " is what ", Argument(named[0]), " sets: leave it out.")
    csv, test = (Path(name) if name else None for name in (spec.data.csv, spec.data.test))
    check_apart(csv=csv, test=test, public=public, out=out)
    check_place(out)
    if out.exists():
        raise BadValue("out", str(out), "it exists already", "give a new name")


def _by_itself(spec: Spec, made: AbstractContextManager[Runs]) -> Tuned:
    cost = [f"Not private: candidates were scored on {HELD:.0%} of the data, which the run will learn from."]
    return _rehearsed(spec, None, 1, cost, made)


def _by_file(spec: Spec, public: Path, seeds: int, made: AbstractContextManager[Runs]) -> Tuned:
    cost = [f"Tuned on {public}, which you declare public: nothing is charged. Of {spec.data.csv} only the number of "
            "records was used."]  # fmt: skip
    return _rehearsed(spec, str(public), seeds, cost, made)


def _by_fraction(spec: Spec, fraction: float, seeds: int, made: AbstractContextManager[Runs]) -> Tuned:
    spec = spec.but(aside=fraction)
    cost = [f"Tuned on {_first(spec)}, which you declare public: nothing is charged. --aside {fraction:g} leaves them "
            "out of the run."]  # fmt: skip
    return _rehearsed(spec, None, seeds, cost, made)


def _rehearsed(
    spec: Spec, public: str | None, seeds: int, cost: list[str], made: AbstractContextManager[Runs]
) -> Tuned:
    """Tuned on records that may be looked at, as many candidates at once as workers can take."""
    read, sample = records_of(spec, public)
    margin = Rehearsals(spec, read, sample, seeds).margin
    coordinates = _open(spec, WIDE)
    with made as runs:
        best, tried = search(coordinates, score_with(runs, spec, public, seeds), margin)
    return Tuned(settled(spec, best, read), best, tried, _score_name(spec), cost, margin)


def _by_charge(spec: Spec, fraction: float) -> Tuned:
    spec = spec.but(aside=fraction)
    first, rest = part(spec, "charge")
    if spec.privacy.delta is None:
        spec = spec.but(delta=small_delta(len(first.table) + len(rest.table)))
    coordinates = _open(spec, NARROW)
    score = Charged(spec, first, count(coordinates), spec.length.seed)
    with counted("tune", kept=False) as progress:
        attempt = in_turn(score, lambda done: progress(done, count(coordinates)))
        best, tried = search(coordinates, attempt, score.margin)
    spent = max(score.ledger.spent)
    cost = [
        f"Tuning has cost up to ε = {spent:.4g} (δ = {score.ledger.delta:g}), paid by {_first(spec)}. --aside "
        f"{fraction:g} leaves them out of the run, which costs others ε = {spec.privacy.epsilon}: no record pays for "
        "both.",
        "Giving this command again costs the same again.",
    ]
    what = "noisy share of right predictions" if class_names(spec.data.classes) else "noisy points"
    return Tuned(settled(spec, best, rest), best, tried, what, cost, score.margin)


def _first(spec: Spec) -> str:
    """The records that were tuned on, in words."""
    return f"the first {spec.data.aside:.4g} of {'every learner' if spec.data.split_by else 'the file'}'s records"


def _score_name(spec: Spec) -> str:
    return "R²" if learnt_by(spec, None).kind.quantity else "accuracy"


def _open(spec: Spec, coordinates: Coordinates) -> Coordinates:
    left = open_to_tuning(spec, coordinates)
    if not left:
        raise GossamerError("nothing is left to tune: leave out some of the settings that are given.")
    return left


def _toml(tuned: Tuned, out: Path) -> str:
    """The description, with what it cost above; its paths are meant from the file's own folder."""
    given = tuned.spec.given()
    moved = {
        name: os.path.relpath(given[name], out.parent)
        for name in PATHS
        if name in given and not os.path.isabs(given[name]) and Path(given[name]).exists()
    }
    said = [f"Chosen by gossamer tune: {tuned.best}.", *tuned.cost]
    return "".join(f"# {line}\n" for line in said) + "\n" + write_toml(tuned.spec.but(**moved))


def _told(tuned: Tuned) -> dict[str, Any]:
    """What was tried and chosen, as JSON values; a score is null where a candidate diverged or had no room."""
    tried = [{"candidate": str(one.candidate), "score": one.score} for one in tuned.tried]
    chosen = {"chosen": str(tuned.best), "margin": tuned.margin, "cost": tuned.cost}
    return {"score": tuned.score, "tried": tried, **chosen, "settings": tuned.spec.given()}


def _show(console: Console, tuned: Tuned, out: Path) -> None:
    table = Table("candidate", box=None, header_style="bold", pad_edge=False)
    table.add_column(tuned.score, justify="right")
    for trial in tuned.tried:
        chosen = trial.candidate == tuned.best
        score = f"{trial.score:.4f}" if math.isfinite(trial.score) else "no room" if trial.why else "diverged"
        table.add_row(escape(str(trial.candidate)), score, style="bold" if chosen else None)
    console.print(table)
    console.print(
        f"Chosen: {escape(str(tuned.best))}. What is not better by {tuned.margin:.2g} may be so by chance, and is not "
        "chosen.",
        highlight=False,
    )
    for line in tuned.cost:
        console.print(f"[yellow]•[/] {escape(line)}", highlight=False)
    console.print(escape(command_for("run", tuned.spec)), highlight=False, soft_wrap=True)
    console.print(f"The same as a file: gossamer run {escape(str(out))}", highlight=False, soft_wrap=True)
