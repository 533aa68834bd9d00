"""Figures 3 and 4 of the paper: ten neural networks learn MNIST or CIFAR-10 together, every method tuned alike.

The rule is the one of Figure 2 (gossamer.experiments.compare): exponents are fixed within each paper's constraints, λ0
is tried over one grid for all, and at every λ0 the noise is found anew, so that each learner's ε over the whole run is
the same *by that method's own recursion*: the ε of Algorithm 1 with the published step and noise. A network has no
Lipschitz constant, so a round's gradient is clipped (in ‖·‖₁, loosely) and every later gradient is charged in full;
the ε protects a learner's batch of one round, and it is huge. λ0 is chosen by the accuracy on training images after
the first `tuning_rounds`, on another seed. Beside that, Algorithm 1 and Push–Pull are run under the published noise,
with the published step and with a tuned one.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gossamer import datasets
from gossamer.errors import GossamerError
from gossamer.experiments.catalogue import METHODS, OURS
from gossamer.experiments.compare import TUNING, Entry
from gossamer.experiments.problems import split_as_given
from gossamer.experiments.runs import PUBLISHED, Result, Runs, code_of, epsilons
from gossamer.models import Clip, clip_l1
from gossamer.networks import Network, read_network
from gossamer.privacy import Laplace, Mechanism, simulated
from gossamer.privacy.accountant import Terms
from gossamer.schedules import Decay, decay
from gossamer.simulate import simulate
from gossamer.simulate.engine import setting_of
from gossamer.version import __version__

PAPERS_METHODS = (
    OURS, "push_pull", "diadsp", "tailored_gradient_tracking", "stochastic_subgradient", "subgradient_rescaling",
    "ldol",
)  # fmt: skip
PUBLISHED_STEP, PUBLISHED_NOISE = 0.6, 0.01
BOTH = (OURS, "push_pull")  # that the paper runs under the same noise
CURVES = ("accuracy", "train_accuracy", "consensus_error", "parameter_norm")
SHAPES = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
READ = {"mnist": datasets.mnist, "cifar10": datasets.cifar10}
NAMES = {"mnist": "MNIST", "cifar10": "CIFAR-10"}


@dataclass(frozen=True)
class Pictures:
    """Images, who has which, the network that each learner trains, and how.

    net     "resnet18" or "cnn", a small one that a CPU can train
    norm    ResNet's "batch" or "group" normalisation
    stem    its first layer: "imagenet" (7 × 7, then pooling) or "cifar" (3 × 3)
    clip    of each round's mean gradient, ‖·‖₁
    tested  how many of the 10 000 test images
    """

    data: str
    split: str = "iid"
    graph: str = "paper"
    net: str = "resnet18"
    norm: str = "batch"
    stem: str = "imagenet"
    per_round: int = 40
    clip: float = 1e5
    tested: int = 10_000
    device: str = "cpu"
    amp: bool = False

    def __post_init__(self) -> None:
        if self.data not in SHAPES:
            raise GossamerError(f"data={self.data!r}: expected {' or '.join(SHAPES)}.")

    def stream(self, seed: int) -> Any:
        return _stream(self.data, seed, self.split, self.per_round, self.tested)

    def network(self) -> Network:
        return read_network(self.graph, 10)

    def model(self, device: str | None = None) -> Any:
        return self.network_model(clip_l1(self.clip, per="round"), 0.0, device)

    def network_model(self, clip: Clip | None, l2: float, device: str | None = None) -> Any:
        """The network as a model, which needs torch."""
        from gossamer.models import images  # torch is an extra
        from gossamer.models.torch import NeuralNetwork

        shape: Any = SHAPES[self.data]
        norm, stem = self.norm, self.stem

        def build() -> Any:
            if self.net == "cnn":
                return images.small_cnn(10, shape[0], shape[1])
            return images.resnet18(10, shape[0], norm, stem)  # type: ignore[arg-type]

        name = "small CNN" if self.net == "cnn" else f"ResNet-18, {self.norm} norm, {self.stem} stem"
        return NeuralNetwork(
            build, shape=shape, clip=clip, l2=l2, device=device or self.device, amp=self.amp, name=name
        )


@lru_cache(maxsize=2)
def _stream(data: str, seed: int, split: Any, per_round: int, tested: int) -> Any:
    stream = split_as_given(READ[data](10, seed, "random", split, per_round))
    assert stream.test is not None
    stream.test = replace(stream.test, rows=stream.test.rows[:tested], labels=stream.test.labels[:tested])
    return stream


@dataclass(frozen=True)
class PicturePlan:
    """How much work a comparison is."""

    steps: int
    seeds: int
    tuning_rounds: int
    grid: tuple[float, ...]  # of λ0
    evaluations: int = 10


QUICK = PicturePlan(30, 1, 15, (0.06, 0.6), 5)
USUAL = PicturePlan(1500, 3, 300, tuple(0.6 * 10 ** (k / 2) for k in range(-3, 2)))


@dataclass(frozen=True)
class PictureTask:
    """One run, as plain values."""

    problem: Pictures
    method: str
    step: float  # λ0
    seed: int
    steps: int  # over which ε is spent
    rounds: int  # that are run
    epsilon: float | str | None  # of every learner; "published": the paper's noise; None: no noise
    evaluations: int = 10

    def key(self) -> str:
        method = METHODS[self.method]
        said = {
            "version": __version__,
            "noise": [method.noise_exponent, method.noise_ratio],
            "code": code_of(self.method),
        }
        said |= asdict(self)
        if Path(self.problem.graph).is_file():
            said |= {"content": hashlib.sha256(Path(self.problem.graph).read_bytes()).hexdigest()}
        if isinstance(self.epsilon, float):
            said |= {"epsilon": f"{self.epsilon:.9g}"}  # another machine may find another last digit
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]

    def outcome(self) -> Result:
        """Accuracies on the way, and what exact noise of these scales would cost; a run that diverges says so."""
        stream, network = self.problem.stream(self.seed), self.problem.network()
        algorithm = replace(METHODS[self.method].build(self.step), strict=False)
        said: Result = {"method": self.method, "step": self.step, "seed": self.seed, "diverged": False}
        noise = None
        if self.epsilon is not None:
            terms = _terms(self.problem, self.method, self.step, self.steps, self.epsilon)
            scale = Decay(tuple(t.initial for t in terms), tuple(t.exponent for t in terms), terms[0].ratio)
            noise = simulated(scale, self.seed)
            said |= {"noise": [t.initial for t in terms], "epsilon": epsilons(terms, self.steps, 0.0)}
        model = self.problem.model()  # a device that is not there is no divergence
        try:
            run = simulate(
                algorithm, network, stream, model=model, privacy=noise,
                steps=self.rounds, gradient="latest", evaluate_every=max(1, self.rounds // self.evaluations),
                seed=self.seed,
            )  # fmt: skip
        except GossamerError as error:
            return said | {"diverged": True, "why": str(error)}
        said |= {name: [float(f"{v:.5g}") for v in run.history[name]] for name in CURVES}
        learners = {f"learners_{name}": np.round(run.learners[name], 4).tolist() for name in CURVES[:2]}
        return said | learners | {"t": run.history.t.tolist(), "notes": list(run.notes), "claim": run.claim}


@lru_cache(maxsize=64)
def _terms(problem: Pictures, method: str, step: float, steps: int, epsilon: float | str) -> list[Terms]:
    network, model = problem.network(), problem.model("cpu")
    algorithm = replace(METHODS[method].build(step), strict=False)
    setting = setting_of(algorithm, network, problem.stream(0), model, "latest", steps, model.size)
    mechanism: Mechanism
    if epsilon == PUBLISHED:
        mechanism = Laplace(decay(PUBLISHED_NOISE, [0.5 + 0.01 * (i + 1) for i in range(network.m)]))
    else:
        how = METHODS[method]
        mechanism = Laplace.for_budget(
            float(epsilon), horizon=steps, exponent=how.noise_exponent, ratio=how.noise_ratio
        )
    return mechanism.terms(setting)


def published_epsilon(problem: Pictures, steps: int) -> float:
    """Algorithm 1's largest ε_i over the run, under the paper's step and noise."""
    found = epsilons(_terms(problem, OURS, PUBLISHED_STEP, steps, PUBLISHED), steps, 0.0)
    return max(math.inf if e is None else e for e in found)


@dataclass(frozen=True)
class PictureComparison:
    problem: Pictures
    plan: PicturePlan
    epsilon: float
    entries: list[Entry]
    tried: dict[str, dict[float, float]]  # accuracy on training images by method and λ0, on the tuning seed

    def entry(self, method: str, which: str) -> Entry | None:
        return next((e for e in self.entries if e.method == method and e.which == which), None)


def compare_pictures(
    problem: Pictures, runs: Runs, plan: PicturePlan = USUAL, methods: Sequence[str] = PAPERS_METHODS
) -> PictureComparison:
    target = published_epsilon(problem, plan.steps)
    cases: list[tuple[str, str, float | str]] = [(method, "best", target) for method in methods]
    cases += [(method, "published noise", PUBLISHED) for method in BOTH if method in methods]
    tuning = [
        PictureTask(problem, method, step, TUNING, plan.steps, plan.tuning_rounds, epsilon, 1)
        for method, _, epsilon in cases
        for step in plan.grid
    ]
    found = iter(runs(tuning))
    tried = {_name(m, which): {step: _score(next(found)) for step in plan.grid} for m, which, _ in cases}
    wanted: list[tuple[str, str, float, float | str]]
    wanted = [
        (m, which, max(by, key=by.__getitem__), e) for (m, which, e), by in zip(cases, tried.values(), strict=True)
    ]
    wanted += [(m, PUBLISHED, PUBLISHED_STEP, PUBLISHED) for m in BOTH if m in methods]
    tasks = [
        PictureTask(problem, method, step, seed, plan.steps, plan.steps, epsilon, plan.evaluations)
        for seed in range(plan.seeds)  # seed by seed: what a stopped comparison has is of use
        for method, _, step, epsilon in wanted
    ]
    results = runs(tasks)
    entries = [
        Entry(method, which, step, results[k :: len(wanted)]) for k, (method, which, step, _) in enumerate(wanted)
    ]
    return PictureComparison(problem, plan, target, entries, tried)


def _name(method: str, which: str) -> str:
    return method if which == "best" else f"{method}, {which}"


def _score(run: Result) -> float:
    """What is tuned for: the accuracy on training images, so that test images decide nothing."""
    return -1.0 if run["diverged"] else float(run["train_accuracy"][-1])
