"""The loops over vertices and edges with which a graph is partitioned, compiled."""

from __future__ import annotations

import numpy as np

from gossamer.compiling import compiled
from gossamer.types import Array, Integers


@compiled()
def matched(starts: Integers, columns: Integers, weights: Array, sizes: Integers, most: int) -> Integers:
    """The coarse vertex of every vertex: two that share the heaviest edge of one become one, no larger than `most`.

    Vertices with few neighbours choose first, since they have the least choice later.
    """
    m = len(sizes)
    mate = np.full(m, -1, dtype=np.int64)
    for v in np.argsort(starts[1:] - starts[:-1], kind="mergesort"):
        if mate[v] >= 0:
            continue
        best, heaviest = v, 0.0
        for e in range(starts[v], starts[v + 1]):
            u = columns[e]
            if mate[u] < 0 and u != v and sizes[u] + sizes[v] <= most:
                weight = weights[e] / sizes[u]  # rather small ones, so that vertices stay alike in size
                if weight > heaviest:
                    best, heaviest = u, weight
        mate[v], mate[best] = best, v
    coarse, count = np.full(m, -1, dtype=np.int64), 0
    for v in range(m):
        if coarse[v] < 0:
            coarse[v] = coarse[mate[v]] = count
            count += 1
    return coarse


@compiled()
def refine(
    starts: Integers, columns: Integers, weights: Array, sizes: Integers, owner: Integers, ranks: int, lowest: int,
    highest: int, sweeps: int,
) -> None:  # fmt: skip
    """Move vertices to the share that most of their edges go to, until a sweep over all of them moves none.

    No move makes a share larger than `highest` or smaller than `lowest`; out of a share that is too large, and into one
    that is too small, a vertex goes at whatever cost. A move that cuts no more and makes sizes more even is one, too.
    """
    m = len(sizes)
    held = np.zeros(ranks, dtype=np.int64)
    for v in range(m):
        held[owner[v]] += sizes[v]
    towards = np.zeros(ranks)
    for _ in range(sweeps):
        moved = 0
        for v in range(m):
            mine, size = owner[v], sizes[v]
            too_large, inner = held[mine] > highest, True
            for e in range(starts[v], starts[v + 1]):
                towards[owner[columns[e]]] += weights[e]
                inner = inner and owner[columns[e]] == mine
            if not inner or too_large:
                best, gain, room = mine, 0.0, 0
                for r in range(ranks):
                    fits = held[r] + size <= highest and (held[mine] - size >= lowest or too_large)
                    if r == mine or not fits:
                        continue
                    more, evener = towards[r] - towards[mine], held[mine] - size - held[r]
                    must = best == mine and too_large
                    if must or more > gain or (more == gain and evener > room):
                        best, gain, room = r, more, evener
                if best != mine:
                    owner[v] = best
                    held[mine] -= size
                    held[best] += size
                    moved += 1
            for e in range(starts[v], starts[v + 1]):
                towards[owner[columns[e]]] = 0.0
            towards[mine] = 0.0
        if moved == 0:
            break
