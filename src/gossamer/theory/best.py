"""Which exponents are best: the fastest proved rate among those with a budget that is finite for ever, or the reverse.

A schedule here is two exponents: v of the steps, and ς of noise on messages (for s and θ alike) or α of noise at the
source. Every proved rate is a minimum of affine functions of the two, and so is every condition:

    proof        rate                        finite for ever, Laplace      Gaussian              conditions
    "paper"      min{½, 2−2v, 2ς−v}          v − ς > 0                     v + ½ − ς > 0         ½ < v < 1, ½ < ς < 1
    "ours"       min{1, 2v, 2ς−v}            the same                      the same              0 < v < 1
    at source    min{1, 2v, v+2α}            −α > 0                        ½ − α > 0             0 < v < 1

The number that must be above 0 is called the *room*: the budget's tail is Σ t^−(1+room), or Σ t^−(1+2 room) for
Gaussian noise, so more room is a smaller ε for the same first noise. The best schedule is then a linear program,
solved twice: for the best of what is asked for, and, among those that have it, for the most of the other.

    target="rate"      the fastest rate; among those the most room
    target="budget"    the most room with a rate of `at_least`; among those the fastest

The sets are open, so the best may lie on an edge that is not allowed: `slack` is the distance that is kept from
every strict condition. These are statements about t → ∞, and constants are not in them: steps that fall like t^−0.95
forget where they started very slowly. The history of a record is all records so far, as everywhere in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from gossamer.errors import BadValue, GossamerError

Affine = tuple[float, float, float]  # a v + b x + c, with x = ς or α
Law = Literal["laplace", "gaussian"]
Proof = Literal["paper", "ours", "source"]

DIGITS, NEARLY = 5, 1e-6  # of an answer; and what the solver may be off by
V: Affine = (1, 0, 0)
UNDER_ONE: Affine = (-1, 0, 1)
RATES: dict[Proof, tuple[Affine, ...]] = {
    "paper": ((0, 0, 0.5), (-2, 0, 2), (-1, 2, 0)),
    "ours": ((0, 0, 1), (2, 0, 0), (-1, 2, 0)),
    "source": ((0, 0, 1), (2, 0, 0), (1, 2, 0)),
}
ROOM: dict[tuple[Proof, Law], Affine] = {
    ("paper", "laplace"): (1, -1, 0),
    ("paper", "gaussian"): (1, -1, 0.5),
    ("ours", "laplace"): (1, -1, 0),
    ("ours", "gaussian"): (1, -1, 0.5),
    ("source", "laplace"): (0, -1, 0),
    ("source", "gaussian"): (0, -1, 0.5),
}
CONDITIONS: dict[Proof, tuple[Affine, ...]] = {  # each above 0
    "paper": ((1, 0, -0.5), UNDER_ONE, (0, 1, -0.5), (0, -1, 1)),
    "ours": (V, UNDER_ONE),
    "source": (V, UNDER_ONE),
}


@dataclass(frozen=True)
class Best:
    """Exponents, the rate that is proved for them, and how far they are from a budget that grows for ever."""

    v: float
    noise: float  # ς of messages, or α at the source: noise falls like t^−noise
    rate: float
    room: float


def best_schedule(
    target: Literal["rate", "budget"] = "rate",
    *,
    at_least: float = 0.0,
    law: Law = "laplace",
    proof: Proof = "paper",
    slack: float = 0.05,
) -> Best:
    """The best exponents; `proof` says by which statement, "source" the one for noise at the source."""
    if target not in ("rate", "budget"):
        raise BadValue("target", target, "expected 'rate' or 'budget'")
    if (proof, law) not in ROOM:
        raise BadValue("proof", f"{proof} with {law}", f"expected {', '.join(RATES)}, with laplace or gaussian")
    if not 0 < slack < 0.25:
        raise BadValue("slack", slack, "expected above 0 and below 0.25")
    rate, room = RATES[proof], (ROOM[proof, law],)
    allowed = [(form, slack) for form in (*CONDITIONS[proof], *room)] + [(form, max(slack, at_least)) for form in rate]
    first, then = (rate, room) if target == "rate" else (room, rate)
    _, best = _largest(first, allowed)
    found, _ = _largest(then, allowed + [(form, best - NEARLY) for form in first])
    v, noise = (round(one, DIGITS) for one in found)
    return Best(v, noise, _value(rate, v, noise), _value(room, v, noise))


def _largest(forms: tuple[Affine, ...], allowed: list[tuple[Affine, float]]) -> tuple[tuple[float, float], float]:
    """The (v, x) at which the least of `forms` is largest, and how large; allowed forms have at least their values."""
    rows = [(-a, -b, 1.0, c) for a, b, c in forms] + [(-a, -b, 0.0, c - least) for (a, b, c), least in allowed]
    table = np.array(rows)
    found = scipy.optimize.linprog([0, 0, -1], A_ub=table[:, :3], b_ub=table[:, 3], bounds=[(None, None)] * 3)
    if found.x is None:
        raise GossamerError(
            f"no schedule has a rate of {max(least for _, least in allowed):g} and a budget that is finite for ever: "
            "ask for a slower rate, or for another law or proof."
        )
    v, x, value = map(float, found.x)
    return (v, x), value


def _value(forms: tuple[Affine, ...], v: float, x: float) -> float:
    return round(min(a * v + b * x + c for a, b, c in forms), DIGITS)
