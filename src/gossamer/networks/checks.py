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

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from gossamer.errors import AnyOf, Argument, GossamerError, Part

SUM_TOLERANCE = 1e-9
FEW_LEARNERS = 128


class BrokenNetwork(GossamerError):
    """R and C that break Assumption 1: the first thing that is wrong, in a sentence, and the matrices themselves."""

    def __init__(self, R: scipy.sparse.csr_array, C: scipy.sparse.csr_array, *parts: Part) -> None:
        super().__init__(*parts)
        self.R, self.C = R, C

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.R, self.C, *self.parts)


def check_assumption_1(R: scipy.sparse.csr_array, C: scipy.sparse.csr_array) -> None:
    """Refuse matrices that break it."""
    try:
        _check(R, C)
    except GossamerError as error:
        raise BrokenNetwork(R, C, *error.parts) from None


def _check(R: scipy.sparse.csr_array, C: scipy.sparse.csr_array) -> None:
    for name, M in (("R", R), ("C", C)):
        _check_entries(name, M)
        _check_sums(name, M)
        _check_diagonal(name, M)
    # The diagonals are below 0 now, so that what is above 0 is a link; entry (j, i): j sends to i.
    if not _all_reach_all(R):
        _check_strongly_connected(scipy.sparse.csr_array((R.T > 0).astype(float)))
    if not _all_reach_all(C):
        _check_spanning_tree(scipy.sparse.csr_array((C.T > 0).astype(float)))


def _all_reach_all(M: scipy.sparse.csr_array) -> bool:
    """Whether a network of few learners is seen to be strongly connected, without SciPy's graphs.

    Those load most of its linear algebra, which one learner's process has no other use for. False decides nothing.
    """
    if M.shape[0] > FEW_LEARNERS:
        return False
    hears = (M > 0).toarray()
    return _reaches_all(hears) and _reaches_all(hears.T)


def _reaches_all(hears: NDArray[np.bool_]) -> bool:
    """Whether what learner 0 says gets to everybody."""
    reached = np.zeros(len(hears), dtype=bool)
    new = reached.copy()
    new[0] = True
    while new.any():
        reached |= new
        new = hears[:, new].any(axis=1) & ~reached
    return bool(reached.all())


def _check_entries(name: str, M: scipy.sparse.csr_array) -> None:
    entries = M.tocoo()
    (row, column), value = entries.coords, entries.data
    for bad, what in ((~np.isfinite(value), "is not a finite number"), ((value < 0) & (row != column), "is negative")):
        if bad.any():
            e = int(bad.argmax())
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
        by_hand = f"set {name}[{worst}, {worst}] to minus the sum of the other entries of its {line}"
        remedy = AnyOf(by_hand, ("build it with ", Argument("edges", python="Network.from_edges()")))
        wrong = f"{name} has {line} sums up to {sums[worst]:g} ({line} {worst}), expected 0: "
        raise GossamerError(wrong, remedy, ".")


def _check_diagonal(name: str, M: scipy.sparse.csr_array) -> None:
    diagonal = M.diagonal()
    worst = int(diagonal.argmin())
    if diagonal[worst] <= -1:
        weights, side = (M[[worst]], "in") if name == "R" else (M[:, [worst]], "out")
        degree = int((weights > 0).sum())
        raise GossamerError(
            f"learner {worst} has {name}[{worst}, {worst}] = {diagonal[worst]:g} from {degree} {side}-edges, expected "
            f"above -1: use a weight below 1/{degree} = {1 / degree:.3g} on its edges, or remove some."
        )
    idle = int(diagonal.argmax())
    if diagonal[idle] >= 0:
        verb, edge = ("receives", f"j→{idle} from") if name == "R" else ("pushes", f"{idle}→j to")
        raise GossamerError(
            f"learner {idle} {verb} nothing over {name} ({name}[{idle}, {idle}] = 0), expected at least one neighbour: "
            f"add an edge {edge} another learner j (learners are counted from 0)."
        )


def check_connected(pulls: scipy.sparse.csr_array, pushes: scipy.sparse.csr_array, names: NDArray[Any]) -> None:
    """The last two of Assumption 1, for links of which entry (j, i) says that j sends to i; `names` are whose."""
    _check_strongly_connected(pulls, names)
    _check_spanning_tree(pushes, names)


def _check_strongly_connected(links: scipy.sparse.csr_array, names: NDArray[Any] | None = None) -> None:
    from scipy.sparse.csgraph import breadth_first_order

    m = links.shape[0]
    first = 0 if names is None else names[0]
    for graph, cannot, edge in (
        (links, "cannot be reached from", "{0}→{1}"),
        (scipy.sparse.csr_array(links.T), "cannot reach", "{1}→{0}"),
    ):
        reached = breadth_first_order(graph, 0, return_predecessors=False)
        if len(reached) < m:
            lost = int(np.setdiff1d(np.arange(m), reached)[0])
            lost = lost if names is None else names[lost]
            raise GossamerError(
                f"G_R is not strongly connected: learner {lost} {cannot} learner {first}; add an edge such as "
                f"{edge.format(first, lost)}."
            )


def _check_spanning_tree(links: scipy.sparse.csr_array, names: NDArray[Any] | None = None) -> None:
    from scipy.sparse.csgraph import connected_components

    count, part = connected_components(links, directed=True, connection="strong")
    sender, receiver = (part[ends] for ends in links.tocoo().coords)
    sinks = np.setdiff1d(np.arange(count), sender[sender != receiver])  # components that push to no other one
    if len(sinks) > 1:
        a, b = (int(np.flatnonzero(part == s)[0]) for s in sinks[:2])
        a, b = (a, b) if names is None else (names[a], names[b])
        raise GossamerError(
            f"G_Cᵀ has no spanning tree: nothing pushed over C gets from learner {a} to learner {b} nor back; "
            f"add an edge such as {a}→{b} to C."
        )
