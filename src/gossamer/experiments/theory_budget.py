"""ε(t) of a run of columns, by three ways of counting, for the learner that spends most.

    replay       what two worlds that differ in the first record really send: the method's own functions, the same received
                 in both, the record at either end of its range. Nothing that happened can be below it.
    recursion    x_{t+1} ≤ A_t x_t + b_t G_t, as every run books it (see gossamer.privacy.recursion), with what is known of
                 these records: where a run books 2c for two records' gradients at one point, theirs differ by 2 at most
    Theorem 4    part 1 of the paper's theorem, as printed

Laplace noise on messages and gradients over all records so far, so that the first record is the dearest.
"""

from __future__ import annotations

import numpy as np

from gossamer.algorithms import ldp_gradient_tracking
from gossamer.experiments.columns import Columns, centres
from gossamer.privacy import lemma2_constant, theorem4
from gossamer.types import Array

REPLAY, RECURSION, THEOREM_4 = "replay of two worlds", "recursion", "Theorem 4, part 1"


def count_epsilons(columns: Columns, steepest: float, rounds: int) -> dict[str, tuple[Array, Array]]:
    """ε by each way, at rounds that are spread evenly in log t; `steepest` bounds |∇f_i| where the run has been."""
    at = np.unique(np.geomspace(2, rounds, 30).astype(int))  # s_0 and θ_0 tell nothing
    weights = np.stack([1 / _scale(columns, channel, rounds + 1) for channel in ("s", "theta")], axis=1)
    c = steepest + columns.loss.pull  # |∇l| ≤ |∇f_i| + how far a record pulls
    booked = recursion(columns, c, weights[:rounds])
    dearest = int(booked[:, -1].argmax())
    replayed = replay(columns, weights[:rounds])
    printed = np.array([_theorem_4(columns, c, weights, dearest, int(t)) for t in at])
    return {
        THEOREM_4: (at.astype(float), printed),
        RECURSION: (at.astype(float), booked[dearest, at - 1]),
        REPLAY: (at.astype(float), replayed[:, at - 1].max(axis=0)),
    }


def _scale(columns: Columns, channel: str, rounds: int) -> Array:
    return np.asarray(columns.plan.noise[channel](np.arange(rounds)))


def recursion(columns: Columns, c: float, weights: Array) -> Array:
    """(m, T): what each learner has spent after 1, 2, … rounds, by G_t = (2 + t min(Lδθ, 2c))/(t+1), at the records' scale.

    Two records pull differently by at most 2 `pull`, and any other record's gradients, at points δθ apart, by Lδθ.
    """
    network, loss, T = columns.network, columns.loss, len(weights)
    dynamics = ldp_gradient_tracking(columns.plan.step, strict=False).dynamics
    assert dynamics is not None
    own = network.own_weights(T)
    each = [dynamics(network.rows([i]), own[:, i]) for i in range(network.m)]
    A, b = (
        np.stack([one.A for one in each], axis=1),
        np.stack([one.b for one in each], axis=1),
    )  # (T, m, 2, 2), (T, m, 2)
    x, spent = np.zeros((network.m, 2)), np.zeros((network.m, T))
    for t in range(T):
        spent[:, t] = x @ weights[t]
        G = (2 * loss.pull + t * np.minimum(loss.L * x[:, 1], 2 * c)) / (t + 1)
        x = (A[t] @ x[:, :, None])[:, :, 0] + b[t] * G[:, None]
    return np.cumsum(spent, axis=1)


def replay(columns: Columns, weights: Array) -> Array:
    """(m, T): what each learner's own messages differ by, in noise scales, summed, in two worlds without noise."""
    network, loss = columns.network, columns.loss
    algorithm, rows = ldp_gradient_tracking(columns.plan.step, strict=False), network.rows()
    off = {over: np.asarray(network.off_diagonal(over)) for over in ("R", "C")}
    middle, start = centres(network.m), np.zeros((network.m, 1))
    one, other = algorithm.init(rows, start), algorithm.init(rows, start)
    spent = np.zeros((network.m, len(weights)))
    for t, (of_s, of_theta) in enumerate(weights):
        spent[:, t] = (np.abs(one.s - other.s) * of_s + np.abs(one.theta - other.theta) * of_theta)[:, 0]
        mine, theirs = (loss.gradient(x.theta, middle + sign / (t + 1)) for x, sign in ((one, 1), (other, -1)))
        sent = algorithm.emit(one, mine, rows, t)
        got = {channel: off[out.over] @ out.value for channel, out in sent.items()}
        one, other = algorithm.step(one, got, mine, rows, t), algorithm.step(other, got, theirs, rows, t)
    return np.cumsum(spent, axis=1)


def _theorem_4(columns: Columns, c: float, weights: Array, i: int, rounds: int) -> float:
    network, gamma = columns.network, 1 - columns.network.spectral_gap
    rows, known = network.rows(), network.own_weights(int(min(network.settles, 10_000)))
    least_R, least_C = (float(np.abs(own).min()) for own in (rows.R_ii, rows.C_ii))
    steps = np.asarray(columns.plan.step(np.arange(rounds)))
    c_z = lemma2_constant(known, network.perron, gamma)
    return theorem4(c, steps, weights[: rounds + 1], least_R, least_C, float(network.perron[i]), c_z, gamma)
