"""How fast Algorithm 1's own last iterate converges where every record's loss is strongly convex: our statement.

It covers noise on messages, as the paper adds it, and noise at the source, which is ours. The paper's Theorem 2 asks
for bounded gradients, which no strongly convex F has on all of R^n; this statement does not. Its rate is never below
β.

**Setting.** Assumption 1 on the network. Every l(·, ξ) is μ-strongly convex, with μ > 0, and ∇l(·, ξ) is
L-Lipschitz: a convex smooth loss with a ridge is. E‖∇l(θ*, ξ) − ∇f_i(θ*)‖² ≤ κ² at θ* alone. λ_t = λ0 (t+1)^−v with
0 < v < 1. Records are independent over rounds, of one law for each learner, and gradients are means over all of them so
far. The start has finite second moments. All noise has mean zero and is independent of everything before it, and of the
round's own records. Noise of messages has deviation O(t^−ς_ζ) on s and O(t^−ς_ϑ) on θ; noise at the source, ξ_t, is
added to the gradient and has deviation σ_t = O(t^−α). An exponent of ∞ means no such noise; α may be negative.
2ς_ζ > v, 2ς_ϑ > v, v + 2α > 0.

**Statement.** For every learner i

    E‖θ_i,t − θ*‖² = O(t^−β'),     β' = min{1, 2v, 2ς_ζ − v, 2ς_ϑ − v, v + 2α}
    E‖θ_i,t − θ̄_t‖² = O(t^−γ'),    γ' = min{2v, 2ς_ζ, 2ς_ϑ, 2v + 2α}                     θ̄ = uᵀθ/m

**Proof.** ‖x‖ is (E‖x‖²)^½, a norm, so that triangle inequalities need no independence. With Z_t⁻¹ = U⁻¹ + E_t, where
|E_t| ≤ c γ^t (Lemma 2), uᵀU⁻¹ = 1ᵀ and 1ᵀC = 0, equations (7) and (8) give for e = θ̄ − θ*

    e⁺ = e − λ_t (1/m) Σ_i ∇f_{i,t}(θ_i) + w_t − r_t,     r_t = uᵀE_t (s⁺ − s)/m
    w_t = (uᵀϑ_R − 1ᵀζ_C − λ_t 1ᵀξ)/m                      ‖w_t‖² = q_t = O(t^−2ς_ϑ + t^−2ς_ζ + t^−2v−2α)

*Consensus.* ŝ = s − ωs̄ and θ̂ = θ − 1θ̄ obey ŝ⁺ = (I+C − ω1ᵀ/m) ŝ + Π_ω (ζ_C + λ_t g̃) and θ̂⁺ = (I+R − 1uᵀ/m) θ̂ +
Π_u (ϑ_R − Z_t⁻¹ (Cŝ + ζ_C + λ_t g̃)). Both matrices contract in suitable norms (Lemma 3), and Σ_s γ^(t−s) s^−p =
O(t^−p), so ‖ŝ‖ and ‖θ̂‖ are O(t^−ς_ζ + t^−ς_ϑ + λ_t G_t), where G_t = max_{s≤t} ‖g̃_s‖ up to a factor; and ‖g̃_t‖ ≤
‖∇f_t(θ*)‖ + L (‖θ̂‖ + ‖e‖) + σ_t. Once λ_t is small, ‖θ̂_t‖ ≤ c + c λ_t max_{s≤t} ‖e_s‖, so it is at most a small
part of the largest ‖e‖ so far.

*Mean.* F_t, the mean of all records' losses, is μ-strongly convex and L-smooth itself. For λ_t ≤ 2/(μ+L)

    ‖e − λ_t (∇F_t(θ̄) − ∇F_t(θ*))‖ ≤ (1 − μλ_t) ‖e‖.

What is left of the gradient is at most b_t = ‖∇F_t(θ*)‖ + L‖θ̂_t‖ in norm, and ‖∇F_t(θ*)‖ ≤ κ (t+1)^−½: θ* does not
depend on the records, so their deviations average out. w_t is independent of all this. With ((1−μλ)x + λb)² ≤
(1−μλ)x² + λb²/μ, which is convexity of the square, y = ‖e‖² obeys

    y⁺ ≤ (1 + cγ^(t/2)) [(1 − μλ_t) y + λ_t b_t²/μ + q_t] + cγ^(t/2) (1 + max_{s≤t} y_s)

where r_t, which is O(γ^t (1 + max ‖e‖)), went into the factors. As q_t = O(λ_t), and b_t² is bounded but for a small
part of max y, y is bounded. Then G_t = O(1 + max_{s≤t} σ_s), b_t² = O(t^−1 + t^−2v + t^−2ς + t^−2v−2α), and Chung's
lemma (v < 1: what enters with λ_t d_t and d_t a power of t comes out as O(d_t)) gives y = O(b_t² + q_t/λ_t) =
O(t^−β'). With ‖θ_i − θ*‖ ≤ ‖e‖ + ‖θ̂‖ and γ' ≥ β' that is the statement. ∎

2v, from learners whose gradients differ at θ*, is not tight, and decides only for v < ½. None of the other terms can be
left out in general: 1 is what t records of a learner can teach, and q_t/λ_t is what a strongly convex quadratic with
this noise has. A run with a budget at the source, which releases in some rounds only, clips, and may go on when its
records have ended, is not this setting.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gossamer.errors import BadValue, GossamerError


class LastIterate(NamedTuple):
    """Exponents of t: an error falls at least like t^−error, and the distance between learners like t^−consensus."""

    error: float
    consensus: float
    decides: str  # the term that is smallest


def last_iterate(v: float, s_zeta: float = math.inf, s_theta: float = math.inf, alpha: float = math.inf) -> LastIterate:
    """β' and γ' of the statement above; without an exponent there is no such noise."""
    if not 0 < v < 1:
        raise BadValue("v", v, "expected a step exponent between 0 and 1")
    terms = {
        "1": 1.0,
        "2v": 2 * v,
        "2ς_ζ − v": 2 * s_zeta - v,
        "2ς_ϑ − v": 2 * s_theta - v,
        "v + 2α": v + 2 * alpha,
    }
    if any(math.isnan(term) for term in terms.values()):
        raise BadValue("exponents", (s_zeta, s_theta, alpha), "expected numbers, or math.inf for no such noise")
    decides = min(terms, key=lambda name: terms[name])
    if not terms[decides] > 0:
        steps = "faster" if decides == "v + 2α" else "more slowly"
        raise GossamerError(
            f"v = {v:g}, ς_ζ = {s_zeta:g}, ς_ϑ = {s_theta:g}, α = {alpha:g}: {decides} is {terms[decides]:.3g}, "
            f"not above 0, and noise need not fade; let noise fall faster, or steps {steps}."
        )
    consensus = min(2 * v, 2 * s_zeta, 2 * s_theta, 2 * v + 2 * alpha)
    return LastIterate(terms[decides], consensus, decides)
