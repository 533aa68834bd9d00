"""What a learner leaves at its end, as files: outcome.npz, its model and what that is, which it may hand on; and
own-model.npy, its own parameters. Reading needs no extra.

A bit that flips on a disk changes no model without a word. An outcome is a ZIP archive, whose sums are of its members
as a whole, so they are read as a whole: NumPy alone stops where an array ends by its own header. An own model has a
digest behind its end, where NumPy does not look; its length is that of no whole numbers, so that it is never read as
some.
"""

from __future__ import annotations

import hashlib
import io
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
DIGEST = 20  # bytes behind an own model
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
        with zipfile.ZipFile(place / OUTCOME) as stored:
            theta, about = (_array(stored.read(f"{name}.npy")) for name in ("theta", "about"))
        return Outcome(theta, json.loads(about.tobytes()))
    except FileNotFoundError:
        return None
    except DAMAGED as error:
        raise _unreadable(place / OUTCOME, error) from None


def read_own_model(place: Path) -> Outcome | None:
    """The same with the owner's own parameters, which carry no noise of messages and are not to be handed on."""
    outcome = read_outcome(place)
    if outcome is None:
        return None
    try:
        return Outcome(_own_array((place / OWN_MODEL).read_bytes()), outcome.about)
    except DAMAGED as error:
        raise _unreadable(place / OWN_MODEL, error) from None


def _unreadable(path: Path, error: Exception) -> GossamerError:
    why = " ".join(str(error).split())  # NumPy has errors of several lines
    return GossamerError(f"{path} cannot be read ({why:.100}): let the learner end again.")


def own_model_bytes(theta: Array) -> bytes:
    """A file that NumPy reads, with its digest behind."""
    file = io.BytesIO()
    np.save(file, theta)
    return file.getvalue() + _digest(file.getvalue())


def _own_array(data: bytes) -> Array:
    """What own_model_bytes has written; files of releases before it have no digest."""
    file = io.BytesIO(data)
    theta: Array = np.load(file, allow_pickle=False)
    behind = data[file.tell() :]
    if behind and behind != _digest(data[:-DIGEST]):
        raise ValueError("it has changed on the disk")
    return theta


def _array(data: bytes) -> Array:
    array: Array = np.load(io.BytesIO(data), allow_pickle=False)
    return array


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST).digest()
