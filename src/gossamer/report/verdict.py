"""Why a run ended where it did: one sentence with the likely cause and what to change, or none where it ended well.

A run ended badly where it is nearer to the majority class than a tenth of the way to the central fit θ*, or more than
.03 below θ*; or where θ* itself is, and a weaker penalty would not be. A column that is clipped in most records is said
however the run ended, for θ* was found on the same. Causes are asked in the order of CAUSES, and the first whose
evidence holds is named: each asks a question that makes no sense while an earlier one is open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gossamer.errors import Argument, Part, Sentence

NEAR = 0.1  # of the way from the majority class to θ*
FAR = 0.03  # accuracy or R² below θ*
NOTHING = 0.01  # θ* with so little more than the majority class has nothing to learn
RELAXED = 100.0  # times weaker: the penalty that is tried instead
LONG, SHORT = 2.0, 0.1  # steps times curvature: above the one they overshoot, below the other they creep
RISEN = 2.0  # times the least error on the way
FALLING = 0.05  # of the error, in the last quarter
APART = 0.5  # of the error: what learners differ by from each other
MOST = 0.5  # of a column's values: more than that clipped, and little of the column is left
WIDE = 10.0  # times what its values fill: a range that wide hides them
THERE = 0.01  # of what θ* gains: who is that near to it has learnt what it tells, and the rest is chance


class Facts(NamedTuple):
    """What is known of a run that has ended. Accuracies, or R², are all on the same records."""

    reached: float
    majority: float  # 0 for a quantity
    optimum: float  # of θ*
    relaxed: float | None  # of θ* with a hundredth of the penalty; None: the penalty is small beside the curvature
    without_noise: float | None  # of the same run without noise, where it was run
    noise: float  # how far noise alone moves a record's margin at the end, as a deviation; 0: there is none
    lag: float  # likewise, how far steps and rounds leave it from θ*'s
    falling: float  # by what share of its loss that still fell in the last quarter
    step: float  # the longest move of the mean model for a gradient of 1, times the curvature of F
    by_rule: bool  # whether steps were found by rule
    budget: bool  # whether noise was found for a budget
    l2: float
    steps: int
    gap: Sequence[float]  # F(θ) − F(θ*) at every evaluation
    gain: float  # F of the best prediction that needs no features − F(θ*)
    apart: float  # ‖θ − θ̄‖ at the end, in ‖θ − θ*‖
    standardised: bool = False  # whether learners see numbers in units of their spread
    clipped: tuple[str, float] | None = None  # the column of which most was clipped, and which share; None: none was
    wide: tuple[str, float] | None = None  # the column whose declared range is widest, in what its values fill of it


class Cause(NamedTuple):
    """A cause, the evidence for it, and the sentence that says so."""

    name: str
    holds: Callable[[Facts], bool]
    says: Callable[[Facts], list[Part]]


class Verdict(NamedTuple):
    cause: str
    sentence: Sentence


def ended_badly(reached: float, majority: float, optimum: float) -> bool:
    """Near the majority class, or far from θ*."""
    near = optimum - majority >= NOTHING and reached - majority < NEAR * (optimum - majority)
    return near or optimum - reached > FAR


def verdict(facts: Facts) -> Verdict | None:
    """The likely cause where a run ended badly."""
    badly = ended_badly(facts.reached, facts.majority, facts.optimum) and facts.gap[-1] > THERE * facts.gain
    if not (badly or _nothing_to_learn(facts) or _too_stiff(facts) or _cut(facts)):
        return None
    cause = next(cause for cause in CAUSES if cause.holds(facts))
    return Verdict(cause.name, Sentence(*cause.says(facts)))


def _cut(facts: Facts) -> bool:
    return facts.clipped is not None and facts.clipped[1] > MOST


def _too_narrow(facts: Facts) -> list[Part]:
    assert facts.clipped is not None
    name, share = facts.clipped
    return [
        f"The range of {name} is likely wrong: {100 * share:.0f} % of its values lay outside and were clipped to its "
        "ends; give one that holds them with ", Argument("ranges"), ".",
    ]  # fmt: skip


def _loose(facts: Facts) -> bool:
    """Whether a range hides its column: standardised numbers are hidden by noise alone."""
    return facts.wide is not None and facts.wide[1] > WIDE and (_loud(facts) or not facts.standardised)


def _too_wide(facts: Facts) -> list[Part]:
    assert facts.wide is not None
    name, times = facts.wide
    return [
        f"The range of {name} is likely too wide: it is {times:.3g} times what its values fill; give a narrower one "
        "with ", Argument("ranges"), ".",
    ]  # fmt: skip


def _too_stiff(facts: Facts) -> bool:
    return facts.relaxed is not None and ended_badly(facts.optimum, facts.majority, facts.relaxed)


def _penalty(facts: Facts) -> list[Part]:
    weaker = facts.l2 / RELAXED
    return [
        f"The penalty is the likely cause: even the central fit has {facts.optimum:.3f} with ",
        Argument("l2", facts.l2), f" and {facts.relaxed:.3f} with a hundredth of it: use ", Argument("l2", weaker), ".",
    ]  # fmt: skip


def _nothing_to_learn(facts: Facts) -> bool:
    return facts.optimum - facts.majority < NOTHING and facts.optimum - facts.reached <= FAR


def _nothing(facts: Facts) -> list[Part]:
    return ["No setting would help: the central fit itself is hardly better than what needs no learning; bring "
            "features that tell more of the target."]  # fmt: skip


def _rose(facts: Facts) -> bool:
    least = float(np.nanmin(facts.gap))
    return facts.gap[-1] > RISEN * max(least, 1e-12) and facts.gap[-1] > facts.gap[3 * len(facts.gap) // 4 - 1]


def _overshoots(facts: Facts) -> bool:
    return facts.step > LONG or (_rose(facts) and not _loud(facts))


def _too_long(facts: Facts) -> list[Part]:
    least = int(np.nanargmin(facts.gap))
    risen = f"F(θ) − F(θ*) was {facts.gap[least]:.2g} on the way and is {facts.gap[-1]:.2g}" if _rose(facts) else (
        f"it is {facts.step:.2g} times what the curvature of the loss allows"
    )  # fmt: skip
    return [f"The step is likely too long: {risen}; use a shorter ", Argument("step"), *_or_auto(facts), "."]


def _creeps_for_noise(facts: Facts) -> bool:
    """Whether steps are short because noise was found for a budget: the rule has them as long as noise allows."""
    return facts.budget and facts.by_rule and 0 < facts.step < SHORT


def _loud(facts: Facts) -> bool:
    """Whether noise is what keeps the run from θ*: by the run without it, or by what it does to a margin."""
    if _creeps_for_noise(facts):
        return True
    if facts.without_noise is not None:
        return facts.without_noise - facts.reached > 0.5 * (facts.optimum - facts.reached)
    return facts.noise > facts.lag


def _noise(facts: Facts) -> list[Part]:
    if _creeps_for_noise(facts) and facts.noise <= facts.lag:
        why = "it keeps the steps too short for so few records"
    elif facts.without_noise is not None:
        why = f"the same run without it reaches {facts.without_noise:.3f}"
    else:
        why = f"it moves a record's margin by {facts.noise:.2g}, and what was left to learn is {facts.lag:.2g}"
    remedy = ["raise ", Argument("epsilon"), ", or bring more records"] if facts.budget else [
        "lower ", Argument("noise"), *_or_shorter(facts)
    ]  # fmt: skip
    return [f"Noise is the likely cause: {why}; ", *remedy, "."]


def _or_shorter(facts: Facts) -> list[Part]:
    return [", or use a shorter ", Argument("step")] if facts.step > SHORT and not facts.by_rule else []


def _or_auto(facts: Facts) -> list[Part]:
    return [] if facts.by_rule else [", or ", Argument("step", "auto")]


def _falling(facts: Facts) -> float:
    """By what share the error fell in the last quarter of the run; noise may hide it, a rehearsal has none."""
    before = facts.gap[3 * (len(facts.gap) - 1) // 4]
    return max(facts.falling, 1 - facts.gap[-1] / before if before > 0 else 0.0)


def _too_short(facts: Facts) -> list[Part]:
    return [
        f"The step is likely too short, {facts.step:.2g} of what the curvature of the loss allows: use a longer ",
        Argument("step"), *_or_auto(facts), ".",
    ]  # fmt: skip


def _rounds(facts: Facts) -> list[Part]:
    fell = f"what was left to learn still fell by {100 * _falling(facts):.0f} % in the last quarter"
    done = 1 - facts.gap[-1] / facts.gap[0]
    more = float(np.clip(3 / max(done, 1e-9), 4, 100)) * facts.steps  # as if it went on as it went so far
    return [f"The run likely had too few rounds: {fell}; use ", Argument("steps", int(float(f"{more:.1g}"))), "."]


def _disagree(facts: Facts) -> list[Part]:
    return [
        "Learners likely had too few rounds to agree: they differ from each other by "
        f"{100 * facts.apart:.0f} % of their distance to θ*; use more ", Argument("steps"), ", a shorter ",
        Argument("step"), ", or a ", Argument("graph"), " with more links.",
    ]  # fmt: skip


def _fades(facts: Facts) -> list[Part]:
    return [
        f"Steps likely fade too early: F(θ) − F(θ*) stands still at {facts.gap[-1]:.2g}; use a ", Argument("step"),
        " that falls more slowly or starts longer", *_or_auto(facts), ".",
    ]  # fmt: skip


CAUSES: tuple[Cause, ...] = (
    Cause("range", _cut, _too_narrow),
    Cause("l2", _too_stiff, _penalty),
    Cause("features", _nothing_to_learn, _nothing),
    Cause("step", _overshoots, _too_long),
    Cause("range", _loose, _too_wide),
    Cause("noise", _loud, _noise),
    Cause("step", lambda facts: facts.step < SHORT, _too_short),
    Cause("rounds", lambda facts: _falling(facts) > FALLING, _rounds),
    Cause("rounds", lambda facts: facts.apart > APART, _disagree),
    Cause("step", lambda facts: True, _fades),
)


def baseline_words(score: str) -> dict[str, Any]:
    """What the two baselines are called, in a table and in a picture."""
    majority = "the mean, always" if score == "R²" else "majority class"
    return {"majority": majority, "optimum": "central fit without noise (θ*)"}
