"""A hard look at the noise itself: its law, its scale for every learner and round, and whether any of it is used twice.

What is looked at is what a boundary adds to values of every size, from a hundredth of the noise to as far as the grid
goes, in early rounds and in late ones. Each statistical check raises a false alarm once in a million.

At the source that is what the releases y have, in the rounds that release. With correlated noise the gradients that a
step uses, g̃, have noise that depends on earlier ones; that of y must not, and g̃ must follow from releases alone.

Where pairs share noise, what all keys tell is taken away first. A learner's own noise is left, which has to be all that
is booked if all others collude. What the noise of pairs is worth is looked at in gossamer.checks.pairs.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy

from gossamer.checks import ALARM, Finding, within
from gossamer.checks.keys import Keys
from gossamer.checks.worlds import Case
from gossamer.networks import Network
from gossamer.privacy import Accountant, PrivateBoundary
from gossamer.privacy.boundary import CLAMP
from gossamer.privacy.laws import Law
from gossamer.rounds import Rounds
from gossamer.simulate.mixer import Mixer
from gossamer.types import Array, Out

EARLY, LATE = 32, (50, 100, 1_000, 10_000, 100_000)
COORDINATES = 400
SMALLEST = 1e-250  # a scale that fades below it is looked at no longer
Release = Callable[[str, int, Array], Array]


def noise_findings(case: Case) -> Iterator[Finding]:
    """Everything about the noise of one case."""
    boundary, again = case.boundary(), case.boundary()
    channels, rounds = boundary.channels, _looked_at(case)
    boundary.stops[:] = 10**9  # the law is looked at, not the budget
    zeros = np.zeros((case.learners, 2000))
    seen: Any = boundary if case.mechanism.where == "messages" else SourceReleases(boundary, case)
    keys = Keys(boundary, case.terms) if case.mechanism.secrets is not None else None

    def scale(t: int) -> Array:
        return np.array([[terms.scale(t)] for terms in case.terms])

    def around(t: int, value: Array) -> Array:
        meant: Array = seen.meant(t, value)
        return meant if keys is None else meant + keys.in_gradients(t, value.shape[1])

    meant = None if case.mechanism.where == "messages" else around
    grid = None if keys is None else lambda t: keys.grid(t) / keys.weights
    yield from noise_law(seen.release, scale, case.law, channels, rounds, case.times, meant, grid)
    if case.mechanism.where == "messages":
        yield one_copy(boundary)
        yield no_reuse(boundary.release(channels[0], 0, zeros), again.release(channels[0], 0, zeros))
        yield freezing(case)
        return
    yield within("what a step uses beside what was released, relative", seen.beside, 1e-6)
    yield no_reuse(case.boundary().gradient(rounds[0], zeros), again.gradient(rounds[0], zeros))
    yield from source_findings(case)


def _looked_at(case: Case) -> list[int]:
    """Early rounds and late ones; at the source, of those that release."""
    rounds = case.released(2 * LATE[-1])
    late = [int(rounds[at]) for at in np.searchsorted(rounds, LATE) if at < len(rounds)]
    return list(dict.fromkeys([*(int(t) for t in rounds[:EARLY]), *late]))


class SourceReleases:
    """What a boundary at the source releases, and what that is noise around, worked out from the equations."""

    def __init__(self, boundary: PrivateBoundary, case: Case) -> None:
        self._boundary, self._terms, self._f = boundary, case.terms, np.asarray(case.terms[0].factor)
        self._given: list[tuple[Any, Array]] = []  # by release: who releases, and everybody's
        self._used: list[tuple[Any, Array]] = []
        self._drawn: list[Array] = []
        self._keys = Keys(boundary, case.terms) if case.mechanism.secrets is not None else None
        self.beside = 0.0  # the largest difference of g̃ from y − Σ f g̃, relative to the largest of them
        spied: Any = boundary
        genuine = spied._noised
        spied._noised = lambda t, value, *more: self._keep(genuine(t, value, *more))

    def _keep(self, released: Array) -> Array:
        self._drawn.append(released.copy())
        return released

    def release(self, channel: str, t: int, value: Array) -> Array:
        """y of round t; g̃ is looked at on the way."""
        used = self._boundary.gradient(t, value)
        scale = np.array([[terms.scale(t)] for terms in self._terms])
        fresh = np.array([terms.releases.includes(t) for terms in self._terms])
        self._given.append((fresh, value))
        self._used.append((fresh, used))
        most = np.maximum(np.abs(self._weighted(self._used)), scale)
        apart = (np.abs(self._weighted(self._used) - self._drawn[-1]) / most).max()
        self.beside = max(self.beside, float(apart), float(len(self._drawn) != len(self._used)))
        return self._drawn[-1]

    def meant(self, t: int, value: Array) -> Array:
        """Σ f g, no farther than the grid goes."""
        most = CLAMP * np.array([[terms.scale(t)] for terms in self._terms])
        most = most if self._keys is None else self._keys.reach(t)
        return np.asarray(np.clip(self._weighted(self._given), -most, most))

    def _weighted(self, newest_last: list[tuple[Any, Array]]) -> Array:
        """Σ f over the newest and each learner's own releases before it."""
        factor = np.concatenate([self._f, [0.0]])
        whole, behind = newest_last[-1][1], np.ones(len(self._terms), dtype=int)
        for fresh, each in reversed(newest_last[:-1]):
            whole = whole + (factor[np.minimum(behind, len(self._f))] * fresh)[:, None] * each
            behind = behind + fresh
        return whole


def noise_law(
    release: Release,
    scale: Callable[[int], Array],
    law: Law,
    channels: Sequence[str],
    rounds: Sequence[int] = (*range(EARLY), *LATE),
    times: Callable[[str], float] = lambda channel: 1.0,
    meant: Callable[[int, Array], Array] | None = None,
    grid: Callable[[int], Array] | None = None,
) -> Iterator[Finding]:
    """Checks of what `release(channel, t, value)` adds, in units of scale(t), an (m, 1) column.

    It adds that to the value, or to `meant(t, value)`, asked for after the release. Releases lie on the grid
    scale/2^40, or on `grid(t)`.
    """
    rounds = [t for t in rounds if scale(t).min() > SMALLEST]
    rng = np.random.default_rng(0)
    m = len(scale(0))
    sizes = 10.0 ** rng.uniform(-2, 3.6, size=(m, COORDINATES)) * rng.choice([-1.0, 1.0], size=(m, COORDINATES))
    on_grid, drawn = True, np.empty((len(rounds), len(channels), m, COORDINATES))
    for at, t in enumerate(rounds):
        for c, channel in enumerate(channels):
            unit = scale(t) * times(channel)
            value = sizes * unit
            noisy = release(channel, t, value)
            steps = noisy / (unit * 2.0**-40 if grid is None else grid(t))
            on_grid &= bool((np.abs(steps - np.rint(steps)) <= 2.0**-8 * np.maximum(1, np.abs(steps) * 2.0**-40)).all())
            drawn[at, c] = (noisy - (value if meant is None else meant(t, value))) / unit
    yield Finding("noise lies on the grid", float(on_grid), 1.0, on_grid)
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
    yield independence("messages", drawn.reshape(len(names), -1), names)
    yield independence("learners", drawn.transpose(2, 0, 1, 3).reshape(m, -1), [f"learner {i}" for i in range(m)])


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


def source_findings(case: Case) -> Iterator[Finding]:
    """Rounds with noise at the source: what is drawn and used, by the schedule, and within half of a budget."""
    whole = _stepped(case, case.boundary())
    scheduled = np.array([[terms.releases.includes(t) for terms in case.terms] for t in range(case.rounds)])
    outside = int((whole.released & ~scheduled).sum())
    yield within("gradients used in rounds that release none", outside, 0)
    yield within("draws of noise for one release", max(whole.draws), 1)
    at = case.released()
    half = int(at[(len(at) - 1) // 2]) + 1
    delta = case.mechanism.delta
    budgets = [Accountant(terms, delta=delta).epsilon_at(half, delta) for terms in case.terms]
    if min(budgets) <= 0:
        return
    # One learner goes on to the end: what the others do without a release is then worked out beside its own.
    budgets[-1] = Accountant(case.terms[-1], delta=delta).epsilon_at(case.rounds, delta)
    ledgers = [Accountant(terms, budget, delta) for terms, budget in zip(case.terms, budgets, strict=True)]
    usual: Any = case.boundary()
    frozen = _stepped(case, type(usual)(case.mechanism, ledgers, case.rounds, usual._pairs))
    last = [int(np.flatnonzero(used).max(initial=-1)) + 1 for used in frozen.released.T]
    spent = [
        ledger.epsilon_at(rounds, delta) / budget for ledger, rounds, budget in zip(ledgers, last, budgets, strict=True)
    ]
    i = int(np.argmax(spent))
    yield within(f"ε of what was released, of the budget, learner {i}", float(spent[i]), 1.0, 1e-6)
    if case.standardised:
        yield within("what changed in what is kept of who releases none", frozen.strayed, 0)
    if case.learners > 1:
        yield within("rounds in which nobody's model is mixed", int((~frozen.moved).sum()), 0)


class _Stepped(NamedTuple):
    released: Any  # (rounds, m) whether a learner stepped with a gradient that is not exactly 0
    draws: list[int]  # of noise, in each round
    moved: Any  # (rounds,) whether some point moved
    strayed: int  # rows of what the memory keeps that changed in a round in which their learner did not release


def _stepped(case: Case, boundary: PrivateBoundary) -> _Stepped:
    """A run of the case's own rounds, from points that are apart."""
    spied: Any = boundary
    genuine, draws = spied._noised, [0] * case.rounds

    def counted(t: int, value: Array, *more: float) -> Array:
        draws[t] += 1
        noisy: Array = genuine(t, value, *more)
        return noisy

    spied._noised = counted
    rows, mix = case.network.rows(mixes=case.algorithm.mixes), Mixer(case.network, case.algorithm.mixes)
    memory, strayed = case.memory(), 0
    rounds = Rounds(case.algorithm, rows, memory, boundary, max(case.model.l2, 0.1), finite=True)
    start = np.random.default_rng(0).normal(size=(case.learners, case.size))
    state, released, moved = rounds.start(case.algorithm.init(rows, start)), [], []
    for t in range(case.rounds):
        then = memory.kept() if case.standardised else {}
        gradient, out = rounds.send(state, case.stream.arrivals(t), t)
        now = memory.kept() if case.standardised else {}
        changed = [(value != then.get(name, value)).any(axis=1) for name, value in now.items()]
        strayed += sum(int((one & ~np.broadcast_to(boundary.fresh(t), one.shape)).sum()) for one in changed)
        got = {channel: mix(each.over, each.value) for channel, each in out.items()}
        after = rounds.receive(state, gradient, got, [c for c, each in out.items() if each.private], t)
        released.append((gradient != 0).any(axis=1))
        moved.append(bool((case.algorithm.point(after) != case.algorithm.point(state)).any()))
        state = after
    return _Stepped(np.array(released), draws, np.array(moved), strayed)


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


def independence(name: str, rows: Array, names: Sequence[str]) -> Finding:
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
