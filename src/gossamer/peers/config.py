"""A party's configuration: one TOML file. What [run], [model] and [records] say is the same for everybody.

Parties whose shared settings or graphs differ do not talk to each other: their fingerprint is part of the run's name
in every hello. [party], [privacy], [data] and [neighbours] are each party's own business.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from gossamer.algorithms import Algorithm, find_method, methods
from gossamer.arrays import dense
from gossamer.errors import GossamerError
from gossamer.models import Clip, LinearModel, LogisticRegression, RidgeRegression, SoftmaxRegression, clip_l1, clip_l2
from gossamer.networks import Network, read_network
from gossamer.privacy import Gaussian, Laplace, Mechanism
from gossamer.privacy.accountant import ACCOUNTING
from gossamer.schedules import Decay, decay
from gossamer.streams.schema import Schema

Whole = Annotated[int, msgspec.Meta(ge=1)]
Some = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
METHODS = sorted(name for name, method in methods().items() if method.compared)


class Plain(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A table of the file; names that are not known are refused."""


class Run(Plain, frozen=True):
    id: str
    learners: Annotated[int, msgspec.Meta(ge=2)]
    steps: Whole
    graph: str = "graph.json"
    method: str = "ldp_gradient_tracking"
    step: tuple[Positive, float] = (1.0, 0.8)  # λ0, v: λ0/(t+1)^v
    strict: bool = True
    gradient: Literal["history", "latest"] = "history"
    per_round: Whole = 1
    numbers: Literal["f8", "f4"] = "f8"  # how vectors travel
    lateness: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0  # the most rounds that anybody may go on without another


class ModelPlan(Plain, frozen=True):
    l2: Annotated[float, msgspec.Meta(ge=0)] = 1e-2
    clip: Positive | None = None


class RecordsPlan(Plain, frozen=True):
    target: str
    classes: tuple[str, ...] = ()  # none: a quantity, in its range
    ranges: dict[str, tuple[float, float]] = {}
    categories: dict[str, tuple[str, ...]] = {}
    intercept: bool = True


class PartyPlan(Plain, frozen=True):
    learner: Some
    listen: str
    key: str = "key.pem"
    certificate: str = "certificate.pem"
    authority: str = "authority.pem"
    journal: str = "journal.db"
    durability: Literal["process", "power"] = "power"
    late: Some = 0  # rounds in a row that this learner may go on with a neighbour's last message; 0: it waits
    patience: Positive = 10.0  # seconds before it does
    metrics: str | None = None  # where /metrics listens; none: nowhere
    show_errors: bool = False  # put errors on own records into /metrics, too: they are not noised


class PrivacyPlan(Plain, frozen=True):
    """A budget, or simulated noise that claims nothing, or none at all."""

    epsilon: Positive | None = None
    law: Literal["laplace", "gaussian"] = "laplace"
    where: Literal["messages", "source"] = "messages"
    delta: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 1e-5
    horizon: Annotated[float, msgspec.Meta(ge=1, le=1e12)] | Literal["inf"] | None = None
    simulated: tuple[Positive, float] | None = None  # ν0, ς of seeded noise: not private
    seed: Some = 0


class DataPlan(Plain, frozen=True):
    path: str  # "-": standard input
    format: Literal["csv", "jsonl", "parquet"] = "csv"
    follow: bool = False


class Neighbour(Plain, frozen=True):
    """A learner that hears this one, or that this one hears."""

    address: str | None = None  # where it listens, if it hears this one
    certificate: str | None = None  # its own, if the run's authority has not signed it


class Config(Plain, frozen=True):
    run: Run
    records: RecordsPlan
    party: PartyPlan
    data: DataPlan
    model: ModelPlan = ModelPlan()
    privacy: PrivacyPlan = PrivacyPlan()
    neighbours: dict[str, Neighbour] = {}


class Plan:
    """A configuration with the folder that its paths start from, and what can be made of it."""

    def __init__(self, config: Config, folder: Path, network: Network | None = None) -> None:
        self.config, self.folder = config, folder
        run = config.run
        self.network: Network = network or read_network(str(folder / run.graph), run.learners)
        for j in config.neighbours:
            if not j.isascii() or not j.isdecimal() or int(j) >= run.learners:
                raise GossamerError(f"[neighbours.{j}]: expected a learner's number, 0 to {run.learners - 1}.")
        if config.party.learner >= run.learners:
            raise GossamerError(f"[party] learner = {config.party.learner}: expected 0 to {run.learners - 1}.")
        if config.party.late > run.lateness:
            raise GossamerError(
                f"[party] late = {config.party.late}: the run allows {run.lateness} ([run] lateness); use no more."
            )
        shared = {"run": run, "model": config.model, "records": config.records}
        text = json.dumps(msgspec.to_builtins(shared), sort_keys=True) + repr(
            (self.network.edges("R"), self.network.edges("C"))
        )
        self.fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.run_name = f"{run.id}:{self.fingerprint}"
        listed = config.records
        self.schema = Schema(listed.target, listed.classes, listed.ranges, listed.categories, listed.intercept)

    def path(self, name: str) -> Path:
        return self.folder / name

    @property
    def learner(self) -> int:
        return self.config.party.learner

    @property
    def own_settings(self) -> str:
        """What a journal's numbers depend on, beside the shared settings: resumed with nothing else."""
        own = json.dumps(msgspec.to_builtins(self.config.privacy), sort_keys=True)
        if self.config.privacy.epsilon is not None:
            own += f" accounting {ACCOUNTING}"  # rounds that were booked otherwise cannot be gone on from
        return f"{self.fingerprint}-{hashlib.sha256(own.encode()).hexdigest()[:16]}"

    def algorithm(self) -> Algorithm[Any]:
        run = self.config.run
        if run.method not in METHODS:
            raise GossamerError(f"[run] method = {run.method!r}: expected one of {', '.join(METHODS)}.")
        made: Algorithm[Any] = find_method(run.method).factory(decay(*run.step), strict=run.strict)
        return made

    def model(self) -> LinearModel:
        plan, classes = self.config.model, len(self.config.records.classes)
        clip: Clip | None = None
        if plan.clip is not None:
            clip = (clip_l2 if self.config.privacy.law == "gaussian" else clip_l1)(plan.clip)
        if not classes:
            return RidgeRegression(l2=plan.l2, clip=clip)
        return LogisticRegression(plan.l2, clip) if classes == 2 else SoftmaxRegression(classes, plan.l2, clip)

    def mechanism(self) -> Mechanism | None:
        """This party's own noise, where it has a budget."""
        plan = self.config.privacy
        if plan.epsilon is None:
            return None
        if plan.simulated is not None:
            raise GossamerError("[privacy] has a budget and simulated noise: keep one of the two.")
        horizon = float(plan.horizon) if plan.horizon is not None else float(self.config.run.steps)
        if plan.law == "gaussian":
            return Gaussian.for_budget(plan.epsilon, plan.delta, horizon=horizon, where=plan.where)
        return Laplace.for_budget(plan.epsilon, horizon=horizon, where=plan.where)

    def simulated(self) -> Decay | None:
        plan = self.config.privacy
        return None if plan.simulated is None else decay(*plan.simulated)


def read_config(path: str | Path) -> Plan:
    """The configuration in a file; a user's mistake gets one sentence."""
    path = Path(path)
    if (path / "run.json").exists():
        raise GossamerError(f"{path} is a whole run's folder: give one party's, such as {path / 'learner-0'}.")
    if path.is_dir():
        path = path / "party.toml"
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        config = msgspec.convert(given, type=Config)
    except FileNotFoundError:
        raise GossamerError(f"no configuration {path}: make one with 'gossamer peers init'.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise GossamerError(f"{path} cannot be read ({error}).") from None
    except tomllib.TOMLDecodeError as error:
        raise GossamerError(f"{path} is not valid TOML ({error}): correct it.") from None
    except msgspec.ValidationError as error:
        raise GossamerError(f"{path}: {_said(str(error))}.") from None
    return Plan(config, path.parent)


def _said(error: str) -> str:
    """msgspec's words with the place as TOML has it: `$.party.late` is [party] late."""
    what, _, where = error.partition(" - at `$.")
    table, _, name = where.rstrip("`").partition(".")
    place = f"[{table}] {name}".strip() if where else ""
    return f"{place}: {what[0].lower()}{what[1:]}" if place else what[0].lower() + what[1:]


def written(config: Config) -> str:
    """The configuration as TOML, without what has its usual value."""
    lines: list[str] = []
    for table in ("run", "model", "records", "party", "privacy", "data"):
        part = getattr(config, table)
        usual = {f.name: f.default for f in msgspec.structs.fields(part) if f.default is not msgspec.NODEFAULT}
        given = msgspec.to_builtins(part)
        simple = {k: v for k, v in given.items() if not isinstance(v, dict) and v is not None}
        shown = {k: v for k, v in simple.items() if k not in usual or msgspec.to_builtins(usual[k]) != v}
        lines += [f"[{table}]", *(f"{k} = {_toml(v)}" for k, v in shown.items()), ""]
        for name, inner in given.items():
            if isinstance(inner, dict) and inner:
                lines += [f"[{table}.{name}]", *(f"{json.dumps(k)} = {_toml(v)}" for k, v in inner.items()), ""]
    for j, neighbour in config.neighbours.items():
        parts = {k: v for k, v in msgspec.to_builtins(neighbour).items() if v is not None}
        lines += [f"[neighbours.{j}]", *(f"{k} = {_toml(v)}" for k, v in parts.items()), ""]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)


def graph_json(network: Network) -> str:
    """A graph with both matrices, as a file that every party has."""
    matrices: Mapping[str, Any] = {name: _dense(network, name) for name in ("R", "C")}
    return json.dumps(matrices) + "\n"


def _dense(network: Network, name: str) -> list[list[float]]:
    rows: list[list[float]] = dense(getattr(network, name)).tolist()
    return rows
