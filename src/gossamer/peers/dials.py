"""Who opens a link: by default the learner that sends on it, or the one that hears it where both have said so.

A party behind a firewall that lets nobody in can still take part: it opens all its links itself. Data flow as ever.
Each side says beside its streams for which links it dials, so that two that do not agree can both say what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from gossamer.errors import GossamerError

KEY = "gossamer-dials"
WORDS = {None: "none", True: "here", False: "there"}

Dial = Literal["sender", "receiver", "self", "neighbour"]


class Reached(Protocol):
    """[neighbours.N]."""

    @property
    def address(self) -> str | None: ...
    @property
    def dial(self) -> Dial: ...


class Dials(NamedTuple):
    """For the link to a neighbour, and the one from it: whether this side opens it; None where there is no link."""

    to: bool | None = None
    back: bool | None = None


def opens(dial: Dial, sends: bool) -> bool:
    """Whether a party opens a link itself, by what [neighbours.N] dial says; `sends`: it is the one that sends."""
    return {"sender": sends, "receiver": not sends, "self": True, "neighbour": False}[dial]


def encode_dials(own: Dials) -> tuple[str, str]:
    """As initial metadata."""
    return KEY, f"{WORDS[own.to]} {WORDS[own.back]}"


def decode_dials(metadata: Iterable[tuple[str, Any]] | None) -> Dials:
    """What the other side has said; nothing is known of a release that says nothing, or something else."""
    said = next((value for key, value in metadata or () if key == KEY), "")
    known = {word: value for value, word in WORDS.items()}
    words = said.split(" ") if isinstance(said, str) else []
    return Dials(*(known[word] for word in words)) if len(words) == 2 and set(words) <= set(known) else Dials()


def tell_apart(i: int, j: int, own: Dials, theirs: Dials) -> str:
    """In a sentence, for which links between i and j both dial, or neither; empty where they agree."""
    links = ((f"{i} → {j}", own.to, theirs.back), (f"{j} → {i}", own.back, theirs.to))
    found = [
        f"both dial for the link {edge}" if mine else f"both leave it to the other to dial for the link {edge}"
        for edge, mine, other in links
        if mine is not None and mine == other
    ]
    if not found:
        return ""
    return (
        f"learners {min(i, j)} and {max(i, j)} {' and '.join(found)}: let [neighbours.{j}] dial at learner {i} and "
        f'[neighbours.{i}] dial at learner {j} be the same, "sender" or "receiver", or "self" at the one that '
        'opens all links and "neighbour" at the other.'
    )


class Addresses(NamedTuple):
    """Where a party reaches its listeners, None for those that dial; and where those that it hears and dials for it."""

    addresses: dict[int, str | None]
    sources: dict[int, str]


def addresses_of(
    i: int, listen: str | None, neighbours: Mapping[str, Reached], tells: Sequence[int], hears: Sequence[int]
) -> Addresses:
    """Refuses one to be dialled without an address, and a party that waits to be dialled and does not listen."""

    def where(j: int, sends: bool) -> str | None:
        given = neighbours.get(str(j))
        if not opens(given.dial if given else "sender", sends):
            return None
        if given is None or not given.address:
            why = f"learner {j} hears this one" if sends else f"this party dials learner {j}, which it hears"
            raise GossamerError(f"{why}, and [neighbours.{j}] has no address: give one.")
        return given.address

    told, heard = {j: where(j, True) for j in tells}, {j: where(j, False) for j in hears}
    waited = sorted({j for places in (told, heard) for j, address in places.items() if address is None})
    if waited and listen is None:
        raise GossamerError(
            f"[party] has no listen, and learner {i} leaves it to learner {', '.join(map(str, waited))} to dial: give "
            'listen = "HOST:PORT", or set dial = "self" in [neighbours.N] here and "neighbour" there.'
        )
    return Addresses(told, {j: address for j, address in heard.items() if address is not None})
