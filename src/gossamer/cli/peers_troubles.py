"""What is wrong in a run that is watched: whom others wait for, what comes to its end, who does not answer.

Who waits is not to blame: it waits for another. So a party is late where others wait for it and it waits for nobody
itself, or does not answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gossamer.cli.peers_lines import days_said
from gossamer.cli.words import lasting
from gossamer.peers.watching import Answer, Seen

LATE = 30.0  # seconds that somebody may be waited for
NEARLY = 0.9  # of the rounds that a budget lasts
DAYS = 14.0  # of a certificate


class Trouble(NamedTuple):
    """One thing that somebody should look at. Its kind and whom it is about stay the same while it lasts."""

    kind: str
    whom: str
    sentence: str


def called(one: Seen) -> str:
    """Learner 3, where it has said so; else its address."""
    number = None if one.answer is None else one.answer.learner
    return one.target if number is None else f"learner {number}"


def troubles_in(seen: Sequence[Seen], late: float = LATE) -> list[Trouble]:
    """All that is wrong, the worst first."""
    answers = [(one, one.answer) for one in seen if one.answer is not None]
    return [
        *_twice(answers),
        *(Trouble("unreachable", one.target, _silence(one)) for one in seen if one.why and not one.done),
        *_runs(answers),
        *(Trouble("held", called(one), _doubted(one, answer)) for one, answer in answers if answer.held),
        *_late(seen, late),
        *(trouble for one, answer in answers for trouble in _ending(one, answer)),
    ]


def _silence(one: Seen) -> str:
    since = f"for {lasting(one.age)}" if one.answer is not None else "so far"
    who = one.target if one.answer is None or one.answer.learner is None else f"{called(one)} at {one.target}"
    return f"{who} does not answer {since}: {one.why}."


def _doubted(one: Seen, answer: Answer) -> str:
    whom = f"learner{'s' if len(answer.held) > 1 else ''} {', '.join(map(str, answer.held))}"
    return f"{called(one)} is told by {whom} that its journal is old: its owner decides, by what its status says."


def _twice(answers: Sequence[tuple[Seen, Answer]]) -> list[Trouble]:
    """Two processes that are one learner: copies of a folder draw their own noise for the same rounds."""
    places = defaultdict[tuple[str, int], list[str]](list)
    for one, answer in answers:
        if answer.learner is not None and not one.why:
            places[answer.run, answer.learner].append(one.target)
    return [
        Trouble(
            "twice",
            f"learner {learner}",
            f"learner {learner} answers at {' and at '.join(targets)}: if these are copies of one folder, stop both, "
            "since ε does not hold.",
        )
        for (_, learner), targets in places.items()
        if len(targets) > 1
    ]


def _runs(answers: Sequence[tuple[Seen, Answer]]) -> list[Trouble]:
    runs = list(dict.fromkeys(answer.run for _, answer in answers if answer.run))
    if len(runs) < 2:
        return []
    said = "; ".join(f"{', '.join(called(one) for one, answer in answers if answer.run == run)}: {run}" for run in runs)
    return [Trouble("runs", "", f"these are parties of {len(runs)} runs ({said}): watch each run by itself.")]


def _late(seen: Sequence[Seen], late: float) -> list[Trouble]:
    """Whom others wait for. One that waits in turn is named only where all that are waited for do: in a circle."""
    waiting = defaultdict[int, dict[int, float]](dict)  # by whom they wait for: who waits, and for how long
    waits = set[int]()
    for one in seen:
        answer = one.answer
        if answer is None or one.why or answer.learner is None or answer.waiting < late or not answer.waits_for:
            continue
        waits.add(answer.learner)
        for j in answer.waits_for:
            waiting[j][answer.learner] = answer.waiting
    to_blame = [j for j in waiting if j not in waits] or list(waiting)
    watched = {one.answer.learner for one in seen if one.answer is not None}
    return [
        Trouble("late", f"learner {j}", _lateness(j, waiting[j], j in watched, j in waits)) for j in sorted(to_blame)
    ]


def _lateness(j: int, waiting: Mapping[int, float], watched: bool, waits: bool) -> str:
    whom = f"learner{'s' if len(waiting) > 1 else ''} {', '.join(map(str, sorted(waiting)))}"
    which = f"learner {j}" if watched else f"learner {j}, which is not watched,"
    beside = ", and waits itself: a link between them may be cut" if waits else ""
    verb, time = "wait" if len(waiting) > 1 else "waits", lasting(max(waiting.values()))
    return f"{which} is late: {whom} {verb} for it for {time}{beside}."


def _ending(one: Seen, answer: Answer) -> list[Trouble]:
    """A budget or a certificate that will not last."""
    found, who = [], called(one)
    paid = answer.paid_rounds
    if paid is not None and paid < answer.steps and answer.round >= NEARLY * paid:  # else it lasts, all spent or not
        found.append(
            Trouble(
                "budget",
                who,
                f"the budget of {who} lasts for {paid:.0f} of {answer.steps} rounds, {answer.round} are taken: once "
                "it is spent, nothing new is sent.",
            )
        )
    days = answer.days_left
    if days is not None and days < DAYS and not one.done:
        left = f"ends in {days_said(days)}" if days > 0 else "is no longer valid"
        found.append(Trouble("certificate", who, f"the certificate of {who} {left}: renew it."))
    return found
