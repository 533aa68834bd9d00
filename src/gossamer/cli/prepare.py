"""From settings to a run that is ready to start, with all that can be checked checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from gossamer import datasets
from gossamer.algorithms import ldp_gradient_tracking
from gossamer.cli import parse
from gossamer.cli.settings import (
    DEFAULTS,
    DELTA,
    OWN_STEP,
    PAPER_NOISE,
    PAPER_STEP,
    STEPS,
    Draw,
    Gradients,
    Kind,
    Law,
    Settings,
    Where,
)
from gossamer.cli.watch import watched
from gossamer.models import Clip, LogisticRegression, Model, RidgeRegression, SoftmaxRegression, clip_l1, clip_l2
from gossamer.networks import NAMES, Network, read_network
from gossamer.privacy import Gaussian, Laplace, Mechanism
from gossamer.simulate import Record, simulate
from gossamer.streams import Stream, from_csv
from gossamer.streams.csv import classes_in
from gossamer.types import GossamerError

CLASSES_AT_MOST = 20  # a numeric target with more values than this is taken for a quantity
CSV_OPTIONS = ("target", "split_by", "categorical", "categories", "classes", "drop", "range", "per_round")


class Prepared(NamedTuple):
    run: Callable[[], Record]
    said: list[str]  # what was decided that the user did not say


def prepared(given: Settings, before: Record | None) -> Prepared:
    """The run, with all that can be checked before it starts checked."""
    private = given.epsilon is not None
    _check_privacy_options(given)
    settings, said = resolved(given)
    stream, model, network = parts(settings)
    # The paper's own settings break Assumption 4; they are run as published, and the run says so.
    published = settings.dataset is not None and settings.step is None and settings.noise is None and not private
    algorithm = ldp_gradient_tracking(
        step=parse.step_schedule(settings.step or (PAPER_STEP if settings.dataset and not private else OWN_STEP)),
        noise=None if private else parse.noise_schedule(settings.noise or PAPER_NOISE, network.m),
        strict=settings.strict and not published,
    )
    mechanism = _mechanism(settings, network.m)
    if private:
        check_clip(model)
    steps, why = _steps(settings, stream)

    def run_it() -> Record:
        with watched(model.score) as callback:
            return simulate(
                algorithm,
                network,
                stream,
                model=model,
                privacy=mechanism,
                steps=steps,
                gradient=settings.gradient,  # type: ignore[arg-type]
                seed=settings.seed,
                evaluate_every=settings.evaluate_every,
                callback=callback,
                resume=before,
            )

    return Prepared(run_it, said + why)


def resolved(settings: Settings) -> tuple[Settings, list[str]]:
    """With the gradient and the draw that go with the noise, where they were not given; and a sentence that says so."""
    source = settings.where == Where.source
    if source and settings.gradient == Gradients.history:
        raise GossamerError(
            "--where source with --gradient history would release a record again in every round: "
            "use --gradient latest, or --where messages."
        )
    if source and settings.csv is None and settings.draw == Draw.random:
        raise GossamerError("--where source needs every record to be read once: use --draw once, or --where messages.")
    gradient = settings.gradient or (Gradients.latest if source else Gradients.history)
    draw = settings.draw or (Draw.once if source else Draw.random)
    chosen = [f"--gradient {gradient}"] * (settings.gradient is None)
    chosen += [f"--draw {draw}"] * (settings.draw is None and settings.csv is None)
    said = [f"Noise at the source goes to each record once: {' and '.join(chosen)}."] if source and chosen else []
    return replace(settings, gradient=str(gradient), draw=settings.draw if settings.csv else str(draw)), said


def full_rounds(stream: Stream) -> float:
    """How many rounds bring every learner as many records as the first; ∞ where records never end."""
    return math.inf if stream.rounds is None else int((stream.room(2**40) // stream.room(1)).min())


def check_rounds(option: str, rounds: float, stream: Stream) -> None:
    """Refuse more rounds than the data fill: with fewer records in a round one would weigh more than is accounted."""
    full = full_rounds(stream)
    if rounds > full:
        raise GossamerError(
            f"{option} {rounds:g}: the data have {full:g} full rounds, and privacy is proved for full ones only: "
            f"use {option} {full:g} or fewer."
        )


def _steps(settings: Settings, stream: Stream) -> tuple[int, list[str]]:
    """How many rounds, and a sentence where the data decide it."""
    private = settings.epsilon is not None
    if settings.steps is not None:
        if private:
            check_rounds("--steps", settings.steps, stream)
        return settings.steps, []
    full = full_rounds(stream)
    if full >= STEPS or not (private or settings.gradient == Gradients.latest):
        return STEPS, []
    return int(full), [f"{full:g} rounds, as many full ones as the data have; --steps asks for fewer."]


def delta_of(settings: Settings) -> float:
    """δ of the claim: Gaussian noise has one, Laplace noise has none."""
    if settings.law == Law.laplace:
        return 0.0
    return DELTA if settings.delta is None else settings.delta


def check_delta(settings: Settings) -> None:
    if settings.delta is not None and not 0 < settings.delta < 1:
        raise GossamerError(f"--delta {settings.delta:g}: expected above 0 and below 1, such as 1e-5.")


def check_clip(model: Model) -> None:
    if isinstance(model, RidgeRegression) and model.clip is None:
        raise GossamerError(
            "--model ridge without --clip: nothing bounds the gradient of a square, so no privacy can be proved; "
            "give --clip C, such as --clip 1."
        )


def _check_privacy_options(settings: Settings) -> None:
    if settings.epsilon is None:
        for option in ("law", "delta", "where", "horizon"):
            if getattr(settings, option) != getattr(DEFAULTS, option):
                raise GossamerError(f"--{option} goes with --epsilon: give a budget, or leave it out.")
        return
    if settings.noise is not None:
        raise GossamerError("--epsilon finds the noise and --noise states it: give one of them.")
    check_delta(settings)
    if settings.delta is not None and settings.law == Law.laplace:
        raise GossamerError(
            f"--delta {settings.delta:g}: Laplace noise keeps its budget without δ; leave it out, or --law gaussian."
        )


def _mechanism(settings: Settings, learners: int) -> Mechanism | None:
    if settings.epsilon is None:
        return None
    horizon = None if settings.horizon is None else parse.rounds(settings.horizon)
    return for_budget(settings, learners, horizon)


def for_budget(settings: Settings, learners: int, horizon: float | None) -> Mechanism:
    """Noise for the budgets of --epsilon."""
    assert settings.epsilon is not None
    budgets = parse.budgets(settings.epsilon, learners)
    options: Any = {"where": settings.where, "horizon": horizon}
    if settings.law == Law.laplace:
        return Laplace.for_budget(budgets, **options)
    return Gaussian.for_budget(budgets, delta_of(settings), **options)


def parts(settings: Settings) -> tuple[Stream, Model, Network]:
    """What there is to learn from, what is learnt, and who talks to whom."""
    if settings.dataset is None and settings.csv is None:
        raise GossamerError("nothing to learn from: give the dataset 'mushrooms', or --csv FILE --target COLUMN.")
    if settings.dataset is not None and settings.csv is not None:
        raise GossamerError(f"two things to learn from, {settings.dataset} and {settings.csv}: give one.")
    if not 0 <= settings.l2 < math.inf:
        raise GossamerError(f"--l2 {settings.l2:g}: expected a finite number ≥ 0.")
    own_graph = None if settings.graph is None or settings.graph in NAMES else read_network(settings.graph)
    learners = settings.learners or (own_graph.m if own_graph is not None else 10)
    stream, model = _from_csv(settings, learners) if settings.csv is not None else _mushrooms(settings, learners)
    default = "paper" if stream.learners == 10 else "random"
    return stream, model, read_network(settings.graph or default, stream.learners)


def _clip(settings: Settings) -> Clip | None:
    """The clipper in the norm that the noise is accounted in."""
    if settings.clip is None:
        return None
    if not 0 < settings.clip < math.inf:
        raise GossamerError(f"--clip {settings.clip:g}: expected a finite number above 0.")
    return clip_l1(settings.clip) if settings.law == Law.laplace else clip_l2(settings.clip)


def _mushrooms(settings: Settings, learners: int) -> tuple[Stream, Model]:
    for option in CSV_OPTIONS:
        if getattr(settings, option) != getattr(DEFAULTS, option):
            raise GossamerError(f"--{option.replace('_', '-')} is for --csv FILE: leave it out for the mushrooms.")
    if settings.model not in (None, Kind.logistic):
        raise GossamerError(f"--model {settings.model}: the mushrooms have two classes; use logistic.")
    shape: Any = {"draw": settings.draw, "split": settings.split, "rows": settings.rows}
    return datasets.mushrooms(learners, settings.seed, **shape), LogisticRegression(settings.l2, _clip(settings))


def _from_csv(settings: Settings, learners: int) -> tuple[Stream, Model]:
    assert settings.csv is not None
    for option in ("draw", "split", "rows"):
        value = getattr(settings, option)
        if value != getattr(DEFAULTS, option):
            raise GossamerError(
                f"--{option} {value} is for the mushrooms: leave it out; a CSV's records come in order."
            )
    given = csv_arguments(settings, learners)
    kind, classes = Kind(given.pop("model")), given.pop("outputs")
    stream = from_csv(**given)
    if settings.learners is not None and stream.learners != settings.learners:
        raise GossamerError(
            f"--split-by {settings.split_by} names {stream.learners} learners and --learners is {settings.learners}: "
            "leave --learners out."
        )
    if kind is Kind.softmax:
        return stream, SoftmaxRegression(classes, settings.l2, _clip(settings))
    model = LogisticRegression if kind is Kind.logistic else RidgeRegression
    return stream, model(settings.l2, _clip(settings))


def csv_arguments(settings: Settings, learners: int) -> dict[str, Any]:
    """from_csv's arguments, and with them the "model" and how many "outputs" it has."""
    if settings.target is None:
        raise GossamerError(f"--csv {settings.csv} needs --target: name the column to predict.")
    ranges, named = parse.column_ranges(settings.range), parse.class_names(settings.classes)
    kind, classes = _kind(settings, named, settings.target in ranges)
    return {
        "path": settings.csv,
        "target": settings.target,
        "learners": learners,
        "split_by": settings.split_by,
        "per_round": settings.per_round,
        "categorical": settings.categorical,
        "categories": parse.column_categories(settings.categories),
        "classes": named,
        "drop": settings.drop,
        "ranges": ranges,
        "regression": kind is Kind.ridge,
        "model": kind.value,
        "outputs": classes,
    }


def _kind(settings: Settings, named: list[str] | None, quantity: bool) -> tuple[Kind, int]:
    """The model and how many classes it has; what is declared decides, so that no record does."""
    assert settings.csv is not None
    assert settings.target is not None
    classes, numeric = classes_in(settings.csv, settings.target, named)
    if named is None and (quantity or (numeric and classes > CLASSES_AT_MOST)):
        guess = Kind.ridge
    else:
        guess = Kind.logistic if classes <= 2 else Kind.softmax
    kind = Kind(settings.model) if settings.model else guess
    if kind is Kind.logistic and classes > 2:
        raise GossamerError(
            f"--model logistic: column {settings.target!r} has {classes} classes, expected 2; use softmax."
        )
    return kind, classes
