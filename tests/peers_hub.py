"""A transport within this process, whose links can be made bad, and whose frames a test can see."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import NamedTuple

from gossamer.peers.transport import Arrived, Take, Transport


class Faults(NamedTuple):
    """What a bad link does, each with its chance; `damage` changes bytes."""

    lose: float = 0.0
    repeat: float = 0.0
    late: float = 0.0
    damage: float = 0.0


class Hub:
    """All mailboxes of one process; `seen` is told everything that is sent, as a wire-tap would be."""

    def __init__(
        self, faults: Faults | None = None, seed: int = 0, seen: Callable[[int, int, bytes], None] | None = None
    ) -> None:
        self._boxes: dict[int, deque[Arrived]] = defaultdict(deque)
        self._faults, self._random, self._seen = faults or Faults(), random.Random(seed), seen
        self._held: list[tuple[int, Arrived]] = []

    def of(self, i: int) -> InMemory:
        """A mailbox that is empty, as that of a process that has just started."""
        self._boxes[i].clear()
        return InMemory(self, i)

    def deliver(self, sender: int, to: int, data: bytes, answer: bool = False) -> None:
        if self._seen is not None:
            self._seen(sender, to, data)
        chance, faults = self._random.random, self._faults
        if chance() < faults.lose:
            return
        if data and chance() < faults.damage:
            at = self._random.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ (1 + self._random.randrange(255))]) + data[at + 1 :]
        if chance() < faults.late:
            self._held.append((to, Arrived(sender, data, answer)))
            return
        for _ in range(2 if chance() < faults.repeat else 1):
            self._boxes[to].append(Arrived(sender, data, answer))
        while self._held and chance() < 0.5:
            late, arrived = self._held.pop(self._random.randrange(len(self._held)))
            self._boxes[late].append(arrived)

    def next_for(self, i: int) -> Arrived | None:
        """What lies longest in a mailbox."""
        return self._boxes[i].popleft() if self._boxes[i] else None


class InMemory(Transport):
    """A mailbox and the way to all others, always open; whoever owns it fetches what has come."""

    def __init__(self, hub: Hub, i: int) -> None:
        self._hub, self._i, self.dials = hub, i, Counter()

    async def start(self) -> None:
        pass

    def dial(self) -> None:
        pass

    def send(self, to: int, data: bytes) -> None:
        self._hub.deliver(self._i, to, data)

    def reply(self, to: int, data: bytes) -> None:
        self._hub.deliver(self._i, to, data, answer=True)

    async def failed(self) -> None:
        await asyncio.Event().wait()  # for ever: what `turn` raises reaches its caller

    async def close(self) -> None:
        pass

    def turn(self, take: Take) -> bool:
        """Hand over what came next; False where nothing did."""
        arrived = self._hub.next_for(self._i)
        if arrived is not None:
            take(arrived)
        return arrived is not None
