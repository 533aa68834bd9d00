"""A round of very many learners in one pass over their states, on a GPU.

Every method here is linear, learner by learner, in a learner's own numbers and in what it receives. With x_f the fields
of a state, g the gradient and got_c what came over channel c,

    x_f⁺ = Σ_h a_fh x_h + b_f g + Σ_c d_fc got_c        one a, b, d for each learner and round

and these few numbers are found by handing unit vectors to the algorithm's own `emit` and `step`: nothing about a method
is written twice. One kernel (`gather`) then reads every learner's own row once, gathers its neighbours' rows, finds the
gradient of its records, and writes its new row. What torch does in a dozen passes over the states is one.

That is for methods whose messages lie in memory: parts of the state as they are, or what `emit` gives, with or without
seeded noise. Methods that cut numbers off are not linear; they, and machines without Triton, play whole rounds.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Generic, NamedTuple

import numpy as np

from gossamer.algorithms.base import Algorithm, State
from gossamer.arrays import Tensors
from gossamer.models import LinearModel, Memory
from gossamer.models.tensors import TensorMemory
from gossamer.networks import Network
from gossamer.records import Batch
from gossamer.rounds import Rounds
from gossamer.types import Array, Rows

FAR = 2.0**300  # a finite box cuts off values of this size
TRIED = 64  # learners on which linearity is tried
MOST_CHANNELS = 3  # that the kernel takes
MOST_AT_ONCE = 16  # rows of neighbours in a warp's registers


class Form(NamedTuple):
    """What of an algorithm's state is as wide as θ, and what it sends."""

    wide: tuple[str, ...]
    narrow: tuple[str, ...]  # such as z, which is one number of each learner
    channels: tuple[str, ...]


def form_of(algorithm: Algorithm[Any], rows: Rows) -> Form | None:
    """None where the method is not linear in this sense, or sends what the kernel does not take."""
    few = rows.part(slice(0, min(TRIED, len(rows.ids))))
    width, k = 7, len(few.ids)
    state = algorithm.init(few, np.zeros((k, width)))
    wide = tuple(name for name, value in state._asdict().items() if value.shape[1] == width)
    sent = algorithm.emit(state, np.zeros((k, width)), few, 0)
    if any(out.value.shape[1] != width for out in sent.values()) or len(sent) > MOST_CHANNELS:
        return None
    form = Form(wide, tuple(name for name in state._asdict() if name not in wide), tuple(sent))

    def stepped(x: Array) -> Array:
        new = _stepped(algorithm, form, few, state, list(x), 0)
        return np.stack([getattr(new, name) for name in wide])

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, len(wide) + 1 + len(sent), k, width))
    both = np.allclose(stepped(a + b), stepped(a) + stepped(b), rtol=1e-9, atol=1e-9)
    return form if both and np.allclose(stepped(FAR * a) / FAR, stepped(a), rtol=1e-9, atol=1e-9) else None


def _stepped(algorithm: Algorithm[State], form: Form, rows: Rows, state: State, given: list[Any], t: int) -> State:
    """The algorithm's step of given fields, gradient and arrivals, in this order."""
    fields, grad = given[: len(form.wide)], given[len(form.wide)]
    got = dict(zip(form.channels, given[len(form.wide) + 1 :], strict=True))
    return algorithm.step(state._replace(**dict(zip(form.wide, fields, strict=True))), got, grad, rows, t)


class Links(NamedTuple):
    """Who hears whom, of all channels one after the other, as the kernel reads it."""

    starts: Any  # (channels, m + 1): where a learner's links begin, counted through all channels
    senders: Any
    weights: Any
    at_once: int  # rows that are on their way at once: as many as a learner has links, on average


def links_of(network: Network, overs: list[Any], kind: Tensors) -> Links:
    """The links of these matrices, each channel's after the other's."""
    parts: list[Any] = [network.off_diagonal(over) for over in overs]
    before = np.cumsum([0, *(part.nnz for part in parts)])
    starts = np.stack([part.indptr.astype(np.int64) + first for part, first in zip(parts, before, strict=False)])
    senders = np.concatenate([part.indices for part in parts]).astype(np.int32)
    at_once = min(MOST_AT_ONCE, max(1, round(before[-1] / (len(parts) * network.m))))
    return Links(
        kind.make_indices(starts),
        kind.make_indices(senders),
        kind.make(np.concatenate([p.data for p in parts])),
        at_once,
    )


class Passes(Generic[State]):
    """Plays a round of all learners in one pass. A state is good for one more round: then it is written anew.

    `rounds` serves where messages or gradients take more than the kernel does: noise, softmax, clipping, weights.
    """

    def __init__(
        self,
        algorithm: Algorithm[State],
        form: Form,
        network: Network,
        rows: Rows,
        model: LinearModel,
        memory: TensorMemory,
        rounds: Rounds[State],
        state: State,
        plain: bool,
    ) -> None:
        kind: Any = model.arrays
        self._algorithm, self._form, self._rows, self._memory = algorithm, form, rows, memory
        self._rounds, self._kind = rounds, kind
        self._torch: Any = importlib.import_module("torch")
        self._round = importlib.import_module("gossamer.simulate.gather").one_round
        theta: Any = state.theta
        self._banks = [theta.new_empty(len(form.wide), *theta.shape) for _ in range(2)]
        for place, name in zip(self._banks[0], form.wide, strict=True):
            place.copy_(getattr(state, name))
        state = self._views(state)
        sent = algorithm.emit(state, theta, rows, 0)
        self._links = links_of(network, [out.over for out in sent.values()], kind)
        unit = self._torch.eye(len(form.wide) + 1 + len(sent), dtype=kind.dtype, device=kind.device)
        self._units = list(unit[:, None])  # one row for all learners: what is the same for all is worked out once
        self._tables = unit.new_empty(len(form.wide), rows.m, len(unit))
        self._ridge = kind.make(model.ridge(theta.shape[1] // model.outputs))
        self._point, self._loss = self._place(state, algorithm.point(state)), model.kernel
        self._fuses = plain and self._loss is not None and model.clip is None and self._point is not None
        self._sends_state = all(self._place(state, out.value) is not None for out in sent.values())

    def __call__(self, state: State, records: Batch, t: int) -> State:
        state, grad = self._views(state), None
        if not self._fuses:
            both = self._rounds.send(state, records, t)
            grad, sent = self._kind.narrow(both.gradient), both.out
        else:
            self._memory.observe(records)
            if not self._sends_state:
                point = self._algorithm.point(state)
                grad = self._kind.add_scaled(self._memory.gradient(point), self._ridge, point)
            sent = self._algorithm.emit(state, state.theta if grad is None else grad, self._rows, t)
        table, after = self._table(state, t)
        self._round(
            self._banks[0], self._banks[1], table, [out.value for out in sent.values()], self._links,
            grad, self._memory, self._point, self._ridge, self._loss,
        )  # fmt: skip
        self._banks.reverse()
        return self._views(after)

    def _table(self, state: State, t: int) -> tuple[Any, State]:
        """(fields, m, …) numbers that make round t, and the state after it but for what is wide."""
        after = _stepped(self._algorithm, self._form, self._rows, state, self._units, t)
        for table, name in zip(self._tables, self._form.wide, strict=True):
            table.copy_(getattr(after, name))
        return self._tables, after

    def _views(self, state: State) -> State:
        """The state whose wide fields lie in the newest bank."""
        return state._replace(**dict(zip(self._form.wide, self._banks[0], strict=True)))

    def _place(self, state: State, value: Any) -> int | None:
        """Which field of the state an array is; None where it is none of them."""
        return next((k for k, name in enumerate(self._form.wide) if getattr(state, name) is value), None)


def passes(
    algorithm: Algorithm[State],
    network: Network,
    rows: Rows,
    model: LinearModel,
    memory: Memory,
    rounds: Rounds[State],
    state: State,
    plain: bool,
) -> Passes[State] | None:
    """A run in single passes, where the kernel can be had and the method is linear; `plain`: nothing is noised."""
    there = model.arrays.place == "cuda" and importlib.util.find_spec("triton") is not None
    if not there or network.iterates_z or not isinstance(memory, TensorMemory):
        return None
    form = form_of(algorithm, network.rows(np.arange(TRIED), algorithm.mixes))
    if form is None:
        return None
    return Passes(algorithm, form, network, rows, model, memory, rounds, state, plain)
