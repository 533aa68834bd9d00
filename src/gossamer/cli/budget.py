"""`gossamer budget`: what privacy costs before anybody sends anything."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.algorithms import ldp_gradient_tracking
from gossamer.cli import options, parse
from gossamer.cli.output import check_apart, check_picture, save_picture
from gossamer.cli.prepare import check_clip, check_delta, check_rounds, delta_of, for_budget, full_rounds, resolved
from gossamer.cli.prepare import parts as parts_of
from gossamer.cli.settings import (
    OWN_STEP,
    PAPER_NOISE,
    PAPER_STEP,
    STEPS,
    Dataset,
    Law,
    Rows,
    Settings,
    Where,
    command,
)
from gossamer.errors import GossamerError
from gossamer.networks import Network
from gossamer.privacy import Accountant, Gaussian, Laplace, Mechanism, Setting, Terms, lemma2_constant, theorem4
from gossamer.privacy.accountant import curve, epsilon_of
from gossamer.report.budget import draw_budget
from gossamer.schedules import Decay
from gossamer.simulate.engine import setting_of
from gossamer.streams import Stream


def budget(
    dataset: Dataset | None = typer.Argument(
        None, help="The data whose range bounds the gradients [default: mushrooms]."
    ),
    paper: bool = typer.Option(False, "--paper", help="The paper's step, noise and penalty, as published."),
    csv: options.Csv = None,
    target: options.Target = None,
    split_by: options.SplitBy = None,
    categorical: options.Categorical = [],  # noqa: B006, typer makes a new list for every call
    categories: options.Categories = [],  # noqa: B006
    classes: options.Classes = None,
    drop: options.Drop = [],  # noqa: B006
    range_: options.Range = [],  # noqa: B006
    per_round: options.PerRound = None,
    model: options.Model = None,
    l2: options.L2 = None,
    clip: options.Clip = None,
    epsilon: str | None = typer.Option(
        None, help="Budgets to find the noise for: one ε, or one each in the order of the table: 1,2,4,…"
    ),
    noise: str | None = typer.Option(None, help="Noise to find the budgets of, as for 'gossamer run'."),
    horizon: str | None = typer.Option(
        None, help="Rounds, or inf for ever [default: 2000, or fewer where the data end sooner]."
    ),
    now: int = typer.Option(0, min=0, help="Rounds done already: shows what they have cost."),
    law: Law = typer.Option(Law.laplace, help="Laplace noise (pure ε) or Gaussian noise (ε at --delta)."),
    delta: float | None = typer.Option(
        None, help="δ of Gaussian noise [default: 1e-05]; with Laplace noise, shows ε at this δ, too."
    ),
    where: Where = typer.Option(Where.messages, help="Noise on what is sent, or on the newest records' gradient."),
    rows: options.ScaledRows = Rows.raw,
    gradient: options.Gradient = None,
    step: str | None = typer.Option(None, help=f"Step size λ0,v [default: {OWN_STEP}, or {PAPER_STEP} with --paper]."),
    learners: options.Learners = None,
    graph: options.Graph = None,
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
        check_apart(csv=csv, graph=Path(graph) if graph else None, plot=plot)
    given = Settings(
        dataset=dataset.value if dataset else None if csv else Dataset.mushrooms.value,
        csv=str(csv) if csv else None,
        target=target,
        split_by=split_by,
        categorical=parse.names(categorical),
        categories=categories,
        classes=classes,
        drop=parse.names(drop),
        range=parse.names(range_),
        per_round=per_round,
        model=model.value if model else None,
        l2=l2,
        clip=clip,
        learners=learners,
        graph=graph,
        step=step or (PAPER_STEP if paper else None),
        noise=noise or (PAPER_NOISE if paper else None),
        epsilon=epsilon,
        law=law.value,
        delta=delta,
        where=where.value,
        horizon=horizon,
        rows=rows.value,
        gradient=gradient.value if gradient else None,
    )
    if given.images:
        raise GossamerError(
            f"gossamer budget is for the mushrooms and for CSV files: 'gossamer run {given.dataset} --clip C' says "
            "what a run's noise would cost, and with --epsilon finds it."
        )
    check_delta(given)
    settings, said = resolved(given)
    stream, what, network = parts_of(settings)
    check_clip(what)
    steps, why = _rounds(settings, stream, now)
    mechanism = _mechanism(settings, network.m, steps)
    schedule = parse.step_schedule(settings.step or OWN_STEP)
    algorithm = ldp_gradient_tracking(step=schedule, strict=False)
    kind: Any = settings.gradient
    size = what.theta_size(stream.table.columns)
    setting = setting_of(algorithm, network, stream, what, kind, steps, size)
    ledgers = [Accountant(terms, delta=mechanism.delta) for terms in mechanism.terms(setting)]
    found = [_learner(i, ledger, network, schedule, setting, steps, now) for i, ledger in enumerate(ledgers)]
    if law is Law.laplace and delta is not None:
        for row, ledger in zip(found, ledgers, strict=True):
            row["epsilon_at_delta"] = ledger.epsilon_at(steps, delta)
    names = list(stream.description.get("names") or map(str, range(network.m)))
    if as_json:
        about = {"steps": steps, "mechanism": str(mechanism), "rows": rows.value, "delta": delta or mechanism.delta}
        typer.echo(json.dumps({**about, "learners": [_null(row) for row in found]}, indent=1))
    else:
        _show(Console(), found, names, mechanism, steps, now, delta)
        for sentence in [*said, *why, *_advice(found, mechanism, given, steps)]:
            Console().print(f"[yellow]•[/] {escape(sentence)}", highlight=False, soft_wrap=True)
    if plot is not None:
        save_picture(draw_budget(*_curves(ledgers, steps), names=names, title=_title(mechanism)), plot)
        if not as_json:
            Console().print(f"Picture: {plot}")


def _rounds(settings: Settings, stream: Stream, now: int) -> tuple[int, list[str]]:
    """Over how many rounds ε is counted, and a sentence where the data decide it."""
    full = full_rounds(stream)
    rounds = None if settings.horizon is None else parse.rounds(settings.horizon)
    if rounds is not None and math.isfinite(rounds):
        check_rounds("--horizon", rounds, stream)
        if now > rounds:
            raise GossamerError(f"--now {now} is beyond --horizon {rounds:g}: give at most as many rounds.")
        return int(rounds), []
    steps = int(min(STEPS, full))
    if now > (full if rounds is not None else steps):  # for ever may be later than what the table shows
        raise GossamerError(f"--now {now} is beyond the {steps} rounds that are counted: give a larger --horizon.")
    return steps, [f"ε is counted over {steps} rounds, as many full ones as the data have."] if steps < STEPS else []


def _mechanism(settings: Settings, m: int, steps: int) -> Mechanism:
    if settings.epsilon is not None and settings.noise is not None:
        raise GossamerError("--epsilon finds the noise, --noise and --paper state it: give one of them.")
    if settings.epsilon is not None:
        for_ever = settings.horizon is not None and math.isinf(parse.rounds(settings.horizon))
        return for_budget(settings, m, math.inf if for_ever else steps)
    scale = parse.noise_schedule(settings.noise or PAPER_NOISE, m)
    if scale is None:
        raise GossamerError("without noise there is no budget: give --noise ν0,ς or --epsilon.")
    where: Any = settings.where
    if settings.law == Law.laplace:
        return Laplace(scale, where)
    return Gaussian(scale, where, delta=delta_of(settings))


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
    if terms.law != "laplace" or terms.where != "messages" or terms.window < math.inf:
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


def _title(mechanism: Mechanism) -> str:
    """What the noise is, in a few words."""
    place = "on messages" if mechanism.where == "messages" else "at the source"
    return f"{mechanism.law.capitalize()} noise {place}" + (f", δ = {mechanism.delta:g}" if mechanism.delta else "")


def _show(
    console: Console,
    found: list[dict[str, Any]],
    names: list[str],
    mechanism: Mechanism,
    steps: int,
    now: int,
    delta: float | None,
) -> None:
    letter = "ν" if mechanism.law == "laplace" else "σ"
    columns = {"noise": f"{letter}0", "exponent": "ς"}
    columns |= {"epsilon_now": f"ε after {now}"} if now else {}
    columns |= {"epsilon": f"ε after {steps}"}
    columns |= {"epsilon_at_delta": f"at δ = {delta:g}"} if "epsilon_at_delta" in found[0] else {}
    columns |= {"epsilon_for_ever": "ε for ever"}
    columns |= {"theorem4": "Theorem 4"} if any(row["theorem4"] is not None for row in found) else {}
    title = f"{_title(mechanism)}: {letter} = {letter}0/(t+1)^ς in round t"
    console.print(title, highlight=False)
    table = Table("learner", *columns.values(), box=None, header_style="bold", pad_edge=False)
    for name, row in zip(names, found, strict=True):
        table.add_row(escape(name), *(_number(row[column]) for column in columns))
    console.print(table)


def _number(value: float | None) -> str:
    return "–" if value is None else "∞" if math.isinf(value) else f"{value:.4g}"


def _advice(found: list[dict[str, Any]], mechanism: Mechanism, given: Settings, steps: int) -> list[str]:
    """What to change to get to ε = 1, and to be finite for ever."""
    advice = []
    worst = max(row["epsilon"] for row in found)
    if worst > 1 and mechanism.scale is not None:
        asked = replace(given, noise=None, epsilon="1", horizon=None if given.horizon is None else str(steps))
        advice.append(f"For ε ≤ 1 over {steps} rounds, this finds the noise: {command('budget', asked)}")
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
        both = zip(pure, squares, rounds, strict=True)
        curves.append(np.array([epsilon_of(ledger.terms, p, q, ledger.delta, int(t)) for p, q, t in both]))
    return rounds, curves
