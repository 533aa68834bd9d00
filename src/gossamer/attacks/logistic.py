"""Records of a logistic regression, attacked: without noise, and under each kind of noise at several ε.

Three attacks, from what a learner sends:

    read       the gradient of the first message that has the record in it, and the record off that (attacks.reading)
    named      which of k suspects it is, by all messages, the likeliest                            (attacks.suspects)
    columns    the likeliest value of each column, by all messages and the same suspects

Beside them stands what somebody says who looks at no message: of each column the commonest value among the suspects,
or their mean. An attack that is no better than that has told nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy

from gossamer.attacks.kinds import KINDS, Kind, where_of
from gossamer.attacks.layout import Layout
from gossamer.attacks.reading import Found, read_first, read_records, sum_of_gradients
from gossamer.attacks.suspects import most_guessed, suspect
from gossamer.attacks.wire import Heard, Scene, listen, read_gradients, received
from gossamer.checks import ALARM
from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.models import Clip, Gradient, LogisticRegression
from gossamer.networks import Network
from gossamer.privacy import Mechanism
from gossamer.privacy.laws import law_named
from gossamer.privacy.mechanisms import mechanism_named
from gossamer.records import Table, dense_rows
from gossamer.schedules import Decay
from gossamer.streams import OnePass
from gossamer.types import Array, Integers

STEP = Decay(1.0, 0.8)
L2 = 0.01
CLIP = 0.5  # of the largest gradient there can be: all of a gradient at θ = 0, as `gossamer run --epsilon` has it


@dataclass(frozen=True)
class Attacked:
    """What is attacked, and how often: every learner's first record, in each of `runs` runs."""

    stream: OnePass
    layout: Layout
    network: Network
    law: str = "gaussian"
    delta: float = 1e-5
    rounds: int = 30
    suspects: int = 100
    runs: int = 3
    seed: int = 0

    @property
    def trials(self) -> int:
        return self.runs * self.network.m

    def check(self, noised: bool = True) -> None:
        """Refuse what there are not records enough for, before anything is run; suspects are asked for with noise."""
        counts = self.stream.room(2**40)
        if counts.min() < self.rounds:
            raise GossamerError(
                f"learner {int(counts.argmin())} has {counts.min()} records for {self.rounds} rounds: use fewer ",
                Argument("rounds"), ".",
            )  # fmt: skip
        others = (self.network.m - 1) * self.rounds
        if noised and self.suspects - 1 > others:
            raise BadValue(
                "suspects", self.suspects, f"the other learners have {others} records in these rounds",
                ["use fewer, or more ", Argument("rounds")],
            )  # fmt: skip

    def part(self, run: int) -> OnePass:
        """A record a round for every learner, in an order of this run's own."""
        rng, counts = np.random.default_rng([self.seed, run]), self.stream.room(2**40)
        return self.stream.only([rng.permutation(int(n))[: self.rounds] for n in counts])

    def scene(self, run: int, mechanism: Mechanism | None = None, gradient: Gradient = "history") -> Scene:
        model = LogisticRegression(L2, intercept=self.layout.intercept)
        part = self.part(run)
        if mechanism is not None:
            bounds, norm = part.table.bounds, law_named(self.law).norm
            assert bounds is not None or part.table.undeclared
            longest = 1.0 if bounds is None else bounds.l1 if norm == 1 else bounds.l2
            model = replace(model, clip=Clip(norm, CLIP * longest))
        return Scene(self.network, part, model, STEP, self.rounds, gradient, mechanism)


class Plain(NamedTuple):
    """The attack on a run without noise."""

    records: int
    exact: int  # of these, read to a relative error of 1e-6, with the right label
    largest_error: float  # ‖â − a‖/‖a‖
    true: dict[str, str]  # learner 0's first record, in words
    read: dict[str, str]
    columns: float  # the share of columns with categories that was read right, of all records
    number_errors: dict[str, float]  # by column, in its own units: the root of the mean square over all records


class Outcome(NamedTuple):
    """All attacks under one kind of noise at one ε; shares are over all trials."""

    kind: Kind
    epsilon: float
    allowed: float  # of `named`, by ε
    named: float  # the chance that the likeliest suspect is the record, given what was seen: its mean
    hits: int  # how often it was
    read: float  # of columns with categories
    columns: float
    guessed: float
    number_errors: dict[str, tuple[float, float, float]]  # by column: read, best guess from messages, guess without
    first: dict[str, str]  # learner 0's first record as it was read, in words

    def surely_above(self, trials: int) -> bool:
        """Whether more were named than ε allows, by more than chance does once in a million times."""
        return least_chance(self.hits, trials) > self.allowed


def least_chance(hits: int, trials: int) -> float:
    """What a chance with so many hits is at least, but for one in a million cases (Clopper & Pearson)."""
    return float(scipy.special.betaincinv(hits, trials - hits + 1, ALARM)) if hits else 0.0


def attack_plain(attacked: Attacked, gradient: Gradient = "history") -> Plain:
    """Read every record of every learner off a run without noise."""
    scene = attacked.scene(0, None, gradient)
    heard, errors = listen(scene), list[float]()
    right, off, numbers = list[float](), list[list[float]](), attacked.layout.numeric
    for i in range(attacked.network.m):
        X, labels = _records(scene, i)
        found = read_records(scene, heard, i, attacked.layout)
        for one, x, label in zip(found, X, labels, strict=True):
            wrong = one.label != label
            errors.append(np.inf if wrong else float(np.linalg.norm(one.x - x) / np.linalg.norm(x)))
            right.append(_right(attacked.layout, x, one.x))
            off.append([each.number(one.x) - each.number(x) for each in numbers])
        if i == 0:
            true, read = attacked.layout.said(X[0], labels[0]), attacked.layout.said(*found[0])
    exact = sum(error < 1e-6 for error in errors)
    root = np.sqrt(np.mean(np.square(off), axis=0))
    number_errors = {each.name: float(root[k]) for k, each in enumerate(numbers)}
    return Plain(len(errors), exact, max(errors), true, read, float(np.mean(right)), number_errors)


def attack_noised(attacked: Attacked, epsilons: Sequence[float], progress: Callable[[int, int], None]) -> list[Outcome]:
    """All kinds of noise at all ε, the largest ε first."""
    cases = [(kind, epsilon) for kind in KINDS for epsilon in sorted(epsilons, reverse=True)]
    outcomes = []
    for done, (kind, epsilon) in enumerate(cases):
        progress(done, len(cases))
        outcomes.append(attack_one(attacked, kind, epsilon))
    progress(len(cases), len(cases))
    return outcomes


def attack_one(attacked: Attacked, kind: Kind, epsilon: float) -> Outcome:
    trials = [trial for run in range(attacked.runs) for trial in _trials(attacked, kind, epsilon, run)]
    delta = 0.0 if attacked.law == "laplace" else attacked.delta

    read, columns, guessed = np.mean([trial.right for trial in trials], axis=0).tolist()
    root = np.sqrt(np.mean([trial.off**2 for trial in trials], axis=0))
    errors = {each.name: (*root[:, k].tolist(),) for k, each in enumerate(attacked.layout.numeric)}
    return Outcome(
        kind=kind,
        epsilon=epsilon,
        allowed=most_guessed(epsilon, delta, attacked.suspects),
        named=float(np.mean([trial.named for trial in trials])),
        hits=sum(trial.hit for trial in trials),
        read=read,
        columns=columns,
        guessed=guessed,
        number_errors=errors,
        first=trials[0].said,
    )


# -- one record --------------------------------------------------------------------------------------------------------


class _Trial(NamedTuple):
    named: float
    hit: bool
    right: Array  # (3,): the share of columns with categories, as read, by suspects, and without a look
    off: Array  # (3, numbers): errors in a number's own units, likewise
    said: dict[str, str]


def _trials(attacked: Attacked, kind: Kind, epsilon: float, run: int) -> Iterator[_Trial]:
    delta = 0.0 if attacked.law == "laplace" else attacked.delta
    mechanism = mechanism_named(attacked.law).for_budget(epsilon, delta, where=where_of(kind))
    scene = attacked.scene(run, mechanism, "latest" if kind == "latest" else "history")
    heard, features = listen(scene), np.asarray(dense_rows(scene.stream.table), dtype=float)
    rng = np.random.default_rng([attacked.seed, run, 1])
    for i in range(attacked.network.m):
        X, _ = _records(scene, i)
        suspects = _suspects(scene, i, attacked.suspects, rng)
        posterior = suspect(scene, heard, i, suspects)
        read = read_first(first_gradient(scene, heard, i), attacked.layout)
        listed = features[suspects]
        guesses = (read.x, np.asarray(posterior.share @ listed), listed.mean(axis=0))
        right = np.array([_right(attacked.layout, X[0], guess) for guess in guesses])
        numbers = attacked.layout.numeric
        off = np.array([[each.number(guess) - each.number(X[0]) for each in numbers] for guess in guesses])
        yield _Trial(posterior.certainty, posterior.named == 0, right, off, attacked.layout.said(*read))


def first_gradient(scene: Scene, heard: Heard, learner: int) -> Array:
    """The gradient at θ = 0 of a learner's first record, as noised as it is, by whoever knows its other records."""
    if heard.boundary.mechanism.where == "messages":  # s_i(0) = 0, as all know: noise of one message, not of two
        return np.asarray((heard.sent[1]["s"][learner] - received(scene, heard, 0, learner)["s"]) / scene.step(0))
    t = int(np.flatnonzero([np.any(heard.boundary.fresh(t)) for t in range(scene.rounds)])[0])
    released = read_gradients(scene, heard, learner)[t]
    if scene.gradient == "latest":
        return np.asarray(released)
    X, labels = _records(scene, learner)
    others = [Found(x, label) for x, label in zip(X[1 : t + 1], labels[1 : t + 1], strict=True)]
    return np.asarray((t + 1) * released - sum_of_gradients(np.zeros(len(released)), others))


def _records(scene: Scene, learner: int) -> tuple[Array, Array]:
    """What is attacked, to compare with: a learner's features and labels."""
    stream = scene.stream
    assert isinstance(stream, OnePass)
    own: Table = stream.own(learner)
    return np.asarray(dense_rows(own), dtype=float), own.labels


def _suspects(scene: Scene, learner: int, count: int, rng: np.random.Generator) -> Integers:
    """Numbers in the table: a learner's first record, then others' records; its own others are known, and are none."""
    own = learner * scene.rounds + np.arange(scene.rounds)
    others = np.setdiff1d(np.arange(len(scene.stream.table)), own)
    return np.concatenate([own[:1], rng.choice(others, count - 1, replace=False)])


def _right(layout: Layout, x: Array, guess: Array) -> float:
    """The share of columns with categories whose likeliest value is the true one."""
    hits = [int(x[each.columns].argmax()) == int(guess[each.columns].argmax()) for each in layout.categorical]
    return float(np.mean(hits)) if hits else np.nan
