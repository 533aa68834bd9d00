"""A round of all learners as one kernel on a GPU: noise, mixing and update without anything in between touching memory.

The algorithm's own `emit` and `step` are traced for blocks of one learner, as a party's own process would call them,
with got_i = Σ_j W_ij sent_j written out as sums; torch.compile makes one pass over the coordinates of that. In plain
torch the same round reads and writes every intermediate value, and draws the noise into memory first.

Used where the noise is simulated and z has settled, so that every round has the same form. The noise is torch's own,
seeded by (seed, round), drawn inside the kernel: for studies, and not private.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.networks import Network
from gossamer.privacy.simulated import SimulatedNoise
from gossamer.simulate.kinds import Torch


class Clock:
    """A round that schedules take as a tensor, so that the kernel is not made anew for each; z has settled by then."""

    def __init__(self, t: Any) -> None:
        self._t = t

    def __add__(self, other: float) -> Any:
        return self._t + other

    def __rpow__(self, base: float) -> Any:
        return base**self._t

    def __lt__(self, other: float) -> bool:
        return False


class Fused:
    """Rounds on blocks of one learner: `split` a stacked state, call it round by round, and `joined` gives it back."""

    def __init__(
        self, algorithm: Algorithm, network: Network, kind: Torch, noise: SimulatedNoise | None, compiled: bool = True
    ) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._algorithm, self._noise, self._kind = algorithm, noise, kind
        self._rows = [kind.block(network, i, algorithm.mixes) for i in range(network.m)]
        self._weights = {over: np.asarray(_dense(network.off_diagonal(over))).tolist() for over in algorithm.mixes}
        self._round = self._torch.compile(self._traced, dynamic=False) if compiled else self._traced

    def split(self, state: Any) -> list[Any]:
        """Views of one learner each."""
        return [type(state)(*parts) for parts in zip(*(a.split(1) for a in state), strict=True)]

    def joined(self, blocks: list[Any]) -> Any:
        return type(blocks[0])(*(self._torch.cat(parts) for parts in zip(*blocks, strict=True)))

    def __call__(self, blocks: list[Any], grad: Any, t: int) -> list[Any]:
        torch, kind = self._torch, type(blocks[0])
        scale = 0.0 if self._noise is None else self._noise.scale(t)
        scales = self._kind.back(np.broadcast_to(np.asarray(scale, dtype=float).reshape(-1, 1), (len(blocks), 1)))
        if self._noise is not None:
            seed = np.random.SeedSequence([self._noise.seed, t]).generate_state(1, np.uint64)[0]
            torch.manual_seed(int(seed >> np.uint64(1)))
        clock = torch.full((), float(t), dtype=blocks[0][0].dtype, device=blocks[0][0].device)
        with torch.no_grad():
            after = self._round(blocks, list(grad.split(1)), scales, clock)
        return [kind(*block) for block in after]

    def _traced(self, states: list[Any], grads: list[Any], scales: Any, clock: Any) -> list[tuple[Any, ...]]:
        algorithm, t, m = self._algorithm, Clock(clock), len(self._rows)
        sent = [algorithm.emit(states[i], grads[i], self._rows[i], t) for i in range(m)]  # type: ignore[arg-type]
        noisy = {c: [self._noisy(out[c], scales[i]) for i, out in enumerate(sent)] for c in sent[0]}
        found = []
        for i in range(m):
            got = {c: self._mixed(i, sent[i][c].over, noisy[c]) for c in sent[i]}
            found.append(tuple(algorithm.step(states[i], got, grads[i], self._rows[i], t)))  # type: ignore[arg-type]
        return found

    def _noisy(self, sent: Any, scale: Any) -> Any:
        return sent.value + scale * self._drawn(sent.value) if sent.private else sent.value

    def _mixed(self, i: int, over: Any, values: list[Any]) -> Any:
        total = None
        for weight, value in zip(self._weights[over][i], values, strict=True):
            if weight:
                total = weight * value if total is None else total + weight * value
        return 0 * values[i] if total is None else total

    def _drawn(self, like: Any) -> Any:
        if self._noise is None:
            return 0.0
        if self._noise.law == "gaussian":
            return self._torch.randn_like(like)
        u = self._torch.rand_like(like) * 2 - 1
        return self._torch.copysign(self._torch.log1p(-u.abs().clamp_max(1 - 2.0**-24)), u)


def _dense(matrix: Any) -> Any:
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix
