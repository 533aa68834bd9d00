"""How fast ten ResNet-18s learn together on one GPU, against one model with all their images.

python benchmarks/gpu.py

The floor is one model's forward and backward over 400 images. The fleet's ten models take 40 each, in one CUDA graph on
ten streams; a whole round is gradients, clipping, both noises, mixing and Algorithm 1's update. Times are of one run on
an otherwise idle device; the ratio to the floor is what to compare.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import gossamer as gs
from gossamer.models.images import resnet18
from gossamer.models.torch import Fleet, NeuralNetwork
from gossamer.privacy import Unproved, simulated
from gossamer.records import Batch
from gossamer.rounds import Rounds, with_ridge
from gossamer.simulate.matrix import matrix_rounds
from gossamer.simulate.mixer import Mixer
from gossamer.simulate.play import one_round

LEARNERS, IMAGES, SIDE = 10, 40, 32


def milliseconds(work: Callable[[], Any], times: int = 20) -> float:
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / times * 1e3


class Same:
    """A stream that brings the same images again and again."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        rows = rng.integers(0, 256, size=(LEARNERS * IMAGES, 3 * SIDE * SIDE), dtype=np.uint8)
        labels = rng.integers(0, 10, size=len(rows)).astype(float)
        self.batch = Batch(rows, labels, np.full(LEARNERS, IMAGES))

    def arrivals(self, t: int) -> Batch:
        return self.batch


class Given:
    """Gradients that cost nothing, to time the rest."""

    def __init__(self, grad: Any) -> None:
        self.grad = grad

    def observe(self, batch: Batch) -> None:
        pass

    def gradient(self, theta: Any) -> Any:
        return self.grad


def measured(norm: Any, amp: bool) -> dict[str, float]:
    one = resnet18(10, 3, norm).cuda()
    x, y = (
        torch.randn(LEARNERS * IMAGES, 3, SIDE, SIDE, device="cuda"),
        torch.zeros(LEARNERS * IMAGES, device="cuda").long(),
    )

    def floor() -> None:
        one.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
            loss = cross_entropy(one(x), y)
        loss.backward()

    model = NeuralNetwork(
        lambda: resnet18(10, 3, norm), shape=(3, SIDE, SIDE), clip=gs.clip_l2(1.0, per="round"), device="cuda", amp=amp
    )
    stream: Any = Same()
    fleet: Any = Fleet(model, LEARNERS, "latest")
    network, algorithm = gs.Network.paper(), gs.ldp_gradient_tracking(gs.decay(0.1, 0.6))
    rows = network.rows(mixes=algorithm.mixes).of_kind(model.arrays)
    mix = Mixer(network, algorithm.mixes, model.arrays)
    noise = simulated(gs.decay(0.01, [0.51 + 0.01 * i for i in range(LEARNERS)]))
    boundary = Unproved(noise)
    state = [algorithm.init(rows, model.start(LEARNERS, 0))]
    fleet.observe(stream.arrivals(0))
    grad = with_ridge(fleet.gradient(state[0].theta), 0.0, state[0].theta).clone()
    given: Any = Given(grad)
    before = torch.cuda.memory_allocated()
    matrix: Any = matrix_rounds(algorithm, network, model.arrays, noise, state[0], 0)
    held = torch.cuda.memory_allocated() - before

    def round_with(memory: Any) -> None:
        rounds = Rounds(algorithm, rows, memory, boundary, 0.0, finite=False)
        state[0] = one_round(rounds, mix, state[0], stream.arrivals(500), 500)

    def whole() -> None:
        fleet.observe(stream.arrivals(500))
        point = matrix.state.theta
        matrix(with_ridge(fleet.gradient(point), 0.0, point), 500)

    def update() -> None:
        matrix(grad, 500)

    found = {
        "one model, 400 images": milliseconds(floor),
        "ten models' gradients": milliseconds(lambda: fleet.gradient(state[0].theta)),
        "noise, mixing, update in plain torch": milliseconds(lambda: round_with(given)),
        "as one kernel": milliseconds(update),
        "whole round": milliseconds(whole),
    }
    found["whole round / one model"] = found["whole round"] / found["one model, 400 images"]
    found["GiB"] = torch.cuda.max_memory_allocated() / 2**30
    found["state / (m n 4 bytes)"] = (held + grad.nbytes) / grad.nbytes  # with the gradients that it is given
    return found


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py needs a GPU that torch sees.")
    torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    print(f"{torch.cuda.get_device_name()}, ResNet-18, {LEARNERS} × {IMAGES} images of {SIDE} × {SIDE}; milliseconds")
    for norm in ("group", "batch"):
        for amp in (False, True):
            found = measured(norm, amp)
            shown = "   ".join(f"{name} {value:.2f}" for name, value in found.items())
            print(f"{norm:5} {'bf16' if amp else 'tf32'}   {shown}", flush=True)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
