"""Sample cells of the committed results, run again: does today's code give the numbers on the pages?

    python benchmarks/reproduce.py            docs/results/compare/regression and iid, two methods each, one seed

Prints the largest relative difference of the error curves. Results that were made before rounding was charged (version
0.1.0) have noise that is a hair smaller, so they agree to a few digits and not to the bit.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from gossamer.algorithms.registry import Exponents
from gossamer.experiments.compare import PUBLISHED_NOISE
from gossamer.experiments.search import Choice
from gossamer.experiments.study import Case, Effort, Study, least
from gossamer.spec import Spec

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "compare"
CELLS = (
    ("ldp_gradient_tracking", "best"),
    ("ldp_gradient_tracking", "published"),
    ("dsgd", "best"),
    ("push_pull", "best"),
)


def main() -> None:
    for page in ("regression", "iid"):
        told = json.loads((RESULTS / page / "results.json").read_text())
        given = told["problem"]
        problem = Spec.of(
            dataset=given["data"], split=given["split"], rows=given["rows"], graph=given["graph"], l2=given["l2"],
            clip=given["clip"],
        ) if given["data"] == "mushrooms" else Spec.of(
            dataset=given["data"], split=given["split"], graph=given["graph"], l2=given["l2"], clip=given["clip"]
        )  # fmt: skip
        study = Study(problem, Effort(told["steps"], 1, (1.0,)), None, least("tracking_error"))  # type: ignore[arg-type]
        for method, which in CELLS:
            entry = next((e for e in told["entries"] if (e["method"], e["which"]) == (method, which)), None)
            if entry is None:
                continue
            published = PUBLISHED_NOISE if which == "published" else None
            case = Case(method, None if published else told["epsilon"], which, published)
            tuned = "exponents" in entry and published is None
            chosen = Choice(
                entry["step"],
                exponents=Exponents(*entry["exponents"]) if tuned else None,
                split=entry.get("split"),
            )
            now = study.task(case, chosen, 0).outcome()
            then = entry["runs"][0]
            apart = max(
                float(np.max(np.abs(np.array(now[name]) / np.array(then[name]) - 1)))
                for name in ("tracking_error", "optimality_gap", "accuracy")
            )
            noise = max(abs(a / b - 1) for a, b in zip(now["noise"], then["noise"], strict=True))
            print(f"{page:12} {method:24} {which:10} errors differ by {apart:.1e}, noise by {noise:.1e}")


if __name__ == "__main__":
    main()
