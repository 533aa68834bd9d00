"""Networks from a file or by name, for the command.

An edge list is text, one `sender receiver [weight]` a line, learners counted from 0, `#` starts a comment.
A .json file holds {"edges": [[0, 1], [1, 0, 0.5]]} or the matrices {"R": [[…]], "C": [[…]]} (C may be left out).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import index
from pathlib import Path
from typing import Any

from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.networks.network import Network

PAPERS = {"paper": Network.paper, "paper-one-way": Network.paper_one_way}
NAMES: dict[str, Callable[[int], Network]] = {
    "ring": Network.ring,
    "exponential": Network.exponential,
    "complete": Network.complete,
    "random": Network.random,
}


def is_named(source: str) -> bool:
    """Whether it is a family's name, and no file's."""
    return source in PAPERS or source in NAMES


def read_network(source: str, learners: int | None = None) -> Network:
    """A network by name (paper, paper-one-way, ring, …) or from a file; checked against `learners`."""
    if source in PAPERS:
        network = PAPERS[source]()
    elif source in NAMES:
        network = NAMES[source](learners if learners is not None else 10)
    else:
        network = _from_file(Path(source))
    if learners is not None and network.m != learners:
        raise GossamerError(
            f"the network {source} has {network.m} learners and the run has {learners}: use ",
            Argument("learners", network.m), ", or another ", Argument("graph", python="network"), ".",
        )  # fmt: skip
    return network


def read_pairs(source: str, learners: int) -> list[tuple[int, int]]:
    """Who is joined with whom, from the same names and files: links count both ways, and need not connect all."""
    if is_named(source):
        named = PAPERS[source]() if source in PAPERS else NAMES[source](learners)
        pairs, most = [(a, b) for over in ("R", "C") for a, b, _ in named.edges(over)], named.m
    else:
        given = _read(Path(source))
        edges = given.edges() if isinstance(given, Network) else given
        pairs = [(edge[0], edge[1]) for edge in edges]
        most = 1 + max(max(pair) for pair in pairs)
    if most > learners or (is_named(source) and most != learners):
        requirement = f"it has {most} learners and the run has {learners}"
        raise BadValue("secrets", source, requirement, "give another, such as complete")
    if min(min(pair) for pair in pairs) < 0:
        raise BadValue("secrets", source, "expected learners' numbers from 0 on")
    return sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})


def _from_file(path: Path) -> Network:
    given = _read(path)
    return given if isinstance(given, Network) else Network.from_edges(1 + max(max(e[:2]) for e in given), given)


def _read(path: Path) -> Network | list[tuple[Any, ...]]:
    """Matrices as a network, or edges."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        known = ", ".join([*PAPERS, *NAMES])
        raise GossamerError(f"no network {path}: expected a file, or one of {known}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise GossamerError(f"the network file {path} cannot be read ({error}): give a text or .json file.") from None
    if path.suffix == ".json":
        try:
            given = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise GossamerError(f"{path} is not valid JSON ({error}): correct it.") from None
        if isinstance(given, dict) and "R" in given:
            return Network(given["R"], given.get("C"))
        if not isinstance(given, dict) or not isinstance(given.get("edges"), list):
            raise GossamerError(f'{path} holds neither "R" nor "edges": expected an object with one of them.')
        edges = [_edge(path, "edges", edge) for edge in given["edges"]]
    else:
        lines = [(k, line.split("#")[0]) for k, line in enumerate(text.splitlines(), 1)]
        edges = [_edge(path, f"line {k}", line.replace(",", " ").split()) for k, line in lines if line.strip()]
    if not edges:
        raise GossamerError(f"{path} holds no edges: write one 'sender receiver [weight]' a line.")
    return edges


def _edge(path: Path, where: str, words: Any) -> tuple[Any, ...]:
    try:
        sender, receiver, *weight = words
        ends = [int(end) if isinstance(end, str) else index(end) for end in (sender, receiver)]
        return (*ends, *(float(w) for w in weight))
    except (TypeError, ValueError):
        raise GossamerError(f"{path}, {where}: {words!r}, expected 'sender receiver [weight]' in numbers.") from None
