"""A party's configuration: one TOML file. What [run], [model], [records] and [secrets] say is the same for everybody.

Parties whose shared settings or graphs differ do not talk to each other: their fingerprint is part of the run's name
in every hello, and they tell each other what differs. [party], [privacy], [data] and [neighbours] are each party's own
business.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from gossamer.algorithms import METHODS, Algorithm
from gossamer.arrays import dense
from gossamer.errors import Argument, GossamerError, NotProvable
from gossamer.models import LinearModel
from gossamer.models.registry import MODELS
from gossamer.networks import Network, read_network
from gossamer.peers.addresses import check_address
from gossamer.peers.agreement import shared_settings
from gossamer.peers.certificates import NUMBER
from gossamer.peers.dials import Dial
from gossamer.peers.membership import joiners_in
from gossamer.privacy import Mechanism, Secrets
from gossamer.privacy.accountant import ACCOUNTING
from gossamer.privacy.laws import law_named
from gossamer.privacy.mechanisms import MECHANISMS
from gossamer.privacy.secret_graphs import partners_of
from gossamer.privacy.secrets import REGULAR
from gossamer.spec import Spec
from gossamer.spec.build import build_algorithm, build_model
from gossamer.spec.fields import check_names
from gossamer.spec.files import load_toml, toml_value
from gossamer.spec.languages import release_schedule
from gossamer.spec.rules import Learnt
from gossamer.streams.schema import SCALED_TO, Schema, range_of

PLACE = re.compile(r"(\w+)(\[\.\.\.\])?\.?(.*)")  # in msgspec's words: neighbours[...].dial
LARGEST = 1 << 26  # bytes of a key, or of certificates
MOST = 1 << 53  # up to it whole numbers are floats, too
Whole = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Some = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Finite = Annotated[float, msgspec.Meta(gt=0, lt=1e300)]


class Plain(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A table of the file; names that are not known are refused."""


class Run(Plain, frozen=True):
    id: str
    learners: Annotated[int, msgspec.Meta(ge=2, le=MOST)]
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
    standardise: bool = False  # see numbers from their middle, in units of their spread; the ridge spares the intercept
    remember: Whole | None = None  # over how many rounds' records a history is the mean; none: over all


class RecordsPlan(Plain, frozen=True):
    target: str
    classes: tuple[str, ...] = ()  # none: a quantity, in its range
    ranges: dict[str, tuple[float | str, float | str]] = {}  # text: dates
    categories: dict[str, tuple[str, ...]] = {}
    intercept: bool = True
    outside: Literal["clip", "refuse"] = "clip"
    missing: Literal["refuse", "mean-of-range", "category"] = "refuse"

    def schema(self) -> Schema:
        ranges = {name: range_of(name, ends) for name, ends in self.ranges.items()}
        return Schema(
            self.target, self.classes, {name: ends for name, (ends, _) in ranges.items()}, self.categories,
            self.intercept, dates=[name for name, (_, date) in ranges.items() if date], outside=self.outside,
            missing=self.missing,
        )  # fmt: skip


class SecretsPlan(Plain, frozen=True):
    """Noise that cancels, as all have agreed on it: see gossamer.privacy.secrets. `peers init` decides it.

    What others count on is in here. A party whose own budget needs more noise than `floor` adds it alone; one whose
    budget would do with less adds `floor` all the same.
    """

    share: Finite  # τ/σ, the noise of a pair in units of `floor`
    floor: Finite  # σ of round 0, which everybody's own noise has at least
    exponent: float  # noise of round t is that of round 0 times (t+1)^-exponent
    releases: str  # the rounds that release, as for 'gossamer run'
    keys: dict[str, str]  # fingerprint of every learner's public key, by its number
    graph: str = "complete"  # or "4-regular", or a file with the graph
    colluders: Some = 0
    band: Whole = 1  # over how many releases noise is correlated


class PartyPlan(Plain, frozen=True):
    learner: Some
    listen: str | None = None  # none: it dials for all its links, and nobody reaches it
    key: str = "key.pem"
    certificate: str = "certificate.pem"
    authority: str = "authority.pem"
    members: str | None = None  # the certificates with which all parties have enrolled; none: the authority's word
    secret: str = "secret.pem"  # with [secrets]: its key for noise that cancels; it moves into the journal
    partners: str = "partners.pem"  # and the certificates of those that it shares noise with
    journal: str = "journal.db"
    durability: Literal["process", "power"] = "power"
    late: Some = 0  # rounds in a row that this learner may go on with a neighbour's last message; 0: it waits
    patience: Positive = 10.0  # seconds before it does
    metrics: str | None = None  # where /metrics listens; none: nowhere
    show_errors: bool = False  # put errors on own records into /metrics, too: they are not noised


class PrivacyPlan(Plain, frozen=True):
    """A budget, or simulated noise that claims nothing, or none at all."""

    epsilon: Positive | None = None
    law: str = "laplace"
    where: Literal["messages", "source"] = "messages"
    delta: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 1e-5
    horizon: Annotated[float, msgspec.Meta(ge=1, le=1e12)] | Literal["inf"] | None = None
    releases: str | None = (
        None  # at the source: the rounds that release a gradient, as for 'gossamer run'; none: by rule
    )
    band: Whole = 1  # at the source: over how many releases noise is correlated
    simulated: tuple[Positive, float] | None = None  # ν0, ς of seeded noise: not private
    seed: Some = 0


class DataPlan(Plain, frozen=True):
    path: str  # "-": standard input
    records: Whole | None = None  # how many there are in all: rounds go on over them; none: every round brings new ones
    format: Literal["csv", "jsonl", "parquet"] = "csv"
    follow: bool = False


class Neighbour(Plain, frozen=True):
    """A learner that hears this one, or that this one hears."""

    address: str | None = None  # where it listens, if this party dials it
    dial: Dial = "sender"  # who opens the links to and from it: see gossamer.peers.dials
    certificate: str | None = None  # its own, if the run's authority has not signed it
    believe: bool = True  # where it says that this party's journal is old; false: the owner knows that it is not


class Config(Plain, frozen=True):
    run: Run
    records: RecordsPlan
    party: PartyPlan
    data: DataPlan
    model: ModelPlan = ModelPlan()
    privacy: PrivacyPlan = PrivacyPlan()
    secrets: SecretsPlan | None = None
    neighbours: dict[str, Neighbour] = {}


class Plan:
    """A configuration with the folder that its paths start from, and what can be made of it."""

    def __init__(
        self, config: Config, folder: Path, network: Network | None = None, pairs: Network | None = None
    ) -> None:
        self.config, self.folder, self.learner = config, folder, config.party.learner
        run = config.run
        self.network: Network = network or read_network(str(_regular(folder / run.graph)), run.learners)
        everybody = {*range(run.learners), *joiners_in(folder)}
        for j in config.neighbours:
            if not NUMBER.fullmatch(j) or int(j) not in everybody:
                raise GossamerError(f"[neighbours.{j}]: expected a learner's number, 0 to {run.learners - 1}.")
        if self.learner not in everybody:
            raise GossamerError(
                f"[party] learner = {self.learner}: expected 0 to {run.learners - 1}, or a document in "
                f"{folder / 'changes'} with which it joins."
            )
        check_address("[party] listen", config.party.listen, least=0)
        check_address("[party] metrics", config.party.metrics, least=0)
        for j, neighbour in config.neighbours.items():
            check_address(f"[neighbours.{j}] address", neighbour.address)
        law_named(config.privacy.law)
        if config.party.late > run.lateness:
            raise GossamerError(
                f"[party] late = {config.party.late}: the run allows {run.lateness} ([run] lateness); use no more."
            )
        self.schema = config.records.schema()
        shared = msgspec.to_builtins({"run": run, "model": config.model, "records": config.records})
        if config.model.remember is None:  # which runs of older versions do not know
            del shared["model"]["remember"]
        self.secrets = None if config.secrets is None else self._secrets(config.secrets, pairs)
        if self.secrets is not None:
            shared["secrets"] = msgspec.to_builtins(config.secrets)
            if not isinstance(self.secrets.graph, str):
                shared["secrets"]["pairs"] = {f"{i}-{j}": True for i, j in self.secrets.edges(run.learners)}
        # with the layout and the scale: a party, or a journal, whose θ_k means something else is of another run
        text = json.dumps(shared, sort_keys=True) + repr(
            (self.network.edges("R"), self.network.edges("C"), self.schema.column_names, SCALED_TO)
        )
        # parties that run other code under this name are of another run
        code = METHODS.find_installed(run.method).code if ":" in run.method else ""  # from here on it is this module
        text += code
        self.shared = shared_settings(shared, self.network, code)
        self.agreement = hashlib.sha256(text.encode()).hexdigest()
        self.fingerprint = self.agreement[:16]  # enough to find a mistake, and too little to stop somebody who tries
        self.run_name = f"{run.id}:{self.fingerprint}"

    def _secrets(self, plan: SecretsPlan, pairs: Network | None) -> Secrets:
        """Who shares noise with whom; refuses what is not complete."""
        learners = self.config.run.learners
        named = plan.graph == "complete" or plan.graph.endswith(REGULAR)
        graph: Any = plan.graph if named else pairs or read_network(str(self.folder / plan.graph), learners)
        with _in_words_of("secrets"):
            secrets = Secrets(graph, plan.colluders, plan.share)
            secrets.check(learners)
        if set(plan.keys) != set(map(str, range(learners))):
            raise GossamerError(
                f"[secrets.keys] names {', '.join(sorted(plan.keys)) or 'nobody'}: expected every learner, 0 to "
                f"{learners - 1}; take all parties' folders from one 'gossamer peers init'."
            )
        return secrets

    def read(self, name: str) -> bytes:
        """One of the files that [party] or [neighbours] names."""
        try:
            with _regular(self.folder / name).open("rb") as file:
                return file.read(LARGEST)
        except OSError as error:
            raise GossamerError(f"{self.folder / name} cannot be read ({error.strerror}): put it there.") from None

    @property
    def partners(self) -> list[int]:
        """Everybody that this party shares noise with."""
        if self.secrets is None:
            return []
        return partners_of(self.secrets.edges(self.config.run.learners), self.learner)

    @property
    def own_settings(self) -> str:
        """What a journal's numbers depend on, beside the shared settings: resumed with nothing else."""
        usual = PrivacyPlan()
        own_privacy = msgspec.to_builtins(self.config.privacy)
        for name in ("releases", "band"):  # which journals of older versions do not know
            if own_privacy[name] == getattr(usual, name):
                del own_privacy[name]
        own = json.dumps(own_privacy, sort_keys=True)
        if self.config.privacy.epsilon is not None:
            own += f" accounting {ACCOUNTING}"  # rounds that were booked otherwise cannot be gone on from
        if self.config.data.records is not None:
            own += f" records {self.config.data.records}"  # which noise is found for, and booked by
        return f"{self.fingerprint}-{hashlib.sha256(own.encode()).hexdigest()[:16]}"

    @cached_property
    def spec(self) -> Spec:
        """The party's run in the words in which every run is described."""
        run, model, privacy = self.config.run, self.config.model, self.config.privacy
        return Spec.of(
            algorithm=run.method, step=",".join(map(repr, run.step)), strict=run.strict, gradient=run.gradient,
            per_round=run.per_round, steps=run.steps, learners=run.learners, l2=model.l2, clip=model.clip, noise="0",
            standardise=model.standardise, remember=model.remember,
            law=privacy.law, where=privacy.where,
        )  # fmt: skip

    def algorithm(self) -> Algorithm[Any]:
        """The run's method: a declared one, or one of the parties' own, whose code is then part of the run's name."""
        name, known = self.config.run.method, [name for name, one in METHODS.entries().items() if one.compared]
        if ":" not in name and name not in known:
            raise GossamerError(f"[run] method = {toml_value(name)}: expected one of {', '.join(known)}.")
        return build_algorithm(self.spec, None, self.config.run.learners)

    def model(self) -> LinearModel:
        classes = len(self.config.records.classes)
        kind = "ridge" if not classes else "logistic" if classes == 2 else "softmax"
        learnt = Learnt(MODELS.find(kind), max(classes, 1))
        table, own = self.schema.table(), self.config.model
        free = own.standardise and self.config.records.intercept
        model: LinearModel = build_model(self.spec, learnt, (self.schema.columns,), table, own.l2, free)
        return model

    def mechanism(self) -> Mechanism | None:
        """This party's own noise, where it has a budget."""
        plan, agreed = self.config.privacy, self.config.secrets
        if agreed is not None:
            self._check_agreed(plan, agreed)
        if plan.epsilon is None:
            return None
        if plan.simulated is not None:
            raise GossamerError("[privacy] has a budget and simulated noise: keep one of the two.")
        horizon = float(plan.horizon) if plan.horizon is not None else float(self.config.run.steps)
        delta = plan.delta if law_named(plan.law).needs_delta else 0.0
        given: PrivacyPlan | SecretsPlan = plan if agreed is None else agreed
        with _in_words_of("privacy" if agreed is None else "secrets"):
            releases = None if given.releases is None else release_schedule(given.releases)
            return MECHANISMS[plan.law].for_budget(
                plan.epsilon, delta, horizon=horizon, where=plan.where,
                exponent=None if agreed is None else agreed.exponent,
                releases=releases, band=given.band, secrets=self.secrets,
            )  # fmt: skip

    def _check_agreed(self, plan: PrivacyPlan, agreed: SecretsPlan) -> None:
        """Refuse [privacy] with which a party's noise would not be what others count on."""
        if plan.simulated is not None:
            raise GossamerError(
                "[secrets] with [privacy] simulated: others count on exact noise; give epsilon instead."
            )
        if plan.epsilon is None:
            raise GossamerError(
                "[secrets] without a budget: others count on this party's noise; give [privacy] epsilon."
            )
        if self.config.party.durability != "power":
            # A round that was sent and is lost would be drawn again, with the same noise of pairs and other own noise.
            raise GossamerError(
                f"[secrets] with [party] durability = {toml_value(self.config.party.durability)}: a round must not be "
                'drawn twice, not even after a power cut; use durability = "power".'
            )
        if plan.where != "source":
            raise GossamerError(
                f"[secrets] with [privacy] where = {toml_value(plan.where)}: noise of pairs cancels at the source "
                'alone; use where = "source".'
            )
        if not law_named(plan.law).squared:
            raise GossamerError(
                f"[secrets] with [privacy] law = {toml_value(plan.law)}: pairs share Gaussian noise; use law = "
                '"gaussian".'
            )
        if plan.releases is not None and release_schedule(plan.releases) != release_schedule(agreed.releases):
            raise GossamerError(
                f"[privacy] releases = {toml_value(plan.releases)} and [secrets] releases = "
                f"{toml_value(agreed.releases)}: noise cancels among those who release together; leave out the first."
            )
        if plan.band not in (1, agreed.band):
            raise GossamerError(
                f"[privacy] band = {plan.band} and [secrets] band = {agreed.band}: noise cancels where it is "
                "correlated alike; leave out the first."
            )


def _regular(path: Path) -> Path:
    """Refuse a device or a pipe, which may have no end; a file that is not there is said by whoever reads it."""
    if path.exists() and not path.is_file():
        raise GossamerError(f"{path} is no file: put one there.")
    return path


@contextmanager
def _in_words_of(table: str) -> Iterator[None]:
    """A mistake in a table of the file is told by the file's own keys: [secrets] colluders = 9."""

    def words(argument: Argument) -> str:
        name = "graph" if argument.name == "secrets" else argument.name
        return f"[{table}] {name}" + (f" = {toml_value(argument.value)}" if argument.has_value else "")

    try:
        yield
    except GossamerError as error:
        kind = NotProvable if isinstance(error, NotProvable) else GossamerError
        raise kind(error.said(words)) from None


def read_config(path: str | Path) -> Plan:
    """The configuration in a file; a user's mistake gets one sentence."""
    path = Path(path)
    if (path / "run.json").exists():
        raise GossamerError(f"{path} is a whole run's folder: give one party's, such as {path / 'learner-0'}.")
    if path.is_dir():
        path = path / "party.toml"
    if not path.exists():
        if (path.parent / "request.json").exists():
            raise GossamerError(
                f"{path.parent} has not joined a run yet: gossamer party join {path.parent} FILE, with the file that "
                "comes back when its request was signed."
            )
        raise GossamerError(f"no configuration {path}: make one with 'gossamer peers init'.")
    if path.suffix == ".json":
        raise GossamerError(f"{path} is no party's folder: say the folder first, and then the file.")
    given = load_toml(path)
    _check_keys(given, path)
    try:
        config = msgspec.convert(given, type=Config)
    except msgspec.ValidationError as error:
        raise GossamerError(f"{path}: {_said(str(error), given)}.") from None
    for table in (config.run, config.party, config.data, *config.neighbours.values()):  # those that name files
        for name, value in msgspec.to_builtins(table).items():
            if isinstance(value, str) and "\0" in value:
                raise GossamerError(f"{path}: {name} = {toml_value(value)} has a zero in it, which no name has.")
    return Plan(config, path.parent)


def _check_keys(given: Mapping[str, Any], path: Path) -> None:
    """Refuse a table or a key that is not known, and say which one was probably meant."""
    tables = {one.name: one.type for one in msgspec.structs.fields(Config)}
    check_names(given, tables, str(path))
    for table, values in given.items():
        several, kind = get_origin(tables[table]) is dict, _kind_of(table)  # [neighbours.3] is one of many
        for place, part in values.items() if several and isinstance(values, Mapping) else [("", values)]:
            if isinstance(part, Mapping):
                known = [one.name for one in msgspec.structs.fields(kind)]
                check_names(part, known, f"[{table}{place and '.'}{place}] of {path}")


def _kind_of(table: str) -> type[Plain]:
    """What is in a table; of several, in each."""
    given = {one.name: one.type for one in msgspec.structs.fields(Config)}[table]
    kind: type[Plain] = next(one for one in (*get_args(given), given) if _is_table(one))
    return kind


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Plain)


def _said(error: str, given: Mapping[str, Any]) -> str:
    """msgspec's words with the place as TOML has it, `$.party.late` is [party] late; and what a word may be."""
    what, _, where = error.partition(" - at `$.")
    what, place = f"{what[0].lower()}{what[1:]}", PLACE.match(where.rstrip("`"))
    if place is None:
        return what
    table, several, name = place.groups()
    kind = _kind_of(table)
    if what.startswith("invalid enum value"):
        words = {field.name: get_args(field.type) for field in msgspec.structs.fields(kind)}[name]
        what += f", expected one of {', '.join(map(toml_value, words))}"
    return f"[{table}{_wrong_one(kind, given[table]) if several else ''}] {name}".strip() + f": {what}"


def _wrong_one(kind: type[Plain], several: Mapping[str, Any]) -> str:
    """Which of [neighbours.0], [neighbours.1], … is not accepted."""
    for place, part in several.items():
        try:
            msgspec.convert(part, type=kind)
        except msgspec.ValidationError:
            return f".{place}"
    return ""


SHARED, OWN = ("run", "model", "records", "secrets"), ("party", "privacy", "data")


def to_toml(config: Config) -> str:
    """The configuration as TOML, without what has its usual value."""
    lines = _tables(config, SHARED + OWN)
    for j, neighbour in config.neighbours.items():
        usual = msgspec.to_builtins(Neighbour())
        parts = {k: v for k, v in msgspec.to_builtins(neighbour).items() if v != usual[k]}
        lines += [f"[neighbours.{j}]", *(f"{k} = {toml_value(v)}" for k, v in parts.items()), ""]
    return "\n".join(lines)


def shared_toml(config: Config) -> str:
    """What is the same for everybody, as TOML."""
    return "\n".join(_tables(config, SHARED))


def _tables(config: Config, tables: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for table in tables:
        part = getattr(config, table)
        if part is None:
            continue
        usual = {f.name: f.default for f in msgspec.structs.fields(part) if f.default is not msgspec.NODEFAULT}
        given = msgspec.to_builtins(part)
        simple = {k: v for k, v in given.items() if not isinstance(v, dict) and v is not None}
        shown = {k: v for k, v in simple.items() if k not in usual or msgspec.to_builtins(usual[k]) != v}
        lines += [f"[{table}]", *(f"{k} = {toml_value(v)}" for k, v in shown.items()), ""]
        for name, inner in given.items():
            if isinstance(inner, dict) and inner:
                lines += [f"[{table}.{name}]", *(f"{toml_value(k)} = {toml_value(v)}" for k, v in inner.items()), ""]
    return lines


def graph_json(network: Network) -> str:
    """A graph with both matrices, as a file that every party has."""
    return json.dumps({name: dense(getattr(network, name)).tolist() for name in ("R", "C")}) + "\n"
