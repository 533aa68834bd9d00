"""A study as a view: several methods over the rounds, or over ε, and what was found."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.report.tables import rounded
from gossamer.report.view import VERSION, Chart, Column, Network, Picture, Series, View, now
from gossamer.types import Array

LOW, HIGH = 0.05, 0.95
SIMULATED = "Not private: the noise of these runs is seeded, of the scales for which ε is shown"


def study_view(
    title: str,
    about: str,
    rows: Sequence[Sequence[str]],
    *,
    findings: Sequence[str],
    command: str,
    software: str,
    charts: Sequence[Chart] = (),
    pictures: Sequence[Picture] = (),
    network: Network | None = None,
    against: str = "",
) -> View:
    """The page of a study; `rows` are its table as text, the header first; `against` is whom ε would hold against."""
    columns: list[Column] = [{"title": name, "form": "text"} for name in rows[0]]
    return {
        "version": VERSION,
        "kind": "comparison",
        "title": title,
        "subtitle": "",
        "claim": f"{SIMULATED}; it would hold {against}." if against else "",
        "private": False,
        "against": against,
        "meaning": about,
        "warnings": [],
        "notes": list(findings),
        "facts": [],
        "command": command,
        "config": "",
        "software": software,
        "seed": None,
        "when": now(),
        "network": network,
        "charts": list(charts),
        "epsilon": None,
        "table": {"columns": columns, "rows": [list(row) for row in rows[1:]], "foot": []},
        "confusion": None,
        "live": None,
        "pictures": list(pictures),
    }


def chart_of_methods(
    which: str,
    title: str,
    curves: Mapping[str, tuple[Array, Array]],
    *,
    unit: str = "",
    log: bool = False,
    dashed: Sequence[str] = (),
    over: str = "",
    quantiles: tuple[float, float] = (LOW, HIGH),
) -> Chart:
    """Curves by label, (x, one row of values for each seed), as their means with a band; `over` is what x is."""
    t = sorted({float(x) for xs, _ in curves.values() for x in xs})
    series: list[Series] = []
    seeds = max((len(values) for _, values in curves.values()), default=0)
    for label, (x, values) in curves.items():
        if not len(x):
            continue
        mean, low, high = values.mean(axis=0), *np.quantile(values, quantiles, axis=0)
        one: Series = {"name": label, "y": _placed(t, x, mean), "group": "method", "dashed": label in dashed}
        if seeds > 1:
            one |= {"low": _placed(t, x, low), "high": _placed(t, x, high)}
        series.append(one)
    chart: Chart = {
        "id": which, "title": title, "unit": unit, "log": log, "t": [int(x) if x.is_integer() else x for x in t],
        "series": series, "lines": [],
    }  # fmt: skip
    if over:
        chart |= {"x": over, "logx": True}
    if seeds > 1:
        share = quantiles[1] - quantiles[0]
        chart["band"] = f"Means of {seeds} seeds; the bands hold {'all' if share == 1 else f'{share:.0%}'} of them."
    return chart


def _placed(t: Sequence[float], x: Array, values: Array) -> list[float | None]:
    """Values at their places among all places, None at the others."""
    known: dict[float, Any] = {float(at): value for at, value in zip(x, values, strict=True)}
    return [rounded(known.get(at)) for at in t]


def embed_picture(title: str, path: Path) -> Picture:
    """A PNG as it can stand in a page."""
    return {"title": title, "data": f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"}
