"""Pictures."""

from gossamer.report.budget import draw_budget
from gossamer.report.curves import draw_curves, save_picture
from gossamer.report.graph import draw_network
from gossamer.report.secrets import draw_secrets

__all__ = ["draw_budget", "draw_curves", "draw_network", "draw_secrets", "save_picture"]
