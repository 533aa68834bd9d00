"""Privacy: for now, seeded noise for simulation, which is not private and says so."""

from gossamer.privacy.base import Privacy
from gossamer.privacy.simulated import SimulatedLaplace, simulated

__all__ = ["Privacy", "SimulatedLaplace", "simulated"]
