"""Assumption 1 of Chen & Wang, checked completely, with an error that names the learner or edge and the remedy.

Signs       R_ij ≥ 0, C_ij ≥ 0 for i ≠ j
Sums        R 1 = 0 (rows), 1ᵀ C = 0 (columns)
Diagonals   −1 < R_ii < 0, −1 < C_ii < 0, so that I+R and I+C are stochastic with self-weights
G_R         strongly connected
G_{Cᵀ}      contains a spanning tree

An entry M_ij > 0 means "i receives from j". A spanning tree of G_{Cᵀ} rooted at r (Pu, Shi, Xu & Nedić, "Push–Pull
Gradient Methods", IEEE TAC 2021, Assumption 2) then says that what any learner pushes over C can reach r; it is what
makes the right eigenvector ω of I+C unique. The paper's own arrow convention would ask for the converse, under
which Lemma 1 is false, so we check the original.
"""

from __future__ import annotations

import numpy as np
import scipy

from gossamer.errors import AnyOf, Argument, GossamerError

SUM_TOLERANCE = 1e-9


def check_assumption_1(R: scipy.sparse.csr_array, C: scipy.sparse.csr_array) -> None:
    for name, M in (("R", R), ("C", C)):
        _check_entries(name, M)
        _check_sums(name, M)
        _check_diagonal(name, M)
    _check_strongly_connected(R)
    _check_spanning_tree(C)


def _check_entries(name: str, M: scipy.sparse.csr_array) -> None:
    entries = M.tocoo()
    row, column, value = entries.coords[0], entries.coords[1], entries.data
    for bad, what in (
        (~np.isfinite(value), "is not a finite number"),
        ((value < 0) & (row != column), "is negative"),
    ):
        if bad.any():
            e = int(np.flatnonzero(bad)[0])
            raise GossamerError(
                f"{name}[{row[e]}, {column[e]}] = {value[e]:g} {what}, expected a weight ≥ 0 "
                f"on the edge {column[e]}→{row[e]}: correct that entry."
            )


def _check_sums(name: str, M: scipy.sparse.csr_array) -> None:
    axis, line = (1, "row") if name == "R" else (0, "column")
    sums = np.asarray(M.sum(axis=axis)).ravel()
    off = np.abs(sums) / np.maximum(np.asarray(abs(M).sum(axis=axis)).ravel(), 1e-300)  # relative to the line's weights
    worst = int(off.argmax())
    if off[worst] > SUM_TOLERANCE:
        raise GossamerError(
            f"{name} has {line} sums up to {sums[worst]:g} ({line} {worst}), expected 0: ",
            AnyOf(
                f"set {name}[{worst}, {worst}] to minus the sum of the other entries of its {line}",
                ("build it with ", Argument("edges", python="Network.from_edges()")),
            ),
            ".",
        )


def _check_diagonal(name: str, M: scipy.sparse.csr_array) -> None:
    diagonal = M.diagonal()
    verb, side = ("receives", "in") if name == "R" else ("pushes", "out")
    worst = int(diagonal.argmin())
    if diagonal[worst] <= -1:
        degree = _degree(name, M, worst)
        raise GossamerError(
            f"learner {worst} has {name}[{worst}, {worst}] = {diagonal[worst]:g} from {degree} {side}-edges, expected "
            f"above -1: use a weight below 1/{degree} = {1 / degree:.3g} on its edges, or remove some."
        )
    idle = int(diagonal.argmax())
    if diagonal[idle] >= 0:
        to = "from" if name == "R" else "to"
        edge = f"j→{idle}" if name == "R" else f"{idle}→j"
        raise GossamerError(
            f"learner {idle} {verb} nothing over {name} ({name}[{idle}, {idle}] = 0), expected at least one neighbour: "
            f"add an edge {edge} {to} another learner j (learners are counted from 0)."
        )


def _degree(name: str, M: scipy.sparse.csr_array, learner: int) -> int:
    entries = M.tocoo()
    line, across = (entries.coords[0], entries.coords[1]) if name == "R" else (entries.coords[1], entries.coords[0])
    return int(((line == learner) & (across != learner) & (entries.data > 0)).sum())


def _check_strongly_connected(R: scipy.sparse.csr_array) -> None:
    from scipy.sparse.csgraph import breadth_first_order

    sends = _links(R)
    for graph, cannot, edge in (
        (sends, "cannot be reached from learner 0", "0→{}"),
        (scipy.sparse.csr_array(sends.T), "cannot reach learner 0", "{}→0"),
    ):
        reached = breadth_first_order(graph, 0, return_predecessors=False)
        if len(reached) < R.shape[0]:
            lost = int(np.setdiff1d(np.arange(R.shape[0]), reached)[0])
            raise GossamerError(
                f"G_R is not strongly connected: learner {lost} {cannot}; add an edge such as {edge.format(lost)}."
            )


def _check_spanning_tree(C: scipy.sparse.csr_array) -> None:
    from scipy.sparse.csgraph import connected_components

    links = _links(C)
    count, part = connected_components(links, directed=True, connection="strong")
    pairs = links.tocoo()
    leaves = np.zeros(count, dtype=bool)
    leaves[part[pairs.coords[0]][part[pairs.coords[0]] != part[pairs.coords[1]]]] = True
    sinks = np.flatnonzero(~leaves)
    if len(sinks) > 1:
        a, b = (int(np.flatnonzero(part == s)[0]) for s in sinks[:2])
        raise GossamerError(
            f"G_Cᵀ has no spanning tree: nothing pushed over C gets from learner {a} to learner {b} nor back; "
            f"add an edge such as {a}→{b} to C."
        )


def _links(M: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """The graph sender→receiver: entry (j, i) where i receives from j."""
    links = M.T.tocoo()
    keep = (links.data > 0) & (links.coords[0] != links.coords[1])
    return scipy.sparse.csr_array(
        (np.ones(int(keep.sum())), (links.coords[0][keep], links.coords[1][keep])), shape=links.shape
    )
