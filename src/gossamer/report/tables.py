"""The tables of a run's page: every learner at the end, and what is taken for what."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gossamer.report.verdict import baseline_words
from gossamer.report.view import MOST_ROWS, Cell, Column, Table

LOW, HIGH = 0.05, 0.95  # of the learners: what a band holds
SHORT = {"tracking_error": "‖θ−θ*‖", "optimality_gap": "F(θ)−F(θ*)", "consensus_error": "‖θ−θ̄‖"}
Summary = Mapping[str, Any]  # what Record.summary() gives, with None for what is not finite


def names_of(about: Mapping[str, Any], m: int) -> list[str]:
    """What the learners are called; their numbers where nobody named them."""
    return [str(name) for name in about["stream"].get("names") or range(m)]


def rounded(value: Any) -> float | None:
    """To seven digits, which no picture shows; None for what is not finite."""
    return float(f"{value:.7g}") if value is not None and math.isfinite(value) else None


def table_of(summary: Summary, delta: float) -> Table:
    """Every learner at the end, and below it the mean and what to read it beside."""
    about, learners = summary["config"], summary["learners"]
    score, names = about["score"], names_of(about, len(learners))
    quality = {"accuracy": score}
    if "train_accuracy" in learners[0]:
        quality = {"accuracy": f"test {score}", "train_accuracy": f"training {score}"}
    kept = [name for name in (*quality, *SHORT) if any(one.get(name) is not None for one in learners)]
    columns: list[Column] = [{"title": "learner", "form": "text"}]
    columns += [{"title": quality[name], "form": "share"} for name in kept if name in quality]
    columns += [{"title": SHORT[name], "form": "number"} for name in kept if name in SHORT]
    costs = _costs(summary, delta)
    columns += [column for column, _ in costs]
    rows: list[list[Cell]] = [
        [name, *(one.get(key) for key in kept), *(values[i] for _, values in costs)]
        for i, (name, one) in enumerate(zip(names, learners, strict=True))
    ]
    blank: list[Cell] = [""] * len(costs)
    foot: list[list[Cell]] = [["mean", *(summary["final"].get(key) for key in kept), *blank]]
    table: Table = {"columns": columns, "rows": rows, "foot": foot}
    if len(rows) > MOST_ROWS and kept:
        table["rows"], quantiles = _few(rows, len(kept))
        foot += [[*row, *blank] for row in quantiles]
        table["caption"] = f"The five lowest and the five highest of {len(rows):,} learners; all are in record.json."
    base = about.get("baselines") or {}
    for name, words in baseline_words(score).items():
        if base.get(name) is not None and kept[:1] == ["accuracy"]:
            foot.append([words, base[name], *[""] * (len(columns) - 2)])
    return table


def _few(rows: list[list[Cell]], numbers: int) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """The rows at either end of the first number, and quantiles of all numbers."""
    ranked = sorted(rows, key=lambda row: row[1] if isinstance(row[1], float) else math.inf)
    values = np.array([row[1 : 1 + numbers] for row in rows], dtype=float)
    names = {"lowest 5 %": LOW, "median": 0.5, "highest 5 %": HIGH}
    quantiles: list[list[Cell]] = [
        [name, *map(rounded, np.nanquantile(values, share, axis=0))] for name, share in names.items()
    ]
    return [*ranked[:5], *ranked[-5:]], quantiles


def _costs(summary: Summary, delta: float) -> list[tuple[Column, list[Cell]]]:
    if summary["epsilon"] is None:
        return [({"title": "ε", "form": "text"}, ["not private"] * len(summary["learners"]))]
    at: Column = (
        {"title": "ε", "unit": f"δ = {delta:g}", "form": "epsilon"} if delta else {"title": "ε", "form": "epsilon"}
    )
    parts: list[tuple[Column, Any]] = [
        (at, summary["epsilon"]),
        ({"title": "ε for ever", "form": "epsilon"}, summary["epsilon_for_ever"]),
    ]
    if summary.get("epsilon_if_all_collude") is not None:
        parts.append(({"title": "ε if all others collude", "form": "epsilon"}, summary["epsilon_if_all_collude"]))
    return [(column, ["∞" if value is None else value for value in values]) for column, values in parts]


def confusion_of(about: Mapping[str, Any]) -> Table | None:
    """How many records of each class are taken for which; None where that is not known."""
    counts = about.get("confusion")
    if counts is None:
        return None
    names = [str(name) for name in about["stream"].get("classes") or range(len(counts))]
    columns: list[Column] = [{"title": "true \\ predicted", "form": "text"}]
    columns += [{"title": name, "form": "count"} for name in names]
    rows: list[list[Cell]] = [[name, *row] for name, row in zip(names, counts, strict=True)]
    return {"columns": columns, "rows": rows, "foot": [], "caption": "Records, as a mean over the learners."}
