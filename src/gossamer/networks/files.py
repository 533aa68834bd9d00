"""Networks from a file or by name, for the command.

Text is an edge list, one `sender receiver [weight]` a line: see gossamer.networks.edge_lists. Lists are often published
packed: a file whose name ends in .gz is unpacked as it is read.
A .json file holds {"edges": [[0, 1], [1, 0, 0.5]]} or the matrices {"R": [[…]], "C": [[…]]} (C may be left out).
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from functools import lru_cache
from operator import index
from pathlib import Path
from typing import Any

from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.networks.edge_lists import EdgeList, Graph, graph_of, parse_edge_list
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


def read_network(source: str, learners: int | None = None, largest: bool = False) -> Network:
    """A network by name (paper, paper-one-way, ring, …) or from a file; checked against `learners`.

    `largest` keeps the largest strongly connected component of an edge list.
    """
    if source in PAPERS:
        network = PAPERS[source]()
    elif source in NAMES:
        network = NAMES[source](learners if learners is not None else 10)
    else:
        network = _read_once(Path(source), largest).network
    if learners is not None and network.m != learners:
        raise GossamerError(
            f"the network {source} has {network.m} learners and the run has {learners}: use ",
            Argument("learners", network.m), ", or another ", Argument("graph", python="network"), ".",
        )  # fmt: skip
    return network


def ids_in(source: str, largest: bool = False) -> list[str]:
    """What a network's file calls its learners, in their order."""
    return [str(one) for one in _read_once(Path(source), largest).ids.tolist()]


def _read_once(path: Path, largest: bool) -> Graph:
    """A file's network; a run that asks first how many learners it has does not read it twice."""
    try:
        about = path.stat()
    except OSError:
        return read_graph(path, largest)  # which says what is wrong
    return _graph_at(path, path.absolute(), largest, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=1)
def _graph_at(path: Path, place: Path, largest: bool, changed: int, size: int) -> Graph:
    return read_graph(path, largest)


def read_graph(path: Path, largest: bool = False) -> Graph:
    """A network from a file, with the ids that its learners have there."""
    given = _read(path)
    if isinstance(given, EdgeList):
        return graph_of(path, given, largest)
    if largest:
        raise BadValue(
            "largest_component", True, f"{path} is no edge list", "give one, or mend the network in the file"
        )
    return Graph.of(given if isinstance(given, Network) else _from_edges(given))


def read_pairs(source: str, learners: int) -> list[tuple[int, int]]:
    """Who is joined with whom, from the same names and files: links count both ways, and need not connect all."""
    if is_named(source):
        named = PAPERS[source]() if source in PAPERS else NAMES[source](learners)
        pairs, most = [(a, b) for over in ("R", "C") for a, b, _ in named.edges(over)], named.m
    else:
        given = _read(Path(source))
        edges = given.edges() if isinstance(given, Network) else _numbered(source, given)
        pairs = [(edge[0], edge[1]) for edge in edges]
        most = 1 + max(max(pair) for pair in pairs)
    if most > learners or (is_named(source) and most != learners):
        requirement = f"it has {most} learners and the run has {learners}"
        raise BadValue("secrets", source, requirement, "give another, such as complete")
    if min(min(pair) for pair in pairs) < 0:
        raise BadValue("secrets", source, "expected learners' numbers from 0 on")
    return sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})


def _numbered(source: str, given: EdgeList | list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Edges between learners' numbers."""
    if isinstance(given, list):
        return given
    if given.ids.dtype.kind != "i":
        raise BadValue("secrets", source, "expected learners' numbers from 0 on")
    return [tuple(pair) for pair in given.ids.tolist()]


def _from_edges(edges: list[tuple[Any, ...]]) -> Network:
    return Network.from_edges(1 + max(max(edge[:2]) for edge in edges), edges)


def _read(path: Path) -> Network | EdgeList | list[tuple[Any, ...]]:
    """Matrices as a network, or edges: of a .json file as they stand there."""
    try:
        text = _text_of(path)
    except FileNotFoundError:
        known = ", ".join([*PAPERS, *NAMES])
        raise GossamerError(f"no network {path}: expected a file, or one of {known}.") from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise GossamerError(f"the network file {path} cannot be read ({error}): give a text or .json file.") from None
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if kind == ".toml":
        raise GossamerError(f"{path} says how a network changes: give it as ", Argument("schedule", str(path)), ".")
    if kind != ".json":
        return parse_edge_list(path, text)
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:  # no JSON, or numbers and nestings that no one writes
        raise GossamerError(f"{path} is not valid JSON ({error}): correct it.") from None
    if isinstance(given, dict) and "R" in given:
        try:
            return Network(given["R"], given.get("C"))
        except OverflowError:
            raise GossamerError(f"{path} has a weight that no float is: expected less than 1.") from None
    if not isinstance(given, dict) or not isinstance(given.get("edges"), list):
        raise GossamerError(f'{path} holds neither "R" nor "edges": expected an object with one of them.')
    edges = [_edge(path, edge) for edge in given["edges"]]
    if not edges:
        raise GossamerError(f"{path} holds no edges: write [sender, receiver] or [sender, receiver, weight] for each.")
    return edges


def _text_of(path: Path) -> str:
    if path.suffix != ".gz":
        return path.read_text(encoding="utf-8-sig")
    with gzip.open(path, "rt", encoding="utf-8-sig") as file:
        return file.read()


def _edge(path: Path, words: Any) -> tuple[Any, ...]:
    try:
        sender, receiver, *weight = words
        return (index(sender), index(receiver), *(float(w) for w in weight))
    except (TypeError, ValueError, OverflowError):
        raise GossamerError(
            f"{path}, edges: {words!r}, expected [sender, receiver] or [sender, receiver, weight]."
        ) from None
