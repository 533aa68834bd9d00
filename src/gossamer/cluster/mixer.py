"""The mixer of a rank: all that is sent in a round goes in one exchange with the ranks that are neighbours.

Ranks that hear each other, over any of the method's matrices, are neighbours in a graph of MPI's own
(`Create_dist_graph_adjacent`), and a round is one neighbourhood collective on it, made once and started every round
(MPI 4.0, §8.9: persistent `Neighbor_alltoallv`). Its buffers have, for every neighbour, the rows of the first channel,
then those of the second, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gossamer.cluster.halo import Halo
from gossamer.lazy import import_once
from gossamer.types import Array, Integers, Matrix, Out


class Channel(NamedTuple):
    """Where one channel's rows lie in the buffers, as numbers from the beginning."""

    halo: Halo
    sent: Integers
    got: Integers


class Exchange(NamedTuple):
    """One round's buffers and the exchange of them, for channels of these widths."""

    channels: dict[str, Channel]
    outgoing: Array
    incoming: Array
    request: Any


class RankMixer:
    """got_i = Σ_{j≠i} W_ij sent_j of one rank's learners."""

    def __init__(self, comm: Any, halos: Mapping[Matrix, Halo]) -> None:
        self._kernels = import_once("gossamer.cluster.compiled")
        self._halos = halos
        self._sources = np.flatnonzero(sum(halo.sources for halo in halos.values()))
        self._receivers = np.flatnonzero(sum(halo.receivers for halo in halos.values()))
        self._graph = comm.Create_dist_graph_adjacent(self._sources.tolist(), self._receivers.tolist(), reorder=False)
        self._exchanges: dict[tuple[tuple[str, Matrix, int], ...], Exchange] = {}

    def all(self, sent: Mapping[str, Out]) -> dict[str, Array]:
        """What is received of all that is sent in a round, by channel."""
        received = self.parts(sent)
        return {channel: received(channel, slice(0, len(out.value))) for channel, out in sent.items()}

    def parts(self, sent: Mapping[str, Out]) -> Callable[[str, slice], Array]:
        """The same for some of the rank's learners at a time, by channel."""
        values = {channel: np.ascontiguousarray(out.value) for channel, out in sent.items()}
        exchange = self._exchange(tuple((channel, out.over, out.value.shape[1]) for channel, out in sent.items()))
        for channel, value in values.items():
            own = exchange.channels[channel]
            self._kernels.gather(value, own.halo.sent, own.sent, exchange.outgoing)
        exchange.request.Start()
        exchange.request.Wait()

        def received(channel: str, some: slice) -> Array:
            halo, _, places = exchange.channels[channel]
            starts, value = halo.starts[some.start : some.stop + 1], values[channel]
            out = np.empty((len(starts) - 1, value.shape[1]))
            self._kernels.mix(starts, halo.columns, halo.weights, value, places, exchange.incoming, out)
            return out

        return received

    def close(self) -> None:
        """Give back what MPI holds for it; all ranks do so together."""
        for exchange in self._exchanges.values():
            exchange.request.Free()
        self._graph.Free()

    def _exchange(self, widths: tuple[tuple[str, Matrix, int], ...]) -> Exchange:
        """Made when channels of these widths are first sent: what is sent changes when z no longer does."""
        known = self._exchanges.get(widths)
        if known is None:
            known = self._exchanges[widths] = self._made(widths)
        return known

    def _made(self, widths: Sequence[tuple[str, Matrix, int]]) -> Exchange:
        halos = [self._halos[over] for _, over, _ in widths]
        each = [width for _, _, width in widths]
        sent, sent_counts = _layout([halo.receivers for halo in halos], each)
        got, got_counts = _layout([halo.sources for halo in halos], each)
        outgoing, incoming = np.empty(sent_counts.sum()), np.empty(got_counts.sum())
        request = self._graph.Neighbor_alltoallv_init(
            [outgoing, sent_counts[self._receivers].tolist()], [incoming, got_counts[self._sources].tolist()]
        )
        channels = {
            name: Channel(halo, out, in_) for (name, _, _), halo, out, in_ in zip(widths, halos, sent, got, strict=True)
        }
        return Exchange(channels, outgoing, incoming, request)


def _layout(rows: Sequence[Integers], widths: Sequence[int]) -> tuple[list[Integers], Integers]:
    """Where each row of each channel goes in a buffer, rank by rank and in it channel by channel; and each rank's size.

    `rows` are the channels' numbers of rows for every rank, `widths` how many numbers a row has.
    """
    sizes = np.array([count * width for count, width in zip(rows, widths, strict=True)])  # (channels, ranks)
    of_rank = sizes.sum(axis=0)
    first = np.cumsum(of_rank) - of_rank + np.cumsum(sizes, axis=0) - sizes
    places = [
        np.repeat(start - width * (np.cumsum(count) - count), count) + width * np.arange(count.sum())
        for start, count, width in zip(first, rows, widths, strict=True)
    ]
    return places, of_rank
