"""ε over the rounds, a line per learner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gossamer.report.curves import plain_axes


def draw_budget(rounds: NDArray[Any], curves: Sequence[NDArray[Any]], title: str) -> Figure:
    figure = Figure(figsize=(6.8, 4.4), dpi=150, layout="constrained")
    axes = figure.subplots()
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(curves)))
    for i, (curve, colour) in enumerate(zip(curves, colours, strict=True)):
        axes.plot(rounds, curve, color=colour, linewidth=1.6, label=f"learner {i}")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("rounds")
    axes.set_ylabel("ε spent")
    axes.set_title(title, loc="left", fontsize=8, parse_math=False)
    if len(curves) <= 12:
        axes.legend(frameon=False, fontsize=7, ncols=2)
    plain_axes(axes)
    return figure
