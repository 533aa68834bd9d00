"""Records arriving over time."""

from gossamer.streams.arrays import from_arrays
from gossamer.streams.csv import from_csv
from gossamer.streams.frames import from_frame
from gossamer.streams.stream import Draws, OnePass, Stream

__all__ = ["Draws", "OnePass", "Stream", "from_arrays", "from_csv", "from_frame"]
