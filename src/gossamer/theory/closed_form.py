"""The paper's own closed forms, with its letters, for whoever wants to compare: Lemmas 7 and 8, Theorems 1 and 3.

They hold under its Assumption 2(ii), a D that bounds every ∇f_i everywhere, with κ for all θ at once. Where a
printed constant does not follow from its proof, the mended one is here, and docs/errata.md says what was mended.
They are far larger than what `bounds` gives, because every step of the proof takes the worst of what the step
before allows: the rate is the point of them, not the number. All learners start at one θ_0 and with s_0 = 0, so
that c_s1 = c_θ1 = 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gossamer.errors import GossamerError
from gossamer.theory.eigenvector import lemma2
from gossamer.theory.norms import gain, mixing_of
from gossamer.theory.problem import Problem
from gossamer.types import Array


class Term(NamedTuple):
    """coefficient · t^−power."""

    coefficient: float
    power: float


class ClosedForm(NamedTuple):
    """Sums of powers that bound E‖s_t − ωs̄_t‖_C² and E‖θ_t − 1θ̄_t‖_R² for t ≥ 1."""

    lemma7: list[Term]  # c_s2 t^−2v, c_s3 t^−2ς_ζ
    lemma8: list[Term]  # c_θ2 t^−2v, c_θ3 t^−2ς_ϑ, c_θ4 t^−2ς_ζ

    def tracker(self, t: Array) -> Array:
        return evaluate(self.lemma7, t)

    def consensus(self, t: Array) -> Array:
        return evaluate(self.lemma8, t)


def evaluate(terms: list[Term], t: Array) -> Array:
    return np.asarray(sum(c * np.asarray(t, dtype=float) ** -p for c, p in terms))


def closed_form(problem: Problem) -> ClosedForm:
    """Lemmas 7 and 8. Printed: c_s2 = c̄_s0 + τ_s1, where the proof has the product τ_s1(c̄_s0 + 1); and what is
    proved for round t+1 is stated for round t, which costs a factor 4^v (4^ς) on the sum's part.
    """
    p, mixing = problem, mixing_of(problem.network)
    m, R, C = mixing.m, mixing.norm_R, mixing.norm_C
    moment = 2 * m * (p.kappa**2 + p.D**2)
    squares_R, squares_C = float(np.sum(mixing.off_R**2)), float(np.sum(mixing.off_C**2))

    from_F = C.from_frobenius**2 * gain(mixing.Pi_omega, C, C) ** 2
    tau_s1 = from_F * moment * p.step**2 / C.rho
    tau_s2 = from_F * squares_C * p.noise_s**2
    c_s2 = tau_s1 * (4**p.v * _summed(C.rho) + 1)
    c_s3 = tau_s2 * (4**p.exponent_s * _summed(C.rho) + 1)

    U = np.diag(1 / mixing.u)
    Pi_U = U - np.ones((m, m)) / m
    own = problem.network.own_weights(int(problem.network.settles) + 1)
    errors = [mixing.Pi_u @ (np.diag(1 / (m * z)) - U) for z in own]
    of_U, of_error = gain(Pi_U, R, R) ** 2, max(gain(e, R, R) for e in errors) ** 2
    both = max(gain(Pi_U + e, R, R) for e in errors) ** 2
    tau_1 = 4 * gain(np.eye(m), R, C) ** 2 * gain(mixing.C, R, R) ** 2 * (of_U + of_error) / R.rho
    tau_2 = 4 * R.from_frobenius**2 * moment * (of_U + of_error) * p.step**2 / R.rho
    tau_3 = 2 * gain(mixing.Pi_u, R, R) ** 2 * R.from_frobenius**2 * squares_R * p.noise_theta**2
    tau_4 = 2 * both * R.from_frobenius**2 * squares_C * p.noise_s**2
    c_2 = (4**p.v * tau_1 * c_s2 + tau_2) * (4**p.v * _summed(R.rho) + 1)
    c_3 = tau_3 * (4**p.exponent_theta * _summed(R.rho) + 1)
    c_4 = (4**p.exponent_s * tau_1 * c_s3 + tau_4) * (4**p.exponent_s * _summed(R.rho) + 1)
    return ClosedForm(
        [Term(c_s2, 2 * p.v), Term(c_s3, 2 * p.exponent_s)],
        [Term(c_2, 2 * p.v), Term(c_3, 2 * p.exponent_theta), Term(c_4, 2 * p.exponent_s)],
    )


def theorem1(problem: Problem, t: Array, share: float = 0.5) -> Array:
    """E‖θ_{i,t} − θ*_t‖² for t ≥ 2, with α = v + share·(1 − v)/2 between v and (1+v)/2.

    Mended: n_0 = ⌈1/(1−v)⌉ stays in the exponent (μλ_0/(4·2^v) is below 1, so a smaller exponent is no bound); c_1
    and c_2 are added, not the larger taken; what is proved for round t+1 is stated for t+1; γ_z^2t ≤ 256/((e ln
    γ_z)⁴(t+1)⁴) fails at t = 0 for γ_z < 0.23, where 1 takes its place. It needs λ_0μ < 4, which the paper does not
    say.
    """
    p, rounds = problem, np.asarray(t, dtype=float)
    if p.mu == 0 or p.step * p.mu >= 4:
        raise GossamerError(f"Theorem 1 with μ = {p.mu:g}, λ_0 = {p.step:g}: expected μ > 0 and λ_0 μ < 4.")
    if np.min(rounds) < 2:
        raise GossamerError(f"Theorem 1 in round {np.min(rounds):g}: this closed form begins with round 2.")
    alpha = p.v + share * (1 - p.v) / 2
    lemmas, mixing = closed_form(p), mixing_of(p.network)
    phi = _drift(p, lemmas)
    base, before = p.mu * p.step / (4 * 2**p.v), rounds - 1
    c_1 = _inverse_exponential(base, 1 / (1 - p.v)) * (math.sqrt(p.start) + p.kappa / p.mu) ** 2
    c_2 = _inverse_exponential(base, 1 / (alpha - p.v)) * sum(c * q / (q - 1) for c, q in phi)
    centre = (c_1 + c_2) / before + evaluate([Term(2 * c / (1 - alpha) ** q, q - alpha) for c, q in phi], before)
    return 2 * mixing.norm_R.to_frobenius**2 * lemmas.consensus(rounds) + 2 * centre


def theorem3(problem: Problem, t: Array) -> Array:
    """E[F(θ̃_t) − F*] of the mean θ̃_t of θ̄_0 … θ̄_t with weights λ_k: what (3T11) proves, which is not about the
    last iterate.

    Mended: the mean; λ_0 in c̄_θ4, which (3T12) lost; in (3T3ii) E‖ζ̄_C‖² is Σ_j C_jj²σ²/m², not Σ_ij C_ij²σ²/m²,
    because one copy goes to all receivers.
    """
    p, mixing = problem, mixing_of(problem.network)
    r = (0.5 + p.v) / 2
    lemmas, m, e = closed_form(p), mixing.m, float(np.sum(mixing.u**2)) / mixing.m**2
    near = 6 * p.L**2 * mixing.norm_R.to_frobenius**2 * p.step * (2 * p.step + 1)
    phi = [Term(near * 4 ** (q / 2) * c, q + p.v - r) for c, q in lemmas.lemma8]
    phi += [Term(c * 2 * (2 * p.step + 1), q - r - p.v) for c, q in _eigenvector(p, lemmas)]
    phi += [
        Term(2 * e * p.noise_theta**2 * float(np.sum(mixing.off_R**2)), 2 * p.exponent_theta),
        Term(2 * p.noise_s**2 * float(np.sum(np.diag(mixing.C) ** 2)) / m**2, 2 * p.exponent_s),
        Term(4 * (p.kappa**2 + p.D**2) * p.step**2, 2 * p.v),
        Term(24 * p.kappa**2 * p.step**2, 2 * p.v + 1),
        Term(13 * p.kappa**2 * p.step, p.v - r + 1),
    ]
    summed = sum(c * q / (q - 1) for c, q in phi)
    grown = 2 * p.step * (p.v + r) / (p.v + r - 1)
    c_4 = grown * math.exp(grown) * (p.start + summed) + (1 + 2 * p.step) * p.start
    rounds = np.asarray(t, dtype=float) + 1
    scale = (1 - p.v) / (2 * p.step * (1 - 2 ** (p.v - 1)))
    return np.asarray(scale * (summed + c_4) * rounds ** (p.v - 1))


def _summed(rho: float) -> float:
    """c̄_0 = 8/(ρ (e ln(1 − ρ/2))²): Σ_{p<t} (1−ρ)^(t−p) (p+1)^−2v ≤ c̄_0 t^−2v, by Lemma 6."""
    return 8 / (rho * (math.e * math.log(1 - rho / 2)) ** 2)


def _inverse_exponential(base: float, least: float) -> float:
    """n!/base^n with n = ⌈least⌉: e^(−base·x) ≤ n!/(base x)^n."""
    n = math.ceil(least)
    return math.factorial(n) / base**n


def _eigenvector(p: Problem, lemmas: ClosedForm) -> list[Term]:
    """(‖u‖²c_z²/m²) γ_z^2t E‖s_{t+1} − s_t‖_F²/λ_0 as powers of t+1 plus v: the caller subtracts what 1/λ_t or
    1/(a_tλ_t) adds.
    """
    mixing, (c_z, gamma_z, _) = mixing_of(p.network), lemma2(p.network)
    C = mixing.norm_C
    fades = max(1.0, 256 / (math.e * math.log(gamma_z)) ** 4)
    scale = float(np.sum(mixing.u**2)) * c_z**2 / mixing.m**2 * fades / p.step
    through = 3 * C.to_frobenius**2 * gain(mixing.C, C, C) ** 2
    terms = [Term(scale * through * 4 ** (q / 2) * c, 4 + q) for c, q in lemmas.lemma7]
    terms.append(Term(scale * 3 * float(np.sum(mixing.off_C**2)) * p.noise_s**2, 4 + 2 * p.exponent_s))
    terms.append(Term(scale * 6 * mixing.m * (p.kappa**2 + p.D**2) * p.step**2, 4 + 2 * p.v))
    return terms


def _drift(p: Problem, lemmas: ClosedForm) -> list[Term]:
    """Φ_θ̄,t of (1T3Sdelta) as a sum of powers of t+1."""
    mixing = mixing_of(p.network)
    c_0 = (p.step**2 * p.mu**2 + 6 * p.step * p.mu + 8) / (2 * p.mu)
    near = 2 * c_0 * p.step * mixing.norm_R.to_frobenius**2 * p.L**2
    moved = 16 * (p.kappa**2 + p.D**2) * (2 / p.mu**2 + 1 / p.L**2)  # (L1result)
    noise = (4 + p.step * p.mu) / 2
    return [
        Term(2 * c_0 * p.kappa**2 * p.step, 1 + p.v),
        *(Term(near * 4 ** (q / 2) * c, q + p.v) for c, q in lemmas.lemma8),
        *(Term(c_0 * c, q - p.v) for c, q in _eigenvector(p, lemmas)),
        Term(noise * float(np.sum(mixing.off_R**2)) * p.noise_theta**2, 2 * p.exponent_theta),
        Term(noise * float(np.sum(mixing.off_C**2)) * p.noise_s**2, 2 * p.exponent_s),
        Term(c_0 * p.D * p.kappa * p.step, p.v + 0.5),
        Term(c_0 * p.mu * p.step**2 * p.D**2 / 4, 2 * p.v),
        Term(moved, 2.0),
        Term(4 * moved / (p.step * p.mu), 2 - p.v),
    ]
