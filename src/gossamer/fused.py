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
    C_ii: Array, R_ii: Array, step: float, m: int, own_z: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """s⁺ = (1+C_ii) s + got_s + step grad  and  θ⁺ = (1+R_ii) θ + got_θ − (s⁺ − s)/(m [z_i]_i); learners are rows."""
    s_after, theta_after = np.empty_like(s), np.empty_like(theta)
    _track_and_pull(s, theta, got_s, got_theta, grad, C_ii, R_ii, float(step), m, own_z, s_after, theta_after)
    return s_after, theta_after


@compiled(nogil=True, error_model="numpy")
def _track_and_pull(s, theta, got_s, got_theta, grad, C_ii, R_ii, step, m, own_z, s_after, theta_after):  # type: ignore[no-untyped-def]
    for i in range(s.shape[0]):
        keep_s, keep_theta, share = 1.0 + C_ii[i, 0], 1.0 + R_ii[i, 0], m * own_z[i, 0]
        for k in range(s.shape[1]):
            after = keep_s * s[i, k] + got_s[i, k] + step * grad[i, k]
            s_after[i, k] = after
            theta_after[i, k] = keep_theta * theta[i, k] + got_theta[i, k] - (after - s[i, k]) / share
