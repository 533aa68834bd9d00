"""Records in blocks, of which few are kept: the others are read again from where they came.

A feed looks at every record when it comes, so that a mistake in the last line is told before anything is sent. Rounds
take records in their order, once. So a block is kept until its round where all that wait are few (KEPT numbers in all),
and dropped where they are many; a digest is kept of each, since what is read again must be what was there.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from gossamer.errors import GossamerError
from gossamer.peers.sources import CHUNK, Place
from gossamer.types import Array

KEPT = 1 << 20  # numbers, 8 MiB
NEWEST = 2000  # records at the end that are always kept, for the owner's eyes


class Block:
    """Records that lie in one place. `rows` and `labels` may have room for more."""

    def __init__(self, first: int, place: Place, rows: Array, labels: Array) -> None:
        self.first, self.place, self.count = first, place, len(labels)
        self.rows: Array | None = rows
        self.labels = labels
        self._digest = hashlib.blake2b(bytes_of(rows, labels), digest_size=16)

    @property
    def end(self) -> int:
        return self.first + self.count

    @property
    def takes_more(self) -> bool:
        return self.rows is not None and self.place.end - self.place.start < CHUNK and self.rows.size < CHUNK

    def add(self, place: Place, rows: Array, labels: Array) -> None:
        """Records that came right after."""
        assert self.rows is not None
        end = self.count + len(labels)
        if end > len(self.labels):  # twice as much, so that records may come one by one
            self.rows = np.concatenate([self.rows[: self.count], np.empty((end, rows.shape[1]))])
            self.labels = np.concatenate([self.labels[: self.count], np.empty(end)])
        self.rows[self.count : end], self.labels[self.count : end] = rows, labels
        self.count, self.place = end, self.place.to(place)
        self._digest.update(bytes_of(rows, labels))

    def drop(self) -> None:
        self.rows, self.labels = None, np.empty(0)

    def restore(self, rows: Array, labels: Array) -> bool:
        """Take the records back; False where they are not the same."""
        if self._digest.digest() != hashlib.blake2b(bytes_of(rows, labels), digest_size=16).digest():
            return False
        self.rows, self.labels = rows, labels
        return True


class Blocks:
    """All records so far, in order; `again` reads those at a place once more, and places that `joins` may be joined."""

    def __init__(self, source: str, again: Callable[[Place], tuple[Array, Array]], columns: int, joins: bool) -> None:
        self._source, self._again, self._columns, self._joins = source, again, columns, joins
        self._blocks: list[Block] = []
        self._firsts: list[int] = []  # of each block
        self._held: list[Block] = []  # those that are kept, in order
        self._count = self._position = 0  # how many records there are, and which is the next that a round takes

    def __len__(self) -> int:
        return self._count

    def add(self, place: Place, rows: Array, labels: Array) -> None:
        last = self._blocks[-1] if self._blocks else None
        if last is not None and self._joins and last.takes_more:
            last.add(place, rows, labels)
        else:
            block = Block(self._count, place, rows, labels)
            self._blocks.append(block)
            self._firsts.append(block.first)
            self._held.append(block)
        self._count += len(labels)
        self._drop()

    def take(self, start: int, end: int) -> tuple[Array, Array]:
        """A round's records: those before are needed no more."""
        self._position = start
        return self.some(start, end)

    def some(self, start: int, end: int) -> tuple[Array, Array]:
        """Copies of records `start` up to `end`, or of those among them that there are."""
        start, end = min(start, self._count), min(end, self._count)
        rows, labels = np.empty((end - start, self._columns)), np.empty(end - start)
        at = start
        while at < end:
            block = self._blocks[bisect_right(self._firsts, at) - 1]
            upto = min(end, block.end)
            self._restore(block)
            assert block.rows is not None
            there, here = slice(at - block.first, upto - block.first), slice(at - start, upto - start)
            rows[here], labels[here] = block.rows[there], block.labels[there]
            at = upto
            self._drop()
        return rows, labels

    def _restore(self, block: Block) -> None:
        if block.rows is None:
            if not block.restore(*self._again(block.place)):
                raise GossamerError(
                    f"{self._source}: records {block.first} to {block.end - 1} are others than when they were first "
                    "read: put back the file that was there; records may only be added."
                )
            self._held.append(block)
            self._held.sort(key=lambda one: one.first)

    def _drop(self) -> None:
        """Keep what the next rounds take, as far as it is little, and the newest records."""
        room, held = KEPT, []
        for block in self._held:
            waits = block.end > self._position
            room -= block.count * self._columns if waits else 0
            is_next = waits and block.first <= self._position
            if is_next or (waits and room >= 0) or block.end > self._count - NEWEST:
                held.append(block)
            else:
                block.drop()
        self._held = held


def bytes_of(rows: Array, labels: Array) -> bytes:
    """Every record's features and its label, one record after the other."""
    return np.column_stack([rows, labels]).tobytes()
