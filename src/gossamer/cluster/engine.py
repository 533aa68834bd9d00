"""The cluster engine: the learners of one run on many ranks, each in its own process, perhaps on its own machine.

    mpiexec -n 4 python program.py            every rank calls simulate() with the same arguments

A rank plays a block of learners by the same functions as one process plays all: their own records, states, ledgers and
noise. In a round only halo rows travel: see gossamer.cluster.halo.

**The same numbers.** What a learner does depends on its own records, on its own noise and on what it receives.
Records and seeded noise are functions of (learner, round, channel), whoever asks for them. What it receives is the same
sum in another order, so a run differs from one process's by rounding alone.

**The same privacy.** Every learner is played by one rank. That rank alone draws the learner's exact noise, from a
secret of its own that no seed decides, and charges the learner's ledger before anything leaves it, be it for a learner
of the same rank. So what is proved of a learner in one process is proved of it here: the proofs are of one learner's
messages, whatever the others do. The record's ledgers are put together from those of all ranks. Ranks are one program
of one owner: what the record has of learners, such as θ, goes to rank 0 as it is, without noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gossamer.algorithms.base import Algorithm, State
from gossamer.cluster.rank import Rank
from gossamer.cluster.sharing import Partition, partition
from gossamer.cluster.world import World, world
from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.loggers.base import Logger
from gossamer.models import Gradient, LinearModel, Model
from gossamer.networks import Network, NetworkSchedule
from gossamer.privacy import Mechanism, Privacy
from gossamer.run_record import Record
from gossamer.simulate import engine
from gossamer.simulate.engine import Progress
from gossamer.streams import Stream


def simulate(
    algorithm: Algorithm[State],
    network: Network,
    stream: Stream,
    *,
    model: Model,
    privacy: Privacy | Mechanism | None = None,
    steps: int,
    gradient: Gradient = "history",
    seed: int = 0,
    evaluate_every: int | None = None,
    loggers: Sequence[Logger] = (),
    progress: Callable[[Progress], None] | None = None,
    shares: Partition | None = None,
    comm: Any = None,
) -> Record | None:
    """Run `algorithm` on all ranks of this program; the record at rank 0, None at the others.

    The arguments are those of gossamer.simulate and must be the same at every rank; `loggers` and `progress`, which is
    told of every round, are used at rank 0 alone. `shares` are those of partition(), where they are there already.
    `comm` is a communicator of mpi4py whose ranks play; None: all there are. Once ranks have begun to talk, one that
    fails ends the whole program.
    """
    ranks = world() if comm is None else World(comm)
    refuse_unshared(ranks.ranks, network, model, privacy)
    shares = partition(network, ranks.ranks, algorithm.mixes) if shares is None else shares
    if (shares.ranks, len(shares.owner)) != (ranks.ranks, network.m) or not shares.sizes.all():
        raise GossamerError(
            f"shares= has {len(shares.owner)} learners on {shares.ranks} ranks, and there are {network.m} on "
            f"{ranks.ranks}: make it by gossamer.cluster.partition(network, {ranks.ranks})."
        )
    shard = Rank(ranks.comm, shares)
    first = ranks.rank == 0

    def told(now: Progress) -> None:
        if progress is not None:
            progress(now._replace(record=_no_record))

    try:
        made = engine.simulate(
            algorithm, network, stream, model=model, privacy=privacy, steps=steps, gradient=gradient, seed=seed,
            evaluate_every=evaluate_every, callback=told if first and progress is not None else None,
            loggers=loggers if first else (), shard=shard,
        )  # fmt: skip
    except BaseException as error:
        if not shard.begun and isinstance(error, GossamerError):
            raise  # the same at every rank, and nobody waits for anybody
        ranks.fail(error)
    shard.close()
    if comm is not None:
        ranks.close()
    return made if first else None


def _no_record() -> Record:
    """Of a run on the way: all ranks would have to be asked for it."""
    raise GossamerError("a run on ranks has a record at its end alone: leave progress.record() out.")


def refuse_unshared(ranks: int, network: Network, model: Model, privacy: Any) -> None:
    """Refuse what cannot be shared out."""
    if isinstance(network, NetworkSchedule):
        raise GossamerError(
            "a network that changes is played in one process: leave ", Argument("engine", "mpi"), " out.",
        )  # fmt: skip
    if not 1 < ranks < network.m:
        requirement = f"expected 2 to {network.m - 1} ranks for {network.m} learners"
        raise BadValue("ranks", ranks, requirement, "start as many, as mpiexec -n 2 python FILE does, or one process")
    if not isinstance(model, LinearModel):
        raise GossamerError(
            f"{type(model).__name__} is not for MPI, whose ranks play linear models: leave ",
            Argument("engine", "mpi"), " out.",
        )  # fmt: skip
    if model.arrays.tensors:
        raise GossamerError(
            "MPI's ranks compute in NumPy's arrays, and this model in tensors: leave ", Argument("device"), " or ",
            Argument("engine", "mpi"), " out.",
        )  # fmt: skip
    if isinstance(privacy, Mechanism) and privacy.secrets is not None:
        raise GossamerError(
            "pairs' noise is dealt where all learners are, and ranks have some each: leave ",
            Argument("secrets"), " or ", Argument("engine", "mpi"), " out.",
        )  # fmt: skip
