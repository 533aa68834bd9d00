"""Networks that change: who hears whom in round t, as a function of (seed, t) alone.

    NetworkSchedule.of([by_day, by_night], every=12)         one network after the other, over and over
    NetworkSchedule.turns(network, [[(0, 1)], [(1, 0)]])     in each round some of a network's links, by turns
    ….failing(0.1)             every link loses what is sent over it in a round with this probability
    ….sleeping(0.05)           every learner sleeps through a round with this probability
    ….leaving(3, at=100)       learner 3 is away from round 100 on
    ….joining(3, at=200)       and takes part from round 200 on (again, or for the first time)

Nothing of it depends on a record. So whoever plays some of the learners, in whatever process, has the same network in
round t, and whoever knows the schedule knows what a learner that follows it was to send.

What each change does to a round, and what of it is proved, is told in gossamer.simulate.changing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from gossamer.errors import BadValue, GossamerError
from gossamer.networks.checks import check_connected
from gossamer.networks.drawn import happens
from gossamer.networks.network import Network
from gossamer.networks.voices import cycled_voices
from gossamer.types import Array, Integers, Matrix

Mask = NDArray[np.bool_]
Lost = Literal["sums", "ahead", "kept", "dropped"]  # see gossamer.simulate.lost
LINK, LEARNER = 0, 1  # kinds of events
MOST_ROUNDS, MOST_SEED = 2**40, 2**63 - 1
NUMBERS = 2**27  # of a cycle's weights, which are kept


class Change(NamedTuple):
    """A learner that leaves, or joins, before round `at`."""

    at: int
    learner: int
    joins: bool


class Now(NamedTuple):
    """Who takes part in round t."""

    t: int
    phase: int  # which of the networks, or turns, it is
    present: Mask  # (m,) who has joined and not left
    awake: Mask  # and does not sleep through the round
    listens: Mask  # who has just joined: it hears the others' parameters and does nothing else

    @property
    def acts(self) -> Mask:
        """Who takes a gradient, and sends."""
        return self.awake & ~self.listens


@dataclass(frozen=True, eq=False)
class NetworkSchedule:
    """The network of every round, on the same learners; made by `of` or `turns`, and narrowed by the other methods."""

    networks: tuple[Network, ...]
    every: int = 1
    links: tuple[frozenset[tuple[int, int]], ...] = ()  # by turns: those of the only network
    seed: int = 0
    failures: float = 0.0
    both_ways: bool = False
    lost: Lost | None = None
    sleep: float = 0.0
    changes: tuple[Change, ...] = field(default=())

    # -- how to make one ------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, networks: Network | Sequence[Network], every: int = 1, seed: int = 0) -> NetworkSchedule:
        """One network for `every` rounds, then the next, and after the last the first again."""
        given = (networks,) if isinstance(networks, Network) else tuple(networks)
        if not given or not all(isinstance(one, Network) for one in given):
            raise BadValue("networks", networks, "expected one gossamer.Network, or several in a list")
        sizes = sorted({one.m for one in given})
        if len(sizes) > 1:
            raise GossamerError(
                f"networks of {' and '.join(map(str, sizes))} learners in one schedule: give networks of the same "
                "learners, and let some of them leave and join."
            )
        return cls(given, _rounds("every", every, 1), seed=_rounds("seed", seed, 0))

    @classmethod
    def turns(
        cls, network: Network, links: Sequence[Iterable[tuple[int, int]]], every: int = 1, seed: int = 0
    ) -> NetworkSchedule:
        """In each turn some of R's links, (sender, receiver); the weights of the others stay where they come from.

        Where C is Rᵀ, a link's turn is its way back's as well; otherwise C's links have to be in the lists, too. A turn
        need not connect the learners, all of them together must.
        """
        known = {(j, i) for over in ("R", "C") for j, i, _ in network.edges(over)}
        given = tuple(frozenset((int(j), int(i)) for j, i in turn) for turn in links)
        if not given:
            raise BadValue("links", links, "expected a list of links for each turn")
        strange = next((link for turn in given for link in sorted(turn) if link not in known), None)
        if strange is not None:
            raise GossamerError(
                f"a turn has the link {strange[0]}→{strange[1]}, which the network has not: add it to the network."
            )
        made = cls((network,), _rounds("every", every, 1), given, _rounds("seed", seed, 0))
        made._check_connected()
        return made

    def failing(
        self, probability: float, *, both_ways: bool = False, lost: Lost | None = None, seed: int | None = None
    ) -> NetworkSchedule:
        """Every link loses a round's messages with this probability, independently of other links and rounds.

        both_ways  a line fails in both directions at once; otherwise the two directions fail independently
        lost       what becomes of lost pushes: "sums", "ahead", "kept" or "dropped", see gossamer.simulate.lost; by
                   default what the method is known to work with. "dropped" is there to show what breaks without
        """
        if lost is not None and lost not in get_args(Lost):
            raise BadValue("lost", lost, f"expected one of {', '.join(get_args(Lost))}")
        p, drawn_by = _probability("failures", probability), self.seed if seed is None else _rounds("seed", seed, 0)
        return replace(self, failures=p, both_ways=bool(both_ways), lost=lost, seed=drawn_by)

    def sleeping(self, probability: float, *, seed: int | None = None) -> NetworkSchedule:
        """Every learner sleeps through a round with this probability: it sends, hears, learns and releases nothing."""
        drawn_by = self.seed if seed is None else _rounds("seed", seed, 0)
        return replace(self, sleep=_probability("sleep", probability), seed=drawn_by)

    def leaving(self, learner: int, at: int) -> NetworkSchedule:
        """Learner `learner` takes part in round at−1 for the last time."""
        return self._changed(learner, at, joins=False)

    def joining(self, learner: int, at: int) -> NetworkSchedule:
        """It listens in round `at` and takes part from then on; before its first change it is away."""
        return self._changed(learner, at, joins=True)

    def _changed(self, learner: int, at: int, joins: bool) -> NetworkSchedule:
        return self.changing([(at, learner, joins)])

    def changing(self, changes: Iterable[tuple[int, int, bool]]) -> NetworkSchedule:
        """Several who leave and join, as (round, learner, joins): what matters is who is there after all of them."""
        given = [
            Change(_rounds("at", at, 1), _rounds("learner", who, 0), bool(joins)) for at, who, joins in changes
        ]  # fmt: skip
        strange = next((one.learner for one in given if one.learner >= self.m), None)
        if strange is not None:
            raise BadValue("learner", strange, f"expected one of the network's learners, 0 to {self.m - 1}")
        made = replace(self, changes=tuple(sorted((*self.changes, *given))))
        by_learner = sorted(made.changes, key=lambda one: (one.learner, one.at))
        for one, after in pairwise(by_learner):
            if one.learner == after.learner and (one.joins == after.joins or one.at == after.at):
                first, then = ("joins" if each.joins else "leaves" for each in (one, after))
                raise GossamerError(
                    f"learner {one.learner} {first} in round {one.at} and {then} in round {after.at}: let it leave and "
                    "join by turns."
                )
        if given:
            made._check_connected()
        return made

    # -- what it is -----------------------------------------------------------------------------------------------

    @property
    def m(self) -> int:
        return self.networks[0].m

    @property
    def fixed(self) -> Network:
        """The network that rules look at which were made for a fixed one: the first, with all of its links."""
        return self.networks[0]

    @property
    def phases(self) -> int:
        """How many networks or turns follow each other."""
        return max(len(self.networks), len(self.links))

    def network_of(self, phase: int) -> Network:
        return self.networks[0] if self.links else self.networks[phase]

    @property
    def redraws(self) -> bool:
        """Whether chance has a part in it."""
        return self.failures > 0 or self.sleep > 0

    @cached_property
    def mirrored(self) -> bool:
        """Whether the network's C is Rᵀ, every link of R having a way back."""
        R, C = (self.networks[0].laplacian(over) for over in ("R", "C"))
        return bool(abs(R.T - C).sum() == 0)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all that decides who hears whom."""
        turns = [sorted(turn) for turn in self.links]
        about = [[one.fingerprint for one in self.networks], turns, list(self.changes)]
        return hashlib.sha256(repr([about, self.describes]).encode()).hexdigest()

    @property
    def describes(self) -> dict[str, Any]:
        """What a run record says of it, beside the networks themselves."""
        said: dict[str, Any] = {"networks": len(self.networks)}
        said |= {"every": self.every} if self.phases > 1 else {}
        said |= {"turns": len(self.links)} if self.links else {}
        said |= {"failures": self.failures, "both_ways": self.both_ways, "lost": self.lost} if self.failures else {}
        said |= {"sleep": self.sleep} if self.sleep else {}
        changes = [{"at": at, "learner": who, "joins": joins} for at, who, joins in self.changes]
        said |= {"changes": changes} if changes else {}
        return said | ({"seed": self.seed} if self.redraws else {})

    @property
    def description(self) -> dict[str, Any]:
        return {**self.describes, "fingerprint": self.fingerprint}

    # -- what holds in a round ------------------------------------------------------------------------------------

    def at(self, t: int) -> Now:
        """Who takes part in round t."""
        present = self._present(t)
        awake, joined = present, present & ~self._present(t - 1)
        if self.sleep > 0:
            awake = joined | (present & ~happens(self.sleep, self.seed, LEARNER, t, np.arange(self.m)))
        return Now(t, (t // self.every) % self.phases, present, awake, joined)

    def leavers(self, t: int) -> list[int]:
        """Who takes part in round t no more."""
        return [] if t not in self._changed_at else [one.learner for one in self.changes if one[::2] == (t, False)]

    def _present(self, t: int) -> Mask:
        """Who has joined by round t and not left; before its first change a learner is what that change ends."""
        epoch = int(np.searchsorted(self._changed_at, t, side="right"))
        return self._present_in[epoch]

    @cached_property
    def _changed_at(self) -> Integers:
        return np.unique(np.array([one.at for one in self.changes], dtype=np.int64))

    @cached_property
    def _present_in(self) -> list[Mask]:
        """By epoch: who is present between two changes."""
        here = np.ones(self.m, dtype=bool)
        for one in reversed(self.changes):
            here[one.learner] = not one.joins
        epochs = [here.copy()]
        for at in self._changed_at:
            for one in self.changes:
                if one.at == at:
                    here[one.learner] = one.joins
            epochs.append(here.copy())
        for mask in epochs:
            mask.setflags(write=False)
        return epochs

    def in_turn(self, over: Matrix, phase: int, senders: Integers, receivers: Integers) -> Mask:
        """Which of these links of a matrix have their turn."""
        if not self.links:
            return np.ones(len(senders), dtype=bool)
        turn = np.array(sorted(j * self.m + i for j, i in self.links[phase]), dtype=np.int64)
        there, back = (np.isin(a * self.m + b, turn) for a, b in ((senders, receivers), (receivers, senders)))
        if over.removeprefix("I+") == "W":
            return there | back
        return back if over == "C" and self.mirrored else there

    def fail(self, t: int, senders: Integers, receivers: Integers) -> Mask:
        """Which of these links lose what is sent over them in round t."""
        if self.failures == 0:
            return np.zeros(len(senders), dtype=bool)
        if self.both_ways:
            senders, receivers = np.minimum(senders, receivers), np.maximum(senders, receivers)
        return happens(self.failures, self.seed, LINK, t, senders * self.m + receivers)

    def voices(self, t: int) -> Array:
        """(m,): [φ_{t+1}]_i or its mean, as if nobody left or joined any more; see gossamer.networks.voices."""
        cycle = self._voices_in(int(np.searchsorted(self._changed_at, t, side="right")))
        voices: Array = cycle[t % len(cycle)]
        return voices

    def _voices_in(self, epoch: int) -> Array:
        known: dict[int, Array] = self.__dict__.setdefault("_voices", {})
        if epoch not in known:
            present = self._present_in[epoch]
            if self.phases == 1 and present.all():
                known[epoch] = self.fixed.perron[None] / self.m
            else:
                rounds = 1 if self.phases == 1 else self.phases * self.every
                if rounds * self.m > NUMBERS:
                    raise GossamerError(
                        f"a cycle of {rounds} rounds of {self.m} learners has too many weights to be worked out: let "
                        "networks follow each other sooner, or use a method that divides by none, such as push_pull."
                    )
                up = (1 - self.failures) * (1 - self.sleep) ** 2
                pulls = [up * self._among(present, phase) for phase in range(self.phases)]
                steps = [pulls[k // (rounds // self.phases)] for k in range(rounds)]
                found = cycled_voices(steps, present.astype(float))
                known[epoch] = np.where(present, found, 1 / self.m)  # who is away divides nothing
        return known[epoch]

    def _among(self, present: Mask, phase: int) -> scipy.sparse.csr_array:
        """R of the links of a phase between those who are present."""
        senders, receivers, weights = self.network_of(phase).edge_arrays("R")
        up = present[receivers] & present[senders] & self.in_turn("R", phase, senders, receivers)
        shape = (self.m, self.m)
        off = scipy.sparse.csr_array((weights[up], (receivers[up], senders[up])), shape=shape)
        return scipy.sparse.csr_array(off - scipy.sparse.diags_array(np.asarray(off.sum(axis=1)).ravel()))

    # -- what it must satisfy -------------------------------------------------------------------------------------

    def _check_connected(self) -> None:
        """Over a whole cycle, those who are present must reach one another, whoever has left."""
        for epoch, present in enumerate(self._present_in):
            since = int(self._changed_at[epoch - 1]) if epoch else 0
            if present.sum() < 2:
                raise GossamerError(
                    f"from round {since} on {int(present.sum())} learner is there: expected two or more at any time."
                )
            there = np.flatnonzero(present)
            try:
                check_connected(self._union("R", there), self._union("C", there), there)
            except GossamerError as error:
                raise GossamerError(
                    f"from round {since} on, over all rounds of a cycle together: ", *error.parts
                ) from None

    def _union(self, over: Matrix, there: Integers) -> scipy.sparse.csr_array:
        """The links between these learners that some round of a cycle has; entry (j, i): j sends to i."""
        found, place = [], np.full(self.m, -1)
        place[there] = np.arange(len(there))
        for phase in range(self.phases):
            senders, receivers, _ = self.network_of(phase).edge_arrays(over)
            up = (place[receivers] >= 0) & (place[senders] >= 0) & self.in_turn(over, phase, senders, receivers)
            found.append(place[senders[up]] * len(there) + place[receivers[up]])
        senders, receivers = np.divmod(np.unique(np.concatenate(found)), len(there))
        shape = (len(there), len(there))
        return scipy.sparse.csr_array((np.ones(len(senders)), (senders, receivers)), shape=shape)

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.describes.items() if name != "changes")
        return f"NetworkSchedule(m={self.m}, {said}, {len(self.changes)} changes)"


def _rounds(name: str, value: Any, least: int) -> int:
    most = MOST_SEED if name == "seed" else MOST_ROUNDS
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= most:
        raise BadValue(name, value, f"expected a whole number from {least} to {most}")
    return int(value)


def _probability(name: str, value: Any) -> float:
    number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not number or not 0 <= value < 1:
        raise BadValue(name, value, "expected a probability from 0 to below 1")
    return float(value)
