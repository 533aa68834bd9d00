"""A small CNN on MNIST with ε = 8: history at the source over a window, per-image clipping, on a GPU.

    python benchmarks/history_cnn.py --device cuda          about a quarter of an hour on an H200

Ten learners on the paper's graph read 20 images a round, each once; every image's gradient is clipped to length 1, and
noise goes to the mean over all that the window remembers. λ is chosen by the accuracy on training images, on another
seed than those reported; "automatic" is step="auto".
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gossamer as gs
from gossamer.models.images import small_cnn
from gossamer.version import __version__

EPSILON, DELTA, PER_ROUND, CLIP, EXPONENT, TUNING = 8.0, 1e-5, 20, 1.0, 0.6, 1000


def run(step: float | None, seed: int, device: str, rounds: int) -> Any:
    """One run; `step` is λ at the first release, None: by rule."""
    stream = gs.datasets.mnist(10, seed=seed, draw="once", per_round=PER_ROUND)
    model = gs.NeuralNetwork(
        lambda: small_cnn(10, 1, 28), shape=(1, 28, 28), clip=gs.clip_l2(CLIP), device=device, remember=rounds,
        name="small CNN",
    )  # fmt: skip
    first = rounds // 4 + 1  # where the rule begins to release
    schedule: Any = "auto" if step is None else gs.decay(step * first**EXPONENT, EXPONENT)
    privacy = gs.Gaussian.for_budget(EPSILON, DELTA, where="source")
    return gs.simulate(
        gs.ldp_gradient_tracking(step=schedule), gs.Network.paper(), stream, model=model, privacy=privacy,
        steps=rounds, gradient="history", seed=seed, evaluate_every=rounds,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--automatic", type=int, default=5, help="seeds of the automatic step")
    parser.add_argument("--steps", default="2,4,8", help="λ to choose from")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("docs/results/history"))
    given = parser.parse_args()
    torch.use_deterministic_algorithms(True, warn_only=True)  # whether a module remembers is tested bit by bit
    found: dict[str, Any] = {"version": __version__, "epsilon": EPSILON, "delta": DELTA, "tried": {}}

    def measured(step: float | None, seed: int) -> tuple[float, float]:
        began = time.perf_counter()
        record = run(step, seed, given.device, given.rounds)
        test, train = (float(record.history[name][-1]) for name in ("accuracy", "train_accuracy"))
        took = time.perf_counter() - began
        print(f"step {step} seed {seed}: test {test:.4f}, training {train:.4f}, {took:.0f} s", flush=True)
        found["spent"], found["for_ever"] = (float(record.epsilon[name].max()) for name in ("spent", "for_ever"))
        found["releases"] = record.config["releases"][0]
        return test, train

    for step in map(float, given.steps.split(",")):
        found["tried"][step] = measured(step, TUNING)[1]
    best = max(found["tried"], key=found["tried"].get)
    wanted: list[tuple[str, float | None, int]] = [("tuned", best, given.seeds), ("automatic", None, given.automatic)]
    for name, chosen, seeds in wanted:
        found[name] = []
        for seed in range(seeds):
            found[name].append(measured(chosen, seed)[0])
            given.out.mkdir(parents=True, exist_ok=True)
            (given.out / "cnn.json").write_text(json.dumps({**found, "step": best}, indent=1) + "\n")
        print(f"{name}: {np.mean(found[name]):.4f} ({min(found[name]):.4f}–{max(found[name]):.4f})", flush=True)


if __name__ == "__main__":
    main()
