"""Assumption 4 of Chen & Wang: how steps and noise on messages fade.

λ_t = λ0/(t+1)^v, ½ < v < 1        σ_{i,t} = σ_{i,0}/(t+1)^ς_i, ½ < ς_i < 1, of ζ and of ϑ        max ς_i < v
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from gossamer.errors import Argument, Sentence
from gossamer.schedules import Decay, Schedule
from gossamer.theory.findings import FAILS, HOLDS, UNKNOWN, Finding, Part

Where = Literal["messages", "source"]


class Fading(NamedTuple):
    """How a run's steps and noise fade, as far as it is known; None: not known."""

    v: float | None
    zeta: tuple[float, ...] | None  # ς_{i,ζ}, one for each learner or one for all; (): there is no noise
    theta: tuple[float, ...] | None  # ς_{i,ϑ}

    @property
    def noise(self) -> tuple[float, ...]:
        return (*(self.zeta or ()), *(self.theta or ()))


def fading(step: Schedule | None, noise: Sequence[Schedule | None]) -> Fading:
    """The exponents of the step and of the noise on s and on θ; None where a schedule is no power of t."""
    v = step.exponent if isinstance(step, Decay) and step.ratio == 1 and isinstance(step.exponent, float) else None
    zeta, theta = (_exponents(one) for one in noise)
    return Fading(v, zeta, theta)


def _exponents(noise: Schedule | None) -> tuple[float, ...] | None:
    if noise is None or (isinstance(noise, Decay) and not np.any(np.asarray(noise.initial) > 0)):
        return ()
    return tuple(noise.exponents()) if isinstance(noise, Decay) and noise.ratio == 1 else None


def schedules(step: Schedule | None, noise: Sequence[Schedule | None], where: Where) -> Finding:
    """Assumption 4 of a step and of the noise on s and on θ."""
    known = fading(step, noise)
    parts = [_step(step, known.v), _drawn(noise, known, where)]
    if known.noise:
        parts += [_each(known), _below_step(known)]
    return Finding(4, "steps and noise", tuple(parts))


def _step(step: Schedule | None, v: float | None) -> Part:
    name = "(a) the step"
    if v is None:
        change = Sentence("Use ", _step_argument(0.8), ".")
        if isinstance(step, Decay):
            why = "the step is not λ0/(t+1)^v with one v for all learners."
            return Part(name, FAILS, Sentence(why), "the schedule", change)
        return Part(name, UNKNOWN, Sentence("how the step fades is not known."), "–", change)
    if isinstance(step, Decay) and not np.all(np.asarray(step.initial) > 0):
        return Part(name, FAILS, Sentence("λ0 = 0, and must be above 0."), "the schedule")
    if 0.5 < v < 1:
        return Part(name, HOLDS, Sentence(f"v = {v:g}, within ½ and 1."), "the schedule")
    slow = "the squares of the steps do not add up" if v <= 0.5 else "steps fade before learners are there"
    why = f"v = {v:g}, and ½ < v < 1 is asked for: {slow}."
    return Part(name, FAILS, Sentence(why), "the schedule", Sentence("Use ", _step_argument(0.8), "."))


def _step_argument(v: float) -> Argument:
    return Argument("step", f"λ0,{v:g}", python=f"step=decay(λ0, {v:g})")


def _noise_argument(exponent: float) -> Argument:
    return Argument("noise", f"ν0,{exponent:g}", python=f"noise=decay(ν0, {exponent:g})")


def _drawn(noise: Sequence[Schedule | None], known: Fading, where: Where) -> Part:
    name = "(b) the noise"
    if where == "source":
        why = "noise is on gradients, at the source: Assumption 4, and with it all theorems, are about messages."
        change = Sentence("Use ", Argument("where", "messages"), ", which costs accuracy at the same ε.")
        return Part(name, FAILS, Sentence(why), "by construction", change)
    if known.zeta is None or known.theta is None:
        if any(isinstance(one, Decay) for one in noise):
            why = "the noise does not fade like a power of t."
            return Part(name, FAILS, Sentence(why), "the schedule", Sentence("Use ", _noise_argument(0.55), "."))
        return Part(name, UNKNOWN, Sentence("what the noise is like is not known."), "–")
    if not known.noise:
        why = "there is no noise: Theorems 1 to 3 hold with σ = 0, and Theorem 4 says nothing."
        return Part(name, HOLDS, Sentence(why), "the schedule")
    why = "messages carry noise of mean 0, drawn anew in every round."
    return Part(name, HOLDS, Sentence(why), "by construction")


def _learner(exponents: tuple[float, ...], k: int) -> str:
    return "every learner" if len(exponents) == 1 else f"learner {k}"


def _span(exponents: tuple[float, ...]) -> str:
    low, high = min(exponents), max(exponents)
    return f"ς = {low:g}" if low == high else f"ς from {low:g} to {high:g}"


def _each(known: Fading) -> Part:
    name = "(c) noise exponents"
    for exponents in (known.zeta or (), known.theta or ()):
        for k, one in enumerate(exponents):
            if not 0.5 < one < 1:
                slow = "its noise does not fade fast enough to converge" if one <= 0.5 else "no step fades faster"
                why = f"{_learner(exponents, k)} has ς = {one:g}, and ½ < ς < 1 is asked for: {slow}."
                change = Sentence("Use ", _noise_argument(_between(0.5, known.v)), ".")
                return Part(name, FAILS, Sentence(why), "the schedule", change)
    return Part(name, HOLDS, Sentence(f"{_span(known.noise)}, within ½ and 1."), "the schedule")


def _below_step(known: Fading) -> Part:
    name, v = "(d) max ς < v", known.v
    if v is None:
        return Part(name, UNKNOWN, Sentence("the step's v is not known."), "–")
    highest = max(known.noise)
    if highest < v:
        return Part(name, HOLDS, Sentence(f"max ς = {highest:g} < v = {v:g}."), "the schedule")
    exponents = max((known.zeta or (), known.theta or ()), key=lambda each: max(each, default=0.0))
    who = _learner(exponents, exponents.index(highest))
    why = f"{who} has ς = {highest:g}, not below v = {v:g}: its budget for ever is not finite."
    change = [Sentence("Use ", _noise_argument(_between(0.5, v)))] if v > 0.5 else []
    if highest < 1:
        faster = ("or " if change else "Use ", _step_argument(_between(highest, 1.0)))
        change = [*change, Sentence(*((", ",) if change else ()), *faster)]
    return Part(name, FAILS, Sentence(why), "the schedule", Sentence(*change, "."))


def _between(low: float, high: float | None) -> float:
    """Halfway, to two digits where that is still between."""
    middle = (low + (1.0 if high is None or not high > low else high)) / 2
    rounded = round(middle, 2)
    return rounded if low < rounded < (high or 1.0) else middle
