"""Settings for somebody's own data, searched from what the rules say: one coordinate after the other.

    step      λ0, in units of the rule's, a grid of 2 and then the √2 neighbours of the best
    l2        in units of the rule's
    clip      likewise, with noise at the source
    start     the first release, as a share of the run, with noise at the source
    rounds    in units of the usual

A search by coordinates is no full product. Every coordinate has so many values, whatever the scores are: how many
candidates there are is known before the first of them is run, which a budget asks for (gossamer.experiments.charged).
What is given is not tuned. Whose records a candidate is scored on is the scorer's to decide: see gossamer.cli.tune for
the ways that there are. Candidates are factors of what the rules say, because a sample has fewer records, and so more
noise for its budget, than what is learnt from in the end; the rules know how settings go with that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gossamer.algorithms import Algorithm, find_method
from gossamer.algorithms.base import AUTO
from gossamer.automatic import found_step
from gossamer.errors import Argument, BudgetUnmet, Diverged, GossamerError, NotProvable
from gossamer.experiments.tasks import seeded_like
from gossamer.privacy import Terms
from gossamer.setting import setting_of
from gossamer.simulate import simulate
from gossamer.spec import Spec
from gossamer.spec.build import Parts, build, paced
from gossamer.spec.description import OWN_STEPS
from gossamer.spec.rules import goes_on, standardises
from gossamer.streams import OnePass
from gossamer.streams.stream import weights_of

Coordinates = Sequence[tuple[str, tuple[float, ...]]]
ROOT = math.sqrt(2)
WIDE: Coordinates = (
    ("step", (0.25, 0.5, 2.0, 4.0)),
    ("l2", (0.1, 10.0)),
    ("clip", (0.5, 2.0)),
    ("start", (0.25, 0.5, 0.75)),
    ("rounds", (0.5, 2.0)),
    ("step", (1 / ROOT, ROOT)),
)
NARROW: Coordinates = (("step", (0.5, 2.0)), ("clip", (0.5, 2.0)), ("start", (0.25, 0.75)))  # where each one costs


@dataclass(frozen=True)
class Candidate:
    """What is tuned, in units of what the rules say; all at the rules' own by default."""

    step: float = 1.0
    l2: float = 1.0
    clip: float = 1.0
    start: float | None = None  # as a share of the run; None: by rule
    rounds: float = 1.0

    def moved(self, name: str, value: float) -> Candidate:
        """With another value of one coordinate: a factor more, or another start."""
        return replace(self, **{name: value if name == "start" else getattr(self, name) * value})

    def __str__(self) -> str:
        told = [f"{name} × {getattr(self, name):.3g}" for name in ("step", "l2", "clip") if getattr(self, name) != 1]
        told += [] if self.start is None else [f"first release at {self.start:g} of the run"]
        told += [] if self.rounds == 1 else [f"rounds × {self.rounds:g}"]
        return ", ".join(told) or "the rules' own"


class Trial(NamedTuple):
    """A candidate, with what it makes of a description, and its score: more is better."""

    candidate: Candidate
    score: float  # −∞ where it cannot be run, or diverges
    why: str = ""


Attempt = Callable[[Sequence[Candidate]], Sequence[Trial]]  # several candidates, none of which depends on another


def check_tunable(spec: Spec) -> None:
    """Tuning is for own records that are read in the first half of a run, and gone on over in the second."""
    if spec.data.csv is None:
        raise GossamerError(
            "gossamer tune is for your own data: give ", Argument("csv", "FILE"), " ", Argument("target", "COLUMN"), "."
        )
    if not goes_on(spec, None):
        given = spec.given()
        named = next(name for name in ("per_round", "gradient", "where") if name in given)
        raise GossamerError(
            Argument(named, given[named]), " is not tuned: rules and tuning are for gradients over all records so far, "
            "at a pace by rule; leave it out."
        )  # fmt: skip


def open_to_tuning(spec: Spec, coordinates: Coordinates) -> Coordinates:
    """The coordinates that nobody has given, and that such a run has."""
    given = spec.given()
    closed: set[str] = {name for name in ("l2", "clip") if name in given}
    closed |= {"rounds"} if "steps" in given else set()
    closed |= {"step"} if given.get("step", AUTO) != AUTO else set()
    closed |= {"start"} if "releases" in given or "horizon" in given else set()
    closed |= set() if spec.private else {"clip", "start"}
    # With standardised numbers the rule's own start is at ½: gossamer.privacy.plan.
    known = {0.5} if standardises(spec, None) else set()
    left = [(name, tuple(v for v in values if name != "start" or v not in known)) for name, values in coordinates]
    return [(name, values) for name, values in left if name not in closed]


def count(coordinates: Coordinates) -> int:
    """How many candidates a search runs, with the rules' own."""
    return 1 + sum(len(values) for _, values in coordinates)


def search(coordinates: Coordinates, attempt: Attempt, margin: float = 0.0) -> tuple[Candidate, list[Trial]]:
    """The best candidate, and all that were tried. One replaces the best where it is better by more than `margin`."""
    tried = [*attempt([Candidate()])]
    best = tried[0]
    for name, values in coordinates:
        tried += attempt([best.candidate.moved(name, value) for value in values])
        newest = max(tried[-len(values) :], key=lambda trial: trial.score)
        best = newest if newest.score > best.score + margin else best
    return best.candidate, tried


def in_turn(score: Callable[[Candidate], float], done: Callable[[int], None] = lambda k: None) -> Attempt:
    """One candidate after the other, in this process; `done` is told how many there were."""
    tried = 0

    def attempt(candidates: Sequence[Candidate]) -> list[Trial]:
        nonlocal tried
        trials = []
        for candidate in candidates:
            trials.append(attempted(candidate, score))
            tried += 1
            done(tried)
        return trials

    return attempt


def attempted(candidate: Candidate, score: Callable[[Candidate], float]) -> Trial:
    """With its score, or with why it has none."""
    try:
        return Trial(candidate, score(candidate))
    except (NotProvable, BudgetUnmet) as error:  # too few rounds for such a start, or too small a budget
        if candidate == Candidate():  # the rules' own: what is wrong is the description
            raise
        return Trial(candidate, -math.inf, str(error))


def settled(spec: Spec, candidate: Candidate, read: OnePass) -> Spec:
    """The description with a candidate's settings, in numbers, as the rules say them for so many records."""
    if candidate.rounds != 1:
        spec = spec.but(steps=round(candidate.rounds * OWN_STEPS))
    usual = build(spec, read)
    changed: dict[str, Any] = {}
    if candidate.l2 != 1:
        changed["l2"] = float(f"{candidate.l2 * usual.model.l2:.3g}")
    if candidate.clip != 1 and usual.model.clip is not None:
        changed["clip"] = float(f"{candidate.clip * usual.model.clip.c:.4g}")
    if candidate.start is not None:
        rule = terms_of(usual)[0].releases
        start = replace(rule, after=int(candidate.start * usual.steps), head=0, pause=0)
        changed["releases"] = start.argument.value
    spec = spec.but(**changed)
    if candidate.step == 1:
        return spec
    first = candidate.step * first_step(build(spec, read))
    return spec.but(step=f"{first:.4g},{find_method(spec.algorithm.algorithm).step_exponent:g}")


def terms_of(parts: Parts) -> Sequence[Terms]:
    """Every learner's exact noise, as a run of these parts has it."""
    assert parts.mechanism is not None
    return parts.mechanism.over(parts.steps).terms(_setting(parts))


def _setting(parts: Parts) -> Any:
    gradient: Any = parts.spec.algorithm.gradient
    return setting_of(parts.algorithm, parts.network, parts.stream, parts.model, gradient, parts.steps)


def first_step(parts: Parts) -> float:
    """λ0 by rule."""
    privacy = None if parts.mechanism is None else parts.mechanism.over(parts.steps)
    return found_step(
        parts.algorithm, parts.network, parts.model, parts.stream.table, privacy, parts.steps, partial(_setting, parts),
        weights_of(parts.stream),
    )  # fmt: skip


def with_steps(parts: Parts) -> Algorithm[Any]:
    """The algorithm with λ0, where that is left to the rule."""
    algorithm = parts.algorithm
    return algorithm if algorithm.with_step is None else algorithm.with_step(first_step(parts))


class Rehearsals:
    """Scores on records that may be looked at: those of a sample, with the steps and the noise of the run itself.

    `read` are the records of the run, of which only their number is used. The sample is learnt from, its test records
    are predicted. Noise is seeded, and of the scales that the run will have with its own number of records.
    """

    def __init__(self, spec: Spec, read: OnePass, sample: OnePass, seeds: int) -> None:
        self._spec, self._read, self._sample = spec, read, sample
        self._seeds = range(seeds if spec.private else 1)

    @property
    def margin(self) -> float:
        """What a better candidate must be better by: half of the deviation that chance gives a score."""
        assert self._sample.test is not None
        return 0.25 / math.sqrt(len(self._sample.test))

    def __call__(self, candidate: Candidate) -> float:
        return float(np.mean(list(self._scores(candidate))))

    def _scores(self, candidate: Candidate) -> Iterator[float]:
        parts = build(settled(self._spec, candidate, self._read), self._read)
        terms = terms_of(parts) if parts.mechanism is not None else None
        algorithm, sample, gradient = with_steps(parts), paced(parts.spec, self._sample), parts.spec.algorithm.gradient
        for seed in self._seeds:
            noise = None if terms is None else seeded_like(terms, seed)
            try:
                run = simulate(
                    algorithm, parts.network, sample, model=parts.model, privacy=noise, steps=parts.steps,
                    gradient=gradient, seed=seed, evaluate_every=parts.steps,  # type: ignore[arg-type]
                )  # fmt: skip
            except Diverged:
                yield -math.inf
                continue
            score = float(run.history.accuracy[-1])
            yield score if math.isfinite(score) else -math.inf
