"""What privacy costs: accuracy and optimality gap against ε, for every method and every kind of noise.

One pass over the data. At each ε and for each method and kind of noise, λ0 is chosen on a tuning seed by the gap at the
end, and what is shown are other seeds. Noise on messages goes with all data so far ("history"), noise at the source
with the newest record, as its proof asks. Rows are scaled to norm 1 in the noise's norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gossamer.experiments.runs import Runs
from gossamer.experiments.study import Case, Effort, Entry, Studied, Study, least
from gossamer.privacy.laws import law_named
from gossamer.spec import Spec

KINDS: dict[str, tuple[str, str]] = {
    "Laplace on messages": ("laplace", "messages"),
    "Gaussian on messages": ("gaussian", "messages"),
    "Laplace at the source": ("laplace", "source"),
    "Gaussian at the source": ("gaussian", "source"),
}
QUICK = Effort(100, 2, (2.0**-4, 1.0, 8.0), evaluations=1, epsilons=(1.0, 100.0, 1e4))
USUAL = Effort(
    812, 3, tuple(2.0**k for k in range(-7, 6, 3)), evaluations=1, epsilons=(0.1, 1.0, 10.0, 100.0, 1e3, 1e4)
)
FULL = Effort(
    812, 5, tuple(2.0**k for k in range(-9, 6, 2)), evaluations=1,
    epsilons=(0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4),
)  # fmt: skip


def frontier(
    problem: Spec, runs: Runs, effort: Effort, methods: Sequence[str], kinds: Sequence[str] = tuple(KINDS)
) -> Studied:
    cases = [
        Case(method, epsilon, kind, None, *KINDS[kind])
        for method in methods
        for kind in kinds
        for epsilon in effort.epsilons
    ]
    return Study(problem, effort, runs, least("optimality_gap"), _scale_rows).run(cases)


def _scale_rows(problem: Spec, case: Case) -> Spec:
    return problem.but(draw="once", rows=f"l{law_named(case.law).norm}")


def curve(studied: Studied, method: str, kind: str, name: str, worst: float) -> tuple[Any, Any]:
    """(ε, one row for each seed) of a quantity at the end."""
    points = [e for e in studied.entries if (e.method, e.which) == (method, kind)]
    rising = sorted(points, key=budget_of)
    return np.array([budget_of(e) for e in rising]), np.array([e.final(name, worst) for e in rising]).T


def budget_of(entry: Entry) -> float:
    assert entry.case.epsilon is not None
    return entry.case.epsilon
