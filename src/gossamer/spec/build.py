"""From a description to the parts of a run: what there is to learn from, what is learnt, who talks to whom, and how."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gossamer.algorithms import METHODS, Algorithm
from gossamer.algorithms.base import AUTO
from gossamer.datasets import DATASETS, Dataset
from gossamer.errors import Argument, BadValue, GossamerError, NotProvable, Sentence
from gossamer.models import Clip, Model
from gossamer.models.registry import MODELS, Wanted
from gossamer.models.standard import Standardise
from gossamer.networks import Network, NetworkSchedule, is_named, read_network, read_pairs, read_schedule
from gossamer.networks.files import ids_in
from gossamer.networks.who import check_same, order_note
from gossamer.privacy import Mechanism, Secrets
from gossamer.privacy.laws import law_named
from gossamer.privacy.mechanisms import mechanism_named
from gossamer.privacy.secrets import REGULAR, Pairs
from gossamer.records import Table
from gossamer.setting import full_rounds, refuse_more_rounds
from gossamer.spec.description import OWN_STEPS, STEPS, Spec
from gossamer.spec.languages import (
    budgets,
    class_names,
    column_categories,
    column_ranges,
    names,
    noise_schedule,
    pair_share,
    release_schedule,
    rounds,
    separator_of,
    step_schedule,
)
from gossamer.spec.rules import (
    Learnt,
    check_model_settings,
    check_privacy,
    clip_of,
    dataset_of,
    decide_noise,
    delta_of,
    goes_on,
    is_published,
    learnt_by,
    noise_of,
    per_round_of,
    read_within,
    ridge_of,
    small_delta,
    standardises,
    step_of,
)
from gossamer.streams import OnePass, Stream, from_csv


class Parts(NamedTuple):
    """A run that is ready to start, with all that can be checked checked."""

    spec: Spec  # with what the rules decided
    stream: Stream
    model: Model
    network: Network
    algorithm: Algorithm[Any]
    mechanism: Mechanism | None  # None: nothing is claimed
    steps: int
    said: list[Sentence]  # sentences about what was decided that nobody had said
    changes: NetworkSchedule | None = None  # how the network changes, where it does

    @property
    def arguments(self) -> dict[str, Any]:
        """What every engine is given by name; algorithm, network and stream come before it."""
        length = self.spec.length
        return {
            "model": self.model, "privacy": self.mechanism, "steps": self.steps, "seed": length.seed,
            "gradient": self.spec.algorithm.gradient, "evaluate_every": length.evaluate_every,
        }  # fmt: skip


def build(spec: Spec, read: OnePass | None = None, learnt: Learnt | None = None) -> Parts:
    """The parts of a run; refuses a description that contradicts itself, or says what nothing would use.

    `read` are own records that were read already, all of which are learnt from, and `learnt` is what learns them, where
    that is not to be found out from a file.
    """
    check_privacy(spec)
    dataset = dataset_of(spec)
    spec = decide_noise(spec, dataset)
    stream, model, network = build_data(spec, dataset, read, learnt)
    spec = decide_delta(spec, dataset, stream)
    algorithm = build_algorithm(spec, dataset, network.m)
    mechanism = build_mechanism(spec, network.m) if spec.private else None
    if spec.private:
        if stream.table.undeclared:  # before what a declaration would mend
            raise NotProvable("privacy cannot be proved: ", stream.table.undeclared)
        refuse_unbounded(model)
    steps, why = run_length(spec, dataset, stream)
    changes = build_schedule(spec, network)
    said = why if read is not None else [*why, *_who_is_who(spec, stream)]
    return Parts(spec, stream, model, network, algorithm, mechanism, steps, said, changes)


def build_data(
    spec: Spec, dataset: Dataset | None, read: OnePass | None = None, learnt: Learnt | None = None
) -> tuple[Stream, Model, Network]:
    """What there is to learn from, what is learnt, and who talks to whom."""
    if learnt is None:
        learnt = learnt_by(spec, dataset)
    else:
        check_model_settings(spec, learnt.kind)
    learners = spec.network.learners or _learners_of(spec.network.graph, spec.network.largest_component)
    stream: Any = build_stream(spec, dataset, learnt, learners) if read is None else paced(spec, read)
    spec = spec.but(standardise=standardises(spec, dataset))
    if spec.network.learners is not None and stream.learners != spec.network.learners:
        raise GossamerError(
            Argument("split_by", spec.data.split_by), f" names {stream.learners} learners and ",
            Argument("learners"), f" is {spec.network.learners}: leave ", Argument("learners"), " out.",
        )  # fmt: skip
    shape = dataset.shape if dataset is not None and learnt.kind.images else None
    records = int(stream.room(2**40).sum()) if dataset is None else None
    ridge = ridge_of(spec, learnt.kind, records)
    model = build_model(spec, learnt, shape or (stream.table.columns,), stream.table, ridge, dataset is None)
    return stream, model, build_network(spec, stream.learners, names_of(stream))


def names_of(stream: Stream) -> list[str]:
    """The learners as the data name them; else their numbers."""
    return list(stream.description.get("names") or map(str, range(stream.learners)))


def _who_is_who(spec: Spec, stream: Stream) -> list[Sentence]:
    """Which learner is which id of the network's file, where that is not plain."""
    graph, largest = spec.network.graph, spec.network.largest_component
    return [] if graph is None or is_named(graph) else order_note(graph, ids_in(graph, largest), names_of(stream))


def _learners_of(graph: str | None, largest: bool) -> int:
    """As many as a network from a file has, or the paper's ten."""
    return 10 if graph is None or is_named(graph) else read_network(graph, largest=largest).m


def decide_delta(spec: Spec, dataset: Dataset | None, stream: Stream) -> Spec:
    """δ below one in as many records as there are, unless it was said."""
    asked = spec.private and law_named(spec.privacy.law or "laplace").needs_delta
    if dataset is not None or not asked or spec.privacy.delta is not None:
        return spec
    return spec.but(delta=small_delta(int(stream.room(2**40).sum())))


def build_network(spec: Spec, learners: int, names: Sequence[str] = ()) -> Network:
    """Who talks to whom; refuses a file whose ids are other names than the learners'."""
    source, largest = spec.network.graph, spec.network.largest_component
    if largest and (source is None or is_named(source)):
        raise GossamerError(
            Argument("largest_component", True), " is for a network's file: give ", Argument("graph"), "."
        )
    if names and source is not None and not is_named(source):
        check_same(source, ids_in(source, largest), names)
    return read_network(source or ("paper" if learners == 10 else "random"), learners, largest)


def build_schedule(spec: Spec, network: Network) -> NetworkSchedule | None:
    """How the network changes from round to round, where anything says so; `network` is the run's."""
    asked, seed = spec.network, spec.length.seed
    if not asked.changes:
        return None
    changes = NetworkSchedule.of(network, seed=seed)
    if asked.schedule is not None:
        changes = read_schedule(Path(asked.schedule), lambda: network, network.m, seed)
    for name, here, there in (("failures", asked.failures, changes.failures), ("sleep", asked.sleep, changes.sleep)):
        if here and there:
            raise GossamerError(
                Argument(name, here), f": {asked.schedule} says {name} = {there:g} already; say it once."
            )
    changes = changes.failing(asked.failures) if asked.failures else changes
    return changes.sleeping(asked.sleep) if asked.sleep else changes


def build_stream(spec: Spec, dataset: Dataset | None, learnt: Learnt, learners: int) -> Any:
    if dataset is None:
        return paced(spec, from_csv(**csv_arguments(spec, learnt, learners)))
    flat = spec.flat() | {"per_round": per_round_of(spec, dataset)}
    options = {name: flat[name] for name in dataset.options if name != "tested"}
    stream = DATASETS.call(dataset.name, dataset.read, learners, spec.length.seed, member="arrivals", **options)
    if spec.data.tested is not None and stream.test is not None:
        few, stream = slice(spec.data.tested), copy.copy(stream)
        stream.test = replace(stream.test, rows=stream.test.rows[few], labels=stream.test.labels[few])
    return stream


def paced(spec: Spec, read: OnePass) -> OnePass:
    """Own records at the pace at which they are read in half of the run, or in all of it, unless it was said."""
    if goes_on(spec, None):
        return read.within(read_within(spec), spec.data.weight or "records")
    return read if spec.data.weight is None else read.within(None, spec.data.weight)


def csv_arguments(spec: Spec, learnt: Learnt, learners: int) -> Mapping[str, Any]:
    """What from_csv is given."""
    data = spec.data
    return {
        "path": data.csv,
        "target": data.target,
        "learners": learners,
        "split_by": data.split_by,
        "per_round": data.per_round or 1,
        "categorical": names(data.categorical),
        "categories": column_categories(data.categories),
        "classes": class_names(data.classes),
        "drop": names(data.drop),
        "ranges": column_ranges(data.range),
        "outside": data.outside,
        "missing": data.missing,
        "separator": separator_of(data.separator),
        "encoding": data.encoding,
        "test": data.test,
        "test_fraction": data.test_fraction,
        "aside": data.aside,
        "seed": spec.length.seed,
        "regression": learnt.kind.quantity,
    }


def build_model(
    spec: Spec, learnt: Learnt, shape: tuple[int, ...], table: Table, ridge: float, intercept: bool = False
) -> Any:
    """The model. BatchNorm mixes a round's records, so that with it whole rounds are clipped unless said otherwise.

    Of `table` only what was declared is looked at; `intercept` is whether its last column is one.
    """
    norm = spec.model.norm or "batch"
    mixes = "norm" in learnt.kind.options and norm == "batch"
    if mixes and spec.data.per_round == 1:
        raise GossamerError(
            Argument("per_round", 1), " with BatchNorm, which needs two images or more: use ",
            Argument("norm", "group"), ", or more.",
        )  # fmt: skip
    per: Any = spec.model.clip_per or ("round" if mixes else "record")
    length = clip_of(spec, learnt, table.bounds)
    clip = None if length is None else Clip(law_named(spec.privacy.law or "laplace").norm, length, per)
    stem = spec.model.stem or "imagenet"
    device = spec.model.device
    seen = None if not spec.model.standardise else Standardise(table.numbers, learnt.kind.quantity, table.width)
    wanted = Wanted(
        ridge, clip, learnt.outputs, shape, norm, stem, device, spec.model.bf16, spec.model.remember, intercept, seen
    )
    return MODELS.call(learnt.kind.name, learnt.kind.make, wanted, member="memory")


def build_algorithm(spec: Spec, dataset: Dataset | None, learners: int) -> Algorithm[Any]:
    """The method with its step size and, where nothing is claimed, the scales of seeded noise."""
    name = spec.algorithm.algorithm
    algorithm: Algorithm[Any] = METHODS.call(
        name,
        METHODS.find(name).make,
        AUTO if step_of(spec, dataset) == AUTO else step_schedule(step_of(spec, dataset)),
        noise=None if spec.private else noise_schedule(noise_of(spec, dataset), learners),
        strict=spec.algorithm.strict and not is_published(spec),
        member="emit",
    )
    return algorithm


def build_mechanism(spec: Spec, learners: int, horizon: float | None = None) -> Mechanism:
    """Exact noise for the budgets that are asked for, over `horizon` rounds, or as many as the description says."""
    assert spec.privacy.epsilon is not None
    if horizon is None and spec.privacy.horizon is not None:
        horizon = rounds(spec.privacy.horizon)
    plan, each = spec.privacy, budgets(spec.privacy.epsilon, learners)
    return mechanism_named(plan.law or "laplace").for_budget(
        each, delta_of(spec), horizon=horizon, where=plan.where or "messages", **_shape(spec, learners)
    )


def state_mechanism(spec: Spec, scale: Any) -> Mechanism:
    """Exact noise of stated scales."""
    plan = spec.privacy
    made = mechanism_named(plan.law or "laplace")
    learners = scale.learners or spec.network.learners or 10
    return made(scale, plan.where or "messages", delta=delta_of(spec), **_shape(spec, learners))


def _shape(spec: Spec, learners: int) -> dict[str, Any]:
    """When gradients are released, over how many releases noise is correlated, and who shares some."""
    releases = None if spec.privacy.releases is None else release_schedule(spec.privacy.releases)
    return {"releases": releases, "band": spec.privacy.band or 1, "secrets": build_secrets(spec, learners)}


def build_secrets(spec: Spec, learners: int) -> Secrets | None:
    """Pair secrets as they are asked for; a graph that has no name here is read as a network."""
    plan = spec.privacy
    share, colluders = pair_share(plan.share), 1 if plan.colluders is None else plan.colluders
    return None if plan.secrets is None else secrets_named(plan.secrets, learners, colluders, share)


def secrets_named(name: str, learners: int, colluders: int, share: float | Literal["auto"] = "auto") -> Secrets:
    """Pair secrets by the name of their graph, by that of a network, or from a file."""
    if name == "complete" or name.endswith(REGULAR):
        return Secrets(name, colluders, share)
    if not is_named(name) and not Path(name).is_file():
        requirement = 'expected complete, 4-regular, a network\'s name, or a file with a pair "0 1" in every line'
        raise BadValue("secrets", name, requirement)
    return Secrets(Pairs(learners, tuple(read_pairs(name, learners))), colluders, share)


def refuse_unbounded(model: Model) -> None:
    """A budget needs gradients that something bounds; here the remedy is a setting."""
    if model.clip is None and not model.bounded:
        raise GossamerError(
            f"nothing bounds the gradient of {type(model).__name__}, so no privacy can be proved: give ",
            Argument("clip", "C"), ", such as ", Argument("clip", 1), ".",
        )  # fmt: skip


def run_length(spec: Spec, dataset: Dataset | None, stream: Stream) -> tuple[int, list[Sentence]]:
    """How many rounds, and a sentence where the data decide it."""
    steps = spec.length.steps
    if steps is not None:
        if spec.private and not (spec.privacy.where == "source" and spec.algorithm.gradient == "history"):
            refuse_more_rounds("steps", steps, stream)
        return steps, []
    if goes_on(spec, dataset):
        return OWN_STEPS, []
    full, usual = full_rounds(stream), STEPS if dataset is None else dataset.steps
    if full >= usual or not (spec.private or spec.algorithm.gradient == "latest"):
        return usual, []
    why = Sentence(f"{full:g} rounds, as many full ones as the data have; ", Argument("steps"), " asks for fewer.")
    return int(full), [why]
