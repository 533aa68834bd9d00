"""From Laplace mechanisms' losses, sensitivity/ν each, to (ε, δ) with δ > 0; at δ = 0 their sum is the answer.

**One dominates many.** Adding Laplace noise of scale 1 to n coordinates that differ by d_1 … d_n, Σ|d_i| ≤ Δ, is no
less private at any (ε, δ) than adding it to one coordinate that differs by Δ. Proof: let H_ε(d) = ∫ (p_d − e^ε p_0)⁺
be the hockey-stick divergence, d ≥ 0 without loss of generality, and take n = 2 and ε ≥ 0. The log-likelihood ratio
l_1(y_1) + l_2(y_2) grows in each coordinate, l_i = 2y_i − d_i clamped to ±d_i, and has under p_d an atom of mass ½ at
d_i, one of mass ½e^{−d_i} at −d_i and the density ¼e^{(l − d_i)/2} between. The set {p_d > e^ε p_0} is thus y_1 >
a(y_2), and as the integrand vanishes at its border only the density moves under ∂/∂d_1:

    ∂_1 H = E_{y_2} f(a(y_2) − d_1)
          = ¼ e^{(ε−d_1−d_2)/2} (1[|ε−d_2| ≤ d_1] + 1[ε+d_2 ≤ d_1] + ½ |[ε−d_1, ε+d_1] ∩ [−d_2, d_2]|)

and ∂_2 H the same with 1 and 2 exchanged. The interval's length is symmetric in d_1, d_2, so for d_1 ≥ d_2 and ε <
d_1 + d_2

    ∂_1 H − ∂_2 H = ½ e^{(ε−d_1−d_2)/2} 1[ε < d_1 − d_2] ≥ 0

almost everywhere: moving difference from the smaller coordinate to the larger raises H, up to d = (Δ, 0); and ∂_1 H ≥
0. For ε < 0, H_ε(d) = 1 − e^ε + e^ε H_{−ε}(d), since (p_0, p_d) is (p_d, p_0) mirrored. For n > 2 condition on the
other coordinates, which only moves ε. ∎

So a message costs one scalar Laplace event of its L1 sensitivity, and a run their composition: dominating pairs
compose, adaptively (Zhu, Dong & Wang, "Optimal accounting of differential privacy via characteristic function",
AISTATS 2022, Thm. 10). One event alone has δ(ε) = 1 − e^{(ε−Δ)/2}. Many are composed numerically by the dp-accounting
library's privacy loss distributions where it is installed (extra `accounting`), every step rounded to the safe side;
otherwise by zCDP.

**The grid.** Our noise is discrete. On a grid of step h = 2^−40 its probabilities are those of the continuous law
rounded to the grid, times 1 ± h/4: (1−a)/(1+a) · a^|k|, a = e^{−h}, against a^|k| sinh(h/2), and 1 − e^{−h/2} at 0.
That adds h/2 to ε for each coordinate, which the surcharge's second step covers, and h/4 of itself to δ for each
coordinate of each message, for which the accountant cuts δ by twice that (`gossamer.privacy.laws.delta_left`).
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from gossamer.privacy.gaussian import epsilon_zcdp
from gossamer.types import Array

RATIO = 1.005  # losses are rounded up to powers of it, so that equal ones compose at once
SLACK = 1 - 1e-6  # of δ, for the grid


def epsilon_single(loss: float, delta: float) -> float:
    """ε at δ of one Laplace mechanism: the closed form."""
    return max(0.0, loss + 2 * math.log1p(-delta * SLACK))


def epsilon_composed(losses: Array, delta: float) -> float:
    """ε at δ of a sequence of Laplace mechanisms: the least of the sum, zCDP, and dp-accounting's where installed."""
    losses = losses[losses > 0]
    pure, mu = float(losses.sum()), math.sqrt(float((losses**2).sum()))
    if delta <= 0 or not math.isfinite(pure):
        return pure
    simple = min(pure, epsilon_zcdp(mu, delta * SLACK))
    try:
        distributions = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError:
        return simple
    return simple if pure == 0 else min(simple, _by_distributions(distributions, losses, delta * SLACK))


def _by_distributions(library: Any, losses: Array, delta: float) -> float:
    """Losses below 1e-4 of the sum, by the argument above, cost no more than one event of their sum."""
    pure = float(losses.sum())
    small = losses < 1e-4 * pure
    rest = losses[small].sum()
    powers = np.ceil(np.log(losses[~small]) / math.log(RATIO))
    counted = [(RATIO**power, int(n)) for power, n in zip(*np.unique(powers, return_counts=True), strict=True)]
    counted += [(float(rest), 1)] if rest > 0 else []
    interval = max(1e-4, pure * 2.0**-14)
    whole = None
    for loss, count in counted:
        event = library.from_laplace_mechanism(1 / loss, value_discretization_interval=interval).self_compose(count)
        whole = event if whole is None else whole.compose(event)
    assert whole is not None
    return float(whole.get_epsilon_for_delta(delta))
