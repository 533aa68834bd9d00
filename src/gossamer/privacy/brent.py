"""The zero of a function between two numbers, by Brent's method, to the bits of scipy.optimize.brentq.

R. Brent, "Algorithms for Minimization without Derivatives" (1973), ch. 3–4: an interpolation where it promises enough,
and else a bisection, so that it ends as surely as bisection does. It is written here because scipy.optimize takes a
tenth of a second and 24 MB to load, and a learner with Gaussian noise asks for nothing else of it. The operations are
SciPy's, one by one and in its order: journals remember what noise was found, and are refused with another.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gossamer.errors import GossamerError

MOST = 100  # steps


def find_zero(f: Callable[[float], float], low: float, high: float, xtol: float, rtol: float) -> float:
    """x with f(x) = 0, to within xtol + rtol |x|; f has opposite signs at both ends."""
    before, here, other = low, high, 0.0
    f_before, f_here, f_other = f(before), f(here), 0.0
    step_before = step = 0.0
    if f_before == 0:
        return before
    if f_here == 0:
        return here
    if _negative(f_before) == _negative(f_here):
        raise GossamerError(f"f({low:g}) = {f_before:g} and f({high:g}) = {f_here:g}: expected opposite signs.")
    for _ in range(MOST):
        if f_before != 0 and f_here != 0 and _negative(f_before) != _negative(f_here):
            other, f_other = before, f_before
            step_before = step = here - before
        if abs(f_other) < abs(f_here):
            before, here, other = here, other, here
            f_before, f_here, f_other = f_here, f_other, f_here
        least, half = (xtol + rtol * abs(here)) / 2, (other - here) / 2
        if f_here == 0 or abs(half) < least:
            return here
        tried = math.inf
        if abs(step_before) > least and abs(f_here) < abs(f_before):
            if before == other:
                tried = -f_here * (here - before) / (f_here - f_before)
            else:
                slope, further = (f_before - f_here) / (before - here), (f_other - f_here) / (other - here)
                below = further * slope * (f_other - f_before)
                tried = -f_here * (f_other * further - f_before * slope) / below if below else math.inf
        if 2 * abs(tried) < min(abs(step_before), 3 * abs(half) - least):
            step_before, step = step, tried
        else:
            step_before = step = half
        before, f_before = here, f_here
        here += step if abs(step) > least else least if half > 0 else -least
        f_here = f(here)
    raise GossamerError(f"no zero between {low:g} and {high:g} after {MOST} steps: a function that jumps there.")


def _negative(value: float) -> bool:
    return math.copysign(1.0, value) < 0
