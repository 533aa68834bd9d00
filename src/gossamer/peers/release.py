"""Which release of gossamer a neighbour runs, and what it can do beyond what every release can.

Both sides of a link say it before their first frame, beside the stream and not in it: as gRPC's initial metadata. A
release that knows nothing of this sends none and never looks at it, so frames stay what they were.

What a neighbour says of itself here is shown to people, and decides which further frames it is sent. Nothing else
depends on it: it is a claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from gossamer.version import __version__

VERSION_KEY, CAPABILITIES_KEY = "gossamer-release", "gossamer-capabilities"
LONGEST, MOST = 40, 32  # letters of a version or of a word, and words that are read
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]*", re.ASCII)
WORD = re.compile(r"[a-z][a-z0-9-]*", re.ASCII)
# Of this release; a new kind of frame goes only to neighbours that have its word.
CAPABILITIES = frozenset({"accepts", "membership", "renew"})


class Release(NamedTuple):
    """What one side of a link has said of its software; without a word there is no version."""

    version: str = ""
    capabilities: frozenset[str] = frozenset()

    @property
    def named(self) -> str:
        """For a sentence that a person reads."""
        return f"gossamer {self.version}" if self.version else "a release of gossamer that does not say which"


OWN_RELEASE = Release(__version__, CAPABILITIES)


def encode_release(release: Release = OWN_RELEASE) -> tuple[tuple[str, str], ...]:
    """As initial metadata."""
    return (VERSION_KEY, release.version), (CAPABILITIES_KEY, " ".join(sorted(release.capabilities)))


def decode_release(metadata: Iterable[tuple[str, Any]] | None) -> Release:
    """What metadata says, whatever somebody put there: what is not well formed was not said."""
    said = {key: value for key, value in metadata or () if key in (VERSION_KEY, CAPABILITIES_KEY)}
    version, words = (said.get(key, "") for key in (VERSION_KEY, CAPABILITIES_KEY))
    known = isinstance(version, str) and len(version) <= LONGEST and VERSION.fullmatch(version)
    several = words[: MOST * (LONGEST + 1)].split(" ")[:MOST] if isinstance(words, str) else []
    capabilities = frozenset(word for word in several if len(word) <= LONGEST and WORD.fullmatch(word))
    return Release(str(version) if known else "", capabilities)
