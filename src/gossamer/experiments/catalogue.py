"""The methods that are compared: how each is built from a step size λ0, and how its noise goes with time.

Exponents are fixed by each paper's own constraints, so that tuning has one number, λ0, for every method. Noise that
a method's links fade by themselves (γ_t) stays constant; DiaDSP's falls geometrically; the others' as in Algorithm
1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gossamer import algorithms
from gossamer.algorithms.base import Algorithm
from gossamer.schedules import decay


class Method(NamedTuple):
    """A method as it is compared."""

    label: str
    source: str  # where its equations come from: V verbatim, S a secondary source, M memory; both checked by simulation
    build: Callable[[float], Algorithm]  # from λ0
    exponent: float  # ς: noise falls as (t+1)^-ς
    ratio: float = 1.0  # and by this factor from round to round


METHODS: dict[str, Method] = {
    "ldp_gradient_tracking": Method(
        "Algorithm 1", "V", lambda step: algorithms.ldp_gradient_tracking(decay(step, 0.6)), 0.55
    ),
    "push_pull": Method("Push–Pull", "V", lambda step: algorithms.push_pull(decay(step, 0.6)), 0.55),
    "diadsp": Method("DiaDSP", "M", lambda step: algorithms.diadsp(decay(step, 0.0)), 0.0, 0.998),
    "tailored_gradient_tracking": Method(
        "Tailored tracking", "S/M", lambda step: algorithms.tailored_gradient_tracking(decay(step, 0.98)), 0.0
    ),
    "stochastic_subgradient": Method(
        "Subgradient (Zhu et al.)",
        "S",
        lambda step: algorithms.stochastic_subgradient(decay(step, 0.5)),
        0.5,
    ),
    "subgradient_rescaling": Method(
        "Rescaling (Xiong et al.)",
        "S",
        lambda step: algorithms.subgradient_rescaling(decay(step, 0.6)),
        0.55,
    ),
    "ldol": Method("LDOL", "M", lambda step: algorithms.ldol(decay(step, 0.75)), 0.0),
    "robust_push_pull": Method(
        "Robust Push–Pull", "V", lambda step: algorithms.robust_push_pull(decay(step, 0.0)), 0.0
    ),
    "wang_basar": Method("Wang–Başar", "M/S", lambda step: algorithms.wang_basar(decay(step, 0.7)), 0.0),
    "dsgd": Method("DSGD", "V", lambda step: algorithms.dsgd(decay(step, 0.6)), 0.55),
    "dsgd_naive": Method(
        "DSGD on I+R (misuse)", "V", lambda step: algorithms.dsgd(decay(step, 0.6), over="R", strict=False), 0.55
    ),
}
COMPARED = tuple(name for name in METHODS if name != "dsgd_naive")  # the misuse is shown apart, as an ablation
OURS = "ldp_gradient_tracking"
