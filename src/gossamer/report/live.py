"""Views of runs that go on: before anything is known, and of a plan of which only the beginning is done."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import Any

from gossamer.report.run import curves_of
from gossamer.report.view import VERSION, Kind, View
from gossamer.version import __version__


def starting_view(kind: Kind, title: str, subtitle: str, command: str = "", **live: Any) -> View:
    """A page for those who look before there is anything to see."""
    return {
        "version": VERSION, "kind": kind, "title": title, "subtitle": subtitle, "claim": "", "private": False,
        "against": "", "meaning": "", "warnings": [], "notes": [], "facts": [], "command": command, "config": "",
        "software": f"gossamer {__version__}", "seed": None, "when": "", "network": None, "charts": [],
        "epsilon": None, "table": None, "confusion": None, "live": live,
    }  # fmt: skip


def points_after(t: Sequence[int], known: int, now: int) -> slice:
    """Which of the rising rounds lie after `known`, up to `now`."""
    return slice(bisect.bisect_right(t, known), bisect.bisect_right(t, now))


def more_points(
    charts: Sequence[Mapping[str, Any]], history: Mapping[str, Sequence[Any]], about: Any
) -> dict[str, Any]:
    """What new rows of a history add to the charts, as a delta has it; edges of a band have names of their own."""
    curves = curves_of(history, about)
    added: dict[str, Any] = {}
    for chart in charts:
        found = {one["name"]: one for one in curves[chart["id"]]}
        series: dict[str, Any] = {}
        for one in chart["series"]:
            new = found[one["name"]]
            series[one["name"]] = new["y"]
            for edge in ("high", "low"):
                if edge in one:
                    series[f"{one['name']} {edge}"] = new[edge]
        added[chart["id"]] = {"t": list(history["t"]), "series": series}
    return added
