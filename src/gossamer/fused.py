"""Steps of methods in one pass, with the bits of their equations: each operation is theirs, in order.

NumPy takes one operation at a time: a step of long vectors reads and writes nine vectors' worth of what it only passes
on, and one of short vectors is little but calls.
"""

from __future__ import annotations

import numpy as np

from gossamer.compiling import compiled
from gossamer.types import Array


def track_and_pull(
    s: Array, theta: Array, got_s: Array, got_theta: Array, grad: Array,
    keep_s: Array, keep_theta: Array, step: float, share: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """s⁺ = keep_s s + got_s + step grad  and  θ⁺ = keep_θ θ + got_θ − (s⁺ − s)/share; learners are rows."""
    s_after, theta_after = np.empty_like(s), np.empty_like(theta)
    _track_and_pull(s, theta, got_s, got_theta, grad, keep_s, keep_theta, float(step), share, s_after, theta_after)
    return s_after, theta_after


@compiled(nogil=True, error_model="numpy")
def _track_and_pull(s, theta, got_s, got_theta, grad, keep_s, keep_theta, step, share, s_after, theta_after):  # type: ignore[no-untyped-def]
    for i in range(s.shape[0]):
        own_s, own_theta, own_share = keep_s[i, 0], keep_theta[i, 0], share[i, 0]
        for k in range(s.shape[1]):
            after = own_s * s[i, k] + got_s[i, k] + step * grad[i, k]
            s_after[i, k] = after
            theta_after[i, k] = own_theta * theta[i, k] + got_theta[i, k] - (after - s[i, k]) / own_share
