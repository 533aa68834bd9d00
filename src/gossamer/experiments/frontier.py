"""What privacy costs: accuracy and optimality gap against ε, for every method and every kind of noise.

One pass over the data. At each ε and for each method and kind of noise, all that is tuned is chosen on other seeds than
those shown, and once for each quantity: where accuracy is shown by the accuracy at the end, where the gap is shown by
the gap. Of which records gradients are follows from where the noise goes, as in any run. Rows are scaled to norm 1 in
the noise's norm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gossamer.algorithms import find_method
from gossamer.experiments.runs import Runs
from gossamer.experiments.study import OURS, Case, Effort, Entry, Studied, Study, least, most
from gossamer.experiments.tasks import but_data
from gossamer.experiments.workers import Result
from gossamer.privacy.laws import law_named
from gossamer.spec import Spec


class Kind(NamedTuple):
    """A kind of noise: its law, where it goes, of which records gradients are, if it is correlated, if it cancels."""

    law: str
    where: str
    gradient: str | None = None
    band: int | None = None
    secrets: str | None = None


KINDS: dict[str, Kind] = {
    "Laplace on messages": Kind("laplace", "messages"),
    "Gaussian on messages": Kind("gaussian", "messages"),
    "Laplace at the source, latest": Kind("laplace", "source", "latest"),
    "Gaussian at the source, latest": Kind("gaussian", "source", "latest"),
    "Gaussian at the source, correlated": Kind("gaussian", "source", "latest", 64),
    "Laplace at the source, history": Kind("laplace", "source", "history"),
    "Gaussian at the source, history": Kind("gaussian", "source", "history"),
    "Gaussian at the source, secrets": Kind("gaussian", "source", "history", None, "complete"),
}
SCORES: dict[str, Callable[[Result], float]] = {
    "accuracy": most("accuracy"),
    "optimality_gap": least("optimality_gap"),
}  # what is shown, and by what it is chosen
QUICK = Effort(100, 2, (2.0**-4, 1.0, 8.0), evaluations=1, epsilons=(1.0, 100.0, 1e4))
USUAL = Effort(
    812, 3, tuple(2.0**k for k in range(-7, 6, 3)), tuning_seeds=2, evaluations=1,
    epsilons=(0.1, 1.0, 10.0, 100.0, 1e3, 1e4), refined=True,
)  # fmt: skip
FULL = Effort(
    812, 10, tuple(2.0**k for k in range(-9, 6, 2)), tuning_seeds=3, evaluations=1,
    epsilons=(0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4), refined=True,
)  # fmt: skip


def frontier(
    problem: Spec,
    runs: Runs,
    effort: Effort,
    methods: Sequence[str],
    kinds: Sequence[str] = tuple(KINDS),
    vary: Callable[[Spec, Case], Spec] | None = None,
) -> Studied:
    """Every cell twice, chosen by accuracy and by the gap; runs that both choose are made once.

    `vary` fits the problem to a case; by default rows are scaled for the noise's law, where the data allow it.
    """
    cells = [
        (method, epsilon, kind)
        for method in methods
        for kind in kinds
        for epsilon in effort.epsilons
        # At the source messages carry no noise: with the own term noised or not, a method is one run.
        if not (find_method(method).noises_own and KINDS[kind].where == "source")
    ]
    found = [
        Study(problem, effort, runs, score, vary or _scale_rows).run(
            [Case(method, epsilon, kind, None, *KINDS[kind], by=by) for method, epsilon, kind in cells]
        )
        for by, score in SCORES.items()
    ]
    tried = {case: by for studied in found for case, by in studied.tried.items()}
    return Studied(problem, effort, [e for studied in found for e in studied.entries], tried)


def _scale_rows(problem: Spec, case: Case) -> Spec:
    return but_data(problem, draw="once", rows=f"l{law_named(case.law).norm}")


def curve(studied: Studied, method: str, kind: str, name: str, worst: float) -> tuple[Any, Any]:
    """(ε, one row for each seed) of a quantity at the end, with all that is tuned chosen by it."""
    points = [e for e in studied.entries if (e.method, e.which, e.case.by) == (method, kind, name)]
    rising = sorted(points, key=budget_of)
    return np.array([budget_of(e) for e in rising]), np.array([e.final(name, worst) for e in rising]).T


def ours_beside(studied: Studied, entry: Entry) -> Entry | None:
    """Algorithm 1 in the same cell."""
    return next((e for e in studied.entries if e.case == replace(entry.case, method=OURS)), None)


def budget_of(entry: Entry) -> float:
    assert entry.case.epsilon is not None
    return entry.case.epsilon
