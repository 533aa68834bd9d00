"""A Ray cluster, through the joblib backend that Ray comes with."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import joblib

from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.experiments.engines.base import Engine
from gossamer.experiments.workers import first_line

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when Ray is imported: it tells nobody that it is used
import ray
from ray.exceptions import NodeDiedError, OutOfMemoryError, RayActorError, RayError, RayTaskError, WorkerCrashedError
from ray.util.joblib.ray_backend import RayBackend
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

STORE = 10**8  # bytes of memory for large objects, of which runs have none
WORKER = {"num_cpus": 1, "scheduling_strategy": "SPREAD"}  # Ray gives it one thread then
BACKEND = {"backend": "gossamer-ray", "ray_remote_args": WORKER}
LOSSES = (RayActorError, WorkerCrashedError, NodeDiedError, OutOfMemoryError)


class Streaming(RayBackend):
    """Ray's own: it hands each result over when it is there, and inherits from joblib that it does not."""

    supports_return_generator = True


@contextmanager
def connect(address: str | None, jobs: int | None) -> Iterator[Engine]:
    """The cluster there. Where ray.init was called already, it is that one, and stays."""
    ours = not ray.is_initialized()
    if ours:
        _start(address or os.environ.get("RAY_ADDRESS"), jobs)
    try:
        joblib.register_parallel_backend("gossamer-ray", Streaming)
        cpus = int(ray.cluster_resources().get("CPU", 0))
        if cpus < 2:  # of one, joblib would make none
            raise GossamerError(f"the Ray cluster has {cpus} CPUs: 2 or more are needed to share runs; add a machine.")
        at_once = min(jobs or cpus, cpus)
        yield Engine(BACKEND, max(at_once, 2), 2 * at_once if at_once > 1 else 1, LOSSES, ask)
    finally:
        if ours:
            ray.shutdown()


def _start(address: str | None, jobs: int | None) -> None:
    """Join a cluster, or start one of this machine's cores, without the dashboard."""
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        cores = max(2, jobs or os.cpu_count() or 1)
        try:
            ray.init("local", num_cpus=cores, include_dashboard=False, object_store_memory=STORE, **quiet)
        except Exception as error:  # which is what Ray raises where its processes are not there within 30 s
            ray.shutdown()
            raise GossamerError(
                f"Ray did not start on this machine ({first_line(error)}): give the same again, or leave ",
                Argument("engine"), " out.",
            ) from None  # fmt: skip
        return
    try:
        with warnings.catch_warnings(action="ignore"):  # what goes wrong is said below
            ray.init(address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise BadValue("engine", address, f"no Ray cluster can be joined there ({why})") from None


def ask(question: Callable[..., Any], given: Sequence[Any]) -> Mapping[str, Any]:
    """One worker of every machine: all of one machine have one environment."""
    asked = {}
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("CPU"):
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            remote = ray.remote(question).options(num_cpus=0, scheduling_strategy=there)
            asked[f"the Ray worker on {node['NodeManagerHostname']}"] = remote.remote(*given)
    return {worker: _answer(reference) for worker, reference in asked.items()}


def _answer(reference: Any) -> Any:
    try:
        return ray.get(reference)
    except RayTaskError as error:
        return error.cause
    except RayError as error:
        return error
