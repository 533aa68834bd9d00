"""Which rows a rank sends and which it needs, matrix by matrix: known to every rank from the network alone.

Rank r plays the learners O_r. Of a matrix M it keeps the rows of O_r. Their columns are its own learners and its
*halo*, the learners of other ranks that some learner of O_r hears. In a round it gets the halo's rows, no others:

    got_i = Σ_{j ∈ O_r} M_ij sent_j + Σ_{j ∈ halo} M_ij sent_j        i ∈ O_r

A row goes to a rank once, however many learners there hear it. Both sides put the rows of a message in the order of the
learners' numbers, so that no number of a learner ever travels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gossamer.types import Array, Integers


class Halo(NamedTuple):
    """One rank's part of a matrix. Columns count its own learners first, in their order, and then its halo."""

    starts: Integers  # (k + 1,) where each row begins in `columns` and `weights`
    columns: Integers
    weights: Array
    halo: Integers  # the learners of others that are heard, by rank and then by number
    sources: Integers  # (ranks,) how many of them each rank has
    sent: Integers  # which of its own rows are sent, counted in its own order, by receiver and then by number
    receivers: Integers  # (ranks,) how many go to each rank


def halo_of(matrix: Any, owner: Integers, rank: int, ranks: int) -> Halo:
    """A rank's part of an (m, m) sparse matrix, where `owner` says which rank plays each learner."""
    own = np.flatnonzero(owner == rank)
    part = matrix[own]
    crossing = matrix.tocoo()
    i, j = (np.asarray(one, dtype=np.int64) for one in crossing.coords)
    hears, told = owner[i], owner[j]
    far = hears != told
    needed = _pairs(told[far & (hears == rank)], j[far & (hears == rank)], len(owner))
    wanted = _pairs(hears[far & (told == rank)], j[far & (told == rank)], len(owner))
    place = np.full(len(owner), -1, dtype=np.int64)
    place[own] = np.arange(len(own))
    place[needed[1]] = len(own) + np.arange(len(needed[1]))
    return Halo(
        np.asarray(part.indptr, dtype=np.int64),
        place[part.indices],
        np.asarray(part.data, dtype=np.float64),
        needed[1],
        np.bincount(needed[0], minlength=ranks),
        place[wanted[1]],
        np.bincount(wanted[0], minlength=ranks),
    )


def _pairs(rank: Integers, learner: Integers, m: int) -> tuple[Integers, Integers]:
    """Every (rank, learner) once, by rank and then by learner."""
    both = np.divmod(np.unique(rank * m + learner), m)
    return both[0], both[1]
