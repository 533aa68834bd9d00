"""What the paper guarantees of a run: from its parts to gossamer.theory, which knows no methods and no privacy."""

from __future__ import annotations

from typing import Any

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.errors import GossamerError
from gossamer.models import Gradient, Model
from gossamer.networks import Network
from gossamer.privacy import Mechanism
from gossamer.privacy.laws import LAPLACE
from gossamer.schedules import Schedule, decay
from gossamer.streams import Stream
from gossamer.theory.assumptions import assumptions
from gossamer.theory.exponents import Where
from gossamer.theory.findings import Report
from gossamer.theory.graphs import Matrices

ALGORITHM_1 = "ldp_gradient_tracking"


def guarantees_of(
    algorithm: Algorithm[Any],
    network: Network,
    stream: Stream | None,
    model: Model,
    privacy: Any,
    gradient: Gradient,
    steps: int,
    *,
    look: bool = False,
    broken: Matrices | None = None,
    changes: bool = False,
) -> Report:
    """The paper's assumptions for a run, from what is declared; with `look` from its records as well.

    `privacy` is what simulate() is given; None: the algorithm's own noise, if any. `broken` are matrices R and C that
    were refused, to be judged in place of the network's. `changes`: other rounds have other networks.
    """
    v = _step_exponent(algorithm, network)
    other = "" if algorithm.name == ALGORITHM_1 and not changes else algorithm.name
    where: Where = "source" if getattr(privacy, "where", "messages") == "source" else "messages"
    return assumptions(
        network if broken is None else broken, model, stream, step=None if v is None else decay(1.0, v),
        noise=None if where == "source" else _noise(algorithm, privacy, v), gradient=gradient, where=where,
        laplace=getattr(privacy, "law", LAPLACE) == LAPLACE, steps=steps,
        look=look and not isinstance(privacy, Mechanism),
        other=f"{other} on a network that changes" if changes else other,
    )  # fmt: skip


def _step_exponent(algorithm: Algorithm[Any], network: Network) -> float | None:
    """v of λ0/(t+1)^v; None where the method does not say it."""
    if algorithm.dynamics is None:
        return None
    try:
        return algorithm.dynamics(network.rows([0], algorithm.mixes), np.ones(1)).v
    except GossamerError:  # such as a step of every learner's own
        return None


def _noise(algorithm: Algorithm[Any], privacy: Any, v: float | None) -> Schedule | None:
    if privacy is None:
        return algorithm.noise
    if isinstance(privacy, Mechanism):
        return privacy.fading(v)
    scale = getattr(privacy, "scale", None)
    return scale if callable(scale) else _unknown


def _unknown(t: int) -> float:
    """Stands for noise of which nothing is known."""
    return float("nan")
