"""What a learner leaves at its end and may hand on, as a file: its model and what that is. Reading needs no extra."""

from __future__ import annotations

import json
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gossamer.errors import GossamerError
from gossamer.predictions import FittedModel, fitted_model
from gossamer.types import Array

# What NumPy and zipfile raise for files of which something was changed.
DAMAGED = (
    OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, MemoryError, SyntaxError, tokenize.TokenError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
OUTCOME = "outcome.npz"
OWN_MODEL = "own-model.npy"
OWN = "the learner's own parameters"
SENT = "the parameters as last sent, with their noise: only messages are private"


# learner, round, run, theta (which parameters), claim, epsilon, against (whom it holds), late, columns, schema, model;
# with pair secrets shares (gossamer.peers.uncancelled) and uncancelled, the same in words
About = dict[str, Any]


class Outcome(NamedTuple):
    theta: Array  # (1, n)
    about: About

    def fitted(self) -> FittedModel:
        """The model, to be used on new rows."""
        if "schema" not in self.about:
            raise GossamerError(
                f"the outcome of learner {self.about['learner']} has no schema, as those of earlier versions: "
                "run again with this one."
            )
        stream = {"schema": self.about["schema"], "names": [self.about["learner"]]}
        return fitted_model(self.theta, {"model": self.about["model"], "stream": stream}, self.about["claim"])


def read_outcome(place: Path) -> Outcome | None:
    """The outcome in a party's folder; None where its learner has not ended."""
    try:
        with np.load(place / OUTCOME, allow_pickle=False) as stored:
            return Outcome(stored["theta"], json.loads(stored["about"].tobytes()))
    except FileNotFoundError:
        return None
    except DAMAGED as error:
        raise GossamerError(f"{place / OUTCOME} cannot be read ({error}): let the learner end again.") from None


def read_own_model(place: Path) -> Outcome | None:
    """The same with the owner's own parameters, which carry no noise of messages and are not to be handed on."""
    outcome = read_outcome(place)
    try:
        return None if outcome is None else Outcome(np.load(place / OWN_MODEL, allow_pickle=False), outcome.about)
    except DAMAGED as error:
        raise GossamerError(f"{place / OWN_MODEL} cannot be read ({error}): let the learner end again.") from None
