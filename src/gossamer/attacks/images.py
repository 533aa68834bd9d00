"""An image that was sent as a gradient: found again, by looking for one whose gradient is the same.

Zhu, Liu & Han ("Deep Leakage from Gradients", NeurIPS 2019) move an image until its gradient is the one that was sent;
Geiping, Bauermeister, Dröge & Moeller ("Inverting Gradients: How Easy Is It to Break Privacy in Federated Learning?",
NeurIPS 2020) compare the directions of the two alone, and prefer images of little total variation TV. So do we:

    x̂ = argmin_x  1 − Σ_t ω_t r_tᵀ∇_t(x) / √(Σ_t ω_t ‖r_t‖² · Σ_t ω_t ‖∇_t(x)‖²)  +  TV(x)/1000

where r_t is what was read off the wire for the image's own gradient in release t, and 1/ω_t the variance of its noise.

The label needs no search: the gradient of the last layer's bias is p − e_b, whose one negative entry is b's (Zhao,
Mopuri & Bilen, "iDLG: Improved Deep Leakage from Gradients", 2020). Where each gradient is clipped to the length c and
noise is Gaussian, the cosine is no heuristic: the likelihood of what was seen falls with it.

Where the picture shows nothing, somebody with a list may still know: `named` is how surely k images that it might be
are told apart by the likelihood of what was read, as gossamer.attacks.suspects does for records of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
import torch
from torch import nn
from torch.func import vmap

from gossamer.attacks.kinds import KINDS, Kind, where_of
from gossamer.attacks.suspects import most_guessed
from gossamer.attacks.wire import Heard, Scene, listen, read_gradients, received
from gossamer.errors import GossamerError
from gossamer.models import Clip, Gradient
from gossamer.models.images import small_cnn
from gossamer.models.torch import NeuralNetwork, clip_rows
from gossamer.networks import Network
from gossamer.privacy import Gaussian
from gossamer.privacy.releases import every
from gossamer.schedules import Decay
from gossamer.streams import OnePass
from gossamer.types import Array, Integers

STEP = Decay(0.1, 0.8)
CLIP = 1.0
VARIATION = 1e-3
PACE = 0.1  # of Adam, in pixels' units, −1 … 1
ROUNDS = 8
RELEASES = every(2, after=3)  # of the history: rounds 3, 5 and 7


@dataclass(frozen=True)
class Pictured:
    """What is attacked: the first image of each of the first `images` learners."""

    stream: OnePass
    shape: tuple[int, int, int]
    network: Network
    delta: float = 1e-5
    images: int = 3
    suspects: int = 50
    searches: int = 200  # steps of one
    seed: int = 0

    def scene(self, kind: Kind | None, epsilon: float = np.inf) -> Scene:
        """A run without noise, or with this kind of it."""
        clip = None if kind is None else Clip(2, CLIP)
        model = NeuralNetwork(self.build, shape=self.shape, clip=clip, dtype=torch.float64, name="small CNN")
        mechanism = None
        if kind is not None:
            releases = RELEASES if kind == "history" else None
            mechanism = Gaussian.for_budget(epsilon, self.delta, where=where_of(kind), releases=releases)
        gradient: Gradient = "history" if kind == "history" else "latest"
        return Scene(self.network, self.part, model, STEP, ROUNDS, gradient, mechanism, self.seed)

    def build(self) -> nn.Module:
        channels, size, _ = self.shape
        return small_cnn(channels=channels, size=size)

    @property
    def part(self) -> OnePass:
        counts = self.stream.room(2**40)
        if counts.min() < ROUNDS:
            raise GossamerError(f"learner {int(counts.argmin())} has fewer than {ROUNDS} images: give it more.")
        rng = np.random.default_rng([self.seed, 3])
        return self.stream.only([rng.permutation(int(n))[:ROUNDS] for n in counts])


class Read(NamedTuple):
    """What was read off the wire for one release: about the image's own gradient at θ, with noise of this deviation."""

    theta: Any
    gradient: Any
    deviation: float


class Picture(NamedTuple):
    """One image, attacked."""

    kind: Kind | None  # None: no noise
    epsilon: float
    learner: int
    image: Array  # as it was found, in 0 … 1
    error: float  # mean squared, of pixels in 0 … 1
    label: int  # as it was read
    named: float  # the chance that the likeliest of the suspects is the image


class Album(NamedTuple):
    """All that was found."""

    originals: list[Array]
    labels: list[int]
    pictures: list[Picture]
    guessed: list[float]  # for each image, the error of the suspects' mean: what somebody says who looks at nothing
    suspects: int
    delta: float

    def of(self, kind: Kind | None, epsilon: float) -> list[Picture]:
        return [one for one in self.pictures if (one.kind, one.epsilon) == (kind, epsilon)]

    def allowed(self, epsilon: float) -> float:
        return most_guessed(epsilon, self.delta, self.suspects)


def decibels(error: float) -> float:
    """The peak signal to noise ratio of a mean squared error."""
    return float(-10 * np.log10(max(error, 1e-12)))


def attack_images(pictured: Pictured, epsilons: Sequence[float], progress: Callable[[int, int], None]) -> Album:
    """Without noise, and under every kind of it at all ε, the largest first."""
    cases: list[tuple[Kind | None, float]] = [(None, np.inf)]
    cases += [(kind, epsilon) for kind in KINDS for epsilon in sorted(epsilons, reverse=True)]
    pictures: list[Picture] = []
    for done, (kind, epsilon) in enumerate(cases):
        progress(done, len(cases))
        pictures += attack_one(pictured, kind, epsilon)
    progress(len(cases), len(cases))
    return Album(*originals(pictured), pictures, guess_errors(pictured), pictured.suspects, pictured.delta)


def originals(pictured: Pictured) -> tuple[list[Array], list[int]]:
    scene = pictured.scene(None)
    first = [int(_suspects(scene, i, pictured)[0]) for i in range(pictured.images)]
    return [_shown(scene, k) for k in first], [int(scene.stream.table.labels[k]) for k in first]


def guess_errors(pictured: Pictured) -> list[float]:
    """For each image, the squared error of the mean of all suspects."""
    scene, errors = pictured.scene(None), list[float]()
    for i in range(pictured.images):
        listed = np.array([_shown(scene, int(k)) for k in _suspects(scene, i, pictured)])
        errors.append(float(((listed.mean(axis=0) - listed[0]) ** 2).mean()))
    return errors


def attack_one(pictured: Pictured, kind: Kind | None, epsilon: float) -> Iterator[Picture]:
    """Every image under one kind of noise."""
    scene = pictured.scene(kind, epsilon)
    heard = listen(scene)
    for i in range(pictured.images):
        reads = read_image(scene, heard, i)
        label = read_label(scene, reads)
        suspects = _suspects(scene, i, pictured)
        share = _posterior(scene, reads, suspects)
        image = _to_pixels(search(scene, reads, label, pictured.searches))
        error = float(((image - _shown(scene, int(suspects[0]))) ** 2).mean())
        yield Picture(kind, epsilon, i, image, error, label, float(share.max()))


# -- what is on the wire -----------------------------------------------------------------------------------------------


def read_image(scene: Scene, heard: Heard, learner: int) -> list[Read]:
    """The gradient of a learner's first image, by whoever knows its others: of every release that has it in it.

    On messages it is that of the first message with the image in it, s_i(1) = Σ_j C_ij s_j(0) + λ_0 g + noise; what
    later ones add is left out.
    """
    start = torch.as_tensor(scene.start[learner])
    mechanism = scene.mechanism
    if mechanism is None:
        return [Read(start, torch.as_tensor(read_gradients(scene, heard, learner)[0]), 0.0)]
    terms = heard.boundary.ledgers[learner].terms
    if mechanism.where == "messages":
        left = heard.sent[1]["s"][learner] - received(scene, heard, 0, learner)["s"]
        return [Read(start, torch.as_tensor(left / scene.step(0)), terms.scale(1) / scene.step(0))]
    gradients = read_gradients(scene, heard, learner)
    if scene.gradient == "latest":
        return [Read(start, torch.as_tensor(gradients[0]), terms.scale(0))]
    reads = []
    own = learner * scene.rounds
    for t in terms.releases.before(scene.rounds):
        theta = torch.as_tensor(heard.sent[t]["theta"][learner])
        others = clipped_gradients(scene, theta, np.arange(own + 1, own + t + 1)).sum(dim=0)
        mine = (t + 1) * torch.as_tensor(gradients[t]) - others
        reads.append(Read(theta, mine, float((t + 1) * terms.scale(int(t)))))
    return reads


def clipped_gradients(scene: Scene, theta: Any, which: Integers) -> Any:
    """(images, n): each image's own gradient at θ, as a learner clips it."""
    model: Any = scene.model
    table = scene.stream.table
    module = model.module(theta)
    each = model.record_gradients(module, model.inputs(table.rows[which]), model.targets(table.labels[which]))
    rows = torch.cat([vmap(model.flat)(part) for part in each.values()], dim=1).to(torch.float64)
    return rows if model.clip is None else clip_rows(rows, model.clip)


def read_label(scene: Scene, reads: Sequence[Read]) -> int:
    """b, from the last layer's bias, whose gradient is p − e_b."""
    model: Any = scene.model
    classes = model.module(reads[0].theta)[-1].out_features
    weights = [1 / max(read.deviation, 1e-12) ** 2 for read in reads]
    bias = sum(w * read.gradient[-classes:] for w, read in zip(weights, reads, strict=True))
    return int(bias.argmin())


# -- the search --------------------------------------------------------------------------------------------------------


def search(scene: Scene, reads: Sequence[Read], label: int, steps: int) -> Any:
    """The image whose gradients point where those that were read do; from grey, by Adam with a fading pace."""
    model: Any = scene.model
    modules = [model.module(read.theta) for read in reads]
    target = torch.tensor([label])
    weights = torch.tensor([1 / max(read.deviation, 1e-12) ** 2 for read in reads], dtype=torch.float64)
    weights = weights / weights.sum()
    length = sum(w * (read.gradient**2).sum() for w, read in zip(weights, reads, strict=True)).sqrt()
    image = torch.zeros(1, *model.shape, dtype=torch.float64, requires_grad=True)
    by = torch.optim.Adam([image], lr=PACE)
    fading = torch.optim.lr_scheduler.CosineAnnealingLR(by, steps)
    for _ in range(steps):
        by.zero_grad()
        along, own = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        for module, read, w in zip(modules, reads, weights, strict=True):
            loss = model.loss(module(image), target)
            parts = torch.autograd.grad(loss, list(module.parameters()), create_graph=True)
            gradient = torch.cat([model.flat(part) for part in parts])
            along, own = along + w * (gradient @ read.gradient), own + w * (gradient @ gradient)
        apart = 1 - along / (own.sqrt() * length + 1e-30)
        (apart + VARIATION * variation(image)).backward()
        by.step()
        fading.step()
        with torch.no_grad():
            image.clamp_(-1, 1)
    return image.detach()[0]


def variation(image: Any) -> Any:
    """Total variation: how far neighbouring pixels are apart, in the mean."""
    down, across = image.diff(dim=-2).abs().mean(), image.diff(dim=-1).abs().mean()
    return down + across


# -- suspects ----------------------------------------------------------------------------------------------------------


def _suspects(scene: Scene, learner: int, pictured: Pictured) -> Integers:
    """Numbers in the table: a learner's first image, then others' images."""
    own = learner * scene.rounds + np.arange(scene.rounds)
    others = np.setdiff1d(np.arange(len(scene.stream.table)), own)
    if pictured.suspects - 1 > len(others):
        raise GossamerError(f"{pictured.suspects} suspects, and others have {len(others)} images: use fewer.")
    rng = np.random.default_rng([pictured.seed, learner])
    return np.concatenate([own[:1], rng.choice(others, pictured.suspects - 1, replace=False)])


def _posterior(scene: Scene, reads: Sequence[Read], suspects: Integers) -> Array:
    """How likely each suspect is, by what was read; without noise, the one whose gradient is that."""
    likelihood = np.zeros(len(suspects))
    for theta, gradient, deviation in reads:
        off = ((clipped_gradients(scene, theta, suspects) - gradient) ** 2).sum(dim=1).numpy()
        likelihood -= off / (2 * max(deviation, 1e-9) ** 2)
    return np.asarray(np.exp(likelihood - scipy.special.logsumexp(likelihood)))


def _to_pixels(x: Any) -> Array:
    """(channels, height, width) on −1 … 1 to pixels on 0 … 1."""
    return np.asarray((x.numpy() + 1) / 2)


def _shown(scene: Scene, which: int) -> Array:
    model: Any = scene.model
    return _to_pixels(model.inputs(scene.stream.table.rows[[which]])[0])
