"""Accuracy or error against ε: one panel for each kind of noise, one line for each method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gossamer.report.bands import COLOURS
from gossamer.report.curves import plain_axes
from gossamer.types import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_frontier(
    panels: Mapping[str, Mapping[str, tuple[Array, Array]]], title: str, *, label: str, log: bool
) -> Figure:
    """`panels` by kind of noise, then by method: (ε, one row of values for each seed)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 7.4), dpi=130, layout="constrained")
    grid = figure.subplots(2, 2, sharex=True, sharey=True, squeeze=False)
    handles: list[Any] = []
    for axes, (kind, methods) in zip(grid.flat, panels.items(), strict=False):
        handles = []
        for k, (x, rows) in enumerate(methods.values()):
            colour = COLOURS[k % len(COLOURS)]
            (line,) = axes.plot(
                x,
                rows.mean(axis=0),
                color=colour,
                marker="o",
                markersize=3,
                linewidth=2.4 if k == 0 else 1.3,
                zorder=3 - k / 20,
            )
            axes.fill_between(x, rows.min(axis=0), rows.max(axis=0), color=colour, alpha=0.10, linewidth=0)
            handles.append(line)
        axes.set_xscale("log")
        if log:
            axes.set_yscale("log")
        axes.set_title(kind, loc="left", fontsize=10)
        plain_axes(axes)
    for axes in grid[-1]:
        axes.set_xlabel("ε of every learner (pure for Laplace, at δ = 1e-5 for Gaussian)")
    figure.supylabel(label, fontsize=10)
    figure.suptitle(f"What privacy costs: {title}", x=0.01, ha="left", fontsize=12, fontweight="bold")
    names = list(next(iter(panels.values())))
    figure.legend(handles, names, loc="outside right center", frameon=False, fontsize=8)
    return figure
