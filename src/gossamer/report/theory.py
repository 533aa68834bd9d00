"""Measured against predicted, on log-log paper; ε by several ways of counting; and what a rate costs in ε."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gossamer.report.bands import COLOURS
from gossamer.report.curves import plain_axes
from gossamer.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEASURED, FITTED = "#1b4f72", "#c0392b"
GUIDES = ("#b9770e", "#117864", "#6c3483")
ABOVE = 1.9  # guides start so many times above the measured mean, so that they do not hide it
FOR_LEGEND = 0.55  # of a panel's height, on top of it, where a bound leaves no room below
ACROSS = 3  # panels in a row


@dataclass(frozen=True)
class Panel:
    """A mean over seeds with its interval, the line that was fitted to it, and the slopes that were predicted."""

    title: str
    t: Array
    mean: Array
    low: Array
    high: Array
    since: float  # the line is fitted from here on
    slope: float
    level: float  # of the fitted line at t = 1
    predicted: Mapping[str, float] = field(default_factory=dict)  # by name: the exponent β of t^−β
    bound: Array | None = None  # what is proved to be above the mean
    until: float = np.inf


def draw_rates(panels: Sequence[Panel], *, ylabel: str, title: str, first: float = 1.0) -> Figure:
    """One panel for each schedule, from round `first` on. Predicted slopes start above where the fitted line starts."""
    from matplotlib.figure import Figure

    down = -(-len(panels) // ACROSS)
    figure = Figure(figsize=(10.8, 0.9 + 3.1 * down), dpi=130, layout="constrained")
    grid = figure.subplots(down, ACROSS, sharex=True, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for axes, panel in zip(grid.flat[: len(panels)], panels, strict=True):
        _draw_panel(axes, panel, panel.t >= first)
        axes.tick_params(labelbottom=True)
    figure.supxlabel("rounds t", fontsize=10)
    figure.supylabel(ylabel, fontsize=10)
    figure.suptitle(_in_symbols("\n".join(textwrap.wrap(title, 125))), x=0.01, ha="left", fontsize=10)
    return figure


def _draw_panel(axes: Axes, panel: Panel, shown: NDArray[np.bool_]) -> None:
    t = panel.t[shown]
    axes.fill_between(t, panel.low[shown], panel.high[shown], color=MEASURED, alpha=0.2, linewidth=0)
    axes.plot(t, panel.mean[shown], color=MEASURED, linewidth=1.5, label="mean over seeds")
    x = np.array([panel.since, min(panel.t[-1], panel.until)])
    line = panel.level * x**panel.slope
    axes.plot(x, line, "--", color=FITTED, linewidth=1.6, label=f"fitted: slope {_signed(panel.slope)}")
    same: dict[float, list[str]] = {}
    for name, exponent in panel.predicted.items():
        same.setdefault(round(exponent, 6), []).append(name)
    for k, (exponent, names) in enumerate(same.items()):
        guide = ABOVE ** (k + 1) * line[0] * (x / x[0]) ** -exponent
        axes.plot(x, guide, ":", color=GUIDES[k], linewidth=1.9, label=f"{', '.join(names)}: {_signed(-exponent)}")
    axes.set(xscale="log", yscale="log")
    if panel.bound is not None:
        axes.plot(t, panel.bound[shown], color="#444444", linewidth=1.2, label="proved bound")
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (high / low) ** FOR_LEGEND)
    _thin_ticks(axes)
    axes.set_title(_in_symbols(panel.title), loc="left", fontsize=9.5)
    plain_axes(axes)
    axes.legend(frameon=False, fontsize=7.5, loc="best" if panel.bound is None else "upper right")


def _thin_ticks(axes: Axes) -> None:
    """No ticks between the decades where there are several: they are slow to draw, and tell nothing."""
    from matplotlib.ticker import NullLocator

    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        if high > 30 * low:
            axis.set_minor_locator(NullLocator())


def _in_symbols(text: str) -> str:
    symbols = {"ς_ζ": r"$\varsigma_\zeta$", "ς_ϑ": r"$\varsigma_\vartheta$", "θ_0": "θ₀"}
    for name, symbol in symbols.items():
        text = text.replace(name, symbol)
    return re.sub(r"-(?=\d)", "−", text)


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def draw_epsilons(curves: Mapping[str, tuple[Array, Array]], title: str) -> Figure:
    """ε after so many rounds, by each way of counting: (rounds, ε)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 4.4), dpi=140, layout="constrained")
    axes = figure.subplots()
    for k, (label, (t, epsilon)) in enumerate(curves.items()):
        style: dict[str, Any] = {"color": COLOURS[k], "linewidth": 1.8, "label": label}
        if len(t) < 12:
            style |= {"marker": "o", "markersize": 4}
        axes.plot(t, epsilon, **style)
    axes.set(xscale="log", yscale="log", xlabel="rounds t", ylabel="ε spent by the learner that spends most")
    figure.suptitle(_in_symbols("\n".join(textwrap.wrap(title, 95))), x=0.01, ha="left", fontsize=10)
    plain_axes(axes)
    axes.legend(frameon=False, fontsize=8, loc="best")
    return figure


def draw_tradeoff(curves: Mapping[str, tuple[Array, Array]], title: str) -> Figure:
    """Proved rates against ε for ever: (ε, rate) of the best schedules, by kind of noise and proof."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.8, 4.6), dpi=140, layout="constrained")
    axes = figure.subplots()
    for k, (label, (epsilon, rate)) in enumerate(curves.items()):
        style = "--" if "ours" in label else "-"
        axes.plot(
            epsilon,
            rate,
            style,
            color=COLOURS[k],
            linewidth=1.7,
            marker="o",
            markersize=3.5,
            label=label,
            zorder=3 - k / 9,
        )
    axes.set(
        xscale="log",
        xlabel="ε for ever, of noise that starts with scale 1",
        ylabel=r"proved rate: E‖θ − θ*‖² = $O(t^{-\mathrm{rate}})$",
    )
    axes.set_ylim(0, 1.06)
    figure.suptitle("\n".join(textwrap.wrap(title, 100)), x=0.01, ha="left", fontsize=10)
    plain_axes(axes)
    axes.legend(frameon=False, fontsize=8, loc="best")
    return figure
