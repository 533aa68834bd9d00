"""Figures 3 and 4 of the paper: ten neural networks learn MNIST or CIFAR-10 together, every method tuned alike.

The budget of every method is the ε of Algorithm 1 with the published step and noise. A network has no Lipschitz
constant, so a round's gradient is clipped (in ‖·‖₁, loosely) and every later gradient is charged in full; the ε
protects a learner's batch of one round, and it is huge. λ0 is chosen by the accuracy on training images, so that
test images decide nothing, after the first `tuning_rounds`, on another seed. Beside that, Algorithm 1 and Push–Pull are
run under the published noise, with the published step and with a tuned one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gossamer.experiments.compare import BOTH, PUBLISHED, published_epsilon
from gossamer.experiments.runs import Runs
from gossamer.experiments.search import Choice
from gossamer.experiments.study import OURS, Case, Effort, Studied, Study, most
from gossamer.spec import Spec

PAPERS_METHODS = (
    OURS, "push_pull", "diadsp", "tailored_gradient_tracking", "stochastic_subgradient", "subgradient_rescaling",
    "ldol",
)  # fmt: skip
PUBLISHED_STEP, PUBLISHED_NOISE = Choice(0.6), 0.01
ONLY_NOISE = "published noise"
CLIP = 1e5  # of each round's mean gradient, ‖·‖₁
QUICK = Effort(30, 1, (0.06, 0.6), tuning_rounds=15, evaluations=5)
USUAL = Effort(1500, 3, tuple(0.6 * 10 ** (k / 2) for k in range(-3, 2)), tuning_rounds=300, evaluations=10)


def compare_pictures(problem: Spec, runs: Runs, effort: Effort, methods: Sequence[str] = PAPERS_METHODS) -> Studied:
    study = Study(problem, effort, runs, most("train_accuracy"))
    target = published_epsilon(study, PUBLISHED_STEP, PUBLISHED_NOISE)
    both = [method for method in BOTH if method in methods]
    cases = [Case(method, target) for method in methods]
    cases += [Case(method, None, ONLY_NOISE, PUBLISHED_NOISE) for method in both]
    tried = study.tune(cases)
    wanted = [(case, study.best(tried[case])) for case in cases]
    wanted += [(Case(method, None, PUBLISHED, PUBLISHED_NOISE), PUBLISHED_STEP) for method in both]
    return study.report(study.evaluate(wanted), tried, target)


def picture_problem(spec: Spec, quick: bool) -> Spec:
    """The description of such a comparison: rounds are clipped, and a quick one has a small network and few tests."""
    small = {"model": spec.model.model or "cnn", "tested": 200} if quick else {"model": spec.model.model or "resnet18"}
    return spec.but(clip=CLIP, clip_per="round", graph=spec.network.graph or "paper", **small)


def shorten(effort: Effort, steps: int | None, seeds: int | None) -> Effort:
    effort = replace(effort, steps=steps or effort.steps, seeds=seeds or effort.seeds)
    return replace(effort, tuning_rounds=min(effort.tuning_rounds or 1, effort.steps or 1))
