"""What commands of many runs share: where they are made, how many are done, and that ctrl-C keeps those."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from gossamer.cli.watch import counted, told
from gossamer.experiments.engines import LOCAL
from gossamer.experiments.runs import Runs

ENGINE = typer.Option(
    LOCAL, help="Where runs are made, to the same numbers: local, ray, ray://HOST:PORT, dask:HOST:PORT."
)


@contextmanager
def counted_runs(command: str, folder: Path, jobs: int | None, engine: str = LOCAL) -> Iterator[Runs]:
    """Runs whose number is shown; ctrl-C keeps those that are done, and ends their workers."""
    with counted(command) as progress, Runs(folder, jobs, progress, engine, told(command)) as runs:
        yield runs
