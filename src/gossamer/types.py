"""The few types that every room shares."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.arrays import Kind, kind_of

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Matrix = Literal["R", "C", "W", "D", "I+R", "I+W", "I+D"]  # with I+: a learner's own message comes to it as well


class Rows(NamedTuple):
    """What a block of k learners knows of its place in the network; all that an algorithm may use of it."""

    ids: Integers  # (k,) which learners this block holds
    m: int  # how many learners there are in all
    R_ii: Array  # (k, 1), own weights in Laplacian form: 1+R_ii is what a learner keeps of its own value
    C_ii: Array  # (k, 1)
    settles: float  # the round from which (I+R)^t no longer changes in float64
    W_ii: Array  # (k, 1), of the symmetric weights; NaN where the algorithm does not say that it uses them
    D_ii: Array  # (k, 1), of the doubly stochastic ones, likewise
    share: Array | None = None  # (k, 1): what [z_i]_i tends to, where so many learners do not iterate z

    def own(self, z: Array) -> Array:
        """[z_i]_i of every learner i of the block, as a column."""
        own: Array = z if self.share is not None else kind_of(z).pick(z, self.ids)
        return own

    def unit(self) -> Array:
        """Where z starts: (k, m), e_i of every learner i, as an array of the kind that the block computes with.

        Of more learners than an m × m array should be made for it is (k, 1), their exact shares, and stays so: the
        round from which z no longer changes is then the first.
        """
        if self.share is not None:
            return self.share
        unit: Array = kind_of(self.R_ii).make(np.eye(self.m))[self.ids]
        return unit

    def part(self, some: slice) -> Rows:
        """Some of the block's learners."""
        R_ii, C_ii, W_ii, D_ii = (own[some] for own in (self.R_ii, self.C_ii, self.W_ii, self.D_ii))
        share = None if self.share is None else self.share[some]
        return self._replace(ids=self.ids[some], R_ii=R_ii, C_ii=C_ii, W_ii=W_ii, D_ii=D_ii, share=share)

    def of_kind(self, kind: Kind) -> Rows:
        """The same for a block that computes with arrays of that kind."""
        R_ii, C_ii, W_ii, D_ii = (kind.make(own) for own in (self.R_ii, self.C_ii, self.W_ii, self.D_ii))
        share, ids = None if self.share is None else kind.make(self.share), kind.make_indices(self.ids)
        return self._replace(ids=ids, R_ii=R_ii, C_ii=C_ii, W_ii=W_ii, D_ii=D_ii, share=share)


class Out(NamedTuple):
    """One value that leaves a learner: what, over which matrix's links, and whether it must be made private."""

    value: Array  # (k, n)
    over: Matrix
    private: bool


class Rounding(NamedTuple):
    """How far float64 moves one learner's new state from what the equations give, at most, in every coordinate.

    In round t by of_states[t] · S + of_gradient[t] · Γ, where no number of its state, and none that it received, is
    larger than S, and none of its gradient larger than Γ. See gossamer.privacy.rounding.
    """

    of_states: Array  # (T,)
    of_gradient: Array  # (T,)


class Dynamics(NamedTuple):
    """How differences between two neighbouring runs of one learner travel through an algorithm, T rounds long.

    x_{t+1} ≤ A_t x_t + b_t G_t, where G_t bounds the difference of the round's gradients, x[point] is the difference at
    the point where they are taken, and channel c sends a value that differs by x[channels[c]]: in round t by that of
    x_t or, for a channel in `after`, whose message contains the round's own gradient, by that of x_{t+1}.
    """

    A: Array  # (T, d, d), ≥ 0; constant once the graph's mixing has settled, or v is None
    b: Array  # (T, d), ≥ 0; proportional to (t+1)^-v from then on
    v: float | None  # None where A or b is not of that form: then nothing is known for ever
    point: int
    channels: dict[str, int]
    after: frozenset[str] = frozenset()
