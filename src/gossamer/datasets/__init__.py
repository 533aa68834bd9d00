"""Ready-made streams, each in a file of its own: `gossamer.datasets.mushrooms(…)`, `mnist(…)`, `cifar10(…)`."""

from gossamer.datasets.images import cifar10, mnist
from gossamer.datasets.mushrooms import mushrooms
from gossamer.datasets.registry import DATASETS, Dataset, dataset

__all__ = ["DATASETS", "Dataset", "cifar10", "dataset", "mnist", "mushrooms"]
