"""From settings to a run that is ready to start, with all that can be checked checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gossamer import datasets
from gossamer.algorithms import ldp_gradient_tracking
from gossamer.cli import parse
from gossamer.cli.settings import (
    DEFAULTS,
    OWN_STEP,
    PAPER_NOISE,
    PAPER_STEP,
    STEPS,
    Draw,
    Kind,
    Law,
    Rows,
    Settings,
    Split,
)
from gossamer.cli.watch import watched
from gossamer.models import LogisticRegression, Model, RidgeRegression, SoftmaxRegression
from gossamer.networks import NAMES, Network, read_network
from gossamer.privacy import Gaussian, Laplace, Mechanism
from gossamer.simulate import Record, simulate
from gossamer.streams import Stream, from_csv
from gossamer.streams.csv import classes_in
from gossamer.types import GossamerError

CLASSES_AT_MOST = 20  # a numeric target with more values than this is taken for a quantity


def prepared(settings: Settings, before: Record | None) -> Callable[[], Record]:
    """The run, with all that can be checked before it starts checked."""
    stream, model, network = _parts(settings)
    private = settings.epsilon is not None
    # The paper's own settings break Assumption 4; they are run as published, and the run says so.
    published = settings.dataset is not None and settings.step is None and settings.noise is None and not private
    algorithm = ldp_gradient_tracking(
        step=parse.step_schedule(settings.step or (PAPER_STEP if settings.dataset and not private else OWN_STEP)),
        noise=None if private else parse.noise_schedule(settings.noise or PAPER_NOISE, network.m),
        strict=settings.strict and not published,
    )
    mechanism = _mechanism(settings, network.m)

    def run_it() -> Record:
        with watched(model.score) as callback:
            return simulate(
                algorithm,
                network,
                stream,
                model=model,
                privacy=mechanism,
                steps=settings.steps if settings.steps is not None else STEPS,
                gradient=settings.gradient,  # type: ignore[arg-type]
                seed=settings.seed,
                evaluate_every=settings.evaluate_every,
                callback=callback,
                resume=before,
            )

    return run_it


def _mechanism(settings: Settings, learners: int) -> Mechanism | None:
    if settings.epsilon is None:
        for option in ("law", "delta", "where", "horizon"):
            if getattr(settings, option) != getattr(DEFAULTS, option):
                raise GossamerError(f"--{option} goes with --epsilon: give a budget, or leave it out.")
        return None
    if settings.noise is not None:
        raise GossamerError("--epsilon finds the noise and --noise states it: give one of them.")
    budgets, horizon = parse.budgets(settings.epsilon, learners), settings.horizon
    options: Any = {"where": settings.where, "horizon": None if horizon is None else parse.rounds(horizon)}
    if settings.law == Law.laplace:
        return Laplace.for_budget(budgets, **options)
    return Gaussian.for_budget(budgets, settings.delta, **options)


def _parts(settings: Settings) -> tuple[Stream, Model, Network]:
    if settings.dataset is None and settings.csv is None:
        raise GossamerError("nothing to learn from: give the dataset 'mushrooms', or --csv FILE --target COLUMN.")
    if settings.dataset is not None and settings.csv is not None:
        raise GossamerError(f"two things to learn from, {settings.dataset} and {settings.csv}: give one.")
    own_graph = None if settings.graph is None or settings.graph in NAMES else read_network(settings.graph)
    learners = settings.learners or (own_graph.m if own_graph is not None else 10)
    if settings.csv is not None:
        stream, model = _from_csv(settings, learners)
    else:
        for option in ("target", "split_by", "categorical", "drop", "range", "per_round"):
            if getattr(settings, option) != getattr(DEFAULTS, option):
                raise GossamerError(f"--{option.replace('_', '-')} is for --csv FILE: leave it out for the mushrooms.")
        if settings.model not in (None, Kind.logistic):
            raise GossamerError(f"--model {settings.model}: the mushrooms have two classes; use logistic.")
        shape: Any = {"draw": settings.draw, "split": settings.split, "rows": settings.rows}
        stream = datasets.mushrooms(learners, settings.seed, **shape)
        model = LogisticRegression(settings.l2)
    default = "paper" if stream.learners == 10 else "random"
    return stream, model, read_network(settings.graph or default, stream.learners)


def _from_csv(settings: Settings, learners: int) -> tuple[Stream, Model]:
    assert settings.csv is not None
    for option, value, default in (
        ("--draw", settings.draw, Draw.random),
        ("--split", settings.split, Split.iid),
        ("--rows", settings.rows, Rows.raw),
    ):
        if value != default:
            raise GossamerError(f"{option} {value} is for the mushrooms: leave it out; a CSV's records come in order.")
    if settings.target is None:
        raise GossamerError(f"--csv {settings.csv} needs --target: name the column to predict.")
    classes, numeric = classes_in(settings.csv, settings.target)
    guess = Kind.logistic if classes <= 2 else Kind.ridge if numeric and classes > CLASSES_AT_MOST else Kind.softmax
    kind = Kind(settings.model) if settings.model else guess
    if kind is Kind.logistic and classes > 2:
        raise GossamerError(
            f"--model logistic: column {settings.target!r} has {classes} classes, expected 2; use softmax."
        )
    stream = from_csv(
        settings.csv,
        settings.target,
        learners,
        split_by=settings.split_by,
        per_round=settings.per_round,
        categorical=settings.categorical,
        drop=settings.drop,
        ranges=parse.column_ranges(settings.range),
        regression=kind is Kind.ridge,
    )
    if settings.learners is not None and stream.learners != settings.learners:
        raise GossamerError(
            f"--split-by {settings.split_by} names {stream.learners} learners and --learners is {settings.learners}: "
            "leave --learners out."
        )
    if kind is Kind.softmax:
        return stream, SoftmaxRegression(classes, settings.l2)
    return stream, LogisticRegression(settings.l2) if kind is Kind.logistic else RidgeRegression(settings.l2)
