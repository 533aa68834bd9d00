"""A round as one matrix.

Every method here is linear, coordinate by coordinate: the new state of all m learners is a matrix times the old
state, the gradients and the noise,

    x⁺ = M_t (x, g, ξ)        x: (k m, n), k values a learner      g: (m, n)      ξ: (c m, n), one for each channel

and M_t, a few thousand numbers, depends on the round alone. It is found by handing unit vectors to the algorithm's
own `emit` and `step`; nothing about a method is written twice. What is not n wide, such as z, goes along from round to
round in float64. On a GPU the product is one kernel that draws its own noise and works in place (`kernel`), so that a
round of eleven million coordinates reads and writes the state once.

The noise is seeded by (seed, round): for studies, and not private.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, Generic

import numpy as np

from gossamer.algorithms.base import Algorithm, State
from gossamer.arrays import Kind
from gossamer.networks import Network
from gossamer.privacy.laws import LAPLACE, Law
from gossamer.privacy.simulated import SimulatedNoise
from gossamer.types import Array

ALIGNED = 64  # numbers from which a row starts
CHUNK = 1 << 20  # coordinates at a time, without the kernel
FAR = 2.0**300  # a finite box cuts off values of this size


class RoundMatrix(Generic[State]):
    """M_0, M_1, … of an algorithm on a network, to be asked for in this order."""

    def __init__(self, algorithm: Algorithm[State], network: Network, noise: SimulatedNoise | None) -> None:
        self._algorithm, self._noise, self._m = algorithm, noise, network.m
        self._rows = network.rows(mixes=algorithm.mixes)
        self._weights: Any = {over: network.off_diagonal(over) for over in algorithm.mixes}
        width = 7 * network.m + 1  # that no other array of a state has
        state = algorithm.init(self._rows, np.zeros((network.m, width)))
        self.form = state  # small, and of the algorithm's own type
        self.wide = [name for name, value in state._asdict().items() if value.shape[1] == width]
        self.narrow: dict[str, Array] = {n: v for n, v in state._asdict().items() if n not in self.wide}
        sent = algorithm.emit(state, np.zeros((network.m, width)), self._rows, 0)
        self._private = [channel for channel, out in sent.items() if out.private]
        self.columns = (len(self.wide) + 1 + len(self._private)) * network.m

    def next(self, t: int) -> Array:
        """(k m, (k+1+c) m), after which the narrow state is that of round t + 1."""
        made, self.narrow = self._applied(np.eye(self.columns), t)
        return made

    def linear(self) -> bool:
        """Whether the first round is linear: a finite box is not, and such a run is not for a matrix."""
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(2, self.columns, 3))
        (at_a, _), (at_b, _), (both, _), (far, _) = (self._applied(x, 0) for x in (a, b, a + b, FAR * a))
        close = np.allclose(both, at_a + at_b, rtol=1e-9, atol=1e-9)
        return bool(close and np.allclose(far / FAR, at_a, rtol=1e-9, atol=1e-9))

    def _applied(self, x: Array, t: int) -> tuple[Array, dict[str, Array]]:
        parts = np.split(x, self.columns // self._m)
        grad, noise = parts[len(self.wide)], dict(zip(self._private, parts[len(self.wide) + 1 :], strict=True))
        state = self.form._replace(**dict(zip(self.wide, parts, strict=False)), **self.narrow)
        got = {}
        for channel, out in self._algorithm.emit(state, grad, self._rows, t).items():
            scale = 0.0 if self._noise is None or not out.private else self._noise.scale(t)
            sent = out.value + scale * noise[channel] if out.private else out.value
            got[channel] = self._weights[out.over] @ sent
        after = self._algorithm.step(state, got, grad, self._rows, t)._asdict()
        return np.concatenate([after[name] for name in self.wide]), {name: after[name] for name in self.narrow}


class MatrixRounds(Generic[State]):
    """A state on a device that goes from round to round by M_t, in place."""

    def __init__(
        self, matrix: RoundMatrix[State], kind: Kind, noise: SimulatedNoise | None, state: State, start: int
    ) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._matrix, self._arrays, self._noise = matrix, kind, noise
        self._x = self._stacked([getattr(state, name) for name in matrix.wide])
        by_kernel = noise is None or noise.law.triton_branch is not None
        on_gpu = kind.place == "cuda" and self._x.dtype == self._torch.float32
        self._advance: Callable[..., None] | None = None
        if by_kernel and on_gpu and importlib.util.find_spec("triton") is not None:  # which compiles the kernel
            self._advance = importlib.import_module("gossamer.simulate.kernel").advance
        for t in range(start):  # to the narrow state of that round, by the same float64 steps
            matrix.next(t)

    def _stacked(self, parts: list[Any]) -> Any:
        """All parts in one array, whose rows start where the kernel reads fast."""
        n = parts[0].shape[1]
        made = parts[0].new_zeros(sum(map(len, parts)), -(-n // ALIGNED) * ALIGNED)[:, :n]
        return self._torch.cat(parts, out=made)

    @property
    def state(self) -> State:
        """Views of the current state; the next round overwrites them."""
        k = len(self._matrix.wide)
        wide = dict(zip(self._matrix.wide, self._x.chunk(k), strict=True))
        narrow = {name: self._arrays.make(value) for name, value in self._matrix.narrow.items()}
        return self._matrix.form._replace(**wide, **narrow)

    def __call__(self, grad: Any, t: int) -> None:
        matrix = self._matrix.next(t)
        seed, law = 0, LAPLACE  # without columns for noise, none of it is drawn
        if self._noise is None:
            matrix = matrix[:, : len(self._x) + len(grad)]
        else:
            seed = int(np.random.SeedSequence([self._noise.seed, t]).generate_state(1, np.uint64)[0] >> np.uint64(1))
            law = self._noise.law
        (self._advance or self._plain)(self._x, grad, self._arrays.make(matrix), seed, law)

    def _plain(self, x: Any, grad: Any, matrix: Any, seed: int, law: Law) -> None:
        generator = self._torch.Generator(device=x.device)
        generator.manual_seed(seed)
        own, its, drawn = len(x), len(grad), matrix.shape[1] - len(x) - len(grad)
        for k in range(0, x.shape[1], CHUNK):
            part = x[:, k : k + CHUNK]
            after = matrix[:, :own] @ part + matrix[:, own : own + its] @ grad[:, k : k + CHUNK]
            if drawn:
                noise = self._torch.empty(drawn, part.shape[1], dtype=x.dtype, device=x.device)
                after += matrix[:, own + its :] @ law.on_tensors().seeded_by_size(noise, generator)
            part.copy_(after)


def matrix_rounds(
    algorithm: Algorithm[State], network: Network, kind: Kind, noise: SimulatedNoise | None, state: State, start: int
) -> MatrixRounds[State] | None:
    """A run by matrices from `state`, which is that of round `start`; None for a method that is not linear."""
    matrix = RoundMatrix(algorithm, network, noise)
    return MatrixRounds(matrix, kind, noise, state, start) if matrix.linear() else None
