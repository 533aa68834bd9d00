"""What the paper's theorems promise before a run: assumptions, rates and bounds, from the problem alone."""

from gossamer.theory.problem import Problem

__all__ = ["Problem"]
