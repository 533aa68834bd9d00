"""The methods that are compared: those of gossamer.algorithms, in its order."""

from __future__ import annotations

from gossamer.algorithms import Method, methods

__all__ = ["COMPARED", "METHODS", "OURS", "Method"]

METHODS = methods()
COMPARED = tuple(name for name, method in METHODS.items() if method.compared)
OURS = "ldp_gradient_tracking"
