"""Two neighbouring worlds, replayed through the code that runs: what do a learner's messages really differ by?

All learners are replayed at once. In the second world every learner has one record replaced; what learners receive is
the same in both, so none sees another's difference. An adversary chooses the records, what replaces one, and where each
learner's point is to be in every round: what it sends is worked out from that, because a learner's point is its own
old state plus what it receives.

The model's gradients, the algorithm's functions, and the boundary's `take` and `hold` are the run's own, and at the
source its `fresh` and `gradient`, too. Only the noise is left out: what would be noised is compared instead. At the
source both worlds go on from the same release, so whatever a state knows of records beside releases shows.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.checks.covariance import seen_with, worst_keys
from gossamer.models import Gradient, LinearModel
from gossamer.models.standard import Looks, StandardMemory
from gossamer.networks import Network
from gossamer.privacy import Mechanism, PrivateBoundary, Setting, noised_fields
from gossamer.privacy.accountant import Terms, total
from gossamer.privacy.laws import Law
from gossamer.records import Batch, FeatureBounds, dense_table
from gossamer.rounds import Rounds
from gossamer.setting import setting_of
from gossamer.standardising import looks_of
from gossamer.streams import OnePass
from gossamer.types import Array, Integers

FEATURES = 3
BEYOND = 2.0  # how large the numbers of standardised records are, where nothing but the memory cuts them off


@dataclass(frozen=True)
class Case:
    """What is audited: a method on a network, a model, a mechanism, and how gradients are taken.

    `bind` makes the boundary, `remember` the memory; a planted defect puts another in its place. `bounds` are of the
    records, where they are not those of the unit ball; `weights` are the learners' in the objective, of mean 1, where
    they differ. Where numbers are standardised nothing is declared of them, and
    they go up to BEYOND; a quantity's labels, 0 and 1 to the adversary, are −BEYOND and BEYOND. An adversary thinks in
    FEATURES coordinates; where Laplace noise meets records that are longer in ‖·‖₁ than in any coordinate, each of
    these stands for several, which all have the same value.
    """

    algorithm: Algorithm[Any]
    network: Network
    model: LinearModel
    mechanism: Mechanism
    gradient: Gradient
    rounds: int = 12
    per_round: int = 1
    bind: Callable[[Mechanism, Setting], PrivateBoundary] = lambda mechanism, setting: mechanism.bind(setting)
    bounds: FeatureBounds | None = None
    weights: tuple[float, ...] = ()
    remember: Callable[..., Any] = lambda model, *given: model.memory(*given)

    @property
    def learners(self) -> int:
        return self.network.m

    @property
    def law(self) -> Law:
        return self.mechanism.law

    def times(self, channel: str) -> float:
        """How many times a learner's scale a channel's noise has."""
        return dict(self.mechanism.split).get(channel, 1.0)

    @property
    def size(self) -> int:
        return self.model.theta_size(FEATURES)

    @cached_property
    def stream(self) -> OnePass:
        """Records within the unit ball of the mechanism's norm; only the bounds matter, a replay brings its own."""
        m, count = self.learners, self.rounds * self.per_round
        rng = np.random.default_rng(0)
        table = dense_table(
            self.to_features(rng.normal(size=(m * count, FEATURES))), np.arange(float(m * count)) % max(self.classes, 2)
        )
        unit_ball = FeatureBounds(FEATURES ** (1 - 1 / self.law.norm), 1.0, 1.0)
        table = replace(table, bounds=None if self.standardised else self.bounds or unit_ball)
        return OnePass(table, list(np.arange(m * count).reshape(m, count)), self.per_round)

    @property
    def standardised(self) -> bool:
        return self.model.standardise is not None

    @cached_property
    def looks(self) -> Looks:
        """When the run looks at moments, whatever a planted boundary books of it."""
        memory = self.model.memory(self.stream.table, self.gradient, np.ones(self.learners, dtype=np.int64))
        assert isinstance(memory, StandardMemory)
        return looks_of(memory, self.mechanism.bind(self.setting), self.mechanism, self.rounds, self.network)

    @property
    def lever(self) -> int:
        """The coordinate that makes margins large: where numbers are standardised, one that is none."""
        return FEATURES - 1 if self.standardised else 1

    @property
    def classes(self) -> int:
        return max(2, self.model.outputs)

    @cached_property
    def setting(self) -> Setting:
        alike = setting_of(self.algorithm, self.network, self.stream, self.model, self.gradient, self.rounds)
        return alike._replace(weights=self.weights)

    def boundary(self) -> PrivateBoundary:
        return self.bind(self.mechanism, self.setting)

    @cached_property
    def terms(self) -> list[Terms]:
        return [ledger.terms for ledger in self.boundary().ledgers]

    def released(self, rounds: int | None = None) -> Integers:
        """The rounds, of so many, in which some learner releases."""
        if self.mechanism.where == "messages":
            return np.arange(self.rounds if rounds is None else rounds)
        return np.unique(np.concatenate([t.releases.before(rounds or self.rounds) for t in self.terms]))

    @cached_property
    def own(self) -> Array:
        """σ_i of round 0 of every learner's weighted gradient, which pairs' noise goes onto."""
        return np.array([terms.initial * (terms.shared.weight if terms.shared else 1.0) for terms in self.terms])

    @cached_property
    def seen(self) -> Array:
        """How much of a shift is seen of every learner, in its own noise: less than all where secrets hide it.

        It is worked out for the observer whom the mechanism names, with the keys that tell most of that learner.
        """
        secrets, shared = self.mechanism.secrets, self.terms[0].shared
        if secrets is None or shared is None:
            return np.ones(self.learners)
        given = self.own, secrets.edges(self.learners), shared.pair
        each = range(self.learners)
        return np.array([seen_with(*given, i, worst_keys(*given, i, secrets.colluders)) for i in each])

    @cached_property
    def claims(self) -> Array:
        """The total loss that each learner's ledger says is possible: Σ δ/ν, or Σ (δ/σ)²."""
        return np.array([total(each, self.rounds, self.law.squared) for each in self.terms])

    def batch(self, rows: Array, labels: Array) -> Batch:
        """(m, N, FEATURES) of vectors and their (m, N) labels as records of one round, within the declared bounds."""
        m, N = labels.shape
        if self.model.standardise is not None and self.model.standardise.label:
            labels = BEYOND * (2 * labels - 1)
        return Batch(self.to_features(rows).reshape(m * N, -1), labels.ravel(), np.full(m, N, dtype=np.int64))

    def memory(self) -> Any:
        room = np.full(self.learners, self.rounds * self.per_round, dtype=np.int64)
        memory = self.remember(self.model, self.stream.table, self.gradient, room)
        if self.standardised:
            memory.prepare(self.looks)
        return memory

    @property
    def copies(self) -> int:
        """How many of a record's coordinates each of the adversary's stands for."""
        return 1 if self.bounds is None or self.law.norm == 2 else max(1, round(self.bounds.l1 / self.bounds.most))

    def to_features(self, vectors: Array) -> Array:
        """Any vectors to features within the declared bounds."""
        if self.standardised:
            return np.asarray(vectors.clip(-BEYOND, BEYOND))
        norm = np.linalg.norm(vectors, self.law.norm, axis=-1, keepdims=True)
        scaled: Array = vectors / np.maximum(norm, 1.0)
        if self.bounds is None:
            return scaled
        longest = self.bounds.l2 if self.law.norm == 2 else min(self.bounds.l1 / self.copies, self.bounds.most)
        return longest * np.repeat(scaled, self.copies, axis=-1)

    def to_parameters(self, values: Array) -> Array:
        """(…, size) of the adversary's points or messages to those of the model, coordinate by coordinate."""
        by_feature = values.reshape(*values.shape[:-1], FEATURES, -1)
        return np.repeat(by_feature, self.copies, axis=-2).reshape(*values.shape[:-1], -1)


class Candidate(NamedTuple):
    """What an adversary chooses for each of m learners."""

    records: Array  # (m, rounds, N, FEATURES), before they are brought into the ball
    labels: Array  # (m, rounds, N)
    other: Array  # (m, FEATURES): what replaces the first record of round k, or all where adjacency is the round
    other_label: Array  # (m,)
    targets: Array  # (m, rounds, size): where a learner starts, which no data decide, and is to be in each later round
    messages: Array  # (m, rounds, size): what comes on the channels that do not move the point


def replace_where(chosen: Any, old: Sequence[Array], new: Sequence[Array]) -> Iterator[Array]:
    """Array by array, the rows of `new` for the learners that are chosen, and of `old` for the others."""
    return (np.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), b, a) for a, b in zip(old, new, strict=True))


class Replayed(NamedTuple):
    losses: Array  # (m,) Σ δ/ν, or Σ (δ/σ)²; ∞ where something that differs is sent without noise
    noised: tuple[list[dict[str, Array]], list[dict[str, Array]]]  # of both worlds, what would be noised in each round
    received: list[dict[str, Array]]  # in each round, in both worlds alike


class _Watched:
    """A boundary that adds no noise, and keeps what it would have noised."""

    def __init__(self, boundary: PrivateBoundary, other: _Watched | None) -> None:
        self._other, self._on_messages = other, boundary.mechanism.where == "messages"
        own: Any = copy.copy(boundary)
        own._past, own._noised = deque(maxlen=len(own._factor) - 1), self._unnoised
        self._own = own
        self.take, self.hold, self.fresh, self.gradient = own.take, own.hold, own.fresh, own.gradient
        self.noised: list[dict[str, Array]] = []

    def arrived(self, t: int, records: Batch) -> None:
        pass

    def charge(self, t: int) -> None:
        self.noised.append({})

    def release(self, channel: str, t: int, value: Array) -> Array:
        if not self._on_messages:
            return cast("Array", self._own.release(channel, t, value))
        self.noised[t][channel] = self._own.clamped_to_grid(t, value, self._own._split.get(channel, 1.0))
        return value

    def _unnoised(self, t: int, value: Array) -> Array:
        """What the boundary takes for a noised gradient: the same release in both worlds."""
        self.noised[t]["gradient"] = self._own.clamped_to_grid(t, value)
        return (self if self._other is None else self._other).noised[t]["gradient"].copy()

    def forget(self, t: int, unused: Array) -> None:
        """Round t's gradients that nobody uses: what was not released is not seen."""
        if "gradient" in self.noised[t]:
            self.noised[t]["gradient"][unused] = 0.0


class Worlds:
    """Replays candidates of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._boundary = case.boundary()
        self._rows = case.network.rows(mixes=case.algorithm.mixes)
        scales = [[ledger.terms.scale(t) for ledger in self._boundary.ledgers] for t in range(case.rounds)]
        self._scales = np.array(scales)  # (rounds, m)
        self._weights: Any = {over: case.network.off_diagonal(over) for over in case.algorithm.mixes}
        self.responses: dict[int, tuple[str, Array] | None] = {}  # by round, once it was replayed

    def replay(self, given: Candidate, k: Integers, steer: Callable[..., Array] | None = None) -> Replayed:
        """Both worlds of all learners; learner i's record of round k[i] is the one that is replaced.

        `steer(t, states, targets, alone)` gives the targets for round t + 1, having seen both worlds' states, and what
        they would be next if nothing came.
        """
        case, algorithm = self.case, self.case.algorithm
        if case.copies > 1:
            points, messages = case.to_parameters(given.targets), case.to_parameters(given.messages)
            given = given._replace(targets=points, messages=messages)
        first: Any = _Watched(self._boundary, None)
        second: Any = _Watched(self._boundary, first)
        worlds = [
            Rounds(algorithm, self._rows, case.memory(), watched, case.model.l2, finite=True)
            for watched in (first, second)
        ]
        start = algorithm.init(self._rows, given.targets[:, 0])
        states = [world.start(start) for world in worlds]
        same, received = np.ones(case.learners, dtype=bool), []
        with np.errstate(over="ignore", invalid="ignore"):
            for t in range(case.rounds):
                sent = [
                    world.send(state, self._records(given, k, t, replaced), t)
                    for world, state, replaced in zip(worlds, states, (False, True), strict=True)
                ]
                same &= self._same_in_public(*sent)
                unused = self._unused(first.fresh(t), *sent)
                first.forget(t, unused)
                second.forget(t, unused)
                targets = given.targets[:, min(t + 1, case.rounds - 1)]
                if steer is not None:
                    alone = [self._alone(*each, t) for each in zip(states, sent, strict=True)]
                    targets = steer(t, states, targets, alone)
                got = self._got(states[0], sent[0], targets, given.messages[:, t], t)
                received.append(got)
                private = [channel for channel, out in sent[0].out.items() if out.private]
                states = [
                    world.receive(state, each.gradient, got, private, t)
                    for world, state, each in zip(worlds, states, sent, strict=True)
                ]
        losses = self._losses(first.noised, second.noised)
        return Replayed(np.where(same, losses, math.inf), (first.noised, second.noised), received)

    def _records(self, given: Candidate, k: Integers, t: int, replaced: bool) -> Batch:
        rows, labels = given.records[:, t].copy(), given.labels[:, t].copy()
        now = (k == t) & replaced
        which = slice(None) if self.case.setting.per_round else slice(0, 1)
        rows[now, which], labels[now, which] = given.other[now, None], given.other_label[now, None]
        return self.case.batch(rows, labels)

    def _unused(self, fresh: Any, one: Any, other: Any) -> Array:
        """Who neither says that it releases nor steps with a gradient."""
        still = (one.gradient == 0).all(axis=1) & (other.gradient == 0).all(axis=1)
        return np.asarray(still & ~np.broadcast_to(fresh, still.shape))

    def _same_in_public(self, one: Any, other: Any) -> Array:
        """Per learner, whether all that is sent or stepped with after the noise is the same in both worlds."""
        at_source = self.case.mechanism.where == "source"
        same = (one.gradient == other.gradient).all(axis=1) if at_source else np.ones(self.case.learners, dtype=bool)
        for channel, out in one.out.items():
            if not out.private or at_source:
                same &= (out.value == other.out[channel].value).all(axis=1)
        return same

    def _alone(self, state: Any, sent: Any, t: int) -> Any:
        """A world's next state where nothing comes on its private channels."""
        got = {
            c: np.zeros_like(out.value) if out.private else self._weights[out.over] @ out.value
            for c, out in sent.out.items()
        }
        return self.case.algorithm.step(state, got, sent.gradient, self._rows, t)

    def _got(self, state: Any, sent: Any, targets: Array, messages: Array, t: int) -> dict[str, Array]:
        """What learners receive so that the first world's points come to the targets; z as the graph gives it."""
        got = {c: messages if out.private else self._weights[out.over] @ out.value for c, out in sent.out.items()}
        if t not in self.responses:
            self.responses[t] = self._response(state, got, sent, t)
        response = self.responses[t]
        if response is not None:
            channel, per_unit = response
            got[channel] = 0 * messages
            after = self.case.algorithm.step(state, got, sent.gradient, self._rows, t)
            got[channel] = (targets - self.case.algorithm.point(after)) / per_unit
        return got

    def _response(self, state: Any, got: dict[str, Array], sent: Any, t: int) -> tuple[str, Array] | None:
        """The channel that moves the point most, and by how much for each unit that comes on it."""
        algorithm = self.case.algorithm
        nothing = np.zeros_like(algorithm.point(state))
        still = state._replace(**{name: 0 * getattr(state, name) for name in noised_fields(algorithm, self._rows)})
        private = [channel for channel, out in sent.out.items() if out.private]
        zero = got | dict.fromkeys(private, nothing)
        response, least = None, 0.0
        for channel in private:
            after = algorithm.step(still, zero | {channel: nothing + 1.0}, nothing, self._rows, t)
            moved = np.asarray(algorithm.point(after))
            if np.abs(moved).min() > least:
                response, least = (channel, moved), np.abs(moved).min()
        return response

    def _losses(self, one: list[dict[str, Array]], other: list[dict[str, Array]]) -> Array:
        loss = np.zeros(self.case.learners)
        for t, (a, b) in enumerate(zip(one, other, strict=True)):
            for channel in a:
                apart = np.linalg.norm(a[channel] - b[channel], self.case.law.norm, axis=1)
                shift = apart * self.case.seen / (self._scales[t] * self.case.times(channel))
                loss += shift**2 if self.case.law.squared else shift
        return loss
