"""Noise that makes no claim, and its boundary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from gossamer.privacy.releases import Releases
from gossamer.privacy.simulated import NOT_PRIVATE, SimulatedNoise
from gossamer.records import Batch
from gossamer.types import Array, Integers

NO_NOISE = "not private: no noise"
UNPROVED = "not private: the noise makes no claim"
UNBACKED = "not private: what the noise says of itself is not proved"


class Privacy(Protocol):
    """Draws the noise that is added to what learners send on a channel in a round, once.

    An object of one's own makes no claim: whatever it says of itself, a run with it is recorded as not private.
    """

    def noise(self, channel: str, t: int, shape: tuple[int, ...]) -> Array: ...


@runtime_checkable
class PrivacyOfValues(Protocol):
    """A `Privacy` that looks at what the noise is added to: a tensor's is then drawn where the tensor lies."""

    def like(self, channel: str, t: int, value: Any) -> Any: ...


class Unproved:
    """The boundary of noise that makes no claim: none, seeded, or a user's own object.

    `some` says which learners of `of` in all the values are of, one row each: they get their own rows of the noise.
    """

    def __init__(self, privacy: Privacy | None, some: Integers | None = None, of: int = 0) -> None:
        self._privacy, self._looks = privacy, isinstance(privacy, PrivacyOfValues) and some is None
        self._some, self._of = some, of
        self._at_source = getattr(privacy, "where", "messages") == "source"
        self._releases: Releases | None = getattr(privacy, "releases", None)
        self.claim = claim_of(privacy)

    description: Mapping[str, Any] = {}

    def arrived(self, t: int, records: Batch) -> None:
        pass

    def charge(self, t: int) -> None:
        pass

    def notes(self, t: int) -> list[str]:
        return []

    def kept(self, t: int) -> dict[str, Array]:
        return {}

    def go_on(self, kept: Mapping[str, Array]) -> None:
        pass

    def spent(self) -> dict[str, list[float]]:
        return {}

    def course(self, ahead: int | None = None) -> None:
        """Nothing is booked."""

    def budget(self) -> None:
        return None

    def fresh(self, t: int) -> bool:
        return self._releases is None or self._releases.includes(t)

    def gradient(self, t: int, grad: Array) -> Array:
        if self._privacy is None or not self._at_source:
            return grad
        noisy: Array = grad + self._drawn("gradient", t, grad)
        return noisy

    def release(self, channel: str, t: int, value: Array) -> Array:
        if self._privacy is None or self._at_source:
            return value
        noisy: Array = value + self._drawn(channel, t, value)
        return noisy

    def take(self, t: int, got: Array) -> Array:
        return got

    def hold(self, t: int, state: Array) -> Array:
        return state

    def _drawn(self, channel: str, t: int, value: Array) -> Any:
        privacy: Any = self._privacy
        if self._looks:
            return privacy.like(channel, t, value)
        if self._some is None:
            return privacy.noise(channel, t, value.shape)
        shape = (self._of, *value.shape[1:])
        if isinstance(privacy, SimulatedNoise):
            return privacy.noise(channel, t, shape, self._some)
        return privacy.noise(channel, t, shape)[self._some]


def claim_of(privacy: Privacy | None) -> str:
    """What is said of a run with this noise: always one of our own texts, never the object's."""
    if privacy is None:
        return NO_NOISE
    said = getattr(privacy, "claim", UNPROVED)
    return said if type(said) is str and said in (NOT_PRIVATE, UNPROVED) else UNBACKED
