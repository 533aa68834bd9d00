"""What a run leaves behind: the final state, the errors on the way, and all that it takes to run it again or go on.

A simulation makes a run record, and so do parties whose outcomes are collected.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.privacy.boundary import Budgets, budgets
from gossamer.types import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray
    from sklearn.pipeline import Pipeline

    from gossamer.predictions.fitted import Coefficients, FittedModel
    from gossamer.report.view import View

FORMAT = 1
LEARNER = np.dtype([("tracking_error", "f8"), ("optimality_gap", "f8"), ("consensus_error", "f8"), ("accuracy", "f8")])
HISTORY = np.dtype([("t", "i8"), *LEARNER.descr])
SIMPLE = frozenset((str, int, bool, type(None)))  # as JSON has them
UNBOOKED = "not private: no budget was booked"


class NotResumedError(GossamerError):
    """A run record from which a run cannot go on; nothing was sent."""


@dataclass(frozen=True, eq=False)
class Record:
    """An immutable run record.

    t         rounds done; `config["steps"]` were asked for
    state     the algorithm's state arrays by name, one row per learner: "theta", and for Algorithm 1 "s" and "z"
    history   one row per evaluation, means over the learners: t, tracking_error ‖θ_i − θ*‖, optimality_gap
              F(θ_i) − F(θ*), consensus_error ‖θ_i − θ̄‖, accuracy (R² for a regression); record.history.accuracy[-1].
              Where there are test records, accuracy is on those; then, and of neural networks, also train_accuracy,
              parameter_norm ‖θ_i‖, and both accuracies of every learner. With simulate(progressive=True) also
              progressive: how well records were predicted before they were learned from, over all records so far
    learners  the same numbers for each learner at the end
    optimum   θ*, or NaN where F has none
    config    what was run, enough to refuse to go on with anything else; config["assumptions"] is which of the paper's
              assumptions it meets, as far as that is known without looking at records (`gossamer check` looks)
    notes     what a reader must know, such as a broken assumption
    claim     what privacy the run may claim
    epsilon   each learner's ε at the mechanism's δ: record.epsilon.spent so far, record.epsilon.for_ever if the run
              never ends; None where nothing is claimed
    seal      a digest of all of these, taken when the record is made: a record that was changed since is not resumed.
              It guards against accident and careless editing, such as a round that is set back and would be drawn
              again with fresh noise. It does not guard against an owner who takes a new one. "": it has none
    """

    t: int
    state: Mapping[str, Array]
    history: np.recarray[Any, Any]
    learners: np.recarray[Any, Any]
    optimum: Array
    config: Mapping[str, Any]
    notes: tuple[str, ...]
    claim: str
    epsilon: Budgets | None = None
    seal: str | None = None

    def __post_init__(self) -> None:
        arrays = {name: _frozen(array) for name, array in self.state.items()}
        object.__setattr__(self, "state", MappingProxyType(arrays))
        for name in ("history", "learners", "optimum"):
            object.__setattr__(self, name, _frozen(getattr(self, name)))
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", _frozen(_with_names(self.epsilon)))
        object.__setattr__(self, "config", frozen_json(self.config))
        if self.epsilon is None and not _is_modest(self.claim):
            object.__setattr__(self, "claim", UNBOOKED)
        if self.seal is None:
            object.__setattr__(self, "seal", self._digest())

    def __reduce__(self) -> tuple[Any, ...]:
        config, state = plain(self.config), dict(self.state)
        kept = (self.history, self.learners, self.optimum, config, self.notes, self.claim, self.epsilon, self.seal)
        return Record, (self.t, state, *kept)

    @property
    def theta(self) -> Array:
        """(m, n) final parameters; what learners know of their records' moments lies behind them in `state`."""
        theta, parameters = self.state["theta"], self.config.get("parameters")
        return theta if parameters is None else theta[:, :parameters]

    @property
    def s(self) -> Array | None:
        """(m, n) final trackers; None for a method without one."""
        return self.state.get("s")

    @property
    def title(self) -> str:
        """The data and the method, in a few words."""
        about = self.config.get("stream") or {}
        data = f"{about['csv']}, {about['target']}" if about.get("csv") else str(about.get("dataset") or "")
        return f"{data}: {self.config['title']}" if data else str(self.config["title"])

    @property
    def finished(self) -> bool:
        return bool(self.t >= self.config["steps"])

    @property
    def intact(self) -> bool:
        """Whether nothing was changed since the record was made; False if it has no seal."""
        return self.seal == self._digest()

    def _digest(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        told = [FORMAT, self.t, plain(self.config), list(self.notes), self.claim]
        digest.update(json.dumps(told, sort_keys=True, default=repr).encode())
        arrays = self._arrays() | {f"state.{k}": v for k, v in self.state.items()}
        for name, array in sorted(arrays.items()):
            digest.update(repr((name, array.dtype.descr, array.shape)).encode())
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    def _arrays(self) -> dict[str, Any]:
        """What is sealed and kept in a file, beside the state; ε as (m, 2) numbers, as version 0.2.0 kept it."""
        arrays: dict[str, Any] = {"history": self.history, "learners": self.learners, "optimum": self.optimum}
        if self.epsilon is not None:
            arrays["epsilon"] = np.column_stack([self.epsilon[name] for name in self.epsilon.dtype.names or ()])
        return arrays

    @property
    def epsilon_if_all_collude(self) -> Array | None:
        """(m,) ε so far if all other learners put together what they know; without pair secrets that is ε itself."""
        if self.epsilon is None:
            return None
        return np.asarray(self.epsilon["all_collude" if self.has_secrets else "spent"])

    @property
    def has_secrets(self) -> bool:
        """Whether learners shared noise that cancels, so that ε depends on who colludes."""
        return self.epsilon is not None and "all_collude" in (self.epsilon.dtype.names or ())

    def summary(self) -> dict[str, Any]:
        """The numbers of the run as plain JSON values."""
        all_collude = self.epsilon_if_all_collude
        return {
            "format": FORMAT,
            "seal": self.seal,
            "claim": self.claim,
            "epsilon": None if self.epsilon is None else self.epsilon.spent.tolist(),
            "epsilon_for_ever": None if self.epsilon is None else self.epsilon.for_ever.tolist(),
            **(
                {"epsilon_if_all_collude": all_collude.tolist()} if self.has_secrets and all_collude is not None else {}
            ),
            "notes": list(self.notes),
            "config": plain(self.config),
            "t": self.t,
            "final": {name: float(self.history[name][-1]) for name in self._scalars()},
            "history": {name: self.history[name].tolist() for name in self.history.dtype.names or ()},
            "learners": [
                dict(zip(self.learners.dtype.names or (), map(float, row), strict=True)) for row in self.learners
            ],
        }

    def _scalars(self) -> list[str]:
        """What a history has one number of at every evaluation."""
        return [name for name in self.history.dtype.names or () if name != "t" and self.history[name].ndim == 1]

    def save(self, path: str | Path) -> tuple[Path, ...]:
        """Write PATH.npz, which is the record, and PATH.json: its numbers and configuration, for people and tools.

        The state of neural networks goes to PATH-ROUND.safetensors, which PATH.npz names: whenever a crash comes, the
        state that it names is there. Only PATH.npz and that file are read back; a record without a seal stays one.
        """
        if self.seal and not self.intact:
            raise GossamerError(
                "the record was changed after it was made and would not be read back: give a changed copy "
                "replace(record, …, seal=None)."
            )
        base = _base(Path(path))
        text = write_json(self.summary()).encode()
        arrays = self._arrays()
        large = base.with_name(f"{base.name}-{self.t}.safetensors") if self.config.get("tensors") else None
        if large is None:
            arrays |= {f"state.{name}": array for name, array in self.state.items()}
        else:
            content = _safetensors().save(dict(self.state))
            replace_file(large, content)
            named = json.dumps([large.name, hashlib.sha256(content).hexdigest()])
            arrays["tensors"] = np.frombuffer(named.encode(), dtype=np.uint8)
        before = _named(base)
        arrays["summary"] = np.frombuffer(text, dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        files: tuple[Path, ...] = base.with_name(base.name + ".npz"), base.with_name(base.name + ".json")
        replace_file(files[0], buffer.getbuffer())
        replace_file(files[1], text)
        if large is not None:
            files = *files, large
        if before is not None and before != large:
            before.unlink(missing_ok=True)
        return files

    @classmethod
    def load(cls, path: str | Path) -> Record:
        """Read what save() wrote; nothing in it is executed."""
        base = _base(Path(path))
        file = base.with_name(base.name + ".npz")
        try:
            with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            about = json.loads(arrays["summary"].tobytes())
            if about["format"] != FORMAT:
                raise GossamerError(
                    f"{file} is of format {about['format']}, expected {FORMAT}: use a matching version."
                )
            if about["t"] != arrays["history"]["t"][-1]:
                raise ValueError("its last evaluation is not of its last round")
            state = {k.removeprefix("state."): v for k, v in arrays.items() if k.startswith("state.")}
            if "tensors" in arrays:
                name, digest = json.loads(arrays["tensors"].tobytes())
                content = base.with_name(Path(name).name).read_bytes()
                if hashlib.sha256(content).hexdigest() != digest:
                    raise ValueError(f"{Path(name).name} is not the state that was saved with it")
                state = _safetensors().load(content)
            record = cls(
                t=int(about["t"]),
                state=state,
                history=_with_fields(arrays["history"], HISTORY),
                learners=_with_fields(arrays["learners"], LEARNER),
                optimum=arrays["optimum"],
                config=about["config"],
                notes=tuple(about["notes"]),
                claim=about["claim"],
                epsilon=arrays.get("epsilon"),
                seal=str(about.get("seal", "")),
            )
            if record.seal and not record.intact:
                raise GossamerError(f"{file} was changed after it was written: restore it from a copy.")
            return record
        except GossamerError:
            raise
        except FileNotFoundError as error:
            missing = error.filename or file
            raise GossamerError(
                f"{path} is no run record, {missing} is not there: give the path that save() was given, or a run's "
                "folder."
            ) from None
        except Exception as error:  # whatever a damaged file makes numpy, zipfile or json say
            raise GossamerError(f"{file} cannot be read as a run record ({error}): restore it from a copy.") from None

    def plot(self, path: str | Path | None = None, *, said: Sequence[str] = ()) -> Figure:
        """Errors and accuracy over the rounds; written to `path` where given (.png, .svg, .pdf).

        `said` goes before the claim and the notes, under the picture.
        """
        from gossamer.report.curves import draw_curves  # only now: matplotlib takes long to load
        from gossamer.report.run import reading_rounds

        figure = draw_curves(
            {name: self.history[name] for name in self.history.dtype.names or ()},
            score=self.config["score"],
            title=self.title,
            caption=[*said, self.claim, *self.notes],
            baselines=self.config.get("baselines") or {},
            reading=reading_rounds(self.config),
        )
        if path is not None:
            figure.savefig(path)
        return figure

    def view(self, **told: Any) -> View:
        """All that a page shows of the run, as plain JSON values; `told` is what gossamer.report.run.run_view takes."""
        from gossamer.report.run import run_view

        return run_view(plain(self.summary()), **{"title": self.title, **told})

    def report(self, path: str | Path, **told: Any) -> Path:
        """Write the run as one self-contained HTML page, to open in a browser; `told` as for view()."""
        from gossamer.report.html import page

        file = Path(path)
        replace_file(file, page(self.view(**told)).encode())
        return file

    def fitted(self, learner: str | int | None = None) -> FittedModel:
        """The model that was learned: the mean of all learners' θ, or one learner's, by name or number.

        Only linear models can be used so. Where the run had a CSV file, the model knows its columns and classes.
        """
        from gossamer.predictions import fitted_model  # only now: most records are not used for it

        return fitted_model(self.theta, self.config, self.claim, learner)

    def predict(self, rows: Any, *, learner: str | int | None = None) -> NDArray[Any]:
        """(rows,) the class of every new row by its name, or its quantity in its own units.

        `rows` is a file's path, a DataFrame, a list of dicts, a dict of columns or a 2-D array, as FittedModel.predict
        says. By the mean of all learners' θ, or by one learner's.
        """
        return self.fitted(learner).predict(rows)

    def predict_proba(self, rows: Any, *, learner: str | int | None = None) -> Array:
        """(rows, classes) every class's probability, in the order of record.fitted().classes."""
        return self.fitted(learner).predict_proba(rows)

    def coefficients(self, *, learner: str | int | None = None) -> Coefficients | dict[str, Coefficients]:
        """Coefficients by name on the scale of the columns as they are, of classes {class: {name: number}}."""
        return self.fitted(learner).coefficients()

    def export(self, path: str | Path, *, learner: str | int | None = None) -> Path:
        """Write the model as a plain JSON file, which `gossamer predict` and gossamer.predictions.load_model read."""
        return self.fitted(learner).save(path)

    def to_sklearn(self, *, learner: str | int | None = None) -> Pipeline:
        """The model as a fitted scikit-learn Pipeline, which takes columns as they are (extra `sklearn`)."""
        return self.fitted(learner).to_sklearn()

    def __repr__(self) -> str:
        last = self.history[-1]
        return (
            f"Record(t={self.t}, {self.config['score']}={last.accuracy:.4f}, tracking_error={last.tracking_error:.4g}, "
            f"{self.claim})"
        )


def _named(base: Path) -> Path | None:
    """The file of the state that a saved record names, where there is one."""
    try:
        with np.load(base.with_name(base.name + ".npz"), allow_pickle=False) as stored:
            return base.with_name(Path(json.loads(stored["tensors"].tobytes())[0]).name)
    except Exception:  # no record there, or none with such a file, or a damaged one
        return None


def _safetensors() -> Any:
    try:
        return importlib.import_module("safetensors.numpy")
    except ImportError:
        raise GossamerError("the state of neural networks needs safetensors: install the extra `nn`.") from None


def write_json(content: Mapping[str, Any]) -> str:
    """JSON with null for what JSON has no number for."""
    return json.dumps(plain(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _base(path: Path) -> Path:
    if path.is_dir():  # a command's folder
        return path / "record"
    return path.with_suffix("") if path.suffix in (".npz", ".json") else path


def _with_fields(array: Any, least: np.dtype[Any]) -> np.recarray[Any, Any]:
    """A record array with at least these fields; ValueError where one is missing."""
    missing = set(least.names or ()) - set(array.dtype.names or ())
    if missing:
        raise ValueError(f"it has no {', '.join(sorted(missing))}")
    return np.asarray(array).view(np.recarray)


def _with_names(epsilon: Any) -> Budgets:
    """(m, 2) or (m, 3) numbers as the columns that they are; what has columns stays as it is."""
    return budgets(*(epsilon[name] for name in epsilon.dtype.names)) if epsilon.dtype.names else budgets(*epsilon.T)


def _is_modest(claim: object) -> bool:
    """Whether the claim starts by saying that nothing is private."""
    return isinstance(claim, str) and claim.startswith("not private: ") and claim.isprintable()


def mean_row(
    t: int,
    learners: np.recarray[Any, Any],
    each: tuple[str, ...] = (),
    counted: NDArray[np.bool_] | None = None,
    **whole: float,
) -> np.recarray[Any, Any]:
    """One row of a history: the learners' means, and numbers of the whole run by name.

    What is named in `each` is kept learner by learner as well. `counted` are the learners in the means; None: all.
    """
    names = learners.dtype.names or ()
    fields = [("t", "i8"), *((name, "f8") for name in (*names, *whole))]
    own = [(f"learners_{name}", "f8", (len(learners),)) for name in each]
    row = np.recarray(1, dtype=np.dtype([*fields, *own]))
    row.t = t
    for name in each:
        row[f"learners_{name}"] = learners[name]
    for name in names:
        row[name] = learners[name].mean() if counted is None else learners[name][counted].mean()
    for name, value in whole.items():
        row[name] = value
    row.setflags(write=False)
    return row


def _frozen(array: Any) -> Any:
    frozen = array.copy()
    frozen.setflags(write=False)
    return frozen


def plain(value: Any) -> Any:
    """Numbers, strings, lists and dicts only; NaN and ∞ as None."""
    if type(value) in SIMPLE:  # most of them are, and a Mapping is dear to tell
        return value
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def frozen_json(value: Any) -> Any:
    """What JSON would give back for `value`, made immutable."""
    if type(value) in SIMPLE:
        return value
    if isinstance(value, list | tuple):
        return tuple(map(frozen_json, value))
    if isinstance(value, Mapping):
        return MappingProxyType({str(k): frozen_json(v) for k, v in value.items()})
    return plain(value)
