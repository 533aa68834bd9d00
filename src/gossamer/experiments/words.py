"""Figure 2 in words, tables and pictures: what was found, and where Algorithm 1 is not best as well."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from gossamer.algorithms import find_method
from gossamer.experiments.compare import PUBLISHED
from gossamer.experiments.pages import (
    Difference,
    Page,
    chart_methods,
    compact,
    draw_methods,
    epsilon_range,
    network_of,
    paired,
    problem_of,
    rounded,
    say_against,
    say_data,
    say_who_diverged,
    score_of,
    sort_entries,
    spread,
    write_choice,
    write_epsilon,
)
from gossamer.experiments.search import Choice
from gossamer.experiments.study import OURS, Entry, Studied

MEANINGFUL = 0.05  # relative differences below this are called a tie
ERRORS = ("tracking_error", "optimality_gap", "consensus_error", "accuracy")
FIGURES = {
    "fig2a.png": ("Tracking error", "tracking_error", "mean distance to the optimum, ‖θᵢ − θ*‖"),
    "fig2b.png": ("Optimality gap", "optimality_gap", "mean excess loss, F(θᵢ) − F(θ*)"),
}


def tell_comparison(studied: Studied) -> Page:
    effort, about = studied.effort, problem_of(studied)
    data = say_data(studied.problem)
    run_on = f"{data}, graph {about['graph']}, {effort.steps} rounds, {effort.seeds} seeds"
    published = "; 'published' are the paper's step and noise, at their own ε" * (studied.problem.data.csv is None)
    how = (
        f"{run_on if studied.problem.data.csv else run_on[0].upper() + run_on[1:]}. "
        f"Every learner's ε over the whole run is {write_epsilon(studied.epsilon)}, "
        f"by each method's own recursion{published}, {say_against(studied)}. {_tuned(studied)} "
        "'best' has the least tracking error there, which is also what methods are ranked by; 'edge', where there is "
        "one, is the largest λ0 that works where the next one fails. Means, and in brackets 90 % of the seeds. 'Less "
        "Algorithm 1': the difference in tracking error, seed by seed, with its 95 % interval (t); each interval is "
        f"by itself. {_replayed(studied)}The noise is seeded, of the scales for which ε is shown. Source: V equations "
        "verbatim, S from a secondary source, M from memory."
    )
    title = (
        f"{data}, {about['graph']}: simulated noise of the scale that would cost "
        f"ε = {write_epsilon(studied.epsilon)}; mean and 90 % of the seeds"
    )
    tails = {PUBLISHED: ", published step and noise"}
    figures, charts = draw_methods(studied, FIGURES, tails, title), chart_methods(studied, FIGURES, tails)
    return Page(
        "Comparison of methods", how, list_rows(studied), list_findings(studied), list_numbers(studied), figures,
        charts, network_of(studied), say_against(studied),
    )  # fmt: skip


def _tuned(studied: Studied) -> str:
    effort = studied.effort
    seeds = f"{effort.tuning_seeds} other seed{'s' * (effort.tuning_seeds > 1)}"
    grid = f"{effort.grid[0]:g} … {effort.grid[-1]:g}"
    if not effort.refined:
        return f"λ0 was tuned on {seeds} over {grid}; exponents are the usual ones, noise is the same on both channels."
    return (
        f"λ0 (over {grid}, then to √2), the exponents v and ς within each paper's constraints and the first channel's "
        f"noise in units of the second's ('split') were tuned on {seeds}, one after the other."
    )


def _replayed(studied: Studied) -> str:
    if not studied.effort.replayed:
        return ""
    return (
        f"'Replayed': the largest loss that an adversary who chooses records and messages was found to bring about in "
        f"the first {studied.effort.replayed} rounds, and what the recursion charges for them; the truth lies between. "
    )


def list_numbers(studied: Studied) -> dict[str, Any]:
    """All numbers as plain JSON values: of tuning runs the final error, of the others the curves."""
    return {
        "problem": problem_of(studied),
        "steps": studied.effort.steps,
        "epsilon": studied.epsilon,
        "tried": {
            case.method: [_choice(choice) | {"errors": [rounded(e) for e in errors]} for choice, errors in by.items()]
            for case, by in studied.tried.items()
        },
        "entries": [
            {
                "method": e.method,
                "which": e.which,
                **_choice(e.choice),
                "exponents": list(e.exponents),
                "less_ours": _less_ours(e, studied),
                "replayed": e.replayed,
                "runs": [compact(run, ERRORS, 6) for run in e.runs],
            }
            for e in studied.entries
        ],
    }


def _choice(choice: Choice) -> dict[str, Any]:
    return {"step": choice.step, "exponents": choice.exponents, "split": choice.split}


def _less_ours(entry: Entry, studied: Studied) -> Difference | None:
    """How much farther from θ* it ends than Algorithm 1 at its best."""
    ours = studied.entry(OURS, "best")
    return None if ours is None or entry is ours else paired(entry, ours, "tracking_error")


def rank(studied: Studied, which: str = "best", name: str = "tracking_error") -> list[Entry]:
    entries = [e for e in studied.entries if e.which == which]
    return sorted(entries, key=lambda e: float(np.mean(e.final(name))))


def list_findings(studied: Studied) -> list[str]:
    """Sentences that a reader can check against the table."""
    ranked = rank(studied)
    ours = studied.entry(OURS, "best")
    said = _place(ours, ranked) if ours is not None and len(ranked) > 1 else []
    said += _undecided(studied, ranked)
    said += _idle(ranked)
    said += _growth(studied)
    said += say_who_diverged(studied.entries)
    for size, other in (("largest", "larger"), ("smallest", "smaller")):
        there = [f"{e.label} ({e.step:.3g})" for e in ranked if e.step == _end_of(studied, e, size)]
        if there:
            said.append(
                f"The best λ0 is the {size} that was tried for {', '.join(there)}: a {other} one might be better."
            )
    if studied.problem.data.csv is not None:
        said.append(
            "A CSV's records are the same for every seed: tuning saw them, too; the bands show the noise alone."
        )
    return [*said, *_notes(studied)]


def _end_of(studied: Studied, entry: Entry, size: str) -> float:
    """The largest or smallest λ0 that was tried with the exponents and the split that are best."""
    tried = [c for case, by in studied.tried.items() if case.method == entry.method for c in by]
    steps = [c.step for c in tried if replace(c, step=entry.step) == entry.choice] or list(studied.effort.grid)
    return max(steps) if size == "largest" else min(steps)


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


def _undecided(studied: Studied, ranked: list[Entry]) -> list[str]:
    """Whom the seeds do not tell from Algorithm 1."""
    apart = {e.label: _less_ours(e, studied) for e in ranked}
    same = [f"{label} ({difference})" for label, difference in apart.items() if difference and _holds_0(difference)]
    if not same:
        return []
    return [f"The seeds do not tell these from Algorithm 1, the interval of the difference holds 0: {', '.join(same)}."]


def _holds_0(difference: Difference) -> bool:
    return difference.low <= 0 <= difference.high


def _notes(studied: Studied) -> list[str]:
    """What runs said of networks that do not have all the links a method asks for."""
    said = {note for e in studied.entries for run in e.runs for note in run.get("notes", []) if "one-way" in note}
    return sorted(said)


def _growth(studied: Studied) -> list[str]:
    """Whether the error of the published runs falls or grows over the second half, and where it began."""
    said = []
    for entry in (e for e in studied.entries if e.which == PUBLISHED):
        curve = entry.curve("tracking_error")
        if curve is None:
            said.append(f"{entry.label} under the published step and noise diverges.")
            continue
        mean = curve[1].mean(axis=0)
        half, start = mean[len(mean) // 2], mean[0]
        verb = "falls" if mean[-1] < half * 0.99 else "grows" if mean[-1] > half * 1.01 else "stays"
        said.append(
            f"{entry.label} under the published step and noise: tracking error {verb} from {half:.3g} halfway to "
            f"{mean[-1]:.3g} at the end; it began {start:.3g} from θ*."
        )
    return said


def list_rows(studied: Studied) -> list[list[str]]:
    """Rows of text, the header first."""
    head = ["method", "source", "step", "λ0", "v", "ς", "split", "tracking error", "less Algorithm 1"]
    head += ["optimality gap", score_of(studied), "ε per learner", *(["replayed"] if studied.effort.replayed else [])]
    return [head, *(_row(e, studied) for e in sort_entries(studied, rank(studied)))]


def _row(e: Entry, studied: Studied) -> list[str]:
    error, *others = (
        spread(e.final(name), quantiles=(0.05, 0.95)) for name in ("tracking_error", "optimality_gap", "accuracy")
    )
    chosen = [find_method(e.method).source, e.which, *write_choice(e)]
    row = [e.label, *chosen, error, str(_less_ours(e, studied) or "–"), *others, epsilon_range(e)]
    if not studied.effort.replayed:
        return row
    found = e.replayed
    return [*row, f"{write_epsilon(found['loss'])} of {write_epsilon(found['claim'])}" if found else "–"]
