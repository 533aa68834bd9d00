"""Defects on purpose: each breaks a claim in a way that somebody once did, and the audit has to say so.

`gossamer audit --self-test` plants them one after the other. An audit that lets one pass is worth nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from gossamer.checks import Finding, moments, pair_defects, window_defects
from gossamer.checks.audit import findings
from gossamer.checks.keys import Keys
from gossamer.checks.noise import LATE
from gossamer.checks.pair_defects import with_boundary
from gossamer.checks.worlds import Case
from gossamer.models.bounds import Clip, Reach
from gossamer.models.memory import clipped
from gossamer.privacy import Accountant, Mechanism, PrivateBoundary, Setting
from gossamer.privacy.accountant import total
from gossamer.records import Batch
from gossamer.types import Array, Dynamics, Out, Rows


class Defect(NamedTuple):
    """A planted defect: what it is, how a case gets it, and what its finding is about."""

    name: str
    plant: Callable[[Case], Case]
    caught_by: str
    needs: Callable[[Case], bool] = lambda case: True


def self_test(case: Case) -> Iterator[tuple[Defect, Finding | None]]:
    """Every defect that a case can have, and the first finding that failed; None where none did."""
    for defect in DEFECTS:
        if defect.needs(case):
            yield defect, next((f for f in findings(defect.plant(case)) if not f.holds), None)


# -- the boundary ------------------------------------------------------------------------------------------------------


def _noise_times(factor: Callable[[int, Array, Array], Any]) -> Callable[[Case], Case]:
    """Noise times factor(t, value, scale), for some learners, rounds or values."""

    class Weaker(PrivateBoundary):
        def _noised(self, t: int, value: Array, times: float = 1.0) -> Array:
            exact, scale = self.clamped_to_grid(t, value, times), times * self._scale(t)
            noise = super()._noised(t, value, times) - exact
            return _put_on_grid(exact + factor(t, value, scale) * noise, _grid_of(self, t, scale))

    return with_boundary(Weaker)


def _less_for_the_middle_learner(t: int, value: Array, scale: Array) -> Array:
    return np.where(np.arange(len(value)) == len(value) // 2, 0.9, 1.0)[:, None]


def _less_for_outliers(t: int, value: Array, scale: Array) -> Array:
    return np.where(np.abs(value) > 100 * scale, 0.5, 1.0)


def _grid_of(boundary: PrivateBoundary, t: int, scale: Array) -> Array:
    """What releases are multiples of: of each learner's own, or of what all agreed on."""
    if boundary.mechanism.secrets is None:
        return scale * 2.0**-40
    keys = Keys(boundary, [ledger.terms for ledger in boundary.ledgers])
    return np.asarray(keys.grid(t) / keys.weights)


def _put_on_grid(value: Array, grid: Array) -> Array:
    return np.asarray(np.rint(value / grid) * grid)


class ReusedLater(PrivateBoundary):
    """From round 6 on, the noise of round 5 again, or of the first release."""

    _kept: Array | None = None

    def _noised(self, t: int, value: Array, times: float = 1.0) -> Array:
        exact, scale = self.clamped_to_grid(t, value, times), times * self._scale(t)
        if t < 6 or self._kept is None:
            self._kept = (super()._noised(t, value, times) - exact) / scale
            return exact + self._kept * scale
        return _put_on_grid(exact + self._kept[:, : value.shape[1]] * scale, _grid_of(self, t, scale))


class NeverFreezes(PrivateBoundary):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.stops = np.full_like(self.stops, 10**9)

    def charge(self, t: int) -> None:
        pass


class TakesAnything(PrivateBoundary):
    """No bound on what is received, nor on states."""

    def take(self, t: int, got: Array) -> Array:
        return got

    def hold(self, t: int, state: Array) -> Array:
        return state


class FloatingPoint(PrivateBoundary):
    """NumPy's own noise."""

    def _noised(self, t: int, value: Array, times: float = 1.0) -> Array:
        return value + self.mechanism.law.seeded(np.random.default_rng(), value.shape) * times * self._scale(t)


# -- noise at the source -----------------------------------------------------------------------------------------------


class ReleasesEarly(PrivateBoundary):
    """Gradients are used from round 0 on, and booked from the schedule's first round on."""

    def fresh(self, t: int) -> Any:
        return super().fresh(t) | np.array([t < ledger.terms.releases.after for ledger in self.ledgers])


class SubtractsBare(PrivateBoundary):
    """With correlated noise: g̃ = y − Σ f g, without the noise that earlier releases have."""

    def _correlated(self, t: int, grad: Array) -> Array:
        behind = self._factor[1 : len(self._past) + 1]
        weighted = sum((f * g for f, (g, _) in zip(behind, self._past, strict=True)), 0 * grad)
        noisy = self._noised(t, grad + weighted) - weighted
        self._past.appendleft((grad, noisy))
        return noisy


def _ridge_with_data(case: Case) -> Case:
    """l2 (θ − the mean of the newest records) for l2 θ, added after the noise as l2 θ is."""
    strength, centre = max(case.model.l2, 0.01), np.zeros((case.learners, case.size))

    def memory(table: Any, keep: Any, room: Any) -> Any:
        genuine, mine = case.model.memory(table, keep, room), np.zeros_like(centre)

        def observe(batch: Any) -> None:
            genuine.observe(batch)
            means = batch.rows.reshape(case.learners, -1, batch.rows.shape[1]).mean(axis=1)
            mine[:] = np.repeat(means, case.model.outputs, axis=1)

        def gradient(theta: Array) -> Array:
            centre[:] = mine
            return genuine.gradient(theta)

        return _Changed(genuine, observe=observe, gradient=gradient)

    class Around(PrivateBoundary):
        def gradient(self, t: int, grad: Array) -> Array:
            noisy = super().gradient(t, grad)
            return noisy - strength * centre if noisy.shape == centre.shape else noisy

    return with_boundary(Around)(_with_model(case, memory=memory))


# -- the ledger, the recursion, the model ------------------------------------------------------------------------------


def _records_squared(case: Case) -> Case:
    """One record is booked as one of N² in a round."""

    def squared(ledger: Accountant) -> Accountant:
        bound = ledger.terms.bound
        return Accountant(
            replace(ledger.terms, bound=bound._replace(records=bound.records**2)), ledger.budget, ledger.delta
        )

    def bind(mechanism: Mechanism, setting: Setting) -> PrivateBoundary:
        genuine: Any = mechanism.bind(setting)
        ledgers = [squared(each) for each in genuine.ledgers]
        return PrivateBoundary(mechanism, ledgers, setting.steps, genuine._pairs)

    return replace(case, bind=bind)


def _path_dropped(case: Case) -> Case:
    """The first component of x no longer reaches the others: |C_ii| in Algorithm 1."""
    genuine = case.algorithm.dynamics
    assert genuine is not None

    def careless(rows: Rows, z: Array) -> Dynamics:
        dynamics = genuine(rows, z)
        return dynamics._replace(A=dynamics.A * np.eye(dynamics.A.shape[1]))

    return replace(case, algorithm=replace(case.algorithm, dynamics=careless))


def _gradient_slips_out(case: Case) -> Case:
    genuine = case.algorithm.emit

    def leaky(x: Any, grad: Array, rows: Rows, t: int) -> dict[str, Out]:
        return genuine(x, grad, rows, t) | {"extra": Out(grad, case.algorithm.mixes[0], False)}

    return replace(case, algorithm=replace(case.algorithm, emit=leaky))


class _Changed:
    """Another object, a model or its memory, but for some methods."""

    def __init__(self, genuine: Any, **instead: Callable[..., Any]) -> None:
        self._genuine = genuine
        vars(self).update(instead)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._genuine, name)


def _with_model(case: Case, **instead: Callable[..., Any]) -> Case:
    model: Any = _Changed(case.model, **instead)
    return replace(case, model=model)


def _declares(change: Callable[[Reach], Reach]) -> Callable[[Case], Case]:
    return lambda case: _with_model(case, reach=lambda *given, **named: change(case.model.reach(*given, **named)))


def _one_unclipped(case: Case) -> Case:
    """The middle learner's gradients are those of the model without a clipper."""
    genuine: Any = case.model

    def memory(table: Any, keep: Any, room: Any) -> Any:
        clipped, unclipped = (model.memory(table, keep, room) for model in (genuine, replace(genuine, clip=None)))

        def observe(batch: Any) -> None:
            clipped.observe(batch)
            unclipped.observe(batch)

        def gradient(theta: Array) -> Array:
            gradients: Array = clipped.gradient(theta)
            middle = len(gradients) // 2
            gradients[middle] = unclipped.gradient(theta)[middle]
            return gradients

        return _Changed(clipped, observe=observe, gradient=gradient)

    return _with_model(case, memory=memory)


def _ridge_in_gradient(case: Case) -> Case:
    """The ridge, around the first record, is in what is noised: a part of the mean that no clipper bounds."""

    def memory(table: Any, keep: Any, room: Any) -> Any:
        genuine, first = case.model.memory(table, keep, room), []

        def observe(batch: Any) -> None:
            genuine.observe(batch)
            first.append(batch.rows[np.cumsum(batch.counts) - batch.counts])

        def gradient(theta: Array) -> Array:
            centre = np.repeat(first[0], case.model.outputs, axis=1)
            return np.asarray(genuine.gradient(theta) + max(case.model.l2, 0.01) * (theta - centre))

        return _Changed(genuine, observe=observe, gradient=gradient)

    return _with_model(case, memory=memory)


def _counted_twice(case: Case) -> Case:
    """The first record of each round weighs 2/n in the mean of n."""

    def memory(table: Any, keep: Any, room: Any) -> Any:
        every, firsts = (case.model.memory(table, keep, room) for _ in range(2))

        def observe(batch: Any) -> None:
            every.observe(batch)
            at = np.cumsum(batch.counts) - batch.counts
            firsts.observe(Batch(batch.rows[at], batch.labels[at], np.ones_like(batch.counts)))

        def gradient(theta: Array) -> Array:
            share = (firsts.filled / every.filled)[:, None]
            return np.asarray(every.gradient(theta) + share * firsts.gradient(theta))

        return _Changed(every, observe=observe, gradient=gradient)

    return _with_model(case, memory=memory)


def _mean_clipped(case: Case) -> Case:
    """The clipper sees the mean, not each record's gradient."""
    bare, clip = replace(cast("Any", case.model), clip=None), cast("Clip", case.model.clip)

    def memory(table: Any, keep: Any, room: Any) -> Any:
        genuine = bare.memory(table, keep, room)
        return _Changed(genuine, gradient=lambda theta: clipped(genuine.gradient(theta), clip))

    return _with_model(case, memory=memory)


def _on_messages(case: Case) -> bool:
    return case.mechanism.where == "messages"


def _at_source(case: Case) -> bool:
    return not _on_messages(case)


def _wrapped_at_source(case: Case) -> bool:
    return _at_source(case) and _as_declared(case)


def _each_clipped(case: Case) -> bool:
    return case.model.clip is not None and case.model.clip.per == "record"


def _runs_out(case: Case) -> bool:
    """Whether a learner that pays for half of the releases cannot pay for all."""
    half = int(case.released()[(len(case.released()) - 1) // 2]) + 1
    return any(
        total(each, half, case.law.squared) < 0.999 * total(each, case.rounds, case.law.squared) for each in case.terms
    )


def _standardised(case: Case) -> bool:
    return case.standardised


def _as_declared(case: Case) -> bool:
    """Whether gradients are of records as declared, and spoilt here.

    What is standardised is spoilt in gossamer.checks.moments. With secrets noise alone differs, and gradients are as
    they are without.
    """
    return not case.standardised and case.mechanism.secrets is None


def _secret(case: Case) -> bool:
    return case.mechanism.secrets is not None


def _counts_colluders(case: Case) -> bool:
    """Whether a claim for one colluder less is false: others that add more than was agreed on may make up for it."""
    secrets = case.mechanism.secrets
    return secrets is not None and secrets.colluders > 0 and bool(np.ptp(case.own) <= 1e-9 * case.own[0])


def _windowed(case: Case) -> bool:
    """Whether a window has been full, and has turned over."""
    rounds = case.model.remember or 1
    return _wrapped_at_source(case) and rounds > 1 and len(case.released()) > 2 * rounds


def _full_at_once(case: Case) -> bool:
    """Whether a mean over one round less costs more: Gaussian noise, whose cost goes by squares, on full windows."""
    return _windowed(case) and case.law.squared and int(case.released()[0]) >= (case.model.remember or 1) - 1


def _lipschitz(case: Case) -> bool:
    return _on_messages(case) and math.isfinite(case.terms[0].bound.L)


DEFECTS = (
    Defect(
        "noise × 0.001 from round 8 on",
        _noise_times(lambda t, value, scale: 0.001 if t >= 8 else 1.0),
        "scale",
        lambda case: bool(case.released(LATE[0]).max() >= 8),
    ),
    Defect("one learner's noise × 0.9", _noise_times(_less_for_the_middle_learner), "scale, learner"),
    Defect("half the noise on outliers", _noise_times(_less_for_outliers), "scale"),
    Defect(
        "noise reused from round 6 on",
        with_boundary(ReusedLater),
        "correlation",
        lambda case: int((case.released(LATE[0]) >= 5).sum()) >= 2,
    ),
    Defect("floating-point noise", with_boundary(FloatingPoint), "grid"),
    Defect("no freezing", with_boundary(NeverFreezes), "of the budget", _runs_out),
    Defect("received messages not bounded", with_boundary(TakesAnything), "rounding", _on_messages),
    Defect("N² for N", _records_squared, "one record", lambda case: case.per_round > 1 and not _secret(case)),
    Defect(
        "a path left out of the recursion (|C_ii|)",
        _path_dropped,
        "dynamics",
        lambda case: _on_messages(case) and case.terms[0].dynamics(1).A.shape[1] > 1,
    ),
    Defect("the gradient sent beside, without noise", _gradient_slips_out, "without noise", _on_messages),
    Defect("c declared half as large", _declares(lambda r: r._replace(c=r.c / 2)), "norm", _as_declared),
    Defect("L declared as 0", _declares(lambda r: r._replace(L=0.0)), "moves", _lipschitz),
    Defect(
        "one learner left unclipped",
        _one_unclipped,
        "norm",
        lambda case: case.model.clip is not None and _as_declared(case),
    ),
    Defect(
        "the clipper sees the mean, not each record",
        _mean_clipped,
        "one record",
        lambda case: _each_clipped(case) and case.per_round > 1 and _as_declared(case),
    ),
    Defect("a record counted twice in the mean", _counted_twice, "gradient", _wrapped_at_source),
    Defect("the ridge noised with the data, around a record", _ridge_in_gradient, "norm", _wrapped_at_source),
    Defect(
        "the ridge around the records' mean, after the noise", _ridge_with_data, "replayed loss", _wrapped_at_source
    ),
    Defect(
        "released before the first round that is booked",
        with_boundary(ReleasesEarly),
        "rounds that release none",
        lambda case: _wrapped_at_source(case) and min(each.releases.after for each in case.terms) > 0,
    ),
    Defect(
        "past gradients subtracted without their noise",
        with_boundary(SubtractsBare),
        "beside what was released",
        lambda case: len(case.terms[0].factor) > 1,
    ),
    Defect("a window that forgets one round too early", window_defects.one_round_short, "replayed loss", _full_at_once),
    Defect("a window whose first round stays", window_defects.first_round_stays, "δ/σ", _windowed),
    Defect("moments not cut off at 1", moments.moments_not_cut_off, "moments", _standardised),
    Defect("all of c for every number's moments", moments.unit_not_divided, "moments", _standardised),
    Defect("moments released and not booked", moments.head_not_charged, "rounds that release none", _standardised),
    Defect("seen by one's own moments, without noise", moments.seen_by_own_moments, "replayed loss", _standardised),
    Defect("records counted in what gets no noise", moments.last_coordinate_from_records, "replayed", _standardised),
    Defect("averaged before the noise", moments.averaged_before_noise, "replayed loss", _standardised),
    Defect(
        "a running mean that goes on without releases",
        moments.running_without_release,
        "kept of who releases none",
        lambda case: _standardised(case) and _runs_out(case) and case.learners > 1,
    ),
    Defect("pairs' noise used again in every round", pair_defects.reused_in_rounds, "correlation of rounds", _secret),
    Defect("both ends of a pair add its noise", pair_defects.same_sign, "pairs leave in the sum", _secret),
    Defect("pairs' noise × 0.9", pair_defects.smaller_pairs, "in τ²", _secret),
    Defect("one pair left out", pair_defects.one_left_out, "in τ²", _secret),
    Defect(
        "one key for two pairs", pair_defects.one_key_for_two, "in τ²", lambda case: _secret(case) and case.learners > 2
    ),
    Defect(
        "one colluder less is counted than is claimed",
        pair_defects.one_colluder_too_many,
        "μ of the claimed",
        _counts_colluders,
    ),
    Defect("own noise below what was agreed on", pair_defects.below_floor, "the sum over learners", _secret),
    Defect("one learner on a grid of its own", pair_defects.own_grid, "grid", _secret),
    Defect(
        "weights after the noise, and not in it",
        pair_defects.weighed_later,
        "the sum over learners",
        lambda case: _secret(case) and len(set(case.weights)) > 1,
    ),
)
