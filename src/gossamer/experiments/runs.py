"""Many runs on all cores, each done once: results are kept by content, so that a stopped comparison goes on.

The noise is seeded, so that the same task gives the same numbers anywhere; what it *would* cost is the ε of the
exact mechanism of the same scales, by the method's own recursion, and is kept with each run.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gossamer.errors import GossamerError
from gossamer.experiments.catalogue import METHODS
from gossamer.experiments.problems import Problem
from gossamer.files import replace_file
from gossamer.models import Gradient
from gossamer.privacy import Gaussian, Laplace, Mechanism, simulated
from gossamer.privacy.accountant import Accountant, Law, Terms, Where
from gossamer.schedules import Decay, decay
from gossamer.simulate import simulate
from gossamer.simulate.engine import setting_of
from gossamer.version import __version__

Result = dict[str, Any]
PUBLISHED = "published"  # the paper's own noise, ν = 1/(t+1)^(0.5 + 0.01 i), whatever it costs
CURVES = ("tracking_error", "optimality_gap", "consensus_error", "accuracy")


@dataclass(frozen=True)
class Task:
    """One run, as plain values."""

    problem: Problem
    method: str
    step: float  # λ0
    seed: int
    steps: int
    epsilon: float | str | None  # for every learner; "published": the paper's noise; None: no noise
    law: Law = "laplace"
    where: Where = "messages"
    delta: float = 0.0
    evaluations: int = 40

    @property
    def gradient(self) -> Gradient:
        return "latest" if self.where == "source" else "history"

    def key(self) -> str:
        """Of all that decides the outcome: these values, what the files they name hold, and the method's own source."""
        method = METHODS[self.method]
        said = {
            "version": __version__,
            "noise": [method.noise_exponent, method.noise_ratio],
            "code": code_of(self.method),
        }
        said |= {**asdict(self), "content": self.problem.content()}
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]

    def outcome(self) -> Result:
        return outcome(self)


@cache
def code_of(method: str) -> str:
    """A digest of the module that a method's functions are in, so that a changed method is run anew."""
    module = inspect.getmodule(METHODS[method].build(1.0).step)
    return hashlib.sha256(inspect.getsource(module).encode()).hexdigest() if module is not None else ""


def outcome(task: Task) -> Result:
    """Run a task: errors on the way, and what its noise would cost each learner; a run that diverges says so."""
    stream = task.problem.stream(task.seed)
    network, model = task.problem.network(stream.learners), task.problem.model(task.law)
    algorithm = METHODS[task.method].build(task.step)
    algorithm = replace(algorithm, strict=False)  # published settings break assumptions; the catalogue's own do not
    said: Result = {"method": task.method, "step": task.step, "seed": task.seed, "diverged": False}
    noise = None
    if task.epsilon is not None:
        size = model.theta_size(stream.table.columns)
        setting = setting_of(algorithm, network, stream, model, task.gradient, task.steps, size)
        try:
            terms = _mechanism(task, network.m).terms(setting)
        except GossamerError as error:
            return said | {"diverged": True, "why": str(error)}
        scale = Decay(tuple(t.initial for t in terms), tuple(t.exponent for t in terms), terms[0].ratio)
        noise = simulated(scale, task.seed, task.law, task.where)
        said |= {"noise": [t.initial for t in terms], "epsilon": epsilons(terms, task.steps, task.delta)}
        if not np.isfinite(list(scale.initial)).all():  # type: ignore[arg-type]
            return said | {"diverged": True, "why": "no finite noise meets the budget"}
    try:
        run = simulate(
            algorithm, network, stream, model=model, privacy=noise, steps=task.steps, gradient=task.gradient,
            evaluate_every=max(1, task.steps // task.evaluations), seed=task.seed,
        )  # fmt: skip
    except GossamerError as error:
        return said | {"diverged": True, "why": str(error)}
    history = run.history
    said |= {
        "notes": list(run.notes),
        "t": history.t.tolist(),
        **{name: [float(f"{v:.6g}") for v in history[name]] for name in CURVES},
    }
    if not np.isfinite(run.optimum).all():
        raise GossamerError("θ* is not known here, and errors are distances to it: give a ridge, --l2 above 0.")
    finite = all(math.isfinite(v) for name in CURVES for v in said[name])
    return said | {"diverged": not finite, "theta": np.round(run.theta.mean(axis=0), 6).tolist() if finite else None}


def epsilons(terms: Sequence[Terms], steps: int, delta: float) -> list[float | None]:
    found = [Accountant(each, delta=delta).epsilon_at(steps, delta) for each in terms]
    return [e if math.isfinite(e) else None for e in found]


def _mechanism(task: Task, learners: int) -> Mechanism:
    method = METHODS[task.method]
    kind: Any = Laplace if task.law == "laplace" else Gaussian
    given: dict[str, Any] = {"where": task.where} | ({"delta": task.delta} if task.law == "gaussian" else {})
    if task.epsilon == PUBLISHED:
        exponents = [0.5 + 0.01 * (i + 1) for i in range(learners)]
        published: Mechanism = kind(decay(1.0, exponents), **given)
        return published
    if task.where == "messages":
        given |= {"exponent": method.noise_exponent, "ratio": method.noise_ratio}
    calibrated: Mechanism = kind.for_budget(task.epsilon, horizon=task.steps, **given)
    return calibrated


class Work(Protocol):
    """What can be run once and kept."""

    def key(self) -> str: ...

    def outcome(self) -> Result: ...


def _outcome(task: Work) -> Result:
    return task.outcome()


class Runs:
    """Runs tasks on `jobs` processes and keeps every outcome in `folder`/runs."""

    def __init__(
        self, folder: Path, jobs: int | None = None, progress: Callable[[int, int], None] | None = None
    ) -> None:
        self._folder = folder / "runs"
        self._jobs = jobs if jobs is not None else os.cpu_count() or 1
        self._progress = progress or (lambda done, of: None)
        self.made = 0  # how many were not kept from before

    def __call__(self, tasks: Iterable[Work]) -> list[Result]:
        tasks = list(tasks)
        found = {task: self._kept(task) for task in dict.fromkeys(tasks)}
        missing = [task for task, result in found.items() if result is None]
        done = len(found) - len(missing)
        self._progress(done, len(found))
        for task, fresh in self._new(missing):
            found[task] = fresh
            done += 1
            self._progress(done, len(found))
        return [result for task in tasks if (result := found[task]) is not None]

    def _new(self, tasks: list[Work]) -> Iterable[tuple[Work, Result]]:
        if not tasks:
            return
        if self._jobs == 1:
            for task in tasks:
                yield task, self._keep(task, task.outcome())
            return
        # One BLAS thread for each process: the matrices are small and the cores are all taken.
        before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        os.environ.update(dict.fromkeys(before, "1"))
        try:
            with ProcessPoolExecutor(self._jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
                waiting = {pool.submit(_outcome, task): task for task in tasks}
                try:
                    for future in as_completed(waiting):
                        yield waiting[future], self._keep(waiting[future], future.result())
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    def _kept(self, task: Work) -> Result | None:
        try:
            kept = json.loads((self._folder / f"{task.key()}.json").read_text())
            return dict(kept["result"]) if kept["key"] == task.key() else None
        except (OSError, ValueError, KeyError, TypeError):  # not there, or damaged: run it
            return None

    def _keep(self, task: Work, result: Result) -> Result:
        replace_file(self._folder / f"{task.key()}.json", json.dumps({"key": task.key(), "result": result}).encode())
        self.made += 1
        return result
