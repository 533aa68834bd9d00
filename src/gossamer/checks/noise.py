"""A hard look at the noise itself: its law, its scale for every learner and round, and whether any of it is used twice.

What is looked at is what a boundary adds to values of every size, from a hundredth of the noise to as far as the grid
goes, in early rounds and in late ones. Each statistical check raises a false alarm once in a million.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from gossamer.checks import ALARM, Finding, within
from gossamer.checks.worlds import Case
from gossamer.networks import Network
from gossamer.privacy import Accountant, PrivateBoundary
from gossamer.privacy.laws import Law
from gossamer.simulate.engine import Mixer
from gossamer.types import Array, Out

EARLY, LATE = 32, (50, 100, 1_000, 10_000, 100_000)
COORDINATES = 400
SMALLEST = 1e-250  # a scale that fades below it is looked at no longer
Release = Callable[[str, int, Array], Array]


def noise_findings(case: Case) -> Iterator[Finding]:
    """Everything about the noise of one case."""
    boundary = case.boundary()
    boundary.stops[:] = 10**9  # the law is looked at, not the budget
    release, again, channels = _release_of(boundary), _release_of(case.boundary()), boundary.channels
    yield from noise_law(release, lambda t: np.array([[terms.scale(t)] for terms in case.terms]), case.law, channels)
    if case.mechanism.where == "messages":
        yield one_copy(boundary)
    zeros = np.zeros((case.learners, 2000))
    yield no_reuse(release(channels[0], 0, zeros), again(channels[0], 0, zeros))
    if case.mechanism.where == "messages":  # at the source each record is in one release, so that nobody runs out
        yield freezing(case)


def _release_of(boundary: PrivateBoundary) -> Release:
    if boundary.mechanism.where == "source":
        return lambda channel, t, value: boundary.gradient(t, value)
    return boundary.release


def noise_law(release: Release, scale: Callable[[int], Array], law: Law, channels: Sequence[str]) -> Iterator[Finding]:
    """Checks of what `release(channel, t, value)` adds to a value, in units of scale(t), an (m, 1) column."""
    rounds = [t for t in (*range(EARLY), *LATE) if scale(t).min() > SMALLEST]
    rng = np.random.default_rng(0)
    m = len(scale(0))
    sizes = 10.0 ** rng.uniform(-2, 3.6, size=(m, COORDINATES)) * rng.choice([-1.0, 1.0], size=(m, COORDINATES))
    on_grid, drawn = True, np.empty((len(rounds), len(channels), m, COORDINATES))
    for at, t in enumerate(rounds):
        for c, channel in enumerate(channels):
            value = sizes * scale(t)
            noisy = release(channel, t, value)
            steps = noisy / (scale(t) * 2.0**-40)
            on_grid &= bool((np.abs(steps - np.rint(steps)) <= 2.0**-8 * np.maximum(1, np.abs(steps) * 2.0**-40)).all())
            drawn[at, c] = (noisy - value) / scale(t)
    yield Finding("noise lies on the grid scale/2^40", float(on_grid), 1.0, on_grid)
    for at, t in enumerate(rounds):
        for c, channel in enumerate(channels):
            yield _scale_finding(f"scale, {channel} round {t}", drawn[at, c], law)
    yield from (_scale_finding(f"scale, learner {i}", drawn[:, :, i], law) for i in range(m))
    for low, high in ((0, 0.1), (0.1, 1), (1, 10), (10, 100), (100, 1000), (1000, math.inf)):
        some = (np.abs(sizes) >= low) & (np.abs(sizes) < high)
        yield _scale_finding(f"scale, values from {low:g} scales on", drawn[:, :, some], law)
    for name, some in (("early", slice(0, EARLY)), ("late", slice(EARLY, None))):
        if drawn[some].size:
            yield _shape_finding(f"shape of the law, {name} rounds (p-value)", drawn[some].ravel(), law)
    names = [f"{channel} of round {t}" for t in rounds for channel in channels]
    yield _independence("messages", drawn.reshape(len(names), -1), names)
    yield _independence("learners", drawn.transpose(2, 0, 1, 3).reshape(m, -1), [f"learner {i}" for i in range(m)])


def no_reuse(one: Array, other: Array) -> Finding:
    """Two sets of draws, as of one process before and after a restart, have no value in common but by chance."""
    shared = len(np.intersect1d(one, other))
    return Finding("draws shared between restarts", shared, 2, shared <= 2)


def deliver(boundary: PrivateBoundary, mix: Mixer, channel: str, t: int, sent: Out) -> Array:
    """What every learner receives: one noisy copy of each message, the same for all out-neighbours."""
    return mix(sent.over, boundary.release(channel, t, sent.value))


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


def freezing(case: Case) -> Finding:
    """Learners whose budgets pay for half of the rounds only: what they release that is new must be within them."""
    half = max(case.rounds // 2, 1)
    delta = case.mechanism.delta
    budgets = tuple(Accountant(terms, delta=delta).epsilon_at(half, delta) for terms in case.terms)
    first = case.terms[0]
    given: Any = replace(
        case.mechanism, scale=None, epsilon=budgets, horizon=half, exponent=first.exponent, ratio=first.ratio
    )
    boundary = case.bind(given, case.setting)
    fresh, last = np.zeros(case.learners, dtype=int), np.empty(0)
    for t in range(case.rounds):
        boundary.charge(t)
        value = np.full((case.learners, 4), float(t))
        sent = np.hstack([boundary.release(channel, t, value) for channel in boundary.channels])
        fresh += (sent != last).any(axis=1) if t else 1
        last = sent
    spent = [
        ledger.epsilon_at(int(rounds), delta) / budget
        for ledger, rounds, budget in zip(boundary.ledgers, fresh, budgets, strict=True)
    ]
    i = int(np.argmax(spent))
    return within(f"ε of what was released, of the budget, learner {i}", float(spent[i]), 1.0, 1e-6)


def _scale_finding(name: str, x: Array, law: Law) -> Finding:
    """E|noise| in units of the scale, to within what chance allows."""
    expected, spread = law.mean_size, math.sqrt(law.variance - law.mean_size**2)
    allowed = -float(scipy.special.ndtri(ALARM / 2)) * spread / math.sqrt(max(x.size, 1))
    measured = float(np.abs(x).mean()) if x.size else expected
    return Finding(name, measured / expected, 1.0, abs(measured - expected) <= allowed)


def _shape_finding(name: str, x: Array, law: Law) -> Finding:
    stats = importlib.import_module("scipy.stats")  # takes as long to load as all else; most commands need it never
    p = float(stats.kstest(x, law.in_scipy).pvalue)
    return Finding(name, p, ALARM, p >= ALARM)


def _independence(name: str, rows: Array, names: Sequence[str]) -> Finding:
    """The largest correlation between any two rows."""
    if len(rows) < 2:
        return Finding(f"correlation of {name}", 0.0, 1.0, True)
    spread = rows.std(axis=1)
    matrix = np.abs(np.corrcoef(np.where(spread[:, None] > 0, rows, np.arange(rows.shape[1]))))
    matrix[spread == 0] = 1.0
    np.fill_diagonal(matrix, 0.0)
    a, b = (int(at) for at in np.unravel_index(int(matrix.argmax()), matrix.shape))
    pairs = len(rows) * (len(rows) - 1) / 2
    allowed = -float(scipy.special.ndtri(ALARM / pairs / 2)) / math.sqrt(rows.shape[1])
    return within(f"correlation of {name}: {names[a]} and {names[b]}", float(matrix[a, b]), allowed, 0.0)
