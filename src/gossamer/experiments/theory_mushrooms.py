"""Measured against predicted on the Mushrooms: logistic regression with a ridge, real records, 117 coordinates.

Records are drawn from the table with replacement, so that F is the mean loss of the table and θ* is known. What
holds of the theorems' assumptions is less here than on a quadratic: the paper's own exponents break Assumption 4,
and with μ = l2 so small that Σ μλ_t is a few, t → ∞ is far away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossamer.algorithms import ldp_gradient_tracking
from gossamer.checks.climb import worst_found
from gossamer.checks.worlds import Case as Audited
from gossamer.datasets.mushrooms import mushrooms
from gossamer.experiments.slopes import Slope, fit
from gossamer.experiments.theory import Effort, Progress
from gossamer.models import LogisticRegression
from gossamer.networks import Network
from gossamer.privacy import Laplace, lemma2_constant, simulated, theorem4
from gossamer.privacy.accountant import epsilon_curve
from gossamer.schedules import Decay, decay
from gossamer.setting import setting_of
from gossamer.simulate import simulate
from gossamer.theory import Rates, rates
from gossamer.types import Array

QUICK, FULL = Effort(300, 3, 30), Effort(3000, 8, 300)
RIDGE = 0.1  # large, so that its strong convexity is seen within some thousand rounds
MARKS = 40  # rounds, at most, that slopes are fitted to: spread evenly in log t
CLIMBS = 40
REPLAYED = (3, 6, 12, 24)  # rounds: a replay is tried hundreds of times
OWN = tuple(0.5 + 0.01 * i for i in range(1, 11))
SCHEDULES: dict[str, tuple[float, float | tuple[float, ...]]] = {  # by label: v, and ς of all or of each learner
    "v = 0.75, ς = 0.625 (the best of Theorem 2)": (0.75, 0.625),
    "v = 0.6, ς = 0.51 … 0.60 (the paper's)": (0.6, OWN),
}


class Measured(NamedTuple):
    """One schedule: curves by seed, slopes, and what was predicted."""

    label: str
    t: Array
    error: Array  # (seeds, marks): the squared mean distance of the learners to θ*
    gap: Array
    consensus: Array
    fitted: dict[str, Slope]
    rates: Rates
    epsilon: dict[str, tuple[Array, Array]]


def run_mushrooms(effort: Effort, progress: Progress, seed: int = 0) -> list[Measured]:
    network, model = Network.paper(), LogisticRegression(l2=RIDGE)
    measured: list[Measured] = []
    total = len(SCHEDULES) * (effort.seeds + 1)
    for label, (v, exponents) in SCHEDULES.items():
        step, noise = decay(1.0, v), decay(1.0, exponents)
        runs = []
        for k in range(effort.seeds):
            runs.append(_run(network, model, step, noise, effort.rounds, seed + k))
            progress(len(measured) * (effort.seeds + 1) + len(runs), total)
        t = runs[0]["t"]
        error, gap, consensus = (np.array([run[name] for run in runs]) for name in ("error", "gap", "consensus"))
        seen = {"error": error, "gap": gap, "consensus": consensus}
        fitted = {name: fit(t, rows, effort.since) for name, rows in seen.items()}
        known = rates(v, exponents, exponents)
        epsilon = _epsilons(network, model, step, noise, effort.rounds, seed)
        measured.append(Measured(label, t, error, gap, consensus, fitted, known, epsilon))
        progress(len(measured) * (effort.seeds + 1), total)
    return measured


def _run(
    network: Network, model: LogisticRegression, step: Decay, noise: Decay, rounds: int, seed: int
) -> dict[str, Array]:
    run = simulate(
        ldp_gradient_tracking(step, strict=False), network, mushrooms(learners=network.m, seed=seed), model=model,
        privacy=simulated(noise, seed), steps=rounds, evaluate_every=max(1, rounds // 100), seed=seed,
    )  # fmt: skip
    history = run.history
    at = np.unique(np.searchsorted(history.t, np.geomspace(history.t[1], history.t[-1], MARKS) - 0.5))
    return {
        "t": history.t[at].astype(float),
        "error": history.tracking_error[at] ** 2,
        "gap": history.optimality_gap[at],
        "consensus": history.consensus_error[at] ** 2,
    }


def _epsilons(
    network: Network, model: LogisticRegression, step: Decay, noise: Decay, rounds: int, seed: int
) -> dict[str, tuple[Array, Array]]:
    """ε by replay, recursion and Theorem 4, each of the learner that spends most by it."""
    algorithm, stream, mechanism = ldp_gradient_tracking(step, strict=False), mushrooms(network.m, seed), Laplace(noise)
    setting = setting_of(algorithm, network, stream, model, "history", rounds)
    terms = mechanism.terms(setting)
    at = np.unique([*np.geomspace(2, rounds, 30).astype(int), *REPLAYED])
    booked = np.array([epsilon_curve(each, at.astype(float), 0.0) for each in terms])
    replayed = []
    for length in REPLAYED:
        audited = Audited(algorithm, network, model, mechanism, "history", length, 1, bounds=stream.table.bounds)
        losses = worst_found(audited, climbs=CLIMBS, seed=seed).losses
        replayed.append(max(float(mechanism.law.one_shift(float(loss))) for loss in losses))
    gamma, rows = 1 - network.spectral_gap, network.rows()
    c_z = lemma2_constant(network.own_weights(int(min(network.settles, 10_000))), network.perron, gamma)
    least_R, least_C = (float(np.abs(own).min()) for own in (rows.R_ii, rows.C_ii))
    steps, c = np.asarray(step(np.arange(rounds))), setting.reach(1)[0]

    def printed(i: int, T: int) -> float:
        scale = np.arange(1.0, T + 2)[:, None] ** terms[i].exponent / terms[i].initial
        u = float(network.perron[i])
        return theorem4(c, steps[:T], np.hstack([scale, scale]), least_R, least_C, u, c_z, gamma)

    return {
        "Theorem 4, part 1": (
            at.astype(float),
            np.array([max(printed(i, int(T)) for i in range(network.m)) for T in at]),
        ),
        "recursion": (at.astype(float), booked.max(axis=0)),
        "replay of two worlds": (np.array(REPLAYED, dtype=float), np.array(replayed)),
    }
