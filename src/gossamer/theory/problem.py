"""A problem as the theorems see it: a network, three decaying schedules and the constants of the losses.

Nothing here depends on data. Whoever builds a Problem answers for its constants: a bound is only as true as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from gossamer.errors import BadValue, GossamerError
from gossamer.networks import Network


@dataclass(frozen=True)
class Problem:
    """Chen & Wang, Assumptions 1 to 4, as numbers.

    λ_t = step/(t+1)^v. A message's noise is a vector: E‖ζ_{i,t}‖² ≤ (noise_s/(t+1)^exponent_s)² for every learner i,
    summed over all n coordinates, and likewise ϑ with noise_theta. With Laplace noise of scale ν in each of n
    coordinates the deviation is ν√(2n). Where learners differ, the noise is the largest of theirs, the exponent the
    smallest. Noise has mean 0, is drawn anew in every round, and is uncorrelated between learners and between ζ and ϑ:
    noise that learners share pair by pair is not.

    F is μ-strongly convex (μ = 0: convex), and every ∇l is L-Lipschitz in θ. All learners start at one θ_0 and with
    s_0 = 0; `start` is at least E‖θ_0 − θ*‖².

    D bounds ‖∇f_i(θ*)‖ of every learner: how much learners disagree about the optimum. The paper's Assumption 2(ii)
    asks for ‖∇f_i(θ)‖ ≤ D at all θ, which no strongly convex F on R^n satisfies; `bounds(…, everywhere=True)` takes
    D so.

    κ bounds what a mean over t+1 records misses: E‖∇f_{i,t}(θ) − ∇f_i(θ)‖² ≤ κ²/(t+1), f_{i,t} the mean loss of the
    records up to t. At θ* that is the paper's Assumption 3(ii), and enough for Theorems 1 and 2 where every F_t is
    μ-strongly convex (each loss has a ridge of μ, say). Otherwise it must hold for the largest deviation over all
    θ, because θ_{i,t} depends on those records; where the gradient's noise does not depend on θ both are one.
    """

    network: Network
    step: float
    v: float
    noise_s: float
    exponent_s: float
    noise_theta: float
    exponent_theta: float
    mu: float
    L: float
    D: float
    kappa: float
    start: float

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name == "network":
                continue
            given = getattr(self, field.name)
            try:
                value = float(given)
            except (TypeError, ValueError):
                value = math.nan
            if not (math.isfinite(value) and value >= 0):
                python = f"Problem({field.name}={given!r})"
                raise BadValue(field.name, given, "expected a finite number that is not negative", python=python)
            object.__setattr__(self, field.name, value)
        if self.step == 0 or self.L == 0:
            raise GossamerError(f"a problem with step = {self.step:g} and L = {self.L:g}: both must be above 0.")
        if self.mu > self.L:
            raise GossamerError(
                f"a problem with μ = {self.mu:g} and L = {self.L:g}: no loss is more convex than its gradient moves; "
                "expected μ ≤ L."
            )
