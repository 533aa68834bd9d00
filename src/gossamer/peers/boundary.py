"""What stands between one party's records and its messages: its own noise, with its own budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.models import LinearModel
from gossamer.peers.config import Plan
from gossamer.privacy import PrivateBoundary, Setting, Unproved, simulated
from gossamer.privacy.pairs import PairNoise
from gossamer.schedules import decay
from gossamer.setting import setting_for


def boundary_of(
    plan: Plan, algorithm: Algorithm[Any], model: LinearModel, pairs: PairNoise | None = None
) -> PrivateBoundary | Unproved:
    """The party's boundary; refuses a budget that cannot be proved. `pairs` draws the noise that it shares."""
    run, privacy, mechanism = plan.config.run, plan.config.privacy, plan.mechanism()
    if mechanism is None:
        scale = None if privacy.simulated is None else decay(*privacy.simulated)
        algorithm.notes(scale)
        noise = None if scale is None else simulated(scale, privacy.seed)
        return Unproved(noise, np.array([plan.learner]), max(run.learners, plan.learner + 1))
    algorithm.notes(mechanism.message_scale if mechanism.where == "messages" else None)
    # Who joins later has noise at the source, and for that it makes no difference where in the graph it is.
    place = plan.learner if plan.learner < run.learners else 0
    setting = setting_of_learners([place], plan, algorithm, model)
    if plan.config.secrets is not None:
        setting = setting._replace(floor=plan.config.secrets.floor)
    return mechanism.bind(setting, pairs)


def setting_of_learners(learners: Sequence[int], plan: Plan, algorithm: Algorithm[Any], model: LinearModel) -> Setting:
    """All that decides the privacy of some learners of a run: what every party knows of it."""
    run, records = plan.config.run, plan.config.data.records
    ends = records is not None and records < run.steps * run.per_round
    return setting_for(
        learners,
        algorithm,
        plan.network,
        model,
        plan.schema.table(),
        gradient=run.gradient,
        steps=run.steps,
        size=model.theta_size(plan.schema.columns),
        per_round=[run.per_round] * len(learners),
        read_once=True,
        held=[float(records)] * len(learners) if records is not None and ends else [],
    )
