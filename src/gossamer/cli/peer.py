"""`gossamer peer`: one party's learner, in a module of its own, because a learner that waits should be small."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import typer

from gossamer.errors import GossamerError

peer = typer.Typer(help="One party's learner.")


def needs_extra() -> None:
    if any(importlib.util.find_spec(module) is None for module in ("grpc", "msgspec")):
        raise GossamerError("learners as processes need gRPC: install gossamer-learning[peers].")


@peer.command("run")
def run(
    config: Path = typer.Argument(metavar="CONFIG", help="The party's folder, or its party.toml."),
    quiet: bool = typer.Option(False, help="Log to log.jsonl alone, and not to the terminal."),
) -> None:
    """Run one learner, on its owner's records, until its rounds are done; start it again whenever it was stopped.

    \b
    gossamer peer run learner-3
    queue-reader | gossamer peer run learner-3   with [data] path = "-"; it must bring each record once, ever
    """
    needs_extra()
    from gossamer.peers.config import read_config
    from gossamer.peers.process import run_learner

    raise typer.Exit(run_learner(read_config(config), quiet=quiet))
