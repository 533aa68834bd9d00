"""A network as a picture: who sends to whom, and whose voice carries how far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.networks import Network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHORT = 16  # letters of a name


def draw_network(network: Network, title: str = "") -> Figure:
    """Learners on a circle, an arrow per link of R, each learner as large as its Perron weight u_i."""
    return draw_links([(j, i) for j, i, _ in network.edges()], network.perron, title or repr(network))


def draw_links(
    links: Sequence[tuple[int, int]], perron: Sequence[float] | Any, title: str, names: Sequence[str] = ()
) -> Figure:
    """The same from the links (from, to), the Perron weights and the learners' names."""
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch

    u = np.asarray(perron)
    m, shown = len(u), [name if len(name) <= SHORT else f"{name[:SHORT]}…" for name in names]
    figure = Figure(figsize=(6.4, 6.6), dpi=150, layout="constrained")
    axes = figure.subplots()
    angle = np.pi / 2 - 2 * np.pi * np.arange(m) / m
    place = np.column_stack([np.cos(angle), np.sin(angle)])
    size = np.clip(9000 / m, 6, 620) * np.sqrt(u / u.max()).clip(0.45)
    radius = np.sqrt(size / np.pi)
    fade = float(np.clip(40 / max(len(links), 1), 0.05, 0.75))
    style: dict[str, Any] = {"connectionstyle": "arc3,rad=0.12", "arrowstyle": "-|>", "mutation_scale": 11}
    style |= {"color": "#5d6d7e", "alpha": fade, "linewidth": 1.1}
    for j, i in links:
        ends = tuple(place[j]), tuple(place[i])
        axes.add_patch(FancyArrowPatch(*ends, shrinkA=float(radius[j]), shrinkB=float(radius[i]) + 2, **style))
    dots = axes.scatter(place[:, 0], place[:, 1], s=size, c=u, cmap="viridis", vmin=0, zorder=3, edgecolors="white")
    if m <= 40:
        for i, (x, y) in enumerate(place):
            colour = "black" if u[i] > 0.55 * u.max() else "white"
            axes.text(x, y, str(i), ha="center", va="center", fontsize=8, color=colour, zorder=4)
            if shown and shown[i] != str(i):
                where: dict[str, Any] = {"ha": "left" if x > 0.1 else "right" if x < -0.1 else "center", "va": "center"}
                axes.text(1.13 * x, 1.13 * y, shown[i], fontsize=8, zorder=4, parse_math=False, **where)
    figure.colorbar(dots, ax=axes, shrink=0.55, label="Perron weight uᵢ (mean 1)", orientation="horizontal", pad=0.02)
    axes.set_title(title, fontsize=10, parse_math=False)
    axes.set_aspect("equal")
    axes.margins(0.12)
    axes.axis("off")
    return figure
