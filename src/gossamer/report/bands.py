"""Several methods in one picture, over the rounds or over ε: each a mean over seeds, with a band."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gossamer.report.curves import plain_axes
from gossamer.types import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (
    "#c0392b", "#1f618d", "#b9770e", "#117864", "#6c3483", "#566573",
    "#d35400", "#2e86c1", "#229954", "#e91e8c", "#7d6608", "#1b2631", "#85c1e9", "#f1948a",
)  # fmt: skip
STYLES = ("-", "-.", ":")  # of six curves each: some colours are near to each other
LOW, HIGH = 0.05, 0.95


def draw_bands(
    curves: Mapping[str, tuple[Array, Array]],
    *,
    ylabel: str,
    title: str,
    xlabel: str = "rounds",
    dashed: Mapping[str, str] | None = None,
    logx: bool = False,
    yscale: Literal["log", "linear", "logit"] = "log",
) -> Figure:
    """`curves` by label: (x, one row of values for each seed). The first is drawn on top and thicker.

    `dashed` labels are drawn dashed, in the colour of the label they belong to.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullLocator

    dashed = dashed or {}
    solid = [label for label in curves if label not in dashed]
    figure = Figure(figsize=(8.6, 5.0), dpi=150, layout="constrained")
    axes = figure.subplots()
    for k, (label, (x, rows)) in enumerate(curves.items()):
        of = dashed.get(label, label)
        colour = COLOURS[(solid.index(of) if of in solid else k) % len(COLOURS)]
        mean, low, high = rows.mean(axis=0), *np.quantile(rows, [LOW, HIGH], axis=0)
        shown = np.where(mean > 0, mean, np.nan) if yscale == "log" else mean
        before = [other for other in curves if dashed.get(other) == of]  # of one colour: dashed, then dotted
        style = ("--", ":")[before.index(label) % 2] if label in dashed else STYLES[solid.index(label) // 6 % 3]
        width, layer = (2.4, 3) if k == 0 else (1.4, 2)
        axes.plot(x, shown, style, color=colour, linewidth=width, label=label, zorder=layer)
        if len(rows) > 1:
            low = np.maximum(low, 1e-300) if yscale == "log" else low
            axes.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
    axes.set(xscale="log" if logx else "linear", yscale=yscale, xlabel=xlabel, ylabel=ylabel)
    if yscale == "logit":  # shares: 0.9 and 0.99 as far apart as 0.1 and 0.5
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_yticks([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995])
        shares = [share for _, rows in curves.values() for share in (rows.min(), rows.max())] or [0.1, 0.9]
        axes.set_ylim(max(0.9 * min(shares), 0.01), 1 - 0.8 * (1 - min(max(shares), 0.999)))
    figure.suptitle("\n".join(textwrap.wrap(title, 110)), x=0.01, ha="left", fontsize=10)
    plain_axes(axes)
    axes.legend(frameon=False, fontsize=7.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def draw_frontier(
    panels: Mapping[str, Mapping[str, tuple[Array, Array]]], title: str, *, label: str, log: bool
) -> Figure:
    """`panels` by kind of noise, then by method: (ε, one row of values for each seed)."""
    from matplotlib.figure import Figure

    rows_of_panels = -(-len(panels) // 2)
    figure = Figure(figsize=(11.5, 0.4 + 3.5 * rows_of_panels), dpi=130, layout="constrained")
    grid = figure.subplots(rows_of_panels, 2, sharex=True, sharey=True, squeeze=False)
    handles: list[Any] = []
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for axes, (kind, methods) in zip(grid.flat[: len(panels)], panels.items(), strict=True):
        handles = []
        for k, (x, rows) in enumerate(methods.values()):
            colour = COLOURS[k % len(COLOURS)]
            width = 2.4 if k == 0 else 1.3
            style = {"color": colour, "marker": "o", "markersize": 3, "linewidth": width, "zorder": 3 - k / 20}
            style["linestyle"] = STYLES[k // 6 % 3]
            if not len(x):  # this method has no such panel; its colour is the same in all
                handles += axes.plot([], [], **style)
                continue
            handles += axes.plot(x, rows.mean(axis=0), **style)
            axes.fill_between(x, rows.min(axis=0), rows.max(axis=0), color=colour, alpha=0.10, linewidth=0)
        axes.set(xscale="log", yscale="log" if log else "linear")
        axes.set_title(kind, loc="left", fontsize=10)
        axes.tick_params(labelbottom=True)
        plain_axes(axes)
    figure.supxlabel("ε of every learner (pure for Laplace, at δ = 1e-5 for Gaussian)", fontsize=10)
    figure.supylabel(label, fontsize=10)
    figure.suptitle(f"What privacy costs: {title}", x=0.01, ha="left", fontsize=12, fontweight="bold")
    names = list(next(iter(panels.values())))
    figure.legend(handles, names, loc="outside right center", frameon=False, fontsize=8)
    return figure
