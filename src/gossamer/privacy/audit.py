"""Try to catch a mechanism lying: replay a learner on neighbouring records, and look hard at the noise it draws.

`replay` runs one learner twice, on streams that differ in one record, with identical received messages, random and
climbed ones, and adds up what its messages really differ by, in units of the noise: no such sum may exceed the
claim. It runs the algorithm's and the model's own code, so a clipper that lets too much through, or a recursion that
leaves a path out, shows.

`noise_law` draws through a boundary's own `release` and asks for the scale and shape of the law, the grid, and that no
draw repeats or depends on another: between channels, rounds, learners and restarts. A scale of 0.9, a reused draw, a
round without noise, or floating-point noise off the grid each fail.

`scores` and `judged` give likelihood ratios of many noised runs, in the worst two worlds found, to an outside judge,
whose certified bound must stay below the claim.

An audit that passes proves nothing; one that fails disproves the claim.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from gossamer.privacy.accountant import Law, Terms, total
from gossamer.types import Array, GossamerError

MOST_CHANNELS = 8
ALARM = 1e-6  # the probability with which each statistical check raises a false alarm


class Finding(NamedTuple):
    """One check: what was measured, what was allowed, and whether that holds."""

    check: str
    measured: float
    allowed: float
    holds: bool


class Learner(NamedTuple):
    """One learner to replay: its algorithm, its place, and how its gradient is taken."""

    algorithm: Any
    rows: Any  # of a block of one learner
    memory: Callable[[], Any]  # a fresh memory for its records
    batch: Callable[[Array, float], Any]  # a record (a, b) as the memory takes it
    features: int
    project: Callable[[Array], Array]  # any vector to features within the declared bounds


def replay(learner: Learner, terms: Terms, rounds: int, *, tries: int = 40, climbs: int = 60, seed: int = 0) -> Finding:
    """The largest loss found over records, messages and the round of the replaced record, against the claimed total."""
    squared = terms.law == "gaussian"
    _, _, worst = _worst_neighbours(learner, terms, rounds, tries, climbs, seed)
    claimed = total(terms, rounds, squared)
    name = "replayed loss Σ (δ/σ)²" if squared else "replayed loss Σ δ/ν"
    return Finding(name, worst, claimed, worst <= claimed * (1 + 1e-9))


def scores(
    learner: Learner,
    terms: Terms,
    rounds: int,
    draw: Callable[[Array, float], Array],
    *,
    runs: int = 4000,
    seed: int = 0,
) -> tuple[Array, Array]:
    """Log-likelihood ratios of many noised runs in either of the worst two worlds that replay found.

    The most powerful attack that knows the records, the messages and the law: high where the first world is likelier.
    """
    given, k, _ = _worst_neighbours(learner, terms, rounds, 40, 60, seed)
    worlds = [_sent(_states(learner, given, k, replaced), terms, k) for replaced in (False, True)]
    found = np.zeros((2, runs))
    for (t, one), (_, other) in zip(*worlds, strict=True):
        scale = terms.scale(t)
        for which, truth in enumerate((one, other)):
            out = draw(np.broadcast_to(truth, (runs, truth.size)), scale)
            a, b = np.abs(out - one) / scale, np.abs(out - other) / scale
            found[which] += (b - a).sum(axis=1) if terms.law == "laplace" else ((b**2 - a**2) / 2).sum(axis=1)
    return found[0], found[1]


def judged(held_in: Array, held_out: Array, claim: float, delta: float = 0.0, significance: float = 1e-3) -> Finding:
    """An outside judge, jax_privacy's CanaryScoreAuditor (extra `audit`): its certified bound against the claim."""
    try:
        auditing = importlib.import_module("jax_privacy.auditing")
    except ImportError:
        raise GossamerError(
            "an outside judge needs the jax-privacy library: pip install 'gossamer-learning[audit]'."
        ) from None
    bound = float(auditing.CanaryScoreAuditor(held_in, held_out).epsilon_clopper_pearson(significance, delta=delta))
    return Finding("ε certified by the outside judge", bound, claim, bound <= claim)


def _worst_neighbours(
    learner: Learner, terms: Terms, rounds: int, tries: int, climbs: int, seed: int
) -> tuple[_Candidate, int, float]:
    """Records and messages, the round of the replaced record, and the loss, as large as random ascent finds it."""
    rng = np.random.default_rng(seed)
    squared = terms.law == "gaussian"
    worst_at, worst_k, worst = _candidate(rng, learner, rounds), 0, 0.0
    for k in sorted({0, rounds // 2, rounds - 2} if not terms.history else {0}):
        best_at, best = None, -1.0
        for _ in range(tries):
            candidate = _candidate(rng, learner, rounds)
            loss = _loss(learner, terms, candidate, k, squared)
            if loss > best:
                best_at, best = candidate, loss
        for step in range(climbs):  # random ascent, with ever smaller moves
            assert best_at is not None
            size = 0.5 * 0.97**step
            moved = _Candidate(*(part + size * rng.normal(size=part.shape) for part in best_at))
            loss = _loss(learner, terms, moved, k, squared)
            if loss > best:
                best_at, best = moved, loss
        if best > worst and best_at is not None:
            worst_at, worst_k, worst = best_at, k, best
    return worst_at, worst_k, worst


_Sent = dict[str, list[Array]]  # a round's "messages", which are noised, "public" ones, which are not, and "gradient"


class _Candidate(NamedTuple):
    records: Array  # (rounds, n)
    other: Array  # (n,) what replaces one of them
    messages: Array  # (rounds, MOST_CHANNELS, n)


def _candidate(rng: np.random.Generator, learner: Learner, rounds: int) -> _Candidate:
    n = learner.features
    sign = rng.choice([-1.0, 1.0], size=(rounds, n)) if rng.random() < 0.5 else rng.normal(size=(rounds, n))
    return _Candidate(
        3 * sign,
        -3 * sign[0] + rng.normal(size=n),
        rng.normal(size=(rounds, MOST_CHANNELS, n)) * rng.choice([0.1, 1, 5]),
    )


def _loss(learner: Learner, terms: Terms, given: _Candidate, k: int, squared: bool) -> float:
    """Σ over rounds and private channels of ‖sent − sent'‖ / scale, or its square."""
    order = 2 if squared else 1
    loss = 0.0
    worlds = [_states(learner, given, k, replaced) for replaced in (False, True)]
    if terms.where == "messages" and not _same_in_public(*worlds):
        return math.inf
    for (t, one), (_, other) in zip(*(_sent(states, terms, k) for states in worlds), strict=True):
        part = float(np.linalg.norm(one - other, order)) / terms.scale(t)
        loss += part**2 if squared else part
    return loss


def _sent(states: list[_Sent], terms: Terms, k: int) -> list[tuple[int, Array]]:
    """(round, value) of all that is noised; at the source only round k tells the worlds apart, the rest follows."""
    if terms.where == "source":
        return [(k, states[k]["gradient"][0].ravel())]
    return [(t, value.ravel()) for t, state in enumerate(states) for value in state["messages"]]


def _same_in_public(one: list[_Sent], other: list[_Sent]) -> bool:
    """Whether all that is sent without noise is the same on neighbouring records."""
    return all(
        np.array_equal(a, b)
        for x, y in zip(one, other, strict=True)
        for a, b in zip(x["public"], y["public"], strict=True)
    )


def _states(learner: Learner, given: _Candidate, k: int, replaced: bool) -> list[_Sent]:
    algorithm, memory = learner.algorithm, learner.memory()
    found = []
    x = algorithm.init(learner.rows, np.zeros((1, learner.features)))
    for t, record in enumerate(given.records):
        a, b = (given.other, 1.0) if replaced and t == k else (record, 0.0)
        memory.observe(learner.batch(learner.project(a), b))
        grad = memory.gradient(algorithm.point(x))
        out = algorithm.emit(x, grad, learner.rows, t)
        private = [o.value for o in out.values() if o.private]
        found.append(
            {"messages": private, "public": [o.value for o in out.values() if not o.private], "gradient": [grad]}
        )
        received = iter(given.messages[t])
        got = {c: next(received)[None] if o.private else 0.1 * o.value for c, o in out.items()}
        x = algorithm.step(x, got, grad, learner.rows, t)
    return found


def noise_law(
    release: Callable[[str, int, Array], Array],
    scale: Callable[[int], Array],
    law: Law,
    learners: int,
    coordinates: int = 2000,
    rounds: int = 6,
    channels: Sequence[str] = ("s", "theta"),
) -> list[Finding]:
    """Checks of what `release(channel, t, value)` adds to a value, in units of scale(t), an (m, 1) column."""
    drawn: dict[tuple[str, int], Array] = {}
    on_grid = True
    for t in range(rounds):
        for channel in channels:
            value = np.full((learners, coordinates), 0.3) * scale(t)
            noisy = release(channel, t, value)
            steps = noisy / (scale(t) * 2.0**-40)
            on_grid &= bool((np.abs(steps - np.rint(steps)) <= 2.0**-8).all())
            drawn[channel, t] = (noisy - value) / scale(t)
    found = [Finding("noise lies on the grid scale/2^40", float(on_grid), 1.0, on_grid)]
    found += [_scale_finding(f"scale, {c} round {t}", x, law) for (c, t), x in drawn.items()]
    every = np.concatenate([x.ravel() for x in drawn.values()])
    stats = importlib.import_module("scipy.stats")  # takes as long to load as all else; most commands need it never
    p = float(stats.kstest(every, "laplace" if law == "laplace" else "norm").pvalue)
    found.append(Finding("shape of the law (p-value)", p, ALARM, p >= ALARM))
    keys = list(drawn)
    for a, b in [(keys[0], keys[1]), (keys[0], keys[2]), (keys[1], keys[3])]:
        found.append(_independence(f"{a} and {b}", drawn[a].ravel(), drawn[b].ravel()))
    first = drawn[keys[0]]
    found += [_independence(f"learners 0 and {i}", first[0], first[i]) for i in range(1, learners)]
    return found


def no_reuse(one: Array, other: Array) -> Finding:
    """Two sets of draws, as of one process before and after a restart, have no value in common but by chance."""
    shared = len(np.intersect1d(one, other))
    return Finding("draws shared between restarts", shared, 2, shared <= 2)


def _scale_finding(name: str, x: Array, law: Law) -> Finding:
    """E|noise| in units of the scale, to within what chance allows."""
    expected, spread = (1.0, 1.0) if law == "laplace" else (math.sqrt(2 / math.pi), math.sqrt(1 - 2 / math.pi))
    allowed = -float(ndtri(ALARM / 2)) * spread / math.sqrt(x.size)
    measured = float(np.abs(x).mean())
    return Finding(name, measured / expected, 1.0, abs(measured - expected) <= allowed)


def _independence(name: str, a: Array, b: Array) -> Finding:
    correlation = float(abs(np.corrcoef(a, b)[0, 1])) if a.std() and b.std() else 1.0
    allowed = -float(ndtri(ALARM / 2)) / math.sqrt(a.size)
    return Finding(f"correlation of {name}", correlation, allowed, correlation <= allowed)
