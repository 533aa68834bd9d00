"""Figures 3 and 4 in words and tables: who learnt what, at which ε, and how it was run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gossamer.experiments.catalogue import OURS
from gossamer.experiments.compare import Entry
from gossamer.experiments.pictures import BOTH, NAMES, PictureComparison
from gossamer.experiments.runs import PUBLISHED
from gossamer.experiments.words import budget, epsilon, table_and_findings
from gossamer.version import __version__

CHANCE = 0.1
CLOSE = 0.005  # differences of accuracy below this are called a tie
FILES = {"accuracy": "test.png", "train_accuracy": "train.png"}
PUBLISHED_NOISE = "published noise"


def results(comparison: PictureComparison, command: str) -> dict[str, Any]:
    """All numbers as plain JSON values."""
    return {
        "version": __version__,
        "command": command,
        "problem": {**vars(comparison.problem)},
        "steps": comparison.plan.steps,
        "epsilon": comparison.epsilon,
        "tried": {name: {f"{step:.4g}": score for step, score in by.items()} for name, by in comparison.tried.items()},
        "entries": [
            {"method": e.method, "which": e.which, "step": e.step, "runs": [_compact(run) for run in e.runs]}
            for e in comparison.entries
        ],
    }


def _compact(run: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in run.items() if name not in ("method", "step", "notes", "claim")}
    rounded = {n: [None if v is None else float(f"{v:.5g}") for v in run[n]] for n in ("noise", "epsilon")}
    return kept | rounded


def final(entry: Entry, name: str = "accuracy") -> float:
    """The mean over the seeds at the end; a run that diverged guesses."""
    return float(np.mean([CHANCE if run["diverged"] else run[name][-1] for run in entry.runs]))


def ranking(comparison: PictureComparison, which: str = "best") -> list[Entry]:
    return sorted((e for e in comparison.entries if e.which == which), key=final, reverse=True)


def findings(comparison: PictureComparison) -> list[str]:
    """Sentences that a reader can check against the table."""
    said = _place(comparison)
    said += [sentence for which in (PUBLISHED_NOISE, PUBLISHED) for sentence in _published(comparison, which)]
    wild = sorted({e.label for e in comparison.entries if any(run["diverged"] for run in e.runs)})
    if wild:
        said.append(f"Diverged on at least one seed: {', '.join(wild)}.")
    idle = [e.label for e in ranking(comparison) if final(e) < 2 * CHANCE and e.label not in wild]
    if idle:
        said.append(f"Near chance at this ε, whatever the step: {', '.join(idle)}.")
    grid = comparison.plan.grid
    for end, size in ((max(grid), "largest"), (min(grid), "smallest")):
        there = [e.label for e in ranking(comparison) if e.step == end and final(e) >= 2 * CHANCE]
        if there:
            said.append(f"The best λ0 is the grid's {size}, {end:.2g}, for {', '.join(there)}.")
    return said


def _place(comparison: PictureComparison) -> list[str]:
    ranked, ours = ranking(comparison), comparison.entry(OURS, "best")
    if ours is None or len(ranked) < 2:
        return []
    mine, other = final(ours), next(e for e in ranked if e is not ours)
    gap = mine - final(other)
    at = f"At the same ε Algorithm 1 ends at {mine:.1%} on test images"
    best = f"{other.label} at {final(other):.1%}"
    if abs(gap) < CLOSE:
        return [f"{at}, {best}: a tie."]
    return [f"{at}; the best other method is {best}, {abs(gap):.1%} {'below' if gap > 0 else 'above'}."]


def _published(comparison: PictureComparison, which: str) -> list[str]:
    """Algorithm 1 against Push–Pull under the paper's noise: the end, the best on the way, and how θ grew."""
    entries = [e for m in BOTH if (e := comparison.entry(m, which)) is not None]
    if not entries:
        return []
    step = "published step and noise" if which == PUBLISHED else "published noise, tuned step"
    return [f"Under the {step}: {'; '.join(map(_course, entries))}."]


def _course(entry: Entry) -> str:
    if any(run["diverged"] for run in entry.runs):
        return f"{entry.label} diverges"
    mean = np.mean([run["accuracy"] for run in entry.runs], axis=0)
    norm = np.mean([run["parameter_norm"] for run in entry.runs], axis=0)
    peak = int(mean.argmax())
    back = f", after {mean[peak]:.1%} at round {entry.runs[0]['t'][peak]}" if mean[-1] < mean[peak] - CLOSE else ""
    grown = f"‖θ‖ goes from {norm[0]:.3g} to {norm[-1]:.3g}"
    return f"{entry.label} (λ0 = {entry.step:.2g}) ends at {mean[-1]:.1%}{back}, {grown}"


def table(comparison: PictureComparison) -> list[list[str]]:
    """Rows of text, the header first."""
    head = [
        "method",
        "step",
        "λ0",
        "first noise",
        "test accuracy",
        "training accuracy",
        "worst learner",
        "ε per learner",
    ]
    order = {e.method: k for k, e in enumerate(ranking(comparison))}
    entries = sorted(comparison.entries, key=lambda e: (order.get(e.method, 99), e.which != "best", e.which))
    return [head, *map(_row, entries)]


def _row(e: Entry) -> list[str]:
    learners = [v for run in e.runs for v in run.get("learners_accuracy", [])]
    worst = f"{min(learners):.3f}" if learners else "–"
    noise = f"{np.mean([v for run in e.runs for v in run['noise']]):.2g}"
    accuracies = [_spread(e, name) for name in FILES]
    return [e.label, e.which, f"{e.step:.2g}", noise, *accuracies, worst, epsilon(e)]


def _spread(e: Entry, name: str) -> str:
    values = [math.nan if run["diverged"] else run[name][-1] for run in e.runs]
    if not all(map(math.isfinite, values)):
        return "diverged"
    return f"{np.mean(values):.3f} ({min(values):.3f}–{max(values):.3f})"


def _about(comparison: PictureComparison, net: str) -> str:
    plan, problem = comparison.plan, comparison.problem
    return (
        f"Ten learners, {net}, {problem.split} split, graph {problem.graph}, {problem.per_round} images a learner and "
        f"round, {plan.steps} rounds, {plan.seeds} seed{'s' * (plan.seeds > 1)}; "
        f"{'bf16' if problem.amp else 'float32'} on {problem.device}. "
        f"'best': every learner's ε over the run is {budget(comparison.epsilon)}, by each method's own recursion, and "
        f"λ0 is the grid's best by accuracy on training images after {plan.tuning_rounds} rounds on another seed; "
        "'published noise': ν = 0.01/(t+1)^ς as printed, and λ0 tuned likewise; 'published': λ0 = 0.6 as printed, "
        "too. ε protects a learner's batch of one round, whose mean gradient is clipped at ‖g‖₁ ≤ "
        f"{problem.clip:g}: it is what exact noise of these scales would cost, and no protection at all. The noise is "
        "seeded. Means over the seeds and all learners; in brackets the least and the greatest seed."
    )


def markdown(comparison: PictureComparison, command: str) -> str:
    """A page for people, to lie beside the pictures."""
    problem = comparison.problem
    net = "a small CNN" if problem.net == "cnn" else f"ResNet-18 ({problem.norm} norm, {problem.stem} stem)"
    lines = [
        f"# {NAMES[problem.data]}: comparison of methods",
        "",
        f"    {command}        # version {__version__}",
        "",
        _about(comparison, net),
        "",
        *(f"![{name}]({file})\n" for name, file in FILES.items()),
        *table_and_findings(table(comparison), findings(comparison)),
    ]
    return "\n".join(lines)
