"""`gossamer peers` and `gossamer peer`: learners as processes of their own."""

from __future__ import annotations

import enum
import importlib.util
import json
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli import options, parse
from gossamer.cli.settings import DELTA, Gradients, Law, Where
from gossamer.errors import GossamerError
from gossamer.privacy.boundary import budgets
from gossamer.simulate.record import HISTORY, LEARNER, Record
from gossamer.version import __version__

peers = typer.Typer(help="A run of learners that are processes of their own: set up, start, watch, collect.")
peer = typer.Typer(help="One party's learner.")


class Durability(enum.StrEnum):
    power = "power"
    process = "process"


COLUMNS = ("learner", "state", "round", "loss", "score", "ε spent", "ε left", "waits for")


def needs_extra() -> None:
    for module in ("grpc", "msgspec"):
        if importlib.util.find_spec(module) is None:
            raise GossamerError("learners as processes need gRPC: install gossamer-learning[peers].")


@peer.command("run")
def run(
    config: Path = typer.Argument(metavar="CONFIG", help="The party's folder, or its party.toml."),
    quiet: bool = typer.Option(False, help="Log to log.jsonl alone, and not to the terminal."),
) -> None:
    """Run one learner, on its owner's records, until its rounds are done; start it again whenever it was stopped.

    \b
    gossamer peer run learner-3
    queue-reader | gossamer peer run learner-3   with [data] path = "-"; it must bring each record once, ever
    """
    needs_extra()
    from gossamer.peers.config import read_config
    from gossamer.peers.process import run_learner

    raise typer.Exit(run_learner(read_config(config), quiet=quiet))


@peers.command("init")
def init(
    folder: Path = typer.Argument(help="A new folder for the run."),
    learners: int = typer.Option(10, min=2, help="How many learners."),
    graph: options.Graph = None,
    csv: options.Csv = None,
    target: options.Target = None,
    categories: options.Categories = [],  # noqa: B006, typer makes a new list for every call
    classes: options.Classes = None,
    range_: options.Range = [],  # noqa: B006
    steps: int | None = typer.Option(None, min=1, help="Rounds [default: as many as the records last, or 1000]."),
    per_round: int = typer.Option(4, min=1, help="Records that a learner takes in every round."),
    method: str = typer.Option("ldp_gradient_tracking", help="The algorithm, by its name in gossamer.algorithms."),
    step: str = typer.Option("1,0.8", help="Step size λ0,v: λ0/(t+1)^v."),
    strict: bool = typer.Option(True, help="Refuse schedules that break the method's assumptions."),
    gradient: options.Gradient = None,
    l2: options.L2 = None,
    clip: float | None = typer.Option(None, help="Scale back each record's gradient to this length [mushrooms: 0.5]."),
    epsilon: str = typer.Option(
        "8", help="Each party's budget ε, one for all or one each: 1,2,4; each may change its."
    ),
    law: Law = typer.Option(Law.gaussian, help="Laplace noise (pure ε) or Gaussian (ε at --delta)."),
    delta: options.Delta = None,
    where: Where = typer.Option(Where.source, help="Noise on messages, or on the newest records' gradient."),
    simulated: str | None = typer.Option(
        None, help="Seeded noise ν0,ς instead of a budget, or 0 for none: not private, for tests."
    ),
    numbers: str = typer.Option("f8", help="How vectors travel: f8 or f4."),
    lateness: int = typer.Option(
        0,
        min=0,
        max=64,
        help="For how many rounds a party may go on with a late neighbour's last message; each chooses.",
    ),
    durability: Durability = typer.Option(
        Durability.power, help="What a journal survives: the end of the machine, or, faster, of the process alone."
    ),
    hosts: str | None = typer.Option(None, help="Where the learners run: a,b,c, or one host for all [127.0.0.1]."),
    port: int = typer.Option(7400, min=1, max=65000, help="The first learner's port; the others' follow."),
    metrics_port: int | None = typer.Option(
        None, min=1, max=65000, help="The first learner's /metrics on its localhost; the others' follow [none]."
    ),
    days: int = typer.Option(365, min=1, help="How long certificates are valid."),
) -> None:
    """Make a run: a folder for every party with its configuration, key and certificate.

    \b
    gossamer peers init demo                                mushrooms for ten learners, ready to start
    gossamer peers init run --learners 3 --target ill --classes 0,1 --range age=0:120 --hosts a.org,b.org,c.org
    gossamer peers init run --csv visits.csv --target ill … records of one file, dealt out in turn
    """
    needs_extra()
    from gossamer.cli.peers_init import Wanted, make

    wanted = Wanted(
        folder=folder,
        learners=learners,
        graph=graph,
        csv=csv,
        target=target,
        categories=parse.column_categories(categories),
        classes=parse.class_names(classes),
        ranges=parse.column_ranges(parse.names(range_)),
        steps=steps,
        per_round=per_round,
        method=method,
        step=step,
        strict=strict,
        gradient=gradient or (Gradients.latest if where == Where.source else Gradients.history),
        l2=1e-2 if l2 is None else l2,
        clip=clip,
        epsilon=parse.budgets(epsilon, learners),
        law=law.value,
        delta=DELTA if delta is None else delta,
        where=where.value,
        simulated=simulated,
        numbers=numbers,
        lateness=lateness,
        durability=durability.value,
        hosts=hosts,
        port=port,
        metrics_port=metrics_port,
        days=days,
    )
    said = make(wanted)
    console = Console()
    for sentence in said:
        console.print(f"[yellow]•[/] {escape(sentence)}", highlight=False, soft_wrap=True)


@peers.command("up")
def up(
    folder: Path = typer.Argument(help="A run's folder."),
    restarts: int = typer.Option(100, min=0, help="How often a learner that was killed is started again."),
) -> None:
    """Start all learners of a folder on this machine, each in its own process, and watch them; ctrl-C stops them.

    A learner that is killed comes back, and sends the same bytes again; one that ends with an error ends the others.
    """
    needs_extra()
    from gossamer.cli.peers_up import watch_over

    raise typer.Exit(watch_over(folder, restarts))


@peers.command("status")
def status(
    folder: Path = typer.Argument(help="A run's folder, or one party's."),
    json_: bool = typer.Option(False, "--json", help="As JSON, for programs."),
) -> None:
    """Where the learners are, as each last wrote to its own status file."""
    needs_extra()
    found = statuses(folder)
    if json_:
        typer.echo(json.dumps(found))
        return
    Console().print(table_of(found))


@peers.command("collect")
def collect(
    folder: Path = typer.Argument(help="A run's folder, with the learners' folders in it."),
    out: Path = typer.Option(Path("collected"), help="Where the merged record goes: OUT.npz and OUT.json."),
) -> None:
    """Put the learners' final models together into one record.

    Where a party's noise is on its messages, its own parameters are not private, and the record gets those that it
    sent last; whoever wants the others finds own-model.npy in the party's folder.
    """
    needs_extra()
    record = collected(folder)
    files = record.save(out)
    console = Console()
    for sentence in record.notes:
        console.print(f"[yellow]•[/] {escape(sentence)}", highlight=False, soft_wrap=True)
    console.print(f"{len(record.theta)} models of {record.theta.shape[1]} parameters after {record.t} rounds.")
    console.print("Files: " + escape(", ".join(map(str, files))), highlight=False, soft_wrap=True)


def statuses(folder: Path) -> list[dict[str, Any]]:
    """What every learner of a folder has last said of itself."""
    from gossamer.peers.folders import learners_in
    from gossamer.peers.observe import read_status

    places = [folder] if (folder / "party.toml").exists() else learners_in(folder)
    unknown = {"state": "not started"}
    return [{"folder": place.name, **(read_status(place / "status.json") or unknown)} for place in places]


def table_of(found: list[dict[str, Any]]) -> Table:
    table = Table(*COLUMNS, box=None, header_style="bold", pad_edge=False)
    for one in found:
        errors = one.get("errors") or {}
        loss, score = errors.get("loss"), next((v for k, v in errors.items() if k != "loss"), None)
        spent, budget = (one.get("epsilon") or [None])[0], one.get("budget")
        waits = ", ".join(map(str, one.get("waits_for") or []))
        since = f" ({one['waits']:.0f} s)" if waits and "waits" in one else ""
        rounds = f"{one['round']}/{one['steps']}" if "round" in one else ""
        table.add_row(
            one["folder"].removeprefix("learner-"),
            escape(_state(one)),
            rounds,
            "" if loss is None else f"{loss:.4f}",
            "" if score is None else f"{score:.4f}",
            "not private" if "claim" in one and spent is None else "" if spent is None else f"{spent:.3g}",
            "" if spent is None or budget is None else f"{max(0.0, budget - spent):.3g}",
            waits + since,
        )
    return table


def _state(one: dict[str, Any]) -> str:
    if one["state"] == "failed":
        return f"failed: {one.get('why', '')}"
    quiet = time.time() - one.get("updated", time.time())
    silent = quiet > 5 and one["state"] not in ("done", "stopped", "not started")
    if silent and not Path(f"/proc/{one.get('pid')}").exists() and Path("/proc/self").exists():
        return f"gone, in round {one.get('round', 0)}"
    return f"{one['state']}, silent for {quiet:.0f} s" if silent else str(one["state"])


def collected(folder: Path) -> Record:
    """The merged record of a run whose learners have all ended."""
    from gossamer.peers.config import read_config
    from gossamer.peers.folders import learners_in

    places = learners_in(folder)
    outcomes = [_outcome(place) for place in places]
    missing = [place.name for place, one in zip(places, outcomes, strict=True) if one is None]
    if missing:
        raise GossamerError(f"{', '.join(missing)} of {folder} left no outcome yet: let them run to their end.")
    theta = np.concatenate([one[0] for one in outcomes if one is not None])
    abouts = [one[1] for one in outcomes if one is not None]
    if len({about["run"] for about in abouts}) > 1:
        raise GossamerError(f"the learners of {folder} were in different runs: collect the folders of one.")
    plan = read_config(places[0])
    absent = set(range(plan.config.run.learners)) - {about["learner"] for about in abouts}
    if absent:
        raise GossamerError(
            f"learners {', '.join(map(str, sorted(absent)))} are missing in {folder}: bring theirs, too."
        )
    rounds = [about["round"] for about in abouts]
    learners = np.recarray(len(theta), dtype=LEARNER)
    learners.tracking_error = learners.optimality_gap = learners.accuracy = np.nan
    learners.consensus_error = np.linalg.norm(theta - theta.mean(axis=0), axis=1)
    history = np.recarray(1, dtype=HISTORY)
    history.t = min(rounds)
    for name in LEARNER.names or ():
        history[name] = learners[name].mean()
    private = [about["epsilon"] for about in abouts]
    claims = sorted({about["claim"] for about in abouts})
    late = {about["learner"]: about["late"] for about in abouts if about["late"]}
    notes = [f"Learner {i} gave {about['theta']}." for i, about in enumerate(abouts) if "last sent" in about["theta"]]
    notes = notes[:1] and [f"{len(notes)} learners: {notes[0].partition(' gave ')[2]}"]
    notes += [
        f"Learner {i} went on without {len(rows)} messages, the first of learner {rows[0][1]} in round {rows[0][0]}."
        for i, rows in late.items()
    ]
    if len(set(rounds)) > 1:
        notes.append(f"The learners stopped after {min(rounds)} to {max(rounds)} rounds.")
    run = plan.config.run
    config = {
        "title": f"{run.method}, {run.learners} learners as processes", "version": __version__, "steps": run.steps,
        "algorithm": {"name": run.method, "step": list(run.step)}, "network": {"learners": run.learners},
        "stream": {"kind": "parties' own"}, "model": str(plan.model()), "score": plan.model().score,
        "run": plan.run_name, "late": {str(i): rows for i, rows in late.items()},
    }  # fmt: skip
    epsilon = None if any(one is None for one in private) else budgets(*np.array(private, dtype=float).T)
    optimum = np.full(theta.shape[1], np.nan)
    return Record(
        min(rounds), {"theta": theta}, history, learners, optimum, config, tuple(notes), "; ".join(claims), epsilon
    )


def _outcome(place: Path) -> tuple[Any, dict[str, Any]] | None:
    try:
        with np.load(place / "outcome.npz", allow_pickle=False) as stored:
            return stored["theta"], json.loads(stored["about"].tobytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise GossamerError(f"{place / 'outcome.npz'} cannot be read ({error}): let the learner end again.") from None
