"""A Dask cluster, through the backend that joblib has for it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from distributed import Client, KilledWorker

from gossamer.errors import BadValue
from gossamer.experiments.engines.base import Engine, tried_again

PATIENCE = 30  # seconds in which a scheduler, and one worker, have to be there


@contextmanager
def connect(address: str, jobs: int | None, say: Callable[[str], None]) -> Iterator[Engine]:
    """The cluster there; joblib uses all of its workers, so that `jobs` is how many runs are sent at once.

    Dask gives a lost worker's runs to another, three times; here that is only said.
    """
    try:
        _check_answers(address)  # a client that nobody answers keeps its threads, and this process, for long
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise BadValue("engine", f"dask:{address}", f"no Dask scheduler answers there ({error})") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise BadValue("engine", f"dask:{address}", "expected workers there", "start `dask worker`") from None

        def tell(event: tuple[float, Any]) -> None:
            about = event[1] if isinstance(event[1], dict) else {}
            if about.get("action") == "remove-worker" and about.get("processing-tasks"):
                say(tried_again(len(about["processing-tasks"]), about["worker"]))

        def ask(question: Callable[..., Any], given: Sequence[Any]) -> Mapping[str, Any]:
            """The scheduler as well: it unpickles all that it passes on, and would say nothing where it cannot."""
            try:
                said = client.run_on_scheduler(question, *given)
            except Exception as error:
                said = error
            answers = client.run(question, *given, on_error="return")
            theirs = {f"the Dask worker at {worker}": answer for worker, answer in answers.items()}
            return {f"the Dask scheduler at {address}": said} | theirs

        client.subscribe_topic("all", tell)
        threads = sum(client.nthreads().values())
        backend = {"backend": "dask", "client": client}
        yield Engine(backend, threads, min(jobs or 2 * threads, 2 * threads), (KilledWorker,), ask)


def _check_answers(address: str) -> None:
    """Refuse, as an OSError, where nobody listens; `address` is HOST:PORT, with tcp:// or another scheme or without."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
