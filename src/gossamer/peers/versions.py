"""One learner's place in the network of every round, and what becomes of z and of trackers where the network changes.

Let T be the round of a change. Rounds before T are played on the graph that was, rounds from T on on the new one.

**Who joins** listens in round T: it has no value worth keeping, so it takes the mean of what it hears, by R's weights
scaled to add up to 1, with a tracker of 0. Nobody counts on a message of it in that round: those who would pull from it
keep that weight on their own value, those who would push to it keep that mass. It sends from round T+1 on.

**Who leaves** takes part in round T−1 for the last time. Where trackers are sums of current gradients (`hands_over`, as
in Push–Pull) it hands its own to those it pushes to, by the weights with which it pushes, and they add it to theirs
before they send round T. Where θ moves by what trackers change (Algorithm 1) it takes its own along.

**Who is lost** is left out from the round in which a party has the document: what it was pulled from by stays on the
own value, what was pushed to it stays with the sender, who knows that it will not be taken.

**The sum of trackers.** Let x be a field that is pushed (s of Algorithm 1, w = y − g of Push–Pull), and sum over those
who act. In every round, for every set S of learners that take nothing and send nothing,

    Σ_i x_i(t+1) = Σ_i x_i(t) + what the method itself adds (λ_t Σ g_i of Algorithm 1, 0 of w)

because the weights that j pushes by and the one it keeps, 1 + C_jj + Σ_{i∈S} C_ij, add up to 1. Handing over moves mass
and makes none: its shares add up to 1. So after a leave or a join Σ w = 0 holds again, and Σ s goes on to change by
λ_t Σ g_t, over those who are there. What is *not* conserved is written off by a stated rule:

    Algorithm 1   the s of who leaves or is lost goes with it, and so does what was on its way to one who is lost. θ̄,
                  the mean by Perron weights, moves by the sum of what trackers *change*, −Σ (s⁺ − s)/m: by −λ_t Σ g_t/m
                  in every round from T on, whatever Σ s is. What is missing displaced θ̄ once, by no more than the mass
                  that was on its way, and no later round carries it on
    Push–Pull     y itself is the step, so that a wrong sum would steer for ever. Where somebody is lost every party
                  begins its tracker anew in round T: w = 0, y = g. Then Σ w = 0 and Σ y = Σ g again, exactly, and
                  what was handed over or was on its way is of no account

**z.** Before T it is iterated as ever, with the graph of the beginning, also where somebody is lost meanwhile: it is a
function of that graph and of t, and compared with it. From T on it is not iterated and not sent. A gradient of round t
counts by φ_{t+1}, its learner's weight in the rounds to come (gossamer.networks.voices); nobody knows of a later
change, so that is the Perron share u_i/p of the new graph of p members, exactly, and every party works it out. The
simulator is told all changes beforehand, and gives out such weights from round 0 on; a run of parties, who know of
none, iterates z towards u/m until T. Both divide by what a gradient will count by, as far as it can be known. p takes
m's place: λ_t is what a mean over those who are there moves by.

**Noise at the source stays proved.** A learner's messages, and what it hands over, are functions of its released
gradients, of what it received and of public things: its proof (gossamer.privacy.source) uses no property of the graph.
Documents are public and come from people. It is *assumed* that these do not look at records when they decide who
leaves and when; no proof could cover that. A learner that joins is charged for all rounds before T as if it had
released in them, and thrown that away: an upper bound, since throwing away is post-processing. Its records of those
rounds are taken in first, as if it had been there. With noise on messages a change is refused, because the recursion
that proves it has one network's R_ii, C_ii and z; so it is with shared noise, which cancels between all who began.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.arrays import dense
from gossamer.networks import Network
from gossamer.peers.membership import Change, History, pushed_over
from gossamer.peers.public import PublicValues
from gossamer.types import Matrix, Rows

Weights = Mapping[int, float]  # by neighbour
RECENT = 100  # rounds


class Place(NamedTuple):
    """Where one learner is in the network of a round."""

    rows: Rows
    listens: bool  # it has just joined: it hears the others and does nothing else
    hears: Mapping[Matrix, Weights]  # whom it hears over a matrix's links, with which weight
    own: Mapping[Matrix, float]  # the weight of its own message, over I+…
    tells: Mapping[Matrix, Collection[int]]  # who hears it
    joining: frozenset[int]  # who listens in this round: they hear what is pulled, and take nothing that is pushed
    apart: Mapping[Matrix, float]  # the weight of those it would hear, and who are left out
    outside: Mapping[Matrix, Weights]  # and who these are
    public: PublicValues
    numbers: tuple[int, ...]  # the members, in the order of public values
    heard: frozenset[int]  # whom it hears over any link
    told: frozenset[int]  # and who hears it
    start: Any  # a state of one parameter: of what is emitted from it, the channels are those of any state


class Places:
    """Learner i's place in every round of a run's history."""

    def __init__(self, i: int, algorithm: Algorithm[Any], history: History) -> None:
        self.i, self.history, self._algorithm = i, history, algorithm
        self._known: dict[tuple[int, frozenset[int], frozenset[int]], Place] = {}
        self._public: dict[int, PublicValues] = {}
        self._recent: dict[int, Place] = {}  # by round, as far as the newest change is known
        self._version = history.version

    def at(self, t: int) -> Place:
        """Its place in round t, in which it must be a member; asked for many times a round."""
        if self._version != len(self.history.changes):
            self._recent, self._version = {}, self.history.version
        place = self._recent.get(t)
        if place is None:
            if len(self._recent) >= RECENT:
                self._recent.clear()
            place = self._recent[t] = self._found(t)
        return place

    def _found(self, t: int) -> Place:
        history = self.history
        version, change = history.version_at(t), history.taken_in(t)
        joining = frozenset[int]() if change is None else change.joins
        key = version, history.lost_by(t), joining
        if key not in self._known:
            self._known[key] = self._place(*key)
        return self._known[key]

    def is_member(self, t: int) -> bool:
        return self.i in self.history.members_of(self.history.version_at(t))

    def _place(self, version: int, lost: frozenset[int], joining: frozenset[int]) -> Place:
        silent, listens = lost | joining, self.i in joining
        numbers, network = self.history.members_of(version), self.history.network_of(version)
        k, mixes = numbers.index(self.i), self._algorithm.mixes
        rows = _rows(network, version, mixes).part(slice(k, k + 1))
        hears, tells, own, apart, outside = {}, {}, {}, {}, {}
        for over in mixes:
            row = {numbers[j]: w for j, w in _row(network, over, k).items()}
            own[over] = row.pop(self.i, 0.0)
            told = [numbers[j] for j in range(network.m) if j != k and k in _row(network, over, j)]
            outside[over] = {j: w for j, w in row.items() if j in silent}
            apart[over] = sum(outside[over].values())
            hears[over] = {j: w for j, w in row.items() if j not in silent}
            tells[over] = [] if listens else [j for j in told if j not in lost]
            own[over] += apart[over] if over.startswith("I+") else 0.0
        if silent:
            rows = _left_over(rows, network, numbers, k, silent)
        if listens:
            whole = {over: sum(row.values()) for over, row in hears.items()}
            hears = {over: {j: w / whole[over] for j, w in row.items()} for over, row in hears.items()}
            own, apart = dict.fromkeys(mixes, 0.0), dict.fromkeys(mixes, 0.0)
            nothing = np.full((1, 1), -1.0)  # 1 + R_ii is what it keeps of its own value
            rows = rows._replace(R_ii=nothing, W_ii=nothing, D_ii=nothing, C_ii=np.zeros((1, 1)))
        public = self._public.setdefault(
            version, PublicValues(self._algorithm, network, _rows(network, version, mixes))
        )
        heard, hearers = (frozenset(j for some in of.values() for j in some) for of in (hears, tells))
        start = self._algorithm.init(rows, np.zeros((1, 1)))
        return Place(rows, listens, hears, own, tells, joining, apart, outside, public, numbers, heard, hearers, start)

    # -- who is a neighbour, and when ------------------------------------------------------------------------------

    def heard_in(self, t: int) -> set[int]:
        """Whom it hears in a round, or is handed something by before it."""
        return {*self.at(t).heard, *(j for j, _ in self.inherits(t))} if self.is_member(t) else set()

    def told_in(self, t: int) -> set[int]:
        """Who hears it in a round, or inherits something."""
        told = self.at(t).told if self.is_member(t) else ()
        return set(told).union(*self.hands_over(t).values())

    def neighbours(self) -> tuple[list[int], list[int]]:
        """Everybody that it hears, and everybody that hears it, in some round of what is known; but who is lost."""
        changes = self.history.changes
        rounds = [0, *(t for change in changes for t in (change.at, change.at + 1))]
        lost = frozenset[int]().union(*(change.lost for change in changes))
        hears, tells = (set[int]().union(*map(of, rounds)) - lost for of in (self.heard_in, self.told_in))
        return sorted(hears), sorted(tells)

    def used_of(self, sender: int, t: int) -> int:
        """The newest round before round t in which a neighbour was heard."""
        ends = [k for change in self.history.changes for k in (change.at, change.at - 1) if k < t]
        return next((k for k in sorted({t - 1, *ends}, reverse=True) if sender in self.heard_in(k)), -1)

    def since(self, sender: int, t: int) -> int:
        """In round t: the first round in which a neighbour is heard that is not heard yet, which may be ahead of it."""
        if sender in self.heard_in(t):
            return t
        later = [k for change in self.history.changes for k in (change.at, change.at + 1) if k > t]
        return next((k for k in later if sender in self.heard_in(k)), t)

    def farthest(self, listener: int, t: int, lateness: int) -> float:
        """In round t: the newest round that a listener can be in. It goes without this learner's message in no more
        than `lateness` of the rounds in which it hears it; somebody who hears it no more may be anywhere."""
        if not self.history.changes:  # asked with every acknowledgement
            return t + 1 + lateness if listener in self.at(t).told else np.inf
        turns = [k for change in self.history.changes for k in (change.at, change.at + 1) if k > t]
        needed = lateness + 1  # of the rounds after t in which it hears this learner, the first that it cannot take
        for k, until in pairwise([*sorted({t + 1, *turns}), np.inf]):
            if listener in self.told_in(int(k)):
                if until - k >= needed:
                    return k + needed - 1
                needed -= int(until - k)
        return np.inf

    # -- trackers where the network changes -----------------------------------------------------------------------

    def hands_over(self, t: int) -> dict[str, list[int]]:
        """By channel: to whom this learner, which took part in round t−1 for the last time, hands its trackers."""
        change = self.history.taken_in(t)
        if change is None or self.i not in change.leaves or not self._moves(change):
            return {}
        return {
            handed(channel): list(self.history.heirs(change, self.i, over))
            for channel, over in pushed_over(self._algorithm).items()
        }

    def inherits(self, t: int) -> dict[tuple[int, str], tuple[str, float]]:
        """By (sender, channel): which field of the state in round t it is added to, with which share."""
        change = self.history.taken_in(t)
        if change is None or not self._moves(change) or self.i not in change.members:
            return {}
        over_time = self._algorithm.over_time
        assert over_time is not None
        found = {}
        for channel, over in pushed_over(self._algorithm).items():
            for j in sorted(change.leaves):
                share = self.history.heirs(change, j, over).get(self.i)
                if share is not None:
                    found[j, handed(channel)] = over_time.pushed[channel], share
        return found

    def begins_anew(self, t: int) -> list[str]:
        """The fields that everybody sets back in round t, because somebody was lost."""
        change, over_time = self.history.taken_in(t), self._algorithm.over_time
        if change is None or over_time is None or not change.lost or not over_time.hands_over:
            return []
        return list(over_time.pushed.values())

    def _moves(self, change: Change) -> bool:
        over_time = self._algorithm.over_time
        return over_time is not None and over_time.hands_over and not change.lost

    def channels(self, t: int) -> dict[str, tuple[Matrix, bool]]:
        """What everybody sends in round t: over which links, and whether it is pushed."""
        place = self.at(t)
        sent = self._algorithm.emit(place.start, np.zeros((1, 1)), place.rows, t)
        over_time = self._algorithm.over_time
        pushed = over_time.pushed if over_time is not None else {}
        return {channel: (out.over, channel in pushed) for channel, out in sent.items()}


def handed(channel: str) -> str:
    """The channel on which a tracker is handed over."""
    return f"handed {channel}"


def _rows(network: Network, version: int, mixes: tuple[Matrix, ...]) -> Rows:
    """Of all members; after a change z is given, and goes on to be what it is."""
    rows = network.rows(mixes=mixes)
    return rows if not version else rows._replace(settles=0, share=(network.perron / network.m)[:, None])


def _left_over(rows: Rows, network: Network, numbers: tuple[int, ...], k: int, silent: frozenset[int]) -> Rows:
    """What is not pulled, and not pushed, is left on the own value: rows of R, W and D, and columns of C, add to 0."""
    out = [place for place, number in enumerate(numbers) if number in silent]
    changed: dict[str, Any] = {}
    for over in ("R", "C", "W", "D"):
        name: Any = f"{over}_ii"
        if np.isnan(getattr(rows, name)).any():
            continue
        matrix: Any = over
        M = dense(network.laplacian(matrix))
        kept = M[out, k] if over == "C" else M[k, out]
        changed[name] = getattr(rows, name) + kept.sum()
    return rows._replace(**changed)


def _row(network: Network, over: Matrix, i: int) -> dict[int, float]:
    """Whom the i-th learner hears over a matrix's links, and with which weight."""
    row = dense(network.off_diagonal(over)[[i]]).ravel()
    return {int(j): float(row[j]) for j in np.flatnonzero(row)}
