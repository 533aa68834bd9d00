"""A comparison in words and tables: what was found, where Algorithm 1 is not best as well, and how it was run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gossamer.experiments.catalogue import METHODS, OURS
from gossamer.experiments.compare import Comparison, Entry
from gossamer.experiments.runs import PUBLISHED
from gossamer.version import __version__

MEANINGFUL = 0.05  # relative differences below this are called a tie


def results(comparison: Comparison, command: str) -> dict[str, Any]:
    """All numbers as plain JSON values: of tuning runs the final error, of the others the curves."""
    return {
        "version": __version__,
        "command": command,
        "problem": comparison.problem.settings(),
        "steps": comparison.plan.steps,
        "epsilon": comparison.epsilon,
        "tried": {
            method: {f"{step:g}": [_plain(e) for e in errors] for step, errors in by.items()}
            for method, by in comparison.tried.items()
        },
        "entries": [
            {
                "method": e.method,
                "which": e.which,
                "step": e.step,
                **_noise(e.method),
                "runs": [_compact(run) for run in e.runs],
            }
            for e in comparison.entries
        ],
    }


def _noise(method: str) -> dict[str, float]:
    return {"noise_exponent": METHODS[method].noise_exponent, "noise_ratio": METHODS[method].noise_ratio}


def _compact(run: dict[str, Any]) -> dict[str, Any]:
    """What a reader needs of a run, to six digits."""
    kept = {name: value for name, value in run.items() if name not in ("theta", "method", "step", "notes")}
    for name in ("noise", "epsilon"):
        kept |= {name: [None if v is None else _plain(v) for v in run[name]]} if name in run else {}
    return kept


def _plain(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def ranking(comparison: Comparison, which: str = "best", name: str = "tracking_error") -> list[Entry]:
    entries = [e for e in comparison.entries if e.which == which]
    return sorted(entries, key=lambda e: float(np.mean(e.final(name))))


def findings(comparison: Comparison) -> list[str]:
    """Sentences that a reader can check against the table."""
    ranked = ranking(comparison)
    ours = comparison.entry(OURS, "best")
    said = _place(ours, ranked) if ours is not None and len(ranked) > 1 else []
    said += _idle(ranked)
    said += _growth(comparison)
    wild = sorted({e.label for e in comparison.entries if any(run["diverged"] for run in e.runs)})
    if wild:
        said.append(f"Diverged on at least one seed: {', '.join(wild)}.")
    grid = sorted(next(iter(comparison.tried.values())))
    for end, size, other in ((grid[-1], "largest", "larger"), (grid[0], "smallest", "smaller")):
        there = [e.label for e in ranked if e.step == end]
        if there:
            said.append(
                f"The best λ0 is the grid's {size}, {end:g}, for {', '.join(there)}: a {other} one might be better."
            )
    if comparison.problem.data == "csv":
        said.append(
            "A CSV's records are the same for every seed: tuning saw them, too; the bands show the noise alone."
        )
    return [*said, *_notes(comparison)]


def _error(entry: Entry) -> float:
    return float(np.mean(entry.final("tracking_error")))


def _idle(ranked: list[Entry]) -> list[str]:
    """Who ends no nearer to the optimum than θ = 0, where every run starts."""
    start = next((run["tracking_error"][0] for e in ranked for run in e.runs if not run["diverged"]), math.inf)
    idle = [e.label for e in ranked if _error(e) >= start]
    if not idle:
        return []
    if len(idle) == len(ranked):
        return [f"No method ends nearer to θ* than θ = 0, where all start, {start:.3g} away."]
    return [f"No nearer to θ* in the end than θ = 0, where all start, {start:.3g} away: {', '.join(idle)}."]


def _place(ours: Entry, ranked: list[Entry]) -> list[str]:
    mine = _error(ours)
    better = [e for e in ranked if _error(e) < mine * (1 - MEANINGFUL)]
    tied = [e for e in ranked if e is not ours and abs(_error(e) - mine) <= MEANINGFUL * mine]
    if better:
        named = ", ".join(f"{e.label} ({_error(e):.3g})" for e in better)
        said = [f"Algorithm 1 is not best: its tracking error is {mine:.3g}, that of {named}."]
    elif tied:
        said = [f"No method is clearly better than Algorithm 1, whose tracking error is {mine:.3g}."]
    else:
        said = [f"Algorithm 1 has the least tracking error, {mine:.3g}."]
    if tied:
        said.append(f"Within {MEANINGFUL:.0%} of it: {', '.join(f'{e.label} ({_error(e):.3g})' for e in tied)}.")
    return said


def _notes(comparison: Comparison) -> list[str]:
    """What runs said of networks that do not have all the links a method asks for."""
    said = {note for e in comparison.entries for run in e.runs for note in run.get("notes", []) if "one-way" in note}
    return sorted(said)


def _growth(comparison: Comparison) -> list[str]:
    """Whether the error of the published runs falls or grows over the second half, and where it began."""
    said = []
    for entry in (e for e in comparison.entries if e.which == PUBLISHED):
        found = entry.curve("tracking_error")
        if found is None:
            said.append(f"{entry.label} under the published step and noise diverges.")
            continue
        mean = found[1].mean(axis=0)
        half, start = mean[len(mean) // 2], mean[0]
        verb = "falls" if mean[-1] < half * 0.99 else "grows" if mean[-1] > half * 1.01 else "stays"
        said.append(
            f"{entry.label} under the published step and noise: tracking error {verb} from {half:.3g} halfway to "
            f"{mean[-1]:.3g} at the end; it began {start:.3g} from θ*."
        )
    return said


def table(comparison: Comparison) -> list[list[str]]:
    """Rows of text, the header first."""
    head = ["method", "source", "step", "λ0", "tracking error", "optimality gap", "accuracy", "ε per learner"]
    order = {e.method: k for k, e in enumerate(ranking(comparison))}
    entries = sorted(comparison.entries, key=lambda e: (order.get(e.method, 99), e.which != "best", e.which))
    return [head, *map(_row, entries)]


def _row(e: Entry) -> list[str]:
    errors = [_spread(e.final(name)) for name in ("tracking_error", "optimality_gap", "accuracy")]
    return [e.label, METHODS[e.method].source, e.which, f"{e.step:.3g}", *errors, epsilon(e)]


def _spread(values: list[float]) -> str:
    if not all(math.isfinite(v) for v in values):
        return "diverged"
    low, high = np.quantile(values, [0.05, 0.95])
    return f"{np.mean(values):.3g} ({low:.3g}–{high:.3g})"


def budget(value: float) -> str:
    """An ε as people write it: 0.5, 8, 632, 454,300, 1.89e+11."""
    if value >= 1e7:
        return f"{value:.3g}"
    return f"{float(f'{value:.4g}'):,.0f}" if value >= 1000 else f"{value:.4g}"


def epsilon(entry: Entry) -> str:
    known = [e for run in entry.runs for e in run.get("epsilon", [])]
    if not known or None in known:
        return "∞"
    low, high = min(known), max(known)
    return budget(high) if high - low < 1e-3 * high else f"{budget(low)} to {budget(high)}"


def markdown(comparison: Comparison, command: str) -> str:
    """A page for people, to lie beside the pictures."""
    plan, problem = comparison.plan, comparison.problem
    about = f"{problem.data}, {problem.split}, graph {problem.graph}, {plan.steps} rounds, {plan.seeds} seeds"
    lines = [
        "# Comparison of methods",
        "",
        f"    {command}        # version {__version__}",
        "",
        f"{about[0].upper()}{about[1:]}. Every learner's ε over the whole run is {budget(comparison.epsilon)}, by each "
        "method's own recursion; 'published' are the paper's step and noise, at their own ε. λ0 was tuned on "
        f"{plan.tuning_seeds} other seeds over {plan.grid[0]:g} … {plan.grid[-1]:g}; 'best' has the least error there, "
        "'edge', where there is one, is the largest that works where the next one fails. Means, and in brackets 90 % "
        "of the seeds. The noise is seeded, of the scales for which ε is shown. Source: V equations verbatim, S from a "
        "secondary source, M from memory.",
        "",
        "![Tracking error](fig2a.png)",
        "",
        "![Optimality gap](fig2b.png)",
        "",
        *table_and_findings(table(comparison), findings(comparison)),
    ]
    return "\n".join(lines)


def table_and_findings(rows: list[list[str]], sentences: list[str]) -> list[str]:
    """How a page ends, in lines of Markdown; the first row is the header."""
    return [
        "| " + " | ".join(rows[0]) + " |",
        "|" + "---|" * len(rows[0]),
        *("| " + " | ".join(row) + " |" for row in rows[1:]),
        "",
        "What was found:",
        "",
        *(f"- {sentence}" for sentence in sentences),
        "",
    ]
