"""Facts about sequences that the theorems rest on: Lemmas 6 and 12 of Chen & Wang, and what replaces their constants.

Two inductions carry every bound beyond the rounds that were computed. Both say: if A(t+1)^−p bounds a sequence in
round T and survives one step there, then it survives every later step, because the condition becomes easier as t
grows.
"""

from __future__ import annotations

import math

from gossamer.errors import BadValue, GossamerError


def lemma6(gamma: float) -> float:
    """a with a γ^t ≤ 1/t² for all t > 0: (e ln γ)²/4, attained at t = −2/ln γ. It holds as printed."""
    _check_share("gamma", gamma)
    return (math.e * math.log(gamma)) ** 2 / 4


def lemma12(v0: float, c: float, beta0: float, q: float) -> float:
    """C_2 with v_t ≤ C_2 β_0/(t+1)^q for all t ≥ 0, where v_{t+1} ≤ (1−c) v_t + β_0/(t+1)^q.

    As printed, C_2 = (4q/(e ln(2/(2−c))))^q (v_0(1−c)/β_0 + 2/c). Two things are mended. In round 0 the claim is
    v_0 ≤ C_2 β_0, which the printed constant misses for c near 1 and large v_0, since it multiplies v_0 by 1−c: we
    take the larger of the two. And (4L1) is claimed for p ≥ 0 and proved for p ≥ 1 alone: at p = 0 it reads 1 ≥
    c_0, so that c_0 = (e ln(2/(2−c))/(2q))^q has to be replaced by min(1, c_0), which matters for q < 0.94.
    """
    _check_share("c", c)
    c_0 = min(1.0, (math.e * math.log(2 / (2 - c)) / (2 * q)) ** q)
    return float(max(v0 / beta0, 2**q / c_0 * (v0 * (1 - c) / beta0 + 2 / c)))


def lemma12_as_printed(v0: float, c: float, beta0: float, q: float) -> float:
    """The paper's C_2, for comparison; see `lemma12`."""
    return float((4 * q / (math.e * math.log(2 / (2 - c)))) ** q * (v0 * (1 - c) / beta0 + 2 / c))


def steady_tail(value: float, factor: float, b: float, p: float, T: int) -> float:
    """A with y_t ≤ A(t+1)^−p for all t ≥ T, where y_T ≤ value and y_{t+1} ≤ factor·y_t + b(t+1)^−p; ∞ if none is
    found.

    The step needs factor·A + b ≤ A((t+1)/(t+2))^p, and the right side grows with t: it is enough in round T.
    """
    room = ((T + 1) / (T + 2)) ** p - factor
    return max(value * (T + 1.0) ** p, b / room) if room > 0 else math.inf


def slowing_tail(value: float, rate: float, v: float, b: float, q: float, T: int) -> float:
    """A with x_t ≤ A(t+1)^−(q−v) for t ≥ T, where x_T ≤ value, x_{t+1} ≤ (1 − rate/(t+1)^v) x_t + b(t+1)^−q; or ∞.

    With p = q − v the step needs A(1 − rate/(t+1)^v) + b(t+1)^−v ≤ A((t+1)/(t+2))^p. Since ((t+1)/(t+2))^p ≥ 1 −
    p/(t+1), it follows from b ≤ A(rate − p(t+1)^(v−1)), and the right side grows with t: it is enough in round T.
    """
    room = rate - max(q - v, 0.0) * (T + 1.0) ** (v - 1)
    return max(value * (T + 1.0) ** (q - v), b / room) if room > 0 and rate * (T + 1.0) ** -v <= 1 else math.inf


def power_sum(p: float, T: int) -> float:
    """Σ_{t≥T} (t+1)^−p at most, for p > 1: its first term and an integral."""
    if p <= 1:
        raise GossamerError(f"a sum of (t+1)^−{p:g} over all rounds has no end: expected an exponent above 1.")
    return float((T + 1.0) ** -p + (T + 1.0) ** (1 - p) / (p - 1))


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise BadValue(name, value, "expected above 0 and below 1", python=f"{name}={value:g}")
