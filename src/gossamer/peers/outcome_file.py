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
import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
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
        try:
            return fitted_model(self.theta, {"model": self.about["model"], "stream": stream}, self.about["claim"])
        except DAMAGED as error:
            raise GossamerError(
                f"the outcome of learner {self.about['learner']} has a schema that cannot be read ({error}): ask its "
                "party for it again."
            ) from None


def read_outcome(place: Path) -> Outcome | None:
    """The outcome in a party's folder, which somebody else may have sent; None where its learner has not ended."""
    path = place / OUTCOME
    try:
        with zipfile.ZipFile(path) as stored:
            if sum(part.file_size for part in stored.infolist()) > path.stat().st_size:
                raise ValueError("it would unpack to more than it is")  # what a learner writes is not compressed
            theta, said = (_array(stored.read(f"{name}.npy")) for name in ("theta", "about"))
        about = json.loads(said.tobytes())
        _check(theta, about)
        return Outcome(theta, about)
    except FileNotFoundError:
        return None
    except (*DAMAGED, RecursionError) as error:
        raise _unreadable(path, error) from None


def _check(theta: Any, about: Any) -> None:
    """Refuse with a ValueError what no learner writes; fields that earlier releases did not have may be missing."""
    if theta.ndim != 2 or len(theta) != 1 or theta.dtype.kind != "f":
        raise ValueError(f"its model is {theta.dtype} of shape {theta.shape}")
    if not isinstance(about, dict):
        raise ValueError("it does not say whose it is")
    wrong = [name for name, is_right in NEEDED.items() if name not in about or not is_right(about[name])]
    wrong += [name for name, is_right in MORE.items() if about.get(name) is not None and not is_right(about[name])]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} in it: that is not what a learner writes")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_words(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and (0 <= value <= 1e300 or value == math.inf)


def _is_list(value: Any, of: Callable[[Any], bool], lengths: Collection[int] = ()) -> bool:
    return isinstance(value, list) and all(map(of, value)) and (not lengths or len(value) in lengths)


def _is_course(value: Any) -> bool:
    """Of one learner: the rounds, ε in each, and the budget."""
    if not isinstance(value, dict) or not {"t", "epsilon", "budget", "delta"} <= value.keys():
        return False
    t, spent = value["t"], value["epsilon"]
    one = _is_list(spent, lambda row: _is_list(row, _is_number), [1]) and _is_list(t, _is_count, [len(spent[0])])
    return one and len(t) > 0 and _is_list(value["budget"], _is_number, [1]) and _is_number(value["delta"])


NEEDED: Mapping[str, Callable[[Any], bool]] = {
    "learner": _is_count,
    "round": _is_count,
    "run": _is_text,
    "theta": lambda value: value in (OWN, SENT),
    "claim": _is_words,
    "epsilon": lambda value: value is None or _is_list(value, _is_number, [2, 3]),
    "late": lambda value: _is_list(value, lambda one: _is_list(one, _is_count, [2])),
    "model": _is_words,
}
MORE: Mapping[str, Callable[[Any], bool]] = {
    "against": _is_words,
    "course": _is_course,
    "columns": lambda value: _is_list(value, _is_text),
    "joined": _is_count,
    "left": _is_count,
    "put out": _is_count,
    "shares": lambda value: (
        isinstance(value, list)
        and len(value) == 4
        and all(map(_is_count, value[:3]))
        and _is_list(value[3], lambda one: _is_list(one, _is_count, [2]))
    ),
}


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
