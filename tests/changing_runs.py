"""Ten learners with a quadratic each, and every kind of network that changes, for the tests of these."""

from __future__ import annotations

import numpy as np

import gossamer as gs
from gossamer import NetworkSchedule
from gossamer.streams import from_arrays

M, N = 10, 4
ONE_WAY = gs.Network.paper_one_way()
DENSE = gs.Network.exponential(M)
RING = gs.Network.ring(M)
MODEL = gs.RidgeRegression(l2=0.1)


def records():
    """Three rounds of records, learners unlike: after them every gradient is that of one quadratic each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(M, 3, N)) * rng.uniform(0.5, 1.5, size=(M, 1, N))
    X[:, :, -1] = 1
    y = X @ np.array([1, -2, 3, 0.5]) + rng.normal(size=(M, 3)) + 2 * rng.normal(size=(M, 1))
    return from_arrays(X, y), X, y


STREAM, X, Y = records()


def gradient(theta, t):
    """∇f_{i,t}(θ_i) of everybody, over the records so far, with the ridge."""
    seen = slice(0, min(t + 1, 3))
    left = np.einsum("irn,in->ir", X[:, seen], theta) - Y[:, seen]
    return np.einsum("ir,irn->in", left, X[:, seen]) / X[:, seen].shape[1] + 0.1 * theta


def thirds(network):
    """A third of the links in every turn: no turn connects the learners."""
    links = [(j, i) for j, i, _ in network.edges()]
    return [links[k::3] for k in range(3)]


KINDS = {
    "failing": NetworkSchedule.of(ONE_WAY, seed=5).failing(0.2),
    "failing both ways": NetworkSchedule.of(ONE_WAY, seed=5).failing(0.2, both_ways=True),
    "sleeping": NetworkSchedule.of(ONE_WAY, seed=5).sleeping(0.1),
    "networks": NetworkSchedule.of([DENSE, RING], every=3),
    "turns": NetworkSchedule.turns(DENSE, thirds(DENSE), every=2),
    "away": NetworkSchedule.of(DENSE).leaving(3, 20).joining(3, 45).joining(7, 30),
    "all": NetworkSchedule.turns(DENSE, thirds(DENSE), seed=5).failing(0.2).sleeping(0.1).leaving(3, 20).joining(3, 45),
}


def run(algorithm, network, steps, **given):
    return gs.simulate(algorithm, network, STREAM, model=MODEL, steps=steps, **given)


def states(algorithm, network, steps, **given):
    """The state after every round, with what is on its way, as a record keeps it."""
    seen = []

    def keep(progress):
        seen.append(dict(progress.record().state))

    run(algorithm, network, steps, callback=keep, **given)
    return seen


def on_its_way(state):
    return sum((value.sum(axis=0) for name, value in state.items() if name.endswith(".owed")), np.zeros(N))
