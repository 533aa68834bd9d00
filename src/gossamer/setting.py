"""What a run tells a mechanism about some of its learners: all of them in a simulation, one in a party's process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gossamer.algorithms.base import Algorithm
from gossamer.models import Gradient, Model
from gossamer.networks import Network
from gossamer.privacy import Setting
from gossamer.records import Table
from gossamer.types import Dynamics, GossamerError


def setting_for(
    learners: Sequence[int],
    algorithm: Algorithm,
    network: Network,
    model: Model,
    table: Table,
    *,
    gradient: Gradient,
    steps: int,
    size: int,
    per_round: Sequence[int],
    read_once: bool,
) -> Setting:
    """All that decides the privacy of these learners; `per_round[k]` records arrive at learners[k] in every round."""
    if table.undeclared:
        # One record would move how all others are seen: no recursion and no clipper covers that.
        raise GossamerError(f"privacy cannot be proved: {table.undeclared}")
    rows = [network.rows([i], algorithm.mixes) for i in learners]

    def dynamics(k: int, rounds: int) -> Dynamics:
        if algorithm.dynamics is None:
            raise GossamerError(f"no sensitivity recursion is known for {algorithm.name}: use noise at the source.")
        return algorithm.dynamics(rows[k], network.own_weights(rounds)[:, learners[k]])

    bounded: Any = model
    return Setting(
        learners=len(rows),
        coordinates=size,
        steps=steps,
        history=gradient == "history",
        records=[int(n) for n in per_round],
        per_round=model.clip is not None and model.clip.per == "round",
        reach=lambda norm: bounded.reach(table.bounds, 1 if norm == 1 else 2),
        ridge=model.l2,
        dynamics=dynamics,
        settles=network.settles,
        step_exponent=dynamics(0, 1).v if algorithm.dynamics is not None else None,
        read_once=read_once,
    )
