"""A run as a picture: errors on the left, what they mean for predictions on the right."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gossamer.files import replace_file
from gossamer.report.verdict import baseline_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ERRORS = {
    "tracking_error": ("distance to the optimum, mean ‖θᵢ − θ*‖", "#1b4f72"),
    "optimality_gap": ("excess loss, mean F(θᵢ) − F(θ*)", "#b9770e"),
    "consensus_error": ("disagreement, mean ‖θᵢ − θ̄‖", "#7d8a97"),
}
QUALITY, TRAINING, PROGRESSIVE, BASELINE = "#196f3d", "#7d8a97", "#8e44ad", "#444444"
OUTER, ROOM = 0.02, 0.5  # a window holds all but the outermost 2 % at either end, and half its height more
MANY = 0.1  # of a curve: so much of it beyond the edge is no spike
WORST = -1.0  # of R²: what is worse tells nothing more
BELOW = 2.0  # decades below the errors against θ* in which disagreement is seen
SOME_DECADES = 0.5  # from here on an axis of errors is logarithmic
LEGEND: dict[str, Any] = {  # under the axes, where there are no curves
    "fontsize": 8, "loc": "upper left", "bbox_to_anchor": (-0.02, -0.13), "frameon": False, "borderaxespad": 0.0,
}  # fmt: skip
FEW_DECADES = 2.5  # up to here 2 and 5 of every decade have room for a label, too


def draw_curves(
    history: Mapping[str, NDArray[Any]],
    *,
    score: str,
    title: str,
    caption: Sequence[str] = (),
    baselines: Mapping[str, Any] = MappingProxyType({}),
    reading: int = 0,
) -> Figure:
    """History arrays by name (see Record.history) as a figure with two panels.

    `baselines` may have what needs no learning, "majority", and what a central fit reaches, "optimum". In the first
    `reading` rounds nothing was released: they are shaded.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 5.0), dpi=150, layout="constrained")
    errors, quality = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _draw_errors(errors, history)
    _draw_quality(quality, history, score, baselines)
    for axes in (errors, quality):
        plain_axes(axes)
        axes.set_xlabel("rounds", fontsize=9, labelpad=1)
        if reading:
            said = f"nothing is released before round {reading:,}"
            axes.axvspan(0, reading, color="#f0f2f5", zorder=0, linewidth=0, label=said)
        if len(axes.get_legend_handles_labels()[1]) > 1:
            axes.legend(**LEGEND)
    write_title(figure, title)
    if caption:
        lines = [line for sentence in caption for line in textwrap.wrap(sentence, 150)]
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=7.5, color="#555555", parse_math=False)
    return figure


def write_title(figure: Figure, title: str) -> None:
    """In one line or two, from the left."""
    lines = "\n".join(textwrap.wrap(title, 110))
    figure.suptitle(lines, x=0.01, ha="left", fontsize=12, fontweight="bold", parse_math=False)


def _draw_errors(axes: Axes, history: Mapping[str, NDArray[Any]]) -> None:
    drawn: dict[str, NDArray[Any]] = {}
    for name, (label, colour) in ERRORS.items():
        shown = np.where(history[name] > 0, history[name], np.nan)
        if np.isfinite(shown).any():
            axes.plot(history["t"], shown, color=colour, label=label, linewidth=1.8)
            drawn[colour] = shown
    axes.set_title("Errors", loc="left", fontsize=10)
    axes.set_xlim(right=float(history["t"][-1]))
    if not drawn:
        return
    values = np.concatenate(list(drawn.values()))
    low, high = _window(np.log10(values))
    against = [drawn[colour] for name, (_, colour) in ERRORS.items() if name != "consensus_error" and colour in drawn]
    if against:  # learners may agree to the last digit: that is no reason to see nothing else
        low = max(low, _window(np.log10(np.concatenate(against)))[0] - BELOW)
    if high - low > SOME_DECADES:
        axes.set_ylim(10**low, 10**high)
        _log_axis(axes)
    else:
        axes.set_ylim(*_window(values))
    for colour, shown in drawn.items():
        _mark_cut(axes, history["t"], shown, colour)


def _draw_quality(axes: Axes, history: Mapping[str, NDArray[Any]], score: str, baselines: Mapping[str, Any]) -> None:
    """The mean over the learners, what else was measured, and what to read it beside."""
    t, mean = history["t"], history["accuracy"]
    tested = "train_accuracy" in history
    if "learners_accuracy" in history:
        axes.plot(t, history["learners_accuracy"], color=QUALITY, linewidth=0.6, alpha=0.35)
    if tested:
        axes.plot(t, history["train_accuracy"], "--", color=TRAINING, linewidth=1.4, label="on training records")
    progressive = history.get("progressive", np.full(len(t), np.nan))
    if np.isfinite(progressive).any():
        axes.plot(t, progressive, color=PROGRESSIVE, linewidth=1.2, label="before each record was learned from")
    told = "on test records; thin: every learner" if tested else "on the records learned from"
    axes.plot(t, mean, color=QUALITY, linewidth=1.8, label=told)
    levels = {name: baselines.get(name) for name in ("optimum", "majority")}
    for (name, level), style in zip(levels.items(), ("-.", ":"), strict=True):
        if level is not None:
            label = f"{baseline_words(score)[name]} {level:.3f}"
            axes.axhline(level, linestyle=style, color=BASELINE, linewidth=1.2, label=label)
    axes.set_title(f"{score.capitalize()}, mean over the learners", loc="left", fontsize=10)
    curves = [part for part in (mean, history.get("train_accuracy"), progressive) if part is not None]
    kept = [float(level) for level in (*levels.values(), max(mean[-1], WORST)) if level is not None]
    low, high = _window(np.maximum(np.concatenate(curves), WORST), kept)
    axes.set_ylim(low, high)
    _mark_cut(axes, t, mean, QUALITY)
    _label_end(axes, float(t[-1]), float(mean[-1]))


def _window(values: NDArray[Any], kept: Sequence[float] = ()) -> tuple[float, float]:
    """Where curves are to be seen: from all but the outermost values, with half as much room again around them.

    A spike beyond that is cut off and marked: it would flatten all else. `kept` values are always in the window.
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 1.0
    low, high = np.quantile(finite, [OUTER, 1 - OUTER])
    room = ROOM * max(high - low, 1e-3 * max(abs(high), abs(low)), 1e-12)
    low, high = max(low - room, finite.min()), min(high + room, finite.max())
    low, high = min([low, *kept]), max([high, *kept])
    margin = 0.05 * max(high - low, 1e-3 * max(abs(high), abs(low)), 1e-12)
    return float(low - margin), float(high + margin)


def _mark_cut(axes: Axes, t: NDArray[Any], values: NDArray[Any], colour: str) -> None:
    """Arrows at the edge for what is beyond it, with the farthest value; one arrow where most of a curve is."""
    low, high = axes.get_ylim()
    for beyond, edge, marker, farthest, inwards in (
        (values > high, high, "^", np.nanargmax, -9),
        (values < low, low, "v", np.nanargmin, 9),
    ):
        if beyond.any():
            worst = int(farthest(values))
            marked = t[beyond] if beyond.mean() < MANY else t[worst : worst + 1]
            axes.plot(marked, np.full(len(marked), edge), marker, color=colour, markersize=5, clip_on=False)
            right = t[worst] > 0.8 * t[-1]
            axes.annotate(
                f"{values[worst]:.2g}", (float(t[worst]), edge), xytext=(-6 if right else 6, inwards),
                textcoords="offset points", va="center", ha="right" if right else "left", color=colour, fontsize=8,
            )  # fmt: skip


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
    text = f"{last:.3f}" if abs(last) < 100 else f"{last:.1e}"
    last = max(last, axes.get_ylim()[0])
    axes.plot([t], [last], "o", color=QUALITY, markersize=4, clip_on=False)
    axes.annotate(text, (t, last), xytext=(6, 0), textcoords="offset points", va="center", color=QUALITY, fontsize=9)


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
