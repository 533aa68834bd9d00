"""Connections to the live page, of which there are only so many: whoever opens them by the hundred ends no run.

Every connection takes a file descriptor of the process that runs. One that has not sent a whole request in time is
closed. When all are taken, the oldest that waits for a request gives way to a new one; where none waits, the new one is
closed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 64  # connections at once: twice as many as streams
AT_ONCE = 16  # that the loop accepts before it counts them
PATIENCE = 10.0  # seconds for a whole request


class Connection(H11Protocol):
    """One of a few, which has so long to ask for something."""

    _since = 0.0  # the loop's time when it was made
    _due: asyncio.TimerHandle | None = None  # when it is closed, unless a whole request comes

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._since = self.loop.time()
        self._wait()
        if len(self.connections) > MOST:
            waiting = [one for one in self.connections if isinstance(one, Connection) and not one._answers]
            oldest = min(waiting, key=lambda one: one._since)
            self.connections.discard(oldest)  # at once: it takes nobody's place any more
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._answers:
            self._stop_waiting()
        elif self._due is None:  # from the first byte on: others do not give it more time
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _answers(self) -> bool:
        """Whether a request came, and its answer is on its way."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._due = self.loop.call_later(PATIENCE, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
