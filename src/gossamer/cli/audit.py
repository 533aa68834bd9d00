"""`gossamer audit`: try to catch the claims lying."""

from __future__ import annotations

import itertools
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from gossamer.algorithms import Algorithm, ldp_gradient_tracking
from gossamer.models import LogisticRegression, RidgeRegression, clip_l1, clip_l2
from gossamer.networks import Network, read_network
from gossamer.privacy import Gaussian, Laplace, Mechanism
from gossamer.schedules import decay
from gossamer.simulate.audit import audit as run_audit
from gossamer.simulate.audit import judge
from gossamer.types import GossamerError


def audit(
    graph: str = typer.Option("paper", help="Network file or name."),
    rounds: int = typer.Option(10, min=3, max=200, help="Rounds to replay."),
    seed: int = typer.Option(0, min=0, help="Decides the records and messages that are tried."),
) -> None:
    """Replay learners on neighbouring records, and examine the noise, for every mechanism and gradient.

    Looks for records and messages, random and climbed, on which a learner's messages differ by more than was claimed;
    then draws noise and checks its scale, law, grid, and that nothing is used twice. Exit code 1 if any check fails.
    """
    network = read_network(graph)
    algorithm = ldp_gradient_tracking(step=decay(1.0, 0.8))
    console = Console()
    table = Table("noise", "gradient", "model", "checks", "replay/claim", "verdict", box=None, pad_edge=False)
    failed = 0
    for mechanism, gradient, clipped in itertools.product(_mechanisms(), ("history", "latest"), (False, True)):
        if mechanism.where == "source" and gradient == "history":
            continue
        clip = clip_l1(0.5) if mechanism.law == "laplace" else clip_l2(0.5)
        model: Any = RidgeRegression(l2=0.1, clip=clip) if clipped else LogisticRegression(l2=0.1)
        kind: Any = gradient
        found = run_audit(algorithm, network, model, mechanism, kind, rounds=rounds, learners=(0, 4, 6), seed=seed)
        bad = [finding for finding in found if not finding.holds]
        failed += len(bad)
        nearest = max(f.measured / f.allowed for f in found if "replayed" in f.check)
        name = (
            f"{mechanism.law} on {mechanism.where}"
            if mechanism.where == "messages"
            else f"{mechanism.law} at the source"
        )
        verdict = "[green]holds[/]" if not bad else f"[red]{len(bad)} FAILED[/]: {bad[0].check}"
        short = type(model).__name__.removesuffix("Regression").lower()
        table.add_row(name, gradient, short, str(len(found)), f"{nearest:.2f}", verdict)
    console.print(table)
    failed += _outside(console, algorithm, network)
    if failed:
        raise typer.Exit(1)


def _outside(console: Console, algorithm: Algorithm, network: Network) -> int:
    """Many runs before jax_privacy's auditor, where it is installed; how many claims it refutes."""
    refuted = 0
    budgets = (Laplace.for_budget(1.0, where="source"), Laplace.for_budget(1.0), Gaussian.for_budget(1.0, 1e-5))
    for mechanism in budgets:
        kind: Any = "latest" if mechanism.where == "source" else "history"
        try:
            found = judge(algorithm, network, LogisticRegression(l2=0.1), mechanism, kind)
        except GossamerError as error:
            console.print(f"[yellow]•[/] {error}", highlight=False)
            return 0
        verdict = "holds" if found.holds else "REFUTED"
        says = f"certifies ε ≥ {found.measured:.2f} of the claimed {found.allowed:.2f}: {verdict}"
        console.print(f"Outside judge, {mechanism.law}, {mechanism.where}: {says}", highlight=False)
        refuted += not found.holds
    return refuted


def _mechanisms() -> list[Mechanism]:
    return [
        Laplace(decay(1.0, 0.6)),
        Gaussian(decay(1.0, 0.6), delta=1e-5),
        Laplace(decay(1.0, 0.0), "source"),
        Gaussian(decay(1.0, 0.0), "source", delta=1e-5),
    ]
