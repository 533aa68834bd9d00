"""One run record of all learners' outcomes, for whoever has their folders, or got their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.errors import GossamerError
from gossamer.peers.config import Plan, read_config
from gossamer.peers.folders import learners_in
from gossamer.peers.outcome import SENT, Outcome, read_outcome
from gossamer.privacy.boundary import budgets
from gossamer.run_record import LEARNER, Record, mean_row
from gossamer.version import __version__

About = dict[str, Any]  # what an outcome says of its learner


def collect_outcomes(folder: Path) -> Record:
    """The merged run record of a run whose learners have all ended."""
    places = learners_in(folder)
    outcomes = _read_all(folder, places)
    abouts = [outcome.about for outcome in outcomes]
    plan = read_config(places[0])
    _check_whole(folder, plan, abouts)
    theta = np.concatenate([outcome.theta for outcome in outcomes])
    rounds = [about["round"] for about in abouts]
    learners = np.recarray(len(theta), dtype=LEARNER)
    learners.tracking_error = learners.optimality_gap = learners.accuracy = np.nan
    learners.consensus_error = np.linalg.norm(theta - theta.mean(axis=0), axis=1)
    epsilons = [about["epsilon"] for about in abouts]
    return Record(
        t=min(rounds),
        state={"theta": theta},
        history=mean_row(min(rounds), learners),
        learners=learners,
        optimum=np.full(theta.shape[1], np.nan),
        config=_config(plan, abouts),
        notes=tuple(_notes(abouts)),
        claim="; ".join(sorted({about["claim"] for about in abouts})),
        epsilon=None if None in epsilons else budgets(*np.array(epsilons, dtype=float).T),
    )


def _read_all(folder: Path, places: Sequence[Path]) -> list[Outcome]:
    read = {place.name: read_outcome(place) for place in places}
    missing = [name for name, outcome in read.items() if outcome is None]
    if missing:
        raise GossamerError(f"{', '.join(missing)} of {folder} left no outcome yet: let them run to their end.")
    return [outcome for outcome in read.values() if outcome is not None]


def _check_whole(folder: Path, plan: Plan, abouts: Sequence[About]) -> None:
    if len({about["run"] for about in abouts}) > 1:
        raise GossamerError(f"the learners of {folder} were in different runs: collect the folders of one.")
    absent = set(range(plan.config.run.learners)) - {about["learner"] for about in abouts}
    if absent:
        raise GossamerError(
            f"learners {', '.join(map(str, sorted(absent)))} are missing in {folder}: bring theirs, too."
        )


def _notes(abouts: Sequence[About]) -> list[str]:
    """What a reader must know: whose parameters carry noise, who went without messages, who stopped early."""
    noisy = sum(about["theta"] == SENT for about in abouts)
    notes = [f"{noisy} learners: {SENT}."] if noisy else []
    for about in abouts:
        if about["late"]:
            first, sender = about["late"][0]
            notes.append(
                f"Learner {about['learner']} went on without {len(about['late'])} messages, the first of learner "
                f"{sender} in round {first}."
            )
    rounds = [about["round"] for about in abouts]
    if len(set(rounds)) > 1:
        notes.append(f"The learners stopped after {min(rounds)} to {max(rounds)} rounds.")
    return notes


def _config(plan: Plan, abouts: Sequence[About]) -> dict[str, Any]:
    run, model = plan.config.run, plan.model()
    return {
        "title": f"{run.method}, {run.learners} learners as processes", "version": __version__, "steps": run.steps,
        "algorithm": {"name": run.method, "step": list(run.step)}, "network": {"learners": run.learners},
        "stream": {"kind": "parties' own", "columns": abouts[0].get("columns")},
        "model": str(model), "score": model.score, "run": plan.run_name,
        "late": {str(about["learner"]): about["late"] for about in abouts if about["late"]},
    }  # fmt: skip
