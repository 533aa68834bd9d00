"""What every learner sends on channels that carry no data: functions of the graph, which everyone can work out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.networks import Network
from gossamer.peers.wire import RefusedError
from gossamer.types import Array, Rows

SAME = {8: 1e-9, 4: 1e-6}  # how far a public value may be from the graph's, by the bytes that its numbers have
KEPT = 100  # rounds


class PublicValues:
    """The graph's values, round by round; asked for in order, or close to it."""

    def __init__(self, algorithm: Algorithm[Any], network: Network, rows: Rows | None = None) -> None:
        self._algorithm, self._m = algorithm, network.m
        self._rows = network.rows(mixes=algorithm.mixes) if rows is None else rows
        self._weights: Any = {over: network.off_diagonal(over) for over in algorithm.mixes}
        self._state = algorithm.init(self._rows, np.zeros((network.m, 1)))
        self._sent: dict[int, Mapping[str, Array]] = {}
        self._next: int | None = 0  # None: no public channel is used any more

    def value(self, t: int, channel: str) -> Array | None:
        """All learners' vectors, one a row; None where the channel is not public."""
        if (known := self._sent.get(t)) is not None:
            return known.get(channel)
        while self._next is not None and self._next <= t:
            nothing = np.zeros((self._m, 1))
            out = self._algorithm.emit(self._state, nothing, self._rows, self._next)
            public = {channel: sent.value for channel, sent in out.items() if not sent.private}
            if not public:
                self._next = None
                break
            self._sent[self._next] = public
            got = {channel: self._weights[sent.over] @ sent.value for channel, sent in out.items()}
            self._state = self._algorithm.step(self._state, got, nothing, self._rows, self._next)
            self._sent.pop(self._next - KEPT, None)
            self._next += 1
        return self._sent.get(t, {}).get(channel)

    def check(self, k: int, t: int, channel: str, vector: Array, sender: int) -> None:
        """Refuse what the k-th learner, of number `sender`, cannot have sent."""
        public = self.value(t, channel)
        if public is None:
            return
        same = SAME[vector.dtype.itemsize]
        if vector.shape != public[k].shape or np.abs(vector - public[k]).max() > same:
            raise RefusedError(
                "public",
                f"learner {sender} sent a {channel!r} in round {t} which the graph does not give: it has another "
                "graph, or lies; privacy is proved for the graph's.",
            )
