"""What the engines ask of a model, and of the memory that holds its learners' records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from gossamer.arrays import Kind
from gossamer.models.bounds import MOST, Clip, Norm, Reach, Sizes
from gossamer.records import Batch, FeatureBounds, Table
from gossamer.types import Array, Integers

Gradient = Literal["history", "latest"]


class Memory(Protocol):
    """What a block of learners remembers of its records, and what the model makes of it."""

    def observe(self, batch: Batch) -> None:
        """Take in a round's records; with 'latest' they replace the ones before."""

    def gradient(self, theta: Array) -> Array:
        """The mean gradient of each learner's remembered records at its own row of θ: the data's part, without a ridge.

        A ridge's l2 θ is no record's: it is added to what has been noised.
        """

    def quality(self, theta: Array, table: Table) -> Array:
        """How well each learner predicts these records: the share predicted right, or R²."""

    def kept(self) -> dict[str, Array]:
        """What is needed to go on exactly and is neither in θ nor in the records, by name."""

    def go_on(self, kept: Mapping[str, Array]) -> None:
        """Take back what `kept` gave; `kept` may hold other things, too."""


class Model(Protocol):
    """What is learnt: a loss, its gradients, and what bounds them."""

    @property
    def l2(self) -> float:
        """The ridge: l2/2 ‖θ‖² is added to the loss."""

    @property
    def clip(self) -> Clip | None: ...
    @property
    def score(self) -> str:
        """What `Memory.quality` is called in a table or a figure."""

    @property
    def arrays(self) -> Kind:
        """The kind of array that θ is."""

    @property
    def remember(self) -> int | None:
        """Over how many rounds' records gradient='history' is the mean; None: over all."""

    @property
    def bounded(self) -> bool:
        """Whether features of bounded size bound its gradients; if not, privacy can be proved only with a clipper."""

    def theta_size(self, columns: int) -> int:
        """How many numbers θ has where records have so many features."""

    def start(self, m: int, seed: int, columns: int) -> Array:
        """(m, size): where all m learners start; it may depend on no data."""

    def check_labels(self, labels: Array) -> None:
        """Refuse labels that it cannot learn."""

    def reach(self, features: FeatureBounds | None, norm: Norm, sizes: Sizes = MOST) -> Reach:
        """How large its gradients get and how fast they change, in this norm; refuses where nothing bounds them."""

    def memory(self, table: Table, keep: Gradient, room: Integers) -> Memory:
        """An empty memory for as many learners as `room` has numbers: how many records of each to expect."""

    def to_record(self, value: Array) -> Array:
        """Part of an algorithm's state as a run record keeps it, whatever order the device works in."""

    def from_record(self, stored: Array) -> Array:
        """The other way round."""
