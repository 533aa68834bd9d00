"""The boundary of noise that makes no claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gossamer.privacy.base import Privacy
from gossamer.types import Array

NO_NOISE = "not private: no noise"
UNPROVED = "not private: the noise makes no claim"


class Unproved:
    """The boundary of noise that makes no claim: none, seeded, or a user's own object."""

    def __init__(self, privacy: Privacy | None) -> None:
        self._privacy = privacy
        self._at_source = getattr(privacy, "where", "messages") == "source"
        self.claim = NO_NOISE if privacy is None else str(getattr(privacy, "claim", UNPROVED))

    description: Mapping[str, Any] = {}

    def charge(self, t: int) -> None:
        pass

    def notes(self, t: int) -> list[str]:
        return []

    def kept(self, t: int) -> dict[str, Array]:
        return {}

    def go_on(self, kept: Mapping[str, Array]) -> None:
        pass

    def budget(self) -> None:
        return None

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

    def _drawn(self, channel: str, t: int, value: Array) -> Any:
        privacy: Any = self._privacy
        return privacy.like(channel, t, value) if hasattr(privacy, "like") else privacy.noise(channel, t, value.shape)
