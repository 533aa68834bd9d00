"""All ranks of this program: found through mpi4py, and ended together where one of them fails."""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import os
import sys
import time
import traceback
from array import array
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, NoReturn

import numpy as np

from gossamer.errors import GossamerError

STARTED_BY = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID")  # what mpiexec and srun tell a rank
REMEDY = 'install the extra `mpi`, pip install "gossamer-learning[mpi]"'
READ_WITHIN = 30.0  # seconds in which a launcher reads what a rank has said
KILLED_WITHIN = 60.0  # seconds in which the rank that spoke ends the others


def is_rank() -> bool:
    """Whether mpiexec, or another launcher, has started this process as a rank."""
    return any(name in os.environ for name in STARTED_BY)


def check_installed() -> None:
    """Refuse to start ranks that could not talk."""
    if importlib.util.find_spec("mpi4py") is None:
        raise GossamerError(f"MPI needs mpi4py: {REMEDY}.")


def load_mpi() -> Any:
    """mpi4py's MPI."""
    os.environ.setdefault("UCX_LOG_LEVEL", "error")  # it warns of what is not given back before a program ends
    try:
        return importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        raise GossamerError(f"MPI cannot be loaded ({error}): {REMEDY}.") from None
    except RuntimeError as error:  # mpi4py is there, and no MPI library
        why = " ".join(str(error).split())
        raise GossamerError(f"mpi4py finds no MPI library ({why}): pip install mpich, or load your own.") from None


class World:
    """The ranks, and a word that only one of them gets: the first that fails says why.

    `told` says what a failure is called, and the exit code.
    """

    def __init__(self, comm: Any) -> None:
        self.comm, self.rank, self.ranks = comm, int(comm.rank), int(comm.size)
        self.told: Callable[[BaseException], tuple[str, int]] = _told
        MPI = load_mpi()
        self._word = MPI.Win.Allocate(8 if self.rank == 0 else 0, 8, comm=comm)
        if self.rank == 0:
            np.frombuffer(self._word.tomemory(), dtype=np.int64)[0] = 0
        comm.Barrier()

    def close(self) -> None:
        """Give back what MPI holds for it; all ranks do so together."""
        self._word.Free()

    def fail(self, error: BaseException) -> NoReturn:
        """End all ranks because of a failure; the first that asks for it says what it was, and no other does."""
        sentence, code = self.told(error)
        taken, free, was = np.array([1]), np.array([0]), np.array([0])
        self._word.Lock(0)
        self._word.Compare_and_swap(taken, free, was, 0, 0)
        self._word.Unlock(0)
        if was[0]:
            time.sleep(KILLED_WITHIN)  # that rank is about to end this one
        else:
            sys.stdout.flush()
            sys.stderr.write(f"{sentence.rstrip()}\n")
            sys.stderr.flush()
            _wait_until_read(2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # MPI has more to say of it, which tells a user nothing
        self.comm.Abort(code)
        raise SystemExit(code)


def _wait_until_read(pipe: int) -> None:
    """Whoever reads what a rank says ends with the ranks, and what is still in the pipe would be lost."""
    until, unread = time.monotonic() + READ_WITHIN, array("i", [1])
    with suppress(ImportError, OSError):  # Windows; a file or a terminal, where nothing waits
        fcntl, termios = importlib.import_module("fcntl"), importlib.import_module("termios")
        while unread[0] and time.monotonic() < until:
            fcntl.ioctl(pipe, termios.FIONREAD, unread)
            time.sleep(0.01)


def _told(error: BaseException) -> tuple[str, int]:
    """A mistake in its own words, anything else with its traceback."""
    if isinstance(error, GossamerError):
        return f"{type(error).__name__}: {error}", 1
    return "".join(traceback.format_exception(error)), 1


@cache
def world() -> World:
    """All ranks; every one must ask for them, and does so together with the others the first time."""
    ranks = World(load_mpi().COMM_WORLD)
    atexit.register(ranks.close)
    return ranks
