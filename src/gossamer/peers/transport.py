"""How frames get from one party to another: a small protocol, and one within a process, whose links can be made bad."""

from __future__ import annotations

import queue
import random
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Arrived(NamedTuple):
    """A frame's bytes, and who sent them: from the certificate, or whatever the transport knows for sure."""

    sender: int
    data: bytes


class Transport(Protocol):
    """Carries whole frames. It may lose, repeat or delay them: whoever uses it sends again until it is acknowledged."""

    def send(self, to: int, data: bytes) -> None:
        """To a learner that hears this one."""
        ...

    def reply(self, to: int, data: bytes) -> None:
        """Back to a learner that this one hears."""
        ...

    def receive(self, timeout: float) -> Arrived | None:
        """The next frame, or None after `timeout` seconds."""
        ...

    def close(self) -> None: ...


class Faults(NamedTuple):
    """What a bad link does, each with its chance; `damage` changes bytes."""

    lose: float = 0.0
    repeat: float = 0.0
    late: float = 0.0
    damage: float = 0.0


class Hub:
    """All mailboxes of one process; `seen` is told every frame that is sent, as a wire-tap would be."""

    def __init__(
        self, faults: Faults | None = None, seed: int = 0, seen: Callable[[int, int, bytes], None] | None = None
    ) -> None:
        self._boxes: dict[int, queue.SimpleQueue[Arrived]] = defaultdict(queue.SimpleQueue)
        self._faults, self._random, self._seen = faults or Faults(), random.Random(seed), seen
        self._held: list[tuple[int, Arrived]] = []

    def of(self, i: int) -> InMemory:
        return InMemory(self, i)

    def deliver(self, sender: int, to: int, data: bytes) -> None:
        if self._seen is not None:
            self._seen(sender, to, data)
        chance, faults = self._random.random, self._faults
        if chance() < faults.lose:
            return
        if data and chance() < faults.damage:
            at = self._random.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ (1 + self._random.randrange(255))]) + data[at + 1 :]
        if chance() < faults.late:
            self._held.append((to, Arrived(sender, data)))
            return
        for _ in range(2 if chance() < faults.repeat else 1):
            self._boxes[to].put(Arrived(sender, data))
        while self._held and chance() < 0.5:
            late, arrived = self._held.pop(self._random.randrange(len(self._held)))
            self._boxes[late].put(arrived)

    def take(self, i: int, timeout: float) -> Arrived | None:
        try:
            return self._boxes[i].get(timeout=timeout) if timeout > 0 else self._boxes[i].get_nowait()
        except queue.Empty:
            return None


class InMemory:
    def __init__(self, hub: Hub, i: int) -> None:
        self._hub, self._i = hub, i

    def send(self, to: int, data: bytes) -> None:
        self._hub.deliver(self._i, to, data)

    reply = send

    def receive(self, timeout: float) -> Arrived | None:
        return self._hub.take(self._i, timeout)

    def close(self) -> None:
        pass
