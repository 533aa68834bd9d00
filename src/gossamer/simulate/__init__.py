"""All learners in one process: the fast way to try a network, a method or a budget."""

from gossamer.run_record import Record
from gossamer.simulate.engine import Progress, simulate

__all__ = ["Progress", "Record", "simulate"]
