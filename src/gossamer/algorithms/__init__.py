"""Algorithms: one file each, all of the same form."""

from gossamer.algorithms.base import Algorithm
from gossamer.algorithms.ldp_gradient_tracking import ldp_gradient_tracking

__all__ = ["Algorithm", "ldp_gradient_tracking"]
