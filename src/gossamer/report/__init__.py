"""Pictures."""

from gossamer.report.budget import draw_budget
from gossamer.report.curves import draw_curves, save_picture
from gossamer.report.graph import draw_network

__all__ = ["draw_budget", "draw_curves", "draw_network", "save_picture"]
