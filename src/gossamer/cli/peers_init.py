"""What `gossamer peers init` writes: configurations from options, records from a file or the mushrooms."""

from __future__ import annotations

import csv as csv_files
import io
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gossamer.cli import parse
from gossamer.errors import GossamerError
from gossamer.networks import Network, read_network
from gossamer.peers.boundary import boundary_of
from gossamer.peers.certificates import name_of
from gossamer.peers.config import (
    Config,
    DataPlan,
    ModelPlan,
    Neighbour,
    PartyPlan,
    Plan,
    PrivacyPlan,
    RecordsPlan,
    Run,
)
from gossamer.peers.folders import make_folders
from gossamer.streams import mushrooms
from gossamer.streams.csv import read_cells
from gossamer.streams.schema import Schema

STEPS = 1000
CLIP = 0.5  # of mushrooms: best of a few in docs/results/privacy


class Wanted(NamedTuple):
    folder: Path
    learners: int
    graph: str | None
    csv: Path | None
    target: str | None
    categories: dict[str, list[str]]
    classes: list[str] | None
    ranges: dict[str, tuple[float, float]]
    steps: int | None
    per_round: int
    method: str
    step: str
    strict: bool
    gradient: str
    l2: float
    clip: float | None
    epsilon: list[float]
    law: str
    delta: float
    where: str
    simulated: str | None
    numbers: str
    lateness: int
    durability: str
    hosts: str | None
    port: int
    metrics_port: int | None
    days: int


class Dealt(NamedTuple):
    """Records for every learner, with their header; none where parties bring their own."""

    header: Sequence[str]
    rows: list[list[list[str]]]


def make(wanted: Wanted) -> list[str]:
    """Write the folders; what to say about them."""
    network = read_network(wanted.graph or ("paper" if wanted.learners == 10 else "random"), wanted.learners)
    records, dealt = _records(wanted)
    shortest = min((len(rows) for rows in dealt.rows), default=0) // wanted.per_round
    if dealt.rows and not shortest:
        raise GossamerError(f"too few records for one round of {wanted.per_round}: use a smaller --per-round.")
    steps = wanted.steps or shortest or STEPS
    hosts = _hosts(wanted)
    clip = wanted.clip if wanted.clip is not None or wanted.csv or wanted.target else CLIP
    step = parse.step_schedule(wanted.step)
    try:
        run = msgspec.convert(
            {
                "id": secrets.token_hex(8), "learners": wanted.learners, "steps": steps, "method": wanted.method,
                "step": [step.initial, step.exponent], "strict": wanted.strict, "gradient": str(wanted.gradient),
                "per_round": wanted.per_round, "numbers": wanted.numbers, "lateness": wanted.lateness,
            },
            type=Run,
        )  # fmt: skip
    except msgspec.ValidationError as error:
        raise GossamerError(f"a run cannot be made of these options: {error}.") from None
    configs = [
        Config(
            run=run,
            model=ModelPlan(l2=wanted.l2, clip=clip),
            records=records,
            party=_party(wanted, i, hosts),
            privacy=_privacy(wanted, i),
            data=DataPlan(path="records.csv", follow=not dealt.rows),
            neighbours=_neighbours(network, i, hosts, wanted.port),
        )
        for i in range(wanted.learners)
    ]
    files = {i: _csv(dealt.header, rows) for i, rows in enumerate(dealt.rows)}
    for config in configs:
        _check(config, wanted.folder, network)
    make_folders(wanted.folder, network, configs, hosts, wanted.days, files)
    first = wanted.folder / name_of(0)
    said = [
        f"{wanted.learners} learners in {wanted.folder}, {steps} rounds of {wanted.per_round} records; "
        f"start all here with: gossamer peers up {wanted.folder}",
        f"Or give each party its folder, to run with: gossamer peer run {first}",
        f"Keep {wanted.folder / 'authority' / 'key.pem'} apart: whoever has it can let learners in.",
    ]
    if not dealt.rows:
        said.append(f"Each party brings its records: {first / 'records.csv'} is followed as it grows.")
    return said


def _check(config: Config, folder: Path, network: Network) -> None:
    """What a learner would refuse at its start is refused now, and nothing written."""
    plan = Plan(config, folder / name_of(config.party.learner), network)
    model = plan.model()
    boundary_of(plan, plan.algorithm(), model, model.theta_size(plan.schema.columns))


def _records(wanted: Wanted) -> tuple[RecordsPlan, Dealt]:
    if wanted.csv is None and wanted.target is None:
        if wanted.classes or wanted.ranges or wanted.categories:
            raise GossamerError("--classes, --range and --categories need --target: the column to predict.")
        return _mushrooms(wanted.learners)
    if wanted.target is None:
        raise GossamerError("--csv needs --target: the column to predict.")
    plan = RecordsPlan(
        target=wanted.target,
        classes=tuple(wanted.classes or ()),
        ranges=wanted.ranges,
        categories={name: tuple(listed) for name, listed in wanted.categories.items()},
    )
    if not wanted.ranges and not wanted.categories:
        raise GossamerError(
            "parties that do not see each other's records need them declared: give --range, --categories, and "
            "--classes or a --range of the target."
        )
    if wanted.csv is None:
        return plan, Dealt((), [])
    cells = read_cells(wanted.csv)
    header, rows = cells.header, cells.text.tolist()
    Schema(plan.target, plan.classes, plan.ranges, plan.categories, plan.intercept).encode(
        wanted.csv, header, cells.lines, rows
    )  # refuses now what a learner would refuse later
    if len(rows) < wanted.learners:
        raise GossamerError(f"{wanted.csv} has {len(rows)} records for {wanted.learners} learners: use fewer learners.")
    return plan, Dealt(header, [rows[i :: wanted.learners] for i in range(wanted.learners)])


def _mushrooms(learners: int) -> tuple[RecordsPlan, Dealt]:
    """The built-in records, shuffled once and dealt out evenly; the veil's type, which is always one, is left out."""
    cells = mushrooms.raw()
    order = np.random.default_rng(0).permutation(len(cells))
    names = [(k, name) for k, name in enumerate(mushrooms.NAMES) if k and name != "veil-type"]
    categories = {name: tuple(np.unique(cells[:, k]).tolist()) for k, name in names}
    plan = RecordsPlan(target="class", classes=("e", "p"), categories=categories)
    size = len(cells) // learners
    dealt = [cells[order[i * size : (i + 1) * size]].tolist() for i in range(learners)]
    return plan, Dealt(mushrooms.NAMES, dealt)


def _hosts(wanted: Wanted) -> list[str]:
    given = parse.names([wanted.hosts]) if wanted.hosts else ["127.0.0.1"]
    if len(given) not in (1, wanted.learners):
        raise GossamerError(
            f"--hosts {wanted.hosts}: {len(given)} for {wanted.learners} learners; give one, or one each."
        )
    return given * wanted.learners if len(given) == 1 else given


def _party(wanted: Wanted, i: int, hosts: list[str]) -> PartyPlan:
    metrics = None if wanted.metrics_port is None else f"127.0.0.1:{wanted.metrics_port + i}"
    local = hosts[i] in ("127.0.0.1", "localhost", "::1")
    listen = f"{_bracketed(hosts[i]) if local else '0.0.0.0'}:{wanted.port + i}"
    durability: Any = wanted.durability
    return PartyPlan(learner=i, listen=listen, metrics=metrics, durability=durability)


def _privacy(wanted: Wanted, i: int) -> PrivacyPlan:
    if wanted.simulated is not None:
        if wanted.simulated.strip() == "0":
            return PrivacyPlan()
        noise: Any = parse.noise_schedule(wanted.simulated, 1)
        return PrivacyPlan(simulated=(float(np.ravel(noise.initial)[0]), float(np.ravel(noise.exponent)[0])))
    law: Any = wanted.law
    where: Any = wanted.where
    return PrivacyPlan(epsilon=wanted.epsilon[i], law=law, where=where, delta=wanted.delta)


def _neighbours(network: Network, i: int, hosts: list[str], port: int) -> dict[str, Neighbour]:
    """Whom learner i sends to, over any matrix, and where each listens."""
    ends = {(a, b) for over in ("R", "C") for a, b, _ in network.edges(over)}
    ends |= {(b, a) for a, b in ends}  # methods over W, and acknowledgements, go both ways
    return {str(j): Neighbour(address=f"{_bracketed(hosts[j])}:{port + j}") for a, j in sorted(ends) if a == i}


def _bracketed(host: str) -> str:
    """A host as it stands before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def _csv(header: Sequence[str], rows: list[list[str]]) -> str:
    text = io.StringIO()
    out = csv_files.writer(text, lineterminator="\n")
    out.writerow(header)
    out.writerows(rows)
    return text.getvalue()
