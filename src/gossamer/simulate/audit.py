"""Audit an algorithm, a model and a mechanism together: the code that runs, with a sceptic's records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.models import Gradient, Model
from gossamer.networks import Network
from gossamer.privacy import Accountant, Mechanism, PrivateBoundary, Setting, Terms, exact_gaussian, exact_laplace
from gossamer.privacy.audit import Finding, Learner, judged, no_reuse, noise_law, replay, scores
from gossamer.records import Batch, FeatureBounds, dense_table
from gossamer.simulate.engine import Mixer, deliver, setting_of
from gossamer.streams import OnePass
from gossamer.types import Array, Out

FEATURES = 3


def audit(
    algorithm: Algorithm,
    network: Network,
    model: Model,
    mechanism: Mechanism,
    gradient: Gradient,
    *,
    rounds: int = 10,
    learners: Iterable[int] | None = None,
    seed: int = 0,
) -> list[Finding]:
    """Replay learners on neighbouring records within the unit ball, and examine the noise; see gossamer.privacy.audit.

    The model must not have a penalty per feature that the declared ball does not cover; any of ours will do.
    """
    stream = _stream(network.m, rounds, mechanism)
    setting = setting_of(algorithm, network, stream, model, gradient, rounds, FEATURES * model.outputs)
    terms = mechanism.terms(setting)
    found = []
    for i in range(network.m) if learners is None else learners:
        finding = replay(
            _learner(i, algorithm, network, model, stream, gradient, mechanism), terms[i], rounds, seed=seed
        )
        found.append(finding._replace(check=f"learner {i}: {finding.check}"))
    return found + _noise_findings(mechanism, terms, setting)


def judge(
    algorithm: Algorithm,
    network: Network,
    model: Model,
    mechanism: Mechanism,
    gradient: Gradient,
    *,
    rounds: int = 6,
    learner: int = 0,
    runs: int = 4000,
    draw: Callable[[Array, float], Array] | None = None,
) -> Finding:
    """Let jax_privacy's auditor judge many runs of one learner; `draw` stands in for the noise, to see it caught."""
    stream = _stream(network.m, rounds, mechanism)
    setting = setting_of(algorithm, network, stream, model, gradient, rounds, FEATURES * model.outputs)
    terms = mechanism.terms(setting)[learner]
    exact = exact_laplace if mechanism.law == "laplace" else exact_gaussian
    who = _learner(learner, algorithm, network, model, stream, gradient, mechanism)
    held_in, held_out = scores(who, terms, rounds, draw or exact, runs=runs)
    claim = Accountant(terms, delta=mechanism.delta).epsilon_at(rounds, mechanism.delta)
    return judged(held_in, held_out, claim, mechanism.delta)


def _noise_findings(mechanism: Mechanism, terms: list[Terms], setting: Setting) -> list[Finding]:
    m = len(terms)
    boundaries = [mechanism.bind(setting) for _ in range(2)]
    for boundary in boundaries:
        boundary.stops[:] = 10**9  # the law is looked at, not the budget

    def scale(t: int) -> Array:
        return np.array([[each.scale(t)] for each in terms])

    def release(channel: str, t: int, value: Array) -> Array:
        if mechanism.where == "source":
            return boundaries[0].gradient(t, value)
        return boundaries[0].release(channel, t, value)

    def again(t: int) -> Array:
        value = np.zeros((m, 2000))
        boundary = boundaries[1]
        return (
            boundary.gradient(t, value)
            if mechanism.where == "source"
            else boundary.release(boundary.channels[0], t, value)
        )

    channels = boundaries[0].channels
    found = noise_law(release, scale, mechanism.law, m, channels=channels)
    if mechanism.where == "messages":
        found.append(one_copy(boundaries[0]))
    return [*found, no_reuse(release(channels[0], 0, np.zeros((m, 2000))) / scale(0), again(0) / scale(0))]


def one_copy(boundary: PrivateBoundary, deliver: Callable[..., Array] = deliver) -> Finding:
    """A second noisy copy of a message would be a second release: all out-neighbours must get the same bytes.

    Looked at where a learner is heard alone, so that what is received divided by the weight is what was sent.
    """
    m = len(boundary.ledgers)
    hub = Network.from_edges(m, [link for i in range(1, m) for link in ((0, i), (i, 0))], 0.5 / m)
    got = deliver(boundary, Mixer(hub), boundary.channels[0], 0, Out(np.zeros((m, 50)), "R", True))
    copies = got[1:] * (2 * m)
    apart = float(np.abs(copies - copies[0]).max())
    return Finding("difference between neighbours' copies", apart, 1e-12, apart <= 1e-12 * np.abs(copies).max())


def _stream(m: int, rounds: int, mechanism: Mechanism) -> OnePass:
    """Records within the unit ball of the mechanism's norm; only the bounds matter, the replay brings its own."""
    rng = np.random.default_rng(0)
    table = dense_table(_to_ball(rng.normal(size=(m * rounds, FEATURES)), mechanism), np.arange(float(m * rounds)) % 2)
    table = replace(table, bounds=FeatureBounds(1.0 if mechanism.law == "laplace" else FEATURES**0.5, 1.0, 1.0))
    return OnePass(table, list(np.arange(m * rounds).reshape(m, rounds)))


def _to_ball(vectors: Array, mechanism: Mechanism) -> Array:
    norm = np.linalg.norm(vectors, 1 if mechanism.law == "laplace" else 2, axis=-1, keepdims=True)
    scaled: Array = vectors / np.maximum(norm, 1.0)
    return scaled


def _learner(
    i: int,
    algorithm: Algorithm,
    network: Network,
    model: Model,
    stream: OnePass,
    gradient: Gradient,
    mechanism: Mechanism,
) -> Learner:
    return Learner(
        algorithm=algorithm,
        rows=network.rows([i], algorithm.mixes),
        memory=lambda: model.memory(stream.table, gradient, np.ones(1, dtype=np.int64)),
        batch=lambda a, b: Batch(a[None], np.array([b]), np.ones(1, dtype=np.int64)),
        features=FEATURES * model.outputs,
        project=lambda a: _to_ball(a[:FEATURES], mechanism),
    )
