"""Seeded runs whose numbers must not move when the code is put in order: what each gives, as arrays by name.

`python tests/golden_runs.py FILE` writes them to FILE, and prints a digest of every array: two trees on one machine
agree where the digests do. The file in tests/golden was written by version 0.2.0; test_golden.py compares with it to
1e-9, since another machine's BLAS may round otherwise. Of its arrays "traced" alone is of 0.3.0: it has seeded Gaussian
noise, which is drawn learner by learner since then.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gossamer as gs
from gossamer.cli.commands import main
from gossamer.networks import read_network

RESULTS = ("tracking_error", "optimality_gap", "consensus_error", "accuracy")
STEPS = {"diadsp": (0.05, 0.0), "robust_push_pull": (0.05, 0.0), "ldol": (1.0, 0.75), "wang_basar": (1.0, 0.7),
         "tailored_gradient_tracking": (1.0, 0.98), "stochastic_subgradient": (1.0, 0.5)}  # fmt: skip
METHODS = (
    "ldp_gradient_tracking", "push_pull", "diadsp", "tailored_gradient_tracking", "stochastic_subgradient",
    "subgradient_rescaling", "ldol", "robust_push_pull", "wang_basar", "dsgd",
)  # fmt: skip
HEADER = ("age", "ward", "clinic", "dose", "ill")


def own_csv(header: Sequence[str] = HEADER) -> str:
    rng = np.random.default_rng(5)
    lines = [",".join(header)]
    for k in range(90):
        age, ward, dose = rng.integers(20, 90), "abc"[rng.integers(3)], rng.uniform(0, 5)
        ill = "yes" if age / 70 + dose / 5 + rng.normal() * 0.1 > 1.3 else "no"
        row = dict(zip(HEADER, (age, ward, ["north", "south", "west"][k % 3], f"{dose:.3f}", ill), strict=True))
        lines.append(",".join(str(row[name]) for name in header))
    return "\n".join(lines) + "\n"


def records() -> dict[str, np.ndarray]:
    """Every method with seeded noise on the mushrooms, through the library."""
    found = {}
    stream = gs.datasets.mushrooms(learners=10, seed=3)
    for method in METHODS:
        algorithm = getattr(gs, method)(gs.decay(*STEPS.get(method, (1.0, 0.6))), strict=False)
        noise = gs.privacy.simulated(gs.decay(0.1, 0.55), seed=4)
        run = gs.simulate(
            algorithm, gs.Network.paper(), stream, model=gs.LogisticRegression(1e-2), privacy=noise, steps=25, seed=3
        )
        found |= {f"{method}.{name}": run.history[name] for name in RESULTS} | {f"{method}.theta": run.theta}
    softmax, ridge = gs.SoftmaxRegression(2, 1e-2), gs.RidgeRegression(1e-2, gs.clip_l1(0.5))
    for name, model in (("softmax", softmax), ("ridge", ridge)):
        run = gs.simulate(
            gs.dsgd(gs.decay(1.0, 0.6)), gs.Network.paper(), stream, model=model, steps=20, gradient="latest"
        )
        found |= {f"{name}.theta": run.theta, f"{name}.accuracy": run.history.accuracy}
    return found


def claims() -> dict[str, np.ndarray]:
    """What exact mechanisms cost, and which noise they find."""
    found = {}
    stream = gs.datasets.mushrooms(learners=10, seed=3, draw="once", rows="l2")
    source = {"where": "source"}
    for name, mechanism, gradient in (
        ("laplace messages", gs.Laplace.for_budget(8.0), "history"),
        ("gaussian messages", gs.Gaussian.for_budget(8.0, 1e-5), "history"),
        ("laplace source", gs.Laplace.for_budget(8.0, **source), "latest"),
        ("gaussian source", gs.Gaussian.for_budget(8.0, 1e-5, **source), "latest"),
        ("gaussian stated", gs.Gaussian(gs.decay(1.0, 0.6), delta=1e-6), "latest"),
    ):
        algorithm = gs.ldp_gradient_tracking(gs.decay(1.0, 0.8))
        model = gs.LogisticRegression(1e-2)
        run = gs.simulate(
            algorithm, gs.Network.paper(), stream, model=model, privacy=mechanism, steps=12, gradient=gradient
        )
        columns = np.asarray([[*row] for row in run.epsilon.tolist()], dtype=float)
        found |= {f"{name}.epsilon": columns, f"{name}.noise": np.array(run.config["noise"], dtype=float)}
    return found


def _command(*words: str) -> str:
    """What the command prints."""
    before, out = sys.argv, io.StringIO()
    sys.argv = ["gossamer", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            main()
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"{words} ended with {ended.code}") from None
    finally:
        sys.argv = before
    return out.getvalue()


def _floats(value: object, at: str = "") -> dict[str, float]:
    """Every number in JSON, by its path."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return {}
    if isinstance(value, int | float):
        return {at: float(value)}
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return {path: v for k, inner in pairs for path, v in _floats(inner, f"{at}.{k}").items()}


def own_records() -> dict[str, np.ndarray]:
    """What the command of version 0.2.0 did with a user's own file, which today's does otherwise."""
    # Version 0.2.0 laid features out as the header has them, so that seeded noise fell on others: here both agree.
    (Path.cwd() / "sorted.csv").write_text(own_csv(sorted(HEADER)))
    ends = {"age": (-120.0, 120.0), "dose": (-5.0, 5.0)}
    split = gs.streams.from_csv(
        "sorted.csv", "ill", split_by="clinic", categorical=["ward"], ranges=_as_scaled_before(), seed=2
    )
    dealt = gs.streams.from_csv(
        "own.csv", "ill", 3, drop=["clinic"], classes=["no", "yes"], ranges=ends, categories={"ward": ["a", "b", "c"]}
    )
    found = {}
    for name, stream, noise, seed in (("csv", split, gs.decay(0.1, 0.6), 2), ("csv declared", dealt, None, 0)):
        record = gs.simulate(
            gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8), noise=noise), read_network("random", 3), stream,
            model=gs.LogisticRegression(l2=0.01), steps=15, seed=seed, evaluate_every=1,
        )  # fmt: skip
        found |= {f"run {name}.{key}": np.array(record.history[key], dtype=float) for key in RESULTS}
    return found


def _as_scaled_before() -> dict[str, tuple[float, float]]:
    """Numbers lay on 0 … 1 in version 0.2.0, between the least and the largest: as far below is what is −1 now."""
    rows = [line.split(",") for line in own_csv().splitlines()[1:]]
    columns = {name: [float(row[HEADER.index(name)]) for row in rows] for name in ("age", "dose")}
    return {name: (2 * min(values) - max(values), max(values)) for name, values in columns.items()}


def commands() -> dict[str, np.ndarray]:
    """The command's own runs, budgets and studies."""
    found = {}
    (Path.cwd() / "own.csv").write_text(own_csv())
    # What version 0.2.0 did where nothing was said.
    on_messages, at_source = (
        ("--where", "messages"),
        ("--where", "source", "--law", "gaussian", "--gradient", "latest", "--clip", "100"),
    )
    declared = ("--csv", "own.csv", "--target", "ill", "--learners", "3", "--drop", "clinic", "--classes", "no,yes",
                "--range", "age=-120:120,dose=-5:5", "--categories", "ward=a|b|c")  # fmt: skip
    for name, words in {
        "published": ("mushrooms", "--steps", "30"),
        "own step": ("mushrooms", "--steps", "20", "--step", "1,0.8", "--split", "by-class", "--gradient", "latest"),
    }.items():
        _command("run", *words, "--json", "run.json")
        run = json.loads(Path("run.json").read_text())
        found |= {f"run {name}.{key}": np.array(run["history"][key], dtype=float) for key in RESULTS}
    found |= own_records()
    for name, words in {
        "paper": ("--paper", "--rows", "l1", "--horizon", "50"),
        "found": ("--epsilon", "8", "--horizon", "inf", "--rows", "l1", *on_messages),
        "gaussian": ("--epsilon", "4", "--law", "gaussian", "--rows", "l2", "--horizon", "40", *on_messages),
        "source": ("--epsilon", "2", *at_source, *declared),
    }.items():
        printed = _floats(json.loads(_command("budget", *words, "--json")))
        found[f"budget {name}"] = np.array(list(printed.values()))
    few = ("--methods", "ldp_gradient_tracking,dsgd", "--jobs", "1", "--quick")
    _command("compare", "mushrooms", *few, "--steps", "20", "--seeds", "1", "--out", "compared")
    # Noise at the source has a clipper now, which version 0.2.0 had not: those numbers are others, and left out.
    _command("frontier", "mushrooms", *few, "--kinds", "Laplace on messages; Gaussian on messages", "--out", "traced")
    for study in ("compared", "traced"):
        numbers = _floats(_as_before(json.loads(Path(study, "results.json").read_text())))
        found[study] = np.array(list(numbers.values()))
    return found


def _as_before(told: dict[str, Any]) -> dict[str, Any]:
    """A study's numbers as version 0.2.0 laid them out, which tuned λ0 alone, and a frontier by the gap alone."""
    told = dict(told)
    if "points" in told:
        points = [point for point in told["points"] if point["chosen_by"] == "optimality_gap"]
        told["points"] = [{k: v for k, v in point.items() if k not in ("exponents", "split")} for point in points]
        return told
    told["tried"] = {
        method: {f"{choice['step']:g}": choice["errors"] for choice in tried} for method, tried in told["tried"].items()
    }
    told["entries"] = [
        {"step": entry["step"], "exponents": entry["exponents"][1:], "runs": entry["runs"]} for entry in told["entries"]
    ]
    return told


def everything() -> dict[str, np.ndarray]:
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return records() | claims() | commands()
        finally:
            os.chdir(here)


if __name__ == "__main__":
    arrays = everything()
    np.savez_compressed(sys.argv[1], **arrays)
    for name, array in arrays.items():
        print(hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16], array.shape, name)
