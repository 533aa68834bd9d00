"""ε(t) of a run of columns, by several ways of counting, for the learner that spends most.

    replay       what two worlds that differ in the first record really send: the method's own functions, the same
                 received in both, the record at either end of its range. No true bound is below it.
    recursion    x_{t+1} ≤ A_t x_t + b_t G_t, as every run books it (see gossamer.privacy.recursion), with what is known
                 of these records: a run books 2c for two records' gradients at one point, and theirs differ by less
    Theorem 4    part 1 of the paper's theorem, for so many rounds, and part 2, for ever (gossamer.theory.budget)

Laplace noise on messages and gradients over all records so far, so that the first record is the dearest.
"""

from __future__ import annotations

import numpy as np

from gossamer.algorithms import ldp_gradient_tracking
from gossamer.experiments.columns import Columns, centres
from gossamer.experiments.theory import problem_of
from gossamer.theory import budget_bound
from gossamer.types import Array

REPLAY, RECURSION, THEOREM_4 = "replay of two worlds", "recursion", "Theorem 4, part 1"
FOR_EVER = "Theorem 4, part 2: for ever"


def count_epsilons(columns: Columns, steepest: float, rounds: int) -> dict[str, tuple[Array, Array]]:
    """ε by each way, at rounds that are spread evenly in log t; `steepest` bounds |∇f_i| where the run has been."""
    at = np.unique(np.geomspace(2, rounds, 30).astype(int))  # s_0 and θ_0 tell nothing
    weights = np.stack([1 / np.asarray(columns.plan.noise[c](np.arange(rounds))) for c in ("s", "theta")], axis=1)
    c = steepest + columns.loss.pull  # |∇l| ≤ |∇f_i| + how far a record pulls
    booked = recursion(columns, c, weights)
    dearest = int(booked[:, -1].argmax())
    replayed = replay(columns, weights)
    theorem, t = budget_bound(problem_of(columns), c, 1, dearest), at.astype(float)
    return {
        FOR_EVER: (t, np.full(len(at), theorem.part2())),
        THEOREM_4: (t, np.array([theorem.part1(int(rounds)) for rounds in at])),
        RECURSION: (t, booked[:, at - 1].max(axis=0)),
        REPLAY: (t, replayed[:, at - 1].max(axis=0)),
    }


def recursion(columns: Columns, c: float, weights: Array) -> Array:
    """(m, T): what each learner has spent after 1, 2, … rounds; G_t = (2 pull + t min(Lδθ, 2c))/(t+1).

    Gradients of two records at one point differ by 2 pull at most, those of one at points δθ apart by Lδθ and by 2c.
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
