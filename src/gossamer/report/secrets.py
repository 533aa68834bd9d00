"""Pair secrets as a picture: what hides one learner's records, and what those who collude know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWN, HONEST, COLLUDES, KNOWN = "#1f5fa8", "#7fb2e5", "#c0392b", "#e6b0aa"


def draw_secrets(
    edges: Sequence[tuple[int, int]], learners: int, learner: int, colluders: Sequence[int], title: str = ""
) -> Figure:
    """Learners on a circle, a line for every secret: whole where only its two ends know it, dashed where it is told."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(6.4, 7.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    angle = np.pi / 2 - 2 * np.pi * np.arange(learners) / learners
    place = np.column_stack([np.cos(angle), np.sin(angle)])
    for i, j in edges:
        told, own = bool({i, j} & set(colluders)), learner in (i, j)
        x, y = place[[i, j]].T
        line = axes.plot(x, y, color=KNOWN if told else OWN if own else HONEST, alpha=0.9, zorder=1 + own)[0]
        line.set(linestyle="--" if told else "-", linewidth=2.2 if own and not told else 0.9)
    colours = [OWN if i == learner else COLLUDES if i in colluders else HONEST for i in range(learners)]
    axes.scatter(place[:, 0], place[:, 1], s=np.clip(9000 / learners, 12, 620), c=colours, zorder=4, edgecolors="white")
    if learners <= 40:
        for i, (x, y) in enumerate(place):
            axes.text(x, y, str(i), ha="center", va="center", fontsize=9, color="white", zorder=5)
    dot: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 9}
    thick: dict[str, Any] = {"linewidth": 1.8}
    keys = [
        Line2D([], [], color=OWN, label=f"learner {learner}, whose records are to be hidden", **dot),
        Line2D([], [], color=HONEST, label="keep their secrets", **dot),
        Line2D([], [], color=COLLUDES, label="put together all they know, and see every message", **dot),
        Line2D([], [], color=OWN, label=f"secrets that hide learner {learner}", **thick),
        Line2D([], [], color=KNOWN, linestyle="--", label="secrets that are known, and hide nothing", **thick),
    ]
    figure.legend(handles=keys, loc="outside lower center", fontsize=8, frameon=False)
    axes.set_title(title, fontsize=10, parse_math=False)
    axes.set_aspect("equal")
    axes.margins(0.12)
    axes.axis("off")
    return figure
