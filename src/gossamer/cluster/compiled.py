"""What is done for every row of a round: compiled once, kept on disk."""

from __future__ import annotations

from gossamer.compiling import compiled
from gossamer.types import Array, Integers


@compiled()
def gather(values: Array, rows: Integers, places: Integers, buffer: Array) -> None:
    """Copy some rows into a buffer, each to its own place."""
    width = values.shape[1]
    for k in range(len(rows)):
        row, place = rows[k], places[k]
        for n in range(width):
            buffer[place + n] = values[row, n]


@compiled()
def mix(
    starts: Integers, columns: Integers, weights: Array, values: Array, places: Integers, buffer: Array, out: Array
) -> None:
    """out_i = Σ_j M_ij sent_j in the order of the columns: one's own rows are in `values`, the halo's in the buffer."""
    own, width = values.shape
    for i in range(len(out)):
        for n in range(width):
            out[i, n] = 0.0
        for e in range(starts[i], starts[i + 1]):
            weight, column = weights[e], columns[e]
            if column < own:
                for n in range(width):
                    out[i, n] += weight * values[column, n]
            else:
                place = places[column - own]
                for n in range(width):
                    out[i, n] += weight * buffer[place + n]
