"""What privacy costs, as a page: who is best at each ε, and from which ε on a kind of noise is useful at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.algorithms import find_method
from gossamer.experiments.frontier import KINDS, budget_of, curve, ours_beside
from gossamer.experiments.pages import Page, network_of, paired, problem_of, rounded, say_against, say_data, score_of
from gossamer.experiments.study import Entry, Studied
from gossamer.privacy.laws import law_named
from gossamer.spec.description import DELTA

if TYPE_CHECKING:
    from gossamer.report.view import Chart

FIGURES = {
    "accuracy.png": ("Accuracy against ε", "accuracy", "final accuracy, mean over learners and seeds", 0.0),
    "gap.png": ("Optimality gap against ε", "optimality_gap", "final excess loss, mean F(θᵢ) − F(θ*)", float("nan")),
}


def tell_frontier(studied: Studied) -> Page:
    about = (
        f"{_run_on(studied)}. Mean {score_of(studied)} at the end over {studied.effort.seeds} seeds, by method and "
        f"kind of noise. ε holds {say_against(studied)}. {_tuned(studied)} With noise on messages gradients are over "
        "all records so far; at the source as the kind of noise says: 'latest' is the newest round's records, "
        "'correlated' the same with noise that is correlated over 64 releases, 'history' all records so far, 'secrets' "
        "the same with noise that learners share pair by pair, and that cancels. A method with its own term noised is "
        "shown for noise on messages only: at the source both forms are one run."
    )
    rows = list_rows(studied)
    return Page(
        "What privacy costs", about, rows, list_findings(studied), list_numbers(studied), _draw(studied),
        _charts(studied), network_of(studied), say_against(studied),
    )  # fmt: skip


def _run_on(studied: Studied) -> str:
    return f"{say_data(studied.problem)}, one pass of {studied.effort.steps} rounds"


def _tuned(studied: Studied) -> str:
    effort = studied.effort
    what = "λ0, the exponents and the split between channels were" if effort.refined else "λ0 was"
    return (
        f"{what} chosen on {effort.tuning_seeds} other seed{'s' * (effort.tuning_seeds > 1)} by the quantity "
        "that is shown: in the table and the first picture by accuracy, in the second by the optimality gap."
    )


def _kinds(studied: Studied) -> list[str]:
    return list(dict.fromkeys(e.which for e in studied.entries))


def list_numbers(studied: Studied) -> dict[str, Any]:
    points = [
        {
            "method": e.method,
            "noise": e.which,
            "epsilon": budget_of(e),
            "delta": (studied.problem.privacy.delta or DELTA) if law_named(e.case.law).needs_delta else 0.0,
            "chosen_by": e.case.by,
            "step": e.step,
            "exponents": list(e.exponents),
            "split": e.choice.split,
            **{name: [rounded(v) for v in e.final(name, float("nan"))] for name in ("accuracy", "optimality_gap")},
        }
        for e in studied.entries
    ]
    effort = studied.effort
    return {"problem": problem_of(studied), "steps": effort.steps, "grid": list(effort.grid), "points": points}


def list_rows(studied: Studied) -> list[list[str]]:
    """Mean accuracy by method and kind of noise, one column for each ε; the header first."""
    rows = [["method", "noise", *(f"ε = {e:g}" for e in sorted({budget_of(e) for e in studied.entries}))]]
    for method in studied.methods():
        for kind in KINDS:
            x, values = curve(studied, method, kind, "accuracy", float("nan"))
            if len(x):
                cells = [f"{v:.3f}" if np.isfinite(v) else "–" for v in values.mean(axis=0)]
                rows.append([find_method(method).label, kind, *cells])
    return rows


def list_findings(studied: Studied) -> list[str]:
    """For every kind of noise, who is best at each ε; and from which ε on a kind is useful at all."""
    said = []
    for kind in _kinds(studied):
        for epsilon in sorted({budget_of(e) for e in studied.entries}):
            cell = [e for e in studied.entries if (e.which, e.case.epsilon, e.case.by) == (kind, epsilon, "accuracy")]
            best = max(cell, key=_accuracy)
            start = next((run["accuracy"][0] for e in cell for run in e.runs if not run["diverged"]), 0.0)
            better = _accuracy(best) > start
            who = f"best is {best.label}, {_accuracy(best):.3f}" if better else "no method beats its start"
            said.append(f"{kind}, ε = {epsilon:g}: {who} (θ = 0 has {start:.3f}){_beside_ours(studied, best)}.")
    return said


def _beside_ours(studied: Studied, best: Entry) -> str:
    """The best less Algorithm 1, seed by seed."""
    ours = ours_beside(studied, best)
    if ours is None or ours is best:
        return ""
    difference = paired(best, ours, "accuracy")
    return f"; less Algorithm 1, seed by seed: {difference or 'unknown'}"


def _accuracy(entry: Entry) -> float:
    return float(np.mean(entry.final("accuracy", 0.0)))


def _panels(studied: Studied, name: str, worst: float) -> dict[str, dict[str, tuple[Any, Any]]]:
    """By kind of noise, then by method: (ε, one row for each seed)."""
    return {
        kind: {find_method(m).label: curve(studied, m, kind, name, worst) for m in studied.methods()}
        for kind in _kinds(studied)
    }


def _draw(studied: Studied) -> dict[str, tuple[str, Any]]:
    from gossamer.report.bands import draw_frontier

    figures = {}
    for file, (shows, name, label, worst) in FIGURES.items():
        panels = _panels(studied, name, worst)
        figures[file] = shows, draw_frontier(panels, _run_on(studied), label=label, log=name != "accuracy")
    return figures


def _charts(studied: Studied) -> list[Chart]:
    """The same to hover and zoom in, a chart for each kind of noise."""
    from gossamer.report.study import chart_of_methods

    units = {"accuracy": f"final {score_of(studied)}", "optimality_gap": "final excess loss"}
    return [
        chart_of_methods(
            f"{name} {kind}", kind, methods, unit=units[name], log=name != "accuracy", over="ε", quantiles=(0, 1)
        )
        for _, name, _, worst in FIGURES.values()
        for kind, methods in _panels(studied, name, worst).items()
    ]
