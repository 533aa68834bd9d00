"""All messages of a run, as somebody on the wire sees them, and the gradients that can be read off them.

Equation (7) of Algorithm 1, for one learner, with what it receives written out:

    s_i(t+1) = (1 + C_ii) s_i(t) + Σ_{j≠i} C_ij s_j(t) + λ_t g_i(t)

Without noise on messages all of it but g_i(t) is on the wire, so that λ_t g_i(t) is what is left: every gradient of
every learner is read exactly, whatever the model. With noise at the source it is the noised gradient, exactly. With
noise on messages it is the gradient and the noise of two messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gossamer.algorithms import ldp_gradient_tracking
from gossamer.algorithms.base import Algorithm
from gossamer.arrays import dense, kind_of
from gossamer.models import Gradient, LinearModel, Model
from gossamer.networks import Network
from gossamer.privacy import Mechanism, PrivateBoundary
from gossamer.privacy.unproved import Unproved
from gossamer.rounds import Rounds
from gossamer.schedules import Decay
from gossamer.setting import setting_of
from gossamer.simulate.mixer import Mixer
from gossamer.streams import Stream
from gossamer.types import Array, Matrix

OVER: tuple[Matrix, Matrix] = ("C", "R")  # what s, and what θ and z, are sent over


@dataclass(frozen=True)
class Scene:
    """A run of Algorithm 1 that somebody listens to; a record arrives at every learner in each round."""

    network: Network
    stream: Stream
    model: Model
    step: Decay
    rounds: int
    gradient: Gradient = "history"
    mechanism: Mechanism | None = None
    seed: int = 0

    @cached_property
    def algorithm(self) -> Algorithm[Any]:
        return ldp_gradient_tracking(step=self.step)

    @cached_property
    def start(self) -> Any:
        """(m, n): where all learners start, which is public."""
        return self.model.start(self.network.m, self.seed, self.stream.table.columns)

    @property
    def ridge(self) -> Any:
        columns = self.stream.table.columns
        return self.model.ridge(columns) if isinstance(self.model, LinearModel) else self.model.l2

    @cached_property
    def weights(self) -> dict[str, Array]:
        """By channel, (m, m) of weights with which messages reach others."""
        pushed, pulled = (dense(self.network.off_diagonal(over)) for over in OVER)
        return {"s": pushed, "theta": pulled, "z": pulled}

    def boundary(self) -> PrivateBoundary | Unproved:
        if self.mechanism is None:
            return Unproved(None)
        setting = setting_of(self.algorithm, self.network, self.stream, self.model, self.gradient, self.rounds)
        return self.mechanism.over(self.rounds).bind(setting)

    def memory(self, learners: int) -> Any:
        room = np.full(learners, self.rounds if self.gradient == "history" else 1, dtype=np.int64)
        return self.model.memory(self.stream.table, self.gradient, room)


class Heard(NamedTuple):
    """What is on the wire: in each of `rounds` + 1 rounds, by channel, (m, n) of messages."""

    sent: list[dict[str, Array]]
    boundary: Any  # of the run: its scales and releases, which are public


def listen(scene: Scene) -> Heard:
    """Run the scene with the parts that every engine has, and keep all that is sent."""
    boundary = scene.boundary()
    rows = scene.network.rows(mixes=scene.algorithm.mixes).of_kind(scene.model.arrays)
    mix = Mixer(scene.network, scene.algorithm.mixes, scene.model.arrays)
    private = isinstance(boundary, PrivateBoundary)
    rounds = Rounds(scene.algorithm, rows, scene.memory(scene.network.m), boundary, scene.ridge, finite=private)
    state = rounds.start(scene.algorithm.init(rows, scene.start))
    sent = []
    for t in range(scene.rounds):
        gradient, out = rounds.send(state, scene.stream.arrivals(t), t)
        sent.append({channel: _array(each.value) for channel, each in out.items()})
        got = {channel: mix(each.over, each.value) for channel, each in out.items()}
        state = rounds.receive(state, gradient, got, [c for c, each in out.items() if each.private], t)
    if scene.mechanism is None or scene.mechanism.where == "source":  # one message more, in which the last gradient is
        sent.append({"s": _array(state.s), "theta": _array(state.theta)})
    return Heard(sent, boundary)


def _array(value: Any) -> Array:
    return np.array(kind_of(value).to_numpy(value), dtype=float)


def received(scene: Scene, heard: Heard, t: int, learner: int) -> dict[str, Array]:
    """What came to a learner in round t, by channel: sums of what is on the wire."""
    return {channel: scene.weights[channel][learner] @ value for channel, value in heard.sent[t].items()}


def read_gradients(scene: Scene, heard: Heard, learner: int) -> Array:
    """(rounds, n): g_i(t) by equation (7), the data's part, without the ridge's l2 θ."""
    own = 1 + scene.network.rows([learner]).C_ii[0, 0]
    gradients = []
    for t in range(len(heard.sent) - 1):
        came = received(scene, heard, t, learner)["s"]
        left = heard.sent[t + 1]["s"][learner] - own * heard.sent[t]["s"][learner] - came
        gradients.append(left / scene.step(t) - scene.ridge * heard.sent[t]["theta"][learner])
    return np.array(gradients)
