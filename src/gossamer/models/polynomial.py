"""e^x = 2^n e^r with n = round(x/ln 2): the numbers that a logistic weight is found with.

What is proved with them is told by `to_logistic_weights` in gossamer.models.kernels.
"""

from __future__ import annotations

from math import factorial

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # ln 2 = HIGH + LOW; n·HIGH is exact for |n| < 2^20
BIAS, FRACTION_BITS = 1023, 52  # of a float64
COEFFICIENTS = tuple(1 / factorial(k) for k in range(14))  # of Taylor's polynomial, exact to 4e-18 for |r| ≤ ln 2/2
