"""How a round of all learners is played: from one state to the next.

whole     in whole arrays, through the privacy boundary: whatever is noised, and wherever nothing else is faster
bare      in whole arrays, where nothing is noised and a boundary has nothing to do
blocks    very many learners, some rows at a time: gossamer.simulate.blocks
matrix    few networks on a GPU, as one product: gossamer.simulate.matrix
passes    very many linear models on a GPU, each round in one pass: gossamer.simulate.passing

All of them run an algorithm's own functions; which of them a run takes changes its speed and nothing else.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeGuard

from gossamer.algorithms.base import Algorithm, State
from gossamer.models import LinearModel, Memory, Model
from gossamer.models.memory import LinearMemory
from gossamer.models.standard import StandardMemory
from gossamer.networks import Network
from gossamer.privacy import Mechanism, Privacy, SimulatedNoise
from gossamer.records import Batch
from gossamer.rounds import Rounds, one_ridge, with_ridge
from gossamer.simulate.blocks import Blocks, serves
from gossamer.simulate.matrix import MatrixRounds, matrix_rounds
from gossamer.simulate.mixer import Mixer
from gossamer.simulate.passing import passes
from gossamer.simulate.shard import EVERYBODY, Mix, Shard
from gossamer.types import Array, Rows

MOST_BY_MATRIX = 256  # learners: their round's matrix has some ten times the square of it in numbers


class Play(Protocol[State]):
    """Plays round t of all learners. A state is good for one more round: whoever keeps it copies it."""

    def __call__(self, state: State, records: Batch, t: int) -> State: ...


class Whole(Generic[State]):
    """A round in whole arrays; one noisy copy of each message goes to all out-neighbours."""

    def __init__(self, rounds: Rounds[State], mix: Mix) -> None:
        self._rounds, self._mix = rounds, mix

    def __call__(self, state: State, records: Batch, t: int) -> State:
        return one_round(self._rounds, self._mix, state, records, t)


class Bare(Generic[State]):
    """A round in whole arrays of which nothing is noised; `ridge` and `weights` as gossamer.rounds.Rounds has them."""

    def __init__(
        self, algorithm: Algorithm[State], rows: Rows, memory: Memory, mix: Mix, ridge: float | Array, weights: Any
    ) -> None:
        self._algorithm, self._rows, self._memory, self._mix = algorithm, rows, memory, mix
        self._ridge = one_ridge(ridge)
        self._weights = None if weights is None else weights[:, None]

    def __call__(self, state: State, records: Batch, t: int) -> State:
        self._memory.observe(records)
        point = self._algorithm.point(state)
        gradient = with_ridge(self._memory.gradient(point), self._ridge, point)
        if self._weights is not None:
            gradient = gradient * self._weights
        sent = self._algorithm.emit(state, gradient, self._rows, t)
        return self._algorithm.step(state, self._mix.all(sent), gradient, self._rows, t)


class ByMatrix(Generic[State]):
    """A round as one matrix, on a device that keeps the state."""

    def __init__(self, algorithm: Algorithm[State], memory: Memory, ridge: float, rounds: MatrixRounds[State]) -> None:
        self._algorithm, self._memory, self._ridge, self._rounds = algorithm, memory, ridge, rounds

    def __call__(self, state: State, records: Batch, t: int) -> State:
        self._memory.observe(records)
        point = self._algorithm.point(state)
        self._rounds(with_ridge(self._memory.gradient(point), self._ridge, point), t)
        return self._rounds.state


def one_round(rounds: Rounds[State], mix: Mix, state: State, records: Batch, t: int) -> State:
    """Round t of all learners; one noisy copy of each message goes to all out-neighbours."""
    sent = rounds.send(state, records, t)
    private = [channel for channel, out in sent.out.items() if out.private]
    return rounds.receive(state, sent.gradient, mix.all(sent.out), private, t)


def play_of(
    algorithm: Algorithm[State],
    network: Network,
    rows: Rows,
    model: Model,
    memory: Memory,
    ridge: float | Array,
    weights: Array | None,
    privacy: Privacy | Mechanism | None,
    rounds: Rounds[State],
    state: State,
    start: int,
    shard: Shard = EVERYBODY,
) -> Play[State]:
    """The quickest way to play a run's rounds from `state`, which is that of round `start`."""
    if not network.iterates_z and isinstance(memory, LinearMemory) and serves(privacy):
        mix = shard.mixer(network, algorithm.mixes, model.arrays)
        return Blocks(algorithm, mix, rows, memory, ridge, weights, state.theta.shape[1], privacy)
    if (
        shard is EVERYBODY
        and isinstance(model, LinearModel)
        and model.arrays.tensors
        and not isinstance(privacy, Mechanism)
    ):
        plain = privacy is None and weights is None
        passing = passes(algorithm, network, rows, model, memory, rounds, state, plain)
        return Whole(rounds, Mixer(network, algorithm.mixes, model.arrays)) if passing is None else passing
    few = network.m <= MOST_BY_MATRIX
    if few and not isinstance(model, LinearModel) and model.arrays.place == "cuda" and _goes_by_matrix(privacy):
        matrix = matrix_rounds(algorithm, network, model.arrays, privacy, state, start)
        if matrix is not None:
            return ByMatrix(algorithm, memory, model.l2, matrix)
    mix = shard.mixer(network, algorithm.mixes, model.arrays)
    if privacy is None and not isinstance(memory, StandardMemory):
        return Bare(algorithm, rows, memory, mix, ridge, weights)
    return Whole(rounds, mix)


def _goes_by_matrix(privacy: Privacy | Mechanism | None) -> TypeGuard[SimulatedNoise | None]:
    on_messages = isinstance(privacy, SimulatedNoise) and privacy.where == "messages" and not privacy.split
    return privacy is None or on_messages
