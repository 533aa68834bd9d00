"""What the privacy boundary asks of whoever draws the noise."""

from __future__ import annotations

from typing import Protocol

from gossamer.types import Array


class Privacy(Protocol):
    """Draws the noise that is added to what learners send on a channel in a round, once."""

    def noise(self, channel: str, t: int, shape: tuple[int, ...]) -> Array: ...
