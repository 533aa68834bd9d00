"""What a learner leaves at its end: outcome.npz, which may be handed on, and own-model.npy, which may not."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.peers.config import Plan
from gossamer.peers.party import Party
from gossamer.peers.status import Status
from gossamer.privacy import PrivateBoundary, Unproved
from gossamer.types import Array

NAME = "outcome.npz"
OWN = "the learner's own parameters"
SENT = "the parameters as last sent, with their noise: only messages are private"


class Outcome(NamedTuple):
    theta: Array  # (1, n)
    about: dict[str, Any]  # learner, round, run, theta (which parameters these are), claim, epsilon, late


def forget_outcome(plan: Plan) -> None:
    """Of an earlier end, when the learner starts again: this one is not over."""
    plan.path(NAME).unlink(missing_ok=True)


def write_outcome(plan: Plan, party: Party, boundary: PrivateBoundary | Unproved, status: Status) -> None:
    """The model, or where only messages are private the last message that carried it; and the model for the owner."""
    theta, what = party.state.theta, OWN
    if isinstance(boundary, PrivateBoundary) and boundary.mechanism.where == "messages":
        sent = party.last_sent()
        if "theta" not in sent:
            return
        theta, what = sent["theta"], SENT
    about = {
        "learner": plan.learner, "round": party.round, "run": plan.run_name, "theta": what,
        "claim": boundary.claim, "epsilon": status.budget(), "late": status.journal.late(),
        "columns": plan.schema.column_names,
    }  # fmt: skip
    buffer = io.BytesIO()
    np.savez(buffer, theta=theta, about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8))
    replace_file(plan.path(NAME), buffer.getvalue())
    own = io.BytesIO()
    np.save(own, party.state.theta)
    replace_file(plan.path("own-model.npy"), own.getvalue())


def read_outcome(place: Path) -> Outcome | None:
    """The outcome in a party's folder; None where its learner has not ended."""
    try:
        with np.load(place / NAME, allow_pickle=False) as stored:
            return Outcome(stored["theta"], json.loads(stored["about"].tobytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise GossamerError(f"{place / NAME} cannot be read ({error}): let the learner end again.") from None
