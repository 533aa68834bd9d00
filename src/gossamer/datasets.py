"""Ready-made streams: `gossamer.datasets.mushrooms(…)`, `mnist(…)`, `cifar10(…)`."""

from gossamer.streams.images import cifar10, mnist
from gossamer.streams.mushrooms import mushrooms

__all__ = ["cifar10", "mnist", "mushrooms"]
