"""A method played through on its network without any data: what gradients and noise that somebody chooses do to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.networks import Network
from gossamer.types import Array


def states_of(
    algorithm: Algorithm[Any],
    network: Network,
    width: int,
    gradient: Callable[[int, Array], Array],
    noise: Callable[[int], Array] | None = None,
) -> Iterator[Any]:
    """The states of rounds 0, 1, … of all learners, from θ = 0 on; `width` coordinates side by side are as many runs.

    gradient(t, point) is (m, width), the gradients of round t, at the point where the method takes them. noise(t), of
    the same shape, is drawn for every private message and added to it.
    """
    rows = network.rows(mixes=algorithm.mixes)
    links: Any = {over: network.off_diagonal(over) for over in algorithm.mixes}
    state = algorithm.init(rows, np.zeros((network.m, width)))
    for t in count():
        yield state
        grad, got = gradient(t, algorithm.point(state)), {}
        for channel, out in algorithm.emit(state, grad, rows, t).items():
            sent = out.value if noise is None or not out.private else out.value + noise(t)
            got[channel] = links[out.over] @ sent
        state = algorithm.step(state, got, grad, rows, t)


def consensus_weights(algorithm: Algorithm[Any], network: Network) -> Array:
    """(m,), adding up to 1: the average of the learners' models that mixing alone leaves where it is.

    Over R's links that is the Perron average; W and D are doubly stochastic, and leave the plain mean.
    """
    pulls = any(over.removeprefix("I+") == "R" for over in algorithm.mixes)
    share = network.perron if pulls else np.ones(network.m)
    weights: Array = share / share.sum()
    return weights
