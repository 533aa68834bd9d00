"""What this room compiles, in a module of its own: numba is loaded with the first budget that needs it."""

from __future__ import annotations

from gossamer.compiling import compiled


@compiled(nogil=True)
def sensitivities_until(rounds, keep_s, keep_theta, lam0, v, c_z, gamma_z, by_u, L, c, capped, exponents, scales, C):  # type: ignore[no-untyped-def]
    """(δs, δθ, their budget in rounds 1 … rounds−1, the largest (δθ + C δs)(t+1)^(1+v) until then); see budget.py.

    `capped`: gradients of two worlds differ by at most 2c, as in part 1, and by what L says, as in part 2.
    Otherwise by 2c.
    """
    s, theta, spent, largest, power = 0.0, 0.0, 0.0, 0.0, 1.0
    for t in range(rounds):
        if t > 0:
            spent += s * (t + 1.0) ** exponents[0] / scales[0] + theta * (t + 1.0) ** exponents[1] / scales[1]
            largest = max(largest, (theta + C * s) * (t + 1.0) ** (1 + v))
        moved = min(2 * c, (L * t * theta + 2 * c) / (t + 1)) if capped else 2 * c
        after = keep_s * s + lam0 * (t + 1.0) ** -v * moved
        theta = keep_theta * theta + (c_z * power + by_u) * (after + s)
        s = after
        power *= gamma_z
    return s, theta, spent, largest
