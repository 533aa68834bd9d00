"""The few types that every room shares."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Matrix = Literal["R", "C"]


class GossamerError(ValueError):
    """A mistake that the caller can mend: one sentence with the value, the requirement and the remedy."""


class Rows(NamedTuple):
    """What a block of k learners knows of its place in the network; all that an algorithm may use of it."""

    ids: Integers  # (k,) which learners this block holds
    m: int  # how many learners there are in all
    R_ii: Array  # (k, 1)
    C_ii: Array  # (k, 1)
    settles: float  # the round from which (I+R)^t no longer changes in float64

    def own(self, z: Array) -> Array:
        """[z_i]_i of every learner i of the block, as a column."""
        own: Array = z[np.arange(len(self.ids)), self.ids][:, None]
        return own


class Out(NamedTuple):
    """One value that leaves a learner: what, over which matrix's links, and whether it must be made private."""

    value: Array  # (k, n)
    over: Matrix
    private: bool
