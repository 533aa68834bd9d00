"""One run of a study: a description, run with seeded noise, and what exact noise of the same scales would cost.

The noise is seeded, so that the same task gives the same numbers anywhere; the ε that is kept with each run is that of
the exact mechanism, by the method's own recursion. A study's split of the data is taken as given: its ε is a price, and
no claim.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.algorithms import find_method
from gossamer.errors import Argument, Diverged, GossamerError, NotProvable
from gossamer.privacy import Mechanism, Terms, epsilons, simulated
from gossamer.schedules import Decay, decay
from gossamer.setting import full_rounds, setting_of
from gossamer.simulate import simulate
from gossamer.spec import Spec
from gossamer.spec.build import build_algorithm, build_data, build_mechanism, state_mechanism
from gossamer.spec.description import Length, Method
from gossamer.spec.languages import step_schedule
from gossamer.spec.rules import dataset_of, decide_gradient_and_draw, delta_of
from gossamer.version import __version__

Result = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One run, as plain values.

    published    the first scale of the paper's own noise, ν0/(t+1)^(0.5 + 0.01 i), in place of a budget
    rounds       how many are run, where fewer than ε is spent over
    evaluations  how often the learners are looked at
    """

    spec: Spec
    published: float | None = None
    rounds: int | None = None
    evaluations: int = 40

    def key(self) -> str:
        """Of all that decides the outcome: the description, what the files it names hold, and the method's source."""
        method = find_method(self.spec.algorithm.algorithm)
        about: dict[str, Any] = {"version": __version__, "code": code_of(self.spec.algorithm.algorithm)}
        about |= {"noise": [method.noise_exponent, method.noise_ratio], **asdict(self)}
        if self.spec.private:
            spent = float(self.spec.privacy.epsilon or "nan")
            about |= {"epsilon": f"{spent:.9g}"}  # another machine may find another last digit
            about["spec"]["privacy"].pop("epsilon")
        about |= {"content": _content(self.spec)}
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]

    def outcome(self) -> Result:
        """The errors on the way, and what the noise would cost each learner; a run that diverges says so."""
        spec = self.spec.but(strict=False)  # published settings break assumptions; the methods' own do not
        stream, model, network = data_of(spec)
        step = step_schedule(spec.algorithm.step or "").initial
        said: Result = {"method": spec.algorithm.algorithm, "step": step, "seed": spec.length.seed, "diverged": False}
        steps = spec.length.steps or int(full_rounds(stream))
        said |= {"steps": steps, "read": float(stream.room(steps).sum() / len(stream.table))}
        noise = None
        if self.published is not None or spec.private:
            try:
                terms = terms_of(replace(self, rounds=None, evaluations=1, spec=spec.but(seed=0, device="cpu")), steps)
            except NotProvable as error:
                return said | {"diverged": True, "why": str(error)}
            scale = Decay(tuple(t.initial for t in terms), tuple(t.exponent for t in terms), terms[0].ratio)
            noise = simulated(scale, spec.length.seed, spec.privacy.law, spec.privacy.where)
            said |= {"noise": [t.initial for t in terms], "epsilon": epsilons(terms, steps, delta_of(spec))}
        rounds = self.rounds or steps
        gradient: Any = gradient_of(spec)
        try:
            run = simulate(
                build_algorithm(spec.but(noise="0", epsilon=None), None, network.m), network, stream, model=model,
                privacy=noise, steps=rounds, gradient=gradient, evaluate_every=max(1, rounds // self.evaluations),
                seed=spec.length.seed,
            )  # fmt: skip
        except Diverged as error:
            return said | {"diverged": True, "why": str(error)}
        names = [name for name in run.history.dtype.names or () if name != "t" and not name.startswith("learners_")]
        said |= {name: run.history[name].tolist() for name in names}
        said |= {f"learners_{name}": run.learners[name].tolist() for name in names}
        if "train_accuracy" not in names and not np.isfinite(run.optimum).all():
            raise GossamerError(
                "θ* is not known here, and errors are distances to it: give a ridge, ", Argument("l2"), " above 0."
            )
        finite = all(math.isfinite(v) for v in said["accuracy"] + said["consensus_error"])
        return said | {"t": run.history.t.tolist(), "notes": list(run.notes), "diverged": not finite}


@cache
def code_of(method: str) -> str:
    """A digest of the module that a method's functions are in, so that a changed method is run anew."""
    module = inspect.getmodule(find_method(method).build(1.0).step)
    return hashlib.sha256(inspect.getsource(module).encode()).hexdigest() if module is not None else ""


def _content(spec: Spec) -> str:
    """A digest of the files that are named: data and network may change under the same name."""
    digest = hashlib.sha256()
    for path in (spec.data.csv, spec.network.graph):
        if path is not None and Path(path).is_file():
            digest.update(Path(path).read_bytes())
    return digest.hexdigest()


def data_of(spec: Spec) -> tuple[Any, Any, Any]:
    """Stream, model and network of a description; whatever it says of step and noise changes none of them."""
    dataset = dataset_of(spec)
    decided, _ = decide_gradient_and_draw(spec, dataset)
    bare = replace(decided.privacy, epsilon=None, noise=None)
    return _read(replace(decided, algorithm=Method(), privacy=bare, length=Length(seed=spec.length.seed)))


@lru_cache(maxsize=3)
def _read(spec: Spec) -> tuple[Any, Any, Any]:
    built, model, network = build_data(spec, dataset_of(spec))
    stream: Any = built
    if spec.data.csv is None:  # a built-in split is taken as given; what a CSV does not declare is not
        stream.table = replace(stream.table, undeclared="")
    return stream, model, network


@lru_cache(maxsize=256)
def terms_of(task: Task, steps: int) -> Sequence[Terms]:
    """Every learner's exact noise; it depends on no record, so that all seeds share it."""
    stream, model, network = data_of(task.spec)
    gradient: Any = gradient_of(task.spec)
    algorithm = build_algorithm(task.spec.but(noise="0", epsilon=None), None, network.m)
    setting = setting_of(algorithm, network, stream, model, gradient, steps)
    return _mechanism(task, network.m, steps).terms(setting)


def gradient_of(spec: Spec) -> str:
    return str(decide_gradient_and_draw(spec, dataset_of(spec))[0].algorithm.gradient)


def _mechanism(task: Task, learners: int, steps: int) -> Mechanism:
    if task.published is not None:
        exponents = [0.5 + 0.01 * (i + 1) for i in range(learners)]
        return state_mechanism(task.spec, decay(task.published, exponents))
    calibrated = build_mechanism(task.spec, learners, steps)
    if task.spec.privacy.where == "source":
        return calibrated
    method = find_method(task.spec.algorithm.algorithm)
    return replace(calibrated, exponent=method.noise_exponent, ratio=method.noise_ratio)
