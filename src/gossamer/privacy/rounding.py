"""What float64 adds to the difference of two neighbouring runs, whatever a learner receives.

The recursion in gossamer.privacy.recursion is about exact numbers. A computer rounds every operation, by up to
u = 2^-53 of its result, and whoever chooses what a learner receives chooses how large its results are. A neighbour
that pushes θ to 2^92 and pulls it back leaves a multiple of 2^40 behind, which multiple being decided by the last bit
of what was there before, and so by one record. Noise of scale 1 does not hide that. Two things close it.

**Nothing is large.** Of every sum that a learner receives, and of every state that it keeps, no coordinate is larger
than S_t = 2^14 ν_t, where ν_t is the scale of its own noise in that round. What is larger is cut off to that
(`PrivateBoundary.take` and `.hold`). Cutting off coordinate by coordinate moves no two states apart.

**What is left is charged.** With inputs of bounded size the error of a step has a bound that depends on nothing else.
`rounding_of` finds it by running the algorithm's own `emit` and `step` on numbers of the kind `Bounded`, each of which
stands for all float64 numbers up to a size, with an error up to some other, and which follow the rules of
floating-point arithmetic (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., SIAM 2002, §2.2):

    fl(x ∘ y) = (x ∘ y)(1 + d),  |d| ≤ u        for ∘ in +, −, ×, ÷

Errors are linear in the sizes, so that a round has two numbers: the error for states and sums of size at most 1 without
a gradient, and the error for a gradient of size at most 1 alone. In two neighbouring runs the states are then further
apart than the recursion says by at most twice the error in each coordinate; so the recursion gains a term, and the
ledger charges it (gossamer.privacy.recursion). An algorithm that does anything else with its numbers than adding,
subtracting, scaling and clipping them gets no bound, and with it no claim.

**The recursion's own numbers** are rounded, too: `dynamics` takes |C_ii| for what a step moves by, where code has
fl(1 + C_ii) − 1, and |1 + γ W_ii| is found to 2u. `enlarged` makes A and b larger by one part in 2^30, and A's diagonal
by 2^-51 more, which covers that where no own weight is closer to 0 than 2^-20 (others are refused).

Numbers too small for float64's range are no concern: scales below 1e-280 are refused (gossamer.privacy.exact).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gossamer.errors import GossamerError, NotProvable
from gossamer.types import Array, Dynamics, Rounding, Rows

UNIT = 2.0**-53  # u: an operation's relative error
SAFE = 1.001  # for the rounding of these bounds themselves
LEAST_WEIGHT = 2.0**-20  # of a learner's own |R_ii|, |C_ii|, …, where it is not 0
FAR = 2.0**14  # noise scales: no coordinate of a state or of a received sum is larger


class Bounded:
    """All numbers x up to a size in absolute value, each within `error` of what exact arithmetic would give."""

    __array_ufunc__ = None  # arrays leave it to us to be multiplied with one

    def __init__(self, size: Any, error: Any) -> None:
        self.size, self.error = size, error

    def _rounded(self, size: Any, error: Any) -> Bounded:
        return Bounded(size * (1 + UNIT), error + UNIT * size)

    def __add__(self, other: Any) -> Bounded:
        if isinstance(other, Bounded):
            return self._rounded(self.size + other.size, self.error + other.error)
        if np.all(np.asarray(other) == 0):
            return self
        return NotImplemented

    __radd__ = __add__
    __sub__ = __add__
    __rsub__ = __add__

    def __neg__(self) -> Bounded:
        return self

    def __mul__(self, factor: Any) -> Bounded:
        if isinstance(factor, Bounded):
            return NotImplemented
        return self._rounded(np.abs(factor) * self.size, np.abs(factor) * self.error)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Bounded:
        return NotImplemented if isinstance(divisor, Bounded) else self * (1 / np.asarray(divisor, dtype=float))

    def clip(self, low: Any, high: Any) -> Bounded:
        """Clipping to public numbers moves no number away from another."""
        return NotImplemented if isinstance(low, Bounded) or isinstance(high, Bounded) else self


class _EveryRound(np.ndarray[Any, Any]):
    """Rounds as one array, on which only arithmetic is done, element by element.

    A schedule of one's own may look at a round otherwise (`if t < 5`, `np.all(…)`); that fails here, and such a
    schedule is asked round by round.
    """

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        if method != "__call__" or ufunc.nout != 1 or all(kind.endswith("?") for kind in ufunc.types):
            raise TypeError(f"{ufunc.__name__} of many rounds at once")
        plain = (np.asarray(x).view(np.ndarray) if isinstance(x, _EveryRound) else x for x in inputs)
        return np.asarray(ufunc(*plain, **named)).view(_EveryRound)


class _Always:
    """Larger than every round, or smaller: so that an algorithm may ask `t < rows.settles` of many rounds at once."""

    __array_ufunc__ = None

    def __init__(self, later: bool) -> None:
        self._later = later

    def __gt__(self, t: Any) -> bool:
        return self._later

    def __lt__(self, t: Any) -> bool:
        return not self._later

    __ge__, __le__ = __gt__, __lt__


def enlarged(dynamics: Dynamics) -> Dynamics:
    """A and b with what their own rounding may hide; refuses what is not a size."""
    if not ((dynamics.A >= 0).all() and (dynamics.b >= 0).all()):
        raise NotProvable(
            "the algorithm's dynamics hold a negative number, or none at all: they are sizes; use steps and weakening "
            "factors above 0."
        )
    A = dynamics.A * (1 + 2.0**-30) + 2.0**-51 * np.eye(dynamics.A.shape[1])
    return dynamics._replace(A=A, b=dynamics.b * (1 + 2.0**-30))


def check_weights(rows: Rows) -> None:
    """Refuse own weights so close to 0 that what a step keeps of a state cannot be told from all of it."""
    for name in ("R_ii", "C_ii", "W_ii", "D_ii"):
        own = np.abs(getattr(rows, name))
        if ((own > 0) & (own < LEAST_WEIGHT)).any():
            raise NotProvable(
                f"learner {int(rows.ids[0])} gives away {own.max():.1e} of its state, expected nothing or at least "
                f"{LEAST_WEIGHT:.1e}, for noise on messages: use larger weights, or noise at the source."
            )


def noised_fields(algorithm: Any, rows: Rows) -> list[str]:
    """The parts of an algorithm's state that hold parameters, and not something about the graph."""
    width = 7 * rows.m + 1  # of no other array
    state = algorithm.init(rows.part(slice(1)), np.zeros((1, width)))
    return [name for name, value in state._asdict().items() if np.shape(value)[1:] == (width,)]


def rounding_of(algorithm: Any, rows: Rows, z: Array, channels: Sequence[str], after: frozenset[str]) -> Rounding:
    """The rounding of one learner's rounds 0 … len(z)−1; `rows` is its own, `z` its own weights [z_i]_i.

    Refuses an algorithm whose rounding it cannot bound.
    """
    rounds = np.arange(len(z))
    settled = rounds >= rows.settles
    errors = np.zeros((2, len(z)))
    for some in (rounds[~settled], rounds[settled]):
        if len(some):
            errors[:, some] = _errors(algorithm, rows, z, some, channels, after)
    return Rounding(*errors)


def _errors(algorithm: Any, rows: Rows, z: Array, rounds: Any, channels: Sequence[str], after: frozenset[str]) -> Array:
    """(2, rounds): every round is one row of a block, so that one call of `step` serves them all."""
    settled = bool(rounds[0] >= rows.settles)
    try:
        return _errors_at(algorithm, rows, z[rounds], rounds[:, None], settled, channels, after)
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, GossamerError):
            raise
        if len(rounds) == 1:
            raise NotProvable(
                f"the rounding of {algorithm.name} cannot be bounded: its emit() and step() may only add, subtract, "
                "multiply and divide by public numbers, and clip with x.clip(low, high), not with NumPy's functions "
                f"({error}); write them so, or use noise at the source."
            ) from None
    one_by_one = [_errors(algorithm, rows, z, rounds[k : k + 1], channels, after) for k in range(len(rounds))]
    return np.concatenate(one_by_one, axis=1)


def _unbounded(algorithm: Any, why: str, remedy: str) -> NotProvable:
    said = f"the rounding of {algorithm.name} cannot be bounded, as {why}"
    return NotProvable(f"{said}: {remedy}, or use noise at the source.")


def _errors_at(
    algorithm: Any, rows: Rows, z: Array, t: Any, settled: bool, channels: Sequence[str], after: frozenset[str]
) -> Array:
    wide = noised_fields(algorithm, rows)
    start = algorithm.init(rows, np.zeros((1, 1)))
    graph = {name: value for name, value in start._asdict().items() if name not in wide}
    if any(not np.array_equal(value, rows.unit()) for value in graph.values()):
        raise _unbounded(algorithm, f"it keeps {', '.join(graph)} besides parameters", "keep nothing but z")
    # the learner's place in the network, once for every round, with [z_i]_i in the first column of z
    own: Any = {name: np.repeat(getattr(rows, name), len(z), axis=0) for name in ("R_ii", "C_ii", "W_ii", "D_ii")}
    settles: Any = _Always(later=not settled)
    block = rows._replace(ids=np.zeros(len(z), dtype=np.int64), settles=settles, **own)
    time = t.view(_EveryRound) if len(t) > 1 else int(t[0, 0])
    errors = []
    for of_states, of_gradient in ((1.0, 0.0), (0.0, 1.0)):
        column = np.ones((len(z), 1))
        numbers = {name: Bounded(of_states * column, 0 * column) for name in wide}
        state = type(start)(**numbers, **dict.fromkeys(graph, z[:, None]))
        if not any(algorithm.point(state) is part for part in numbers.values()):
            why = "its gradient is taken at a point that is no part of its state"
            raise _unbounded(algorithm, why, "keep the point there")
        grad = Bounded(of_gradient * column, 0 * column)
        sent = algorithm.emit(state, grad, block, time)
        got = {c: Bounded(of_states * column, 0 * column) if o.private else 0 * column for c, o in sent.items()}
        stepped = algorithm.step(state, got, grad, block, time)
        values = [sent[c].value for c in channels] + [getattr(stepped, name) for name in wide]
        for channel in channels:
            if channel not in after and not any(sent[channel].value is part for part in numbers.values()):
                raise _unbounded(algorithm, f"channel {channel!r} sends what is no part of its state", "keep it there")
        plain = [np.broadcast_to(np.asarray(value.error).view(np.ndarray), column.shape) for value in values]
        errors.append(np.max(plain, axis=0)[:, 0])
    return SAFE * np.array(errors)
