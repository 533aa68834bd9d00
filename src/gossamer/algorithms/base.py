"""What an algorithm is: a few pure functions on a block of learners.

    init(rows, theta0)              -> State
    emit(state, grad, rows, t)      -> {channel: Out}      all that ever leaves a learner
    step(state, got, grad, rows, t) -> State               got[channel] = Σ_{j≠i} W_ij · received_j

A block of all m learners is the simulator, a block of one is a party's own process. An algorithm knows nothing of
sockets, graphs, random numbers or privacy; the noise is added to what `emit` returns, at the privacy boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.schedules import Schedule
from gossamer.types import Array, Dynamics, Matrix, Out, Rows


class AlgorithmState(Protocol):
    """What every algorithm's state is: a NamedTuple of arrays with one row for each learner, one of them `theta`."""

    @property
    def theta(self) -> Array: ...
    def _asdict(self) -> dict[str, Any]: ...
    def _replace(self, *args: Any, **kwargs: Any) -> Self: ...


State = TypeVar("State", bound=AlgorithmState)
State_co = TypeVar("State_co", bound=AlgorithmState, covariant=True)
State_contra = TypeVar("State_contra", bound=AlgorithmState, contravariant=True)


class Init(Protocol[State_co]):
    """Where a block of learners starts: its state in round 0, from its place in the network and θ_0.

    It draws no random numbers and sees no records. An array that is about the graph, such as z, is made by
    `rows.unit()`; all others are as wide as θ.
    """

    def __call__(self, rows: Rows, theta0: Array, /) -> State_co: ...


class Emit(Protocol[State_contra]):
    """Everything that leaves the learners in round t, by channel; the privacy boundary noises it, and nothing else.

    A value is marked `private=False` only if it is a function of the graph alone. The channels and their links may
    depend on t and on the graph, never on `state` or `grad`: everybody must know what to expect of everybody. It
    changes nothing, and may be called more often than messages are sent.
    """

    def __call__(self, state: State_contra, grad: Array, rows: Rows, t: int, /) -> dict[str, Out]: ...


class Step(Protocol[State]):
    """The state of round t + 1, from round t's state, gradient and messages.

    got[channel] = Σ_{j≠i} W_ij · received_j: what learner i kept of its own value is not in it, unless the channel goes
    over "I+W", where its own noisy message comes back to it with the weight 1 + W_ii. Row i of the new state
    is computed from row i of the arguments, since a party runs a block of one. The old state must not be written to.
    Arrays may be torch tensors, and where rounding is bounded they are stand-ins: only +, −, ×, ÷ by public numbers and
    `x.clip(low, high)` are understood by all.
    """

    def __call__(self, state: State, got: Mapping[str, Array], grad: Array, rows: Rows, t: int, /) -> State: ...


def parameters_of(step: Schedule, noise: Schedule | None, **more: Any) -> dict[str, Any]:
    """What a run record says of a method: its schedules, and whatever else it was given."""
    return {"step": repr(step), **more, "noise": None if noise is None else repr(noise)}


class OverTime(NamedTuple):
    """What a method asks of a network that changes, and what is known of it there: see gossamer.simulate.changing.

    known       what is proved on networks that change, and of whom, in a sentence
    pushed      the channels of trackers, whose sums over learners must be kept, and the field of the state each feeds
    lost        how such a channel may get over lost messages, the usual way first: see gossamer.simulate.lost
    stirred     whether θ moves by what such a field changes, so that the field has to come to rest
    hands_over  whether a learner that leaves hands such a field to its neighbours; otherwise it takes it along
    fades       whether links fade with rounds: then weights are those of the mean network
    """

    known: str
    pushed: Mapping[str, str] = {}
    lost: tuple[Literal["sums", "ahead", "kept"], ...] = ()
    stirred: bool = False
    hands_over: bool = False
    fades: bool = False


AUTO = "auto"  # a step that is found by rule: see gossamer.automatic


@dataclass(frozen=True)
class Algorithm(Generic[State]):
    """An algorithm as a value.

    init, emit, step   see `Init`, `Emit` and `Step`
    point       where the round's gradient is taken; θ unless the method says otherwise
    noise       the noise scales it is meant to run with, if it was given any
    broken      the sentences in which a noise schedule breaks the method's assumptions; empty: none broken
    strict      whether a broken assumption is refused, or run and noted
    mixes       the matrices whose links it sends over; "I+W" where a learner's own term carries the noise that it
                sends, as some papers have it: got["…"] then contains (1+W_ii) times its own message
    dynamics    how differences between neighbouring runs of one learner travel: what privacy is accounted from.
                Called with the learner's rows and its own weights [z_{i,t}]_i over the rounds; None: no claim is made
    weights     Σ w_i f_i is what it minimises without noise, w a function of the Perron vector u; None: w = 1
    conserves   what a round's gradients add up to in the model that learners come to share, from the round on in which
                mixing has settled: "sum" where all count alike, so that noise that cancels between learners leaves
                no trace; "weighted" where they count as `weights` say; None: no claim is made. Both hold exactly, for
                steps that are one for all learners and as long as no box clips; where that is only approached: None
    parameters  what a run record says of it
    with_step   where the step is to be found by rule: the same method with steps that start at λ0
    falls       and the exponent with which they fall
    over_time   what it asks of a network that changes; None: nothing is known, and such a run is refused
    """

    name: str
    init: Init[State]
    emit: Emit[State]
    step: Step[State]
    point: Callable[[State], Array] = lambda state: state.theta
    noise: Schedule | None = None
    broken: Callable[[Schedule | None], list[str]] = lambda noise: []
    strict: bool = True
    mixes: tuple[Matrix, ...] = ("R", "C")
    dynamics: Callable[[Rows, Array], Dynamics] | None = None
    weights: Callable[[Array], Array] | None = None
    conserves: Literal["sum", "weighted"] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    with_step: Callable[[float], Algorithm[Any]] | None = None
    falls: float = 0.0
    over_time: OverTime | None = None

    def __post_init__(self) -> None:
        if self.conserves not in ("sum", "weighted", None):
            raise BadValue("conserves", self.conserves, "expected 'sum', 'weighted' or None")
        self.notes(self.noise)  # a strict algorithm refuses its own schedules at once

    def notes(self, noise: Schedule | None) -> list[str]:
        """What a run with this noise breaks; refuses instead where the algorithm is strict."""
        broken = self.broken(noise)
        if broken and self.strict:
            raise GossamerError(
                f"{self.name}: {' '.join(broken)} Change the schedules, or say ",
                Argument("strict", False), " to run all the same.",
            )  # fmt: skip
        return broken
