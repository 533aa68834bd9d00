"""`gossamer compare` and `gossamer frontier`: studies, each in one folder of numbers, pictures and words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from gossamer.algorithms import METHODS, find_method
from gossamer.cli.json_output import console_beside, json_file, json_option, put_json
from gossamer.cli.options import CSV, LINEAR, NETWORKS, takes
from gossamer.cli.output import check_place, command_line
from gossamer.cli.sweeps import ENGINE, counted_runs
from gossamer.cli.watch import undisturbed
from gossamer.datasets import Dataset
from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.experiments import compare as figure2
from gossamer.experiments import features, own, pictures
from gossamer.experiments import frontier as privacy_frontier
from gossamer.experiments.engines import LOCAL, check_engine
from gossamer.experiments.feature_words import list_accuracies, tell_features
from gossamer.experiments.frontier_words import tell_frontier
from gossamer.experiments.pages import Page, epsilon_range, score_of
from gossamer.experiments.picture_words import final, tell_pictures
from gossamer.experiments.picture_words import rank as rank_pictures
from gossamer.experiments.runs import Runs
from gossamer.experiments.study import TUNING, Effort, Studied
from gossamer.experiments.tasks import data_of
from gossamer.experiments.words import rank, tell_comparison
from gossamer.setting import full_rounds
from gossamer.spec import Spec
from gossamer.spec.description import RIDGE
from gossamer.spec.languages import names
from gossamer.spec.rules import dataset_of

SHOWN = {"tracking_error": "‖θ − θ*‖", "optimality_gap": "excess loss", "accuracy": "accuracy"}
WHERE = "The kinds of noise with which noise goes there, where none is named."
Jobs = typer.Option(None, min=1, help="Runs at once [default: one for each core, of a cluster for each of its CPUs].")
Json = json_option("all numbers, those of results.json in the folder,")
Methods = typer.Option(
    None,
    help="Some of the methods, by name: a,b,c [default: all but dsgd_naive, a misuse that is kept as an ablation].",
)


@takes(
    "dataset", *CSV, *LINEAR, *NETWORKS, "split", "rows", "learners", "graph", "where",
    helps={"dataset": "Built-in data to compare on: mushrooms, mnist, cifar10 or regression.", "where": WHERE},
)  # fmt: skip
def compare(
    spec: Spec,
    methods: str | None = Methods,
    epsilon: float | None = typer.Option(
        None,
        help="ε of every learner over the whole run [default: Algorithm 1's largest under its published settings; of a "
        f"CSV {own.EPSILON:g}].",
    ),
    kind: str | None = typer.Option(
        None,
        help=f"The kind of noise: {'; '.join(privacy_frontier.KINDS)} [default: the first; of a CSV "
        f"{own.SOURCE_KIND}].",
    ),
    regression: bool = typer.Option(False, "--regression", help="The same as the dataset 'regression'."),
    steps: int | None = typer.Option(
        None, min=2, help="Rounds [default: 200, 1000 or 2000, by effort; images 30 or 1500; a CSV 500]."
    ),
    seeds: int | None = typer.Option(
        None, min=1, max=TUNING, help="Seeds that are reported [default: 3, 5 or 20, by effort; images 1 or 3]."
    ),
    jobs: int | None = Jobs,
    engine: str = ENGINE,
    quick: bool = typer.Option(
        False, "--quick", help="A first look, in about a minute or two, images three on one core."
    ),
    full: bool = typer.Option(False, "--full", help="The whole study, in about an hour on two cores."),
    out: Path = typer.Option(Path("gossamer-compare"), help="Folder; what is there already is not run again."),
    json: str | None = Json,
) -> None:
    """Compare methods at the same ε, each tuned alike, as in Figures 2, 3 and 4 of the paper.

    \b
    gossamer compare mushrooms --quick
    gossamer compare mushrooms --full --split by-class
    gossamer compare mnist --device cuda --bf16
    gossamer compare --csv visits.csv --target ill --classes 0,1 --range age=0:120 --epsilon 1
    """
    _check_effort(quick, full, out, json)
    check_engine(engine)
    if regression:
        spec = spec.but(dataset="regression")
    if spec.data.dataset is None and spec.data.csv is None:
        raise GossamerError(
            "what to compare on: give a dataset, such as mushrooms, --csv FILE --target COLUMN, or --regression."
        )
    dataset = dataset_of(spec)
    if dataset is not None and dataset.images:
        if epsilon is not None or jobs is not None or full or engine != LOCAL:
            raise GossamerError("--epsilon, --jobs, --engine and --full are not for images: leave them out.")
        _compare_images(spec, methods, steps, seeds, quick, out, json)
        return
    if epsilon is not None and not 0 < epsilon < math.inf:
        raise BadValue("epsilon", epsilon, "expected a finite number above 0")
    runs = counted_runs("compare", out, jobs, engine)
    if dataset is None:
        studied = _compare_own(spec, methods, epsilon, kind, steps, seeds, quick, full, runs)
    else:
        studied = _compare_dataset(spec, dataset, methods, epsilon, kind, steps, seeds, quick, full, runs)
    shown = SHOWN | {"accuracy": score_of(studied)}
    table = Table("method", "step", "λ0", *shown.values(), "ε", box=None, header_style="bold", pad_edge=False)
    for entry in [*rank(studied), *(e for e in studied.entries if e.which == figure2.PUBLISHED)]:
        errors = [f"{np.mean(entry.final(name)):.3g}" for name in SHOWN]
        table.add_row(entry.label, entry.which, f"{entry.step:.3g}", *errors, epsilon_range(entry))
    _finish(tell_comparison(studied), table, out, json)


def _compare_dataset(
    spec: Spec, dataset: Dataset, methods: str | None, epsilon: float | None, kind: str | None, steps: int | None,
    seeds: int | None, quick: bool, full: bool, runs: AbstractContextManager[Runs],
) -> Studied:  # fmt: skip
    usual = own.SOURCE_KIND if spec.privacy.where == "source" else figure2.PAPERS_KIND
    kind = _only_kind(kind, usual, spec.privacy.where)
    if kind != figure2.PAPERS_KIND and epsilon is None:
        raise GossamerError(f"--kind '{kind}' needs --epsilon: the published ε is of the paper's own noise.")
    chosen = _choose_methods(methods, _compared())
    problem = _problem(spec.but(where=None), dataset)
    effort = _fit(figure2.QUICK if quick else figure2.FULL if full else figure2.USUAL, problem, steps, seeds)
    with runs as made:
        return figure2.compare(problem, made, effort, chosen, epsilon, kind)


def _compare_own(
    spec: Spec, methods: str | None, epsilon: float | None, kind: str | None, steps: int | None,
    seeds: int | None, quick: bool, full: bool, runs: AbstractContextManager[Runs],
) -> Studied:  # fmt: skip
    usual = own.MESSAGES_KIND if spec.privacy.where == "messages" else own.SOURCE_KIND
    kind = _only_kind(kind, usual, spec.privacy.where)
    source = privacy_frontier.KINDS[kind].where == "source"
    # At the source messages carry no noise: with the own term noised or not, a method is one run.
    chosen = _choose_methods(methods, [m for m in _compared() if not (source and find_method(m).noises_own)])
    problem = own.own_problem(_problem(spec.but(where=None), None))
    effort = figure2.QUICK if quick else figure2.FULL if full else own.COMPARE
    effort = own.fitted(replace(effort, seeds=seeds or effort.seeds), problem, [kind], steps)
    pace = partial(own.own_pace, steps=effort.steps or 1)
    with runs as made:
        return figure2.compare(problem, made, effort, chosen, epsilon or own.EPSILON, kind, pace)


def _only_kind(text: str | None, usual: str, where: str | None) -> str:
    """The kind that is named, or the usual one; refuses one whose noise goes elsewhere than --where says."""
    if text is None:
        return usual
    (kind,) = _choose_kinds(text)
    if where is not None and privacy_frontier.KINDS[kind].where != where:
        raise GossamerError(f"--kind '{kind}' and --where {where}: give one of them.")
    return kind


def _compare_images(
    spec: Spec, methods: str | None, steps: int | None, seeds: int | None, quick: bool, out: Path, json: str | None
) -> None:
    for setting in ("l2", "clip", "learners", "per_round", "where"):
        if setting in spec.given():
            raise GossamerError(Argument(setting), " is not for comparing on images: leave it out.")
    problem = pictures.picture_problem(spec, quick)
    data_of(problem)  # refuses here, before any work
    effort = pictures.shorten(pictures.QUICK if quick else pictures.USUAL, steps, seeds)
    chosen = _choose_methods(methods, pictures.PAPERS_METHODS)
    with counted_runs("compare", out, 1) as runs:  # one device: one run at a time
        studied = pictures.compare_pictures(problem, runs, effort, chosen)
    table = Table("method", "step", "λ0", "test", "training", "ε", box=None, header_style="bold", pad_edge=False)
    for which in ("best", figure2.PUBLISHED, pictures.ONLY_NOISE):
        for entry in rank_pictures(studied, which):
            shown = [f"{final(entry, name):.3f}" for name in ("accuracy", "train_accuracy")]
            table.add_row(escape(entry.label), which, f"{entry.step:.2g}", *shown, epsilon_range(entry))
    _finish(tell_pictures(studied), table, out, json)


@takes("dataset", *CSV, *LINEAR, "split", "learners", "graph", "where", helps={"where": WHERE})
def frontier(
    spec: Spec,
    methods: str | None = Methods,
    kinds: str | None = typer.Option(
        None,
        help=f"Some kinds of noise, with ; between: {'; '.join(privacy_frontier.KINDS)} [default: all; of a CSV "
        f"{own.SOURCE_KIND}; {own.MESSAGES_KIND}].",
    ),
    epsilons: str | None = typer.Option(None, help="The budgets: 1,3,10 [default: by effort]."),
    steps: int | None = typer.Option(None, min=2, help="Rounds [default: 100 or 812, by effort; a CSV 300]."),
    seeds: int | None = typer.Option(None, min=1, max=TUNING, help="Seeds that are shown [default: by effort]."),
    jobs: int | None = Jobs,
    engine: str = ENGINE,
    quick: bool = typer.Option(False, "--quick", help="Three budgets, a hundred rounds: a first look."),
    full: bool = typer.Option(False, "--full", help="Eleven budgets and ten seeds: some hours on two cores."),
    out: Path = typer.Option(Path("gossamer-frontier"), help="Folder; what is there already is not run again."),
    json: str | None = Json,
) -> None:
    """Draw final accuracy and optimality gap against ε, from 0.1 to 10000; of images, a table at ε = 2, 8 and ∞.

    \b
    gossamer frontier mushrooms --quick
    gossamer frontier mushrooms --methods ldp_gradient_tracking,dsgd
    gossamer frontier mnist
    gossamer frontier --csv visits.csv --target ill --classes 0,1 --range age=0:120 --where source
    """
    _check_effort(quick, full, out, json)
    check_engine(engine)
    dataset = dataset_of(spec)
    if dataset is not None and dataset.images:
        given = {*spec.given()} & {*LINEAR, "graph", "learners", "where"}
        if full or kinds or epsilons or steps or seeds or given:
            raise GossamerError(
                "of images --quick, --jobs, --engine, --methods, --split and --out are taken: leave others out."
            )
        _trace_images(spec, methods, counted_runs("frontier", out, jobs, engine), quick, out, json)
        return
    study, where, spec = privacy_frontier, spec.privacy.where, spec.but(where=None)
    effort = study.QUICK if quick else study.FULL if full else study.USUAL if dataset is not None else own.FRONTIER
    if epsilons is not None:
        effort = replace(effort, epsilons=_choose_budgets(epsilons))
    effort = replace(effort, seeds=seeds or effort.seeds)
    chosen, problem, pace = _choose_methods(methods, _compared()), _problem(spec, dataset), None
    usual = ";".join((own.SOURCE_KIND, own.MESSAGES_KIND)) if dataset is None and where is None else None
    wanted = _kinds_there(_choose_kinds(kinds or usual), where)
    if dataset is None:
        problem = own.own_problem(problem)
        effort = own.fitted(effort, problem, wanted, steps)
        pace = partial(own.own_pace, steps=effort.steps or 1)
    elif steps is not None:
        effort = _fit(effort, problem, steps, None)
    with counted_runs("frontier", out, jobs, engine) as runs:
        studied = study.frontier(problem, runs, effort, chosen, wanted, pace)
    _finish(tell_frontier(studied), None, out, json)


def _kinds_there(kinds: Sequence[str], where: str | None) -> tuple[str, ...]:
    """Those whose noise goes where --where says."""
    there = tuple(kind for kind in kinds if where in (None, privacy_frontier.KINDS[kind].where))
    if not there:
        raise GossamerError(f"--where {where}: none of the kinds of --kinds; leave one of them out.")
    return there


def _trace_images(
    spec: Spec, methods: str | None, runs: AbstractContextManager[Runs], quick: bool, out: Path, json: str | None
) -> None:
    effort = features.QUICK if quick else features.USUAL
    chosen = _choose_methods(methods, features.COMPARED)
    problem = features.feature_problem(spec.data.dataset or "", spec.data.split)
    with runs as made:
        studied = features.study_features(problem, made, effort, chosen)
    _finish(tell_features(studied), _feature_table(studied), out, json)


def _feature_table(studied: Studied) -> Table:
    table = Table("method", "ε", "images a round", "λ0", "test accuracy", box=None, header_style="bold", pad_edge=False)
    for entry in studied.entries:
        values, epsilon = list_accuracies(entry), entry.case.epsilon
        accuracy = f"{np.mean(values):.3f} ({min(values):.3f}–{max(values):.3f})"
        budget = "∞" if epsilon is None else f"{epsilon:g}"
        table.add_row(entry.label, budget, str(entry.choice.per_round), f"{entry.step:g}", accuracy)
    return table


def _check_effort(quick: bool, full: bool, out: Path, json: str | None) -> None:
    if quick and full:
        raise GossamerError("--quick and --full: give one of them.")
    check_place(out / "results.json")
    json_file(json)


def _compared() -> tuple[str, ...]:
    return tuple(name for name, method in METHODS.entries().items() if method.compared)


def _choose_methods(text: str | None, usual: Sequence[str]) -> tuple[str, ...]:
    """The methods that --methods names; of a user's own as package.module:name."""
    chosen = tuple(usual) if text is None else tuple(names([text]))
    known = METHODS.entries()
    if not chosen or any(name not in known and ":" not in name for name in chosen):
        raise BadValue("methods", text, f"expected some of {', '.join(known)}")
    for name in chosen:
        METHODS.find(name)
    return chosen


def _choose_kinds(text: str | None) -> tuple[str, ...]:
    """The kinds of noise that are named, as far as is needed to tell them apart."""
    known = tuple(privacy_frontier.KINDS)
    chosen = []
    for word in known if text is None else [word.strip() for word in text.split(";") if word.strip()]:
        meant = [word] if word in known else [kind for kind in known if word.lower() in kind.lower()]
        if len(meant) != 1:
            raise BadValue("kinds", word, f"expected one of {'; '.join(known)}")
        chosen += meant
    return tuple(chosen)


def _choose_budgets(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(word) for word in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < epsilon < math.inf for epsilon in found):
        raise BadValue("epsilons", text, "expected finite numbers above 0, such as 1,3,10")
    return found


def _problem(spec: Spec, dataset: Dataset | None) -> Spec:
    """What is compared on, with the network and the penalty said; refuses here, before any work."""
    if dataset is not None and "learners" in spec.given():
        raise GossamerError(Argument("learners"), " is for ", Argument("csv", "FILE"), ": leave it out.")
    clip = 1.0 if dataset is not None and dataset.name == "regression" and spec.model.clip is None else spec.model.clip
    ridge = RIDGE if spec.model.l2 is None and dataset is not None else spec.model.l2
    problem = spec.but(l2=ridge, clip=clip)
    learners = data_of(problem)[0].learners
    return problem.but(graph=spec.network.graph or ("paper" if learners == 10 else "random"))


def _fit(effort: Effort, problem: Spec, steps: int | None, seeds: int | None) -> Effort:
    """The effort with as many rounds as are asked for, or as the data fill."""
    full = full_rounds(data_of(problem)[0])
    rounds = steps if steps is not None else int(min(effort.steps or full, full))
    if rounds > full:
        raise GossamerError(f"--steps {rounds}: the data have {full:g} full rounds; use --steps {full:g} or fewer.")
    return replace(effort, steps=rounds, seeds=seeds or effort.seeds)


def _finish(page: Page, table: Table | None, out: Path, json: str | None) -> None:
    """Write the page, and say what it says."""
    with undisturbed():
        page.write(out, command_line())
        put_json(json, page.results(command_line()))
    console = console_beside(json)
    if table is not None:
        console.print(table)
    for sentence in page.findings:
        console.print(escape(sentence), highlight=False)
    console.print(f"Numbers, pictures and words: {escape(str(out))}", highlight=False)
