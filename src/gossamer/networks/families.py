"""Ready-made directed graphs, as lists of edges sender→receiver."""

from __future__ import annotations

import numpy as np

Edge = tuple[int, int]

# MATH: the paper's Fig. 1 is not printed with its edges; this graph has its size and is strongly connected,
# aperiodic and unbalanced. Learners are counted from 1 here, as in the paper, and from 0 everywhere else.
_PAPER_CHORDS = [(1, 4), (1, 7), (3, 8), (5, 10), (6, 2), (8, 3), (9, 4), (2, 9)]


def paper_edges() -> list[Edge]:
    return ring_edges(10) + [(j - 1, i - 1) for j, i in _PAPER_CHORDS]


def ring_edges(m: int) -> list[Edge]:
    """Each learner sends to the next: the sparsest strongly connected digraph, and the slowest to mix."""
    return [(i, (i + 1) % m) for i in range(m)]


def exponential_edges(m: int) -> list[Edge]:
    """Each learner sends 1, 2, 4, 8, … places ahead: log₂ m links each, mixes in about log₂ m rounds."""
    hops = [2**k for k in range(m.bit_length()) if 2**k < m]
    return [(i, (i + hop) % m) for i in range(m) for hop in hops]


def complete_edges(m: int) -> list[Edge]:
    return [(j, i) for j in range(m) for i in range(m) if i != j]


def random_edges(m: int, degree: int, seed: int) -> list[Edge]:
    """A ring through all learners in random order, and random chords until the mean out-degree is `degree`.

    The ring makes it strongly connected for certain; the chords make in- and out-degrees differ.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(m)
    edges = {(int(order[k]), int(order[(k + 1) % m])) for k in range(m)}
    wanted = min(m * degree, m * (m - 1))
    while len(edges) < wanted:
        pairs = rng.integers(0, m, size=(wanted - len(edges), 2))
        edges.update((int(j), int(i)) for j, i in pairs if i != j)
    return sorted(edges)
