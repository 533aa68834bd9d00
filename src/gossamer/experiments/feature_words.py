"""Images at real privacy, as a page."""

from __future__ import annotations

from typing import Any

import numpy as np

from gossamer.datasets import DATASETS
from gossamer.experiments.features import CLIP
from gossamer.experiments.pages import Page, say_against, say_gradient
from gossamer.experiments.study import Entry, Studied
from gossamer.spec.description import DELTA

GUESSING = 0.1  # the accuracy of a run that diverged
CHOSEN = (
    "The features see no private image, but how they are made was chosen by us: pool size, ridge and the logarithm's "
    "floor by test accuracy over some thirty variants, so a little of what is seen may be luck."
)


def tell_features(studied: Studied) -> Page:
    data, effort = studied.problem.data, studied.effort
    noised = studied.problem.but(law="gaussian", where="source", epsilon="1")
    how = (
        f"Ten learners, Network.paper(), {data.split} split, no image read twice, {_read(studied)}; gradients "
        f"over {say_gradient(noised)}; scattering features and a linear head; "
        f"each image's gradient clipped to ‖g‖₂ ≤ {CLIP:g} (without noise not at all), "
        f"Gaussian noise at the source; ε protects one image, at δ = {DELTA:g}. Test accuracy, mean over learners and "
        f"{effort.seeds} seeds, in brackets the least and the greatest seed; below it the images a round and λ0, "
        "which were chosen on another seed by the accuracy on training images. That choice is not charged to ε. "
        f"{CHOSEN} The noise is seeded, of the scale that the budget asks for. {_edges(studied)}"
    )
    label = DATASETS.find(data.dataset or "").label
    numbers = list_numbers(studied)
    return Page(f"{label} at real privacy", how, list_rows(studied), [], numbers, against=say_against(studied))


def list_rows(studied: Studied) -> list[list[str]]:
    budgets = list(dict.fromkeys(e.case.epsilon for e in studied.entries))
    rows = [["method", *("no noise" if epsilon is None else f"ε = {epsilon:g}" for epsilon in budgets)]]
    for method in studied.methods():
        mine = {e.case.epsilon: e for e in studied.entries if e.method == method}
        rows.append([mine[budgets[0]].label, *(_cell(mine[epsilon]) for epsilon in budgets)])
    return rows


def _cell(entry: Entry) -> str:
    if entry.diverged:
        return "diverged"
    values = entry.final("accuracy")
    chosen = f"N = {entry.choice.per_round}, λ0 = {entry.step:g}"
    return f"**{np.mean(values):.3f}** ({min(values):.3f}–{max(values):.3f})<br>{chosen}"


def _read(studied: Studied) -> str:
    shares = [run["read"] for e in studied.entries for run in e.runs]
    return f"{min(shares):.0%} to {max(shares):.0%} of all read in full rounds"


def _edges(studied: Studied) -> str:
    """Where the grid ends at the best choice."""
    rounds, grid = [n for n in studied.effort.per_round if n is not None], studied.effort.grid
    ends = sum(
        e.choice.per_round in (min(rounds), max(rounds)) or e.step in (min(grid), max(grid)) for e in studied.entries
    )
    return (
        f"The grid was N in {', '.join(map(str, rounds))} and λ0 in {', '.join(f'{s:g}' for s in grid)}; {ends} of "
        f"{len(studied.entries)} choices lie at one of its ends, so more could be gained there."
    )


def list_numbers(studied: Studied) -> dict[str, Any]:
    data = studied.problem.data
    cells = [
        {
            "method": e.method,
            "epsilon": e.case.epsilon,
            "per_round": e.choice.per_round,
            "step": e.step,
            "runs": [_compact(run) for run in e.runs],
        }
        for e in studied.entries
    ]
    return {"data": data.dataset, "split": data.split, "delta": DELTA, "clip": CLIP, "cells": cells}


def _compact(run: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {name: run[name] for name in ("diverged", "steps", "read", "why") if name in run}
    kept |= {"noise": run["noise"][0], "epsilon": max(run["epsilon"])} if "noise" in run else {}
    if not run["diverged"]:
        kept |= {name: run[name][-1] for name in ("accuracy", "train_accuracy")}
        kept["learners_accuracy"] = np.round(run["learners_accuracy"], 4).tolist()
    return kept


def list_accuracies(entry: Entry) -> list[float]:
    return entry.final("accuracy", GUESSING)
