"""What a learner leaves at its end: outcome.npz, which may be handed on, and own-model.npy, which may not.

Whoever has all learners' folders, or got their outcomes, makes one run record of them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.peers.certificates import learner_of
from gossamer.peers.config import Plan, read_config
from gossamer.peers.folders import learners_in
from gossamer.peers.outcome_file import OUTCOME, OWN, OWN_MODEL, SENT, About, Outcome, own_model_bytes, read_outcome
from gossamer.peers.party import Party
from gossamer.peers.status import Status
from gossamer.peers.uncancelled import read_shares, tell_uncancelled
from gossamer.privacy import PrivateBoundary, Unproved
from gossamer.privacy.boundary import budgets
from gossamer.run_record import LEARNER, Record, mean_row, plain
from gossamer.version import __version__

GONE = {"left", "put out"}  # what the outcome of a party says that was not there to the end


def write_outcome(plan: Plan, party: Party, boundary: PrivateBoundary | Unproved, status: Status) -> None:
    """The model, or where only messages are private the last message that carried it; and the model for the owner."""
    columns, model = plan.schema.columns, plan.model()
    theta, what = party.state.theta, OWN
    if isinstance(boundary, PrivateBoundary) and boundary.mechanism.where == "messages":
        sent = party.last_sent()
        if "theta" not in sent:
            return
        theta, what = sent["theta"], SENT
    about = {
        "learner": plan.learner, "round": party.round, "run": plan.run_name, "theta": what,
        "claim": boundary.claim, "epsilon": status.budget(), "against": status.against,
        "late": status.journal.late(), "course": plain(boundary.course()),
        "columns": plan.schema.column_names, "schema": plan.schema.described(), "model": str(plan.model()),
    }  # fmt: skip
    for change in party.history.changes:
        about |= {"joined": change.at} if plan.learner in change.joins else {}
        about |= {"left": change.at} if plan.learner in change.leaves and party.round >= change.at else {}
        about |= {"put out": change.at} if plan.learner in change.lost else {}
    shares = status.shares(ended=True)
    if shares is not None:
        about |= {"shares": shares, "uncancelled": tell_uncancelled([shares], plan)}
    buffer = io.BytesIO()
    np.savez(
        buffer, theta=model.parameters(theta, columns), about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    )
    replace_file(plan.folder / OUTCOME, buffer.getvalue(), private=True)
    own = own_model_bytes(model.parameters(party.state.theta, columns))
    replace_file(plan.folder / OWN_MODEL, own, private=True)


def collect_outcomes(folder: Path, without: Collection[int] = ()) -> Record:
    """The merged run record of a run whose learners have all ended, but for those `without` whom it is made.

    What the others have learnt is theirs, whether or not one of them can be asked for its outcome; so a party that is
    lost for good keeps nobody from collecting. A party that left has the model of the round in which it left, which may
    have learnt nothing yet: it is left out, too, unless all have left. The record says who is not in it.
    """
    places = [place for place in learners_in(folder) if learner_of(place.name) not in without]
    if not places:
        raise GossamerError(f"nobody of {folder} is left to collect without all of its learners: name fewer.")
    plan = read_config(places[0])
    _refuse_unknown(folder, plan, without)
    outcomes = _outcomes_in(folder, places)
    abouts = [outcome.about for outcome in outcomes]
    _refuse_incomplete(folder, plan, abouts, without)
    _refuse_unlike(folder, outcomes)
    gone = [about for about in abouts if GONE & about.keys()]
    gone = [] if len(gone) == len(abouts) else gone
    abouts = [about for about in abouts if about not in gone]
    left_out = {*without, *(about["learner"] for about in gone)}
    theta = np.concatenate([outcome.theta for outcome in outcomes if outcome.about["learner"] not in left_out])
    t, epsilons = min(about["round"] for about in abouts), [about["epsilon"] for about in abouts]
    learners = np.recarray(len(theta), dtype=LEARNER)
    learners.tracking_error = learners.optimality_gap = learners.accuracy = np.nan
    learners.consensus_error = np.linalg.norm(theta - theta.mean(axis=0), axis=1)
    return Record(
        t=t,
        state={"theta": theta},
        history=mean_row(t, learners),
        learners=learners,
        optimum=np.full(theta.shape[1], np.nan),
        config=_config(plan, abouts),
        notes=(*_absent(left_out, abouts), *_gone(gone), *_notes(abouts), *tell_uncancelled(read_shares(abouts), plan)),
        claim="; ".join(sorted({about["claim"] for about in abouts})),
        epsilon=None if None in epsilons else budgets(*np.array(epsilons, dtype=float).T),
    )


def _refuse_unknown(folder: Path, plan: Plan, without: Collection[int]) -> None:
    """Whoever is left out must have been in the run."""
    there = [learner_of(place.name) for place in learners_in(folder)]
    known = set(range(plan.config.run.learners)) | {i for i in there if i is not None}
    for i in sorted(set(without) - known):
        raise GossamerError(
            f"learner {i} is not in the run of {folder}, which has learners {', '.join(map(str, sorted(known)))}: "
            "name one of these."
        )


def _outcomes_in(folder: Path, places: Sequence[Path]) -> list[Outcome]:
    """Of all of these; refuses where one is missing."""
    read = {place.name: read_outcome(place) for place in places}
    missing = [name for name, outcome in read.items() if outcome is None]
    if missing:
        numbers = ",".join(str(learner_of(name)) for name in missing)
        raise GossamerError(
            f"{', '.join(missing)} of {folder} left no outcome yet: let them run to their end, or collect --without "
            f"{numbers}."
        )
    return [outcome for outcome in read.values() if outcome is not None]


def _refuse_unlike(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Models of one length, one of each learner."""
    size = outcomes[0].theta.shape[1]
    sizes = {outcome.about["learner"]: outcome.theta.shape[1] for outcome in outcomes}
    other = next((i for i, theirs in sizes.items() if theirs != size), None)
    if other is None and len(sizes) == len(outcomes):
        return
    what = "two outcomes are of one learner"
    if other is not None:
        what = f"the model of learner {other} has {sizes[other]} numbers, and others {size}"
    raise GossamerError(f"in {folder} {what}: ask its party for it again.")


def _refuse_incomplete(folder: Path, plan: Plan, abouts: Sequence[About], without: Collection[int]) -> None:
    """Outcomes of two runs, or of fewer than took part."""
    if len({about["run"] for about in abouts}) > 1:
        raise GossamerError(f"the learners of {folder} were in different runs: collect the folders of one.")
    absent = set(range(plan.config.run.learners)) - {about["learner"] for about in abouts} - set(without)
    if absent:
        listed = ", ".join(map(str, sorted(absent)))
        raise GossamerError(
            f"learners {listed} are missing in {folder}: bring theirs, too, or collect --without "
            f"{listed.replace(' ', '')}."
        )


def _absent(without: Collection[int], abouts: Sequence[About]) -> list[str]:
    """Whose model each θ is, where that is not to be seen from its place."""
    numbers = [about["learner"] for about in abouts]
    if numbers == list(range(len(numbers))) and not without:
        return []
    left_out = f" Collected without {_learners(sorted(set(without)))}." if without else ""
    return [f"The models are those of {_learners(numbers)}, in this order.{left_out}"]


def _learners(numbers: Sequence[int]) -> str:
    return f"learner{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _notes(abouts: Sequence[About]) -> list[str]:
    """What a reader must know: whose parameters carry noise, who went without messages, who stopped early."""
    noisy = sum(about["theta"] == SENT for about in abouts)
    notes = [f"{noisy} learners: {SENT}."] if noisy else []
    for about in abouts:
        if about["late"]:
            (first, sender), messages = about["late"][0], f"{len(about['late'])} messages"
            which = f"{messages}, the first of learner {sender} in round {first}"
            notes.append(f"Learner {about['learner']} went on without {which}.")
    notes += [f"Learner {about['learner']} {since}." for about in abouts if (since := _since(about))]
    rounds = [about["round"] for about in abouts if not GONE & about.keys()]
    if len(set(rounds)) > 1:
        notes.append(f"The learners stopped after {min(rounds)} to {max(rounds)} rounds.")
    return notes


def _gone(abouts: Sequence[About]) -> list[str]:
    """Who left before the end, and is left out."""
    return [f"Learner {about['learner']} {_since(about)}: its model of then is not among them." for about in abouts]


def _since(about: About) -> str:
    """When a party came and went; empty where it was there from the beginning to the end."""
    said = {"joined": "joined", "left": "left", "put out": "was put out"}
    return " and ".join(f"{verb} in round {about[name]}" for name, verb in said.items() if name in about)


def _config(plan: Plan, abouts: Sequence[About]) -> dict[str, Any]:
    run, model, numbers = plan.config.run, plan.model(), [about["learner"] for about in abouts]
    all_there = numbers == list(range(run.learners))
    return {
        "title": f"{run.method}, {run.learners} learners as processes", "version": __version__, "steps": run.steps,
        "algorithm": {"name": run.method, "step": list(run.step)},
        "graph": plan.network.drawing() if all_there else None, "course": _course(abouts),
        "network": {"learners": run.learners, "links": len(plan.network.edges())},
        "stream": {
            "kind": "parties' own", "columns": abouts[0].get("columns"), "schema": abouts[0].get("schema"),
            **({} if all_there else {"names": numbers}),
        },
        "model": str(model), "score": model.score, "run": plan.run_name,
        "late": {str(about["learner"]): about["late"] for about in abouts if about["late"]},
        **({"against": against[0]} if (against := _against(abouts)) else {}),
    }  # fmt: skip


def _course(abouts: Sequence[About]) -> dict[str, Any] | None:
    """Everybody's ε over the rounds of whoever went farthest; None where outcomes of older versions do not say it."""
    each = [about.get("course") for about in abouts]
    if None in each:
        return None
    courses: list[dict[str, Any]] = [one for one in each if one is not None]
    t = max((one["t"] for one in courses), key=lambda rounds: int(rounds[-1]))
    spent = [np.interp(t, one["t"], np.array(one["epsilon"][0], dtype=float)).tolist() for one in courses]
    return {"t": t, "epsilon": spent, "budget": [one["budget"][0] for one in courses], "delta": courses[0]["delta"]}


def _against(abouts: Sequence[About]) -> list[str]:
    """Against whom ε holds: the same for all, since who shares noise is; outcomes of older versions do not say."""
    return sorted({about["against"] for about in abouts if about.get("against")})
