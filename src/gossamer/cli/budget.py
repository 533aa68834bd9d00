"""`gossamer budget`: what privacy costs before anybody sends anything."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.algorithms import find_method, ldp_gradient_tracking
from gossamer.algorithms.base import AUTO
from gossamer.cli.bullets import say
from gossamer.cli.json_output import console_beside, json_file, json_option, put_json
from gossamer.cli.options import CSV, LINEAR, RELEASES, takes
from gossamer.cli.output import check_apart, check_picture, command_for
from gossamer.cli.words import in_command
from gossamer.errors import Argument, BadValue, GossamerError, Sentence
from gossamer.networks import Network
from gossamer.privacy import Accountant, Mechanism, Setting, Terms, lemma2_constant, theorem4
from gossamer.privacy.accountant import epsilon_curve
from gossamer.schedules import Decay, decay
from gossamer.setting import full_rounds, refuse_more_rounds, setting_of
from gossamer.spec.build import build_data, build_mechanism, decide_delta, refuse_unbounded, state_mechanism
from gossamer.spec.description import OWN_STEP, OWN_STEPS, STEPS, Spec
from gossamer.spec.languages import noise_schedule, rounds, step_schedule
from gossamer.spec.rules import ALGORITHM_1, check_delta, check_secrets, dataset_of, decide_noise, goes_on, step_of
from gossamer.streams import Stream

PAPER_STEP, PAPER_NOISE = "1,0.6", "1,0.51:0.6"
HELPS = {
    "epsilon": "Budgets to find the noise for: one ε, or one each in the order of the table: 1,2,4,…",
    "noise": "Noise to find the budgets of, as for 'gossamer run'.",
    "horizon": "Rounds, or inf for ever [default: 2000, 1000 of a CSV, or fewer where the data end sooner].",
    "law": "Laplace noise (pure ε) or Gaussian noise (ε at --delta).",
    "delta": "δ of Gaussian noise [default: 1e-05]; with Laplace noise, shows ε at this δ, too.",
    "where": "Noise on what is sent, or on the gradient over a learner's records [default: source to find noise].",
    "dataset": "Built-in data: mushrooms, or regression with --clip [default: mushrooms].",
    "step": f"Step size λ0,v, which counts for noise on messages alone [default: {OWN_STEP}; {PAPER_STEP} with "
    "--paper].",
}


@takes(
    "dataset", *CSV, *LINEAR, "epsilon", "noise", "horizon", "law", "delta", "where", *RELEASES, "rows", "gradient",
    "remember", "step", "learners", "graph", helps=HELPS,
)  # fmt: skip
def budget(
    spec: Spec,
    paper: bool = typer.Option(False, "--paper", help="The paper's step, noise and penalty, as published."),
    now: int = typer.Option(0, min=0, help="Rounds done already: shows what they have cost."),
    json: str | None = json_option("the numbers"),
    plot: Path | None = typer.Option(None, help="Draw ε over the rounds into this file."),
) -> None:
    """Say what a run will cost each learner in privacy, or how much noise a budget needs; nothing is run.

    \b
    gossamer budget --paper --rows l1                     the paper's settings, and its Theorem 4 beside
    gossamer budget --epsilon 8 --horizon inf --rows l1   noise for ε = 8 for ever
    gossamer budget --epsilon 1,2,4,8,16,1,2,4,8,16 --law gaussian --rows l2
    """
    console, json_path = console_beside(json), json_file(json)
    if plot is not None:
        check_picture(plot)
    if plot is not None or json_path is not None:
        csv, graph = (Path(name) if name else None for name in (spec.data.csv, spec.network.graph))
        check_apart(csv=csv, graph=graph, plot=plot, json=json_path)
    told, given = spec, _described(spec, paper)
    dataset = dataset_of(given)
    if dataset is not None and dataset.images:
        raise GossamerError(
            f"gossamer budget is for the mushrooms and for CSV files: 'gossamer run {dataset.name} --clip C' says "
            "what a run's noise would cost, and with --epsilon finds it."
        )
    check_delta(given)
    check_secrets(given)
    spec = decide_noise(given, dataset)
    stream, model, network = build_data(spec, dataset)
    spec = decide_delta(spec, dataset, stream)
    refuse_unbounded(model)
    steps, why = _rounds(spec, stream, now, goes_on(spec, dataset))
    mechanism = _mechanism(spec, network.m, steps)
    text = spec.algorithm.step or OWN_STEP
    if text == AUTO and spec.privacy.where == "messages":
        raise BadValue("step", AUTO, "with noise on messages ε depends on the step", "give λ0,v, such as 1,0.8")
    auto = step_of(spec, dataset) == AUTO  # at the source ε does not depend on λ0
    step = decay(1.0, find_method(ALGORITHM_1).step_exponent) if auto else step_schedule(text)
    algorithm = ldp_gradient_tracking(step=step, strict=False)
    gradient: Any = spec.algorithm.gradient
    setting = setting_of(algorithm, network, stream, model, gradient, steps)
    ledgers = [Accountant(terms, delta=mechanism.delta) for terms in mechanism.terms(setting)]
    learners = [_learner(i, ledger, network, step, setting, steps, now) for i, ledger in enumerate(ledgers)]
    delta = spec.privacy.delta
    if not mechanism.law.needs_delta and delta is not None:
        for row, ledger in zip(learners, ledgers, strict=True):
            row["epsilon_at_delta"] = ledger.epsilon_at(steps, delta)
    names = list(stream.description.get("names") or map(str, range(network.m)))
    about = {
        "data": _data(spec),
        "steps": steps,
        "mechanism": str(mechanism),
        "against": mechanism.against,
        "rows": spec.data.rows,
        "delta": delta or mechanism.delta,
    }
    put_json(json, {**about, "learners": learners})
    _show(console, learners, names, mechanism, steps, now, delta, _data(spec))
    for sentence in [
        *_assumed(told),
        *why,
        *_by_arrival(ledgers[0], steps),
        *_worth(ledgers),
        *_advice(learners, mechanism, given, steps),
    ]:
        say(console, sentence.said(in_command))
    if plot is not None:
        from gossamer.report import draw_budget, save_picture

        save_picture(
            draw_budget(*_curves(ledgers, steps), names=names, title=f"{_title(mechanism)}, {mechanism.against}"), plot
        )
        console.print(f"Picture: {plot}")


def _described(spec: Spec, paper: bool) -> Spec:
    """With the mushrooms where no data are named, and with the paper's settings where these are asked for."""
    if spec.data.dataset is None and spec.data.csv is None:
        spec = spec.but(dataset="mushrooms")
    if paper:
        step, noise = spec.algorithm.step or PAPER_STEP, spec.privacy.noise or PAPER_NOISE
        spec = spec.but(step=step, noise=noise)
    return spec


def _data(spec: Spec) -> str:
    """What the budget is of, in a word."""
    return spec.data.dataset or Path(spec.data.csv or "").name


def _assumed(told: Spec) -> list[Sentence]:
    """A sentence where nobody has said whose budget it is."""
    if told.data.dataset is not None or told.data.csv is not None:
        return []
    return [
        Sentence(
            "No data were named, so this is about the mushrooms: name a dataset, or give ", Argument("csv", "FILE"),
            " and ", Argument("target", "COLUMN"), ".",
        )
    ]  # fmt: skip


def _rounds(spec: Spec, stream: Stream, now: int, on: bool) -> tuple[int, list[Sentence]]:
    """Over how many rounds ε is counted, and a sentence where the data decide it; `on`: learners go on after those."""
    full = math.inf if on else full_rounds(stream)
    asked = None if spec.privacy.horizon is None else rounds(spec.privacy.horizon)
    if on and (asked is None or math.isinf(asked)):
        return OWN_STEPS, []
    if asked is not None and math.isfinite(asked):
        if not on:
            refuse_more_rounds("horizon", asked, stream)
        if now > asked:
            raise GossamerError(f"--now {now} is beyond --horizon {asked:g}: give at most as many rounds.")
        return int(asked), []
    steps = int(min(STEPS, full))
    if now > (full if asked is not None else steps):  # for ever may be later than what the table shows
        raise BadValue("now", now, f"it is beyond the {steps} rounds that are counted", "give a larger --horizon")
    why = [Sentence(f"ε is counted over {steps} rounds, as many full ones as the data have.")]
    return steps, why if steps < STEPS else []


def _mechanism(spec: Spec, m: int, steps: int) -> Mechanism:
    if spec.private and spec.privacy.noise is not None:
        raise GossamerError("--epsilon finds the noise, --noise and --paper state it: give one of them.")
    if spec.private:
        for_ever = spec.privacy.horizon is not None and math.isinf(rounds(spec.privacy.horizon))
        return build_mechanism(spec, m, math.inf if for_ever else steps)
    scale = noise_schedule(spec.privacy.noise or PAPER_NOISE, m)
    if scale is None:
        raise GossamerError("without noise there is no budget: give --noise ν0,ς or --epsilon.")
    return state_mechanism(spec, scale)


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
        **(
            {} if terms.shared is None else {"epsilon_if_all_collude": Accountant(terms.alone).epsilon_at(steps, delta)}
        ),
        "theorem4": _theorem4(i, terms, network, step, setting, steps),
    }


def _theorem4(i: int, terms: Terms, network: Network, step: Decay, setting: Setting, steps: int) -> float | None:
    if terms.law.needs_delta or terms.where != "messages" or terms.window < math.inf or not network.gap.exact:
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


def _by_arrival(ledger: Accountant, steps: int) -> list[Sentence]:
    """At the source, when gradients are released, and what records that come later cost."""
    terms = ledger.terms
    if terms.where != "source" or terms.window == 1:
        return []
    released = terms.releases.before(steps)
    rounds = [int(k) for k in np.linspace(released[0], steps - 1, 4)] if len(released) else []
    spent = ledger.epsilon_by_arrival(rounds, steps, ledger.delta)
    each = ", ".join(f"round {k}: {epsilon:.3g}" for k, epsilon in zip(rounds, spent, strict=True))
    cost = "Late records cost less."
    if terms.window < math.inf:
        cost = f"A record is in the releases of {terms.window:g} rounds."
    return [
        Sentence(
            f"{len(released)} releases in {steps} rounds (",
            terms.releases.argument,
            "); in the others learners only mix.",
        ),
        Sentence(f"{cost} ε of a record by the round of its arrival, after {steps}: {each}."),
    ]


def _worth(ledgers: list[Accountant]) -> list[Sentence]:
    """With pair secrets: what they are worth, with the same releases."""
    shared = [ledger.terms.shared for ledger in ledgers if ledger.terms.shared is not None]
    if not shared:
        return []
    each = [ledger.terms.initial / ledger.terms.shared.seen for ledger in ledgers if ledger.terms.shared is not None]
    return [
        Sentence(
            f"σ0 is a learner's own noise; each pair adds {shared[0].pair / shared[0].floor:.3g} times as much. "
            f"Without secrets the same releases would take σ0 = {max(each):.4g}."
        )
    ]


def _title(mechanism: Mechanism) -> str:
    """What the noise is, in a few words."""
    place = "on messages" if mechanism.where == "messages" else "at the source"
    return f"{str(mechanism.law).capitalize()} noise {place}" + (
        f", δ = {mechanism.delta:g}" if mechanism.delta else ""
    )


def _show(
    console: Console,
    learners: list[dict[str, Any]],
    names: list[str],
    mechanism: Mechanism,
    steps: int,
    now: int,
    delta: float | None,
    data: str,
) -> None:
    letter = mechanism.law.letter
    columns = {"noise": f"{letter}0", "exponent": "ς"}
    columns |= {"epsilon_now": f"ε after {now}"} if now else {}
    columns |= {"epsilon": f"ε after {steps}"}
    columns |= {"epsilon_at_delta": f"at δ = {delta:g}"} if "epsilon_at_delta" in learners[0] else {}
    columns |= {"epsilon_for_ever": "ε for ever"}
    alone = {"epsilon_if_all_collude": f"after {steps} if all others collude"}
    columns |= alone if mechanism.secrets is not None else {}
    columns |= {"theorem4": "Theorem 4"} if any(row["theorem4"] is not None for row in learners) else {}
    noise = f"{_title(mechanism)}, {mechanism.against}"
    title = f"{data}, {len(names)} learners, {noise}: {letter} = {letter}0/(t+1)^ς in round t"
    console.print(escape(title), highlight=False, soft_wrap=True)
    table = Table("learner", *columns.values(), box=None, header_style="bold", pad_edge=False)
    for name, row in zip(names, learners, strict=True):
        table.add_row(escape(name), *(_number(row[column]) for column in columns))
    console.print(table)


def _number(value: float | None) -> str:
    return "–" if value is None else "∞" if math.isinf(value) else f"{value:.4g}"


def _advice(learners: list[dict[str, Any]], mechanism: Mechanism, given: Spec, steps: int) -> list[Sentence]:
    """What to change to get to ε = 1, and to be finite for ever."""
    advice = []
    worst = max(row["epsilon"] for row in learners)
    if worst > 1 and mechanism.scale is not None:
        asked = given.but(noise=None, epsilon="1", horizon=None if given.privacy.horizon is None else str(steps))
        advice.append(Sentence(f"For ε ≤ 1 over {steps} rounds, this finds the noise: {command_for('budget', asked)}"))
    if any(math.isinf(row["epsilon_for_ever"]) for row in learners) and mechanism.where == "messages":
        advice.append(
            Sentence(
                "∞ for ever: a noise exponent ς below the step's v is needed (or Gaussian noise, or ",
                Argument("where", "source"), ").",
            )
        )  # fmt: skip
    if worst > 10 and mechanism.where == "messages":
        once = "Noise at the source, once on the mean gradient over all records, costs far less: try "
        advice.append(Sentence(once, Argument("where", "source"), "."))
    return advice


def _curves(ledgers: list[Accountant], steps: int) -> tuple[Any, list[Any]]:
    counted = np.unique(np.geomspace(1, steps, 40).astype(int)).astype(float)
    return counted, [epsilon_curve(ledger.terms, counted, ledger.delta) for ledger in ledgers]
