"""A round on a network that changes: gossamer.networks.NetworkSchedule says who hears whom, here it is played.

    every round    R(t), C(t), W(t), D(t) with their own diagonals: gossamer.simulate.links
    lost pushes    are owed, and come later: gossamer.simulate.lost
    who sleeps     keeps its state, takes no gradient, sends nothing and hears nothing
    who leaves     keeps its state. Where trackers are sums of current gradients, as in Push–Pull, it first hands its
                   own to the neighbours that it pushes to, with all that is owed on its links; so 1ᵀw stays 0. Where θ
                   moves by what trackers change, as in Algorithm 1, it takes its own along: 1ᵀs of those who are there
                   goes on to change by λ_t 1ᵀg_t
    who joins      listens for a round: θ becomes the mean of what it hears, by R's weights. Its tracker is 0, or, where
                   it took it along, what it was
    z              is not iterated: a learner is given its weight in the rounds to come, gossamer.networks.voices

**The conserved sum.** Let x be a field that a channel pushes (s of Algorithm 1, w = y − g of Push–Pull). In every
round, whatever sleeps or fails,

    Σ_i x_i(t+1) + Σ owed(t+1) = Σ_i x_i(t) + Σ owed(t) + what the method itself adds (λ_t 1ᵀg_t; 0 for w)

because the columns of C(t) add to 0 over the links that are used, a link owes what its sender gave and its receiver
did not add, a sleeper neither gives nor adds, and handing over moves mass and makes none. With "dropped" it is false.

**Noise at the source** stays proved. Which links are up, and who sleeps, leaves and joins, follows from a seed and a
schedule, without a look at any record; so it is public. All that a learner sends, and hands over, is a function of its
released gradients, of what it received and of public things: the proof in gossamer.privacy.source uses no more, and no
property of the graph. A learner that does not act in a round uses no gradient. Its ledger is charged for that round's
release all the same, as if it had been released and then thrown away. Throwing away is post-processing, so that what is
charged is an upper bound, on every schedule of releases. Records go on to arrive at who sleeps or is away, and are
counted as they arrive.

Noise on messages is refused: its recursion has one network's R_ii, C_ii and z. So are pair secrets: noise cancels only
where both partners release in the same round and count alike, which nobody can promise here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic

import numpy as np

from gossamer.algorithms.base import Algorithm, State
from gossamer.errors import GossamerError
from gossamer.networks import NetworkSchedule
from gossamer.networks.changing import Mask, Now
from gossamer.records import Batch
from gossamer.rounds import Rounds, fields_of_graph
from gossamer.simulate.links import Links, Weighed
from gossamer.simulate.lost import Pushes, lost_of
from gossamer.types import Array, Matrix, Out, Rows

OWED = "owed."  # what the names of mass on its way start with, in a record


class OverChanging(Generic[State]):
    """Plays round t of all learners over the network of round t."""

    def __init__(
        self,
        algorithm: Algorithm[State],
        schedule: NetworkSchedule,
        rows: Rows,
        rounds: Rounds[State],
        width: int,
    ) -> None:
        assert algorithm.over_time is not None
        self._schedule, self._rows, self._rounds, self._about = schedule, rows, rounds, algorithm.over_time
        start = algorithm.init(rows, np.zeros((rows.m, width)))
        self._of_graph = fields_of_graph(algorithm, rows)
        every: set[Matrix] = {"R", "C", *(_plain(over) for over in algorithm.mixes)}
        self._links = {over: Links(schedule, over) for over in every}
        sent = algorithm.emit(start, 0 * start.theta, rows, 0)
        self._pushed_over = {channel: _plain(sent[channel].over) for channel in self._about.pushed}
        lost = lost_of(algorithm, schedule)
        self._kept = lost == "kept"
        self._pushes = {name: Pushes(self._links[over], width, lost) for name, over in self._pushed_over.items()}
        self._check_heirs()

    def __call__(self, state: State, records: Batch, t: int) -> State:
        now = self._schedule.at(t)
        state = self._left(state, now)
        if self._of_graph:
            voices = self._schedule.voices(t)[:, None]
            state = state._replace(**dict.fromkeys(self._of_graph, voices))
        pulls: dict[Matrix, Weighed] = {over: links.pull(now) for over, links in self._links.items() if over != "C"}
        rounds = self._rounds.where(self._rows_of(now, {over: pull.own for over, pull in pulls.items()}), now.acts)
        sent = rounds.send(state, records, t)
        got = {name: self._mixed(name, out, now, pulls) for name, out in sent.out.items()}
        private = [name for name, out in sent.out.items() if out.private]
        after = rounds.receive(state, sent.gradient, got, private, t)
        return after if now.awake.all() else _but(after, state, ~now.awake)

    def _rows_of(self, now: Now, own: Mapping[Matrix, Array]) -> Rows:
        """What learners know of their place in this round's network; C_ii is what they are left with when they push."""
        C_ii = self._links["C"].push(now, self._kept)[1]
        column = {over: values[:, None] for over, values in own.items()}
        W_ii, D_ii = column.get("W", self._rows.W_ii), column.get("D", self._rows.D_ii)
        return self._rows._replace(R_ii=column["R"], C_ii=C_ii[:, None], W_ii=W_ii, D_ii=D_ii)

    def _mixed(self, channel: str, out: Out, now: Now, pulls: Mapping[Matrix, Weighed]) -> Array:
        """Σ_{j≠i} W_ij(t) sent_j, with what was owed; over I+W a learner's own message as well."""
        over = _plain(out.over)
        pushed = channel in self._about.pushed
        got = self._pushes[channel](now, out.value) if pushed else pulls[over].off @ out.value
        if over != out.over:
            got = got + (1 + pulls[over].own)[:, None] * out.value
        return np.asarray(got)

    def _left(self, state: State, now: Now) -> State:
        """The state after those who leave before this round have handed over what they must."""
        if not self._about.hands_over:
            return state
        for learner in self._schedule.leavers(now.t):
            for channel, name in self._about.pushed.items():
                values = self._pushes[channel].settle(learner, getattr(state, name)).copy()
                heirs, shares = self._links[self._pushed_over[channel]].heirs(learner, now.present & ~now.listens)
                values[heirs] += shares[:, None] * values[learner]
                values[learner] = 0.0
                state = state._replace(**{name: values})
        return state

    def _check_heirs(self) -> None:
        if not self._about.hands_over:
            return
        for change in self._schedule.changes:
            if change.joins:
                continue
            now = self._schedule.at(change.at)
            there = now.present & ~now.listens  # who joins in this round takes nothing yet
            if any(not len(self._links[over].heirs(change.learner, there)[0]) for over in self._pushed_over.values()):
                raise GossamerError(
                    f"learner {change.learner} leaves in round {change.at}, and nobody that it pushes to is there to "
                    "take its tracker: let it leave earlier, or give it another link."
                )

    def owed(self) -> dict[str, Array]:
        """By channel, (n,): the mass that is on its way."""
        return {channel: pushes.owed for channel, pushes in self._pushes.items()}

    def kept(self) -> dict[str, Array]:
        """What a run that goes on has to know, beside the state."""
        return {
            f"{OWED}{channel}.{name}": value
            for channel, pushes in self._pushes.items()
            for name, value in pushes.kept().items()
        }

    def go_on(self, kept: Mapping[str, Array]) -> None:
        """Take back what `kept` gave; with it may come other things."""
        for channel, pushes in self._pushes.items():
            start = f"{OWED}{channel}."
            pushes.go_on({name.removeprefix(start): value for name, value in kept.items() if name.startswith(start)})


def rows_over(schedule: NetworkSchedule, algorithm: Algorithm[Any]) -> Rows:
    """What all learners know of their place at the start: as on the fixed network, but that z is given to them."""
    rows = schedule.fixed.rows(mixes=algorithm.mixes)
    share = schedule.voices(0)[:, None] if fields_of_graph(algorithm, rows) else rows.share
    return rows._replace(settles=0, share=share)


def _plain(over: Matrix) -> Matrix:
    """Over I+W the links are W's."""
    name: Any = over.removeprefix("I+")
    plain: Matrix = name
    return plain


def _but(after: State, before: State, who: Mask) -> State:
    """The new state, and of some learners the old one."""
    changed = {}
    for name, new in after._asdict().items():
        old, changed[name] = getattr(before, name), new.copy()
        changed[name][who] = old[who]
    return after._replace(**changed)
