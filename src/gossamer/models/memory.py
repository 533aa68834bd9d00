"""What each learner remembers of its records, and the gradient over it.

history   ∇f_{i,t}(θ) = 1/(records so far) Σ_k ∇l(θ, ξ_{i,k}), recomputed at the current θ (Chen & Wang, Alg. 1 line 2)
latest    the same mean over the newest round's records only
window    the same over the newest R rounds' (`remember=R` of a model): as much work a round as R rounds' records take

The history takes work that grows with every round: T rounds take T² in all. A window takes R a round, and twice its own
records in memory: they lie one after another in the order in which they came, in a piece twice as long. The oldest are
forgotten by starting later, and the others are moved to the front when the piece is used up. What is computed depends
on the records and their order alone, not on where in the piece they lie: a learner that starts again goes on alike.

Least squares without a clipper keeps no records for the former: see gossamer.models.statistics. Otherwise a learner's
records lie side by side in one piece of a shared array, so that one kernel call serves all learners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.lazy import import_once
from gossamer.models.base import Gradient
from gossamer.models.bounds import LARGEST, MOST_RECORDS, UNIT, Clip, Norm
from gossamer.models.objective import quality_of
from gossamer.models.window import Window
from gossamer.records import Batch, Table, runs
from gossamer.types import Array, Integers

if TYPE_CHECKING:
    from gossamer.models.linear import LinearModel

Change = Callable[[Array, Integers], Array]
ALL = slice(None)
RECORDS_AT_FIRST = 2**22  # a run may be asked for more rounds than memory holds records: grow when they come


class LinearMemory:
    """Records of k learners and a linear model's gradients over them, by the kernel for this kind of rows."""

    def __init__(self, model: LinearModel, table: Table, keep: Gradient, room: Integers, alone: bool = False) -> None:
        kernels = kernels_for(table, room, alone)
        check_labels(model, table)
        clip = model.clip
        check_keep(model, keep)
        if keep == "latest" and model.remember is not None:
            raise GossamerError(
                Argument("remember", model.remember), " is for ", Argument("gradient", "history"),
                ": use it, or leave it out.",
            )  # fmt: skip
        self._model, self._table, self.keep = model, table, keep
        self._coded = table.codebook is not None
        self._clip_each = clip if clip is not None and clip.per == "record" else None
        self._clip_round = clip if clip is not None and clip.per == "round" else None
        if model.kernel is None:
            self._kernel = kernels.coded_softmax if self._coded else kernels.dense_softmax
        else:
            self._kernel = kernels.coded_scalar if self._coded else kernels.dense_scalar
        self.filled = np.zeros(len(room), dtype=np.int64)
        self._window = None if model.remember is None else Window(model.remember, len(room))
        most = max(1, RECORDS_AT_FIRST // len(room))
        self.rows: Array
        self.labels: Array
        self.limits: Array
        self.start: Integers
        self._make_room(self._pieces * np.clip(room, 1, most))

    def observe(self, batch: Batch) -> None:
        """Take in a round's records; with 'latest' they replace the ones before."""
        if self.keep == "latest" and not self._coded:
            self._look_at(batch)
            return
        if self.keep == "latest":
            self.filled = np.zeros_like(self.filled)
        elif not len(batch.labels):
            return
        if self._window is not None:
            forgotten = self._window.turn(batch.counts)
            self.start, self.filled = self.start + forgotten, self.filled - forgotten
        self._make_place(self.filled + batch.counts)
        place = runs(self.start + self.filled, batch.counts)
        if self._coded:
            self.rows[:, place] = batch.rows.T
        else:
            self.rows[place] = batch.rows
        self.labels[place] = batch.labels
        if self._clip_each is not None:
            records = replace(self._table, rows=batch.rows, labels=batch.labels)
            self.limits[place] = limits_of(records, self._clip_each, self._model.outputs)
        self.filled = self.filled + batch.counts

    def _look_at(self, batch: Batch) -> None:
        """A round's records where the stream put them: nobody needs them for longer."""
        self.rows, self.labels = np.ascontiguousarray(batch.rows), batch.labels
        self.start, self.filled = np.cumsum(batch.counts) - batch.counts, batch.counts
        if self._clip_each is not None:
            records = replace(self._table, rows=batch.rows, labels=batch.labels)
            self.limits = limits_of(records, self._clip_each, self._model.outputs)

    def let_go(self) -> None:
        """Forget the newest round's records, once the round is over, where no later one looks at them."""
        if self.keep == "latest" and not self._coded:
            self.rows, self.labels, self.filled = self.rows[:0].copy(), self.labels[:0].copy(), 0 * self.filled

    def gradient(self, theta: Array, learners: slice = ALL) -> Array:
        """The mean over each learner's remembered records; θ has a row for each of these learners."""
        model, scale = self._model, self._table.scale
        theta = np.asarray(theta, dtype=np.float64)
        # Coded features are 0 or 1 to the kernel; with features 0 or σ, f(σθ) has the gradient σ f'(σθ).
        point = theta * scale if scale != 1 else theta
        grad = np.empty_like(theta)
        book = () if self._table.codebook is None else (self._table.codebook,)
        records = (self.rows, self.labels, self.limits, *book, self.start[learners], self.filled[learners])
        if model.kernel is None:
            by_class = (len(theta), -1, model.outputs)
            order = 2 if model.clip is None else model.clip.norm
            self._kernel(*records, point.reshape(by_class), order, grad.reshape(by_class))
        else:
            self._kernel(*records, point, model.kernel, grad)
        if scale != 1:
            grad *= scale
        return grad if self._clip_round is None else clipped(grad, self._clip_round)

    def quality(self, theta: Array, table: Table) -> Array:
        """How well every row of θ predicts a table's records, each of which counts as much as another."""
        return quality_of(self._model, theta, table)

    def change(self, rows: Change, labels: Change) -> None:
        """Replace every remembered record by what `rows` and `labels` make of it; both are told whose it is."""
        self.rows, self.labels = self.rows.copy(), self.labels.copy()  # they may lie in a stream
        for i, count in enumerate(self.filled):
            place, owner = slice(self.start[i], self.start[i] + count), np.full(count, i)
            if not self._coded:
                self.rows[place] = rows(self.rows[place], owner)
            self.labels[place] = labels(self.labels[place], owner)
            if self._clip_each is not None and not self._coded:
                records = replace(self._table, rows=self.rows[place], labels=self.labels[place])
                self.limits[place] = limits_of(records, self._clip_each, self._model.outputs)

    def kept(self) -> dict[str, Array]:
        """Nothing: the records themselves are observed again."""
        return {}

    def go_on(self, kept: Mapping[str, Array]) -> None:
        pass

    def records_of(self, i: int) -> tuple[Array, Array]:
        """What learner i remembers: rows, as they lie, and labels."""
        place = slice(self.start[i], self.start[i] + self.filled[i])
        return (self.rows[:, place].T if self._coded else self.rows[place]), self.labels[place]

    @property
    def _pieces(self) -> int:
        """How many times as long as a learner's records its piece is."""
        return 1 if self._window is None else 2

    def _make_place(self, needed: Integers) -> None:
        """See to it that every learner's records, once they are so many, end within its piece."""
        if (self._pieces * needed > self._room).any():
            self._grow(needed)
        for i in np.flatnonzero(self.start + needed > self._first + self._room):
            old, new = self._place(self.start[i], i), self._place(self._first[i], i)
            self._move(old, new, self.rows, self.labels, self.limits)
            self.start[i] = self._first[i]

    def _place(self, start: Any, i: Any) -> slice:
        return slice(start, start + self.filled[i])

    def _make_room(self, room: Integers) -> None:
        self._room = room
        self._first = np.cumsum(room) - room  # of each learner's piece
        self.start = self._first.copy()
        total = int(room.sum())
        width = self._table.rows.shape[1]
        self.rows = np.empty((width, total) if self._coded else (total, width), dtype=self._table.rows.dtype)
        self.labels = np.empty(total)
        self.limits = np.empty(0 if self._clip_each is None else total)

    def _grow(self, needed: Integers) -> None:
        if needed.max() > MOST_RECORDS:
            raise GossamerError(
                f"{needed.max()} records of a learner in one gradient: expected at most 2^25, up to which its rounding "
                "is proved; use ", Argument("gradient", "latest"), ", or fewer records a round.",
            )  # fmt: skip
        rows, labels, limits, start = self.rows, self.labels, self.limits, self.start
        self._make_room(np.maximum(2 * self._room, self._pieces * needed))
        for i in range(len(self.filled)):
            self._move(self._place(start[i], i), self._place(self.start[i], i), rows, labels, limits)

    def _move(self, old: slice, new: slice, rows: Array, labels: Array, limits: Array) -> None:
        """Records from where they lay in these arrays to where they are to lie in the memory's."""
        self.labels[new] = labels[old]
        if self._clip_each is not None:
            self.limits[new] = limits[old]
        if self._coded:
            self.rows[:, new] = rows[:, old]
        else:
            self.rows[new] = rows[old]


def kernels_for(table: Table, room: Integers, alone: bool) -> Any:
    """What computes gradients: compiled functions, or NumPy's for few records in a process of their own."""
    few = import_once("gossamer.models.few")
    if alone and few.are_few(int(room.max()), table.rows.shape[1]):
        return few
    return import_once("gossamer.models.kernels")  # only now: numba takes long to load


def check_keep(model: LinearModel, keep: Gradient) -> None:
    """Refuse what is no kind of memory, or none that the model's clipper is for."""
    if model.clip is not None and model.clip.per == "round" and keep == "history":
        raise GossamerError(
            "clipping per round needs ", Argument("gradient", "latest"), ": use it, or clip per record."
        )
    if keep not in ("history", "latest"):
        raise BadValue("gradient", keep, "expected 'history' (all records so far) or 'latest'")


def check_labels(model: LinearModel, table: Table) -> None:
    """Refuse labels that the model cannot learn; by what was declared of them, whatever the records hold."""
    if not table.classes:
        model.check_labels(table.labels)
        return
    model.check_labels(np.arange(float(table.classes)))
    strange = table.labels[~np.isin(table.labels, np.arange(table.classes))]
    if len(strange):
        raise GossamerError(
            f"a record has the label {strange[0]:g}, expected one of the {table.classes} declared: correct it."
        )


def limits_of(table: Table, clip: Clip, outputs: int) -> Array:
    """How large each record's ‖w‖ may be for ‖a‖ ‖w‖ ≤ c, in exact arithmetic, after all rounding of w and w a.

    With u = 2^-53, n columns and K outputs: a norm of n numbers is found to (n + 2) u, or to 1e-150 where squares
    underflow. A scalar weight is never above its limit. Softmax's are scaled by limit/norm, where the norm of K
    numbers is found to (K + 1) u, and the quotient and the product are rounded: ‖w‖ ≤ limit (1 + (K + 4) u). The
    product w a is rounded by u in each coordinate. Together that is less than (n + K + 16) u, and the limit is smaller
    than c/‖a‖ by twice that. A record with ‖a‖ > 1e100, whose margins may overflow, gets the limit 0, and no weight.
    """
    norms = row_norms(table, clip.norm)
    beyond = ~(norms <= LARGEST)
    limits: Array = clip.c / ((norms + 1e-150) * (1 + 2 * (table.columns + outputs + 16) * UNIT))
    limits[beyond] = 0.0
    return limits


def clipped(grad: Array, clip: Clip) -> Array:
    """Every row scaled back to norm ≤ c in exact arithmetic; a row that is not finite, or above 1e100, becomes 0.

    With u = 2^-53, a norm of n numbers is found to (n + 2) u, the factor and the products are rounded by 5u at most,
    and the row is scaled to c less twice that. Squares that underflow hide 1e-150, which is nothing beside u c.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.linalg.norm(grad, clip.norm, axis=1, keepdims=True)
    near = norms <= LARGEST  # beyond it c/norm may lose digits, as it does below 2^-1022
    shrinks = np.minimum(1.0, clip.c / np.maximum(norms * (1 + 2 * (grad.shape[1] + 16) * UNIT), 1e-150))
    return np.where(near, grad, 0.0) * np.where(near, shrinks, 0.0)


def row_norms(table: Table, norm: Norm) -> Array:
    """‖a‖ of every record, in float64 whatever the features are in; ∞ where it overflows."""
    book = table.codebook
    if book is None:
        with np.errstate(over="ignore"):
            return np.asarray(np.linalg.norm(table.rows.astype(np.float64, copy=False), norm, axis=1))
    value = table.rows.astype(np.int64) + book.offset
    ones = (book.first[value + 1] - book.first[value]).sum(axis=1)
    return np.asarray(table.scale * (ones if norm == 1 else np.sqrt(ones)))
