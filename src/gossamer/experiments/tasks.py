"""One run of a study: a description, run with seeded noise, and what exact noise of the same scales would cost.

The noise is seeded, so that the same task gives the same numbers anywhere; the ε that is kept with each run is that of
the exact mechanism, by the method's own recursion. A study's split of the data is taken as given: its ε is a price, and
no claim.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from gossamer.algorithms import find_method
from gossamer.algorithms.base import AUTO
from gossamer.errors import Argument, BudgetUnmet, Diverged, GossamerError
from gossamer.experiments import named
from gossamer.experiments.workers import Result
from gossamer.privacy import Mechanism, Setting, SimulatedNoise, Terms, epsilons, simulated
from gossamer.privacy.simulated import pair_law
from gossamer.schedules import Decay, decay
from gossamer.setting import full_rounds, setting_of
from gossamer.simulate import simulate
from gossamer.spec import Spec
from gossamer.spec.build import build_algorithm, build_data, build_mechanism, state_mechanism
from gossamer.spec.description import Length, Method, Privacy
from gossamer.spec.languages import step_schedule
from gossamer.spec.rules import dataset_of, decide_noise, delta_of, goes_on, per_round_of, standardises
from gossamer.version import __version__


@dataclass(frozen=True)
class Task:
    """One run, as plain values.

    published    the first scale of the paper's own noise, ν0/(t+1)^(0.5 + 0.01 i), in place of a budget
    rounds       how many are run, where fewer than ε is spent over
    evaluations  how often the learners are looked at
    noise        (ς, q), how noise for a budget on messages goes with time; None: as the method is usually run
    split        how many times the second channel's noise the first one gets; None: the same on both
    """

    spec: Spec
    published: float | None = None
    rounds: int | None = None
    evaluations: int = 40
    noise: tuple[float, float] | None = None
    split: float | None = None

    def key(self) -> str:
        """Of all that decides the outcome: the description, what the files it names hold, and the method's source."""
        method = find_method(self.spec.algorithm.algorithm)
        about: dict[str, Any] = {"version": __version__, "named": list(self.named().values())}
        about |= {"usual": method.exponents[0], **asdict(self)}
        if self.spec.private:
            spent = float(self.spec.privacy.epsilon or "nan")
            about |= {"epsilon": f"{spent:.9g}"}  # another machine may find another last digit
            about["spec"]["privacy"].pop("epsilon")
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]

    def named(self) -> dict[str, str]:
        """Digests of what the description names."""
        return named.digests(self.spec)

    def placed(self) -> Task:
        """The same for a process that works in another folder."""
        return replace(self, spec=named.placed(self.spec))

    def outcome(self) -> Result:
        """The errors on the way, and what the noise would cost each learner; a run that diverges says so."""
        spec = self.spec.but(strict=False)  # published settings break assumptions; the methods' own do not
        stream, model, network = data_of(spec)
        auto = spec.algorithm.step == AUTO
        step = None if auto else step_schedule(spec.algorithm.step or "").initial
        said: Result = {"method": spec.algorithm.algorithm, "step": step, "seed": spec.length.seed, "diverged": False}
        steps = spec.length.steps or int(full_rounds(stream))
        said |= {"steps": steps, "read": float(stream.room(steps).sum() / len(stream.table))}
        noise = None
        if self.published is not None or spec.private:
            try:
                terms = self.terms(steps)
            except BudgetUnmet as error:
                return said | {"diverged": True, "why": str(error)}
            noise = seeded_like(terms, spec.length.seed)
            delta = terms[0].law.needs_delta * delta_of(decide_noise(spec, dataset_of(spec)))
            said |= {
                "noise": [t.initial for t in terms],
                "epsilon": epsilons(terms, steps, delta),
            }
            if terms[0].shared is not None:
                said |= {
                    "all_collude": epsilons([one.alone for one in terms], steps, delta),
                    "releases": str(terms[0].releases),
                    "less_noise": 1 / terms[0].shared.seen,
                    "share": terms[0].shared.pair / terms[0].shared.floor,
                }
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
        said |= {"step": float(run.config["algorithm"]["step"].split("=")[1].split(",")[0])} if auto else {}
        names = [name for name in run.history.dtype.names or () if name != "t" and not name.startswith("learners_")]
        said |= {name: run.history[name].tolist() for name in names}
        said |= {f"learners_{name}": run.learners[name].tolist() for name in names}
        if "train_accuracy" not in names and not np.isfinite(run.optimum).all():
            raise GossamerError(
                "θ* is not known here, and errors are distances to it: give a ridge, ", Argument("l2"), " above 0."
            )
        finite = all(math.isfinite(v) for v in said["accuracy"] + said["consensus_error"])
        return said | {"t": run.history.t.tolist(), "notes": list(run.notes), "diverged": not finite}

    def terms(self, steps: int) -> Sequence[Terms]:
        """Every learner's exact noise over so many rounds."""
        spec = self.spec.but(strict=False, seed=0, device="cpu")
        return terms_of(replace(self, rounds=None, evaluations=1, spec=spec), steps)


def seeded_like(terms: Sequence[Terms], seed: int) -> SimulatedNoise:
    """Seeded noise of the scales, the law, the releases and the split of exact noise, which ε is said of."""
    one = terms[0]
    releases = one.releases if one.where == "source" else None
    return simulated(scales_of(terms), seed, one.law, one.where, releases, one.factor, one.split, pair_law(terms))


def scales_of(terms: Sequence[Terms]) -> Decay:
    """Every learner's scales as one schedule."""
    return Decay(tuple(t.initial for t in terms), tuple(t.exponent for t in terms), terms[0].ratio)


def but_data(spec: Spec, **wanted: str) -> Spec:
    """The description with settings of its data, those of them that these data take."""
    dataset = dataset_of(spec)
    taken = () if dataset is None else dataset.options
    return spec.but(**{name: value for name, value in wanted.items() if name in taken})


def data_of(spec: Spec) -> tuple[Any, Any, Any]:
    """Stream, model and network of a description; whatever it says of step and noise changes none of them."""
    dataset = dataset_of(spec)
    decided = decide_noise(spec, dataset)
    # The law decides in which norm gradients are clipped, and noise at the source to which length, where none is given.
    # What else is said of noise has decided on gradient and draw: as part of the key it would have the same data read
    # again for every kind of noise.
    law = decided.privacy.law
    clipped = spec.private and decided.privacy.where == "source" and spec.model.clip is None
    bare = Privacy(law=law, where="source", epsilon="1") if clipped else Privacy(law=law)
    length = Length(seed=spec.length.seed)
    if dataset is None:  # own records: noise and length decide how they are seen, and their pace
        if goes_on(decided, None):
            length = replace(length, steps=spec.length.steps)
        else:
            decided = decided.but(per_round=spec.data.per_round or 1)
        decided = decided.but(standardise=standardises(decided, None))
    elif "per_round" in dataset.options:  # which gradients are over decides how many records come at a time
        decided = decided.but(per_round=per_round_of(decided, dataset))
    return _read(replace(decided, algorithm=Method(), privacy=bare, length=length))


@lru_cache(maxsize=8)
def _read(spec: Spec) -> tuple[Any, Any, Any]:
    dataset = dataset_of(spec)
    built, model, network = build_data(spec, dataset)
    stream: Any = copy.copy(built)  # whoever else has it keeps what it says
    if dataset is not None and spec.data.split == "by-class" and ":" not in dataset.name:
        stream.table = replace(stream.table, undeclared="")  # a built-in split is taken as given
    return stream, model, network


@lru_cache(maxsize=256)
def terms_of(task: Task, steps: int) -> Sequence[Terms]:
    """Every learner's exact noise; it depends on no record, so that all seeds share it."""
    stream, model, network = data_of(task.spec)
    gradient: Any = gradient_of(task.spec)
    algorithm = build_algorithm(task.spec.but(noise="0", epsilon=None), None, network.m)
    setting = setting_of(algorithm, network, stream, model, gradient, steps)
    return with_split(_mechanism(task, network.m, steps), setting, task.split).terms(setting)


def with_split(mechanism: Mechanism, setting: Setting, factor: float | None) -> Mechanism:
    """The same with so many times the noise on the first channel; a budget is met by what both cost together."""
    if factor is None or mechanism.where == "source":
        return mechanism
    return replace(mechanism, split=((next(iter(setting.dynamics(0, 1).channels)), factor),))


def gradient_of(spec: Spec) -> str:
    return str(decide_noise(spec, dataset_of(spec)).algorithm.gradient)


def _mechanism(task: Task, learners: int, steps: int) -> Mechanism:
    if task.published is not None:
        exponents = [0.5 + 0.01 * (i + 1) for i in range(learners)]
        return state_mechanism(decide_noise(task.spec, dataset_of(task.spec)), decay(task.published, exponents))
    spec = decide_noise(task.spec, dataset_of(task.spec))
    calibrated = build_mechanism(spec, learners, None if spec.privacy.horizon is not None else steps)
    if spec.privacy.where == "source":
        return calibrated
    usual = find_method(task.spec.algorithm.algorithm).exponents[0]
    exponent, ratio = task.noise or (usual.noise, usual.ratio)
    return replace(calibrated, exponent=exponent, ratio=ratio)
