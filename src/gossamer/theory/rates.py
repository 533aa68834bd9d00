"""How fast the paper's theorems let Algorithm 1 converge, from three exponents alone.

    λ_t = λ0 (t+1)^−v,    E‖ζ_t‖² ≤ σ_ζ² (t+1)^−2ς_ζ,    E‖ϑ_t‖² ≤ σ_ϑ² (t+1)^−2ς_ϑ

    Theorem 1, 2   E‖θ_i,t − θ*‖² = O(t^−β),   β = min{v+½, 2−v, 2ς_ϑ, 2ς_ζ} − α      for every α ∈ (v, (1+v)/2)
    Theorem 2      E[F(θ_i,t) − F*] = O(t^−β/2)
    Theorem 3      E[F(θ_i,t) − F*] = O(t^−(1−v))                                      convex, μ ≥ 0
    Lemma 7        E‖s_t − ωs̄_t‖²   = O(t^−min{2, 2v, 2ς_ζ})
    Lemma 8        E‖θ_t − 1θ̄_t‖²   = O(t^−min{2, 2v, 2ς_ϑ, 2ς_ζ})

**What `beta` is.** β grows as α falls, and α must stay above v. So there is no best α: `beta` is the supremum,
min{½, 2−2v, 2ς_ϑ−v, 2ς_ζ−v}, the limit for α → v. Every smaller rate is proved, by an α near v, with constants that
grow as α comes nearer; the limit itself is approached and not attained. `at(alpha)` is β at an α of one's own.

**Where the formulas apply.** v and all ς in (½, 1), and ς < v (Assumption 4). The proofs of convergence use the
first, as upper bounds on the noise, and never ς < v: only the budget for ever does (Theorem 4, part 2). So

    v ∉ (½, 1), or a ς ≤ ½      refused, in one sentence: the theorems say nothing
    ς ≥ v                       rates as they are, with a sentence in `broken`: the budget is not finite for ever
    ς ≥ 1, or ∞: no noise       as for ς → 1: noise that fades faster is also bounded by noise that fades more slowly

Where learners' exponents differ, the smallest decides the rate and the largest the budget: give one for each learner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gossamer.errors import BadValue
from gossamer.theory.last_iterate import last_iterate


class LDOL(NamedTuple):
    """What the paper says of LDOL, its predecessor on undirected graphs: E‖θ − θ*_t‖²; E[F − F*] if only convex."""

    beta: float
    convex: float


@dataclass(frozen=True)
class Rates:
    """Exponents β of O(t^−β), and what they rest on."""

    v: float
    s_zeta: float  # the smallest of all learners'
    s_theta: float
    beta: float  # Theorems 1 and 2, squared error: the supremum over α, not attained
    alpha: float  # the α that it is the limit for: v
    decides: str  # the term of β that is smallest
    gap: float  # Theorem 2, E[F − F*]
    convex: float  # Theorem 3
    consensus: float  # Lemma 8
    tracker: float  # Lemma 7
    sharper: float  # our own rate for the squared error, where every record's loss is strongly convex
    ldol: LDOL
    broken: tuple[str, ...]  # sentences: what of Assumption 4 does not hold, and what that costs

    def at(self, alpha: float) -> float:
        """β of Theorem 1 at an α of the open interval (v, (1+v)/2); there it is attained."""
        if not self.v < alpha < (1 + self.v) / 2:
            raise BadValue("alpha", alpha, f"expected between v = {self.v:g} and (1+v)/2 = {(1 + self.v) / 2:g}")
        return self.beta + self.v - alpha

    @property
    def reasons(self) -> dict[str, str]:
        """For each rate, on which theorem and which assumptions it rests."""
        return {
            "beta": f"Theorems 1 and 2, for μ > 0: every rate below {self.beta:.3g} is proved, by an α near v; "
            f"{self.decides} decides.",
            "gap": "Theorem 2, for μ > 0: half of beta, because gradients are bounded.",
            "convex": "Theorem 3, for μ ≥ 0: 1 − v, whatever the noise. Its proof takes for granted that the gap never "
            "rises, which it does: of means over time 1 − v is proved, of the last iterate up to a logarithm.",
            "consensus": "Lemma 8, for μ ≥ 0: how fast learners come together.",
            "tracker": "Lemma 7, for μ ≥ 0: how fast the trackers s_i take their places.",
            "sharper": "Our statement, for losses that are strongly convex record by record: "
            "see gossamer.theory.last_iterate.",
            "ldol": "As the paper says of LDOL, for undirected graphs and under LDOL's own conditions.",
        }


def rates(v: float, s_zeta: float | Sequence[float], s_theta: float | Sequence[float]) -> Rates:
    """The rates for these exponents; a sequence has one for each learner."""
    if not 0.5 < v < 1:
        raise BadValue("v", v, "Assumption 4 asks for ½ < v < 1: of other steps nothing is proved")
    zeta, theta = _exponents("s_zeta", s_zeta), _exponents("s_theta", s_theta)
    low_zeta, low_theta = min(zeta), min(theta)
    z, th = min(low_zeta, 1.0), min(low_theta, 1.0)
    terms = {"½": 0.5, "2 − 2v": 2 - 2 * v, "2ς_ϑ − v": 2 * th - v, "2ς_ζ − v": 2 * z - v}
    decides = min(terms, key=lambda name: terms[name])
    beta = terms[decides]
    return Rates(
        v, low_zeta, low_theta, beta, v, decides, beta / 2,
        convex=1 - v,
        consensus=min(2 * v, 2 * z, 2 * th),
        tracker=min(2 * v, 2 * z),
        sharper=last_iterate(v, low_zeta, low_theta).error,
        ldol=LDOL(min(1 - v, 2 * th - 1), (1 - v) / 2),
        broken=tuple(_broken(v, max(zeta), max(theta))),
    )  # fmt: skip


def _exponents(name: str, given: float | Sequence[float]) -> list[float]:
    try:
        exponents = [float(given)] if isinstance(given, int | float) else [float(one) for one in given]
    except (TypeError, ValueError):
        raise BadValue(name, given, "expected a number, or one for each learner") from None
    for one in exponents:
        if not one > 0.5:
            raise BadValue(name, one, "Assumption 4 asks for ς > ½: of noise that fades more slowly nothing is proved")
    if not exponents:
        raise BadValue(name, given, "expected an exponent, or one for each learner")
    return exponents


def _broken(v: float, zeta: float, theta: float) -> list[str]:
    return [
        f"Assumption 4 asks for {name} < v and {name} = {one:g} where v = {v:g}: under Laplace noise the budget is not "
        "finite for ever."
        for name, one in (("ς_ζ", zeta), ("ς_ϑ", theta))
        if v <= one < math.inf
    ]
