"""All learners in one process: the fast way to try a network, a method or a budget."""

from gossamer.simulate.engine import Progress, simulate
from gossamer.simulate.record import Record

__all__ = ["Progress", "Record", "simulate"]
