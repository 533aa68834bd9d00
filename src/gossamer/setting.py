"""What a run tells a mechanism about some of its learners: all of them in a simulation, one in a party's process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.errors import AT_SOURCE, Argument, NotProvable
from gossamer.models import Gradient, LinearModel, Model, Sizes
from gossamer.networks import Network
from gossamer.privacy import Setting, rounding_of
from gossamer.privacy.rounding import check_weights
from gossamer.records import Table
from gossamer.streams import Stream
from gossamer.streams.stream import weights_of
from gossamer.types import Array, Dynamics, Integers, Rounding


def setting_for(
    learners: Sequence[int],
    algorithm: Algorithm[Any],
    network: Network,
    model: Model,
    table: Table,
    *,
    gradient: Gradient,
    steps: int,
    size: int,
    per_round: Sequence[int],
    read_once: bool,
    held: Sequence[float] = (),
    weights: Sequence[float] = (),
) -> Setting:
    """All that decides the privacy of these learners; `per_round[k]` records arrive at learners[k] in every round."""
    if table.undeclared:
        # One record would move how all others are seen: no recursion and no clipper covers that.
        raise NotProvable("privacy cannot be proved: ", table.undeclared)
    rows = [network.rows([i], algorithm.mixes) for i in learners]

    def dynamics(k: int, rounds: int) -> Dynamics:
        if algorithm.dynamics is None:
            raise NotProvable(f"no sensitivity recursion is known for {algorithm.name}: use ", *AT_SOURCE, ".")
        if k not in moved or len(moved[k].b) < rounds:
            moved[k] = algorithm.dynamics(rows[k], network.own_weights(rounds)[:, learners[k]])
        return moved[k]._replace(A=moved[k].A[:rounds], b=moved[k].b[:rounds])

    moved: dict[int, Dynamics] = {}  # of the most rounds that were asked for
    known: dict[int, Rounding] = {}

    def rounding(k: int, rounds: int) -> Rounding:
        check_weights(rows[k])
        if k not in known or len(known[k].of_states) < rounds:
            about = dynamics(k, 1)
            z = network.own_weights(rounds)[:, learners[k]]
            known[k] = rounding_of(algorithm, rows[k], z, list(about.channels), about.after)
        return Rounding(*(errors[:rounds] for errors in known[k]))

    sizes = Sizes(table.columns, max(int(n) for n in per_round))
    return Setting(
        learners=len(rows),
        coordinates=size,
        steps=steps,
        window=window_of(model, gradient),
        records=[int(n) for n in per_round],
        per_round=model.clip is not None and model.clip.per == "round",
        reach=lambda norm: model.reach(table.bounds, 1 if norm == 1 else 2, sizes),
        ridge=model.l2,
        dynamics=dynamics,
        rounding=rounding,
        settles=network.settles,
        step_exponent=None if algorithm.dynamics is None else algorithm.dynamics(rows[0], np.ones(1)).v,
        read_once=read_once,
        held=held,
        parties=network.m,
        quiet=quiet_rounds(network),
        margin=length_of(model, table) or math.nan,
        curvature=curvature_of(model, table),
        standardises=isinstance(model, LinearModel) and model.standardise is not None,
        prepares=isinstance(model, LinearModel) and model.standardise is not None and model.standardise.numbers > 0,
        weights=weights,
        ids=list(learners),
    )


def curvature_of(model: Model, table: Table) -> float:
    """An L of the mean loss, in L2, for steps that do not overshoot; NaN where nothing is declared.

    A loss of margins has the Hessian E[w' ⊗ a aᵀ]. Its norm is at most that of w' times ‖a‖² times the share that one
    direction holds of all features. w' is that of θ = 0, where nothing is known yet: ¼ of two classes, 1/K of K.
    """
    length = length_of(model, table)
    if length is None or not isinstance(model, LinearModel):
        return math.nan
    nothing = np.zeros((1, 1, model.outputs))
    slopes = [model.curve(nothing, one[None, None]).ravel() for one in np.eye(model.outputs)]
    return float(np.linalg.norm(slopes, 2) * length**2 * table.spread + model.l2)


def length_of(model: Model, table: Table) -> float | None:
    """‖a‖₂ of a record: the largest as declared, or the usual one where numbers are standardised; None: unknown."""
    if isinstance(model, LinearModel) and model.standardise is not None:
        return math.sqrt(model.standardise.width)
    return None if table.bounds is None else table.bounds.l2


def quiet_rounds(network: Network) -> int:
    """How many rounds the learners take to come together, about: what rules wait for, and nothing is proved from."""
    return math.ceil(3 / max(network.spectral_gap, 1e-6))


def setting_of(
    algorithm: Algorithm[Any], network: Network, stream: Stream, model: Model, gradient: Gradient, steps: int
) -> Setting:
    """All that decides the privacy of a simulation's learners."""
    newest, room = stream.room(1), stream.room(steps)
    ends = stream.rounds is not None
    lasts = stream.rounds is not None and steps <= stream.rounds
    goes_on = ends and window_of(model, gradient) > 1  # over the records that are remembered, once no more come
    # A learner with a full round every time may go on having one; others have the records that they have.
    held = [math.inf if n >= steps * one else float(n) for n, one in zip(room, newest, strict=True)]
    return setting_for(
        range(network.m), algorithm, network, model, stream.table, gradient=gradient, steps=steps,
        size=model.theta_size(stream.table.columns), per_round=[int(n) for n in newest],
        read_once=lasts or goes_on, held=held, weights=_as_list(weights_of(stream)),
    )  # fmt: skip


def _as_list(weights: Array | None) -> list[float]:
    return [] if weights is None else [float(one) for one in weights]


def full_rounds(stream: Stream) -> float:
    """How many rounds bring every learner as many records as the first; ∞ where records never end."""
    return math.inf if stream.rounds is None else int((stream.room(2**40) // stream.room(1)).min())


def refuse_more_rounds(argument: str, rounds: float, stream: Stream) -> None:
    """Refuse more rounds than the data fill, by the same rule, before a run is begun; `argument` asks for them."""
    full = full_rounds(stream)
    if rounds > full:
        raise NotProvable(
            Argument(argument, rounds), f": the data have {full:g} full rounds, and privacy is proved for full ones "
            "only: use ", Argument(argument, full), " or fewer.",
        )  # fmt: skip


def expected_room(model: Model, gradient: Gradient, steps: int, stream: Stream) -> Integers:
    """How many records each learner will have to remember at once."""
    return stream.room(int(min(steps, window_of(model, gradient))))


def window_of(model: Model, gradient: Gradient) -> float:
    """How many rounds' records a gradient is the mean of: one, the newest that a model remembers, or all."""
    if gradient == "latest":
        return 1.0
    return math.inf if model.remember is None else float(model.remember)
