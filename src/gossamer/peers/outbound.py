"""What waits to go out on one stream, within bounds: whoever asks and never reads takes no more memory than that."""

from __future__ import annotations

import asyncio
from collections import deque

from gossamer.peers.wire import TOGETHER

ANSWERS = 1 << 20  # bytes of hellos, acknowledgements and refusals that may wait for one neighbour


class Outbound:
    """Small frames are joined, and a frame that waits already is not put a second time.

    Where more than `room` bytes would wait, a frame is dropped, as on a link that is lost: what matters is sent again
    until it is acknowledged. `room` must hold all that a learner sends at once, or that would never arrive whole.
    """

    def __init__(self, room: int) -> None:
        self._room, self._most = room, 4096 + (room >> 16)  # bytes, and frames: many that are small cost memory, too
        self._frames: deque[bytes] = deque()
        self._waiting: set[int] = set()  # which objects wait
        self._some = asyncio.Event()
        self._ended = False
        self.size = 0  # bytes that wait

    def put(self, data: bytes) -> bool:
        """False where it was dropped."""
        if id(data) in self._waiting:
            return True
        if self._frames and (self.size + len(data) > self._room or len(self._frames) >= self._most):
            return False
        self._waiting.add(id(data))
        self._frames.append(data)
        self.size += len(data)
        self._some.set()
        return True

    def end(self) -> None:
        self._ended = True
        self._some.set()

    async def next(self) -> bytes | None:
        """Frames to be written at once; None when the stream has ended."""
        while not self._frames:
            if self._ended:
                return None
            self._some.clear()
            await self._some.wait()
        first = self._pop()
        if not self._frames or len(first) > TOGETHER:
            return first
        together, size = [first], len(first)
        while self._frames and size + len(self._frames[0]) <= TOGETHER:
            together.append(self._pop())
            size += len(together[-1])
        return b"".join(together)

    def _pop(self) -> bytes:
        data = self._frames.popleft()
        self._waiting.discard(id(data))
        self.size -= len(data)
        return data
