"""The shard of one rank: its learners, and what it says and hears where all of them are looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy

from gossamer.arrays import Kind
from gossamer.cluster.halo import halo_of
from gossamer.cluster.mixer import RankMixer
from gossamer.cluster.sharing import Partition
from gossamer.networks import Network
from gossamer.privacy import PrivateBoundary
from gossamer.records import Batch, runs
from gossamer.simulate.shard import AnyBoundary, Mix
from gossamer.streams import Draws, OnePass, Stream
from gossamer.types import Integers, Matrix


class Rank:
    """The learners of one rank; `partition` says whose all the others are."""

    def __init__(self, comm: Any, partition: Partition) -> None:
        self._comm, self._partition, self._first = comm, partition, comm.rank == 0
        self.ids: Integers = np.flatnonzero(partition.owner == comm.rank)
        self.notes: Sequence[str] = partition.notes
        self._mixer: RankMixer | None = None
        self.begun = False  # whether anything went between ranks: from then on no rank may leave alone

    def own(self, values: Any) -> Any:
        return np.asarray(values)[self.ids]

    def arrivals(self, stream: Stream) -> Callable[[int], Batch]:
        return arrivals_of(stream, self.ids)

    def mixer(self, network: Network, mixes: Sequence[Matrix], kind: Kind) -> Mix:
        self.begun = True
        owner, comm = self._partition.owner, self._comm
        halos = {
            over: halo_of(scipy.sparse.csr_array(network.off_diagonal(over)), owner, comm.rank, comm.size)
            for over in mixes
        }
        self._mixer = RankMixer(comm, halos)
        return self._mixer

    def close(self) -> None:
        """Give back what MPI holds for the run."""
        if self._mixer is not None:
            self._mixer.close()

    def boundary(self, whole: AnyBoundary) -> AnyBoundary:
        return whole.part(self.ids) if isinstance(whole, PrivateBoundary) else whole

    def book(self, own: AnyBoundary, whole: AnyBoundary) -> None:
        if not (isinstance(own, PrivateBoundary) and isinstance(whole, PrivateBoundary)):
            return
        mine = [ledger.rounds for ledger in own.ledgers], own.clamped, own.cut
        each = self._comm.allgather(mine)
        rounds = np.empty(len(self._partition.owner), dtype=np.int64)
        rounds[np.argsort(self._partition.owner, kind="stable")] = np.concatenate([one[0] for one in each])
        stopped = whole.stops.min() <= rounds.max()  # whose last messages are part of the record
        last = {channel: self.gathered(value) for channel, value in own.last.items()} if stopped else {}
        whole.book(rounds.tolist(), sum(one[1] for one in each), sum(one[2] for one in each), last)

    def total(self, values: Any) -> Any:
        self.begun = True
        mine = np.array(values, dtype=np.float64)
        summed = np.empty_like(mine)
        self._comm.Allreduce(mine, summed)
        return summed

    def mean(self, values: Any) -> Any:
        return self.total(values.sum(0)) / len(self._partition.owner)

    def gathered(self, values: Any) -> Any:
        self.begun = True
        mine = np.ascontiguousarray(values)
        size = mine.dtype.itemsize * int(np.prod(mine.shape[1:], dtype=np.int64))
        bytes_of = (np.bincount(self._partition.owner, minlength=self._comm.size) * size).tolist()
        if not self._first:
            self._comm.Gatherv(mine.view(np.ndarray).reshape(-1).view(np.uint8), None, root=0)
            return values
        together = np.empty((len(self._partition.owner), *mine.shape[1:]), dtype=mine.dtype)
        into = together.reshape(-1).view(np.uint8)
        self._comm.Gatherv(mine.view(np.ndarray).reshape(-1).view(np.uint8), [into, bytes_of], root=0)
        ordered = np.empty_like(together)
        ordered[np.argsort(self._partition.owner, kind="stable")] = together
        return ordered.view(type(mine))


def arrivals_of(stream: Stream, ids: Integers) -> Callable[[int], Batch]:
    """The records that reach some of a stream's learners; where the stream can be taken apart, others' are not kept."""
    if isinstance(stream, OnePass | Draws):
        return stream.part(ids).arrivals

    def picked(t: int) -> Batch:
        batch = stream.arrivals(t)
        first = np.cumsum(batch.counts) - batch.counts
        chosen = runs(first[ids], batch.counts[ids])
        return Batch(batch.rows[chosen], batch.labels[chosen], batch.counts[ids])

    return picked
