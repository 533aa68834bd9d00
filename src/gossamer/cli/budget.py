"""`gossamer budget`: what privacy costs before anybody sends anything."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from gossamer import datasets
from gossamer.algorithms import ldp_gradient_tracking
from gossamer.cli import parse
from gossamer.cli.output import check_picture, save_picture
from gossamer.cli.settings import PAPER_NOISE, PAPER_STEP, Dataset, Gradients, Law, Rows, Where
from gossamer.models import LogisticRegression
from gossamer.networks import Network, read_network
from gossamer.privacy import Accountant, Gaussian, Laplace, Mechanism, Setting, Terms, lemma2_constant, theorem4
from gossamer.privacy.accountant import curve, epsilon_of
from gossamer.report.budget import draw_budget
from gossamer.schedules import Decay
from gossamer.simulate.engine import setting_of
from gossamer.types import GossamerError


def budget(
    dataset: Dataset = typer.Argument(Dataset.mushrooms, help="The data whose range bounds the gradients."),
    paper: bool = typer.Option(False, "--paper", help="The paper's step, noise and penalty, as published."),
    epsilon: str | None = typer.Option(None, help="Budgets to find the noise for: one ε, or one each: 1,2,4,…"),
    noise: str | None = typer.Option(None, help="Noise to find the budgets of, as for 'gossamer run'."),
    horizon: str = typer.Option("2000", help="Rounds, or inf for ever."),
    now: int = typer.Option(0, min=0, help="Rounds done already: shows what they have cost."),
    law: Law = typer.Option(Law.laplace, help="Laplace noise (pure ε) or Gaussian noise (ε at --delta)."),
    delta: float = typer.Option(1e-5, help="δ, for Gaussian noise."),
    where: Where = typer.Option(Where.messages, help="Noise on what is sent, or on the newest records' gradient."),
    rows: Rows = typer.Option(Rows.raw, help="Features as they are, or scaled to ‖a‖₁ = 1 or ‖a‖₂ = 1."),
    gradient: Gradients = typer.Option(Gradients.history, help="Over all records so far, or the newest only."),
    step: str | None = typer.Option(None, help="Step size λ0,v [default: 1,0.8, or the paper's 1,0.6]."),
    l2: float = typer.Option(1e-2, help="Ridge penalty."),
    learners: int | None = typer.Option(None, min=2, help="How many learners [default: the graph's, or 10]."),
    graph: str = typer.Option("paper", help="Network file or name."),
    as_json: bool = typer.Option(False, "--json", help="Print the numbers as JSON."),
    plot: Path | None = typer.Option(None, help="Draw ε over the rounds into this file."),
) -> None:
    """Say what a run will cost each learner in privacy, or how much noise a budget needs; nothing is run.

    \b
    gossamer budget --paper --rows l1                     the paper's settings, and its Theorem 4 beside
    gossamer budget --epsilon 8 --horizon inf --rows l1   noise for ε = 8 for ever
    gossamer budget --epsilon 1,2,4,8,16,1,2,4,8,16 --law gaussian --rows l2
    """
    if plot is not None:
        check_picture(plot)
    network = read_network(graph, learners)
    rounds = parse.rounds(horizon)
    steps = 2000 if math.isinf(rounds) else int(rounds)
    schedule = parse.step_schedule(step or (PAPER_STEP if paper else "1,0.8"))
    mechanism = _mechanism(paper, epsilon, noise, law, delta, where, rounds, network.m)
    algorithm = ldp_gradient_tracking(step=schedule, strict=False)
    stream = datasets.mushrooms(network.m, draw="once" if where is Where.source else "random", rows=rows.value)
    if where is Where.source and stream.rounds is not None:
        steps = min(steps, stream.rounds)
    kind: Any = gradient.value if where is Where.messages else "latest"
    setting = setting_of(algorithm, network, stream, LogisticRegression(l2), kind, steps, stream.table.columns)
    ledgers = [Accountant(terms, delta=mechanism.delta) for terms in mechanism.terms(setting)]
    found = [_learner(i, ledger, network, schedule, setting, steps, now) for i, ledger in enumerate(ledgers)]
    if as_json:
        about = {"steps": steps, "mechanism": str(mechanism), "rows": rows.value, "delta": mechanism.delta}
        typer.echo(json.dumps({**about, "learners": [_null(row) for row in found]}, indent=1))
    else:
        _show(Console(), found, mechanism, steps, now)
    if plot is not None:
        save_picture(draw_budget(*_curves(ledgers, steps), title=str(mechanism)), plot)
        if not as_json:
            Console().print(f"Picture: {plot}")


def _mechanism(
    paper: bool, epsilon: str | None, noise: str | None, law: Law, delta: float, where: Where, rounds: float, m: int
) -> Mechanism:
    if epsilon is not None and (noise is not None or paper):
        raise GossamerError("--epsilon finds the noise, --noise and --paper state it: give one of them.")
    if epsilon is None:
        scale = parse.noise_schedule(noise or PAPER_NOISE, m)
        if scale is None:
            raise GossamerError("without noise there is no budget: give --noise ν0,ς or --epsilon.")
        return Laplace(scale, where.value) if law is Law.laplace else Gaussian(scale, where.value, delta=delta)
    budgets = parse.budgets(epsilon, m)
    if law is Law.laplace:
        return Laplace.for_budget(budgets, horizon=rounds, where=where.value)
    return Gaussian.for_budget(budgets, delta, horizon=rounds, where=where.value)


def _learner(
    i: int, ledger: Accountant, network: Network, step: Decay, setting: Setting, steps: int, now: int
) -> dict[str, Any]:
    terms, delta = ledger.terms, ledger.delta
    return {
        "learner": i,
        "noise": terms.initial,
        "exponent": terms.exponent,
        "epsilon_now": ledger.epsilon_at(now, delta),
        "epsilon": ledger.epsilon_at(steps, delta),
        "epsilon_for_ever": ledger.epsilon_for_ever(delta),
        "theorem4": _theorem4(i, terms, network, step, setting, steps),
    }


def _theorem4(i: int, terms: Terms, network: Network, step: Decay, setting: Setting, steps: int) -> float | None:
    if terms.law != "laplace" or terms.where != "messages" or not terms.history:
        return None
    scale = np.arange(1.0, steps + 2)[:, None] ** terms.exponent / terms.initial
    gamma = 1 - network.spectral_gap
    rows = network.rows()
    known = network.own_weights(int(min(network.settles, 10_000)))
    return theorem4(
        setting.reach(1)[0],
        np.asarray(step(np.arange(steps))),
        np.hstack([scale, scale]),
        float(np.abs(rows.R_ii).min()),
        float(np.abs(rows.C_ii).min()),
        float(network.perron[i]),
        lemma2_constant(known, network.perron, gamma),
        gamma,
    )


def _null(row: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


def _show(console: Console, found: list[dict[str, Any]], mechanism: Mechanism, steps: int, now: int) -> None:
    at = f" at δ = {mechanism.delta:g}" if mechanism.delta else ""
    headers = [f"{'ν0' if mechanism.law == 'laplace' else 'σ0'}", "ς"]
    headers += [f"ε after {now}"] * (now > 0) + [f"ε after {steps}", "ε for ever", "Theorem 4"]
    table = Table("learner", *headers, box=None, header_style="bold", pad_edge=False, title=f"Budgets{at}")
    for row in found:
        cells = [f"{row['noise']:.4g}", f"{row['exponent']:g}"]
        cells += [_number(row["epsilon_now"])] * (now > 0)
        cells += [_number(row[name]) for name in ("epsilon", "epsilon_for_ever", "theorem4")]
        table.add_row(str(row["learner"]), *cells)
    console.print(table)
    for sentence in _advice(found, mechanism, steps):
        console.print(f"[yellow]•[/] {sentence}", highlight=False)


def _number(value: float | None) -> str:
    return "–" if value is None else "∞" if math.isinf(value) else f"{value:.4g}"


def _advice(found: list[dict[str, Any]], mechanism: Mechanism, steps: int) -> list[str]:
    """What to change to get to ε = 1, and to be finite for ever."""
    advice = []
    worst = max(row["epsilon"] for row in found)
    if worst > 1 and mechanism.scale is not None:
        advice.append(f"For ε ≤ 1 over {steps} rounds: gossamer budget --epsilon 1 --horizon {steps} finds the noise.")
    if any(math.isinf(row["epsilon_for_ever"]) for row in found) and mechanism.where == "messages":
        advice.append(
            "∞ for ever: a noise exponent ς below the step's v is needed (or Gaussian noise, or --where source)."
        )
    if worst > 10 and mechanism.where == "messages":
        advice.append("Noise at the source costs 2c/(Nν) once, whatever the horizon: try --where source.")
    return advice


def _curves(ledgers: list[Accountant], steps: int) -> tuple[Any, list[Any]]:
    rounds = np.unique(np.geomspace(1, steps, 40).astype(int)).astype(float)
    curves = []
    for ledger in ledgers:
        gaussian = ledger.terms.law == "gaussian"
        pure = np.full(len(rounds), math.inf) if gaussian else curve(ledger.terms, rounds, False)
        squares = curve(ledger.terms, rounds, True) if gaussian else np.full(len(rounds), math.inf)
        charge = [ledger.terms.surcharge(int(t)) for t in rounds]
        both = zip(pure, squares, charge, strict=True)
        curves.append(np.array([epsilon_of(ledger.terms, p, q, ledger.delta, c) for p, q, c in both]))
    return rounds, curves
