"""`gossamer peers`: learners as processes of their own."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gossamer.cli import live
from gossamer.cli.bullets import say
from gossamer.cli.json_output import console_beside, json_file, json_option, put_json
from gossamer.cli.options import takes
from gossamer.cli.peer import NOT_PRIVATE, needs_extra
from gossamer.cli.peers_lines import (
    certificates_in,
    changes_in,
    differences_in,
    failures_in,
    held_in,
    releases_in,
    spent_of,
    uncancelled_in,
    whom_epsilon_is_against,
    words_in,
)
from gossamer.cli.words import lasting, printable
from gossamer.errors import BadValue, GossamerError
from gossamer.spec import Spec

if TYPE_CHECKING:
    from gossamer.peers.request import Request

NOTES = 6  # differences beneath the table
peers = typer.Typer(help="A run of learners that are processes of their own: set up, start, watch, collect.")


@peers.command("init")
@takes(
    "csv", "target", "categories", "classes", "range", "outside", "missing", "separator", "encoding", "per_round",
    "algorithm", "step", "strict", "gradient", "remember", "l2",
    "clip", "epsilon", "law", "delta", "where", "horizon", "releases", "band", "secrets", "colluders", "share", "noise",
    "steps", "learners", "graph",
    defaults={
        "learners": 10, "step": "auto", "law": "gaussian", "where": "source",
    },
    helps={
        "csv": "Records of one file, to be dealt out in turn; needs --target.",
        "steps": "Rounds [default: as many as the records last, or 1000].",
        "per_round": "Records that a learner takes in every round [default: 4; with --csv as many as it takes to read "
        "all in half of --steps].",
        "clip": "Scale back each record's gradient to this length [default: of classes, half of what features allow].",
        "epsilon": "Each party's budget ε, one for all or one each: 1,2,4; each may change its [default: 8].",
        "noise": "Seeded noise ν0,ς instead of a budget, or 0 for none: not private, for tests.",
        "step": "Step size λ0,v: λ0/(t+1)^v, or auto, by rule from what all parties know.",
        "gradient": "Over all records so far, or the newest only [default: history].",
        "remember": "Over how many rounds' records that is: memory and work a round grow no further [default: all].",
        "law": "Laplace noise (pure ε) or Gaussian (ε at --delta).",
        "learners": "How many parties.",
        "where": "Noise on messages, or on the gradient over a party's records.",
    },
    flags={"algorithm": ["--algorithm", "--method"], "noise": ["--noise", "--simulated"]},
)  # fmt: skip
def init(
    spec: Spec,
    folder: Path = typer.Argument(help="A new folder for the run."),
    numbers: str = typer.Option("f8", help="How vectors travel: f8 or f4."),
    lateness: int = typer.Option(
        0,
        min=0,
        max=64,
        help="For how many rounds a party may go on with a late neighbour's last message; each chooses.",
    ),
    durability: Literal["power", "process"] = typer.Option(
        "power", help="What a journal survives: the end of the machine, or, faster, of the process alone."
    ),
    hosts: str | None = typer.Option(None, help="Where the learners run: a,b,c, or one host for all [127.0.0.1]."),
    port: int = typer.Option(7400, min=1, max=65000, help="The first learner's port; the others' follow."),
    metrics_port: int | None = typer.Option(
        None, min=1, max=65000, help="The first learner's /metrics on its localhost; the others' follow [none]."
    ),
    days: int = typer.Option(365, min=1, help="How long certificates are valid; the authority's, ten times as long."),
    own_keys: bool = typer.Option(
        False, "--own-keys", help="Make no party's keys: each makes its own (party new), and peers sign lets it in."
    ),
) -> None:
    """Make a run: a folder for every party with its configuration, key and certificate.

    \b
    gossamer peers init demo                                mushrooms for ten learners, ready to start
    gossamer peers init run --learners 3 --target ill --classes 0,1 --range age=0:120 --hosts a.org,b.org,c.org
    gossamer peers init run --csv visits.csv --target ill … records of one file, dealt out in turn
    gossamer peers init demo --secrets complete --colluders 2    noise that cancels: more accurate at the same ε
    """
    needs_extra()
    from gossamer.cli.peers_init import Places, make

    _say(make(folder, spec, Places(hosts, port, metrics_port, days, durability, own_keys), numbers, lateness))


@peers.command("sign")
def sign(
    folder: Path = typer.Argument(help="A run's folder, made with --own-keys."),
    requests: list[Path] = typer.Argument(None, help="Files of 'party new' or 'party renew', in the learners' order."),
    learner: int | None = typer.Option(
        None, min=0, help="Whose request it is [default: those that have none, in turn]."
    ),
    authority: Path | None = typer.Option(None, help="Where the authority's key is [default: FOLDER/authority]."),
    days: int | None = typer.Option(None, min=1, help="How long certificates are valid [default: 365]."),
) -> None:
    """Let parties into a run by their own requests; once all are there, write what goes back to each.

    Nothing secret is in a request or in what goes back. The run is open until all requests are in: then its agreement
    is final, and twelve words stand for it, which all compare by telephone. After that it renews certificates.

    \b
    gossamer peers init study --own-keys --learners 3 --target ill …     the run, with nobody's keys
    gossamer peers sign study north.json east.json south.json            all requests, in the learners' order
    gossamer peers sign study renewal.json                               a new certificate for who has enrolled
    """
    needs_extra()
    from gossamer.cli.enrolment import show_enrolled
    from gossamer.peers.enrolment import sign as sign_requests

    done = sign_requests(folder, requests or [], learner, authority or folder / "authority", days)
    show_enrolled(Console(), done)


@peers.command("up")
def up(
    folder: Path = typer.Argument(help="A run's folder."),
    restarts: int = typer.Option(
        100,
        min=0,
        help="How often a learner that was killed is started again; what ends for what passes by itself always is.",
    ),
    not_private: bool = NOT_PRIVATE,
    live_page: bool = live.LIVE,
    live_at: str | None = live.LIVE_AT,
    live_stay: bool = live.STAY,
) -> None:
    """Start all learners of a folder on this machine, each in its own process, and watch them; ctrl-C stops them.

    A learner that is killed comes back, and sends the same bytes again; one that ends with an error ends the others.
    """
    needs_extra()
    from gossamer.cli.peers_up import watch_over

    raise typer.Exit(watch_over(folder, restarts, live.wanted(live_page, live_at, live_stay), not_private))


@peers.command("revoke")
def revoke(
    folder: Path = typer.Argument(help="A run's folder."),
    learner: int = typer.Option(min=0, help="Whose certificate."),
    serial: str | None = typer.Option(None, metavar="HEX", help="One certificate alone, by its serial number."),
    certificate: Path | None = typer.Option(None, help="One certificate alone, such as one that was brought along."),
    authority: Path | None = typer.Option(None, help="Where the authority's key is [default: FOLDER/authority]."),
    unsigned: bool = typer.Option(False, "--unsigned", help="For all parties to sign, and not the authority."),
) -> None:
    """Say that a learner's key counts no more, with all its certificates: writes FOLDER/revoked.json, for all parties.

    Each takes it with peer accept. A learner that runs takes it within seconds, closes its links to that one, and
    opens no others; the run then waits for it, unless it is put out.
    """
    needs_extra()
    from gossamer.cli.enrolment import show_revoked

    show_revoked(
        Console(), folder, learner, serial, certificate, None if unsigned else authority or folder / "authority"
    )


@peers.command("rotate")
def rotate(
    folder: Path = typer.Argument(help="A run's folder."),
    to: Path = typer.Option(help="The folder of the authority that follows; made where it is not there."),
    authority: Path | None = typer.Option(None, help="The one that it follows [default: FOLDER/authority]."),
    overlap: int = typer.Option(30, min=0, help="Days for which certificates of both count."),
    days: int = typer.Option(3650, min=1, help="How long a new authority's certificate is valid."),
    unsigned: bool = typer.Option(False, "--unsigned", help="For all parties to sign, where the old key is lost."),
) -> None:
    """Let another authority sign certificates from now on: writes FOLDER/authority-N.json, for all parties.

    Each takes it with peer accept, and has its certificate renewed by the new authority before the overlap ends.
    """
    needs_extra()
    from gossamer.cli.enrolment import show_rotated

    show_rotated(Console(), folder, to, None if unsigned else authority or folder / "authority", overlap, days)


@peers.command("change")
def change(
    folder: Path = typer.Argument(help="A run's folder."),
    at: int = typer.Option(min=1, help="The round from which on it holds; later than any party's, by as many as tell."),
    leave: str | None = typer.Option(None, help="Who takes part in the round before for the last time: 3,5."),
    join: list[str] = typer.Option(
        [], metavar="N=HOST:PORT", help="A new number, and where that party listens, or its request."
    ),
    lost: str | None = typer.Option(None, help="Who is gone for good, and is put out: 3."),
    graph: str | None = typer.Option(None, help="The new graph, among the members in the order of their numbers."),
    address: list[str] = typer.Option([], metavar="N=HOST:PORT", help="Where a party listens, if nobody here knows."),
    authority: Path | None = typer.Option(None, help="Where the authority's key is [default: FOLDER/authority]."),
    unsigned: bool = typer.Option(False, "--unsigned", help="For all parties to sign, and not the authority."),
    again: bool = typer.Option(
        False, "--again", help="In place of the newest document, which was refused and no party has accepted."
    ),
) -> None:
    """Let parties join, leave or be put out from a round on: writes FOLDER/changes/K.json, for one party to accept.

    That party passes it on to all others, before any of them gets to that round; it is refused where that is not
    certain. The folder of a party that joins is made beside the others'.

    \b
    gossamer peers change study --at 400 --leave 3
    gossamer peers change study --at 600 --join 10=j.example.org:7410
    gossamer peers change study --at 600 --join 10=west/request.json      with a key of its own (party new)
    gossamer peers change study --at 800 --lost 5        who is lost for good
    gossamer peer accept study/learner-0 study/changes/1.json
    """
    needs_extra()
    from gossamer.cli.membership import show_change
    from gossamer.peers.proposing import Wanted

    plain, requests = requests_in(join)
    wanted = Wanted(
        at, numbers_in("leave", leave), numbers_in("lost", lost), addresses_in("join", plain), graph,
        addresses_in("address", address), requests, again,
    )  # fmt: skip
    show_change(Console(), folder, wanted, None if unsigned else authority or folder / "authority")


@peers.command("status")
def status(
    folder: Path = typer.Argument(help="A run's folder, or one party's."),
    json: str | None = json_option("what the learners say, a list,"),
) -> None:
    """Where the learners are, as each last wrote to its own status file."""
    needs_extra()
    from gossamer.peers.status import read_statuses

    json_file(json)
    statuses = read_statuses(folder)
    console = console_beside(json)
    console.print(table_of(statuses))
    for sentence in whom_epsilon_is_against(statuses):
        console.print(escape(printable(sentence)), highlight=False, soft_wrap=True)
    _say([*notes_in(statuses), *words_in(statuses)], console)
    if all(one["state"] == "not started" for one in statuses) and run_elsewhere(folder):
        _say(["Its parties have their own keys, and run in their own folders: ask there, or gossamer peers watch."])
    put_json(json, statuses)


@peers.command("watch")
def watch(
    addresses: list[str] = typer.Argument(None, metavar="HOST:PORT", help="/metrics of parties that agree to it."),
    file: Path | None = typer.Option(None, help="More of them, one a line, or Prometheus's list of targets as .json."),
    every: float = typer.Option(5.0, min=0.5, max=3600, help="Seconds from one question to the next."),
    timeout: float = typer.Option(5.0, min=0.1, max=600, help="Seconds that an answer may take."),
    late: float = typer.Option(30.0, min=0, help="Seconds that a party may be waited for."),
    once: bool = typer.Option(
        False, "--once", help="One look; the exit code is 1 where something is wrong, or no answer."
    ),
    json: str | None = json_option("one look (as with --once)"),
) -> None:
    """One table of a whole run, from /metrics of the parties that agree to it: rounds, ε, and whom others wait for.

    \b
    gossamer peers watch a.example.org:9400 b.example.org:9400
    gossamer peers watch --file targets.txt --once --json
    """
    needs_extra()
    from gossamer.cli.peers_watch import look_once, targets_of, watch_until_done
    from gossamer.peers.scraping import read_targets
    from gossamer.peers.watching import Watch

    json_file(json)
    watched = Watch(targets_of([*(addresses or []), *(read_targets(file) if file else [])]), every, timeout)
    watched.start()
    if once or json is not None:
        raise typer.Exit(look_once(watched, late, json))
    watch_until_done(watched, late)


@peers.command("collect")
def collect(
    folder: Path = typer.Argument(help="A run's folder, with the learners' folders in it."),
    out: Path = typer.Option(Path("collected"), help="Where the run record goes: OUT.npz and OUT.json."),
    without: str | None = typer.Option(None, help="Learners whose outcomes are not to be had: 3,5."),
    json: str | None = json_option("the run record's numbers"),
) -> None:
    """Put the learners' final models together into one run record, and write FOLDER/report.html of it.

    Where a party's noise is on its messages, its own parameters are not private, and the run record gets those that it
    sent last; whoever wants the others finds own-model.npy in the party's folder. Who left, or was put out, before the
    end is left out, with a note.
    """
    needs_extra()
    from gossamer.peers.certificates import learner_of
    from gossamer.peers.config import read_config, shared_toml
    from gossamer.peers.folders import learners_in
    from gossamer.peers.outcome import collect_outcomes
    from gossamer.report.folder import write_report

    json_file(json)
    left_out = numbers_in("without", without)
    record = collect_outcomes(folder, left_out)
    first = next(place for place in learners_in(folder) if learner_of(place.name) not in left_out)
    config = shared_toml(read_config(first).config)
    view = record.view(kind="peers", command=shlex.join(["gossamer", "peers", "up", str(folder)]), config=config)
    files, console = [*record.save(out), *write_report(folder, view)], console_beside(json)
    put_json(json, record.summary())
    _say(record.notes, console)
    if record.epsilon is not None:
        spent = spent_of([list(map(float, row)) for row in record.epsilon]).removeprefix(", ")
        whom = record.config.get("against")
        said = printable(f"{spent}, {whom}." if whom else f"{spent}.")
        console.print(escape(said), highlight=False, soft_wrap=True)
    models, parameters = record.theta.shape[:2]
    console.print(f"{models} model{'s' * (models > 1)} of {parameters} parameters after {record.t} rounds.")
    console.print("Files: " + escape(", ".join(map(str, files))), highlight=False, soft_wrap=True)


def numbers_in(option: str, given: str | None) -> list[int]:
    """Learners' numbers from an option: 3,5."""
    words = [] if given is None else [word.strip() for word in given.split(",")]
    if not all(word.isascii() and word.isdecimal() for word in words):
        raise BadValue(option, given, "expected learners' numbers with commas between them, such as 3,5")
    return sorted({int(word) for word in words})


def requests_in(given: list[str]) -> tuple[list[str], dict[int, Request]]:
    """`--join 10=west/request.json` as `10=HOST:PORT`, the address of the request; and the requests by number."""
    from gossamer.peers.request import read_request

    plain, requests = [], {}
    for one in given:
        number, _, where = one.partition("=")
        if number.isascii() and number.isdecimal() and Path(where).is_file():
            request = read_request(Path(where))
            if request.address is None:
                raise GossamerError(f"{where} says no address: make it with 'gossamer party new --address HOST:PORT'.")
            requests[int(number)], where = request, request.address
        plain.append(f"{number}={where}")
    return plain, requests


def addresses_in(option: str, given: list[str]) -> dict[int, str]:
    """Learners' numbers and their addresses from an option: 10=j.example.org:7410."""
    from gossamer.peers.addresses import host_of

    found = {}
    for one in given:
        number, _, where = one.partition("=")
        try:
            if not number.isascii() or not number.isdecimal():
                raise ValueError
            host_of(where)
        except ValueError:
            raise BadValue(option, one, "expected a number and an address, such as 10=j.example.org:7410") from None
        found[int(number)] = where
    return found


def _say(sentences: Iterable[str], console: Console | None = None) -> None:
    for sentence in sentences:
        say(console or Console(), sentence)


def view_of(statuses: list[dict[str, Any]]) -> Group:
    """The learners' table, and beneath it the first of what keeps some of them apart."""
    why = notes_in(statuses)
    more = [f"[yellow]•[/] and {len(why) - NOTES} more"] if len(why) > NOTES else []
    notes = [f"[yellow]•[/] {escape(printable(sentence))}" for sentence in why[:NOTES]]
    whom = [escape(printable(sentence)) for sentence in whom_epsilon_is_against(statuses)]
    return Group(table_of(statuses), *map(Text.from_markup, whom + notes + more))


def notes_in(statuses: list[dict[str, Any]]) -> list[str]:
    """What a person has to know of learners, a sentence each."""
    return [
        *failures_in(statuses),
        *held_in(statuses),
        *differences_in(statuses),
        *uncancelled_in(statuses),
        *releases_in(statuses),
        *certificates_in(statuses),
        *changes_in(statuses),
    ]


def run_elsewhere(folder: Path) -> bool:
    """Whether this is a coordinator's folder of parties with keys of their own."""
    return (folder / "run.json").exists() and not any(folder.glob("learner-*/key.pem"))


def table_of(statuses: list[dict[str, Any]]) -> Table:
    """What the learners say of themselves, one a row."""
    shared = any(len(one.get("epsilon") or []) > 2 for one in statuses)
    alone = ["if all others collude"] if shared else []
    columns = ("learner", "state", "round", "loss", "score", "ε spent", "ε left", *alone, "waits for")
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for one in statuses:
        errors = one.get("errors") or {}
        loss, score = errors.get("loss"), next((v for k, v in errors.items() if k != "loss"), None)
        spent, budget = (one.get("epsilon") or [None])[0], one.get("budget")
        waits = ", ".join(map(str, one.get("waits_for") or []))
        since = f" ({lasting(one['waits'])})" if waits and "waits" in one else ""
        rounds = f"{one['round']}/{one['steps']}" if "round" in one else ""
        table.add_row(
            one["folder"].removeprefix("learner-"),
            escape(printable(_state(one))),
            rounds,
            "" if loss is None else f"{loss:.4f}",
            "" if score is None else f"{score:.4f}",
            "not private" if "claim" in one and spent is None else "" if spent is None else f"{spent:.3g}",
            "" if spent is None or budget is None else f"{max(0.0, budget - spent):.3g}",
            *([f"{one['epsilon'][2]:.3g}" if len(one.get("epsilon") or []) > 2 else ""] if shared else []),
            waits + since,
        )
    return table


def _state(one: dict[str, Any]) -> str:
    ended = one["state"] in ("done", "stopped")
    for word in ("left", "put out"):
        if ended and word in (one.get("membership") or {}):
            return word
    quiet = time.time() - one.get("updated", time.time())
    silent = quiet > 5 and one["state"] not in ("done", "stopped", "not started")
    if silent and not Path(f"/proc/{one.get('pid')}").exists() and Path("/proc/self").exists():
        return f"gone, in round {one.get('round', 0)}"
    state = "settings differ" if one.get("differs") and one["state"] == "waiting" else str(one["state"])
    return f"{state}, silent for {lasting(quiet)}" if silent else state
