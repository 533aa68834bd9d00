"""The paper's first experiment over several seeds: writes the numbers and the picture under docs/results/mushrooms/.

python examples/mushrooms.py [seeds]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import gossamer as gs

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "mushrooms"


def run(seed: int) -> gs.Record:
    algorithm = gs.ldp_gradient_tracking(
        step=gs.decay(1.0, 0.6), noise=gs.decay(1.0, [0.5 + 0.01 * i for i in range(1, 11)]), strict=False
    )
    stream, model = gs.datasets.mushrooms(learners=10, seed=seed), gs.LogisticRegression(l2=1e-2)
    return gs.simulate(algorithm, gs.Network.paper(), stream, model=model, steps=2000, seed=seed)


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    runs = [run(seed) for seed in range(seeds)]
    runs[0].plot(FOLDER / "run.png")
    numbers: list[dict[str, Any]] = [
        {
            "seed": seed,
            "accuracy": float(r.history.accuracy[-1]),
            "tracking_error": {
                "start": float(r.history.tracking_error[0]),
                "highest": float(r.history.tracking_error.max()),
                "end": float(r.history.tracking_error[-1]),
            },
            "optimality_gap": float(r.history.optimality_gap[-1]),
        }
        for seed, r in enumerate(runs)
    ]
    told = {"version": gs.__version__, "command": f"python examples/mushrooms.py {seeds}", "claim": runs[0].claim}
    (FOLDER / "results.json").write_text(json.dumps({**told, "runs": numbers}, indent=1) + "\n")
    for name in ("accuracy", "optimality_gap"):
        values = [n[name] for n in numbers]
        print(f"{name}: mean {np.mean(values):.4f}, {min(values):.4f} to {max(values):.4f}")
    for when in ("start", "highest", "end"):
        print(f"tracking error, {when}: mean {np.mean([n['tracking_error'][when] for n in numbers]):.2f}")


if __name__ == "__main__":
    main()
