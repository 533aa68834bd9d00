"""Figures 3 and 4 in words, tables and pictures: who learnt what, at which ε, and how it was run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gossamer.datasets import DATASETS
from gossamer.experiments.compare import BOTH, PUBLISHED
from gossamer.experiments.pages import (
    Page,
    chart_methods,
    compact,
    draw_methods,
    epsilon_range,
    say_against,
    say_gradient,
    say_who_diverged,
    sort_entries,
    write_epsilon,
)
from gossamer.experiments.pictures import ONLY_NOISE
from gossamer.experiments.study import OURS, Case, Entry, Studied

CHANCE = 0.1
CLOSE = 0.005  # differences of accuracy below this are called a tie
FIGURES = {
    "test.png": ("accuracy", "accuracy", "test accuracy, mean over the learners"),
    "train.png": ("train_accuracy", "train_accuracy", "training accuracy, likewise"),
}
CURVES = ("accuracy", "train_accuracy", "consensus_error", "parameter_norm")
APART = {PUBLISHED: ", published step and noise", ONLY_NOISE: ", published noise"}


def tell_pictures(studied: Studied) -> Page:
    problem, seeds = studied.problem, studied.effort.seeds
    drawn = (
        f"{_label(studied)}, {'a small CNN' if problem.model.model == 'cnn' else 'ResNet-18'}, {problem.data.split}, "
        f"{problem.network.graph}: simulated noise of the scale that would cost ε = {write_epsilon(studied.epsilon)} "
        f"for a round's images; {'one seed' if seeds == 1 else f'mean and range of {seeds} seeds'}"
    )
    figures = draw_methods(studied, FIGURES, APART, drawn, yscale="logit")
    title, rows = f"{_label(studied)}: comparison of methods", list_rows(studied)
    charts = chart_methods(studied, FIGURES, APART, log=False)
    findings, numbers = list_findings(studied), list_numbers(studied)
    return Page(title, _about(studied), rows, findings, numbers, figures, charts, against=say_against(studied))


def _label(studied: Studied) -> str:
    return DATASETS.find(studied.problem.data.dataset or "").label


def list_numbers(studied: Studied) -> dict[str, Any]:
    """All numbers as plain JSON values."""
    return {
        "problem": studied.problem.given(),
        "steps": studied.effort.steps,
        "epsilon": studied.epsilon,
        "tried": {
            _name(case): {f"{choice.step:.4g}": -scores[0] for choice, scores in by.items()}
            for case, by in studied.tried.items()
        },
        "entries": [
            {"method": e.method, "which": e.which, "step": e.step, "runs": [_compact(run) for run in e.runs]}
            for e in studied.entries
        ],
    }


def _name(case: Case) -> str:
    return case.method if case.which == "best" else f"{case.method}, {case.which}"


def _compact(run: dict[str, Any]) -> dict[str, Any]:
    learners = {
        name: np.round(run[name], 4).tolist()
        for name in ("learners_accuracy", "learners_train_accuracy")
        if name in run
    }
    return compact(run, CURVES, 5) | learners


def final(entry: Entry, name: str = "accuracy") -> float:
    """The mean over the seeds at the end; a run that diverged guesses."""
    return float(np.mean([CHANCE if run["diverged"] else run[name][-1] for run in entry.runs]))


def rank(studied: Studied, which: str = "best") -> list[Entry]:
    return sorted((e for e in studied.entries if e.which == which), key=final, reverse=True)


def list_findings(studied: Studied) -> list[str]:
    """Sentences that a reader can check against the table."""
    said = _place(studied)
    said += [sentence for which in (ONLY_NOISE, PUBLISHED) for sentence in _published(studied, which)]
    said += say_who_diverged(studied.entries)
    wild = {e.label for e in studied.entries if e.diverged}
    idle = [e.label for e in rank(studied) if final(e) < 2 * CHANCE and e.label not in wild]
    if idle:
        said.append(f"Near chance at this ε, whatever the step: {', '.join(idle)}.")
    grid = studied.effort.grid
    for end, size in ((max(grid), "largest"), (min(grid), "smallest")):
        there = [e.label for e in rank(studied) if e.step == end and final(e) >= 2 * CHANCE]
        if there:
            said.append(f"The best λ0 is the grid's {size}, {end:.2g}, for {', '.join(there)}.")
    return said


def _place(studied: Studied) -> list[str]:
    ranked, ours = rank(studied), studied.entry(OURS, "best")
    if ours is None or len(ranked) < 2:
        return []
    mine, other = final(ours), next(e for e in ranked if e is not ours)
    at = f"At the same ε Algorithm 1 ends at {mine:.1%} on test images"
    published = studied.entry(OURS, PUBLISHED)
    if published is not None and _within(published, studied.epsilon) and final(published) > mine:
        mine = final(published)
        at += f" with the tuned step; its published run, within the same ε, at {mine:.1%}"
    gap = mine - final(other)
    best = f"The best other method is {other.label} at {final(other):.1%}"
    if abs(gap) < CLOSE:
        return [f"{at}. {best}: a tie."]
    return [f"{at}. {best}, {abs(gap):.1%} {'below' if gap > 0 else 'above'}."]


def _within(entry: Entry, epsilon: float) -> bool:
    """Whether no learner's ε is above that of the comparison."""
    costs = [e for run in entry.runs for e in run.get("epsilon", [math.inf])]
    return all(e is not None and e <= epsilon * (1 + 1e-6) for e in costs)


def _published(studied: Studied, which: str) -> list[str]:
    """Algorithm 1 against Push–Pull under the paper's noise: the end, the best on the way, and how θ grew."""
    entries = [e for m in BOTH if (e := studied.entry(m, which)) is not None]
    if not entries:
        return []
    step = "published step and noise" if which == PUBLISHED else "published noise, tuned step"
    return [f"Under the {step}: {'; '.join(map(_course, entries))}."]


def _course(entry: Entry) -> str:
    if entry.diverged:
        return f"{entry.label} diverges"
    mean = np.mean([run["accuracy"] for run in entry.runs], axis=0)
    norm = np.mean([run["parameter_norm"] for run in entry.runs], axis=0)
    peak = int(mean.argmax())
    back = f", after {mean[peak]:.1%} at round {entry.runs[0]['t'][peak]}" if mean[-1] < mean[peak] - CLOSE else ""
    grown = f"‖θ‖ goes from {norm[0]:.3g} to {norm[-1]:.3g}"
    return f"{entry.label} (λ0 = {entry.step:.2g}) ends at {mean[-1]:.1%}{back}, {grown}"


def list_rows(studied: Studied) -> list[list[str]]:
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
    return [head, *map(_row, sort_entries(studied, rank(studied)))]


def _row(e: Entry) -> list[str]:
    learners = [v for run in e.runs for v in run.get("learners_accuracy", [])]
    worst = f"{min(learners):.3f}" if learners else "–"
    noise = f"{np.mean([v for run in e.runs for v in run['noise']]):.2g}"
    accuracies = [_spread(e, name) for name in ("accuracy", "train_accuracy")]
    return [e.label, e.which, f"{e.step:.2g}", noise, *accuracies, worst, epsilon_range(e)]


def _spread(e: Entry, name: str) -> str:
    if e.diverged:
        return "diverged"
    values = e.final(name)
    return f"{np.mean(values):.3f} ({min(values):.3f}–{max(values):.3f})"


def _network(studied: Studied) -> str:
    model = studied.problem.model
    if model.model == "cnn":
        return "a small CNN"
    return f"ResNet-18 ({model.norm or 'batch'} norm, {model.stem or 'imagenet'} stem)"


def _about(studied: Studied) -> str:
    effort, problem = studied.effort, studied.problem
    per_round = problem.data.per_round or DATASETS.find(problem.data.dataset or "").per_round
    return (
        f"Ten learners, {_network(studied)}, {problem.data.split} split, graph {problem.network.graph}, {per_round} "
        f"images a learner and round, gradients over {say_gradient(problem)}, "
        f"{effort.steps} rounds, {effort.seeds} seed{'s' * (effort.seeds > 1)}; "
        f"{'bf16' if problem.model.bf16 else 'float32'} on {problem.model.device}. "
        f"'best': every learner's ε over the run is {write_epsilon(studied.epsilon)}, by each method's own recursion, "
        f"and λ0 is the grid's best by accuracy on training images after {effort.tuning_rounds} rounds on another "
        "seed; 'published noise': ν = 0.01/(t+1)^ς as printed, and λ0 tuned likewise; 'published': λ0 = 0.6 as "
        "printed, too. ε protects a learner's batch of one round, whose mean gradient is clipped at ‖g‖₁ ≤ "
        f"{problem.model.clip:g}: it is what exact noise of these scales would cost, and no protection at all. The "
        "noise is seeded. Means over the seeds and all learners; in brackets the least and the greatest seed."
    )
