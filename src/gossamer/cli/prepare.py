"""From settings to a run that is ready to start, with all that can be checked checked."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gossamer import datasets
from gossamer.algorithms import ldp_gradient_tracking
from gossamer.algorithms.base import Algorithm
from gossamer.cli import parse
from gossamer.cli.settings import (
    CNN_STEP,
    DEFAULTS,
    DELTA,
    IMAGE_NOISE,
    IMAGE_STEP,
    IMAGE_STEPS,
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
from gossamer.errors import GossamerError
from gossamer.experiments.pictures import READ, Pictures
from gossamer.experiments.runs import epsilons
from gossamer.models import Clip, LogisticRegression, Model, RidgeRegression, SoftmaxRegression, clip_l1, clip_l2
from gossamer.networks import NAMES, Network, read_network
from gossamer.privacy import Gaussian, Laplace, Mechanism
from gossamer.schedules import Decay
from gossamer.simulate import Record, simulate
from gossamer.simulate.engine import setting_of
from gossamer.streams import Stream, from_csv
from gossamer.streams.csv import classes_in

CLASSES_AT_MOST = 20  # a numeric target with more values than this is taken for a quantity
CSV_OPTIONS = ("target", "split_by", "categorical", "categories", "classes", "drop", "range", "per_round")


class Prepared(NamedTuple):
    run: Callable[[Callable[[Record], None] | None], Record]  # with what keeps a record on the way
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
        step=parse.step_schedule(settings.step or _usual_step(settings)),
        noise=None if private else parse.noise_schedule(settings.noise or _paper_noise(settings), network.m),
        strict=settings.strict and not published,
    )
    mechanism = _mechanism(settings, network.m)
    if private:
        check_clip(model)
    steps, why = _steps(settings, stream)
    if settings.images and not private:
        why.append(cost(algorithm, network, stream, model, settings.gradient, steps))

    def run_it(keep: Callable[[Record], None] | None) -> Record:
        # A private run is kept at its end alone: two runs from one checkpoint would release the same state twice.
        with watched(model.score, None if private else keep) as callback:
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


def _usual_step(settings: Settings) -> str:
    if settings.dataset is None or settings.epsilon is not None:
        return OWN_STEP
    if not settings.images:
        return PAPER_STEP
    return CNN_STEP if settings.model == Kind.cnn else IMAGE_STEP


def _paper_noise(settings: Settings) -> str:
    return IMAGE_NOISE if settings.images else PAPER_NOISE


def cost(algorithm: Algorithm[Any], network: Network, stream: Stream, model: Any, gradient: Any, steps: int) -> str:
    """What exact noise of an algorithm's scales would cost, whatever it is, in a sentence."""
    if model.clip is None:
        return "ε = ∞: nothing bounds the gradient of a neural network; --clip C does."
    if not isinstance(algorithm.noise, Decay) or not np.all(np.asarray(algorithm.noise.initial) > 0):
        return "ε = ∞: there is no noise."
    try:
        setting = setting_of(algorithm, network, stream, model, gradient, steps, model.size)
        found = epsilons(Laplace(algorithm.noise).terms(setting), steps, 0.0)
    except GossamerError as error:
        return f"What exact noise of these scales would cost is not known: {error}"
    spent = max(math.inf if e is None else e for e in found)
    one = "one arrival of an image" if stream.rounds is None else "one image"
    unit = "a round's images" if model.clip.per == "round" else one
    return f"Exact noise of these scales would cost up to ε = {spent:.3g} in {steps} rounds, for {unit} of a learner."


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
    gradient = settings.gradient or (Gradients.latest if source or settings.images else Gradients.history)
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
    full, usual = full_rounds(stream), IMAGE_STEPS if settings.images else STEPS
    if full >= usual or not (private or settings.gradient == Gradients.latest):
        return usual, []
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
    if hasattr(model, "device") and model.clip is None:
        raise GossamerError(
            "--epsilon without --clip: nothing bounds the gradient of a neural network, so no privacy can be proved; "
            "give --clip C, such as --clip 1."
        )
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
        raise GossamerError(
            "nothing to learn from: give a dataset, mushrooms, mnist or cifar10, or --csv FILE --target COLUMN."
        )
    if settings.dataset is not None and settings.csv is not None:
        raise GossamerError(f"two things to learn from, {settings.dataset} and {settings.csv}: give one.")
    if not 0 <= settings.ridge < math.inf:
        raise GossamerError(f"--l2 {settings.ridge:g}: expected a finite number ≥ 0.")
    own_graph = None if settings.graph is None or settings.graph in NAMES else read_network(settings.graph)
    learners = settings.learners or (own_graph.m if own_graph is not None else 10)
    check_network_options(settings)
    of = _from_csv if settings.csv is not None else from_images if settings.images else _mushrooms
    stream, model = of(settings, learners)
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
    return datasets.mushrooms(learners, settings.seed, **shape), LogisticRegression(settings.ridge, _clip(settings))


def check_network_options(settings: Settings) -> None:
    if settings.images:
        return
    for option in ("norm", "stem", "device", "bf16", "clip_per"):
        if getattr(settings, option) != getattr(DEFAULTS, option):
            raise GossamerError(f"--{option.replace('_', '-')} is for mnist and cifar10: leave it out.")
    if settings.model in (Kind.resnet18, Kind.cnn):
        raise GossamerError(f"--model {settings.model} is for mnist and cifar10: leave it out.")


def pictures_of(settings: Settings, usual: Kind) -> Pictures:
    """The images and the network that learns them, `usual` where none is named."""
    kind = settings.model or usual
    if kind not in (Kind.resnet18, Kind.cnn):
        raise GossamerError(f"--model {kind}: images are learnt by resnet18 or cnn.")
    if kind == Kind.cnn and (settings.norm or settings.stem):
        raise GossamerError("--norm and --stem are for --model resnet18: leave them out.")
    _check_torch(settings.device)
    return Pictures(
        str(settings.dataset), settings.split, settings.graph or "paper", str(kind), settings.norm or "batch",
        settings.stem or "imagenet", device=settings.device, amp=settings.bf16,
    )  # fmt: skip


def _check_torch(device: str) -> None:
    if importlib.util.find_spec("torch") is None:
        raise GossamerError("neural networks need torch: install the extra, pip install 'gossamer-learning[nn]'.")
    try:
        known = importlib.import_module("torch").device(device).type in ("cpu", "cuda")
    except RuntimeError:
        known = False
    if not known:
        raise GossamerError(f"--device {device}: expected cpu, cuda, or one such as cuda:1.")


def from_images(settings: Settings, learners: int) -> tuple[Stream, Any]:
    """MNIST or CIFAR-10, and the network that learns it."""
    for option in (*(o for o in CSV_OPTIONS if o != "per_round"), "rows"):
        if getattr(settings, option) != getattr(DEFAULTS, option):
            raise GossamerError(f"--{option.replace('_', '-')} is not for images: leave it out.")
    problem = pictures_of(settings, Kind.resnet18)
    mixes = problem.net == Kind.resnet18 and problem.norm == "batch"
    if mixes and settings.per_round == 1:
        raise GossamerError("--per-round 1 with BatchNorm, which needs two images or more: use --norm group, or more.")
    draw: Any = {"draw": settings.draw, "split": settings.split, "per_round": settings.per_round or 40}
    clip = _clip(settings)
    if clip is not None:
        clip = replace(clip, per=settings.clip_per or ("round" if mixes else "record"))  # type: ignore[arg-type]
    elif settings.clip_per is not None:
        raise GossamerError(f"--clip-per {settings.clip_per} goes with --clip: give a length, or leave it out.")
    return READ[problem.data](learners, settings.seed, **draw), problem.network_model(clip, settings.ridge)


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
        return stream, SoftmaxRegression(classes, settings.ridge, _clip(settings))
    model = LogisticRegression if kind is Kind.logistic else RidgeRegression
    return stream, model(settings.ridge, _clip(settings))


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
        "per_round": settings.per_round or 1,
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
