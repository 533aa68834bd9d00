"""Assumption 1 of Chen & Wang in numbers: what R and C are like, part by part, whether it holds or not.

A `Network` has been checked when it was made. Matrices that were refused get the same look here, so that a report can
say everything that is wrong with them at once.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy

from gossamer.errors import AnyOf, Argument, Sentence
from gossamer.networks import Network
from gossamer.networks.checks import SUM_TOLERANCE
from gossamer.theory.findings import FAILS, HOLDS, Finding, Part

Matrices = tuple[Any, Any]
_LOOKED_AT: WeakKeyDictionary[Network, Finding] = WeakKeyDictionary()  # a network never changes
MOST_LEARNERS = 5000  # of a network, which was checked, whose numbers are still worth their time
REBUILD = AnyOf(
    "set every diagonal entry to minus the sum of its line's others",
    ("build it with ", Argument("edges", python="Network.from_edges()")),
)


def graphs(network: Network | Matrices) -> Finding:
    """Assumption 1 of a network, or of the matrices (R, C) in Laplacian form."""
    if not isinstance(network, Network):
        return _look(network)
    if network.m > MOST_LEARNERS:
        why = f"all that it asks for was checked when this network of {network.m} learners was made."
        return Finding(1, "the graphs", (Part("(a) to (e)", HOLDS, Sentence(why), "R and C"),))
    if network not in _LOOKED_AT:
        _LOOKED_AT[network] = _look((network.R, network.C))
    return _LOOKED_AT[network]


def _look(matrices: Matrices) -> Finding:
    R, C = (scipy.sparse.csr_array(M) for M in matrices)
    parts = (_weights(R, C), _sums(R, C), _own(R, C), _strongly_connected(R), _spanning_tree(C))
    return Finding(1, "the graphs", parts)


def _off_diagonal(M: scipy.sparse.csr_array) -> tuple[Any, Any, Any]:
    entries = M.tocoo()
    row, column = entries.coords
    off = row != column
    return row[off], column[off], entries.data[off]


def _weights(R: scipy.sparse.csr_array, C: scipy.sparse.csr_array) -> Part:
    name = "(a) weights"
    for letter, M in (("R", R), ("C", C)):
        row, column, value = _off_diagonal(M)
        wrong = ~(value >= 0) | np.isinf(value)
        if wrong.any():
            e = int(wrong.argmax())
            why = f"{letter}[{row[e]}, {column[e]}] = {value[e]:g}, and a link's weight is a finite number ≥ 0."
            change = Sentence(f"Correct the weight of the link {column[e]}→{row[e]}.")
            return Part(name, FAILS, Sentence(why), "R and C", change)
    links = [int((_off_diagonal(M)[2] > 0).sum()) for M in (R, C)]
    why = f"all weights are ≥ 0: {links[0]} links of {R.shape[0]} learners in R, {links[1]} in C."
    return Part(name, HOLDS, Sentence(why), "R and C")


def _sums(R: scipy.sparse.csr_array, C: scipy.sparse.csr_array) -> Part:
    name, said = "(b) sums", []
    for letter, M, axis, line in (("R", R, 1, "row"), ("C", C, 0, "column")):
        sums = np.abs(np.asarray(M.sum(axis=axis)).ravel())
        size = np.asarray(abs(M).sum(axis=axis)).ravel()
        off = sums / np.maximum(size, 1e-300)
        k = int(np.nan_to_num(off, nan=np.inf).argmax())
        if not off[k] <= SUM_TOLERANCE:
            why = f"{line} {k} of {letter} adds up to {sums[k]:g}, and every {line} must to 0."
            return Part(name, FAILS, Sentence(why), "R and C", Sentence(REBUILD, "."))
        said.append(f"{letter}'s {line}s add up to {'0' if sums.max() == 0 else f'at most {sums.max():.0e}'}")
    return Part(name, HOLDS, Sentence(", ".join(said), "."), "R and C")


def _own(R: scipy.sparse.csr_array, C: scipy.sparse.csr_array) -> Part:
    """What a learner keeps of its own value. The paper asks for R_ii, C_ii < 0; above −1 is what Lemma 1 needs."""
    name, said = "(c) self-weights", []
    for letter, M in (("R", R), ("C", C)):
        own = 1 + M.diagonal()
        for i in np.flatnonzero(~((own > 0) & (own < 1)))[:1]:
            why = f"learner {i} keeps 1 + {letter}_ii = {own[i]:g} of its own value, and must keep between 0 and 1."
            idle = "a link from another learner" if letter == "R" else "a link to another learner"
            fewer = "smaller weights on its links, or fewer" if own[i] <= 0 else idle
            return Part(name, FAILS, Sentence(why), "R and C", Sentence(f"Give learner {i} {fewer}."))
        said.append(f"1 + {letter}_ii from {own.min():.3g} to {own.max():.3g}")
    return Part(name, HOLDS, Sentence(", ".join(said), ", within 0 and 1."), "R and C")


def _links(M: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Entry (j, i) where i receives from j."""
    row, column, value = _off_diagonal(M)
    real = value > 0
    ones = (np.ones(int(real.sum())), (column[real], row[real]))
    return scipy.sparse.csr_array(ones, shape=M.shape)


def _components(M: scipy.sparse.csr_array) -> tuple[int, Any, Any]:
    """Strongly connected components: how many, whose is whose, and those that send to no other."""
    from scipy.sparse.csgraph import connected_components

    links = _links(M)
    count, part = connected_components(links, directed=True, connection="strong")
    sender, receiver = (part[ends] for ends in links.tocoo().coords)
    return int(count), part, np.setdiff1d(np.arange(count), sender[sender != receiver])


def _strongly_connected(R: scipy.sparse.csr_array) -> Part:
    name = "(d) G_R"
    count, part, last = _components(R)
    if count == 1:
        why = f"G_R is strongly connected: each of {R.shape[0]} learners reaches every other."
        return Part(name, HOLDS, Sentence(why), "R and C")
    inside = int(np.flatnonzero(part == last[0])[0])
    outside = int(np.flatnonzero(part != last[0])[0])
    why = f"G_R falls into {count} strongly connected parts: nothing gets from learner {inside} to learner {outside}."
    change = Sentence(f"Add a link such as {inside}→{outside}, until each learner reaches every other.")
    return Part(name, FAILS, Sentence(why), "R and C", change)


def _spanning_tree(C: scipy.sparse.csr_array) -> Part:
    """A root is a learner that everything pushed over C can reach (Pu, Shi, Xu & Nedić 2021, Assumption 2)."""
    name = "(e) G_Cᵀ"
    _, part, last = _components(C)
    if len(last) > 1:
        a, b = (int(np.flatnonzero(part == s)[0]) for s in last[:2])
        why = f"G_Cᵀ has no spanning tree: nothing pushed over C gets from learner {a} to learner {b} nor back."
        return Part(name, FAILS, Sentence(why), "R and C", Sentence(f"Add a link such as {a}→{b} to C."))
    roots, m = int((part == last[0]).sum()), C.shape[0]
    why = f"G_Cᵀ has a spanning tree with {roots} of {m} learners as roots."
    if roots < m:
        why += f" Lemma 1 calls ω positive; it is 0 for the {m - roots} that are none."
    return Part(name, HOLDS, Sentence(why), "R and C")
