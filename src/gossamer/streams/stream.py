"""Records that keep arriving: which records reach which learner in which round.

A stream is a table of records and an order. Round t's arrivals depend on t alone, never on what was asked before, so
that a run that stopped can go on with the same records.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from gossamer.arrays import dense
from gossamer.errors import Argument, BadValue, GossamerError, Part, Sentence
from gossamer.records import Batch, Population, Table, features_of, runs
from gossamer.types import Array, Integers

Weight = Literal["equal", "records"]  # of a learner in the objective: the same for all, or by how many records it has

BLOCK = 1 << 20  # numbers that are checked at a time


class Stream(Protocol):
    """What the engines ask of a stream."""

    @property
    def learners(self) -> int: ...
    @property
    def table(self) -> Table: ...
    @property
    def rounds(self) -> int | None:
        """After how many rounds nothing new arrives; None: never."""
        ...

    @property
    def population(self) -> Population: ...
    @property
    def test(self) -> Table | None:
        """Records that nobody learns from, where there are any."""
        ...

    @property
    def description(self) -> Mapping[str, Any]: ...
    @property
    def notes(self) -> Sequence[str]:
        """What a user of this stream should know."""
        ...

    def arrivals(self, t: int) -> Batch: ...
    def room(self, steps: int) -> Integers:
        """(m,) how many records each learner has received after `steps` rounds."""
        ...


def weights_of(stream: Stream) -> Array | None:
    """(m,) the learners' weights in the objective, of mean 1; None where all have the same."""
    return getattr(stream, "weights", None)


def clipped_of(stream: Stream) -> Mapping[str, float]:
    """By column of own records, the share of its values that lay outside its range."""
    return getattr(stream, "clipped", {})


class OnePass:
    """Each record arrives once, `per_round[i]` a round at learner i, in the order given, until they run out."""

    test: Table | None = None
    clipped: Mapping[str, float] = MappingProxyType({})  # by column, the share of its values that lay outside its range

    def __init__(
        self,
        table: Table,
        order: Sequence[Integers],
        per_round: int | Sequence[int] = 1,
        description: Mapping[str, Any] | None = None,
        notes: Sequence[str] = (),
        weight: Weight = "equal",
    ) -> None:
        self.table, self.notes = checked_bounds(table), tuple(notes)
        check_choice("weight", weight, "equal", "records")
        self._order = [np.asarray(ids, dtype=np.int64) for ids in order]
        every = np.concatenate(self._order) if self._order else np.empty(0)
        strange = every[(every < 0) | (every >= len(table))]
        if len(strange):
            raise GossamerError(f"record {int(strange[0])}: expected a number from 0 to {len(table) - 1}.")
        if len(np.unique(every)) < len(every):
            raise GossamerError("a record is given twice, and in one pass each arrives once: remove the second.")
        self._lengths = np.array([len(ids) for ids in self._order])
        self._first, self._flat = np.cumsum(self._lengths) - self._lengths, np.concatenate(self._order)
        if not self._lengths.all():
            alone = int(self._lengths.argmin())
            raise GossamerError(f"learner {alone} has no records: give each of the {len(order)} learners at least one.")
        self.learners = len(self._order)
        self._nothing = Batch(table.rows[:0], table.labels[:0], np.zeros_like(self._lengths))
        self.description = {"kind": "one pass", "records": len(table), "fingerprint": fingerprint(table, self._order)}
        self._set_pace(per_round, weight, description or {})

    def _set_pace(self, per_round: int | Sequence[int], weight: Weight, about: Mapping[str, Any]) -> None:
        self._per_round = check_per_round(per_round, len(self._order))
        self.rounds = int((-(-self._lengths // self._per_round)).max())
        alike = weight == "equal" or bool((self._lengths == self._lengths[0]).all())
        self.weights: Array | None = None if alike else self._lengths / self._lengths.mean()
        self.description = {**self.description, "per_round": self._per_round.tolist(), **about}
        self.description |= {} if alike else {"weight": weight}

    def within(self, rounds: int | None, weight: Weight = "equal") -> OnePass:
        """The same records at a pace at which every learner has read its own after so many rounds, or sooner.

        None: at the pace there is.
        """
        check_choice("weight", weight, "equal", "records")
        paced = copy.copy(self)
        paced.__dict__.pop("population", None)
        each = self._per_round if rounds is None else -(-self._lengths // rounds)
        paced._set_pace(each.tolist(), weight, {})
        if np.ptp(self._lengths) > 1:
            least, most = f"{self._lengths.min():,}", f"{self._lengths.max():,}"
            counted, other = "by that", Argument("weight", "equal")
            if weight == "equal":
                counted, other = "all alike", Argument("weight", "records")
            said = Sentence(f"Learners have {least} to {most} records and count {counted}; ", other, " is otherwise.")
            paced.notes = (*self.notes, said)
        return paced

    def only(self, places: Sequence[Integers]) -> OnePass:
        """The same learners with some of their records: those at these places, counted from each one's first."""
        chosen = [ids[where] for ids, where in zip(self._order, places, strict=True)]
        flat, ends = np.concatenate(chosen), np.cumsum([len(ids) for ids in chosen])
        table = replace(self.table, rows=self.table.rows[flat], labels=self.table.labels[flat])
        order = [np.arange(end - len(ids), end) for ids, end in zip(chosen, ends, strict=True)]
        part = OnePass(table, order, self._per_round.tolist(), notes=self.notes)
        part.description, part.test = {**self.description, **part.description}, self.test
        return part

    def part(self, learners: Integers) -> OnePass:
        """Some of the learners, with no records but their own: each gets what it gets among all, in the same rounds."""
        part = copy.copy(self)
        part.__dict__.pop("population", None)
        chosen = [self._order[i] for i in learners]
        flat, part._lengths = np.concatenate(chosen), self._lengths[learners]
        part.table = replace(self.table, rows=self.table.rows[flat], labels=self.table.labels[flat])
        part._first, part._flat = np.cumsum(part._lengths) - part._lengths, np.arange(len(flat))
        part._order = np.split(part._flat, part._first[1:])
        part._per_round, part.learners = self._per_round[learners], len(learners)
        part.weights = None if self.weights is None else self.weights[learners]
        part._nothing = Batch(part.table.rows[:0], part.table.labels[:0], np.zeros_like(part._lengths))
        return part

    def drawn(self, fraction: float, seed: int) -> tuple[OnePass, OnePass]:
        """So many of every learner's records, drawn by a seed, and all others; one of each at least."""
        rng, some, rest = np.random.default_rng(seed), list[Integers](), list[Integers]()
        for i, n in enumerate(self._lengths.tolist()):
            if n < 2:
                raise GossamerError(f"learner {i} has one record, and two are needed to learn and to look: give more.")
            places, cut = rng.permutation(n), min(max(round(fraction * n), 1), n - 1)
            some.append(np.sort(places[:cut]))
            rest.append(np.sort(places[cut:]))
        return self.only(some), self.only(rest)

    def own(self, learner: int) -> Table:
        """One learner's records."""
        ids = self._order[learner]
        return replace(self.table, rows=self.table.rows[ids], labels=self.table.labels[ids])

    def arrivals(self, t: int) -> Batch:
        if t >= self.rounds:
            return self._nothing
        upto = np.minimum((t + 1) * self._per_round, self._lengths)
        since = np.minimum(t * self._per_round, self._lengths)
        ids = self._flat[runs(self._first + since, upto - since)]
        return Batch(self.table.rows[ids], self.table.labels[ids], upto - since)

    def room(self, steps: int) -> Integers:
        room: Integers = np.minimum(steps * self._per_round, self._lengths)
        return room

    @cached_property
    def population(self) -> Population:
        return pooled(self.table, self._order, self.weights)


class Draws:
    """Every round each learner draws `per_round` records from its own pool, with replacement, for ever."""

    test: Table | None = None
    _BLOCK = 256  # rounds drawn at a time
    _NUMBERS = 1 << 20  # that are drawn at a time: of very many learners fewer rounds, and all learners' at once

    def __init__(
        self,
        table: Table,
        pools: Sequence[Integers],
        seed: int,
        per_round: int = 1,
        description: Mapping[str, Any] | None = None,
    ) -> None:
        self.table, self.learners, self.rounds, self.notes = checked_bounds(table), len(pools), None, ()
        self._pools, self._seed, self._per_round = list(pools), seed, per_round
        self._counts = check_per_round(per_round, len(pools))
        self._drawn: tuple[int, NDArray[Any]] | None = None
        self._lengths = np.array([len(pool) for pool in pools])  # of all learners: they draw one after the other
        self._here = np.ones(len(pools), dtype=bool)  # which of them are in this part
        self._lay_flat()
        self.description = {"kind": "draws", "records": len(table), "fingerprint": fingerprint(table, self._pools)}
        self.description |= {"per_round": per_round, "seed": seed, **(description or {})}

    def arrivals(self, t: int) -> Batch:
        block, within = divmod(t, self._rounds_at_once)
        if self._drawn is None or self._drawn[0] != block:
            self._drawn = (block, self._draw(block))
        ids = self._flat[self._first + self._drawn[1][within]]
        return Batch(self.table.rows[ids], self.table.labels[ids], self._counts)

    @property
    def _rounds_at_once(self) -> int:
        return max(1, min(self._BLOCK, self._NUMBERS // (self._per_round * len(self._lengths))))

    def _draw(self, block: int) -> NDArray[Any]:
        """(rounds, m per_round) places in the learners' pools, as narrow as they fit: many learners have many."""
        rng = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(block,)))
        size, narrow = (self._rounds_at_once, self._per_round), np.min_scalar_type(self._lengths.max() - 1)
        if size[0] == self._BLOCK:
            drawn = (rng.integers(0, length, size=size) for length in self._lengths)
            return np.hstack([places.astype(narrow) for places, here in zip(drawn, self._here, strict=True) if here])
        lengths = np.repeat(self._lengths, self._per_round)
        every: NDArray[Any] = rng.integers(0, lengths, size=(size[0], len(lengths))).astype(narrow)
        return every[:, np.repeat(self._here, self._per_round)]

    def _lay_flat(self) -> None:
        """The pools one behind the other, and where each begins."""
        lengths = np.array([len(pool) for pool in self._pools])
        self._flat: Integers = np.concatenate(self._pools)
        self._first = np.repeat(np.cumsum(lengths) - lengths, self._per_round)

    def part(self, learners: Integers) -> Draws:
        """Some of the learners, in rising order, with no records but their own: each draws what it draws among all."""
        part = copy.copy(self)
        part.__dict__.pop("population", None)
        own = [self._pools[i] for i in learners]
        kept = np.unique(np.concatenate(own))
        part.table = replace(self.table, rows=self.table.rows[kept], labels=self.table.labels[kept])
        part._pools, part._counts = [np.searchsorted(kept, pool) for pool in own], self._counts[learners]
        part.learners, part._drawn = len(own), None
        part._here = np.isin(np.arange(len(self._here)), learners)
        part._lay_flat()
        return part

    def room(self, steps: int) -> Integers:
        return steps * self._counts

    @cached_property
    def population(self) -> Population:
        return pooled(self.table, self._pools)


def pooled(table: Table, pools: Sequence[Integers], weights: Array | None = None) -> Population:
    """F = 1/m Σ_i w_i mean over pool i: every record's share of it."""
    share = np.zeros(len(table))
    lengths = np.array([len(pool) for pool in pools])
    each = (1.0 if weights is None else np.asarray(weights)) / (len(pools) * lengths)
    np.add.at(share, np.concatenate(pools), np.repeat(each, lengths))
    return Population(table, share)


def check_per_round(per_round: int | Sequence[int], learners: int) -> Integers:
    given = np.asarray(per_round)
    if given.shape not in ((), (learners,)) or given.dtype.kind not in "iu" or (given < 1).any():
        raise BadValue("per_round", per_round, f"expected a whole number ≥ 1, or one for each of {learners} learners")
    return np.broadcast_to(given, (learners,)).astype(np.int64)


def check_choice(argument: str, value: str, *known: str) -> None:
    if value not in known:
        raise BadValue(argument, value, f"expected {', '.join(map(repr, known[:-1]))} or {known[-1]!r}")


def fingerprint(table: Table, order: Sequence[Integers]) -> str:
    """So that a record is never resumed on other data."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((table.scale, table.bounds, table.undeclared)).encode())
    for part in (table.rows, table.labels, *([np.concatenate(order)] if len(order) else [])):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def label_decides(choice: Argument, *remedy: Part) -> Sentence:
    """Why no privacy can be proved where labels decide who has which record, for `Table.undeclared`."""
    why = " a record's label decides whose it is, and with that in which round others are used: "
    return Sentence("with ", choice, why, *remedy, ".")


BY_CLASS = label_decides(Argument("split", "by-class"), "use ", Argument("split", "iid"))


def checked_bounds(table: Table) -> Table:
    """The table, if every record keeps to the norms that it declares; privacy is accounted from these."""
    if table.bounds is None:
        return table
    slack = 1 + (table.columns + 16) * 2.0**-52  # a sum of so many numbers is rounded by no more
    block = max(1, BLOCK // table.columns)
    for start in range(0, len(table), block):
        some = slice(start, start + block)
        size = abs(features_of(replace(table, rows=table.rows[some], labels=table.labels[some])).astype(np.float64))
        norms = [size.sum(axis=1), np.sqrt((size**2).sum(axis=1)), size.max(axis=1)]
        for name, norm, most in zip(("L1 norm", "L2 norm", "largest feature"), norms, table.bounds, strict=True):
            every = dense(norm).ravel()
            if not every.max() <= most * slack:
                r = int(every.argmax())
                raise GossamerError(
                    f"record {start + r} has an {name} of {every[r]:g}, above the declared {most:g}: declare more."
                )
    return table
