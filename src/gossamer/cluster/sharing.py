"""Which rank plays which learners: shares of one size, with few links between them.

Learners are vertices; an edge weighs as many links as the matrices in use have between its two ends, either way. To
find shares that few edges leave is hard, and the usual answer is by levels (Karypis & Kumar, "A Fast and High Quality
Multilevel Scheme for Partitioning Irregular Graphs", SIAM J. Sci. Comput. 20(1), 1998):

    coarsen     neighbours that share the heaviest edges become one vertex, until few vertices are left
    begin       a walk through the neighbours of neighbours is cut into pieces of one size, at once or in halves
    refine      level by level on the way back, vertices move to where most of their edges go, if the sizes allow it

Nothing in it is random: the same network gives the same shares, at every rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from scipy.sparse.csgraph import reverse_cuthill_mckee

from gossamer.errors import BadValue
from gossamer.lazy import import_once
from gossamer.networks import Network
from gossamer.types import Array, Integers, Matrix

SLACK = 0.03  # by how much a share may be larger than the others on the way; in the end sizes differ by this at most
FEW = 40  # vertices for each share, at which coarsening ends
STALLS = 0.95  # or where a level has more than this share of the vertices of the one before
SWEEPS = 12  # of refinement at a level, at most


@dataclass(frozen=True)
class Partition:
    """Who plays whom, and what that costs in every round."""

    owner: Integers  # (m,) the rank of every learner
    ranks: int
    links: int  # of all matrices in use
    cut: int  # of these, how many go from one rank to another
    halo: int  # rows that go from rank to rank in a round, for all matrices in use
    unsorted: int  # links that were cut if learners were shared out by their numbers

    @cached_property
    def sizes(self) -> Integers:
        """(ranks,) how many learners each rank has."""
        return np.bincount(self.owner, minlength=self.ranks)

    @property
    def notes(self) -> tuple[str, ...]:
        least, most = int(self.sizes.min()), int(self.sizes.max())
        each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        share, by_number = (f"{count / max(self.links, 1):.1%}" for count in (self.cut, self.unsorted))
        return (
            f"{self.ranks} ranks play {each} learners each; {self.cut:,} of {self.links:,} links ({share}) go from "
            f"one to another, in {self.halo:,} rows a round. Shared out by number it would be {self.unsorted:,} "
            f"({by_number}).",
        )


def partition(network: Network, ranks: int, mixes: Sequence[Matrix] = ("R", "C")) -> Partition:
    """The learners of a network shared out over so many ranks, by the links of the matrices in `mixes`.

    Sizes differ by a few percent at most, and by one where that is less than one learner.
    """
    if not 1 <= ranks <= network.m:
        raise BadValue("ranks", ranks, f"expected 1 to {network.m}, at most one rank for each learner")
    matrices = [scipy.sparse.csr_array(network.off_diagonal(over)) for over in mixes]
    graph = _graph_of(matrices)
    by_number = np.repeat(np.arange(ranks), _even(network.m, ranks))
    owner = by_number if ranks == 1 else _owners(graph, np.ones(network.m, dtype=np.int64), ranks)
    if _cut(graph, owner) > _cut(graph, by_number):  # as of a ring whose learners are in their order
        owner = by_number
    return Partition(
        _named_by_first(owner, ranks), ranks, sum(_links(one, None) for one in matrices),
        sum(_links(one, owner) for one in matrices), sum(_rows(one, owner, ranks) for one in matrices),
        sum(_links(one, by_number) for one in matrices),
    )  # fmt: skip


def _graph_of(matrices: Sequence[Any]) -> Any:
    """The symmetric graph of whole numbers: how many links there are between two learners."""
    both: Any = scipy.sparse.csr_array(matrices[0].shape)
    for one in matrices:
        links = scipy.sparse.csr_array((np.ones(one.nnz), one.indices, one.indptr), one.shape)
        both = both + links + links.T
    both.setdiag(0)
    both.eliminate_zeros()
    both.sort_indices()
    return both


def _owners(graph: Any, sizes: Integers, ranks: int) -> Integers:
    """The share of every vertex, where `sizes` says how many learners a vertex stands for."""
    kernels = import_once("gossamer.cluster.refining")
    levels = [(graph, sizes)]
    parents = list[Integers]()
    most = max(1, int(sizes.sum()) // (4 * ranks))  # learners in one vertex, so that pieces can be of one size
    while len(sizes) > max(FEW * ranks, 2 * ranks):
        coarse = kernels.matched(*_edges(graph), sizes, most)
        count = int(coarse.max()) + 1
        if count > STALLS * len(sizes):
            break
        graph, sizes = _merged(graph, coarse, count), np.bincount(coarse, weights=sizes).astype(np.int64)
        levels.append((graph, sizes))
        parents.append(coarse)
    begun = [_refined(graph, sizes, _pieces(graph, sizes, ranks, at_once), ranks) for at_once in (ranks, 2)]
    owner = min(begun, key=lambda one: _cut(graph, one))
    for parent, (graph, sizes) in zip(reversed(parents), reversed(levels[:-1]), strict=True):
        owner = _refined(graph, sizes, owner[parent], ranks)
    return owner


def _refined(graph: Any, sizes: Integers, owner: Integers, ranks: int) -> Integers:
    """The same shares after vertices have moved to where most of their edges go."""
    lowest, highest = _limits(int(sizes.sum()), ranks, int(sizes.max()))
    import_once("gossamer.cluster.refining").refine(*_edges(graph), sizes, owner, ranks, lowest, highest, SWEEPS)
    return owner


def _edges(graph: Any) -> tuple[Integers, Integers, Array]:
    """A graph as the loops take it, always in numbers of these kinds."""
    return graph.indptr.astype(np.int64), graph.indices.astype(np.int64), graph.data.astype(np.float64)


def _limits(whole: int, ranks: int, largest: int) -> tuple[int, int]:
    """The smallest and largest share that refining may make; on coarse levels a vertex must be able to move at all."""
    even = whole / ranks
    room = max(SLACK * even / 2, largest if largest > 1 else 0)
    return max(1, math.ceil(even - room) if room >= 1 else whole // ranks), max(
        math.floor(even + room), -(-whole // ranks)
    )


def _merged(graph: Any, coarse: Integers, count: int) -> Any:
    """The graph of the coarse vertices."""
    edges = graph.tocoo()
    i, j = (coarse[one] for one in edges.coords)
    apart = i != j
    merged = scipy.sparse.csr_array((edges.data[apart], (i[apart], j[apart])), shape=(count, count))
    merged.sum_duplicates()
    return merged


def _pieces(graph: Any, sizes: Integers, ranks: int, at_once: int) -> Integers:
    """Shares from a walk through all vertices, in which neighbours come soon after each other, cut into even pieces.

    `at_once` is into how many pieces a walk is cut: all, which gives strips, or two, each of which is then walked anew.
    """
    owner = np.zeros(len(sizes), dtype=np.int64)
    if ranks == 1:
        return owner
    order = reverse_cuthill_mckee(scipy.sparse.csr_matrix(graph), symmetric_mode=True)
    middle = (np.cumsum(sizes[order]) - sizes[order] / 2) * ranks / sizes.sum()
    if at_once >= ranks:
        owner[order] = np.minimum(middle, ranks - 1).astype(np.int64)
        return owner
    for first, count, some in (
        (0, ranks // 2, middle < ranks // 2),
        (ranks // 2, -(-ranks // 2), middle >= ranks // 2),
    ):
        piece = order[some]
        owner[piece] = first + _pieces(graph[piece][:, piece], sizes[piece], count, at_once)
    return owner


def _even(m: int, ranks: int) -> Integers:
    """Shares by number."""
    return np.array([len(part) for part in np.array_split(np.arange(m), ranks)])


def _cut(graph: Any, owner: Integers) -> float:
    edges = graph.tocoo()
    i, j = edges.coords
    return float(edges.data[owner[i] != owner[j]].sum())


def _links(matrix: Any, owner: Integers | None) -> int:
    """How many links a matrix has, or how many of them go from rank to rank."""
    i, j = matrix.tocoo().coords
    return int(np.count_nonzero(i != j if owner is None else owner[i] != owner[j]))


def _rows(matrix: Any, owner: Integers, ranks: int) -> int:
    """How many rows go from rank to rank: one for every learner and rank that hears it."""
    i, j = (np.asarray(one, dtype=np.int64) for one in matrix.tocoo().coords)
    far = owner[i] != owner[j]
    return len(np.unique(owner[i][far] * len(owner) + j[far]))


def _named_by_first(owner: Integers, ranks: int) -> Integers:
    """Ranks named in the order of their first learners."""
    firsts = np.array([int(np.argmax(owner == rank)) for rank in range(ranks)])
    names = np.empty(ranks, dtype=np.int64)
    names[np.argsort(firsts)] = np.arange(ranks)
    return names[owner]
