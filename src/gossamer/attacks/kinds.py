"""The kinds of noise under which attacks are tried."""

from __future__ import annotations

from typing import Literal

Kind = Literal["messages", "latest", "history"]
KINDS: dict[Kind, str] = {
    "messages": "noise on messages",
    "latest": "at the source, latest gradient",
    "history": "at the source, all records so far",
}


def where_of(kind: Kind) -> Literal["messages", "source"]:
    return "messages" if kind == "messages" else "source"
