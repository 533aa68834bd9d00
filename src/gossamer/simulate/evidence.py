"""After a run: the facts from which `gossamer.report.verdict` says why it ended where it did.

Nothing here costs more than the run: curvature by a few products, and where the run ended badly a rehearsal of its
method without records, on the quadratic that F is near θ*. In the basis of the features' principal directions it falls
apart into columns, one for each:

    the step     a gradient of 1 in every round: how far the mean model moves for it
    the lag      no noise, from 0 towards θ*: what steps and rounds leave unlearnt
    the noise    noise alone, from θ* on: what F's pull leaves of it
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gossamer.algorithms import Algorithm
from gossamer.arrays import dense
from gossamer.automatic import LONGEST, Draws, first_used, noise_of, pace_of
from gossamer.errors import GossamerError
from gossamer.models import Gradient, LinearModel, Model, Objective
from gossamer.models.standard import seen_by_all
from gossamer.networks import Network, NetworkSchedule
from gossamer.privacy import Mechanism, simulated
from gossamer.rehearsal import consensus_weights, rounds_to_play, states_of
from gossamer.report.verdict import RELAXED, Facts, ended_badly
from gossamer.run_record import Record
from gossamer.schedules import decay
from gossamer.setting import setting_of
from gossamer.simulate.engine import simulate
from gossamer.simulate.metrics import Metrics
from gossamer.streams import Stream
from gossamer.streams.schema import SCALED_TO
from gossamer.streams.stream import clipped_of, weights_of
from gossamer.types import Array

STIFF = 0.01  # of the curvature: a penalty that is smaller moves θ* little
DRAWS = 64  # of noise in a rehearsal, over all directions
PRODUCTS = 12  # of a power iteration for the curvature: a few per cent are near enough


class Ran(NamedTuple):
    """What was run: as simulate() was given it."""

    algorithm: Algorithm[Any]
    network: Network
    stream: Stream
    model: Model
    privacy: Mechanism | None
    gradient: Gradient
    seed: int = 0
    changes: NetworkSchedule | None = None  # of the network


def facts_of(record: Record, ran: Ran, without_noise: float | None = None) -> Facts | None:
    """The facts of a run that has ended; None where no θ* is known to measure it by."""
    told = record.config.get("baselines")
    if not isinstance(ran.model, LinearModel) or told is None or told["optimum"] is None:
        return None
    model, population = ran.model, ran.stream.population
    objective, last = Objective(model, population), record.history[-1]
    curvature = _curvature(objective)
    relaxed = _relaxed(ran, model) if model.l2 > STIFF * curvature else None
    badly = ended_badly(float(last.accuracy), told["majority"], told["optimum"])
    played = Played(0.0, 0.0, 0.0, 0.0)
    if badly:
        with np.errstate(over="ignore", invalid="ignore"):  # steps that overshoot may
            played = _rehearsal(record, ran, objective)
    return Facts(
        reached=float(last.accuracy),
        majority=told["majority"],
        optimum=told["optimum"],
        relaxed=relaxed,
        without_noise=without_noise,
        noise=played.noise,
        lag=played.lag,
        falling=played.falling,
        step=played.moved * (curvature + model.l2),
        by_rule="first_step" in record.config,
        budget=ran.privacy is not None,
        l2=model.l2,
        steps=record.t,
        gap=record.history.optimality_gap.tolist(),
        gain=_constant(objective) - objective.value(record.optimum),
        apart=float(last.consensus_error / max(last.tracking_error, 1e-300)),
        standardised=model.standardise is not None,
        clipped=_most_clipped(ran.stream),
        wide=_widest(ran.stream),
    )


def _most_clipped(stream: Stream) -> tuple[str, float] | None:
    """The column of own records of which the largest share lay outside its range."""
    return max(clipped_of(stream).items(), key=lambda each: each[1], default=None)


def _widest(stream: Stream) -> tuple[str, float] | None:
    """Of own records, the column whose declared range is most times as wide as what its values fill."""
    schema, table = stream.description.get("schema"), stream.population.table
    if schema is None or not table.numbers:
        return None
    low, high = SCALED_TO
    filled = np.ptp(table.rows[:, list(table.numbers)], axis=0)
    names = [stream.description["columns"][k] for k in table.numbers]
    times = {name: (high - low) / one for name, one in zip(names, filled, strict=True) if one > 0}
    declared = {name: each for name, each in times.items() if name not in schema["inferred"]}
    return max(declared.items(), key=lambda each: each[1], default=None)


def run_without_noise(record: Record, ran: Ran, **given: Any) -> Record:
    """The same run without noise: the same steps, and gradients in the same rounds. It is not private."""
    algorithm, noise = _as_run(record, ran), _noise(record, ran)
    quiet = replace(algorithm, noise=None)
    rounds = None if noise is None or not noise.at_source else noise.releases
    privacy = None if rounds is None else simulated(decay(0.0, 0.0), where="source", releases=rounds)
    return simulate(
        quiet, ran.changes or ran.network, ran.stream, model=ran.model, privacy=privacy, steps=record.t,
        gradient=ran.gradient, seed=ran.seed, evaluate_every=record.config["evaluate_every"], **given,
    )  # fmt: skip


def _as_run(record: Record, ran: Ran) -> Algorithm[Any]:
    """The algorithm with the steps that were found for it, where they were found by rule."""
    first = record.config.get("first_step")
    return ran.algorithm if first is None or ran.algorithm.with_step is None else ran.algorithm.with_step(first)


def _noise(record: Record, ran: Ran) -> Any:
    length = record.config.get("planned") or record.config["steps"]
    privacy: Any = None if ran.algorithm.noise is None else simulated(ran.algorithm.noise, ran.seed)
    if ran.privacy is not None:
        privacy = ran.privacy.over(record.config.get("horizon") or record.config["steps"])
    setting = partial(setting_of, ran.algorithm, ran.network, ran.stream, ran.model, ran.gradient, length)
    return noise_of(privacy, ran.network.m, setting)


class Played(NamedTuple):
    """What a rehearsal found; the last two as deviations of a record's margin at the end."""

    moved: float  # by a gradient of 1, in the round that moves the mean model most
    lag: float  # between θ and θ*, without noise
    noise: float  # by noise alone
    falling: float  # by what share the lag's loss fell in the last quarter


def _rehearsal(record: Record, ran: Ran, objective: Objective) -> Played:
    """The method on its network without records."""
    algorithm, network, noise = _as_run(record, ran), ran.network, _noise(record, ran)
    spread, pull, aim = _directions(objective, record.optimum)
    n, draws = len(spread), max(1, DRAWS // len(spread))
    pulls, aims = np.concatenate([[0.0], *[pull] * (1 + draws)]), np.concatenate([[0.0], aim, np.zeros(n * draws)])
    learns, momentum = pace_of(ran.model, ran.network, noise, record.config.get("planned") or record.t)
    own, share, shape = weights_of(ran.stream), consensus_weights(algorithm, network), (network.m, len(pulls))
    running, moved, drawn = np.zeros(shape), 0.0, Draws(noise, network.m, n * draws)

    def noised_columns(t: int) -> Array:
        return np.column_stack([np.zeros((network.m, 1 + n)), drawn(t)])

    def gradient(t: int, point: Array) -> Array:
        nonlocal running
        if t < learns or (noise is not None and not noise.releases.includes(t)):
            return np.zeros(shape)
        grad: Array = pulls * (point - aims)
        grad[:, 0] = 1.0
        grad += noised_columns(t) if noise is not None and noise.at_source else 0.0
        running = momentum * running + (1 - momentum) * grad
        return running * (1.0 if own is None else own[:, None])

    sent = None if noise is None or noise.at_source else noised_columns
    lags, before = list[Array](), np.zeros(network.m)
    rounds = rounds_to_play(network, first_used(noise, learns), record.t, LONGEST)
    end = rounds[-1] + 1
    late = next((t for t in rounds if t > 3 * end // 4), end)
    for t, state in zip([*rounds, end], states_of(algorithm, network, len(pulls), gradient, sent, rounds), strict=True):
        moved, before = max(moved, abs(float(share @ (state.theta[:, 0] - before)))), state.theta[:, 0]
        if t in (late, end):
            lags.append(_squares(state.theta[:, 1 : 1 + n] - aim))
    noised = _squares(state.theta[:, 1 + n :]).reshape(draws, n).mean(axis=0)
    falling = 1 - float(pull @ lags[-1]) / max(float(pull @ lags[0]), 1e-300)
    return Played(moved, float(np.sqrt(spread @ lags[-1])), float(np.sqrt(spread @ noised)), falling)


def _squares(away: Array) -> Array:
    """The mean squares of columns; ∞ where they overflowed."""
    return np.asarray((np.nan_to_num(away, nan=np.inf) ** 2).mean(axis=0))


def _directions(objective: Objective, optimum: Array) -> tuple[Array, Array, Array]:
    """Along the features' principal directions: their mean squares, how F curves at θ*, and how far off θ* is."""
    population, model = objective.population, objective.model
    features, share = population.matrix, population.share
    margins, one = objective.margins(optimum[None]), np.eye(model.outputs)
    if model.standardise is not None:  # as learners see their records
        features, optimum = seen_by_all(model, population, optimum)
    weighted: Any = share[:, None] * features if isinstance(features, np.ndarray) else features.multiply(share[:, None])
    spread, basis = np.linalg.eigh(dense(features.T @ weighted))
    slopes = [share @ model.curve(margins, np.broadcast_to(e, margins.shape))[:, 0] @ e for e in one]
    aim = np.linalg.norm(basis.T @ optimum.reshape(len(spread), -1), axis=1)
    return spread.clip(0), float(np.mean(slopes)) * spread.clip(0) + model.l2, aim


def _constant(objective: Objective) -> float:
    """The loss of the best prediction that needs no features: the classes' entropy, or half a quantity's variance."""
    labels, share = objective.population.table.labels, objective.population.share
    if not objective.model.bounded:
        return 0.5 * float(share @ (labels - share @ labels) ** 2)
    classes = np.bincount(labels.astype(int), weights=share)
    return -float(sum(p * np.log(p) for p in classes if p > 0))


def _curvature(objective: Objective) -> float:
    """The largest curvature of F's data at θ = 0, where a run starts."""
    start = np.zeros(objective.size)
    direction, length = np.random.default_rng(0).normal(size=objective.size), 0.0
    for _ in range(PRODUCTS):
        direction = direction / max(float(np.linalg.norm(direction)), 1e-300)
        direction = objective.hessian_times(start, direction) - objective.model.l2 * direction
        length = float(np.linalg.norm(direction))
    return length


def _relaxed(ran: Ran, model: LinearModel) -> float | None:
    """What θ* reaches with a weaker penalty; None where there is no such θ*."""
    weaker: Any = replace(model, l2=model.l2 / RELAXED)  # type: ignore[type-var]
    try:
        metrics = Metrics(weaker, ran.stream.population, ran.stream.test)
        found: float | None = metrics.beside(metrics.optimum[None])["baselines"]["optimum"]
        return found
    except GossamerError:
        return None
