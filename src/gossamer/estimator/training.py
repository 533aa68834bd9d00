"""`fit`: the run that `gossamer run --csv` makes of the same records and the same settings."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gossamer.errors import Argument, GossamerError, NotProvable, Part, Sentence
from gossamer.estimator.asked import Asked
from gossamer.estimator.given import Given, in_order
from gossamer.estimator.words import told, words_for
from gossamer.networks import Network
from gossamer.predictions import FittedModel
from gossamer.run_record import Record
from gossamer.simulate import simulate
from gossamer.spec.build import build
from gossamer.streams.own import Dealing, stream_of


class Trained(NamedTuple):
    """What a run has left, the network that it was on, and what is to be said of it."""

    run: Record
    network: Network
    said: list[str]

    def record(self) -> Record:
        return self.run

    def notes(self) -> list[str]:
        return list(self.said)

    def spent(self) -> float:
        """The largest ε of all learners' so far; ∞ where nothing is claimed."""
        return math.inf if self.run.epsilon is None else float(self.run.epsilon.spent.max())

    def fitted(self) -> FittedModel:
        return self.run.fitted()


def train(asked: Asked, given: Given) -> Trained:
    """Deal the records, decide what nobody said by the library's rules, and run."""
    count = len(given.columns)
    learners = asked.learners_for(count)
    if given.owner is None:
        given = in_order(given, np.random.default_rng(asked.seed).permutation(count))
    declared = asked.declared(given.columns, given.target, given.owner)
    dealing = Dealing(learners, given.owner, seed=asked.seed)
    stream = stream_of(given.columns, declared, dealing, {"estimator": asked.learnt.kind.name})
    if given.owner is not None and asked.learners not in (None, stream.learners):
        raise GossamerError(
            Argument("learners", asked.learners), f" and learner= names {stream.learners}: leave ",
            Argument("learners"), " out.",
        )  # fmt: skip
    names: Any = stream.description["names"]
    asked = asked.among(names, named_by_rows=given.owner is not None)
    spec = asked.spec(given.target, asked.steps_for(count), asked.horizon)
    refuse_undeclared(asked, stream.table.undeclared)
    parts = build(spec, stream, asked.learnt)
    network = asked.network_of(parts.spec, names)
    gradient: Any = parts.spec.algorithm.gradient
    record = simulate(
        parts.algorithm,
        network,
        parts.stream,
        model=parts.model,
        privacy=parts.mechanism,
        steps=parts.steps,
        gradient=gradient,
        seed=asked.seed,
        progressive=True,
    )
    notes = told([*parts.said, *read_off(asked), *asked.notes_of(names), *record.notes], words_for(given.target))
    return Trained(record, network, notes)


def read_off(asked: Asked) -> list[Sentence]:
    """What was read off the labels, in a sentence; the features' are among the stream's notes."""
    if asked.read_off is None:
        return []
    return [
        Sentence(
            "the classes were read off y, where one record can change them and no privacy budget pays for it: declare "
            "them with ", Argument("classes", list(asked.read_off)), ".",
        ).capitalised
    ]  # fmt: skip


def refuse_undeclared(asked: Asked, undeclared: str) -> None:
    """What is private must be declared: what is read off the records is a statistic that no budget pays for."""
    if not asked.private:
        return
    found: list[Part] = [undeclared] if undeclared else []
    if asked.read_off is not None:
        found += [" Also, "] * bool(found)
        found += [
            "the classes were read off y: declare them with ",
            Argument("classes", list(asked.read_off)),
            ".",
        ]
    if found:
        raise NotProvable("privacy cannot be proved: ", *found)
