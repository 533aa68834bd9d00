"""What breaks on networks that change, and what does not: docs/results/changing, in under a minute.

    python benchmarks/changing.py

Ten learners, each with a quadratic of its own (three records, ridge 0.1), Network.paper_one_way(), no noise. The error
is the distance of a learner's model to θ*, the mean over the learners.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import gossamer as gs
from gossamer import NetworkSchedule
from gossamer.algorithms import METHODS
from gossamer.streams import from_arrays

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "changing"
M, N, ROUNDS, EVERY, SEEDS = 10, 4, 2000, 20, (0, 1)
PROBABILITIES = (0.0, 0.01, 0.03, 0.1, 0.3)
SHOWN = 0.1  # the probability of the picture's first half
NET, DENSE = gs.Network.paper_one_way(), gs.Network.exponential(M)
RING = gs.Network.ring(M)
MODEL = gs.RidgeRegression(l2=0.1)
WAYS = {  # how lost pushes are got over: (method, lost) and what it is called
    ("push_pull", "sums"): "Push–Pull, running sums",
    ("push_pull", "dropped"): "Push–Pull, dropped",
    ("ldp_gradient_tracking", "ahead"): "Algorithm 1, read ahead",
    ("ldp_gradient_tracking", "sums"): "Algorithm 1, running sums",
    ("ldp_gradient_tracking", "dropped"): "Algorithm 1, dropped",
}
TURNS = [[(j, i) for j, i, _ in DENSE.edges()][k::3] for k in range(3)]
KINDS = {
    "failures 0.1": NetworkSchedule.of(NET).failing(0.1),
    "… both ways": NetworkSchedule.of(NET).failing(0.1, both_ways=True),
    "sleep 0.1": NetworkSchedule.of(NET).sleeping(0.1),
    "two networks": NetworkSchedule.of([NET, RING], every=3),
    "turns": NetworkSchedule.turns(DENSE, TURNS),
    "away": NetworkSchedule.of(DENSE).leaving(3, ROUNDS // 4).joining(3, ROUNDS // 2),
}
STEPS = {"diadsp": gs.decay(0.02, 0.0), "robust_push_pull": gs.decay(0.02, 0.0), "push_pull": gs.decay(0.3, 0.6)}


def records() -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(M, 3, N)) * rng.uniform(0.5, 1.5, size=(M, 1, N))
    X[:, :, -1] = 1
    return from_arrays(X, X @ np.array([1, -2, 3, 0.5]) + rng.normal(size=(M, 3)) + 2 * rng.normal(size=(M, 1)))


STREAM = records()


def errors(name: str, network: Any, strict: bool = False) -> list[float]:
    """The error at every evaluation."""
    method = METHODS.find(name)
    algorithm = method.make(STEPS.get(name, gs.decay(0.3, method.step_exponent)), strict=False)
    run = gs.simulate(
        replace(algorithm, strict=strict), network, STREAM, model=MODEL, steps=ROUNDS, evaluate_every=EVERY
    )
    return [float(one) for one in run.history.tracking_error]


def losing(name: str, lost: Any, p: float) -> list[float]:
    """The error's geometric mean over the seeds."""
    each = [errors(name, NetworkSchedule.of(NET, seed=seed).failing(p, lost=lost)) for seed in SEEDS]
    return [float(one) for one in np.exp(np.log(each).mean(axis=0))]


def measured() -> dict[str, Any]:
    ways = {said: {p: losing(*way, p) for p in PROBABILITIES} for way, said in WAYS.items()}
    kinds: dict[str, dict[str, float | None]] = {}
    for name, method in METHODS.entries().items():
        if not method.compared or name.endswith("_own"):
            continue
        row: dict[str, float | None] = {"fixed": errors(name, NET)[-1]}
        for said, schedule in KINDS.items():
            try:
                row[said] = errors(name, schedule, strict=True)[-1]
            except gs.GossamerError:
                row[said] = None
        kinds[name] = row
    return {"rounds": ROUNDS, "ways": ways, "kinds": kinds}


def draw(found: dict[str, Any]) -> None:
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for said, by_p in found["ways"].items():
        style = {"linestyle": ":" if "dropped" in said else "-", "color": "C1" if "Algorithm" in said else "C0"}
        style |= {"linestyle": "--"} if said == WAYS["ldp_gradient_tracking", "sums"] else {}
        left.semilogy(range(0, ROUNDS + 1, EVERY), by_p[SHOWN], label=said, **style)
        right.loglog(PROBABILITIES[1:], [by_p[p][-1] for p in PROBABILITIES[1:]], marker="o", **style)
    left.set(xlabel="round", ylabel="distance to θ*", title=f"each link loses {SHOWN:.0%} of its messages")
    right.set(xlabel="probability that a message is lost", title=f"after {ROUNDS} rounds")
    left.legend(fontsize="small")
    figure.savefig(FOLDER / "lost.png", dpi=110)


def shown(error: float | None) -> str:
    if error is None:
        return "refused"
    return f"{error:.1e}" if math.isfinite(error) else "∞"


def page(found: dict[str, Any]) -> str:
    lost = ["| | " + " | ".join(f"{p:g}" for p in PROBABILITIES) + " |", "|---" * (1 + len(PROBABILITIES)) + "|"]
    for said, by_p in found["ways"].items():
        lost.append(f"| {said} | " + " | ".join(shown(by_p[p][-1]) for p in PROBABILITIES) + " |")
    columns = ["fixed", *KINDS]
    kinds = ["| | " + " | ".join(columns) + " |", "|---" * (1 + len(columns)) + "|"]
    for name, row in found["kinds"].items():
        kinds.append(f"| `{name}` | " + " | ".join(shown(row[column]) for column in columns) + " |")
    return PAGE.format(version=gs.__version__, rounds=ROUNDS, lost="\n".join(lost), kinds="\n".join(kinds))


PAGE = """# Networks that change: what breaks, and what does not

`python benchmarks/changing.py` made this page, version {version}, in under a minute. Ten learners, each with a
quadratic of its own, `Network.paper_one_way()`, no noise, {rounds} rounds, steps λ0/(t+1)^v of each method's own v.
Shown is the distance of a learner's model to θ*, the mean over the learners; where links fail, its geometric mean over
two seeds.

## Lost messages

Every link loses a round's messages with the probability on top.

{lost}

![The error over rounds, and against the probability of a loss](lost.png)

- **Dropped**, the naive treatment, is biased for good: what was lost of a tracker's sum is missing in what θ follows.
- **Running sums** keep the sum, and Push–Pull comes to θ* as if nothing were lost, only a little later.
- **Algorithm 1 needs more.** Its s has gathered Σ λ 1ᵀg, and θ moves by what s changes. With running sums alone every
  loss stirs s, and steps that fall do not make that less. **Read ahead**, receivers take a link that is down to bring
  what it brought last, and settle when it is up again: s comes to rest, and so does θ. Where more than 70 % of the
  messages are lost, reading ahead diverges, and is refused; running sums do not.

## Every method on every kind of network

Links that fail (one way, or both at once), learners that sleep, two networks by turns (three rounds each), a third of
`Network.exponential(10)`'s links in each round, and learner 3 away for a quarter of the run. What is "refused",
`simulate` refuses in a sentence: see [Networks](../../networks.md#networks-that-change).

{kinds}
"""


if __name__ == "__main__":
    began = time.perf_counter()
    FOLDER.mkdir(parents=True, exist_ok=True)
    result = measured()
    (FOLDER / "changing.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (FOLDER / "README.md").write_text(page(result), encoding="utf-8")
    draw(result)
    print(f"{FOLDER}: {time.perf_counter() - began:.0f} s")
