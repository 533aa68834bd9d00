"""`gossamer audit`: try to catch the claims lying."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from gossamer.algorithms import ldp_gradient_tracking
from gossamer.checks import Finding
from gossamer.checks.audit import findings, power
from gossamer.checks.defects import DEFECTS
from gossamer.checks.defects import self_test as run_self_test
from gossamer.checks.judge import judge
from gossamer.checks.worlds import FEATURES, Case
from gossamer.cli.json_output import console_beside, json_file, json_option, put_json
from gossamer.models import Clip, Gradient, LinearModel, LogisticRegression, RidgeRegression, SoftmaxRegression
from gossamer.models.standard import Standardise
from gossamer.networks import Network, read_network
from gossamer.privacy import Gaussian, Laplace, Mechanism, Secrets
from gossamer.privacy.releases import Releases, every, thinning
from gossamer.schedules import decay

GRADIENTS: tuple[Gradient, ...] = ("history", "latest")
STEPS = (0.05, 1.0)  # short, so that one record's own path counts most; and long, so that the others' reaction does
MEANING = (
    "power: the largest privacy loss that replays of all learners on two neighbouring sets of records reached, as a "
    "share of the loss that is claimed as possible (for Gaussian noise, of its root, which ε grows with). Above 1 the "
    "claim would be false; far below 1, an audit that passes says little. step: λ0; with a short one a record's own "
    "path counts most, with a long one the others' reaction to it."
)


def audit(
    graph: str = typer.Option("paper", help="Network file or name."),
    rounds: int = typer.Option(12, min=6, max=200, help="Rounds to replay."),
    per_round: int = typer.Option(2, min=1, max=50, help="Records that arrive in each."),
    seed: int = typer.Option(0, min=0, help="Decides the records and messages that are tried."),
    self_test: bool = typer.Option(False, "--self-test", help="Plant defects, and see whether the audit finds them."),
    json: str | None = json_option("every check's verdict"),
) -> None:
    """Try to catch the claims lying, for every mechanism and gradient; exit code 1 if any check fails.

    Measures what models declare, examines the noise of all learners in early and late rounds, steers learners by
    what they receive, climbs to the records and messages on which their messages differ most, and plays the observer
    that has some learners' keys where they share secrets.
    """
    json_file(json)
    network = read_network(graph)
    console = console_beside(json)
    if self_test:
        raise typer.Exit(_self_test(network, rounds, max(per_round, 2), console, json))
    cases = list(_cases(network, rounds, per_round))
    table = Table("noise", "gradient", "model", "step", "checks", "power", "verdict", box=None, pad_edge=False)
    failed, told = 0, list[dict[str, Any]]()
    with _bar() as bar:
        task = bar.add_task("replaying", total=len(cases) + 1)
        for step, case in cases:
            bar.update(task, description=f"replaying {_name(case.mechanism)}, {case.gradient}")
            checked = list(findings(case, seed))
            bad = [finding for finding in checked if not finding.holds]
            failed += len(bad)
            verdict = "[green]holds[/]" if not bad else f"[red]{len(bad)} FAILED[/]: {escape(bad[0].check)}"
            row = (_name(case.mechanism), _gradient_name(case), _model_name(case), f"{step:g}", str(len(checked)))
            table.add_row(*row, f"{power(checked):.2f}", verdict)
            told.append(_told(step, case, checked))
            bar.advance(task)
        bar.update(task, description="an outside judge")
        refuted, says = _outside(network)
        bar.advance(task)
    put_json(json, {"holds": not failed + refuted, "cases": told, "outside": says})
    console.print(table)
    console.print(MEANING, highlight=False)
    for sentence in says:
        console.print(f"[yellow]•[/] {escape(sentence)}", highlight=False)
    if failed + refuted:
        raise typer.Exit(1)


def _told(step: float, case: Case, checked: list[Finding]) -> dict[str, Any]:
    """One row of the table as JSON values, with every check."""
    about = {"noise": _name(case.mechanism), "gradient": _gradient_name(case), "model": _model_name(case), "step": step}
    return {**about, "power": power(checked), "checks": [finding._asdict() for finding in checked]}


def _bar() -> Progress:
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*parts, console=Console(stderr=True), transient=True)


def _cases(network: Network, rounds: int, per_round: int) -> Iterator[tuple[float, Case]]:
    for step in STEPS:
        algorithm = ldp_gradient_tracking(step=decay(step, 0.8))
        for mechanism, gradient, clipped in itertools.product(_mechanisms(), GRADIENTS, (False, True)):
            if mechanism.where == "source" and step != STEPS[0]:
                continue  # a step changes nothing there
            if step == STEPS[0] or not clipped:
                yield step, Case(algorithm, network, _model(mechanism, clipped), mechanism, gradient, rounds, per_round)
    algorithm = ldp_gradient_tracking(step=decay(STEPS[0], 0.8))
    for model, mechanism in _standardised(rounds):
        yield STEPS[0], Case(algorithm, network, model, mechanism, "history", rounds, per_round)
    yield from ((STEPS[0], case) for case in _secret(network, rounds, per_round))
    yield from ((STEPS[0], case) for case in _windowed(network, rounds, per_round))


def _windowed(network: Network, rounds: int, per_round: int) -> list[Case]:
    """Cases in which learners remember a few rounds only: at the source, in all rounds or in some, and on messages."""
    algorithm, few = ldp_gradient_tracking(step=decay(STEPS[0], 0.8)), max(2, rounds // 4)
    mechanisms: list[Mechanism] = [
        Gaussian(decay(1.0, 0.0), "source", delta=1e-5, releases=every(1, after=few - 1)),
        Laplace(decay(1.0, 0.3), "source", releases=every(2, after=1)),
        Laplace(decay(1.0, 0.6)),
    ]
    cases = list[Case]()
    for mechanism in mechanisms:
        model: Any = _model(mechanism, clipped=mechanism.where == "source")
        remembers = replace(model, remember=few)
        cases.append(Case(algorithm, network, remembers, mechanism, "history", rounds, per_round))
    return cases


def _secret(network: Network, rounds: int, per_round: int) -> list[Case]:
    """Cases in which learners share secrets: everybody with everybody, weighted; and with some, where they are many."""
    m, algorithm = network.m, ldp_gradient_tracking(step=decay(STEPS[0], 0.8))
    if m < 2:
        return []
    weights = tuple(0.5 if i % 2 else 1.5 for i in range(m))
    weighted = Gaussian(
        decay([1 / weight for weight in weights], 0.3), "source", delta=1e-5, releases=every(1, after=2), band=3,
        secrets=Secrets(colluders=min(2, m - 2), share=1.0),
    )  # fmt: skip
    some = Secrets("4-regular", colluders=1, share=2.0) if m > 5 else Secrets(colluders=min(1, m - 2), share=2.0)
    plain = Gaussian(decay(1.0, 0.0), "source", delta=1e-5, releases=every(1), secrets=some)
    return [
        Case(algorithm, network, _model(weighted, True), weighted, "history", rounds, per_round, weights=weights),
        Case(algorithm, network, _model(plain, False), plain, "latest", rounds, per_round),
    ]


def _self_test(network: Network, rounds: int, per_round: int, console: Console, json: str | None) -> int:
    """Plant every defect in cases that can have it; the exit code."""
    table = Table("defect", "planted in", "found by", "measured", "expected", box=None, pad_edge=False)
    missed, told = 0, list[dict[str, Any]]()
    algorithm = ldp_gradient_tracking(step=decay(STEPS[0], 0.8))
    cases = [
        Case(algorithm, network, _model(mechanism, clipped), mechanism, gradient, rounds, per_round)
        for mechanism, gradient, clipped in _planted()
    ]
    cases += [
        Case(algorithm, network, model, mechanism, "history", rounds, per_round)
        for model, mechanism in _standardised(rounds)[:2]
    ]
    cases += _secret(network, rounds, per_round)[:1] + _windowed(network, rounds, per_round)[:1]
    with _bar() as bar:
        task = bar.add_task("planting defects", total=len(cases) * len(DEFECTS))
        for case in cases:
            for defect, finding in run_self_test(case):
                bar.update(task, advance=1, description=defect.name)
                missed += finding is None
                found = None if finding is None else finding._asdict()
                told.append({"defect": defect.name, "noise": _name(case.mechanism), "found": found})
                seen = ["[red]NOT FOUND[/]", "", ""]
                if finding is not None:
                    seen = [escape(finding.check), f"{finding.measured:.4g}", f"{finding.allowed:.4g}"]
                table.add_row(
                    defect.name, f"{_name(case.mechanism)}, {_gradient_name(case)}, {_model_name(case)}", *seen
                )
    put_json(json, {"holds": not missed, "defects": told})
    console.print(table)
    console.print(f"{table.row_count - missed} of {table.row_count} planted defects were found.")
    return 1 if missed else 0


def _outside(network: Network) -> tuple[int, list[str]]:
    """Many runs before jax_privacy's auditor: how many claims it refutes, and what it says."""
    if importlib.util.find_spec("jax_privacy") is None:
        install = "pip install 'gossamer-learning[audit]'"
        return 0, [f"No outside judge: jax_privacy's auditor is not installed; get it with {install}."]
    refuted, says = 0, []
    algorithm = ldp_gradient_tracking(step=decay(STEPS[0], 0.8))
    for mechanism, gradient in _judged():
        finding = judge(Case(algorithm, network, LogisticRegression(l2=0.1), mechanism, gradient, rounds=6))
        at = f" (δ = {mechanism.delta:g})" if mechanism.delta else ""
        claim = f"ε ≥ {finding.measured:.2f} of the claimed {finding.allowed:.2f}{at}"
        verdict = "holds" if finding.holds else "REFUTED"
        says.append(f"Outside judge, {_name(mechanism)}, {gradient}: certifies {claim}: {verdict}.")
        refuted += not finding.holds
    return refuted, says


def _name(mechanism: Mechanism) -> str:
    if mechanism.where == "messages":
        return f"{mechanism.law} on messages"
    shape = [str(mechanism.releases)] if mechanism.releases is not None else []
    shape += [f"band {mechanism.band}"] if mechanism.band > 1 else []
    shape += [_shared_name(mechanism.secrets)] if mechanism.secrets is not None else []
    return " ".join([f"{mechanism.law} at the source", *shape])


def _shared_name(secrets: Secrets) -> str:
    return f"secrets {secrets.graph}, {secrets.colluders} colluding"


def _gradient_name(case: Case) -> str:
    return case.gradient if case.model.remember is None else f"{case.model.remember} rounds"


def _model_name(case: Case) -> str:
    name = type(case.model).__name__.removesuffix("Regression").lower()
    return f"{name}, standardised" if case.standardised else name


def _model(mechanism: Mechanism, clipped: bool) -> LinearModel:
    """One whose features bound its gradients, or one that needs a clipper."""
    if not clipped:
        return LogisticRegression(l2=0.01)
    return RidgeRegression(l2=0.01, clip=Clip(mechanism.law.norm, 0.5))


def _standardised(rounds: int) -> list[tuple[LinearModel, Mechanism]]:
    """Models that look at moments first, in the head of the releases."""
    head = Releases(1, rounds // 2, head=max(1, rounds // 4), pause=1)
    gaussian, laplace = (
        Gaussian(decay(1.0, 0.3), "source", delta=1e-5, releases=head),
        Laplace(decay(1.0, 0.3), "source", releases=head),
    )
    numbers = Standardise(tuple(range(FEATURES - 1)), width=float(FEATURES))
    quantity = replace(numbers, label=True)
    return [
        (LogisticRegression(0.01, Clip(2, 0.5), intercept=True, standardise=numbers), gaussian),
        (RidgeRegression(0.01, Clip(1, 0.5), intercept=True, standardise=quantity), laplace),
        (SoftmaxRegression(3, 0.01, Clip(2, 0.5), intercept=True, standardise=numbers), replace(gaussian, band=3)),
    ]


def _mechanisms() -> list[Mechanism]:
    return [
        Laplace(decay(1.0, 0.6)),
        Gaussian(decay(1.0, 0.6), delta=1e-5),
        Laplace(decay(1.0, 0.0), "source"),
        Gaussian(decay(1.0, 0.0), "source", delta=1e-5),
        Laplace(decay(1.0, 0.3), "source", releases=thinning(1.3, after=2)),
        Gaussian(decay(1.0, 0.3), "source", delta=1e-5, releases=every(1, after=2), band=3),
    ]


def _planted() -> list[tuple[Mechanism, Gradient, bool]]:
    """The cases that defects are planted in, with or without a clipper."""
    laplace, gaussian, laplace_source, _, thinned, correlated = _mechanisms()
    return [
        (laplace, "history", True),
        (gaussian, "latest", False),
        (laplace_source, "latest", True),
        (thinned, "history", True),
        (correlated, "history", False),
    ]


def _judged() -> list[tuple[Mechanism, Gradient]]:
    return [
        (Laplace.for_budget(1.0, where="source"), "latest"),
        (Laplace.for_budget(1.0, where="source"), "history"),
        (Gaussian.for_budget(1.0, 1e-5, where="source", releases=every(1, after=1), band=3), "history"),
        (Laplace.for_budget(1.0), "history"),
        (Gaussian.for_budget(1.0, 1e-5), "history"),
    ]
