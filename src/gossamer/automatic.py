"""Step sizes that are found by rule, from public numbers alone: step="auto".

A run's method is rehearsed on its network without any data: once with a gradient of 1 in every round that uses one, and
once with the run's noise alone. The first says how far the models move for Σ λ_t, the second how far noise drives them;
both are in proportion to λ0. Then λ0 is the smaller of

    the noise rule    noise alone would move a record's margin by a deviation of MARGIN at the end (for a quantity: by
                      a quarter of half its declared range, or where none is declared by half of what its clipper leaves
                      of a residual); no rule where there is no noise
    the longest step  movement per round at most LONGEST_STEP/L, L the smoothness of the mean loss as declared, and no
                      more than what a ridge, or a squared loss, lets one learner move; a clipped one pulls no harder
                      the farther a model is off, and where the noise rule knows the range, it may move LONGEST_STEP/L

With standardised numbers a learner's gradients go through a running mean (gossamer.models.standard), which is rehearsed
as well, and steps may be 1/(1−β) times as long: the heavy ball is stable up to (1+β)/(1−β) times 2/L.

Both are explained in gossamer.privacy.plan. Nothing here looks at a record.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.models import LinearModel, Model
from gossamer.models.standard import MOMENTUM, usual_looks
from gossamer.networks import Network
from gossamer.privacy import Law, Mechanism, Releases, Setting, SimulatedNoise
from gossamer.privacy.plan import LONGEST_STEP, MARGIN
from gossamer.privacy.simulated import PairLaw, pair_law
from gossamer.records import Table
from gossamer.rehearsal import consensus_weights, rounds_to_play, states_of
from gossamer.setting import curvature_of, length_of, quiet_rounds
from gossamer.types import Array

COLUMNS = 16  # draws of noise that a rehearsal has
LONGEST = 20_000  # rounds that are rehearsed, from the first that moves models on
AT_ONCE = 1024  # rounds whose scales are worked out at a time
STEADY = 1.0  # times 1/L: the longest step for a squared loss, whose curvature is the same everywhere
NETWORK = 0.05  # deviation of the noise in each parameter of a network, whose layers start with numbers of about that
QUANTITY = 0.25  # deviation of the noise in a record's margin, in halves of a quantity's range: see docs/results/ridge
SPREAD = 0.5  # the same in spreads of a quantity, where it is standardised
USUAL = 1.0  # λ0 where nothing is declared and nothing is noised


class Scales:
    """The learners' noise scales: scales[t] is (m,). They are worked out as far as they are asked for."""

    def __init__(self, of_rounds: Callable[[Array], Array]) -> None:
        self._of_rounds = of_rounds  # from a column of rounds to (rounds, m)
        self._block, self._rows = -1, np.empty(0)

    def __getitem__(self, t: int) -> Array:
        block, at = divmod(t, AT_ONCE)
        if block != self._block:
            rounds = np.arange(float(block * AT_ONCE), float((block + 1) * AT_ONCE))
            self._block, self._rows = block, self._of_rounds(rounds[:, None])
        row: Array = self._rows[at]
        return row


class Noise(NamedTuple):
    """The noise of a run, as far as a rehearsal needs it."""

    scales: Scales | Array  # scales[t] is (m,)
    law: Law
    at_source: bool
    found: bool  # whether it was found for a budget, and so grows with the steps
    releases: Releases
    factor: tuple[float, ...] = (1.0,)  # over releases
    pairs: PairLaw | None = None  # at the source: what cancels


class Draws:
    """Seeded noise of a run's law, round by round, for a rehearsal; none where there is none."""

    def __init__(self, noise: Noise | None, learners: int, columns: int) -> None:
        self._noise, self._shape, self._rng = noise, (learners, columns), np.random.default_rng(0)
        self._past: deque[Array] = deque(maxlen=0 if noise is None else len(noise.factor) - 1)

    def __call__(self, t: int) -> Array:
        """(learners, columns), what is added to gradients, or to a message, in round t."""
        noise = self._noise
        if noise is None:
            return np.zeros(self._shape)
        value: Array = noise.law.seeded(self._rng, self._shape) * noise.scales[t][:, None]
        if noise.pairs is not None:
            mixing = noise.pairs.mixing
            both = noise.law.seeded(self._rng, (mixing.shape[1], self._shape[1]))
            value += mixing @ both * noise.pairs.scale(t)
        for f, old in zip(noise.factor[1:], self._past, strict=False):
            value -= f * old
        self._past.appendleft(value)
        return value


class Rehearsed(NamedTuple):
    """What a method does with λ0 = 1."""

    moved: float  # by a gradient of 1, in the round that moves the mean model most
    jumped: float  # and in the round that moves one learner's most
    noise: float  # deviation at the end, over learners and coordinates


def step_words(found: float, algorithm: Algorithm[Any]) -> str:
    """What a reader is told of steps by rule."""
    falling = f" (t+1)^−{algorithm.falls:g}" if algorithm.falls else " in every round"
    return f"Steps by rule: λ_t = {found:.3g}{falling}."


def found_step(
    algorithm: Algorithm[Any],
    network: Network,
    model: Model,
    table: Table,
    privacy: Any,
    steps: int,
    setting: Callable[[], Setting],
    weights: Array | None = None,
) -> float:
    """λ0 by rule, for an algorithm whose own steps start at 1; `weights` are the learners', where they differ.

    `setting` is what a proved mechanism is told of the run; it is asked for only where there is one.
    """
    noise = noise_of(privacy, network.m, setting)
    learns, momentum = pace_of(model, network, noise, steps)
    played = rehearsed(algorithm, network, noise, steps, learns, momentum, weights)
    found = min(_longest(model, table, played), _by_noise(model, table, noise, played))
    return float(f"{found if math.isfinite(found) else USUAL:.3g}")


def pace_of(model: Model, network: Network, noise: Noise | None, steps: int) -> tuple[int, float]:
    """The first round that learns, and the momentum: 0 and 0 unless records are standardised."""
    if not isinstance(model, LinearModel) or model.standardise is None:
        return 0, 0.0
    if not model.standardise.numbers:
        return 0, MOMENTUM
    if noise is not None and noise.releases.head:
        return noise.releases.after, MOMENTUM
    return usual_looks(steps, quiet_rounds(network), network.m).learns, MOMENTUM


def _longest(model: Model, table: Table, played: Rehearsed) -> float:
    """The longest λ0 that does not overshoot; ∞ where nothing is declared.

    A loss of classes pulls no harder the farther a model is off, and forgives a learner that jumps. A squared loss and
    a ridge do not: what one learner does to itself in a round must not overshoot either.
    """
    curvature = curvature_of(model, table)
    quantity = isinstance(model, LinearModel) and not model.bounded
    standard = isinstance(model, LinearModel) and model.standardise is not None
    limits = [STEADY / (model.l2 * played.jumped)] if model.l2 > 0 and not standard else []
    if curvature > 0:
        steady = LONGEST_STEP if model.clip is not None and (standard or table.half_range) else STEADY
        limits += [steady / (curvature * played.jumped) if quantity else LONGEST_STEP / (curvature * played.moved)]
    faster = 1 / (1 - MOMENTUM) if standard else 1.0
    return faster * min(limits, default=math.inf)


def _by_noise(model: Model, table: Table, noise: Noise | None, played: Rehearsed) -> float:
    """The step with which noise moves a record's margin by its unit; ∞ where noise does not grow with the steps."""
    length = length_of(model, table)
    if noise is None or played.noise == 0 or not (noise.at_source or noise.found):
        return math.inf
    if length is None or not isinstance(model, LinearModel):
        return NETWORK / played.noise
    unit = MARGIN
    if not model.bounded:
        left = math.inf if model.clip is None else 0.5 * model.clip.c / length
        unit = SPREAD if model.standardise is not None else QUANTITY * table.half_range or left
    return unit / (played.noise * length)


def first_used(noise: Noise | None, learns: int) -> int:
    """The first round that may move models; noise on messages does from the first on."""
    if noise is None:
        return learns
    first = noise.releases.after - noise.releases.pause - noise.releases.head
    return max(learns, first) if noise.at_source else 0


def noise_of(privacy: Any, learners: int, setting: Callable[[], Setting]) -> Noise | None:
    if isinstance(privacy, Mechanism):
        terms = privacy.terms(setting())
        scales = Scales(lambda t: np.hstack([1 / each.inverse_scale(t) for each in terms]))
        at_source = privacy.where == "source"
        found = privacy.epsilon is not None
        return Noise(scales, privacy.law, at_source, found, terms[0].releases, terms[0].factor, pair_law(terms))
    if isinstance(privacy, SimulatedNoise):
        of_round = privacy.scale
        return Noise(
            Scales(lambda t: np.array([np.broadcast_to(np.ravel(of_round(int(k))), learners) for k in t[:, 0]])),
            privacy.law,
            privacy.where == "source",
            False,
            privacy.releases or Releases(),
            privacy.factor,
            privacy.pairs,
        )
    return None


def rehearsed(
    algorithm: Algorithm[Any],
    network: Network,
    noise: Noise | None,
    steps: int,
    learns: int = 0,
    momentum: float = 0.0,
    weights: Array | None = None,
) -> Rehearsed:
    """The method on its network without data: column 0 with a gradient of 1, the others with noise alone.

    Gradients are used from round `learns` on.
    """
    shape, mean = (network.m, 1 + COLUMNS), consensus_weights(algorithm, network)
    running, moved, jumped = np.zeros(shape), 1e-300, 1e-300
    draws = Draws(noise, network.m, COLUMNS)

    def drawn(t: int) -> Array:
        return np.column_stack([np.zeros(network.m), draws(t)])

    def gradient(t: int, point: Array) -> Array:
        nonlocal running
        grad = np.zeros(shape)
        if t < learns or (noise is not None and not noise.releases.includes(t)):
            return grad
        grad[:, 0] = 1.0
        grad += drawn(t) if noise is not None and noise.at_source else 0.0
        running = momentum * running + (1 - momentum) * grad
        return running * (1.0 if weights is None else weights[:, None])

    sent = None if noise is None or noise.at_source else drawn
    rounds = rounds_to_play(network, first_used(noise, learns), steps, LONGEST)
    played = states_of(algorithm, network, shape[1], gradient, sent, rounds)
    theta = next(played).theta
    for state in played:
        step = state.theta[:, 0] - theta[:, 0]
        moved, jumped = max(moved, abs(float(mean @ step))), max(jumped, float(abs(step).max()))
        theta = state.theta
    return Rehearsed(moved, jumped, float(np.sqrt((theta[:, 1:] ** 2).mean())))
