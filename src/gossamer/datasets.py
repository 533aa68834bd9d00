"""Ready-made streams: `gossamer.datasets.mushrooms(…)`."""

from gossamer.streams.mushrooms import mushrooms

__all__ = ["mushrooms"]
