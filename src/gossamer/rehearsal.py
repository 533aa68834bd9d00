"""A method played through on its network without any data: what gradients and noise that somebody chooses do to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
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
    rounds: Iterable[int] | None = None,
) -> Iterator[Any]:
    """The states of all learners before each of `rounds`, and after the last; without `rounds` for ever, from 0 on.

    They start at θ = 0, and `width` coordinates side by side are as many runs.

    gradient(t, point) is (m, width), the gradients of round t, at the point where the method takes them. noise(t), of
    the same shape, is drawn for every private message and added to it.
    """
    rows = network.rows(mixes=algorithm.mixes)
    links: Any = {over: network.off_diagonal(over) for over in algorithm.mixes}
    state = algorithm.init(rows, np.zeros((network.m, width)))
    for t in count() if rounds is None else rounds:
        yield state
        grad, got = gradient(t, algorithm.point(state)), {}
        for channel, out in algorithm.emit(state, grad, rows, t).items():
            sent = out.value if noise is None or not out.private else out.value + noise(t)
            got[channel] = links[out.over] @ sent
        state = algorithm.step(state, got, grad, rows, t)
    yield state


def rounds_to_play(network: Network, quiet: int, steps: int, most: int) -> list[int]:
    """The rounds of a run that a rehearsal plays: `most` of those from round `quiet` on, before which nothing is used.

    Until then models stay where they are, and only the learners' estimates of their weights settle.
    """
    settling = range(min(quiet, math.ceil(network.settles)) if math.isfinite(network.settles) else quiet)
    return [*settling, *range(max(quiet, len(settling)), min(steps, quiet + most))]


def consensus_weights(algorithm: Algorithm[Any], network: Network) -> Array:
    """(m,), adding up to 1: the average of the learners' models that mixing alone leaves where it is.

    Over R's links that is the Perron average; W and D are doubly stochastic, and leave the plain mean.
    """
    pulls = any(over.removeprefix("I+") == "R" for over in algorithm.mixes)
    share = network.perron if pulls else np.ones(network.m)
    weights: Array = share / share.sum()
    return weights
