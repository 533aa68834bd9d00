"""What a user may name as a model: a run's folder, a record, a party's outcome, or a file that was exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from gossamer.errors import BadValue, GossamerError
from gossamer.peers.outcome_file import OUTCOME, OWN_MODEL, SENT, Outcome, read_outcome, read_own_model
from gossamer.predictions import FittedModel, load_model
from gossamer.predictions.files import is_model
from gossamer.run_record import Record

PLACES = "a run's folder, its record, a learner's outcome.npz, or a model that 'gossamer export' wrote"


class Found(NamedTuple):
    """A model and where it was."""

    model: FittedModel
    folder: Path | None  # whose files are not to be written over
    notes: tuple[str, ...] = ()


def model_at(place: Path, learner: str | None = None) -> Found:
    """The model in a folder or a file, of one learner where asked."""
    if place.is_dir():
        return _in_folder(place, learner)
    if place.name == OUTCOME:
        return _of_one(place.parent, learner, read_outcome(place.parent))
    if place.name == OWN_MODEL:
        return _of_one(place.parent, learner, read_own_model(place.parent), own=True)
    if place.suffix == ".json" and _holds_model(place):
        if learner is not None:
            raise BadValue("learner", learner, f"{place} holds one model", "leave it out, or export that learner's")
        return Found(load_model(place), None)
    if place.exists() or any(place.with_name(place.name + end).exists() for end in (".npz", ".json")):
        return Found(Record.load(place).fitted(learner), None)
    raise GossamerError(f"there is no {place}: give {PLACES}.")


def _in_folder(folder: Path, learner: str | None) -> Found:
    if (folder / "record.npz").exists():
        return Found(Record.load(folder).fitted(learner), folder)
    if (folder / OUTCOME).exists():
        return _of_one(folder, learner, read_outcome(folder))
    if (folder / "run.json").exists():
        raise GossamerError(
            f"{folder} holds the learners of a run: put their models together with 'gossamer peers collect {folder}' "
            "and give what that wrote, or give one learner's folder."
        )
    if (folder / "party.toml").exists():
        raise GossamerError(f"{folder} has no outcome yet: let the learner run to its end.")
    raise GossamerError(f"there is no run in {folder}: give {PLACES}.")


def _of_one(folder: Path, learner: str | None, outcome: Outcome | None, own: bool = False) -> Found:
    """A party's outcome."""
    if outcome is None:
        raise GossamerError(f"there is no {folder / OUTCOME}: let the learner run to its end.")
    if learner is not None:
        raise BadValue(
            "learner", learner, f"{folder} holds the model of learner {outcome.about['learner']}", "leave it out"
        )
    noisy = outcome.about["theta"] == SENT and not own
    notes = (f"These are {SENT}; the owner's own are in {folder / OWN_MODEL}.",) if noisy else ()
    return Found(outcome.fitted(), folder, notes)


def _holds_model(path: Path) -> bool:
    """Whether a file is an exported model, and not the readable half of a run record."""
    try:
        return is_model(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return not path.with_suffix(".npz").exists()  # a damaged one, of which load_model says more
