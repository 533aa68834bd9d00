"""`gossamer theory`: what the theorems predict from exponents alone, against means over hundreds of seeds.

Every case is a schedule on the paper's network. What is fitted is the slope of a mean over seeds on log-log paper;
what is predicted are the paper's exponents (gossamer.theory.rates), ours (gossamer.theory.last_iterate), and bounds
with all their constants (gossamer.theory.bounds).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gossamer.experiments.columns import Columns, Loss, Plan, Trace, at_source, centres, convex, on_messages, quadratic
from gossamer.experiments.slopes import Slope, fit, resampled
from gossamer.networks import Network
from gossamer.theory import Problem, bounds, last_iterate, rates
from gossamer.types import Array

Progress = Callable[[int, int], None]
ALLOWED = 0.05  # by how much a fitted slope may be flatter than predicted: it is fitted to finite runs
PASSED = 100_000  # rounds
NOISE = 0.3  # of the quadratic: the first scale on messages; ten times as much at the source
SPREAD = 3**-0.5  # deviation of a record that is uniform on an interval of half-width 1


@dataclass(frozen=True)
class Effort:
    """How many rounds and seeds, and from which round on slopes are fitted."""

    rounds: int
    seeds: int
    since: int


QUICK, FULL = Effort(2000, 60, 100), Effort(20_000, 400, 1000)
CONVEX_FULL = Effort(100_000, 200, 1000)

MESSAGES = (  # (v, ς_ζ, ς_ϑ), and the slope that an independent simulation of 50 seeds had found
    ((0.6, 0.55, 0.55), 0.63),
    ((0.7, 0.6, 0.6), 0.61),
    ((0.8, 0.75, 0.75), 0.84),
    ((0.95, 0.9, 0.9), 1.00),
    ((0.9, 0.51, 0.51), 0.18),
    ((0.6, 0.51, 0.59), 0.56),
)
SOURCE = ((0.6, 0.2), (0.6, 0.0), (0.75, 0.125), (0.8, -0.2), (0.9, -0.3))  # (v, α)
CONVEX = (
    (0.6, 0.47),
    (0.8, 0.34),
    (0.9, 0.31),
)  # v, and the independent simulation's slope, the last two at 10⁵
SLOW_NOISE = 0.51  # ς of the convex cases: it fades as slowly as Assumption 4 allows


class Case(NamedTuple):
    """A schedule that was run, with what was fitted and what was predicted for it."""

    label: str
    columns: Columns
    trace: Trace
    fitted: dict[str, Slope]  # by quantity
    predicted: dict[str, dict[str, float]]  # by quantity, then by whose: exponents β of t^−β
    bounds: dict[str, Array]  # by quantity, at the marks of the trace
    before: float | None = None  # the independent simulation's

    def as_promised(self, quantity: str, whose: str) -> bool:
        """Whether the fitted slope is at most −β, but for what finite runs need."""
        return self.fitted[quantity].value <= -self.predicted[quantity][whose] + ALLOWED


def problem_of(columns: Columns) -> Problem:
    """The same as the theorems see it: one coordinate, Laplace noise with deviation √2 times its scale.

    D bounds all |∇f_i| wherever gradients are bounded, and otherwise at θ*, which is all that the bounds need.
    """
    loss, plan = columns.loss, columns.plan
    s, theta = plan.noise["s"], plan.noise["theta"]
    apart = loss.pull * float(np.abs(centres(columns.network.m)).max())
    D = apart + (loss.steepest if math.isfinite(loss.steepest) else 0.0)
    return Problem(
        columns.network, _number(plan.step.initial), _number(plan.step.exponent),
        2**0.5 * _number(s.initial), _number(s.exponent), 2**0.5 * _number(theta.initial), _number(theta.exponent),
        mu=loss.mu, L=loss.L, D=D, kappa=loss.pull * SPREAD,
        start=loss.start**2,
    )  # fmt: skip


def _number(value: float | tuple[float, ...]) -> float:
    assert isinstance(value, float)
    return value


def run_quadratic(effort: Effort, progress: Progress, *, noise: float = NOISE, seed: int = 0) -> list[Case]:
    """Noise on messages, six schedules, and noise at the source, five: strongly convex, μ = L = 1."""
    loss, network, cases = quadratic(), Network.paper(), []
    plans: list[tuple[str, Plan, float | None]] = [
        (_messages(*given), on_messages(*given, noise=noise), before) for given, before in MESSAGES
    ]
    plans += [(f"v = {v:g}, α = {alpha:g}", at_source(v, alpha, noise=10 * noise), None) for v, alpha in SOURCE]
    for k, (label, plan, before) in enumerate(plans):
        columns = Columns(loss, network, plan)
        trace = columns.run(effort.rounds, effort.seeds, seed + k)
        seen = {"error": trace.squared_error, "consensus": trace.consensus, "tracker": trace.tracker}
        fitted = {name: fit(trace.t, rows, effort.since) for name, rows in seen.items()}
        proved = bounds_of(columns, trace) if plan.noise else {}
        cases.append(Case(label, columns, trace, fitted, _predicted(plan), proved, before))
        progress(k + 1, len(plans))
    return cases


def _messages(v: float, s_zeta: float, s_theta: float) -> str:
    return f"v = {v:g}, ς_ζ = {s_zeta:g}, ς_ϑ = {s_theta:g}"


def _predicted(plan: Plan) -> dict[str, dict[str, float]]:
    v = _number(plan.step.exponent)
    if plan.source is not None:
        ours = last_iterate(v, alpha=_number(plan.source.exponent))
        return {"error": {"ours": ours.error}, "consensus": {"ours": ours.consensus}}
    paper = rates(v, *(_number(plan.noise[channel].exponent) for channel in ("s", "theta")))
    return {
        "error": {"Theorem 2": paper.beta, "ours": paper.sharper},
        "consensus": {"Lemma 8": paper.consensus},
        "tracker": {"Lemma 7": paper.tracker},
    }


def bounds_of(columns: Columns, trace: Trace) -> dict[str, Array]:
    """Upper bounds with all constants: round by round up to PASSED, from there on as powers of t."""
    rounds, length = trace.t.astype(int), min(int(trace.t[-1]), PASSED)
    if not columns.loss.mu:
        return {"gap": bounds(problem_of(columns), length, everywhere=True).convex_gap(rounds)}
    proved = bounds(problem_of(columns), length)
    return {"error": proved.squared_error(rounds), "consensus": proved.disagreement(rounds)}


class Convex(NamedTuple):
    """The convex cases: from far away, where the gap falls, and from near by, where it first rises."""

    far: list[Case]
    near: list[Case]


def run_convex(effort: Effort, progress: Progress, seed: int = 0) -> Convex:
    """|θ|¹⁰ for three exponents of the steps; from θ_0 = 1 and, with more noise and larger steps, from θ_0 = 0.3."""
    network, done, total = Network.paper(), 0, 2 * len(CONVEX)

    def run(loss: Loss, step: float, noise: float, longest: int) -> list[Case]:
        nonlocal done
        cases = []
        for v, before in CONVEX:
            columns = Columns(loss, network, on_messages(v, SLOW_NOISE, SLOW_NOISE, step, noise))
            trace = columns.run(longest, effort.seeds * (effort.rounds // longest), seed)  # the same work
            fitted = {"gap": fit(trace.t, trace.gap, effort.since)}
            predicted = {"gap": {"Theorem 3": rates(v, SLOW_NOISE, SLOW_NOISE).convex}}
            label, proved = f"v = {v:g}, ς = {SLOW_NOISE:g}", bounds_of(columns, trace)
            cases.append(Case(label, columns, trace, fitted, predicted, proved, before))
            done += 1
            progress(done, total)
        return cases

    far = run(convex(start=1.0), 0.03, 0.1, effort.rounds)
    near = run(convex(start=0.3), 0.1, 0.2, min(effort.rounds, 10_000))
    return Convex(far, near)


class Rise(NamedTuple):
    """A mean gap early and late, with the 95 % interval of the ratio of the two."""

    early: int
    late: int
    before: float
    after: float
    low: float
    high: float


def find_rise(case: Case) -> Rise:
    """The mean gap about rounds 100 and 1000, as in the independent simulation; the interval by resampling seeds."""
    t, gap = case.trace.t, case.trace.gap
    early, late = (int(np.abs(t - round_).argmin()) for round_ in (100, 1000))
    mean, drawn = gap.mean(axis=0), resampled(gap)
    low, high = np.quantile(drawn[:, late] / drawn[:, early], [0.025, 0.975])
    return Rise(int(t[early]), int(t[late]), float(mean[early]), float(mean[late]), float(low), float(high))


def list_broken(cases: Sequence[Case]) -> list[str]:
    """Sentences of Assumption 4 that the cases with noise on messages break."""
    said: list[str] = []
    for case in cases:
        noise = case.columns.plan.noise
        if noise:
            v = _number(case.columns.plan.step.exponent)
            said += rates(v, *(noise[channel].exponents() for channel in ("s", "theta"))).broken
    return said
