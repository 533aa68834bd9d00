"""Every method at the same ε, tuned alike: Figure 2 of the paper, with the seeds, the step sizes and the ε shown.

λ0, the exponents within each paper's constraints and the split between two channels are chosen by the tracking error at
the end, which is what is reported (gossamer.experiments.search). The budget is Algorithm 1's largest ε_i under
its published settings, unless one is given. Two step sizes are reported: the best, and the paper's "edge" one, the
largest that works where the next of the grid fails (diverges, or ends no nearer to θ* than it began). Algorithm 1 is
tuned like the others, and shown with its published step and noise as well; so is Push–Pull, under the same noise, as in
the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from gossamer.errors import Argument, GossamerError
from gossamer.experiments.frontier import KINDS
from gossamer.experiments.runs import Runs
from gossamer.experiments.search import Choice
from gossamer.experiments.study import OURS, Case, Effort, Studied, Study, least
from gossamer.experiments.tasks import but_data
from gossamer.experiments.workers import Result
from gossamer.privacy import epsilons
from gossamer.spec import Spec

PUBLISHED = "published"
PAPERS_KIND = "Laplace on messages"
PUBLISHED_STEP, PUBLISHED_NOISE = Choice(1.0), 1.0
BOTH = (OURS, "push_pull")  # that the paper runs under the same noise
QUICK = Effort(steps=200, seeds=3, tuning_seeds=1, grid=tuple(2.0**k for k in range(-8, 4, 2)))
USUAL = Effort(
    steps=1000, seeds=5, tuning_seeds=2, grid=tuple(2.0**k for k in range(-9, 4, 2)), refined=True, replayed=50
)
FULL = Effort(
    steps=2000, seeds=20, tuning_seeds=3, grid=tuple(2.0**k for k in range(-10, 7)), refined=True, replayed=200
)


def compare(
    problem: Spec,
    runs: Runs,
    effort: Effort,
    methods: Sequence[str],
    epsilon: float | None = None,
    kind: str = PAPERS_KIND,
    vary: Callable[[Spec, Case], Spec] | None = None,
) -> Studied:
    """`vary` fits the problem to a case; by default records are not drawn again where noise is at the source."""
    study = Study(problem, effort, runs, least("tracking_error"), vary or _read_once)
    target = published_epsilon(study, PUBLISHED_STEP, PUBLISHED_NOISE) if epsilon is None else epsilon
    cases = [Case(method, target, "best", None, *KINDS[kind]) for method in methods]
    tried = study.tune(cases)
    wanted = [
        (replace(case, which=which), choice)
        for case in cases
        for which, choice in best_and_edge(study, tried[case]).items()
    ]
    if epsilon is None and kind == PAPERS_KIND:
        wanted += [(Case(m, None, PUBLISHED, PUBLISHED_NOISE), PUBLISHED_STEP) for m in BOTH if m in methods]
    entries = study.evaluate(wanted)
    if kind == PAPERS_KIND:  # at the source the bound is attained: there is no recursion to look behind
        entries = study.replay(entries, ("best", PUBLISHED))
    return study.report(entries, tried, target)


def _read_once(problem: Spec, case: Case) -> Spec:
    """Noise at the source needs records that are not drawn again."""
    return but_data(problem, draw="once") if case.where == "source" else problem


def published_epsilon(study: Study, step: Choice, noise: float) -> float:
    """Algorithm 1's largest ε_i over the run, under the paper's step and noise."""
    task = study.task(Case(OURS, None, PUBLISHED, noise), step, 0)
    steps = study.effort.steps or 0
    cost = epsilons(task.terms(steps), steps, 0.0)
    if None in cost:
        raise GossamerError("Algorithm 1's published settings have no finite ε here: give ", Argument("epsilon"), ".")
    return max(e for e in cost if e is not None)


def best_and_edge(study: Study, tried: dict[Choice, list[Result]]) -> dict[str, Choice]:
    """The best choice, and the edge: the largest λ0 that works where the next fails; none where none does, or all do.

    The edge is of the usual exponents and the same noise on both channels, as in the paper.
    """
    rising = sorted((choice for choice in tried if choice.usual), key=lambda choice: choice.step)
    edges = [a for a, b in pairwise(rising) if not _fails(tried[a]) and _fails(tried[b])]
    return {"best": study.best(tried)} | ({"edge": edges[-1]} if edges else {})


def _fails(runs: list[Result]) -> bool:
    """Diverged, or no nearer to θ* at the end than at the start, on any seed."""
    return any(run["diverged"] or run["tracking_error"][-1] >= run["tracking_error"][0] for run in runs)
