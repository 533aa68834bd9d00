"""Sentences for schedules that break what a method's proof asks for; each says what the break costs."""

from __future__ import annotations

import math

from gossamer.schedules import Decay, Schedule, power_of

SUMMABLE = "the steps must add up to ∞ and their squares must not"


def step_within(
    step: Schedule, low: float, high: float, why: str, *, ends: str = "(]", name: str = "step"
) -> list[str]:
    """λ_t = λ0/(t+1)^v with v from low to high; `ends` says which of them are allowed, as for an interval."""
    v = power_of(step)
    if v is None:
        return [f"the {name} is not one decay(initial, exponent) for all learners, so nothing of it can be checked."]
    above = v > low or (v == low and ends[0] == "[")
    below = v < high or (v == high and ends[1] == "]")
    if above and below:
        return []
    least, most = "from" if ends[0] == "[" else "above", "at most" if ends[1] == "]" else "below"
    asked = f"{low:g}" if low == high else f"{least} {low:g} and {most} {high:g}"
    return [f"the {name}'s exponent is {v:g} and must be {asked}: {why}."]


def noise_above(noise: Schedule | None, low: float, why: str) -> list[str]:
    """ν_t = ν0/(t+1)^ς with ς > low, for every learner; geometric noise falls faster than any power."""
    if noise is None:
        return []
    if not isinstance(noise, Decay):
        return ["the noise is not decay(initial, exponents), so nothing of it can be checked."]
    lowest = min(noise.exponents()) if noise.ratio == 1 else math.inf
    return [] if lowest > low else [f"the noise's exponent is {lowest:g} and must be above {low:g}: {why}."]


def fading_links_within(
    weaken: Schedule, step: Schedule, noise: Schedule | None, *, low: float = -math.inf, ends: str = "(]"
) -> list[str]:
    """γ_t = (t+1)^-u with u from 0 and below 1: steps fall faster than γ_t and than t^-low, noise than t^-(½ - u)."""
    u = power_of(weaken)
    if u is None:
        return ["the weakening factor is no power of t, so nothing of it can be checked."]
    sentences = step_within(weaken, 0, 1, "links must not grow, nor fade away", ends="[)", name="weakening factor")
    faster = f"the steps must fade faster than the links, as t^-{u:g}"
    sentences += step_within(step, max(u, low), 1, faster, ends=ends)
    return sentences + noise_above(noise, 0.5 - u, "else the weakened noise has no bounded variance")
