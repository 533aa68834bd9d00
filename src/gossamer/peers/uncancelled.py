"""In which rounds noise of pairs did not cancel, because somebody was away. It costs accuracy, and no privacy.

A pair's noise cancels in the sum over learners if both ends release in the round, and what they send is used in it.
Where a neighbour went on with an older message of somebody who was late, the sum is not that of one round. Where a
party has stopped, its budget spent or its process ended, its partners' releases keep the noise that they share with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gossamer.peers.config import Plan
from gossamer.privacy import PrivateBoundary, Unproved
from gossamer.privacy.releases import spans
from gossamer.spec.languages import release_schedule


class Shares(NamedTuple):
    """What one party knows of it; kept in its outcome."""

    learner: int
    first: int  # the first round that releases anything
    until: int  # the first round of which it released nothing any more, or the run's number of rounds
    late: list[tuple[int, int]]  # (round, sender) of messages that it went on without


def shares_of(
    boundary: PrivateBoundary | Unproved, plan: Plan, late: Sequence[tuple[int, int]], round_: int, ended: bool
) -> Shares | None:
    """Of a party in some round, or at its end there; None where no noise is shared."""
    if not isinstance(boundary, PrivateBoundary) or plan.secrets is None:
        return None
    steps, stop = plan.config.run.steps, int(boundary.stops[0])
    until = round_ + 1 if ended else steps  # what a round sends is drawn when it begins
    if stop <= round_:
        until = min(stop, until)
    first = boundary.ledgers[0].terms.releases.before(steps)[0]
    return Shares(plan.learner, int(first), min(until, steps), [(int(t), int(j)) for t, j in late])


def tell_uncancelled(known: Sequence[Shares], plan: Plan) -> list[str]:
    """A sentence for every learner that was away, from what one party knows of it, or what all of them do."""
    if not known or plan.config.secrets is None:
        return []
    steps, schedule = plan.config.run.steps, release_schedule(plan.config.secrets.releases)
    everybody = len({one.learner for one in known}) == plan.config.run.learners
    end = max(one.until for one in known) if everybody else steps
    late: dict[int, set[int]] = {}
    for one in known:
        for t, j in one.late:
            if t >= one.first:  # before that nothing was shared
                late.setdefault(j, set()).add(t)
    said = [_sentence(spans(rounds), f"learner {j} was late") for j, rounds in sorted(late.items())]
    for one in sorted(known):
        alone = [int(t) for t in schedule.before(end) if t >= one.until]
        if alone:
            said.append(_sentence(spans(alone, schedule.step), f"learner {one.learner} released nothing"))
    return said


def _sentence(rounds: str, why: str) -> str:
    return f"Noise of pairs did not cancel in {rounds} ({why})."


def read_shares(abouts: Sequence[Mapping[str, Any]]) -> list[Shares]:
    """As outcomes have it; none where no noise was shared."""
    kept = [about["shares"] for about in abouts if about.get("shares")]
    return [Shares(learner, first, until, [(t, j) for t, j in late]) for learner, first, until, late in kept]
