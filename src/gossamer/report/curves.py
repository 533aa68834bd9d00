"""A run as a picture: errors on the left, what they mean for predictions on the right."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

ERRORS = {
    "tracking_error": ("distance to the optimum, mean ‖θᵢ − θ*‖", "#1b4f72"),
    "optimality_gap": ("excess loss, mean F(θᵢ) − F(θ*)", "#b9770e"),
    "consensus_error": ("disagreement, mean ‖θᵢ − θ̄‖", "#7d8a97"),
}


def draw_curves(history: Mapping[str, NDArray[Any]], *, score: str, title: str, caption: Sequence[str] = ()) -> Figure:
    """History arrays by name (see Record.history) as a figure with two panels."""
    figure = Figure(figsize=(9.6, 4.6), dpi=150, layout="constrained")
    errors, quality = figure.subplots(1, 2, width_ratios=(1.25, 1))
    for name, (label, colour) in ERRORS.items():
        shown = np.where(history[name] > 0, history[name], np.nan)
        if np.isfinite(shown).any():
            errors.plot(history["t"], shown, color=colour, label=label, linewidth=1.8)
    errors.set_yscale("log")
    errors.yaxis.set_minor_formatter(FuncFormatter(_few_minor_labels))
    errors.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    errors.set_title("Errors", loc="left", fontsize=10)
    errors.legend(frameon=False, fontsize=8)
    quality.plot(history["t"], history["accuracy"], color="#196f3d", linewidth=1.8)
    quality.set_title(f"{score.capitalize()}, mean over the learners", loc="left", fontsize=10)
    last = float(history["accuracy"][-1])
    quality.annotate(
        f"{last:.3f}",
        (history["t"][-1], last),
        xytext=(-4, -14),
        textcoords="offset points",
        ha="right",
        color="#196f3d",
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
    )
    for axes in (errors, quality):
        plain_axes(axes)
        axes.set_xlabel("rounds")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", parse_math=False)
    if caption:
        lines = [line for sentence in caption for line in textwrap.wrap(sentence, 150)]
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=7.5, color="#555555", parse_math=False)
    return figure


def _few_minor_labels(value: float, _: object) -> str:
    """2 and 5 of every decade: enough to read a value off, few enough not to collide."""
    return f"{value:g}" if f"{value:.0e}"[0] in "25" else ""


def plain_axes(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, which="major", color="#e5e8eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", labelsize=8)
