"""What all parties have in common, in words that can be compared: which setting differs, and who has which value.

A hello says only the fingerprint of all this. Parties whose fingerprints differ send each other their settings, table
by table, and each says what differs in the same sentence. What the other one says of itself is shown and never
believed: it is cut short, unprintable letters are replaced, and nothing is decided by it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from gossamer.networks import Network
from gossamer.peers.wire import SETTINGS_LIMIT, RefusedError, quoted
from gossamer.spec.files import toml_value
from gossamer.version import __version__

Shared = Mapping[str, Mapping[str, str]]  # table, name, value: {"records.ranges": {"age": "[0.0, 120.0]"}}
GRAPH, RELEASE, WHOLE = "graph", "gossamer", ""  # the file [run] graph names; who reads it; a table that is too long
SHOWN, WIDTH, BEFORE = 3, 60, 16  # differences in a sentence; letters of a name or a value; of these, those they share
NOWHERE = "not there"


def shared_settings(tables: Mapping[str, Any], network: Network, code: str = "") -> Shared:
    """The settings of [run], [model], [records] and [secrets] one by one, and the graph link by link.

    `code` is that of a method of the parties' own. The release is no setting: parties of two releases may well go
    together, but where nothing else differs it is the reason.
    """
    shared: dict[str, dict[str, str]] = {}
    for table, values in tables.items():
        for name, value in values.items():
            if isinstance(value, Mapping):
                shared[f"{table}.{name}"] = {key: toml_value(inner) for key, inner in value.items()}
            elif value is not None:
                shared.setdefault(table, {})[name] = toml_value(value)
    if code:
        shared.setdefault("run", {})["method"] += f" with code {_digest(code)}"
    links = [(a, b, over, weight) for over in ("R", "C") for a, b, weight in network.edges(over)]
    shared[GRAPH] = {f"the weight of {a} → {b} in {over}": repr(weight) for a, b, over, weight in sorted(links)}
    shared[RELEASE] = {"release": __version__}
    return shared


def encode_settings(shared: Shared) -> bytes:
    """The settings as they travel. Of what is too long, the longest tables go as one fingerprint each."""
    sent: dict[str, Mapping[str, str]] = dict(shared)
    for table in sorted(shared, key=lambda table: len(msgspec.msgpack.encode(shared[table])), reverse=True):
        if len(msgspec.msgpack.encode(sent)) <= SETTINGS_LIMIT:
            break
        sent[table] = _whole(shared[table])
    return msgspec.msgpack.encode(sent)


def decode_settings(payload: bytes | memoryview) -> Shared:
    try:
        return msgspec.msgpack.decode(payload, type=dict[str, dict[str, str]])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RefusedError("settings", f"settings that cannot be read ({quoted(str(error))}).") from None


def tell_differences(own: Shared, theirs: Shared, here: int, there: int) -> str:
    """One sentence: which settings differ, who has which value, what to do. Both parties say the same one."""
    first, second = (own, theirs) if here < there else (theirs, own)
    low, high = sorted((here, there))
    found = [(table, *one) for table in dict.fromkeys([*own, *theirs]) for one in _differences(table, first, second)]
    found = sorted(found, key=lambda one: (_rank(one[0], one[1]), one[:2]))
    real = [one for one in found if one[0] != RELEASE] or found
    if not real:
        return (
            f"learners {low} and {high} say hello for two runs, and their settings are the same: install the same "
            "release of gossamer at both."
        )
    said = [f"{_named(table, name)} is {a} at learner {low} and {b} at learner {high}" for table, name, a, b in real]
    more = f"; and {len(said) - SHOWN} more" if len(said) > SHOWN else ""
    return f"{'; '.join(said[:SHOWN])}{more}: {_remedy({(table, name) for table, name, *_ in real})}."


def _differences(table: str, first: Shared, second: Shared) -> list[tuple[str, str, str]]:
    """(name, one's value, the other's) of what differs in a table, each cut to where it does."""
    a, b = first.get(table, {}), second.get(table, {})
    if (WHOLE in a) != (WHOLE in b):  # one of them was too long to be sent
        a, b = (part if WHOLE in part else _whole(part) for part in (a, b))
    names = dict.fromkeys([*a, *b])
    return [
        (name, *_around(a.get(name, NOWHERE), b.get(name, NOWHERE))) for name in names if a.get(name) != b.get(name)
    ]


def _around(a: str, b: str) -> tuple[str, str]:
    """Two values as they can be shown: long ones from shortly before the place where they differ."""
    shared = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, shared - BEFORE) if max(len(a), len(b)) > WIDTH else 0
    left, right = (("…" if start else "") + quoted(text[start:], WIDTH) for text in (a, b))
    return left, right


def _rank(table: str, name: str) -> int:
    """The run's name first, and the graph after the settings: where those differ, it often does for their sake."""
    return 0 if (table, name) == ("run", "id") else 2 if table == GRAPH else 1


def _named(table: str, name: str) -> str:
    """A setting as party.toml has it."""
    if table == RELEASE:
        return "the release of gossamer"
    place = "[run] graph:" if table == GRAPH else f"[{quoted(table, WIDTH)}]"
    return f"{place} {quoted(name, WIDTH)}" if name != WHOLE else f"the fingerprint of {place.rstrip(':')}"


def _remedy(differing: set[tuple[str, str]]) -> str:
    tables = {table for table, _ in differing}
    if ("run", "id") in differing:
        return "these are folders of two runs; take all parties' from one 'gossamer peers init'"
    if tables == {RELEASE}:
        return "install the same at both"
    files = "graph file" if tables == {GRAPH} else "party.toml" if GRAPH not in tables else "party.toml and graph file"
    return f"agree on one value, and let whoever has not yet sent anything change its {files} and start again"


def _whole(table: Mapping[str, str]) -> Mapping[str, str]:
    return {WHOLE: _digest(msgspec.msgpack.encode(sorted(table.items())))}


def _digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:12]
