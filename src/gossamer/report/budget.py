"""ε over the rounds, a line per learner."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gossamer.report.curves import plain_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LABELS = 20  # more learners than these get a colour bar
APART = 0.045  # of the axes' height: labels closer than this would touch


def draw_budget(
    rounds: NDArray[Any],
    curves: Sequence[NDArray[Any]],
    title: str,
    names: Sequence[str] | None = None,
    *,
    levels: Sequence[float] = (),
    xscale: Literal["log", "linear"] = "log",
) -> Figure:
    """Each learner's ε after so many rounds; `names` say whose line is which, `levels` are budgets."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.8, 4.4), dpi=150, layout="constrained")
    axes = figure.subplots()
    shades = ListedColormap(colormaps["viridis"](np.linspace(0.15, 0.85, 256)))  # its yellow is hard to see
    scale = ScalarMappable(Normalize(0, max(1, len(curves) - 1)), shades)
    colours = scale.to_rgba(np.arange(len(curves)))
    for curve, colour in zip(curves, colours, strict=True):
        axes.plot(rounds, curve, color=colour, linewidth=1.6)
    for level in levels:
        axes.axhline(level, linestyle=":", color="#444444", linewidth=1.2)
        axes.annotate("budget", (0, level), xycoords=("axes fraction", "data"), xytext=(4, -10), fontsize=8,
                      textcoords="offset points", color="#444444")  # fmt: skip
    axes.set(xscale=xscale, ylim=(0, None), xlim=(None, rounds[-1]), xlabel="rounds", ylabel="ε spent")
    axes.set_title("\n".join(textwrap.wrap(title, 78)), loc="left", fontsize=10, parse_math=False, pad=14)
    plain_axes(axes)
    if len(curves) <= MOST_LABELS:
        _label_ends(axes, names or [str(i) for i in range(len(curves))], curves, colours)
    else:
        figure.colorbar(scale, ax=axes, label="learner")
    return figure


def _label_ends(axes: Axes, names: Sequence[str], curves: Sequence[NDArray[Any]], colours: NDArray[Any]) -> None:
    """Names right of the axes at the height of the lines' ends, moved apart where they would touch."""
    style: dict[str, Any] = {"xycoords": "axes fraction", "fontsize": 8, "parse_math": False}
    low, high = axes.get_ylim()
    groups = _coinciding(curves, 1e-3 * (high - low))
    ends = [(float(curves[group[0]][-1]) - low) / (high - low) for group in groups]
    for group, end, place in zip(groups, ends, _apart(ends), strict=True):
        colour = colours[group[-1]]  # drawn last, so seen
        whose, line = ", ".join(names[i] for i in group), {"arrowstyle": "-", "linewidth": 0.6, "color": colour}
        line |= {"shrinkA": 0, "shrinkB": 0}
        axes.annotate(whose, (1, end), (1.03, place), va="center", color=colour, arrowprops=line, **style)
    axes.annotate("learner", (1.03, 1.045), color="#555555", **style)


def _coinciding(curves: Sequence[NDArray[Any]], tolerance: float) -> list[list[int]]:
    """Which lines lie on one another, by the height at which they end; none that leaves the picture."""
    groups: list[list[int]] = []
    for i, curve in enumerate(curves):
        if np.isfinite(curve).all():
            same = next((group for group in groups if np.abs(curves[group[0]] - curve).max() <= tolerance), None)
            groups += [[i]] if same is None else []
            (same or []).append(i)
    return sorted(groups, key=lambda group: float(curves[group[0]][-1]))


def _apart(places: list[float]) -> list[float]:
    """The rising places, moved up as little as keeps them apart, and then down where they would leave the axes."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + APART) if moved else place)
    over = max(0.0, moved[-1] - 1) if moved else 0.0
    return [place - over for place in moved]
