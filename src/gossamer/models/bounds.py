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

**Rounding.** These are bounds of exact gradients, and a computer's are rounded, by an amount that grows with θ, which
a neighbour may steer. Let u = 2^-53 and γ_k = ku/(1 − ku). A float64 operation is exact but for a factor 1 + δ with
|δ| ≤ u, and k such factors together are 1 + δ' with |δ'| ≤ γ_k (Higham, "Accuracy and Stability of Numerical
Algorithms", 2002, section 3.1). A sum of k numbers in *any* order, with zeros in between, multiplies each of them by
at most k − 1 such factors: a tree with k leaves has no longer path. So sums may be reordered, split into lanes, fused
with products, and gathered in tables. For n columns, K outputs, |θ_k| ≤ S for all k, and g the exact clipped
gradient (clipped where the record's own limit says, which is c/‖a‖ or a hair less, and which θ does not move):

    margins    a product and n − 1 sums, and θ times the table's scale    each off by μ ≤ γ_{n+4} ‖a‖₁ S
    weights    logistic: w(margin) moves by ≤ μ/4, and its computing adds ≤ 32u           (see kernels)
               softmax:  ‖w‖₁ moves by Σ p_k |μ_k − Σ p_j μ_j| ≤ μ, and its computing adds ≤ (2K + 20) u
               squared:  moves by μ, and the difference adds ≤ u |w|, of which clipping leaves ≤ 2u · limit
    clipping   scales the error by 1, or 2 in L1, as it does L, and its computing adds ≤ (K + 4) u c
    gradient   a product with a for each coordinate: ≤ u c

    ‖computed − g‖ ≤ f ‖a‖ (sway μ + own) + (K + 8) u c = error + error_per_size S,   f = 2 in L1 with a clipper, or 1

Where whole rounds are clipped, the round is the record: to the mean's error `mean_error`, doubled in L1 as well, the
scaling back, to a hair less than c, adds (3nK + 64) u c. A squared loss's mean can be small where its records'
gradients are huge, with errors as huge: there L is ∞, which charges 2c, and so is it for networks.

Declared norms are sums and roots of n numbers themselves: they are taken (1 + (n + 16) u) times as large. Numbers
below 2^-1022 are rounded by up to 2^-1075 each: nothing beside u c, since c is taken to be 1e-100 at least. All this
is for |θ_k| ≤ 1e100 and declared norms up to 1e100, where nothing overflows. A computed gradient that was clipped has
norm ≤ c whatever θ and the record are: see `limits_of` in gossamer.models.memory and `clip_rows` in
gossamer.models.torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, overload

import numpy as np

from gossamer.errors import Argument, BadValue, NotProvable, Part
from gossamer.records import FeatureBounds
from gossamer.types import Array, Integers

Norm = Literal[1, 2]
UNIT = 2.0**-53  # u: float64's relative rounding
MOST_COLUMNS = 2**27  # more are refused; where nobody says how many there are, so many
MOST_RECORDS = 2**25  # of one mean: (k + 3)(k + 4) u ≤ 1/8 up to there
LARGEST, SMALLEST = 1e100, 1e-100  # of declared norms, and of θ; of c
LOGISTIC_ERROR = 32 * UNIT
CLIPS = 1e-30, 1e30


@dataclass(frozen=True)
class Clip:
    """Gradients longer than c in the given norm are scaled back to c; each record's, or a whole round's mean."""

    norm: Norm
    c: float
    per: Literal["record", "round"] = "record"

    def __post_init__(self) -> None:
        if not CLIPS[0] <= self.c <= CLIPS[1]:
            requirement = "expected a finite number above 0, from 1e-30 to 1e30"
            raise BadValue("clip", self.c, requirement, python=f"clip_l{self.norm}(c={self.c!r})")
        if self.per not in ("record", "round"):
            python = f"clip_l{self.norm}(per={self.per!r})"
            raise BadValue("clip_per", self.per, "expected 'record' or 'round'", python=python)


def clip_l1(c: float, per: Literal["record", "round"] = "record") -> Clip:
    """Clip to ‖∇l‖₁ ≤ c: what Laplace noise is accounted from."""
    return Clip(1, c, per)


def clip_l2(c: float, per: Literal["record", "round"] = "record") -> Clip:
    """Clip to ‖∇l‖₂ ≤ c: what Gaussian noise is accounted from."""
    return Clip(2, c, per)


class Reach(NamedTuple):
    """A bound c of a gradient's norm and L of its change per change of θ, both in one norm; ∞ where unknown.

    c is of computed gradients, L of exact ones. For every θ with |θ_k| ≤ S for all k, S ≤ 1e100, a record's computed
    gradient is within error + error_per_size · S of an exact one, in the same norm; 0 where L is ∞, which says nothing
    of how gradients change. With clipping per round all this is of a round's mean.
    """

    c: float
    L: float
    error: float = 0.0
    error_per_size: float = 0.0


class Sizes(NamedTuple):
    """How many features a record has, and how many records a round has at most; the most, where nobody says."""

    columns: int = MOST_COLUMNS
    records: int = MOST_RECORDS


MOST = Sizes()


class Weights(NamedTuple):
    """What is known of a model's weights w = dl/dmargins, in the norm asked for."""

    most: float  # ‖w‖, as computed
    slope: float  # ‖Δw‖ ≤ slope · ‖Δmargins‖
    sway: float  # ‖Δw‖ ≤ sway · max |Δmargin|
    error: float  # ‖computed w − exact w‖ at the same margins
    outputs: int  # K


UNKNOWN = Weights(math.inf, math.inf, math.inf, math.inf, 1)


def gamma(k: float) -> float:
    """γ_k: what k roundings in a row change, relative."""
    return k * UNIT / (1 - k * UNIT)


@overload
def mean_error(c: float, count: float) -> float: ...
@overload
def mean_error(c: float, count: Array | Integers) -> Array: ...
def mean_error(c: float, count: float | Array | Integers) -> float | Array:
    """(count + 4) · 2^-53 · c: how far a mean of `count` vectors of norm ≤ c, in L1 or in L2, is from the exact one.

    That is, computed in float64, in any order of summation, with count ≤ 2^25 and c ≥ 1e-100. Proof: each vector
    contributes to a coordinate through a chain of roundings: its own product of weight and feature, at most count − 1
    sums, 1/count, the product with that (before the sum or after it: softmax's come before), and the product with the
    table's scale: count + 3. So coordinate j of the mean is off by at most γ_{count+3} Σ_r |g_rj|/count. Both norms
    are monotone in absolute values and obey the triangle inequality, so the error has norm at most
    γ_{count+3} Σ_r ‖g_r‖/count ≤ γ_{count+3} c. With k = count + 3, γ_k ≤ (k + 1/2) u as k (2k + 1) u ≤ 1. The
    other half of u c is for numbers that underflow, by 2^-1075 each, and for the rounding of this bound itself.
    """
    counted: float | Array = count if isinstance(count, int | float) else count.astype(np.float64)
    return (counted + 4) * (UNIT * c)


def reach(
    weights: Weights, features: FeatureBounds | None, clip: Clip | None, norm: Norm, name: str, sizes: Sizes
) -> Reach:
    """c, L and the rounding of a model with such weights; refuses where nothing bounds the gradient."""
    columns, records = sizes
    _check_sizes(features, columns, records, name)
    grown = 1 + (columns + 16) * UNIT
    if features is None:
        c = L = size = l1 = math.inf
    else:
        size, l1 = grown * (features.l1 if norm == 1 else features.l2), grown * features.l1
        c = max(weights.most * size, SMALLEST)
        L = weights.slope * size * grown * (features.most if norm == 1 else features.l2)
    f, around = 1, c
    if clip is not None:
        if clip.norm != norm:
            kind = "Laplace" if norm == 1 else "Gaussian"
            raise NotProvable(
                f"{kind} noise is accounted in L{norm} and {name} clips in L{clip.norm}: use clip_l{norm}."
            )
        f = 1 if norm == 2 else 2
        around = c + mean_error(c, records) if clip.per == "round" else c
        c, L = min(around, clip.c), L * f
        if clip.per == "round" and not math.isfinite(around):
            L = math.inf
    if not math.isfinite(c):
        declare: tuple[Part, ...] = ("declared ", Argument("columns", python="feature ranges"), ", or ")
        raise NotProvable(
            f"nothing bounds the gradients of {name}, so no privacy can be proved: give it ",
            *(declare if features is None else ()), Argument("clip", "C", python=f"clip=clip_l{norm}(c)"), ".",
        )  # fmt: skip
    if not math.isfinite(L):
        return Reach(c, math.inf)
    error = f * size * weights.error + (weights.outputs + 8) * UNIT * c
    if clip is not None and clip.per == "round":
        error += f * mean_error(around, records) + (3 * columns * weights.outputs + 64) * UNIT * c
    return Reach(c, L, error, f * size * weights.sway * gamma(columns + 4) * l1)


def _check_sizes(features: FeatureBounds | None, columns: int, records: int, name: str) -> None:
    if not 1 <= columns <= MOST_COLUMNS:
        raise NotProvable(f"{name} on {columns} features: expected 1 to 2^27; use fewer.")
    if not 1 <= records <= MOST_RECORDS:
        raise NotProvable(f"{name} on {records} records a round: expected 1 to 2^25; use fewer.")
    if features is not None and not max(features) <= LARGEST:
        raise NotProvable(f"features of norm {max(features):g}: expected declared ranges up to 1e100; scale them.")
