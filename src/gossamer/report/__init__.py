"""Pictures."""

from gossamer.report.curves import draw_curves
from gossamer.report.graph import draw_network

__all__ = ["draw_curves", "draw_network"]
