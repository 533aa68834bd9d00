"""A run as a picture: errors on the left, what they mean for predictions on the right."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gossamer.files import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ERRORS = {
    "tracking_error": ("distance to the optimum, mean ‖θᵢ − θ*‖", "#1b4f72"),
    "optimality_gap": ("excess loss, mean F(θᵢ) − F(θ*)", "#b9770e"),
    "consensus_error": ("disagreement, mean ‖θᵢ − θ̄‖", "#7d8a97"),
}
QUALITY, TRAINING = "#196f3d", "#7d8a97"
FEW_DECADES = 2.5  # up to here 2 and 5 of every decade have room for a label, too


def draw_curves(history: Mapping[str, NDArray[Any]], *, score: str, title: str, caption: Sequence[str] = ()) -> Figure:
    """History arrays by name (see Record.history) as a figure with two panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.6), dpi=150, layout="constrained")
    errors, quality = figure.subplots(1, 2, width_ratios=(1.25, 1))
    for name, (label, colour) in ERRORS.items():
        shown = np.where(history[name] > 0, history[name], np.nan)
        if np.isfinite(shown).any():
            errors.plot(history["t"], shown, color=colour, label=label, linewidth=1.8)
    _log_axis(errors)
    errors.set_title("Errors", loc="left", fontsize=10)
    errors.legend(frameon=False, fontsize=8)
    if "train_accuracy" in history:
        _each_learner(quality, history)
    quality.plot(history["t"], history["accuracy"], color=QUALITY, linewidth=1.8)
    quality.set_title(f"{score.capitalize()}, mean over the learners", loc="left", fontsize=10)
    _label_end(quality, float(history["t"][-1]), float(history["accuracy"][-1]))
    for axes in (errors, quality):
        plain_axes(axes)
        axes.set_xlabel("rounds")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", parse_math=False)
    if caption:
        lines = [line for sentence in caption for line in textwrap.wrap(sentence, 150)]
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=7.5, color="#555555", parse_math=False)
    return figure


def _each_learner(axes: Axes, history: Mapping[str, NDArray[Any]]) -> None:
    """Every learner's accuracy, thin, and the mean on training records, dashed."""
    axes.plot(history["t"], history["learners_accuracy"], color=QUALITY, linewidth=0.6, alpha=0.35)
    axes.plot(history["t"], history["train_accuracy"], "--", color=TRAINING, linewidth=1.4, label="on training records")
    axes.plot([], [], color=QUALITY, label="on test records; thin: every learner")
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def spent(epsilon: NDArray[Any], delta: float = 0.0) -> str:
    """What privacy cost, in a few words: 'ε = 8' or, over unlike learners, 'ε = 1 to 8'; with δ where there is one."""
    low, high = (f"{end:.3g}" for end in (np.min(epsilon), np.max(epsilon)))
    at = f", δ = {delta:g}" if delta else ""
    return f"ε = {low if low == high else f'{low} to {high}'}{at}"


def _log_axis(axes: Axes) -> None:
    """Few enough labels to read: powers of ten, and between them only where there are few of those."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    few = np.log10(high / low) <= FEW_DECADES
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(_few_minor_labels if few else lambda value, _: ""))


def _few_minor_labels(value: float, _: object) -> str:
    """2 and 5 of every decade: enough to read a value off, few enough not to collide."""
    return f"{value:g}" if f"{value:.0e}"[0] in "25" else ""


def _label_end(axes: Axes, t: float, last: float) -> None:
    """The final value beside the line's end, outside the axes, where there is nothing to hide."""
    axes.set_xlim(right=t)
    axes.plot([t], [last], "o", color=QUALITY, markersize=4, clip_on=False)
    axes.annotate(
        f"{last:.3f}", (t, last), xytext=(6, 0), textcoords="offset points", va="center", color=QUALITY, fontsize=9
    )


def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the file's name asks for, whole or not at all."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.lower().removeprefix("."))
    replace_file(path, buffer.getvalue())


def plain_axes(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, which="major", color="#e5e8eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", labelsize=8)
