"""What `gossamer peers init` writes: configurations from options, records from a file or the mushrooms."""

from __future__ import annotations

import csv as csv_files
import io
import math
import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from gossamer.algorithms import find_method
from gossamer.algorithms.base import AUTO
from gossamer.automatic import found_step
from gossamer.datasets.mushrooms import NAMES, raw
from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.models.registry import MODELS
from gossamer.networks import Network, is_named, read_network
from gossamer.networks.files import ids_in
from gossamer.networks.who import are_names, order_note
from gossamer.peers.addresses import check_ports
from gossamer.peers.boundary import boundary_of, setting_of_learners
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
    SecretsPlan,
)  # fmt: skip
from gossamer.peers.folders import make_folders
from gossamer.peers.pair_keys import PartyPairs
from gossamer.privacy import Accountant
from gossamer.privacy.secrets import LEAST_SHARE, REGULAR
from gossamer.schedules import Decay, decay
from gossamer.spec import Spec, languages
from gossamer.spec.build import build_mechanism, build_network
from gossamer.spec.description import DELTA, OWN_STEP, OWN_STEPS
from gossamer.spec.rules import Learnt, check_secrets, clip_of, read_within, ridge_of
from gossamer.streams.files import Reading, read_file

STEPS, PER_ROUND = 1000, 4  # of parties that bring their own records
EPSILON = "8"  # of each party, where nothing is said
OWN_PAIRS = "secrets.json"  # the file that says who shares noise, where that has no name
MOST_LISTED = 40  # learners whose ids are told; run.json has all
MANY = 10_000  # records that parties are taken to have in all, where nobody knows how many they will bring


class Places(NamedTuple):
    """Where the learners run, and what they may rely on there."""

    hosts: str | None
    port: int
    metrics_port: int | None
    days: int
    durability: Literal["process", "power"]
    own_keys: bool = False  # of the parties, made by them


class Dealt(NamedTuple):
    """Records for every learner, with their header; none where parties bring their own."""

    header: Sequence[str]
    rows: list[list[list[str]]]


class Pace(NamedTuple):
    """How many records a round takes, how many rounds there are, and whether they go on over the records again."""

    per_round: int
    steps: int
    goes_on: bool


def make(folder: Path, spec: Spec, places: Places, numbers: str, lateness: int) -> list[str]:
    """Write the folders; returns what to tell the user about them."""
    spec = _with_budget(spec)
    learners = spec.network.learners or 10
    check_ports("--port", places.port, learners)
    if places.metrics_port is not None:
        check_ports("--metrics-port", places.metrics_port, learners)
    network, hosts = build_network(spec, learners), _hosts(places, learners)
    records, dealt = _records(spec, learners)
    if places.own_keys and dealt.rows:
        raise GossamerError("--own-keys is for parties that bring their records: give --target, and no --csv.")
    own = spec.data.target is not None and spec.algorithm.gradient != "latest" and spec.privacy.where != "messages"
    pace = _pace(spec, dealt, own)
    standardise = own if spec.model.standardise is None else spec.model.standardise
    spec = spec.but(standardise=standardise)
    model = ModelPlan(
        l2=_ridge(spec, dealt, own), clip=_clip(spec, records), standardise=standardise, remember=spec.model.remember
    )
    first = Config(
        run=_run(spec, learners, pace, numbers, lateness), model=model, records=records, party=_party(places, 0, hosts),
        privacy=_privacy(spec, 0, learners),
        data=DataPlan(path="-", records=min(map(len, dealt.rows)) if pace.goes_on else None),
    )  # fmt: skip
    if spec.algorithm.step == AUTO:
        step = (_found_step(spec, Plan(first, folder, network)), first.run.step[1])
        first = msgspec.structs.replace(first, run=msgspec.structs.replace(first.run, step=step))
    agreed, pairs = _agreed(spec, Plan(first, folder, network)), _pairs(spec, learners)
    configs = [
        Config(
            run=first.run, model=model, records=records, party=_party(places, i, hosts), secrets=agreed,
            privacy=_privacy(spec, i, learners), neighbours=_neighbours(network, i, hosts, places.port),
            data=DataPlan(
                path="records.csv", follow=not dealt.rows, records=len(dealt.rows[i]) if pace.goes_on else None
            ),
        )
        for i in range(learners)
    ]  # fmt: skip
    for i, config in enumerate(configs):  # what a learner would refuse at its start is refused now, and nothing written
        plan = Plan(config, folder / name_of(i), network, pairs)
        boundary = boundary_of(plan, plan.algorithm(), plan.model(), None if agreed is None else PartyPairs(i))
    files = {i: _csv(dealt.header, rows) for i, rows in enumerate(dealt.rows)}
    ids = _ids(spec)
    make_folders(folder, network, configs, hosts, places.days, files, pairs, places.own_keys, ids)
    made = (
        f"{learners} learners in {folder}, {pace.steps} rounds of {pace.per_round} record{'s' * (pace.per_round > 1)}"
    )
    who = order_note(str(spec.network.graph), ids, list(map(str, range(len(ids)))), MOST_LISTED)
    if places.own_keys:
        return _next_with_own_keys(folder, made, who)
    word = " --not-private" if spec.privacy.noise is not None else ""
    sentences = [*_next_with_all_keys(folder, made, word), *who]
    if plan.secrets is not None:
        sentences += _of_secrets(_costs(boundary, pace.steps), plan.secrets.against)
    if not dealt.rows:
        its = folder / name_of(0) / "records.csv"
        sentences.append(f"Each party brings its records: {its} is followed as it grows.")
    return sentences


def _pace(spec: Spec, dealt: Dealt, own: bool) -> Pace:
    """As asked for, or that of `gossamer run` where records are here; `own`: gradients are over all so far."""
    per_round = spec.data.per_round or PER_ROUND
    goes_on = own and bool(dealt.rows) and spec.data.per_round is None
    if goes_on:
        per_round = max(-(-len(rows) // read_within(spec)) for rows in dealt.rows)
    shortest = min((len(rows) for rows in dealt.rows), default=0) // per_round
    if dealt.rows and not shortest and not goes_on:
        raise GossamerError(f"too few records for one round of {per_round}: use a smaller --per-round.")
    pace = Pace(per_round, spec.length.steps or (OWN_STEPS if goes_on else shortest or STEPS), goes_on)
    if dealt.rows and not goes_on and (spec.privacy.noise is None or spec.algorithm.gradient == "latest"):
        _check_rounds(dealt, pace)
    return pace


def _check_rounds(dealt: Dealt, pace: Pace) -> None:
    """Refuse more rounds than a learner has records for, where each must have new ones: it would not start."""
    least = min(range(len(dealt.rows)), key=lambda i: len(dealt.rows[i]))
    held, needed = len(dealt.rows[least]), pace.steps * pace.per_round
    if held < needed:
        smaller = () if pace.per_round == 1 else (", a smaller ", Argument("per_round"))
        raise GossamerError(
            f"learner {least} gets {held} records, and {pace.steps} rounds of {pace.per_round} need {needed}: use ",
            Argument("steps", held // pace.per_round), " at most", *smaller, ", or bring more records.",
        )  # fmt: skip


def _run(spec: Spec, learners: int, pace: Pace, numbers: str, lateness: int) -> Run:
    """[run], with a step that is still to be found where it goes by rule."""
    plan, automatic = spec.algorithm, spec.algorithm.step == AUTO
    step = decay(1.0, find_method(plan.algorithm).step_exponent) if automatic else given_step(spec)
    try:
        return msgspec.convert(
            {
                "id": secrets.token_hex(8), "learners": learners, "steps": pace.steps, "method": plan.algorithm,
                "step": [step.initial, step.exponent], "strict": plan.strict, "gradient": plan.gradient or "history",
                "per_round": pace.per_round, "numbers": numbers, "lateness": lateness,
            },
            type=Run,
        )  # fmt: skip
    except msgspec.ValidationError as error:
        raise GossamerError(f"a run cannot be made of these options: {error}.") from None


def _ids(spec: Spec) -> list[str]:
    """What the network's file calls the learners, where it has names for them."""
    graph = spec.network.graph
    ids = [] if graph is None or is_named(graph) else ids_in(graph, spec.network.largest_component)
    return ids if are_names(ids) else []


def _next_with_own_keys(folder: Path, made: str, who: Sequence[str]) -> list[str]:
    return [
        f"{made}, and nobody's keys.",
        *who,
        "Each party makes its own: gossamer party new FOLDER --address HOST:PORT; it sends you request.json.",
        f"Let them in, in the learners' order: gossamer peers sign {folder} REQUEST …",
        f"Keep {folder / 'authority' / 'key.pem'} apart: it signs certificates.",
    ]


def _next_with_all_keys(folder: Path, made: str, word: str) -> list[str]:
    return [
        f"{made}; start all here with: gossamer peers up {folder}{word}",
        f"Or give each party its folder, to run with: gossamer peer run {folder / name_of(0)}{word}",
        "Every party's key was made here, and whoever copied them could be any party: for parties that do not trust "
        "this machine use --own-keys (docs/howto/enrol.md).",
        f"Keep {folder / 'authority' / 'key.pem'} apart: whoever has it can let learners in.",
    ]


def _of_secrets(costs: str, against: str) -> list[str]:
    return [
        f"ε = {costs}; it holds {against}.",
        "Every secret.pem was made here. Who keeps a copy of them all counts as everybody's colluder: let parties "
        "make their own (docs/howto/enrol.md), or keep none.",
    ]


def _costs(boundary: Any, steps: int) -> str:
    """What the last learner's messages will cost it, also if all others collude."""
    ledger: Accountant = boundary.ledgers[0]
    alone = Accountant(ledger.terms.alone).epsilon_at(steps, ledger.delta)
    return f"{ledger.epsilon_at(steps, ledger.delta):.3g}, or {alone:.3g} if all others collude"


def given_step(spec: Spec) -> Decay:
    return languages.step_schedule(spec.algorithm.step or OWN_STEP)


def _with_budget(spec: Spec) -> Spec:
    """A budget where no noise is stated; refuses both, since one of them would be left out without a word."""
    if spec.privacy.noise is None:
        return spec if spec.privacy.epsilon is not None else spec.but(epsilon=EPSILON)
    if spec.privacy.epsilon is not None:
        raise GossamerError(
            Argument("epsilon"), " finds the noise and ", Argument("noise"), " states it: give one of them."
        )
    return spec


def _ridge(spec: Spec, dealt: Dealt, own: bool) -> float:
    """The given l2, or the rule's of `gossamer run`; parties that bring their own are taken to have many records."""
    kind, records = MODELS.find("logistic"), sum(map(len, dealt.rows)) or MANY
    return ridge_of(spec, kind, records if own else None)


def _clip(spec: Spec, records: RecordsPlan) -> float | None:
    """The given length, or the rule's; it is written into everybody's file."""
    outputs = len(records.classes)
    kind = MODELS.find("ridge" if not outputs else "logistic" if outputs == 2 else "softmax")
    return clip_of(spec, Learnt(kind, max(outputs, 1)), records.schema().table().bounds)


def _found_step(spec: Spec, plan: Plan) -> float:
    """λ0 by rule, from what all parties know, and from the budgets that they are given here."""
    algorithm, model, steps = plan.algorithm(), plan.model(), plan.config.run.steps
    horizon = steps if spec.privacy.horizon is None else languages.rounds(spec.privacy.horizon)
    mechanism = None if spec.privacy.noise is not None else build_mechanism(spec, plan.network.m, horizon)
    setting = partial(setting_of_learners, range(plan.network.m), plan, algorithm, model)
    return found_step(algorithm, plan.network, model, plan.schema.table(), mechanism, steps, setting)


def _agreed(spec: Spec, plan: Plan) -> SecretsPlan | None:
    """Noise that cancels, decided here for everybody, from the budgets that are given here; keys are made later."""
    wanted, learners = spec.privacy, plan.network.m
    check_secrets(spec)
    if wanted.secrets is None:
        return None
    if wanted.noise is not None:
        raise GossamerError(
            Argument("secrets"), " goes with ", Argument("epsilon"), ": leave out ", Argument("noise"), "."
        )
    steps = plan.config.run.steps
    horizon = steps if wanted.horizon is None else languages.rounds(wanted.horizon)
    mechanism = build_mechanism(spec, learners, horizon)
    setting = setting_of_learners(range(learners), plan, plan.algorithm(), plan.model())
    found = mechanism.terms(setting)[0]
    releases = str(found.releases.argument.value)
    written = replace(mechanism, releases=languages.release_schedule(releases), exponent=found.exponent)
    shared = written.terms(setting)[0].shared  # for what parties will read
    assert shared is not None
    share = float(f"{shared.pair / shared.floor:.12g}")
    return SecretsPlan(
        share=max(LEAST_SHARE, share),  # by rule it has three digits, which the least one has not
        floor=shared.floor, exponent=found.exponent,
        releases=releases, graph=wanted.secrets if _pairs(spec, learners) is None else OWN_PAIRS,
        colluders=shared.secrets.colluders, band=mechanism.band, keys=dict.fromkeys(map(str, range(learners)), ""),
    )  # fmt: skip


def _pairs(spec: Spec, learners: int) -> Network | None:
    """Who shares noise with whom, where that is a network's file or name."""
    graph = spec.privacy.secrets
    return None if graph is None or graph == "complete" or graph.endswith(REGULAR) else read_network(graph, learners)


def _records(spec: Spec, learners: int) -> tuple[RecordsPlan, Dealt]:
    data = spec.data
    classes, ranges = languages.class_names(data.classes), languages.column_ranges(data.range)
    categories = {name: tuple(listed) for name, listed in languages.column_categories(data.categories).items()}
    if data.csv is None and data.target is None:
        if classes or ranges or categories:
            raise GossamerError("--classes, --range and --categories need --target: the column to predict.")
        return _mushrooms(learners)
    if data.target is None:
        raise GossamerError("--csv needs --target: the column to predict.")
    plan = RecordsPlan(
        target=data.target, classes=tuple(classes or ()), ranges=ranges, categories=categories, outside=data.outside,
        missing=data.missing,
    )  # fmt: skip
    if not ranges and not categories:
        raise GossamerError(
            "parties that do not see each other's records need them declared: give --range, --categories, and "
            "--classes or a --range of the target."
        )
    _refuse_line_breaks(plan)
    if data.csv is None:
        return plan, Dealt((), [])
    schema = plan.schema()
    columns = read_file(
        Reading(Path(data.csv), None, (data.target, *categories), languages.separator_of(data.separator), data.encoding)
    )
    schema.encode(columns)  # refuses now what a learner would refuse later
    if len(columns) < learners:
        raise GossamerError(f"{data.csv} has {len(columns)} records for {learners} learners: use fewer learners.")
    header = [schema.target, *schema.features]
    words = [columns.words(name) for name in header]
    texts = [np.array(one.names, dtype=object)[one.codes] for one in words]
    rows = [list(row) for row in zip(*texts, strict=True)]
    return plan, Dealt(header, [rows[i::learners] for i in range(learners)])


def _refuse_line_breaks(plan: RecordsPlan) -> None:
    """A learner reads its file line by line, as it grows, and cells without the spaces around them."""
    for name in (plan.target, *plan.ranges, *plan.categories):
        if name != name.strip() or not _on_a_line(name):
            raise GossamerError(
                f"column {name!r} has a line break in its name, or a space around it: learners read their records line "
                "by line, so give it another name in all files."
            )
    for name, listed in {**plan.categories, plan.target: plan.classes}.items():
        for value in listed:
            if not _on_a_line(value):
                raise GossamerError(
                    f"column {name!r} may hold {value!r}, which has a line break: learners read their records line by "
                    "line, so write it otherwise in all files."
                )


def _on_a_line(text: str) -> bool:
    return not {"\n", "\r"} & set(text)


def _mushrooms(learners: int) -> tuple[RecordsPlan, Dealt]:
    """The built-in records, shuffled once and dealt out evenly; the veil's type, which is always one, is left out."""
    cells = raw()
    order = np.random.default_rng(0).permutation(len(cells))
    named = [(k, name) for k, name in enumerate(NAMES) if k and name != "veil-type"]
    categories = {name: tuple(np.unique(cells[:, k]).tolist()) for k, name in named}
    plan = RecordsPlan(target="class", classes=("e", "p"), categories=categories)
    size = len(cells) // learners
    return plan, Dealt(NAMES, [cells[order[i * size : (i + 1) * size]].tolist() for i in range(learners)])


def _hosts(places: Places, learners: int) -> list[str]:
    given = languages.names([places.hosts]) if places.hosts else ["127.0.0.1"]
    if len(given) not in (1, learners):
        raise GossamerError(f"--hosts {places.hosts}: {len(given)} for {learners} learners; give one, or one each.")
    return given * learners if len(given) == 1 else given


def _party(places: Places, i: int, hosts: list[str]) -> PartyPlan:
    metrics = None if places.metrics_port is None else f"127.0.0.1:{places.metrics_port + i}"
    local = hosts[i] in ("127.0.0.1", "localhost", "::1")
    listen = f"{_bracketed(hosts[i]) if local else '0.0.0.0'}:{places.port + i}"
    return PartyPlan(learner=i, listen=listen, metrics=metrics, durability=places.durability)


def _privacy(spec: Spec, i: int, learners: int) -> PrivacyPlan:
    plan = spec.privacy
    if plan.noise is not None:
        scale = languages.noise_schedule(plan.noise, 1)
        if scale is None:
            return PrivacyPlan()
        return PrivacyPlan(simulated=(float(np.ravel(scale.initial)[0]), float(np.ravel(scale.exponent)[0])))
    epsilon = languages.budgets(plan.epsilon or EPSILON, learners)[i]
    if plan.delta is not None and plan.law == "laplace":
        raise BadValue("delta", plan.delta, "Laplace noise keeps its budget without δ", "leave it out")
    delta = DELTA if plan.delta is None else plan.delta
    horizon = None if plan.horizon is None else languages.rounds(plan.horizon)
    own: dict[str, Any] = {} if plan.secrets is not None else {"releases": plan.releases, "band": plan.band or 1}
    return PrivacyPlan(
        epsilon=epsilon, law=plan.law or "gaussian", where=plan.where or "source", delta=delta,
        horizon="inf" if horizon == math.inf else horizon, **own,
    )  # fmt: skip


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
    csv_files.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()
