"""How large a record's gradient can be, and how fast it can change: from the data's declared range, or from a clipper.

For a linear model ∇l(θ) = a ⊗ w with weights w(margins, b), so in either norm ‖∇l‖ = ‖a‖ ‖w‖, and

    logistic   |w| < 1,           w' ≤ 1/4     c = ‖a‖          L = ‖a‖₁ ‖a‖_∞/4  (L1)    ‖a‖₂²/4  (L2)
    softmax    ‖w‖₁ < 2, ‖w‖₂ < √2             c = 2‖a‖₁, √2‖a‖₂  L = ‖a‖₁ ‖a‖_∞/2  (L1)    ‖a‖₂²/2  (L2)
    squared    unbounded,         w' = 1       c from a clipper  L = ‖a‖₁ ‖a‖_∞    (L1)    ‖a‖₂²    (L2)

(margins move by |aᵀΔθ| ≤ ‖a‖_∞ ‖Δθ‖₁ and ≤ ‖a‖₂ ‖Δθ‖₂; softmax's Jacobian diag(p) − ppᵀ has column sums
2p_k(1−p_k) ≤ ½ in absolute value, and norm ≤ ½.)

A clipper scales a gradient back radially onto the ball of radius c. That keeps L in L2, where it is the projection,
and at most doubles it in L1 (the radial map onto a ball is 2-Lipschitz in every norm; Dunkl & Williams, "A Simple
Norm Inequality", Amer. Math. Monthly 1964). The clipper's norm has to be the noise's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gossamer.records import FeatureBounds
from gossamer.types import GossamerError

Norm = Literal[1, 2]


@dataclass(frozen=True)
class Clip:
    """Gradients longer than c in the given norm are scaled back to c; each record's, or a whole round's mean."""

    norm: Norm
    c: float
    per: Literal["record", "round"] = "record"

    def __post_init__(self) -> None:
        if not 0 < self.c < math.inf:
            raise GossamerError(f"clip_l{self.norm}(c={self.c!r}): expected a finite number above 0.")
        if self.per not in ("record", "round"):
            raise GossamerError(f"clip_l{self.norm}(per={self.per!r}): expected 'record' or 'round'.")


def clip_l1(c: float, per: Literal["record", "round"] = "record") -> Clip:
    """Clip to ‖∇l‖₁ ≤ c: what Laplace noise is accounted from."""
    return Clip(1, c, per)


def clip_l2(c: float, per: Literal["record", "round"] = "record") -> Clip:
    """Clip to ‖∇l‖₂ ≤ c: what Gaussian noise is accounted from."""
    return Clip(2, c, per)


class Reach(NamedTuple):
    """A bound c of a gradient's norm and L of its change per change of θ, both in one norm; ∞ where unknown."""

    c: float
    L: float


def reach(
    weight: float, slope: float, features: FeatureBounds | None, clip: Clip | None, norm: Norm, name: str
) -> Reach:
    """c and L of a model with ‖w‖ ≤ weight and ‖Δw‖ ≤ slope · |Δmargin|; refuses where nothing bounds the gradient."""
    if features is None:
        c, L = math.inf, math.inf
    elif norm == 1:
        c, L = weight * features.l1, slope * features.l1 * features.most
    else:
        c, L = weight * features.l2, slope * features.l2**2
    if clip is not None:
        if clip.norm != norm:
            kind = "Laplace" if norm == 1 else "Gaussian"
            raise GossamerError(
                f"{kind} noise is accounted in L{norm} and {name} clips in L{clip.norm}: use clip_l{norm}."
            )
        c, L = min(c, clip.c), L * (1 if norm == 2 else 2)
        if clip.per == "round":
            L = math.inf if features is None else L
    if not math.isfinite(c):
        remedy = (
            f"clip=clip_l{norm}(c)" if features is not None else f"declared feature ranges, or clip=clip_l{norm}(c)"
        )
        raise GossamerError(f"nothing bounds the gradients of {name}, so no privacy can be proved: give it {remedy}.")
    return Reach(c, L)
