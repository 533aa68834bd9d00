"""Where runs are made: processes of this machine, a Ray cluster, a Dask cluster; all of them through joblib.

    local             processes of this machine; where one is enough, this process itself
    ray               Ray on this machine's cores, started and ended here; or the cluster that RAY_ADDRESS names
    ray://HOST:PORT   a Ray cluster elsewhere, through its client server
    dask:HOST:PORT    the scheduler of a Dask cluster, whoever started it: a person, Slurm, Kubernetes

Which runs are made, kept and tried again is decided in gossamer.experiments.runs and gossamer.experiments.retries.
A new engine is a file beside these, and a line here.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from contextlib import AbstractContextManager

from gossamer.errors import BadValue
from gossamer.experiments.engines.base import Engine, check_named, check_workers, tried_again

LOCAL = "local"
NEEDED = {"ray": ("ray", "gossamer-learning[cluster]"), "dask": ("distributed", "distributed")}  # module, as installed


def check_engine(text: str) -> None:
    """Refuse, before any work, what is no engine, and one whose package is not installed."""
    if not re.fullmatch(r"local|ray|ray://\S+|dask:\S+:\d+", text):
        raise BadValue("engine", text, "expected local, ray, ray://HOST:PORT or dask:HOST:PORT")
    kind = text.partition(":")[0]
    if kind in NEEDED:
        module, package = NEEDED[kind]
        if importlib.util.find_spec(module) is None:
            raise BadValue("engine", text, f"it needs {module}", f"install {package}")


def connect(text: str, jobs: int | None, say: Callable[[str], None]) -> AbstractContextManager[Engine]:
    """The engine of this name with at most so many workers, by default all; `say` is told what it mends by itself."""
    check_engine(text)
    kind, _, address = text.partition(":")
    if kind == "ray":
        from gossamer.experiments.engines import ray

        return ray.connect(text if address else None, jobs)
    if kind == "dask":
        from gossamer.experiments.engines import dask

        return dask.connect(address, jobs, say)
    from gossamer.experiments.engines import local

    return local.connect(jobs)


__all__ = ["LOCAL", "Engine", "check_engine", "check_named", "check_workers", "connect", "tried_again"]
