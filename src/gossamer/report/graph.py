"""A network as a picture: who sends to whom, and whose voice carries how far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.networks import Network

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_network(network: Network, title: str = "") -> Figure:
    """Learners on a circle, an arrow per link of R, each learner as large as its Perron weight u_i."""
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch

    m, u = network.m, network.perron
    figure = Figure(figsize=(6.4, 6.6), dpi=150, layout="constrained")
    axes = figure.subplots()
    angle = np.pi / 2 - 2 * np.pi * np.arange(m) / m
    place = np.column_stack([np.cos(angle), np.sin(angle)])
    size = np.clip(9000 / m, 6, 620) * np.sqrt(u / u.max()).clip(0.45)
    radius = np.sqrt(size / np.pi)
    links = network.edges()
    fade = float(np.clip(40 / len(links), 0.05, 0.75))
    style: dict[str, Any] = {"connectionstyle": "arc3,rad=0.12", "arrowstyle": "-|>", "mutation_scale": 11}
    style |= {"color": "#5d6d7e", "alpha": fade, "linewidth": 1.1}
    for j, i, _ in links:
        ends = tuple(place[j]), tuple(place[i])
        axes.add_patch(FancyArrowPatch(*ends, shrinkA=float(radius[j]), shrinkB=float(radius[i]) + 2, **style))
    dots = axes.scatter(place[:, 0], place[:, 1], s=size, c=u, cmap="viridis", vmin=0, zorder=3, edgecolors="white")
    if m <= 40:
        for i, (x, y) in enumerate(place):
            colour = "black" if u[i] > 0.55 * u.max() else "white"
            axes.text(x, y, str(i), ha="center", va="center", fontsize=8, color=colour, zorder=4)
    figure.colorbar(dots, ax=axes, shrink=0.55, label="Perron weight uᵢ (mean 1)", orientation="horizontal", pad=0.02)
    axes.set_title(title or repr(network), fontsize=10, parse_math=False)
    axes.set_aspect("equal")
    axes.margins(0.12)
    axes.axis("off")
    return figure
