"""A study on somebody's own records: how long it is, how fast records arrive, and what it must not leave undeclared.

A history at the source is read in the first half of the run and gone on over in the second, as in any run on a file.
Other kinds of noise are proved for full rounds alone: there every learner reads as many records a round as it takes to
read them all, and numbers are not standardised. Nothing was published for such data, and so nothing is shown for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gossamer.errors import Argument, BadValue, GossamerError, NotProvable
from gossamer.experiments.frontier import KINDS, Kind
from gossamer.experiments.study import Case, Effort
from gossamer.experiments.tasks import data_of
from gossamer.spec import Spec
from gossamer.spec.rules import small_delta

EPSILON = 3.0
SOURCE_KIND, MESSAGES_KIND = "Gaussian at the source, history", "Laplace on messages"
COMPARE = Effort(steps=500, seeds=3, tuning_seeds=1, grid=tuple(2.0**k for k in range(-12, 3, 2)))
FRONTIER = Effort(300, 2, (2.0**-9, 2.0**-6, 2.0**-3, 1.0), evaluations=1, epsilons=(0.5, 1.0, 3.0, 10.0))


def own_problem(spec: Spec) -> Spec:
    """The problem with a δ for so many records; refuses what no budget can be kept on, before any work."""
    stream = data_of(spec)[0]
    if stream.table.undeclared:
        raise NotProvable(
            "every method is compared at the same ε, and privacy cannot be proved: ", stream.table.undeclared
        )
    return spec.but(delta=small_delta(int(stream.room(2**40).sum())))


def fitted(effort: Effort, problem: Spec, kinds: Iterable[str], steps: int | None) -> Effort:
    """The effort with as many rounds as are asked for, and no more than there are full ones where that matters."""
    rounds = steps or effort.steps or 0
    if all(releases_again(KINDS[kind]) for kind in kinds):
        return replace(effort, steps=rounds)
    per_round = problem.data.per_round or 1
    full = _shortest(problem) // per_round
    if full < 2:
        raise BadValue("per_round", per_round, f"a learner has {_shortest(problem)} records", "use fewer")
    if steps is not None and steps > full:
        raise GossamerError(
            Argument("steps", steps), f": a learner has {full} full rounds, and noise of this kind needs such: use ",
            Argument("steps", full), " or fewer.",
        )  # fmt: skip
    return replace(effort, steps=min(rounds, full))


def releases_again(kind: Kind) -> bool:
    """Whether noise goes to the source, and to the mean over all records so far."""
    return kind.where == "source" and kind.gradient != "latest"


def own_pace(problem: Spec, case: Case, steps: int) -> Spec:
    """The problem with a pace for a kind of noise that needs full rounds; a history finds its own."""
    if case.releases_again or problem.data.per_round is not None:
        return problem
    return problem.but(per_round=max(1, _shortest(problem) // steps))


def _shortest(problem: Spec) -> int:
    """How many records the learner has that has the fewest."""
    return int(data_of(problem)[0].room(2**40).min())
