"""From what learners send to what they receive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gossamer.arrays import NUMPY, Kind
from gossamer.networks import Network
from gossamer.types import Array, Matrix, Out


class Mixer:
    """got_i = Σ_{j≠i} W_ij sent_j, for all learners at once."""

    def __init__(self, network: Network, mixes: Sequence[Matrix] = ("R", "C"), kind: Kind = NUMPY) -> None:
        self._parts: dict[tuple[Matrix, int, int], Any] = {}
        self._weights: dict[Matrix, Any] = {over: kind.make_matrix(network.off_diagonal(over)) for over in mixes}

    def __call__(self, over: Matrix, sent: Array) -> Array:
        received: Array = self._weights[over] @ sent
        return received

    def all(self, sent: Mapping[str, Out]) -> dict[str, Array]:
        """What is received of all that is sent in a round, by channel."""
        weights = self._weights
        return {channel: weights[over] @ value for channel, (value, over, _) in sent.items()}

    def parts(self, sent: Mapping[str, Out]) -> Callable[[str, slice], Array]:
        """The same for some of the learners at a time, by channel; their rows of the weights are kept."""

        def received(channel: str, some: slice) -> Array:
            value, over, _ = sent[channel]
            rows = self._parts.get((over, some.start, some.stop))
            if rows is None:
                rows = self._parts[over, some.start, some.stop] = self._weights[over][some]
            part: Array = rows @ value
            return part

        return received
