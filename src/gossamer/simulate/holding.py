"""Which methods are right on a network that changes; what cannot be is refused, and what is not proved is said.

W, D      in every round, rows add to 0. That columns do, too, a link that fails one way breaks; as links fail alike,
          every gradient counts alike in the mean over what chance may do. A tracker needs the columns themselves
trackers  of current gradients (Push–Pull, DiaDSP) end at 0, whatever C(t) is, as long as nothing of them is lost
stirred   θ of Algorithm 1 and of robust Push–Pull moves by what s changes, and s ends at ω Σ λ 1ᵀg, ω the right Perron
          vector of I+C. Where C(t) ω is not 0 in every round, s never comes to rest: each round moves every learner by
          (C(t) s)_i, for ever, and no step that falls makes it less. Push–Pull's y is the very difference that θ moves
          by, kept as such, and comes to rest. So these are run where one ω fits all rounds: losses that are read ahead,
          C(t) that are all balanced. Joins and leaves are a finite number, after which s comes to rest again
fading    where links fade, late mass would be added with another factor than it was given away with: senders must
          know at once what does not come. Divided by z, such a method would need the weights of the mean network
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from gossamer.algorithms.base import Algorithm, OverTime
from gossamer.errors import AT_SOURCE, Argument, GossamerError, NotProvable
from gossamer.models import Model
from gossamer.networks import NetworkSchedule
from gossamer.networks.changing import Lost, Now
from gossamer.networks.spectrum import perron
from gossamer.privacy import Mechanism
from gossamer.rounds import fields_of_graph
from gossamer.simulate.links import Links
from gossamer.simulate.lost import lost_of

READ_AHEAD_UP_TO = 0.7  # the probability of a loss: measured, not proved; beyond, what is read ahead swings ever wider
REST = 1e-9  # of the largest weight that a push moves: what is below is rounding
REMEDY = "push_pull"
WORDS = {
    "sums": "Lost pushes come later, as running sums: nothing of a tracker's sum is lost.",
    "ahead": "Lost pushes come later, as running sums, and are read ahead: nothing of a tracker's sum is lost.",
    "kept": "Senders know which pushes do not come, and keep them: nothing of a tracker's sum is lost.",
    "dropped": "An ABLATION: lost pushes are dropped. Trackers no longer hold the sum of the gradients, and what is "
    "learned is biased for good.",
}


def check_holds(
    algorithm: Algorithm[Any], schedule: NetworkSchedule, privacy: Any, model: Model, strict: bool
) -> list[str]:
    """Refuse what cannot be right, if `strict`; otherwise what is to be said of it in a run's record."""
    about = algorithm.over_time
    if about is None:
        raise GossamerError(
            f"nothing is known of {algorithm.name} on a network that changes: say it with "
            "Algorithm(…, over_time=OverTime(…)), or use push_pull."
        )
    if model.arrays.tensors:
        raise GossamerError(
            "networks that change are for models in NumPy's arrays: use a fixed network for one in tensors."
        )
    _check_private(privacy)
    lost = lost_of(algorithm, schedule)
    broken = _broken(algorithm, about, schedule, lost)
    if broken and strict:
        why, remedy, rest = broken[0].partition(REMEDY)
        parts = (Argument("algorithm", remedy, python=f"gossamer.{remedy}"), rest) if remedy else ()
        raise GossamerError(f"{algorithm.name} on a network that changes: {why}", *parts)
    said = [f"{algorithm.name} on a network that changes: {one}" for one in broken]
    notes = [
        "The network changes. The paper's theorems are about one network for all rounds, and none of them is claimed.",
        about.known,
        *said,
    ]
    if fields_of_graph(algorithm, schedule.fixed.rows(mixes=algorithm.mixes)):
        notes.append(
            "z is not iterated: a learner divides by its weight in the rounds to come, or by the mean of it where "
            "chance decides, which it knows from the schedule."
        )
    notes += [WORDS[lost]] if about.pushed and schedule.failures > 0 else []
    if schedule.changes:
        notes.append("Who is away is in no mean of this record, and its records are not learned from meanwhile.")
    if isinstance(privacy, Mechanism) and (schedule.sleep > 0 or schedule.changes):
        notes.append("A round in which a learner sleeps or is away is charged as if it had released: its ε is a bound.")
    return notes


def _check_private(privacy: Any) -> None:
    if not isinstance(privacy, Mechanism):
        return
    if privacy.where == "messages":
        raise NotProvable(
            "noise on messages is proved for one network in all rounds, and this one changes: use ", *AT_SOURCE, "."
        )
    if privacy.secrets is not None:
        raise NotProvable(
            "noise that cancels needs both partners to release in the same rounds and to count alike, which a network "
            "that changes does not promise: leave the pair secrets out."
        )


def _broken(algorithm: Algorithm[Any], about: OverTime, schedule: NetworkSchedule, lost: Lost) -> list[str]:
    """Sentences for what cannot be right."""
    found = []
    fails = schedule.failures > 0
    over_w = any(over.removeprefix("I+") == "W" for over in algorithm.mixes)
    if about.pushed and fails and lost != "dropped":
        if over_w and not schedule.both_ways:
            found.append(
                "its tracker and its parameters share one W, whose rows and columns cannot both add to 0 where links "
                "fail one way; let them fail both ways, or use push_pull."
            )
        elif about.lost == ("kept",) and lost == "kept" and not schedule.both_ways and schedule.lost is None:
            found.append(
                "what comes late would count with another factor than it left with, and senders do not know what is "
                "lost; let links fail both ways, or use push_pull."
            )
        elif lost not in about.lost:
            found.append(f"lost pushes cannot be {lost!r} with it, expected {' or '.join(map(repr, about.lost))}.")
    if about.pushed and lost == "ahead" and schedule.failures > READ_AHEAD_UP_TO:
        found.append(
            f"where more than {READ_AHEAD_UP_TO:.0%} of the messages are lost, reading ahead was measured to diverge; "
            "use push_pull with lost='sums'."
        )
    if about.stirred and not _rests(schedule):
        found.append(
            "it moves θ by what its tracker changes, and where C changes, or learners sleep, the tracker never comes "
            "to rest; use push_pull, which keeps that difference itself."
        )
    if any(over.removeprefix("I+") == "D" for over in algorithm.mixes) and (schedule.links or schedule.changes):
        found.append(
            "its weights D are balanced on all of a network's links and learners at once, and some of them are away; "
            "use push_pull, or dsgd."
        )
    if about.fades and schedule.phases > 1 and fields_of_graph(algorithm, schedule.fixed.rows(mixes=algorithm.mixes)):
        found.append(
            "it divides by z while its links fade, and which weights would do so on several networks is not known; use "
            "push_pull."
        )
    return found


def _rests(schedule: NetworkSchedule) -> bool:
    """Whether some tracker is at rest in every round: C(t) ω = 0 for one ω, whatever chance does."""
    links, matrices = Links(schedule, "C"), []
    for phase in range(schedule.phases):
        everybody = np.ones(schedule.m, dtype=bool)
        weights, own = links.push(Now(0, phase, everybody, everybody, ~everybody), kept=False)
        matrices.append(links.matrix(weights) + scipy.sparse.diags_array(own))
    largest = max(abs(C).max() for C in matrices)
    if schedule.sleep > 0 and any(abs(C - C.T).max() > REST * largest for C in matrices):
        return False  # unless what i gives to j is what j gives to i, a learner that sleeps leaves the rest unbalanced
    if len(matrices) == 1:
        return True
    with np.errstate(all="ignore"):  # where not everything pushed comes to everybody, none may be found
        rest = perron(scipy.sparse.csr_array(sum(matrices[1:], matrices[0]).T / len(matrices)))
        return all(float(np.abs(C @ rest).max()) <= REST * largest * rest.max() for C in matrices)
