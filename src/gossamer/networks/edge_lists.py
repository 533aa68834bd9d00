"""Directed graphs as edge lists, as SNAP and others publish them: two ids a line, and perhaps a weight.

    # FromNodeId  ToNodeId
    30	1412
    30	3352

Ids are whole numbers or any texts without spaces; in ascending order they are learners 0, 1, 2, … So numbers that have
no gaps and begin at 0 are the learners themselves; who.py compares ids with the data's names. Words are separated by
spaces, tabs or commas, `#` starts a comment.

Where no line has a weight, links that are given again and links to oneself are left out, as such lists have them, and
weights are 0.25, or less where a learner hears so many that it would keep too little of its own value. Where lines have
weights, both are mistakes.

`largest=True` keeps the largest strongly connected component: the most learners that all reach one another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from gossamer.errors import Argument, GossamerError, Part
from gossamer.networks.checks import BrokenNetwork, check_connected
from gossamer.networks.network import Network
from gossamer.types import Array, Integers

WHOLE = re.compile(r"(?:(?:0|-?[1-9][0-9]*+)(?: |\Z))*+\Z", re.ASCII)  # whole numbers, and not 01, +1 or 1_0
LONGEST = 200  # characters of an id


class EdgeList(NamedTuple):
    """What the lines of a file say."""

    ids: NDArray[Any]  # (E, 2) of senders and receivers, whole numbers or texts
    weights: Array | None  # NaN where a line has none; None where no line has one


class Graph(NamedTuple):
    """A network made of an edge list, and what was done for it."""

    network: Network
    ids: NDArray[Any]  # of the learners
    given: int  # learners that the list has
    again: int  # links that were given again
    own: int  # links to oneself

    @classmethod
    def of(cls, network: Network) -> Graph:
        """Of a network whose learners are known by their numbers."""
        return cls(network, np.arange(network.m), network.m, 0, 0)


def parse_edge_list(path: Path, text: str) -> EdgeList:
    """The ids and weights of a file's lines."""
    lines = text.replace(",", " ").splitlines()
    if "#" in text:
        lines = [line.partition("#")[0] for line in lines]
    rows = [words for line in lines if (words := line.split())]
    if not rows:
        raise GossamerError(f"{path} holds no edges: write one 'sender receiver [weight]' a line.")
    lengths = set(map(len, rows))
    if not lengths <= {2, 3}:
        raise _mistake(path, lines, lambda words: len(words) not in (2, 3))
    ids = np.column_stack(np.split(_ids([row[0] for row in rows] + [row[1] for row in rows]), 2))
    if lengths == {2}:
        return EdgeList(ids, None)
    try:
        weights = np.array([float(row[2]) if len(row) == 3 else np.nan for row in rows])
        if np.isnan(weights).sum() > sum(len(row) == 2 for row in rows):  # which stands for: no weight is given
            raise ValueError("a weight of NaN")
        return EdgeList(ids, weights)
    except ValueError:
        raise _mistake(path, lines, lambda words: len(words) == 3 and not _is_number(words[2])) from None


def _ids(words: list[str]) -> NDArray[Any]:
    """Whole numbers where all are written as such, in one way each; otherwise words, whose longest decides the room."""
    if WHOLE.match(" ".join(words)):
        try:
            return np.fromiter(map(int, words), dtype=np.int64, count=len(words))
        except OverflowError:
            pass
    longest = max(map(len, words))
    if longest > LONGEST:
        raise GossamerError(f"an id of {longest} characters in an edge list: expected at most {LONGEST}; shorten it.")
    return np.array(words)


def _is_number(word: str) -> bool:
    try:
        return not math.isnan(float(word))
    except ValueError:
        return False


def _mistake(path: Path, lines: list[str], wrong: Callable[[list[str]], bool]) -> GossamerError:
    k, words = next((k, words) for k, line in enumerate(lines, 1) if (words := line.split()) and wrong(words))
    return GossamerError(f"{path}, line {k}: {words!r}, expected 'sender receiver [weight]'.")


def graph_of(path: Path, listed: EdgeList, largest: bool = False) -> Graph:
    """The network of an edge list; `path` is what a mistake is said of."""
    ids, number = _ascending(listed.ids)
    senders, receivers = number.reshape(-1, 2).T.astype(np.int64)
    weights, given, own, again = listed.weights, len(ids), 0, 0
    if weights is None:
        links = np.unique(senders[senders != receivers] * given + receivers[senders != receivers])
        own = int((senders == receivers).sum())
        again = len(senders) - own - len(links)
        senders, receivers = np.divmod(links, given)
    count, part = _strong_parts(given, senders, receivers)
    if largest and count > 1:
        kept = part == np.bincount(part).argmax()
        if kept.sum() < 2:
            raise GossamerError(f"{path}: no two of its {given} learners reach one another: add links.")
        inner, place = kept[senders] & kept[receivers], np.cumsum(kept) - 1
        ids, senders, receivers = ids[kept], place[senders[inner]], place[receivers[inner]]
        weights = None if weights is None else weights[inner]
    try:
        return Graph(_network(len(ids), senders, receivers, weights), ids, given, again, own)
    except BrokenNetwork as error:
        numbered = np.array_equal(ids, np.arange(len(ids)))
        in_ids = () if numbered else _said_of_ids(error, ids)
        *parts, last = in_ids or error.parts
        parts.append(str(last).removesuffix("."))
        most = int(np.bincount(part).max())
        if len(ids) == given and count > 1 and most > 1:
            keep = f", or keep the {most} learners of the largest part in which all reach one another with "
            parts += [keep, Argument("largest_component", True, python="largest=True")]
        if not in_ids and not numbered:
            parts.append(" (in ascending order, ids are learners 0, 1, …)")
        raise BrokenNetwork(error.R, error.C, *parts, ".") from None


def _ascending(words: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The ids in the order in which data list their learners, and which of them each word is."""
    ids, number = np.unique(words, return_inverse=True)
    if ids.dtype.kind == "i" or not all(one.isascii() and one.isdigit() for one in ids.tolist()):
        return ids, number
    order = np.array(sorted(range(len(ids)), key=lambda k: int(ids[k])))  # texts such as 01, or beyond 64 bits
    return ids[order], np.argsort(order)[number]


def _said_of_ids(error: BrokenNetwork, ids: NDArray[Any]) -> tuple[Part, ...]:
    """Who cannot reach whom, in the file's own ids; () where something else is wrong."""
    links = [scipy.sparse.csr_array((M.T > 0).astype(float)) for M in (error.R, error.C)]
    try:
        check_connected(links[0], links[1], ids)
    except GossamerError as said:
        return said.parts
    return ()


def _strong_parts(m: int, senders: Integers, receivers: Integers) -> tuple[int, Integers]:
    """How many strongly connected components there are, and which one each learner is in."""
    from scipy.sparse.csgraph import connected_components

    links = scipy.sparse.csr_array((np.ones(len(senders)), (senders, receivers)), shape=(m, m))
    count, part = connected_components(links, directed=True, connection="strong")
    return int(count), part.astype(np.int64)


def _network(m: int, senders: Integers, receivers: Integers, weights: Array | None) -> Network:
    if weights is None:
        return Network.from_links(m, senders, receivers)
    given = zip(senders.tolist(), receivers.tolist(), weights.tolist(), strict=True)
    return Network.from_edges(m, [edge if edge[2] == edge[2] else edge[:2] for edge in given])
