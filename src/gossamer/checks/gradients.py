"""What a model declares of its gradients, measured: their size, what one record changes, and how fast they change.

Everything is accounted from these three, so each is climbed, for every learner, through the memory that a run uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from gossamer.checks import Finding, within
from gossamer.checks.worlds import BEYOND, FEATURES, Case, replace_where
from gossamer.types import Array

TRIES, CLIMBS = 30, 60
FAR = 12.0  # powers of two: how large points are tried


def gradient_findings(case: Case, seed: int = 0) -> Iterator[Finding]:
    """One finding for each of the three, for the learner for which it is nearest to failing."""
    rng = np.random.default_rng(seed)
    yield _worst("a gradient's norm", _climbed(case, rng, _size), [t.bound.c for t in case.terms])
    allowed = [2 * t.bound.c / t.bound.records + 2 * t.mean_error(1.0) for t in case.terms]
    share = "one round" if case.setting.per_round else "one record"
    changes = _climbed(case, rng, _replaced)
    yield _worst(f"what {share} of {case.per_round} changes in a gradient", changes, allowed)
    if case.standardised:
        yield _worst("a record's moments' norm", _climbed(case, rng, _size_of_moments), [t.bound.c for t in case.terms])
        apart = _climbed(case, rng, _moments_replaced)
        yield _worst(f"what one record of {case.per_round} changes in moments", apart, allowed)
    if math.isfinite(case.terms[0].bound.L):
        slopes = _climbed(case, rng, _slope)
        yield _worst("how far a gradient moves for each step of θ", slopes, [t.bound.L for t in case.terms])


def _worst(name: str, measured: Array, declared: list[float]) -> Finding:
    i = int((measured / np.maximum(declared, 1e-300)).argmax())
    return within(f"{name}, learner {i}", float(measured[i]), float(declared[i]), 1e-6)


Given = tuple[Array, ...]  # rows (m, N, FEATURES), labels, another row, its label, θ
Released = Callable[[Case, Array, Array, Array], Array]  # what is released of rows and labels, at θ


def _climbed(case: Case, rng: np.random.Generator, measure: Callable[[Case, Given], Array]) -> Array:
    """The largest that each learner's measure became: of random choices, and of small changes to the best."""
    best, largest = _drawn(case, rng), np.full(case.learners, -1.0)
    for step in range(TRIES + CLIMBS):
        given = _drawn(case, rng) if step < TRIES else _shaken(best, 0.95 ** (step - TRIES), rng)
        measured = measure(case, given)
        best = tuple(replace_where(measured > largest, best, given))
        largest = np.maximum(largest, measured)
    return largest


def _drawn(case: Case, rng: np.random.Generator) -> Given:
    """Random ones, and ones whose replacement points the other way while both weigh as much as they can."""
    m, N = case.learners, case.per_round
    rows = 3 * rng.normal(size=(m, N, FEATURES))
    other = rng.normal(size=(m, FEATURES))
    theta = rng.normal(size=(m, FEATURES, case.model.outputs)) * 2.0 ** rng.uniform(-3, FAR, size=(m, 1, 1))
    lever = rng.random(m) < 0.5
    along = np.full(FEATURES, BEYOND) if case.standardised else np.array([1.0, 0.0, 0.0])
    along[case.lever] = 0.03
    rows[lever, :, :] = along
    other[lever] = along * np.where(np.arange(FEATURES) == case.lever, 1, -1)
    theta[lever, 0] = 0.0
    labels = rng.integers(0, case.classes, size=(m, N)).astype(float)
    points = np.zeros((m, case.size))  # behind θ nothing has been agreed on, or something
    points[:, : FEATURES * case.model.outputs] = theta.reshape(m, -1)
    points[~lever, FEATURES * case.model.outputs :] = rng.normal(size=case.size - FEATURES * case.model.outputs)
    return rows, labels, other, rng.integers(0, case.classes, size=m).astype(float), points


def _shaken(given: Given, size: float, rng: np.random.Generator) -> Given:
    rows, labels, other, label, theta = given
    return (
        rows + 0.3 * size * rng.normal(size=rows.shape),
        labels,
        other + 0.3 * size * rng.normal(size=other.shape),
        label,
        theta * (1 + 0.5 * size * rng.normal(size=theta.shape)) + size * rng.normal(size=theta.shape),
    )


def _gradient(case: Case, rows: Array, labels: Array, theta: Array) -> Array:
    """Every learner's gradient over records of its own, as the run would take it."""
    memory = case.memory()
    memory.observe(case.batch(rows, labels))
    gradients: Array = memory.gradient(theta)
    return gradients


def _moments(case: Case, rows: Array, labels: Array, theta: Array) -> Array:
    """Every learner's moments of records of its own, as the run would release them."""
    memory = case.memory()
    memory.observe(case.batch(rows, labels))
    moments: Array = memory.seen(theta, case.looks.first)
    return moments


def _norm(case: Case, vectors: Array) -> Array:
    return np.asarray(np.linalg.norm(vectors, case.law.norm, axis=1))


def _size(case: Case, given: Given, of: Released = _gradient) -> Array:
    rows, labels, _, _, theta = given
    return _norm(case, of(case, rows[:, :1], labels[:, :1], theta))


def _replaced(case: Case, given: Given, of: Released = _gradient) -> Array:
    rows, labels, other, label, theta = given
    again, relabelled = rows.copy(), labels.copy()
    some = slice(None) if case.setting.per_round else slice(0, 1)
    again[:, some], relabelled[:, some] = other[:, None], label[:, None]
    return _norm(case, of(case, rows, labels, theta) - of(case, again, relabelled, theta))


def _size_of_moments(case: Case, given: Given) -> Array:
    return _size(case, given, _moments)


def _moments_replaced(case: Case, given: Given) -> Array:
    return _replaced(case, given, _moments)


def _slope(case: Case, given: Given) -> Array:
    """Along a record's own features, where a linear model moves fastest; minus what rounding alone explains."""
    rows, labels, other, _, theta = given
    bound = case.terms[0].bound
    step = 1e-2 * np.repeat(case.to_features(other), case.model.outputs, axis=1)
    rows = np.where(np.arange(len(rows))[:, None, None] % 2, other[:, None], rows)
    theta = theta / np.maximum(np.abs(theta).max(axis=1, keepdims=True), 1.0)
    moved = _norm(case, _gradient(case, rows, labels, theta + step) - _gradient(case, rows, labels, theta))
    blur = 2 * (bound.error + 2 * bound.error_per_size) + 2 * case.terms[0].mean_error(1.0)
    return np.asarray((moved - blur) / np.maximum(_norm(case, step), 1e-12))
