"""One run whose learners are shared out over the ranks of MPI: each plays some, and only halo rows travel."""

from gossamer.lazy import import_on_first_use

TYPE_CHECKING = False  # importing typing for it would cost more than all the rest
if TYPE_CHECKING:
    from gossamer.cluster.engine import simulate
    from gossamer.cluster.sharing import Partition, partition
else:
    __getattr__ = import_on_first_use(
        __name__,
        {"gossamer.cluster.engine": ["simulate"], "gossamer.cluster.sharing": ["Partition", "partition"]},
    )

__all__ = ["Partition", "partition", "simulate"]
