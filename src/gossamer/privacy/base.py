"""What the privacy boundary asks of whoever draws the noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gossamer.types import Array


class Privacy(Protocol):
    """Draws the noise that is added to what learners send on a channel in a round, once."""

    def noise(self, channel: str, t: int, shape: tuple[int, ...]) -> Array: ...


class Boundary(Protocol):
    """What stands, in one run, between the learners' private values and their messages; nothing crosses it twice."""

    claim: str

    def charge(self, t: int) -> None:
        """Round t, before anything of it is sent."""
        ...

    def gradient(self, t: int, grad: Array) -> Array:
        """The round's gradients as the algorithm may use them."""
        ...

    def release(self, channel: str, t: int, value: Array) -> Array:
        """What leaves the learners on a private channel."""
        ...

    def kept(self, t: int) -> dict[str, Array]:
        """What it must know to go on from round t, by name, beside the rounds that were charged."""
        ...

    def go_on(self, kept: Mapping[str, Array]) -> None: ...
