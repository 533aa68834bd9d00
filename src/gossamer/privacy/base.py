"""What the privacy boundary asks of whoever draws the noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from gossamer.types import Array


class Privacy(Protocol):
    """Draws the noise that is added to what learners send on a channel in a round, once.

    An object of one's own makes no claim: whatever it says of itself, a run with it is recorded as not private.
    """

    def noise(self, channel: str, t: int, shape: tuple[int, ...]) -> Array: ...


@runtime_checkable
class PrivacyOfValues(Protocol):
    """A `Privacy` that looks at what the noise is added to: a tensor's is then drawn where the tensor lies."""

    def like(self, channel: str, t: int, value: Any) -> Any: ...


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

    def take(self, t: int, got: Array) -> Array:
        """What a learner may use of a sum that it received in round t on a private channel."""
        ...

    def hold(self, t: int, state: Array) -> Array:
        """What a learner keeps, for round t, of a part of its state that holds parameters."""
        ...

    def kept(self, t: int) -> dict[str, Array]:
        """What it must know to go on from round t, by name, beside the rounds that were charged."""
        ...

    def go_on(self, kept: Mapping[str, Array]) -> None: ...
