"""What a run leaves to look at: report.html, and each of its figures as PNG and PDF beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gossamer.files import replace_file
from gossamer.report.curves import save_picture
from gossamer.report.html import page
from gossamer.report.view import Epsilon, Network, View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT = "report.html"
FORMATS = (".png", ".pdf")


def write_report(folder: Path, view: View, curves: Figure | None = None) -> list[Path]:
    """Write the page and the pictures: run, network and epsilon, as far as there is something to draw."""
    replace_file(folder / REPORT, page(view).encode())
    figures = {"run": curves, "network": _links(view["network"], view), "epsilon": _spent(view["epsilon"], view)}
    written = [folder / REPORT]
    for name, figure in figures.items():
        if figure is not None:
            written += save_pictures(figure, folder / name)
    return written


def save_pictures(figure: Figure, base: Path) -> list[Path]:
    """Write a figure in each format; it is laid out once, which takes as long as drawing it."""
    written = [base.with_name(base.name + suffix) for suffix in FORMATS]
    for path in written:
        save_picture(figure, path)
        figure.set_layout_engine("none")
    return written


def _links(network: Network | None, view: View) -> Figure | None:
    from gossamer.report.graph import draw_links

    if network is None:
        return None
    title = f"{view['title']}\n{network['m']:,} learners, {network['links']:,} links"
    return draw_links(network["edges"], network["perron"], title, network["names"])


def _spent(epsilon: Epsilon | None, view: View) -> Figure | None:
    from gossamer.report.budget import draw_budget

    if epsilon is None:
        return None
    at = f" at δ = {epsilon['delta']:g}" if epsilon["delta"] else ""
    title = f"{view['title']}: ε spent{at}, {epsilon['against']}"
    levels = sorted({budget for budget in epsilon["budget"] if budget is not None})
    alike: dict[tuple[float, ...], list[str]] = {}  # learners that spend alike are one line
    for one in epsilon["learners"]:
        spent = tuple(np.nan if e is None else float(e) for e in one["y"])
        alike.setdefault(spent, []).append(one["name"].removeprefix("learner "))
    names = [
        f"all {len(who)}" if 1 < len(who) == len(epsilon["learners"]) else ", ".join(who) for who in alike.values()
    ]
    curves = [np.array(spent) for spent in alike]
    return draw_budget(np.array(epsilon["t"]), curves, title, names, levels=levels, xscale="linear")
